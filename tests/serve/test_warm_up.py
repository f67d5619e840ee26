"""Nothing is left to be compiled, or loaded, when the first request comes."""

import subprocess
import sys

import pytest

CODE = """
import json, sys
from pathlib import Path
from bayou.kernels.cache import KernelCache
from bayou.serve.service import new_learner
from tests.serve.serving import running

def main():
    asked, load = [], KernelCache.load_overload
    def spied(self, *args):
        asked.append(self._name)
        return load(self, *args)
    KernelCache.load_overload = spied
    name, folder = sys.argv[1:]
    rows = [{"a": k / 2, "b": f"x{k}", "label": k % 2} for k in range(3)]
    with running(Path(folder), {"default": lambda: new_learner(name, [], 12, {})}) as server:
        assert asked
        asked.clear()
        server.post("/learn", rows[0])
        server.post("/learn", rows)
        server.post("/learn", b'{"c\\\\u00e9": 1, "label": 1}')
        server.post("/predict", rows[0])
        server.post("/predict", rows)
        server.post("/predict?id=1", rows[0])
        server.post("/label", {"id": "1", "label": 1})
        assert server.client.get("/info").json()["examples"] == 6
    print(json.dumps(asked))

main()
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["marginal", "bank"])
def test_nothing_is_left_to_be_compiled(name, tmp_path):
    told = subprocess.run([sys.executable, "-c", CODE, name, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
