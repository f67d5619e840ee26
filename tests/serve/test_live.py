"""What the live page is told: some rows stand for many, and what was surprising is not forgotten at once."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayou import Batch
from bayou.core.extras import Counters
from bayou.serve import served
from bayou.serve.live import LOOKED_AT, SURPRISES, Live
from tests.serve.serving import running


def learned(live: Live, p: np.ndarray, labels: np.ndarray, later=None) -> np.ndarray:
    batch = Batch.from_arrays(np.arange(len(p) + 1), np.arange(len(p)), np.ones(len(p)), labels)
    losses = -np.log(np.where(labels > 0, p, 1.0 - p))
    live.learned(batch, SimpleNamespace(expected=p), losses, later, "classify", Counters(len(p), weight=1.0))
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


def test_the_most_surprising_rows_are_kept_however_many_come_after_them(monkeypatch):
    live, now = Live(), [1_000_000.0]
    monkeypatch.setattr("bayou.serve.live.time", SimpleNamespace(time=lambda: now[0]))
    assert not live.surprises(0.5)
    live.surprising(9.0, b"first", 1.0, 0.001)
    for k in range(1000):
        now[0] += 0.1
        if live.surprises(2.0):
            live.surprising(2.0, b"row %d" % k, 1.0, 0.1)
    told = live.picture()["surprises"]
    assert [one["loss"] for one in told] == [9.0] + [2.0] * (SURPRISES - 1)
    assert told[0]["row"] == "first"
    now[0] += 3600.0
    assert live.picture()["surprises"] == []


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
