"""Clocks that step: rows wait by time that does not."""

from contextlib import closing

import pytest

from bayou.serve.clock import SteadyClock
from bayou.serve.label_joins import KIND_ROW, LABEL, LEARN
from bayou.serve.log import JSON, Log, PendingEntry
from bayou.serve.log_writer import LogWriter
from bayou.serve.model_requests import LearningUnit
from bayou.serve.telemetry import new_times
from tests.serve.serving import running

DAY = 86400.0


class Clocks:
    """A wall clock and a monotonic one, to be set by hand."""

    def __init__(self, wall=1_000_000.0):
        self.walls, self.ticks = wall, 0.0

    def steady(self, not_before=0.0):
        return SteadyClock(not_before, wall=lambda: self.walls, monotonic=lambda: self.ticks)

    def pass_(self, seconds, step=0.0):
        """Time goes by, and the wall clock steps besides."""
        self.ticks += seconds
        self.walls += seconds + step


@pytest.fixture
def clocks():
    return Clocks()


def readings(clocks, clock, seconds, every=1.0):
    told = []
    for _ in range(round(seconds / every)):
        clocks.pass_(every)
        told.append(clock())
    return told


def test_it_is_the_wall_clock_while_that_is_steady(clocks):
    clock = clocks.steady()
    assert readings(clocks, clock, 5) == [1_000_001.0, 1_000_002.0, 1_000_003.0, 1_000_004.0, 1_000_005.0]


@pytest.mark.parametrize("step", [30 * DAY, -30 * DAY])
def test_a_step_that_is_taken_back_moves_it_by_seconds(clocks, step):
    clock = clocks.steady()
    clocks.pass_(1.0, step)
    moved = [clock()]
    clocks.pass_(0.5)
    moved.append(clock())
    clocks.pass_(1.0, -step)
    moved.append(clock())
    assert moved == sorted(moved)
    assert abs(moved[-1] - 1_000_002.5) <= 1.5
    assert readings(clocks, clock, 5)[-1] == clocks.walls


@pytest.mark.parametrize(("step", "seconds"), [(3600.0, 3600.0), (-3600.0, 7200.0)])
def test_a_step_that_lasts_is_made_up_in_time(clocks, step, seconds):
    """As after a sleep of the machine, or where the clock was set right."""
    clock = clocks.steady()
    clocks.pass_(0.0, step)
    told = readings(clocks, clock, seconds - 60, every=10.0)
    assert told == sorted(told)
    assert told[-1] != clocks.walls
    assert readings(clocks, clock, 120)[-1] == clocks.walls


def test_it_starts_no_earlier_than_it_must(clocks):
    clock = clocks.steady(clocks.walls + 100.0)
    assert clock.lead == 100.0
    assert readings(clocks, clock, 50, every=10.0)[-1] == 1_000_000.0 + 100.0 + 25.0  # at half speed
    assert clocks.steady(clocks.walls - 5.0).lead == 0.0


class Committing:
    """A log_writer whose rounds are made one by one, and a log by a clock of ours."""

    def __init__(self, folder, clocks, **ids):
        self.log, self.clocks = Log(folder), clocks
        self.log.clock = clocks.steady()
        for name, value in ids.items():
            setattr(self.log.ids, name, value)
        self.log_writer = LogWriter(self.log, new_times(), lambda units: None)

    def close(self):
        self.log.close()

    def round(self, *items):
        """What the log's thread does in one round, at once."""
        unit = LearningUnit(list(items), [])
        if items:
            self.log_writer.submit(unit)
        self.log_writer._more, self.log_writer._looked = True, float("-inf")
        self.log_writer._next()
        assert unit.failed is None
        return [item.outcome for item in items]


def row(key):
    return PendingEntry(KIND_ROW, JSON, key, b"{}")


def label(key):
    return PendingEntry(LABEL, JSON, key, b"1")


def test_open_rows_survive_a_clock_that_is_wrong_for_a_moment(tmp_path, clocks):
    with closing(Committing(tmp_path, clocks, wait=7 * DAY, default=b"0")) as log:
        assert log.round(row("a"), row("b")) == ["remembered", "remembered"]
        clocks.pass_(1.0, 30 * DAY)
        assert log.round(row("c")) == ["remembered"]
        clocks.pass_(0.5, -30 * DAY)
        log.round()
        assert (log.log.ids.n_pending, log.log.ids.counts["expired"]) == (3, 0)
        assert log.round(label("a"), label("c")) == ["joined", "joined"]
        (last,) = next(log.log.units(after=log.log.last - 1))
        assert abs(last.timestamp - clocks.walls) < 3.0
        for _ in range(8 * 24):  # and they do not wait for ever
            clocks.pass_(3600.0)
            log.round()
        assert (log.log.ids.n_pending, log.log.ids.counts["expired"]) == (0, 1)


def test_entries_are_never_dated_before_the_last_one(tmp_path, clocks):
    with closing(Log(tmp_path)) as log:
        log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]], timestamp=log.clock() + 30 * DAY)
    with closing(Log(tmp_path)) as log:
        assert abs(log.clock.lead - 30 * DAY) < 60.0
        log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]])
        first, second = (entry.timestamp for unit in log.units() for entry in unit)
        assert first <= second < first + 60.0


def test_a_log_from_the_future_is_remarked_once(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", {"a": 1, "label": 1})
        server.served.log.commit(
            [[PendingEntry(KIND_ROW, JSON, "a", b"{}")]], timestamp=server.served.log.clock() + 2 * 3600
        )
        server.served.owner.model.version = server.served.log.last
    with running(tmp_path, {}) as server:
        said = [text for text in server.said if "ahead of this machine's clock" in text]
        assert len(said) == 1
        assert "dated 2.0 hours ahead" in said[0]
