"""What the live page has shown is kept over a restart; what cannot be used of it does no harm."""

import json
import stat

import numpy as np
import pytest

from bayou.serve import service
from bayou.serve.live_stats import HISTORY_FILE, SLICE_SECONDS, LiveStats, load_history, save_history
from tests.serve.serving import FakeClock, running
from tests.serve.test_live_stats import learn_labels, learn_steadily


def restarted(live: LiveStats, time: FakeClock, down: float, examples: int = 10**9) -> LiveStats:
    """Another process, after some seconds without any."""
    kept = live.history()
    time.advance(down)
    started = LiveStats(time.clock)
    started.restore(kept, examples)
    return started


def test_the_hour_and_the_curve_go_on_with_a_gap_while_it_was_down():
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_steadily(live, time, 60)
    live.joined([20.0])
    before = live.live_status()
    live = restarted(live, time, down=600.0)
    learn_steadily(live, time, 30)
    told = live.live_status()
    assert [part["learned"] for part in told["hour"]] == [300] * 6 + [None] * 60 + [300] * 3
    assert [part["predicted"] for part in told["hour"]] == [0] * 6 + [None] * 60 + [0] * 3
    assert told["hour"][:6] == before["hour"]
    assert told["curve"][: len(before["curve"])] == before["curve"]
    assert told["loss_hour"] == pytest.approx(before["loss_hour"])
    assert told["base"]["rows"] == 90 * 30
    assert told["calibration"][0]["weight"] == 90 * 30
    assert told["learned_per_second"] == 30.0
    time.advance(3600.0)
    assert live.live_status()["loss_hour"] is None


def test_what_is_older_than_an_hour_or_than_the_model_is_left_out():
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_labels(live, np.zeros(30), np.ones(30), "binary")
    live = restarted(live, time, down=3700.0, examples=29)
    assert live.live_status()["hour"] == live.live_status()["curve"] == []


def test_a_clock_that_was_set_back_while_it_was_down_does_no_harm():
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_steadily(live, time, 60)
    kept = live.history()
    time.jump = -86400.0
    live = LiveStats(time.clock)
    live.restore(kept, 10**9)
    learn_steadily(live, time, 20)
    assert [part["learned"] for part in live.live_status()["hour"]] == [300, 300]


def test_the_file_is_written_whole_and_for_its_owner_alone(tmp_path):
    time = FakeClock()
    live = LiveStats(time.clock)
    learn_labels(live, np.array([3.0, 4.0]), np.ones(2), "multiclass")
    learn_steadily(live, time, 60)
    live.joined([20.0])
    for _ in range(2):
        save_history(tmp_path, live.history())
    assert [path.name for path in tmp_path.iterdir()] == [HISTORY_FILE]
    assert stat.S_IMODE((tmp_path / HISTORY_FILE).stat().st_mode) == 0o600
    assert load_history(tmp_path) == (live.history(), "")


GOOD = {"format": "bayou live page", "version": 1, "began": 0.0, "slices": [], "curve": []}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x00" * 100,
        json.dumps(GOOD).encode()[:-1],
        json.dumps(GOOD | {"version": 2}).encode(),
        json.dumps(GOOD | {"format": "something else"}).encode(),
        json.dumps(GOOD | {"slices": [{"index": 0, "weight": -1.0}]}).encode(),
        json.dumps(GOOD | {"slices": [{"index": 0, "calibration": [[1.0]]}]}).encode(),
        json.dumps(GOOD).replace("0.0", "1e999").encode(),
        b'{"began": 0.0}',
    ],
)
def test_a_damaged_or_foreign_file_is_said_and_left_out(tmp_path, content):
    (tmp_path / HISTORY_FILE).write_bytes(json.dumps(GOOD).encode())
    assert load_history(tmp_path)[1] == ""
    (tmp_path / HISTORY_FILE).write_bytes(content)
    kept, sentence = load_history(tmp_path)
    assert kept is None
    assert str(tmp_path / HISTORY_FILE) in sentence
    assert "the model is unaffected" in sentence


def test_a_server_goes_on_with_what_its_page_has_shown(tmp_path, monkeypatch):
    time = FakeClock()
    monkeypatch.setattr(service, "LiveStats", lambda: LiveStats(time.clock))
    with running(tmp_path) as server:
        server.post("/learn", [{"a": k % 3, "label": k % 2} for k in range(30)])
        time.advance(SLICE_SECONDS)
        server.served.look_after()
        before = server.served.live.live_status()
        assert [part["learned"] for part in before["hour"]] == [30]
        file = server.served.folder.path / HISTORY_FILE
        assert file.exists()
        file.unlink()
    assert file.exists()  # it is written at the end, too
    time.advance(60.0)
    with running(tmp_path) as server:
        after = server.served.live.live_status()
        assert [part["learned"] for part in after["hour"]] == [30] + [None] * 6
        assert after["curve"] == before["curve"]
    file.write_bytes(b"not mine")
    with running(tmp_path) as server:
        assert any("live.json cannot be used" in sentence for sentence in server.said)
        assert server.served.live.live_status()["curve"] == []
        assert server.served.model.learner.examples == 30
