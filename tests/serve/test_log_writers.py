"""Which processor and which version wrote a log: noted by entry, and what differs is said instead of passed over."""

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from bayou.cli import app
from bayou.serve import service, state_folder, writers
from bayou.serve.label_joins import LEARN
from bayou.serve.log import JSON, BadLog, Log, PendingEntry
from tests.serve.serving import running

ROW = {"a": 1.0, "label": 1}
HERE = writers.this_writer()
OTHER = HERE | {"processor": "x86-64", "features": "+sse2,+cx8"}
OLD = HERE | {"bayou": "0.0.9"}


def be(monkeypatch, writer):
    for module in (state_folder, service):
        monkeypatch.setattr(module, "this_writer", lambda: writer)


def replay(state, out):
    done = CliRunner().invoke(app, ["replay", str(state), "--out", str(out)])
    assert done.exit_code == 0, done.output
    return done.output


def test_what_decides_the_bits_is_noted():
    assert HERE.keys() == {"bayou", "machine", "processor", "features", "numba", "llvmlite", "numpy"}
    assert all(isinstance(value, str) and value for name, value in HERE.items() if name != "features")


def test_each_writer_is_noted_with_its_first_entry(tmp_path, monkeypatch):
    for k, writer in enumerate([HERE, HERE, OTHER, HERE]):
        be(monkeypatch, writer)
        with running(tmp_path, None if k == 0 else {}) as server:
            server.post("/learn", ROW)
            server.post("/learn", ROW)
    log = Log(tmp_path / "models/default", write=False)
    assert [(first, writer["processor"]) for first, writer in log.writers] == [
        (1, HERE["processor"]), (5, "x86-64"), (7, HERE["processor"]),
    ]  # fmt: skip


def test_a_server_that_wrote_nothing_is_not_noted(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
    be(monkeypatch, OTHER)
    with running(tmp_path, {}) as server:
        assert any("the log was written by a processor of the kind" in text for text in server.said)
    be(monkeypatch, HERE)
    with running(tmp_path, {}) as server:
        assert not any("written by" in text for text in server.said)
        assert [first for first, _ in server.served.log.writers] == [1]


def test_a_replay_elsewhere_says_that_numbers_may_differ(tmp_path, monkeypatch):
    state = tmp_path / "state"
    with running(state) as server:
        server.post("/learn", ROW)
        server.post("/learn", ROW)
    assert "may differ" not in replay(state, tmp_path / "here.bayou")
    be(monkeypatch, OTHER)
    said = " ".join(replay(state, tmp_path / "there.bayou").split())
    assert f"entries 1 to 2 of the log were written by a processor of the kind {HERE['processor']}" in said
    assert "(here x86-64" in said
    assert "numbers learned from them here may differ in their last places (by up to 2e-4 of their size" in said
    assert "damaged" not in said
    be(monkeypatch, OLD)
    assert f"bayou {HERE['bayou']} (here 0.0.9)" in " ".join(replay(state, tmp_path / "old.bayou").split())


@pytest.mark.parametrize(
    ("writer", "words"),
    [
        (HERE, ""),
        (OLD, f"bayou 0.0.9 (here {HERE['bayou']})"),
        (HERE | {"numpy": "1.0"}, f"NumPy 1.0 (here {HERE['numpy']})"),
        (HERE | {"features": HERE["features"] + ",+zz1,+fma9"}, "with fma9, zz1 (not used here)"),
    ],
)
def test_differences_are_named(writer, words):
    assert writers.differences(writer, HERE) == words


def test_fused_multiply_add_is_named_first():
    here = HERE | {"features": "+sse2"}
    there = HERE | {"features": "+sse2,+adx,+aes,+avx,+avx2,+bmi,+fma"}
    assert writers.differences(there, here) == "with fma, avx, avx2, adx and 2 more (not used here)"
    assert writers.differences(here, there) == "without fma, avx, avx2, adx and 2 more (used here)"


@pytest.mark.parametrize("note", [None, "[]", "{", "[3]", '[[1, "x"]]'])
def test_a_log_without_a_note_is_read_and_gone_on_with(tmp_path, note):
    with running(tmp_path / "state") as server:
        server.post("/learn", ROW)
    db = sqlite3.connect(tmp_path / "state/models/default/log.sqlite")
    db.execute("DELETE FROM meta WHERE name = 'writers'")
    if note is not None:
        db.execute("INSERT INTO meta VALUES ('writers', ?)", (note,))
    db.commit()
    db.close()
    assert "may differ" not in replay(tmp_path / "state", tmp_path / "m.bayou")
    with running(tmp_path / "state", {}) as server:
        assert server.post("/learn", ROW).status_code == 200
        assert [first for first, _ in server.served.log.writers] == [2]


def test_a_note_is_part_of_the_transaction_that_it_is_about(tmp_path):
    log = Log(tmp_path)
    log.sign(HERE)
    assert log.meta("writers") is None
    log._db.execute("CREATE TEMP TRIGGER fails BEFORE INSERT ON meta BEGIN SELECT RAISE(ABORT, 'x'); END")
    with pytest.raises(BadLog):
        log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]])
    assert (log.last, log.writers) == (0, [])
    log._db.execute("DROP TRIGGER fails")
    log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]])
    assert json.loads(log.meta("writers")) == [[1, HERE]]
    log.close()
