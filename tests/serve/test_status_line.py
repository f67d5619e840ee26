"""What the status line says: what is wrong, the loudest first, and since when."""

from typing import Any

import pytest

from bayou.serve.health import LOW_DISK, Health, duration
from bayou.serve.live_stats import LiveStats
from tests.serve.serving import FakeClock, running

DRIFT = {"gap": 0.05, "error": 0.01, "rows": 1000, "alarm": True}
WORSE = {"loss": 0.5, "better": -0.2, "rows": 5000, "alarm": True}
DELAY = {"recent": 20.0, "usual": 18.0, "silent": 0.0}


def live_status(**changes: Any) -> dict[str, Any]:
    """What a healthy model with traffic looks like, but for some things."""
    live = {"idle": 0.2, "steady": False, "up": 5000.0, "delay": DELAY, "drift": None, "base": None, "loss_hour": 0.6}
    server = {
        "alarms": [], "disk_free": 10 * LOW_DISK, "queue": 3, "queue_limit": 4096, "refused": {422: 5},
        "requests_per_second": 20.0,
    }  # fmt: skip
    labels = {"open": 7}
    for part in (live, server, labels):
        part.update({key: value for key, value in changes.items() if key in part})
    return {"live": live, "server": server, "labels": labels}


def test_a_healthy_server_says_since_when():
    time = FakeClock()
    health = Health(LiveStats(time.clock))
    began = time.clock.wall()
    time.advance(11520.0)
    assert health.status(live_status()) == {"level": "healthy", "text": "Healthy", "since": began, "also": []}


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"alarms": ["the disk is full."]}, "failing", "The disk is full."),
        ({"disk_free": LOW_DISK // 2}, "warning", "nearly full: 128 MB are free"),
        ({"queue": 2048}, "warning", "2,048 requests are waiting for the model; from 4,096 on, new ones are refused"),
        ({"refused": {422: 5, 500: 3}}, "warning", "3 requests of the last hour failed with a server error (500)"),
        ({"drift": DRIFT}, "warning", "would have lost 0.05 more per row in the last hour (± 0.01, on 1,000 rows)"),
        ({"base": WORSE}, "warning", "worse than one that ignores the rows: a mean loss of 0.6 in the last hour, aga"),
        ({"idle": 312.0, "requests_per_second": 0.0}, "idle", "No requests for 5 min"),
        ({"idle": 312.0, "requests_per_second": 0.0, "steady": True}, "warning", "Before that they arrived steadily"),
        ({"idle": None, "requests_per_second": 0.0}, "idle", "No requests since the server started"),
        ({"idle": 312.0}, "warning", "Requests arrive, but no row was predicted or learned for 5 min"),
        ({"delay": DELAY | {"recent": 200.0}}, "warning", "Labels arrive 3 min after their row; usually 18 s"),
        (
            {"delay": DELAY | {"recent": None, "silent": 720.0}},
            "warning",
            "No labels for 12 min; they usually arrive 18 s",
        ),
    ],
)
def test_what_is_wrong_is_said(changes, level, says):
    status = Health(LiveStats(FakeClock().clock)).status(live_status(**changes))
    assert status["level"] == level
    assert says in status["text"]


@pytest.mark.parametrize(
    "changes",
    [
        {"drift": DRIFT | {"alarm": False}, "base": WORSE | {"alarm": False}},
        {"delay": DELAY | {"recent": 70.0}},  # slower, and by less than a minute
        {"delay": DELAY | {"recent": None, "silent": 720.0}, "open": 0},  # nothing waits for a label
        {"delay": {"recent": 500.0, "usual": None, "silent": 0.0}},  # the first labels of all
        {"idle": None, "up": 20.0, "requests_per_second": 0.0},  # it has just begun
        {"disk_free": None},
    ],
)
def test_what_is_not_wrong_is_not_said(changes):
    assert Health(LiveStats(FakeClock().clock)).status(live_status(**changes))["level"] == "healthy"


def test_the_loudest_comes_first_and_the_others_are_there():
    status = Health(LiveStats(FakeClock().clock)).status(
        live_status(idle=300.0, requests_per_second=0.0, drift=DRIFT, alarms=["The log is gone.", "No snapshot."])
    )
    assert [status["level"], *(one["level"] for one in status["also"])] == ["failing", "failing", "warning", "idle"]
    assert status["text"] == "The log is gone."


def test_since_when_is_said_of_each_whatever_numbers_are_in_it():
    time = FakeClock()
    health = Health(LiveStats(time.clock))
    began = time.clock.wall()
    time.advance(100.0)
    full = ["The disk is full: 7 bytes are free."]
    assert health.status(live_status(alarms=full))["since"] == began + 100.0
    time.advance(50.0)
    status = health.status(live_status(alarms=["The disk is full: 12 bytes are free."], drift=DRIFT))
    assert status["since"] == began + 100.0
    assert status["also"][0]["since"] == began + 150.0
    time.advance(50.0)
    assert health.status(live_status())["since"] == began + 150.0  # when trouble was seen last
    time.advance(50.0)
    assert health.status(live_status(alarms=full))["since"] == began + 250.0


def test_silence_counts_from_the_last_row_and_leaves_the_server_healthy():
    time = FakeClock()
    health = Health(LiveStats(time.clock))
    began = time.clock.wall()
    time.advance(1000.0)
    status = health.status(live_status(idle=400.0, requests_per_second=0.0))
    assert status["since"] == began + 600.0
    assert status["also"] == [{"level": "healthy", "text": "Healthy", "since": began}]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"), (0.4, "0.4 s"), (59.9, "59 s"), (312.0, "5 min"), (11520.0, "3 h 12 min"), (7200.0, "2 h"),
        (90000.0, "1 day 1 h"), (200000.0, "2 days 7 h"),
    ],
)  # fmt: skip
def test_times_are_worded_in_two_units_at_most(seconds, words):
    assert duration(seconds) == words


def test_a_server_tells_what_its_page_needs(tmp_path):
    with running(tmp_path, wait=60.0) as server:
        server.post("/learn", [{"a": k, "label": k % 2} for k in range(3)])
        server.post("/predict", {"a": 1.0, "id": "one"})
        told = server.served.live_status()
        assert told["status"]["level"] == "healthy"
        own = told["server"]
        assert own["queue"] == 0
        assert own["queue_limit"] == 4096
        assert own["disk_free"] > 0
        assert own["log_bytes"] > 0
        assert own["snapshot"] == {"version": 0, "age": None}
        assert own["alarms"] == []
        assert server.post("/snapshot", {}).status_code == 200
    with running(tmp_path) as server:
        own = server.served.live_status()["server"]
        snapshot = own["snapshot"]
        assert snapshot["version"] == 2
        assert 0.0 <= snapshot["age"] < 60.0  # also of one that was written before the start
        assert 0.0 <= own["oldest_row"] < 60.0
        server.served.log_damage = "The log is damaged."
        assert server.served.live_status()["status"]["text"] == "The log is damaged."
