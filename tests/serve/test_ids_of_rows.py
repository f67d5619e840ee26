"""Rows under an id: who is remembered, whose label is known, and when `id` is a column like any other."""

import json
import math

import pytest

from bayou import train
from bayou.serve.state_folder import replayed
from tests.serve.serving import learner, running

NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state"), {"default": learner("marginal")}) as started:
        yield started


@pytest.mark.parametrize("missing", [b"NaN", b"null", b"-Infinity", rb'"\ud800"'])
def test_a_row_is_remembered_or_refused(server, missing):
    key = repr(missing)
    body = b'{"age": %s, "id": %s}' % (missing, json.dumps(key).encode())
    for many in (body, b"[%s]" % body):
        told = server.post("/predict", many)
        row = (told.json().get("predictions") or [told.json()])[0]
        assert told.status_code == 422 or row["remembered"] in ("remembered", "known")
    outcome = server.post("/label", {"id": key, "label": 1}).json()["outcome"]
    assert outcome == ("joined" if told.status_code == 200 else "early")


def test_rows_with_nan_are_one_to_a_list_as_alone(server):
    rows = [{"age": math.nan, "site": "a.com"}, {"age": 3.0, "site": "b\n.com"}, {"age": None, "site": "a.com"}]
    told = server.post("/predict", json.dumps(rows).encode()).json()["predictions"]
    alone = [server.post("/predict", json.dumps(row).encode()).json() for row in rows]
    lines = server.post("/predict", "\n".join(map(json.dumps, rows)).encode(), headers=NDJSON).json()["predictions"]
    assert [row["probability"] for row in told] == [row["probability"] for row in alone]
    assert told == lines
    assert told[0] == told[2]


def test_an_id_twice_in_one_body_is_remembered_once(server):
    rows = [{"age": 1, "id": "twice"}, {"age": 2}, {"age": 3, "id": "twice"}]
    told = server.post("/predict", rows).json()["predictions"]
    assert [row.get("remembered") for row in told] == ["remembered", None, "known"]


@pytest.mark.parametrize("long", [False, True])
def test_what_is_learned_under_an_id_waits_no_more(tmp_path, long):
    more = [{"age": k, "label": 0, "text": "x" * 100} for k in range(1000 * long)]
    with running(tmp_path, wait=2.0, default=0) as server:
        for key in ("a", "b", "c"):
            assert server.post("/predict", {"age": 1, "id": key}).json()["remembered"] == "remembered"
        assert server.post("/label", {"id": "early", "label": 1}).json()["outcome"] == "early"
        rows = [{"age": 1, "id": "a", "label": 1}, {"age": 1, "label": 0}, {"age": 2, "id": "early", "label": 0}, *more]
        body = "\n".join(map(json.dumps, rows)).encode()
        assert server.client.post("/learn?request=r1", content=body, headers=NDJSON).status_code == 200
        assert server.client.post("/learn?id=b", json={"age": 1, "label": 1}).status_code == 200
        # Nothing can be known by these, and nothing is.
        strange = [{"age": 1, "id": None, "label": 1}, {"age": 1, "id": 1.5, "label": 1}, {"id": "new", "label": 1}]
        assert server.post("/learn", strange).status_code == 200
        labels = [{"id": key, "label": 1} for key in ("a", "b", "early", "c", "new")]
        told = server.post("/label", labels).json()["labels"]
        assert [one["outcome"] for one in told] == ["duplicate", "duplicate", "duplicate", "joined", "early"]
        state = server.client.get("/info").json()
        assert state["examples"] == len(rows) + 1 + len(strange) + 1
        assert (state["labels"]["open"], state["labels"]["early"]) == (0, 1)
        learned = server.served.model.learner
    assert replayed(tmp_path).learner.mean.tobytes() == learned.mean.tobytes()


def test_a_column_called_id_is_a_column(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("id,x,label\n" + "".join(f"c{k % 5},{k % 7},{int(k % 5 > 2)}\n" for k in range(400)))
    model = tmp_path / "m.bayou"
    assert "id" in {c.name for c in train(table, model=model, bits=12).learner.extras.recipe.columns}
    with running(tmp_path / "state", {"default": model}) as server:
        told = [server.post("/predict", {"id": f"c{k}", "x": 1}).json() for k in (0, 4)]
        assert told[0]["probability"] < 0.5 < told[1]["probability"]
        assert all("remembered" not in row for row in told)
        assert server.client.get("/info").json()["labels"]["open"] == 0
        assert server.client.post("/predict?id=mine", json={"id": "c0", "x": 1}).json()["remembered"] == "remembered"
        assert server.post("/learn", {"id": "c0", "x": 1, "label": 0}).status_code == 200
        server.post("/snapshot", {})
        with running(tmp_path / "state", {}, read_only=True) as replica:
            assert replica.post("/predict", {"id": "c4", "x": 1}).status_code == 200
