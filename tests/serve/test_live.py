"""What the live page is told: some rows stand for many, and what was surprising is not forgotten at once."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayou import Batch
from bayou.core.extras import Counters
from bayou.serve import served
from bayou.serve.live import LOOKED_AT, SLICE, SLICES, SURPRISES, Live
from bayou.serve.served import new_learner
from tests.serve.serving import FakeClock, running


def learned(live: Live, p: np.ndarray, labels: np.ndarray, later=None) -> np.ndarray:
    batch = Batch.from_arrays(np.arange(len(p) + 1), np.arange(len(p)), np.ones(len(p)), labels)
    losses = -np.log(np.where(labels > 0, p, 1.0 - p))
    live.learned(batch, SimpleNamespace(expected=p), losses, later, "binary", Counters(len(p), weight=1.0))
    return losses


def test_of_long_units_some_rows_stand_for_all():
    live, rng = Live(), np.random.default_rng(0)
    p = rng.uniform(size=40 * LOOKED_AT)
    labels = (rng.uniform(size=p.size) < p).astype(float)
    losses = learned(live, p, labels, later=np.full(LOOKED_AT, 2.0))
    told = live.picture()
    assert told["loss_hour"] == pytest.approx(losses.mean())
    assert sum(part["weight"] for part in told["calibration"]) == pytest.approx(p.size, rel=0.02)
    for k, part in enumerate(told["calibration"]):
        assert part["predicted"] == pytest.approx(0.05 + 0.1 * k, abs=0.03)
    assert told["drift"]["rows"] == LOOKED_AT
    assert told["drift"]["gap"] == pytest.approx((2.0 - losses[:LOOKED_AT]).mean())


def test_the_most_surprising_rows_are_kept_however_many_come_after_them():
    time = FakeClock()
    live = Live(time.clock)
    assert not live.surprises(0.5)
    live.surprising(9.0, b"first", 1.0, 0.001)
    for k in range(1000):
        time.advance(0.1)
        if live.surprises(2.0):
            live.surprising(2.0, b"row %d" % k, 1.0, 0.1)
    told = live.picture()["surprises"]
    assert [one["loss"] for one in told] == [9.0] + [2.0] * (SURPRISES - 1)
    assert told[0]["row"] == "first"
    time.advance(3600.0)
    assert live.picture()["surprises"] == []


def learn_steadily(live: Live, time: FakeClock, seconds: int, rows: int = 30) -> None:
    """So many rows in each second, all of them the first thing in it."""
    for _ in range(seconds):
        learned(live, np.full(rows, 0.5), np.arange(rows) % 2)
        time.advance(1.0)


def test_rates_are_those_of_the_last_sixty_seconds():
    time = FakeClock()
    live = Live(time.clock)
    learn_steadily(live, time, 5)
    assert live.picture()["learned_per_second"] == 30.0  # and not a twelfth of that, so soon after the start
    learn_steadily(live, time, 200)
    assert live.picture()["learned_per_second"] == 30.0
    time.advance(30.0)
    assert live.picture()["learned_per_second"] == 15.0
    time.advance(40.0)
    told = live.picture()
    assert told["learned_per_second"] == told["predicted_per_second"] == 0.0
    assert told["idle"] == 71.0
    live.predicted(120, 0.0)
    time.advance(1.0)
    assert live.picture()["predicted_per_second"] == 2.0


def test_the_slice_under_way_is_not_drawn_as_one_that_is_over():
    time = FakeClock()
    live = Live(time.clock)
    for _ in range(64):
        learn_steadily(live, time, 1)
        assert {part["learned"] for part in live.picture()["hour"]} <= {30 * SLICE}
    assert len(live.picture()["hour"]) == 6


def test_silence_is_zero_and_has_no_loss():
    time = FakeClock()
    live = Live(time.clock)
    learn_steadily(live, time, 30)
    time.advance(1800.0)
    learn_steadily(live, time, 30)
    hour = live.picture()["hour"]
    assert [part["learned"] for part in hour] == [300] * 3 + [0] * 180 + [300] * 3
    assert [part["loss"] is None for part in hour] == [False] * 3 + [True] * 180 + [False] * 3
    assert np.diff([part["at"] for part in hour]) == pytest.approx(SLICE)
    time.advance(600.0)
    hour = live.picture()["hour"]
    assert hour[-1]["learned"] == 0
    assert time.clock.wall() - hour[-1]["at"] <= 2 * SLICE  # they end now, not where traffic did
    time.advance(36000.0)
    assert len(live.picture()["hour"]) == SLICES - 1
    assert live.picture()["loss_hour"] is None


def test_whether_traffic_was_steady_is_known_when_it_has_ended():
    time = FakeClock()
    live = Live(time.clock)
    learn_steadily(live, time, 200)
    assert not live.picture()["steady"]  # not long enough to tell
    learn_steadily(live, time, 200)
    time.advance(312.0)
    assert live.picture()["steady"]
    live = Live(time.clock)
    for _ in range(40):
        learn_steadily(live, time, 1)
        time.advance(60.0)
    assert not live.picture()["steady"]


@pytest.mark.parametrize("jump", [-30 * 86400.0, 3600.0])
def test_a_step_of_the_wall_clock_moves_the_labels_of_slices_alone(jump):
    time = FakeClock()
    live = Live(time.clock)
    learn_steadily(live, time, 60)
    time.jump = jump
    learn_steadily(live, time, 60)
    told = live.picture()
    assert [part["learned"] for part in told["hour"]] == [300] * 12
    assert told["hour"][-1]["at"] == pytest.approx(time.clock.wall() - SLICE)
    assert told["learned_per_second"] == 30.0


def learn_labels(live: Live, labels: np.ndarray, losses: np.ndarray, task: str, weights=None) -> None:
    n = len(labels)
    batch = Batch.from_arrays(np.arange(n + 1), np.arange(n), np.ones(n), labels, weights)
    prediction = SimpleNamespace(expected=np.full(n, 0.5))
    live.learned(batch, prediction, losses, None, task, Counters(n, weight=1.0))


def test_the_loss_of_always_predicting_the_rate_stands_beside_the_loss():
    time, rng = FakeClock(), np.random.default_rng(0)
    live, weights = Live(time.clock), rng.uniform(0.5, 2.0, 3000)
    labels = (rng.uniform(size=3000) < 0.2).astype(float)
    for part in np.split(np.arange(3000), 30):
        learn_labels(live, labels[part], np.full(100, 0.4), "binary", weights[part])
        time.advance(SLICE)
    rate = np.average(labels, weights=weights)
    expected = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    told = live.picture()["base"]
    assert told["loss"] == pytest.approx(expected)
    assert told["better"] == pytest.approx(1.0 - 0.4 / expected)
    assert not told["alarm"]


def test_of_numbers_it_is_their_variance():
    time, rng = FakeClock(), np.random.default_rng(0)
    live, labels = Live(time.clock), rng.normal(1e8, 1.0, 3000)
    for part in np.split(labels, 30):
        learn_labels(live, part, np.full(100, 0.5), "regression")
        time.advance(SLICE)
    assert live.picture()["base"]["loss"] == pytest.approx(labels.var())


def test_of_classes_it_is_the_entropy_of_their_frequencies():
    time, rng = FakeClock(), np.random.default_rng(0)
    live, labels = Live(time.clock), rng.choice([3, 5, 9], 3000, p=[0.2, 0.3, 0.5])
    for part in np.split(labels, 30):
        learn_labels(live, part.astype(float), np.full(100, 0.5), "multiclass")
        time.advance(SLICE)
    shares = np.bincount(labels)[[3, 5, 9]] / 3000
    assert live.picture()["base"]["loss"] == pytest.approx(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize(
    ("rows", "loss", "alarm"), [(5000, 0.9, True), (500, 0.9, False), (5000, 0.695, False), (5000, 0.6, False)]
)
def test_a_model_that_is_clearly_worse_than_the_rate_is_an_alarm(rows, loss, alarm):
    live = Live(FakeClock().clock)
    learn_labels(live, np.arange(rows) % 2, np.full(rows, loss), "binary")  # the rate alone costs .693
    assert live.picture()["base"]["alarm"] is alarm


def test_delays_of_labels_of_late_stand_beside_the_usual_ones():
    time = FakeClock()
    live = Live(time.clock)
    assert live.picture()["delay"] == {"recent": None, "usual": None, "silent": None}
    for _ in range(60):
        live.joined([19.0, 20.0, 21.0])
        time.advance(10.0)
    for _ in range(30):
        live.joined([200.0])
        time.advance(10.0)
    told = live.picture()["delay"]
    assert told["recent"] == pytest.approx(200.0)
    assert told["usual"] == pytest.approx(20.0)
    time.advance(600.0)
    told = live.picture()["delay"]
    assert told["recent"] is None
    assert told["silent"] == 610.0


def test_long_names_are_cut():
    learner = new_learner("marginal", [], 12, {})
    live = Live()
    learned(live, np.array([0.5]), np.array([1.0]))
    learner.extras.names = SimpleNamespace(name_of=lambda features: ["\x1b" + "x" * 100_000] * len(features))
    live.look_at_weights(learner)
    assert live.moved[0]["feature"] == r"\x1b" + "x" * 299 + "…"


@pytest.mark.parametrize(("pause", "expected"), [(0.0, 3), (1e9, 1)])
def test_snapshots_pause_for_many_times_as_long_as_they_take(tmp_path, monkeypatch, pause, expected):
    monkeypatch.setattr(served, "PAUSE", pause)
    with running(tmp_path, snapshot_every=2) as server:
        written: list[int] = []
        write = server.served.folder.write
        monkeypatch.setattr(
            server.served.folder, "write", lambda copied, version: (write(copied, version), written.append(version))
        )
        for _ in range(3):
            server.post("/learn", [{"a": 1, "label": 1}] * 2)
            server.served._writing.submit(int).result()  # what was to be written is
        assert len(written) == expected
