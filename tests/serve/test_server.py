"""The server over HTTP: what it learns, predicts, remembers and says."""

import gzip
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import bayou
from bayou import train
from bayou.cli import app
from bayou.core.extras import Extras
from bayou.recipe.recipe import Recipe
from bayou.serve.state_folder import StateFolder, replayed
from bayou.sources.rows.encoder import RowEncoder
from tests.serve.serving import learner, running

ROWS = [{"age": float(k % 7), "site": f"s{k % 3}.com", "label": k % 2} for k in range(40)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state")) as started:
        yield started


def without_label(row):
    return {name: value for name, value in row.items() if name != "label"}


def test_a_row_is_predicted_with_its_uncertainty(server):
    told = server.post("/predict", {"age": 3.0, "site": "a.com"}).json()
    assert told.keys() == {"probability", "mean", "sd", "low", "high", "version"}
    assert told["low"] < told["probability"] < told["high"]
    wide = server.client.post("/predict?level=0.5", json={"age": 3.0, "site": "a.com"}).json()
    assert wide["low"] > told["low"]


def test_what_is_learned_is_what_a_learner_learns_from_the_same_rows(tmp_path):
    with running(tmp_path) as server:
        answers = [server.post("/learn", row).json() for row in ROWS[:10]]
        answers += server.post("/learn", ROWS[10:]).json()["predictions"]
        told = server.post("/predict", [without_label(row) for row in ROWS]).json()["predictions"]
    alone = bayou.learners.Marginal(n_features=2**12)
    rows = RowEncoder(12)
    for row, answer in zip(ROWS[:10], answers, strict=False):
        batch = rows.encode_rows([without_label(row)])[0].with_labels([1 if row["label"] else -1])
        assert alone.learn(batch)[0] == answer["probability"]
    batch = rows.encode_rows([without_label(row) for row in ROWS[10:]])[0]
    before = alone.learn(batch.with_labels([1 if row["label"] else -1 for row in ROWS[10:]]))
    assert [answer["probability"] for answer in answers[10:]] == before.tolist()
    after = alone.predict(rows.encode_rows([without_label(row) for row in ROWS])[0])
    assert [row["probability"] for row in told] == after.probability.tolist()
    assert [row["low"] for row in told] == after.interval(0.95)[0].tolist()


def test_every_way_to_write_rows_is_the_same(server):
    rows = [without_label(row) for row in ROWS[:5]]
    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    ndjson = {"content-type": "application/x-ndjson"}
    bodies = [
        (json.dumps(rows).encode(), {}),
        (json.dumps(rows, indent=1).encode(), {"content-type": "application/json"}),
        (lines, ndjson),
        (gzip.compress(lines), ndjson | {"content-encoding": "gzip"}),
        (bytes(pa.Codec("zstd").compress(lines)), ndjson | {"content-encoding": "zstd"}),
        (sink.getvalue(), {"content-type": "application/vnd.apache.arrow.stream"}),
    ]
    answers = [server.post("/predict", body, headers=headers) for body, headers in bodies]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert all(answer.json() == answers[0].json() for answer in answers)
    one = [server.post("/predict", row).json()["probability"] for row in rows]
    assert one == [row["probability"] for row in answers[0].json()["predictions"]]


def test_a_long_body_is_answered_as_its_rows_are(server):
    ndjson = {"content-type": "application/x-ndjson"}
    rows = [{"age": k / 7, "site": f"s{k}.com", "more": "x" * 60} for k in range(1000)]
    lines = [json.dumps(row).encode() for row in rows]
    long = server.post("/predict", b"\n".join(lines), headers=ndjson)
    parts = [server.post("/predict", rows[k : k + 200]).json()["predictions"] for k in range(0, 1000, 200)]
    assert long.json()["predictions"] == [row for part in parts for row in part]
    assert server.post("/predict", b"\r\n \n\n".join(lines) + b"\n\n", headers=ndjson).content == long.content
    one = server.post("/predict", b'{"age": 1, "more": "%s"}' % (b"x" * 100_000))
    assert one.json().keys() == {"probability", "mean", "sd", "low", "high", "version"}
    lines[7] = lines[7][:-1] + b', "id": "the seventh"}'
    told = server.post("/predict", b"\n".join(lines), headers=ndjson).json()["predictions"]
    assert [k for k, row in enumerate(told) if "remembered" in row] == [7]
    assert server.post("/label", {"id": "the seventh", "label": 1}).json()["outcome"] == "joined"
    bad = server.post("/predict", b"\n".join([*lines[:9], b"", b"{", *lines[9:]]), headers=ndjson)
    assert (bad.status_code, [row["index"] for row in bad.json()["rows"]]) == (422, [9])
    assert server.post("/predict", b" \n" * 100_000, headers=ndjson).json()["error"] == "the body has no rows."


def test_labels_may_come_later(server):
    row = {"age": 5.0, "site": "later.com"}
    first = server.post("/predict", row | {"id": "x1"}).json()
    assert first["remembered"] == "remembered"
    second = server.client.post("/predict?id=x2", json=row).json()
    assert second["remembered"] == "remembered"
    assert server.post("/label", {"id": "x1", "label": 1}).json()["outcome"] == "joined"
    assert server.post("/predict", row).json()["probability"] > first["probability"]
    many = [{"id": "x1", "label": 0}, {"id": "x2", "label": 1, "weight": 2.0}, {"id": "x3", "label": True}]
    told = server.post("/label", many).json()
    assert [label["outcome"] for label in told["labels"]] == ["duplicate", "joined", "early"]
    assert server.post("/predict", row | {"id": "x3"}).json()["remembered"] == "joined"
    assert server.post("/predict", row | {"id": "x3"}).json()["remembered"] == "known"
    counts = server.client.get("/info").json()["labels"]
    assert counts["counts"]["joined"] >= 3
    assert counts["open"] == 0


@pytest.mark.long
def test_a_row_with_a_late_label_is_learned_as_one_that_had_it(tmp_path):
    with running(tmp_path / "late") as late, running(tmp_path / "early") as early:
        for k, row in enumerate(ROWS[:20]):
            late.post("/predict", without_label(row) | {"id": k})
        for k, row in enumerate(ROWS[:20]):
            late.post("/label", {"id": str(k), "label": row["label"], "weight": 1 + k % 2})
            early.post("/learn", row | {"weight": 1 + k % 2})
        ask = [without_label(row) for row in ROWS]
        assert late.post("/predict", ask).json()["predictions"] == early.post("/predict", ask).json()["predictions"]


def test_a_request_with_an_id_is_learned_once(server):
    before = server.client.get("/info").json()["examples"]
    for k in range(3):
        told = server.client.post("/learn", json=ROWS[0], headers={"idempotency-key": "once"}).json()
        assert told.get("duplicate", False) == (k > 0)
    assert server.client.post("/learn?request=once", json=ROWS[:3]).json()["duplicate"]
    assert server.client.get("/info").json()["examples"] == before + 1


def test_the_intercept_shown_is_corrected_for_negatives_that_were_left_out(tmp_path):
    rare = {"default": learner(negative_rate=0.1)}
    with running(tmp_path / "all") as every, running(tmp_path / "kept", rare) as kept:
        shown = []
        for server in (every, kept):
            server.post("/learn", ROWS)
            shown.append(server.client.get("/features").json())
        snapshot = kept.served.folder.snapshot(kept.client.post("/snapshot").json()["version"])
    assert shown[1]["intercept"] - shown[0]["intercept"] == pytest.approx(np.log(0.1))
    assert shown[1]["features"] == shown[0]["features"]
    assert bayou.features(snapshot)["mean"][0].as_py() == pytest.approx(shown[1]["intercept"])


def test_features_info_snapshot_and_metrics(server):
    server.post("/learn", ROWS)
    told = server.client.get("/features?top=2").json()
    assert len(told["features"]) == 2
    assert told["features"][0].keys() == {"feature", "mean", "sd"}
    names = {row["feature"] for row in server.client.get("/features").json()["features"]}
    assert {"age", "site=s0.com"} <= names
    info = server.client.get("/info").json()
    assert info["learner"] == "marginal"
    assert info["counters"]["log_loss"] > 0
    version = server.client.post("/snapshot").json()["version"]
    assert version == info["version"]
    text = server.client.get("/metrics").text
    assert f'bayou_snapshot_version{{model="default"}} {float(version)}' in text
    assert server.client.get("/healthz").json() == {"alive": True}
    assert server.client.get("/openapi.json").json()["paths"].keys() >= {"/predict", "/learn", "/label", "/events"}


def test_events_tell_of_what_is_learned(server):
    server.post("/learn", ROWS)
    with server.client.stream("GET", "/events") as stream:
        line = next(line for line in stream.iter_lines() if line.startswith("data: "))
    told = json.loads(line.removeprefix("data: "))
    assert told["version"] == server.served.model.version
    assert told["live"]["base"]["rows"] > 0  # the slice under way is not in the hour yet
    assert told["server"]["version"] == bayou.__version__
    assert {"curve", "calibration", "surprises", "moved", "drift"} <= told["live"].keys()


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_goes_on_and_replay_gives_the_same_bytes(tmp_path):
    state = tmp_path / "state"
    with running(state, snapshot_every=15) as server:
        server.post("/learn", ROWS[:20])
        server.post("/predict", without_label(ROWS[20]) | {"id": "open"})
    with running(state, {}) as server:  # the folder knows its model
        assert server.served.model.learner.examples == 20
        server.post("/learn", ROWS[20:])
        assert server.post("/label", {"id": "open", "label": 1}).json()["outcome"] == "joined"
        assert server.client.post("/learn?request=r", json=ROWS[0]).status_code == 200
    files = sorted((state / "models/default/snapshots").iterdir())
    done = CliRunner().invoke(app, ["replay", str(state), "--out", str(tmp_path / "m.bayou")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "m.bayou").read_bytes() == files[-1].read_bytes()
    assert bayou.load(tmp_path / "m.bayou").examples == 42
    with running(state, {}) as server:
        assert server.client.post("/learn?request=r", json=ROWS[0]).json()["duplicate"]
        assert server.post("/label", {"id": "open", "label": 1}).json()["outcome"] == "duplicate"


def test_rows_that_a_start_learns_again_count_for_the_next_snapshot(tmp_path):
    snapshots = tmp_path / "models/default/snapshots"
    with running(tmp_path, snapshot_every=30) as server:
        server.post("/learn", ROWS[:20])
    for file in snapshots.iterdir():  # as if the server had been killed
        file.unlink()
    with running(tmp_path, {}, snapshot_every=30) as server:
        server.post("/learn", ROWS[20:35])
        until = time.monotonic() + 60
        while not any(snapshots.glob("*.bayou")) and time.monotonic() < until:
            time.sleep(0.01)
        assert [bayou.load(file).examples for file in snapshots.glob("*.bayou")] == [35]


@pytest.mark.long
def test_rows_that_wait_in_vain_get_the_default_label(tmp_path):
    with running(tmp_path, wait=0.2, default=0) as server:
        server.post("/predict", without_label(ROWS[0]) | {"id": "a"})
        for _ in range(200):
            if server.served.model.learner.examples:
                break
            server.client.get("/healthz")
            time.sleep(0.02)
        assert server.served.model.learner.examples == 1
        assert server.post("/label", {"id": "a", "label": 1}).json()["outcome"] in ("late", "early")
        assert server.post("/predict", without_label(ROWS[0])).json()["probability"] < 0.5
    model = replayed(tmp_path)
    assert model.learner.examples == 1


def test_a_trained_model_goes_on_with_its_recipe(tmp_path):
    table = pa.table({"city": ["oslo", "rome"] * 50, "age": list(range(100)), "income": [">50K", "<=50K"] * 50})
    run = train(table, label="income", positive=">50K", learner="marginal", bits=10, model=tmp_path / "m.bayou")
    rows = table.drop_columns("income").to_pylist()[:10]
    expected = run.learner.predict(next(iter(bayou.sources.open(table.slice(0, 10), extras=run.learner.extras))))
    with running(tmp_path / "state", {"default": tmp_path / "m.bayou"}) as server:
        told = server.post("/predict", rows).json()["predictions"]
        assert [row["probability"] for row in told] == expected.probability.tolist()
        assert server.post("/learn", rows[0] | {"income": ">50K"}).status_code == 200
        assert server.post("/learn", rows[0] | {"income": None}).status_code == 422
        server.post("/predict", rows[1] | {"id": "a"})
        assert server.post("/label", {"id": "a", "label": "<=50K"}).json()["outcome"] == "joined"
        lines = [json.dumps(row | {"more": "x" * 7000}).encode() for row in rows]  # by the table's reader, in a thread
        lines[7] = lines[7][:-1] + b', "id": "the seventh"}'
        ndjson = {"content-type": "application/x-ndjson"}
        told = server.post("/predict", b"\n".join(lines), headers=ndjson).json()["predictions"]
        assert [k for k, row in enumerate(told) if "remembered" in row] == [7]
        assert server.served.model.learner.examples == 102
        assert "income" == server.client.get("/info").json()["label"]
        bad = server.client.post("/predict", content=b"1 |a b", headers={"content-type": "text/x-vw"})
        assert "this model reads JSON rows" in bad.json()["error"]
    assert replayed(tmp_path / "state").learner.examples == 102
    assert run.learner.examples == 100


@pytest.mark.long
def test_vw_text_and_its_late_labels(tmp_path):
    (tmp_path / "x.vw").write_text("1 |a b c:2\n-1 |a d\n" * 20)
    train(str(tmp_path / "x.vw"), learner="marginal", bits=10, model=tmp_path / "m.bayou")
    vw = {"content-type": "text/x-vw"}
    with running(tmp_path / "state", {"default": tmp_path / "m.bayou"}) as server:
        several = server.client.post("/predict", content=b"|a b c:2\n|a d\n", headers=vw).json()
        assert several["predictions"][0]["probability"] > 0.5 > several["predictions"][1]["probability"]
        assert server.client.post("/learn", content=b"1 |a b\n-1 2.0 tag|a d", headers=vw).status_code == 200
        bad = server.client.post("/learn", content=b"1 |a b\n|a d\nx", headers=vw).json()
        assert [row["index"] for row in bad["rows"]] == [1, 2]
        server.client.post("/predict?id=q", content=b"|a b", headers=vw)
        assert server.post("/label", {"id": "q", "label": -1}).json()["outcome"] == "joined"
        assert server.served.model.learner.examples == 43
    assert replayed(tmp_path / "state").learner.examples == 43


@pytest.mark.long
def test_several_models_have_their_own_addresses(tmp_path):
    models = {"one": learner(), "two": learner("gaussian", label="y")}
    with running(tmp_path, models) as server:
        assert server.post("/models/one/learn", {"a": 1, "label": 1}).status_code == 200
        told = server.post("/models/two/learn", {"a": 1, "y": 2.5}).json()
        assert told.keys() == {"mean", "sd", "low", "high", "version"}
        assert server.post("/learn", {"a": 1, "label": 1}).status_code == 404
        assert "there are: one, two" in server.post("/models/three/predict", {}).json()["error"]
        assert server.post("/models/two/learn", {"a": 1, "y": "x"}).status_code == 422
    assert replayed(tmp_path, "two").learner.examples == 1
    with pytest.raises(bayou.BadInput, match="several models; choose one with name=: one, two"):
        replayed(tmp_path)


@pytest.mark.long
def test_a_replica_follows_snapshots_and_changes_nothing(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROWS[:10])
        server.client.post("/snapshot")
        with running(tmp_path, {}, read_only=True) as replica:
            ask = without_label(ROWS[0])
            assert replica.post("/predict", ask).json() == server.post("/predict", ask).json()
            server.post("/learn", ROWS[10:])
            version = server.client.post("/snapshot").json()["version"]
            for _ in range(300):
                if replica.post("/predict", ask).json()["version"] == version:
                    break
                time.sleep(0.02)
            assert replica.post("/predict", ask).json() == server.post("/predict", ask).json()
            for path, body in (
                ("/learn", ROWS[0]),
                ("/label", {"id": "a", "label": 1}),
                ("/predict", ask | {"id": "x"}),
            ):
                assert replica.post(path, body).status_code == 403


def test_a_snapshot_that_is_damaged_is_left_out_and_told_of(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROWS)
    folder = StateFolder(tmp_path, "default")
    newest = folder.snapshot(folder.versions()[0])
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    with running(tmp_path, {}) as server:
        assert any("the snapshot of entry 1 is ignored" in said for said in server.said)
        assert server.served.model.learner.examples == 40


def test_one_server_has_a_folder_for_itself(tmp_path):
    with (
        running(tmp_path),
        pytest.raises(bayou.BadInput, match="in use by another server"),
    ):
        running(tmp_path, {}).__enter__()


@pytest.mark.long
def test_a_long_request_is_as_good_as_many_short_ones(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"a": float(rng.normal()), "site": f"s{rng.integers(50)}", "label": int(k % 2)} for k in range(5000)]
    with running(tmp_path / "one") as one, running(tmp_path / "many") as many:
        whole = one.post("/learn", rows).json()["predictions"]
        parts = [
            told for k in range(0, 5000, 500) for told in many.post("/learn", rows[k : k + 500]).json()["predictions"]
        ]
        assert whole == parts
        ask = [without_label(row) for row in rows]
        assert one.post("/predict", ask).json()["predictions"] == many.post("/predict", ask).json()["predictions"]
    assert replayed(tmp_path / "one").learner.mean.tobytes() == replayed(tmp_path / "many").learner.mean.tobytes()


def classes(kind="rows", **more):
    model = bayou.learners.Classes(n_features=2**10, learner="marginal", **more)
    model.extras = Extras.new(Recipe(kind=kind, bits=10, task="multiclass"))
    return {"default": lambda: model}


def newest(folder):
    return max((folder / "models/default/snapshots").iterdir()).read_bytes()


@pytest.mark.long
def test_classes_join_as_they_come_and_the_log_gives_the_same(tmp_path):
    words = {"miaow": "cat", "wow": "dog", "hoo": "owl", "moo": 7, "baa": True}
    rows = [{"says": word, "label": name} for word, name in words.items()]
    with running(tmp_path, classes()) as server:
        assert server.post("/predict", {"says": "hoo"}).json()["classes"] == {}
        assert server.post("/learn", rows[:2]).status_code == 200
        # Some at the same time, which the log puts in an order.
        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(lambda row: server.post("/learn", row).status_code, rows * 4))
        assert told == [200] * 20
        server.post("/predict", {"says": "oink", "id": "a"})
        assert server.post("/label", {"id": "a", "label": "pig"}).json()["outcome"] == "joined"
        names = server.client.get("/info").json()["classes"]
        assert names[:2] == ["cat", "dog"]
        assert sorted(names) == ["7", "cat", "dog", "owl", "pig", "true"]
        chances = server.post("/predict", {"says": "moo"}).json()["classes"]
        assert all(chances["7"] > chances[other] for other in ("cat", "dog", "owl", "true"))
        for wrong in ({}, [1], [], {"b": 1}, None, " "):
            refused = server.post("/learn", {"says": "wow", "label": wrong})
            assert (refused.status_code, "expected a label" in refused.json()["error"]) == (422, True)
        assert server.client.get("/info").json()["classes"] == names
    replayed(tmp_path).copy().save(tmp_path / "m.bayou")
    assert (tmp_path / "m.bayou").read_bytes() == newest(tmp_path)


@pytest.mark.long
def test_more_classes_than_there_may_be_are_refused_then_and_from_the_log(tmp_path):
    with running(tmp_path, classes("vw", max_classes=3)) as server:
        vw = {"content-type": "text/x-vw"}
        assert server.post("/learn", b"1 |a b\n2 |a c", headers=vw).status_code == 200
        refused = server.post("/learn", b"3 |a b\n4 |a c", headers=vw)
        assert (refused.status_code, "max_classes=3" in refused.json()["error"]) == (422, True)
        # Two that are each fine when they are read, and are logged as one.
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda k: server.post("/learn", b"%d |a b" % k, headers=vw).status_code, range(3, 11)))
        assert set(told) <= {200, 422}
        assert len(server.client.get("/info").json()["classes"]) <= 3
    replayed(tmp_path).copy().save(tmp_path / "m.bayou")
    assert (tmp_path / "m.bayou").read_bytes() == newest(tmp_path)


@pytest.mark.long
def test_several_classes_are_told_by_their_names(tmp_path):
    model = bayou.learners.Classes(n_features=2**10, learner="marginal", classes=[0, 1, 2])
    model.extras = Extras.new(Recipe(kind="rows", bits=10))
    model.extras.classes = ["cat", "dog", "owl"]
    with running(tmp_path, {"default": lambda: model}) as server:
        rows = [{"says": word, "label": name} for word, name in (("miaow", "cat"), ("wow", "dog"), ("hoo", "owl"))] * 5
        told = server.post("/learn", rows).json()["predictions"]
        assert told[0]["classes"].keys() == {"cat", "dog", "owl"}
        answer = server.post("/predict", {"says": "hoo"}).json()
        assert answer["label"] == "owl"
        assert answer["probability"] == max(answer["classes"].values())
        assert answer["low"] < answer["probability"] < answer["high"]
        server.post("/predict", {"says": "wow", "id": "a"})
        assert server.post("/label", {"id": "a", "label": "dog"}).json()["outcome"] == "joined"
        assert server.client.get("/info").json()["classes"] == ["cat", "dog", "owl"]
        assert server.client.get("/features").status_code == 422
    snapshot = next((tmp_path / "models/default/snapshots").iterdir())
    replayed(tmp_path).copy().save(tmp_path / "m.bayou")
    assert (tmp_path / "m.bayou").read_bytes() == snapshot.read_bytes()
