"""The log: in order, whole or not at all, and never damaged without a word."""

import random
import shutil
import sqlite3
from collections import Counter

import pytest

from bayou.serve import log as logs
from bayou.serve.label_joins import KIND_EXPIRE, KIND_ROW, LABEL, LEARN
from bayou.serve.log import ARROW, JSON, VW, BadLog, Log, LogWriteError, PendingEntry


def learn(body=b"{}", key=None):
    return PendingEntry(LEARN, JSON, key, body)


def row(key, body=b"{}"):
    return PendingEntry(KIND_ROW, JSON, key, body)


def label(key, body=b"1"):
    return PendingEntry(LABEL, JSON, key, body)


@pytest.fixture
def log(tmp_path):
    opened = Log(tmp_path)
    yield opened
    opened.close()


def outcomes(log, *items, at=None):
    log.commit([items], at)
    return [item.outcome for item in items]


def test_entries_are_numbered_without_gaps_and_come_back_in_units(log, tmp_path):
    log.commit([[learn(b"a"), learn(b"b")], [learn(b"c")]])
    log.commit([[learn(b"d")]])
    again = Log(tmp_path, write=False)
    assert [[entry.body for entry in unit] for unit in again.units()] == [[b"a", b"b"], [b"c"], [b"d"]]
    assert [entry.sequence for unit in again.units(after=2) for entry in unit] == [3, 4]
    assert (again.last, again.unit) == (4, 3)


LONG = b"\n".join(b'{"site": "s%d", "label": %d}' % (k % 7, k % 2) for k in range(5000))


def test_long_bodies_take_less_room_and_come_back_as_they_were(log, tmp_path):
    bodies = [b"short", LONG, random.Random(0).randbytes(1 << 17), b"short again"]
    log.commit(
        [[PendingEntry(LEARN, form, None, body) for form, body in zip((JSON, VW, ARROW, JSON), bodies, strict=True)]]
    )
    found = [(entry.form, entry.body) for unit in Log(tmp_path, write=False).units() for entry in unit]
    assert found == list(zip((JSON, VW, ARROW, JSON), bodies, strict=True))
    sizes = [size for (size,) in log._db.execute("SELECT length(body) FROM log ORDER BY n")]
    assert sizes[0] == len(bodies[0])
    assert sizes[1] < len(LONG) / 10


def test_a_long_row_joins_its_label(log):
    items = [row("a", LONG), label("a", b"1")]
    log.commit([items[:1]])
    log.commit([items[1:]])
    assert items[1].rows_to_learn == [(JSON, LONG, b"1")]
    assert [log.rows_learned_by(entry) for unit in log.units() for entry in unit] == [(), [(JSON, LONG, b"1")]]


def test_a_byte_of_a_long_body_that_changed_is_said(log, tmp_path):
    log.commit([[learn(b"a"), learn(LONG)]])
    (stored,) = log._db.execute("SELECT body FROM log WHERE n = 2").fetchone()
    for place in (0, len(stored) // 2):  # in its length, in the text
        damaged = bytearray(stored)
        damaged[place] ^= 1
        log._db.execute("UPDATE log SET body = ? WHERE n = 2", (bytes(damaged),))
        with pytest.raises(BadLog, match="entry 2 is not whole"):
            list(Log(tmp_path, write=False).units())


def test_a_log_of_another_version_is_refused(log, tmp_path):
    log.put_meta("version", "1")
    with pytest.raises(BadLog, match="another version"):
        Log(tmp_path, write=False)


def test_it_goes_on_where_it_was(tmp_path):
    for k in range(3):
        log = Log(tmp_path)
        log.commit([[learn(b"%d" % k)]])
        log.close()
    assert [entry.body for unit in Log(tmp_path, write=False).units() for entry in unit] == [b"0", b"1", b"2"]


def test_a_request_is_learned_once(log):
    first, again, other = learn(key="r"), learn(key="r"), learn(key="s")
    log.commit([[first, again]])
    log.commit([[other]])
    late = learn(key="r")
    log.commit([[late]])
    assert [(item.outcome, item.sequence) for item in (first, again, other, late)] == [
        ("", 1), ("duplicate", 1), ("", 2), ("duplicate", 1),
    ]  # fmt: skip
    assert log.last == 2


def test_labels_join_their_rows_in_whatever_order_they_come(log):
    items = [row("a", b"A"), label("a", b"1"), label("a", b"0"), label("b", b"1"), label("b", b"0"), row("b", b"B")]
    assert outcomes(log, *items) == ["remembered", "joined", "duplicate", "early", "duplicate", "joined"]
    assert [item.rows_to_learn for item in items if item.rows_to_learn] == [[(JSON, b"A", b"1")], [(JSON, b"B", b"1")]]
    assert outcomes(log, row("a"), row("b"), label("b")) == ["known", "known", "duplicate"]
    told = [log.rows_learned_by(entry) for unit in log.units() for entry in unit]
    assert told == [(), [(JSON, b"A", b"1")], (), [(JSON, b"B", b"1")]]
    assert (log.ids.n_pending, log.ids.n_early) == (0, 0)


def test_rows_wait_for_a_time_and_then_get_the_default_label(log):
    log.ids.wait, log.ids.default = 10.0, b"0"
    outcomes(log, row("a", b"A"), row("b", b"B"), at=100.0)
    outcomes(log, label("c"), row("d", b"D"), at=105.0)
    assert not log.ids.has_expired(109.0)
    assert log.ids.has_expired(111.0)
    closing = PendingEntry(KIND_EXPIRE, JSON, None, b"")
    log.commit([[closing]], timestamp=111.0)
    assert closing.rows_to_learn == [(JSON, b"A", b"0"), (JSON, b"B", b"0")]
    assert [log.rows_learned_by(entry) for unit in log.units(after=log.last - 1) for entry in unit] == [
        closing.rows_to_learn
    ]
    assert outcomes(log, label("a"), label("d"), at=112.0) == ["late", "joined"]
    last = log.last
    log.commit(
        [[PendingEntry(KIND_EXPIRE, JSON, None, b"")]], timestamp=116.0
    )  # the early label was for a row that never came
    assert log.last == last
    assert log.ids.counts["unknown"] == 1
    log.commit([[PendingEntry(KIND_EXPIRE, JSON, None, b"")]], timestamp=130.0)
    assert outcomes(log, label("a"), at=130.0) == ["early"]  # nothing is known of it any more


def test_memory_is_bounded_and_what_is_dropped_is_counted(log):
    log.ids.most_open, log.ids.most_early = 2, 1
    assert outcomes(log, row("a"), row("b"), row("c"), label("x"), label("y")) == [
        *["remembered"] * 3,
        "early",
        "unknown",
    ]
    assert log.ids.has_expired(0.0)
    log.commit([[PendingEntry(KIND_EXPIRE, JSON, None, b"")]])
    assert log.ids.n_pending == 2
    assert log.ids.counts["dropped"] == 1


def test_a_failed_commit_leaves_nothing_behind(log, tmp_path):
    outcomes(log, row("a"))
    log._db.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON log WHEN NEW.body = x'21' BEGIN SELECT RAISE(ABORT, 'x'); END"
    )
    with pytest.raises(BadLog):
        log.commit([[label("a"), row("b")], [learn(b"!")]])
    assert (log.last, log.ids.n_pending, log.ids.counts["joined"]) == (1, 1, 0)
    log._db.execute("DROP TRIGGER full")
    assert outcomes(log, label("a")) == ["joined"]


def test_a_full_disk_is_told_from_damage(log, monkeypatch):
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    monkeypatch.setattr(logs, "_checksum", lambda *about: (_ for _ in ()).throw(full))
    with pytest.raises(LogWriteError):
        log.commit([[learn()]])
    monkeypatch.undo()
    log.commit([[learn()]])
    assert log.last == 1


# --- damage -----------------------------------------------------------------------------------------------------------


def written(tmp_path, n=50):
    log = Log(tmp_path)
    for k in range(n):
        log.commit([[learn(b"row %d" % k * 50)]])
    return log


def test_a_changed_entry_is_found(tmp_path):
    log = written(tmp_path, 5)
    log._db.execute("UPDATE log SET body = x'00' WHERE n = 3")
    with pytest.raises(BadLog, match="entry 3 is not whole"):
        list(log.units())
    log._db.execute("DELETE FROM log WHERE n = 3")
    with pytest.raises(BadLog, match="entry 3 is missing"):
        list(log.units())


def copied_with(tmp_path, change):
    """The files of a log that a process left behind when it was killed, changed."""
    log = written(tmp_path / "old")
    new = tmp_path / "new"
    new.mkdir()
    for name in ("log.sqlite", "log.sqlite-wal", "head"):
        data = bytearray((tmp_path / "old" / name).read_bytes())
        (new / name).write_bytes(change(name, data))
    log.close()
    return new


def test_a_log_that_was_torn_behind_the_last_commit_loses_nothing(tmp_path):
    (tmp_path / "old").mkdir()
    torn = copied_with(tmp_path, lambda name, data: bytes(data) + b"\x17" * 3000 * name.endswith("-wal"))
    log = Log(torn)
    assert len([entry for unit in log.units() for entry in unit]) == 50
    log.commit([[learn()]])
    assert log.last == 51


@pytest.mark.parametrize("place", [0.3, 0.5, 0.9])
def test_a_write_ahead_log_that_was_damaged_is_not_passed_over(tmp_path, place):
    def flip(name, data):
        if name.endswith("-wal"):
            data[int(place * len(data))] ^= 1
        return bytes(data)

    (tmp_path / "old").mkdir()
    with pytest.raises(BadLog, match=r"damaged: it ends at entry \d+, but 50 were acknowledged"):
        Log(copied_with(tmp_path, flip))


def test_a_database_that_was_damaged_is_not_passed_over(tmp_path):
    log = written(tmp_path, 300)
    log.close()
    data = bytearray((tmp_path / "log.sqlite").read_bytes())
    place = data.find(b"row 17")
    data[place] ^= 1
    (tmp_path / "log.sqlite").write_bytes(data)
    with pytest.raises(BadLog, match="entry 18 is not whole"):
        list(Log(tmp_path).units())
    data[4096:8192] = bytes(4096)
    (tmp_path / "log.sqlite").write_bytes(data)
    with pytest.raises(BadLog, match="damaged"):
        list(Log(tmp_path).units())


def _flip_a_bit(data, rng):
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _clear_a_page(data, rng):
    start = rng.randrange(0, len(data), 4096)
    data[start : start + 4096] = bytes(len(data[start : start + 4096]))


def _swap_pages(data, rng):
    a, b = (rng.randrange(0, len(data) - 4096, 4096) for _ in range(2))
    data[a : a + 4096], data[b : b + 4096] = data[b : b + 4096], data[a : a + 4096]


def _cut(data, rng):
    del data[rng.randrange(len(data)) :]


def test_damage_anywhere_is_reported_or_harmless(tmp_path):
    """60 damaged logs: of a server that ended well, and of one that was killed."""
    stopped, killed, rng = tmp_path / "stopped", tmp_path / "killed", random.Random(7)
    stopped.mkdir()
    log = Log(stopped)
    for first in range(0, 2000, 200):
        names = range(first, first + 200)
        log.commit([[learn(b'{"a":%d}' % k, f"q{k}"), row(f"r{k}"), row(f"open {k}")] for k in names])
        log.commit([[label(f"r{k}") for k in names]])
    expected = [entry for unit in log.units() for entry in unit]
    shutil.copytree(stopped, killed)
    log.close()
    outcomes = Counter()
    for k, damage in enumerate(15 * [_flip_a_bit, _clear_a_page, _swap_pages, _cut]):
        copy = tmp_path / str(k)
        shutil.copytree(stopped if k // 4 % 2 else killed, copy)
        path = rng.choice([path for path in copy.glob("log.sqlite*") if not path.name.endswith("-shm")])
        data = bytearray(path.read_bytes())
        damage(data, rng)
        path.write_bytes(data)
        try:
            again = Log(copy)
            found = [entry for unit in again.units() for entry in unit]
            again.close()
            assert found == expected, damage
            outcomes["harmless"] += 1
        except BadLog:
            outcomes["reported"] += 1
        shutil.rmtree(copy)
    assert outcomes["reported"] >= 30, outcomes


def test_a_label_never_joins_the_row_of_another_id(log):
    log.commit([[row("a"), row("b")]])
    log._db.execute("UPDATE ids SET n = 2 WHERE id = 'a'")  # damage that no entry shows
    with pytest.raises(BadLog, match="entry 2 is not whole"):
        log.commit([[label("a")]])
