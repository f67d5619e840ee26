"""Numba's private parts are used in one module, which says what is missing; without them kernels do the same."""

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.types.functions import BaseFunction

import bayou
from bayou.kernels import numba_private
from bayou.kernels.compiling import kernel

ROOT = Path(__file__).parents[2]
# Learns and predicts; says how kernels were compiled, and all bits.
LEARN = """
import hashlib, json, sys
import numpy as np
from bayou.core import registry
from bayou.core.batch import Batch
from bayou.kernels.compiling import is_plain
rng = np.random.default_rng(0)
digest = hashlib.sha256()
record = registry.find(sys.argv[1])
learner = record.load()(n_features=64, dtype=record.dtype)
for _ in range(5):
    indices, values = rng.integers(0, 64, 500).astype(np.uint32), rng.normal(size=500).astype(record.dtype)
    labels, groups = rng.integers(0, 2, 100) * 2.0 - 1.0, np.ones(500, np.uint8) if learner.wants_groups else None
    batch = Batch.from_arrays(np.arange(0, 501, 5), indices, values, labels, groups=groups)
    learner.learn(batch)
    digest.update(learner.predict(batch, horizon="later").probability.tobytes())
for array in learner._arrays().values():
    digest.update(np.ascontiguousarray(array).tobytes())
print(json.dumps([is_plain(), digest.hexdigest()]))
"""


def learned(name: str, **environment: str) -> tuple[bool, str, str]:
    run = [sys.executable, "-c", LEARN, name]
    done = subprocess.run(run, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return (*json.loads(done.stdout), done.stderr)


def test_no_other_module_uses_them():
    own = Path(numba_private.__file__)
    private = re.compile(
        r"^\s*(from|import) (numba\.(?!extending\b|types\b)|numba\._|llvmlite\.(?!ir\b|binding\b))", re.MULTILINE
    )
    assert private.search(own.read_text())
    for file in Path(bayou.__file__).parent.rglob("*.py"):
        if file != own:
            assert not private.search(file.read_text()), file


def test_no_other_package_builds_llvm_instructions():
    kernels = Path(numba_private.__file__).parent
    builders = [
        file
        for file in kernels.parent.rglob("*.py")
        if file.parent != kernels and re.search(r"import intrinsic|from llvmlite import ir", file.read_text("utf-8"))
    ]
    assert builders == []


def test_the_versions_that_were_tried_are_those_that_are_allowed():
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    low, high = numba_private.OLDEST, (numba_private.NEWEST[0], numba_private.NEWEST[1] + 1)
    assert f"numba>={low[0]}.{low[1]},<{high[0]}.{high[1]}" in allowed


def test_all_of_them_are_there_and_work():
    assert numba_private._missing == []
    assert numba_private._try() == ""
    assert numba_private.why_plain() is None or os.environ.get(numba_private.PLAIN)


@pytest.fixture
def asked_afresh(monkeypatch):
    monkeypatch.delenv(numba_private.PLAIN, raising=False)
    numba_private.why_plain.cache_clear()
    yield
    monkeypatch.undo()
    numba_private.why_plain.cache_clear()


def test_a_name_that_is_gone_is_named_with_the_versions(asked_afresh, monkeypatch):
    monkeypatch.setattr(numba_private, "_missing", [])
    placeholder = numba_private._private("numba.core.codegen:JITCodeLibrary._moved")
    assert isinstance(placeholder, type)
    numba_private._private("numba.core.elsewhere:Thing")
    assert numba_private._missing == ["numba.core.codegen.JITCodeLibrary._moved", "numba.core.elsewhere.Thing"]
    why = numba_private.why_plain()
    assert why.startswith(f"Numba {numba.__version__} with llvmlite ")
    assert why.endswith(" has no numba.core.codegen.JITCodeLibrary._moved (bayou was tried with Numba 0.64 to 0.68)")


def test_with_a_numba_that_was_not_tried_a_kernel_is_compiled_first(asked_afresh, monkeypatch):
    monkeypatch.setattr(numba_private, "NEWEST", (0, 64))
    monkeypatch.setattr(numba_private, "OLDEST", (0, 63))
    newer = numba.version_info.short > (0, 64)
    assert numba_private.why_plain() is None  # it works
    numba_private.why_plain.cache_clear()

    def changed(self, args, return_type):
        raise AttributeError("no such flag\nmore")

    monkeypatch.setattr(numba_private._Compiler, "_compile_core", changed)
    why = numba_private.why_plain()
    assert why is None or "cannot compile a kernel, AttributeError: no such flag (bayou was tried" in why
    assert (why is not None) == newer


def test_without_them_a_kernel_is_what_njit_makes(asked_afresh, monkeypatch, capsys):
    monkeypatch.setenv(numba_private.PLAIN, "1")
    monkeypatch.setattr("bayou.kernels.compile_notices._said", set())
    monkeypatch.setattr(bayou, "quiet", False)

    @kernel
    def half(x):
        return x / 2.0

    @kernel(forceinline=True)
    def halves(values):
        total = 0.0
        for value in values:
            total += half(value)
        return total

    @kernel
    def inverse(x):
        return 1.0 / x

    values = np.array([1.0, 2.0])
    values.flags.writeable = False
    assert halves(values) == 1.5
    assert not isinstance(halves, numba_private.Kernel)
    assert inverse(0.0) == np.inf
    said = capsys.readouterr().err
    assert said == (
        "kernels are compiled the plain way, which makes a first start slower, for BAYOU_PLAIN_KERNELS is set\n"
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["marginal", "bank"])
def test_without_them_the_same_bits_are_learned(name):
    plain, fast = learned(name, BAYOU_PLAIN_KERNELS="1"), learned(name, BAYOU_PLAIN_KERNELS="")
    assert (plain[0], fast[0]) == (True, False)
    assert plain[1] == fast[1]
    assert plain[2].count("kernels are compiled the plain way") == 1


@pytest.mark.long
def test_without_them_the_laws_hold():
    run = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/laws", "-k", "marginal"]
    env = {**os.environ, "BAYOU_PLAIN_KERNELS": "1"}
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(r"^\d\d+ passed", done.stdout.splitlines()[-1]), done.stdout[-500:]


def test_other_code_is_typed_as_ever_while_a_kernel_is_compiled():
    """Nothing of Numba is replaced for the whole process: another thread may be compiling code of its own."""
    usual, seen = BaseFunction.get_call_type, []
    compiling, looked = threading.Event(), threading.Event()

    class Watch:
        def __enter__(self):
            compiling.set()
            assert looked.wait(30)

        def __exit__(self, *unused):
            pass

    class Nowhere(numba_private.StoredCode):
        def __init__(self, function):
            pass

        def find(self, sig, processor):
            return None

        def keep(self, sig, processor, content):
            pass

    def look():
        assert compiling.wait(30)
        seen.append(BaseFunction.get_call_type is usual)
        looked.set()

    other = threading.Thread(target=look)
    other.start()
    added = numba_private.Kernel(lambda x: x + x * x, {}, Nowhere, Watch)
    assert added(2.0) == 6.0
    other.join()
    assert seen == [True]
