"""What the server says that it can be asked, and what it then answers."""

import subprocess
import sys
from pathlib import Path

import pytest

from bayou.serve.tokens import Tokens
from tests.serve.serving import learner, process, running, token_file

WRITE = "w" * 20
MB = 1 << 20
# A row that is as described may be one that a model does not take: its label has another name or other values.
RULES = """
[checks]
positive_data_acceptance.expected-statuses = ["200"]
[[operations]]
include-method = "POST"
checks.positive_data_acceptance.expected-statuses = ["200", "422"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state")) as started:
        yield started


def described(server) -> dict:
    return server.client.get("/openapi.json").json()["paths"]


def schema_of(operation: dict) -> dict:
    return operation["responses"]["200"]["content"]["application/json"]["schema"]


def fits(value, schema: dict) -> bool:
    """Whether JSON is what a schema says, as far as these schemas say it."""
    if "oneOf" in schema:
        return sum(fits(value, one) for one in schema["oneOf"]) == 1
    types = {
        "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
        "null": type(None),
    }  # fmt: skip
    named = schema.get("type", list(types))
    if not any(isinstance(value, types[name]) for name in ([named] if isinstance(named, str) else named)):
        return False
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return set(schema.get("required", ())) <= set(value) and all(
            fits(one, known[name]) if name in known else others if isinstance(others, bool) else fits(one, others)
            for name, one in value.items()
        )
    return not isinstance(value, list) or (
        len(value) >= schema.get("minItems", 0) and all(fits(one, schema.get("items", {})) for one in value)
    )


def test_each_answer_fits_one_schema_and_no_other(server):
    paths, row = described(server), {"age": 37, "site": "a.com"}
    label = {"id": "a", "label": 1}
    for path, body in (
        *(("/predict", body) for body in (row, [row, row], row | {"id": "a"}, [row | {"id": "b"}, row])),
        *(("/learn", body) for body in (row | {"label": 1}, [row | {"label": 1}])),
        *(("/label", body) for body in (label, label, [label, {"id": "z", "label": 0}])),
    ):
        told = server.post(path, body)
        assert told.status_code == 200
        assert fits(told.json(), schema_of(paths[path]["post"])), (path, body, told.text)
    for _ in range(2):
        told = server.post("/learn?request=r", row | {"label": 1})
        assert fits(told.json(), schema_of(paths["/learn"]["post"])), told.text
    for path in ("/features", "/info", "/models", "/healthz", "/readyz"):
        assert fits(server.client.get(path).json(), schema_of(paths[path]["get"])), path
    assert fits(server.post("/snapshot", b"").json(), schema_of(paths["/snapshot"]["post"]))
    refused = server.post("/learn", [{"a": [1], "label": 1}])
    error = paths["/learn"]["post"]["responses"]["422"]["content"]["application/json"]["schema"]
    assert fits(refused.json(), error)
    assert not fits({"predictions": []}, schema_of(paths["/predict"]["post"]))


@pytest.mark.parametrize("task", ["classes", "number_bank"])
def test_answers_of_other_tasks_fit_too(tmp_path, task):
    name, recipe = {"classes": ("classes", {}), "number_bank": ("bank", {"task": "regression"})}[task]
    with running(tmp_path, {"default": learner(name, **recipe)}) as server:
        paths = described(server)
        for k in range(4):
            told = server.post("/learn", {"a": k, "label": k % 3})
            assert fits(told.json(), schema_of(paths["/learn"]["post"])), told.text
        assert fits(server.post("/predict", {"a": 1}).json(), schema_of(paths["/predict"]["post"]))


def test_what_is_refused_is_described_as_refused(server):
    paths = described(server)
    (top,) = paths["/features"]["get"]["parameters"]
    assert server.client.get(f"/features?top={top['schema']['maximum']}").status_code == 200
    assert server.client.get(f"/features?top={top['schema']['maximum'] + 1}").status_code == 422
    for path, empty in (("/predict", []), ("/learn", []), ("/label", [])):
        body = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert not fits(empty, body)
        assert server.post(path, empty).status_code == 422


@pytest.mark.parametrize("level", ["5e-324", "1e-30", "0.00000001", "0.9999999999", "0.99999999999999999", "1", "0"])
def test_a_level_that_cannot_be_told_from_0_or_1_breaks_nothing(server, level):
    assert server.post(f"/predict?level={level}", {"a": 1}).status_code == 422
    assert server.post("/predict", {"a": 1}).status_code == 200
    level = described(server)["/predict"]["post"]["parameters"][0]["schema"]
    for good in (level["minimum"], level["maximum"]):
        assert server.post(f"/predict?level={good}", {"a": 1}).status_code == 200


ADDRESSES = {
    "/predict": "POST", "/learn": "POST", "/label": "POST", "/snapshot": "POST", "/features": "GET, HEAD",
    "/info": "GET, HEAD", "/events": "GET, HEAD", "/": "GET, HEAD", "/docs": "GET, HEAD", "/openapi.json": "GET, HEAD",
    "/healthz": "GET, HEAD", "/readyz": "GET, HEAD", "/models": "GET, HEAD", "/metrics": "GET, HEAD",
    "/models/default/info": "GET, HEAD", "/models/default/events": "GET, HEAD", "/models/default/learn": "POST",
}  # fmt: skip


@pytest.mark.parametrize(("path", "allowed"), ADDRESSES.items())
def test_other_methods_are_refused_with_those_that_are_taken(server, path, allowed):
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        if method not in allowed:
            told = server.client.request(method, path)
            assert (told.status_code, told.headers["allow"]) == (405, allowed), method


@pytest.mark.parametrize("path", [path for path, allowed in ADDRESSES.items() if "HEAD" in allowed])
def test_head_answers_as_get_does_without_a_body(server, path):
    told = server.client.head(path)
    assert (told.status_code, told.content) == (200, b"")
    if not path.endswith("/events"):
        got = server.client.get(path)
        assert told.headers["content-type"] == got.headers["content-type"]


# --- requests made from what it says ----------------------------------------------------------------------------------


def fuzz(url: str, folder: Path, *options: str) -> None:
    """Have schemathesis look for contradictions; the stream of events, which never ends, is left out."""
    (folder / "rules.toml").write_text(RULES)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "rules.toml"), "run"]
    command += [f"{url}/openapi.json", "--exclude-path-regex", "/events$", "--checks", "all", "--seed", "1"]
    command += ["--continue-on-failure", "--generation-database", "none", *options]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_requests_made_from_the_description_find_no_contradiction(tmp_path):
    pytest.importorskip("schemathesis", reason="the extra fuzz is not installed")
    with process(tmp_path / "state") as server:
        before = server.memory()
        fuzz(f"http://127.0.0.1:{server.port}", tmp_path, "--max-examples", "100")
        assert server.get("/features") == 200
        assert server.memory() - before < 50 * MB


@pytest.mark.long
def test_nor_do_they_with_tokens_and_several_models(tmp_path):
    pytest.importorskip("schemathesis", reason="the extra fuzz is not installed")
    tokens = Tokens.of(token_file(tmp_path, f"write {WRITE}"))
    with running(tmp_path / "state", {"a": learner(), "b": learner()}, tokens=tokens) as server:
        header = ("--header", f"Authorization: Bearer {WRITE}")
        fuzz(server.server.url, tmp_path, *header, "--max-examples", "30")
        told = server.post("/models/a/predict", {"x": 1}, headers={"authorization": f"Bearer {WRITE}"})
        assert told.status_code == 200
