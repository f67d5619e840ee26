"""What the live page is told: some rows stand for many, and what was surprising is not forgotten at once."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayou import Batch
from bayou.core.extras import Counters
from bayou.serve import service
from bayou.serve.live_stats import N_SLICES, N_SURPRISES, SAMPLED_ROWS, SLICE_SECONDS, LiveStats
from bayou.serve.service import new_learner
from tests.serve.serving import FakeClock, running


def learned(live: LiveStats, p: np.ndarray, labels: np.ndarray, frozen=None) -> np.ndarray:
    batch = Batch.from_arrays(np.arange(len(p) + 1), np.arange(len(p)), np.ones(len(p)), labels)
    losses = -np.log(np.where(labels > 0, p, 1.0 - p))
    live.learned(batch, SimpleNamespace(expected=p), losses, frozen, "binary", Counters(len(p), weight=1.0))
    return losses


def test_of_long_units_some_rows_stand_for_all():
    live, rng = LiveStats(), np.random.default_rng(0)
    p = rng.uniform(size=40 * SAMPLED_ROWS)
    labels = (rng.uniform(size=p.size) < p).astype(float)
    losses = learned(live, p, labels, frozen=np.full(SAMPLED_ROWS, 2.0))
    told = live.live_status()
    assert told["loss_hour"] == pytest.approx(losses.mean())
    assert sum(part["weight"] for part in told["calibration"]) == pytest.approx(p.size, rel=0.02)
    for k, part in enumerate(told["calibration"]):
        assert part["predicted"] == pytest.approx(0.05 + 0.1 * k, abs=0.03)
    assert told["drift"]["rows"] == SAMPLED_ROWS
    assert told["drift"]["gap"] == pytest.approx((2.0 - losses[:SAMPLED_ROWS]).mean())


def test_the_most_surprising_rows_are_kept_however_many_come_after_them():
    time = FakeClock()
    live = LiveStats(time.clock)
    assert not live.surprises(0.5)
    live.add_surprise(9.0, b"first", 1.0, 0.001)
    for k in range(1000):
        time.advance(0.1)
        if live.surprises(2.0):
            live.add_surprise(2.0, b"row %d" % k, 1.0, 0.1)
    told = live.live_status()["surprises"]
    assert [one["loss"] for one in told] == [9.0] + [2.0] * (N_SURPRISES - 1)
    assert told[0]["row"] == "first"
    time.advance(3600.0)
    assert live.live_status()["surprises"] == []


def learn_steadily(live: LiveStats, time: FakeClock, seconds: int, rows: int = 30) -> None:
    """So many rows in each second, all of them the first thing in it."""
    for _ in range(seconds):
        learned(live, np.full(rows, 0.5), np.arange(rows) % 2)
        time.advance(1.0)


def test_rates_are_those_of_the_last_sixty_seconds():
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_steadily(live, time, 5)
    assert live.live_status()["learned_per_second"] == 30.0  # and not a twelfth of that, so soon after the start
    learn_steadily(live, time, 200)
    assert live.live_status()["learned_per_second"] == 30.0
    time.advance(30.0)
    assert live.live_status()["learned_per_second"] == 15.0
    time.advance(40.0)
    told = live.live_status()
    assert told["learned_per_second"] == told["predicted_per_second"] == 0.0
    assert told["idle"] == 71.0
    live.predicted(120, 0.0)
    time.advance(1.0)
    assert live.live_status()["predicted_per_second"] == 2.0


def test_the_slice_under_way_is_not_drawn_as_one_that_is_over():
    time = FakeClock()
    live = LiveStats(time.clock)
    for _ in range(64):
        learn_steadily(live, time, 1)
        assert {part["learned"] for part in live.live_status()["hour"]} <= {30 * SLICE_SECONDS}
    assert len(live.live_status()["hour"]) == 6


def test_silence_is_zero_and_has_no_loss():
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_steadily(live, time, 30)
    time.advance(1800.0)
    learn_steadily(live, time, 30)
    hour = live.live_status()["hour"]
    assert [part["learned"] for part in hour] == [300] * 3 + [0] * 180 + [300] * 3
    assert [part["loss"] is None for part in hour] == [False] * 3 + [True] * 180 + [False] * 3
    assert np.diff([part["at"] for part in hour]) == pytest.approx(SLICE_SECONDS)
    time.advance(600.0)
    hour = live.live_status()["hour"]
    assert hour[-1]["learned"] == 0
    assert time.clock.wall() - hour[-1]["at"] <= 2 * SLICE_SECONDS  # they end now, not where traffic did
    time.advance(36000.0)
    assert len(live.live_status()["hour"]) == N_SLICES - 1
    assert live.live_status()["loss_hour"] is None


def test_whether_traffic_was_steady_is_known_when_it_has_ended():
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_steadily(live, time, 200)
    assert not live.live_status()["steady"]  # not long enough to tell
    learn_steadily(live, time, 200)
    time.advance(312.0)
    assert live.live_status()["steady"]
    live = LiveStats(time.clock)
    for _ in range(40):
        learn_steadily(live, time, 1)
        time.advance(60.0)
    assert not live.live_status()["steady"]


@pytest.mark.parametrize("jump", [-30 * 86400.0, 3600.0])
def test_a_step_of_the_wall_clock_moves_the_labels_of_slices_alone(jump):
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_steadily(live, time, 60)
    time.jump = jump
    learn_steadily(live, time, 60)
    told = live.live_status()
    assert [part["learned"] for part in told["hour"]] == [300] * 12
    assert told["hour"][-1]["at"] == pytest.approx(time.clock.wall() - SLICE_SECONDS)
    assert told["learned_per_second"] == 30.0


def learn_labels(live: LiveStats, labels: np.ndarray, losses: np.ndarray, task: str, weights=None) -> None:
    n = len(labels)
    batch = Batch.from_arrays(np.arange(n + 1), np.arange(n), np.ones(n), labels, weights)
    prediction = SimpleNamespace(expected=np.full(n, 0.5))
    live.learned(batch, prediction, losses, None, task, Counters(n, weight=1.0))


def test_the_loss_of_always_predicting_the_rate_stands_beside_the_loss():
    time, rng = FakeClock(), np.random.default_rng(0)
    live, weights = LiveStats(time.clock), rng.uniform(0.5, 2.0, 3000)
    labels = (rng.uniform(size=3000) < 0.2).astype(float)
    for part in np.split(np.arange(3000), 30):
        learn_labels(live, labels[part], np.full(100, 0.4), "binary", weights[part])
        time.advance(SLICE_SECONDS)
    rate = np.average(labels, weights=weights)
    expected = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    told = live.live_status()["base"]
    assert told["loss"] == pytest.approx(expected)
    assert told["better"] == pytest.approx(1.0 - 0.4 / expected)
    assert not told["alarm"]


def test_of_numbers_it_is_their_variance():
    time, rng = FakeClock(), np.random.default_rng(0)
    live, labels = LiveStats(time.clock), rng.normal(1e8, 1.0, 3000)
    for part in np.split(labels, 30):
        learn_labels(live, part, np.full(100, 0.5), "regression")
        time.advance(SLICE_SECONDS)
    assert live.live_status()["base"]["loss"] == pytest.approx(labels.var())


def test_of_classes_it_is_the_entropy_of_their_frequencies():
    time, rng = FakeClock(), np.random.default_rng(0)
    live, labels = LiveStats(time.clock), rng.choice([3, 5, 9], 3000, p=[0.2, 0.3, 0.5])
    for part in np.split(labels, 30):
        learn_labels(live, part.astype(float), np.full(100, 0.5), "multiclass")
        time.advance(SLICE_SECONDS)
    shares = np.bincount(labels)[[3, 5, 9]] / 3000
    assert live.live_status()["base"]["loss"] == pytest.approx(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize(
    ("rows", "loss", "alarm"), [(5000, 0.9, True), (500, 0.9, False), (5000, 0.695, False), (5000, 0.6, False)]
)
def test_a_model_that_is_clearly_worse_than_the_rate_is_an_alarm(rows, loss, alarm):
    live = LiveStats(FakeClock().clock)
    learn_labels(live, np.arange(rows) % 2, np.full(rows, loss), "binary")  # the rate alone costs .693
    assert live.live_status()["base"]["alarm"] is alarm


def test_delays_of_labels_of_late_stand_beside_the_usual_ones():
    time = FakeClock()
    live = LiveStats(time.clock)
    assert live.live_status()["delay"] == {"recent": None, "usual": None, "silent": None}
    for _ in range(60):
        live.joined([19.0, 20.0, 21.0])
        time.advance(10.0)
    for _ in range(30):
        live.joined([200.0])
        time.advance(10.0)
    told = live.live_status()["delay"]
    assert told["recent"] == pytest.approx(200.0)
    assert told["usual"] == pytest.approx(20.0)
    time.advance(600.0)
    told = live.live_status()["delay"]
    assert told["recent"] is None
    assert told["silent"] == 610.0


def test_long_names_are_cut():
    learner = new_learner("marginal", [], 12, {})
    live = LiveStats()
    learned(live, np.array([0.5]), np.array([1.0]))
    learner.extras.names = SimpleNamespace(name_of=lambda features: ["\x1b" + "x" * 100_000] * len(features))
    live.track_weights(learner)
    assert live.moved[0]["feature"] == r"\x1b" + "x" * 299 + "…"


@pytest.mark.parametrize(("pause", "expected"), [(0.0, 3), (1e9, 1)])
def test_snapshots_pause_for_many_times_as_long_as_they_take(tmp_path, monkeypatch, pause, expected):
    monkeypatch.setattr(service, "SNAPSHOT_PAUSE_RATIO", pause)
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
