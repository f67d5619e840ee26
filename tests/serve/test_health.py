"""A log that cannot be written: it is said everywhere, predictions go on, and nothing untrue is told."""

import shutil
import socket
import time

import pytest

import bayou
from bayou.serve.health import REPEAT_SECONDS, LastingProblem
from bayou.serve.log import LogWriteError
from bayou.serve.state_folder import replayed
from bayou.serve.supervisor import Supervisor
from tests.serve.serving import Running, learner, running

ROW = {"a": 1.0, "label": 1}
BIG = [{f"feature{k}": 1.0, "label": 1} for k in range(2000)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("bayou.serve.log_writer.EXPIRY_CHECK_SECONDS", 0.05)


def eventually(told, seconds=20.0):
    until = time.monotonic() + seconds
    while not (found := told()) and time.monotonic() < until:
        time.sleep(0.01)
    return found


def said_of_model(server, words):
    """What the server said of the model by itself, and not of a request."""
    return [text for text in server.said if text.startswith("default: ") and words in text]


def readiness(server):
    told = server.client.get("/readyz")
    return told.status_code, told.json()


def health(server):
    return server.client.get("/healthz").status_code


# --- a full disk ------------------------------------------------------------------------------------------------------


def fill(server):
    """No room for large rows, as on a full disk."""
    db = server.served.log._db
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0] + 2}")


def test_a_full_disk_is_said_everywhere_and_so_is_its_end(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
        assert (server.served.alarms(), server.served.log_writable) == ([], True)
        fill(server)
        assert [server.post("/learn", BIG).status_code for _ in range(3)] == [503] * 3
        status, told = readiness(server)
        assert (status, told["ready"], told["models"]) == (503, False, {"default": "full"})
        assert "database or disk is full" in told["reasons"][0]
        assert not server.served.log_writable
        assert "nothing is learned or remembered until there is room" in server.served.alarms()[0]
        info = server.client.get("/info").json()
        assert (info["state"], info["alarms"]) == ("full", server.served.alarms())
        assert server.post("/predict", {"a": 1}).status_code == 200
        assert health(server) == 200  # a restart would not help
        assert len(said_of_model(server, "database or disk is full")) == 1  # not once a request
        server.served.log._db.execute("PRAGMA max_page_count = 1000000")
        assert eventually(lambda: readiness(server)[0] == 200)  # nobody wrote anything meanwhile
        assert (server.served.alarms(), server.served.log_writable) == ([], True)
        assert len(said_of_model(server, "the log can be written again")) == 1
        assert server.post("/learn", BIG).status_code == 200
    assert replayed(tmp_path).learner.examples == 2001


def test_rows_that_are_overdue_on_a_full_disk_keep_no_processor_busy(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
        tried = []

        def commit(units, at=None):
            tried.append(1)
            raise LogWriteError("database or disk is full")

        monkeypatch.setattr(server.served.log, "commit", commit)
        monkeypatch.setattr(server.served.log, "is_due", lambda now: True)
        assert eventually(lambda: len(tried) >= 2)
        time.sleep(0.3)
        assert len(tried) < 20
        monkeypatch.undo()


def test_trouble_is_said_at_once_then_once_a_minute_and_when_it_is_over():
    said, now = [], [0.0]
    trouble = LastingProblem(lambda text, level: said.append((text, level)), "over", monotonic=lambda: now[0])
    full, over = ("full", "error"), ("over", "info")

    def pass_(seconds, text):
        before = len(said)
        now[0] += seconds
        trouble.update(text)
        return said[before:]

    assert pass_(0, "") == []
    assert pass_(1, "full") == [full]
    assert [pass_(1, "full") for _ in range(58)] == [[]] * 58
    assert pass_(2, "full") == [full]
    assert pass_(1, "") == [over]
    assert [pass_(1, text) for text in ("full", "", "full", "", "")] == [[]] * 5  # that comes and goes
    assert pass_(REPEAT_SECONDS, "full") == [full]
    assert trouble.text == "full"


def test_snapshots_that_fail_are_an_alarm_and_are_counted(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
        snapshots = server.served.folder.snapshots
        snapshots.rename(tmp_path / "elsewhere")
        for _ in range(2):
            told = server.client.post("/snapshot")
            assert (told.status_code, "no snapshot" in told.json()["error"]) == (503, True)
            assert str(tmp_path) not in told.text
        assert server.served.snapshot_failures == 2
        assert "no snapshot can be written" in server.served.alarms()[0]
        assert str(tmp_path) not in server.served.alarms()[0]
        assert readiness(server)[0] == 200
        assert len(said_of_model(server, "no snapshot can be written")) == 1
        (tmp_path / "elsewhere").rename(snapshots)
        assert server.client.post("/snapshot").status_code == 200
        assert (server.served.alarms(), server.served.snapshot_failures) == ([], 2)


def test_free_room_and_the_size_of_the_log_are_told(tmp_path):
    with running(tmp_path) as server:
        before = server.served.log.size_bytes()
        server.post("/learn", [row | {"text": f"{k}" * 100} for k, row in enumerate([ROW] * 2000)])
        assert server.served.log.size_bytes() > before > 0
        assert abs(server.served.disk_free() - shutil.disk_usage(tmp_path).free) < 1 << 30


def test_commits_tell_how_long_they_took_and_waited(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", [ROW] * 3)
        times = server.server.telemetry.times["default"]
        assert [sum(times[name].counts) for name in ("log_commit", "log_wait")] == [1, 1]
        assert (0 < times["log_commit"].total < 60, 0 <= times["log_wait"].total < 60) == (True, True)


def test_the_oldest_open_row_is_told(tmp_path):
    with running(tmp_path) as server:
        ids = server.served.log.ids
        assert ids.oldest_pending() is None
        before = time.time()
        server.post("/predict", {"a": 1, "id": "first"})
        oldest = eventually(ids.oldest_pending)
        assert before - 1 < oldest < time.time() + 1
        server.post("/predict", {"a": 1, "id": "second"})
        server.post("/label", {"id": "first", "label": 1})
        assert eventually(lambda: ids.oldest_pending() > oldest)
        server.post("/label", {"id": "second", "label": 1})
        assert eventually(lambda: ids.oldest_pending() is None) is True


# --- a log that broke -------------------------------------------------------------------------------------------------


def spoil_pages(server):
    """Overwrite the log while the server runs."""
    log = server.served.log
    for path in log._paths:
        with open(path, "r+b") as file:
            file.write(b"\xa5" * path.stat().st_size)
    log._db.execute("PRAGMA shrink_memory")  # what SQLite remembers of its pages


def test_a_log_that_broke_is_said_everywhere_while_predictions_go_on(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", [ROW] * 10)
        expected = server.post("/predict", {"a": 1.0}).json()
        server.post("/predict", {"a": 2.0, "id": "open"})
        spoil_pages(server)
        first = server.post("/learn?request=r", ROW)
        assert first.status_code == 503
        assert "It is unknown whether this request was logged" in first.json()["error"]
        refused = [
            server.post("/learn", ROW),
            server.post("/label", {"id": "open", "label": 1}),
            server.post("/predict", {"a": 1, "id": "new"}),
        ]
        assert [told.status_code for told in refused] == [503] * 3
        assert all("the log cannot be written any more" in told.json()["error"] for told in refused)
        assert server.post("/predict", {"a": 1.0}).json()["probability"] == expected["probability"]
        assert server.client.get("/features").status_code == 200
        sentence = server.served.alarms()[0]
        assert "the log cannot be written any more" in sentence
        assert "malformed" in sentence or "not a database" in sentence or "damaged" in sentence
        assert "nothing that was acknowledged is lost" not in sentence
        assert health(server) == 503
        assert server.client.get("/healthz").json() == {"alive": False, "reasons": [sentence]}
        assert readiness(server) == (503, {"ready": False, "models": {"default": "broken"}, "reasons": [sentence]})
        info = server.client.get("/info").json()
        assert (info["state"], info["alarms"]) == ("broken", [sentence])
        assert str(tmp_path) not in sentence
        assert len(said_of_model(server, "the log cannot be written any more")) == 1
        # What was learned is kept, while it is sound in memory.
        assert eventually(lambda: server.served.folder.versions()) == [2]
        assert server.client.post("/snapshot").json()["version"] == 2
    assert not any("has everything" in text for text in server.said)


def test_a_log_that_broke_keeps_no_processor_busy(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        log_writer, taken = server.served.owner.log_writer, []
        take = log_writer._taken
        monkeypatch.setattr(log_writer, "_taken", lambda: taken.append(1) or take())
        monkeypatch.setattr(server.served.log, "is_due", lambda now: True)
        monkeypatch.setattr(server.served.log, "commit", lambda units: 1 / 0)
        assert eventually(lambda: log_writer.broken)
        taken.clear()
        time.sleep(0.3)
        assert len(taken) < 20


def test_a_model_that_broke_is_out_of_order_for_supervisors_too(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        monkeypatch.setattr(server.served.model, "learn", lambda *unused: 1 / 0)
        assert server.post("/learn", ROW).status_code == 503
        assert health(server) == 503
        assert readiness(server)[1]["models"] == {"default": "broken"}
        assert "out of order: ZeroDivisionError" in server.served.alarms()[0]
        assert len(said_of_model(server, "out of order")) == 1


def test_what_is_said_to_everybody_names_no_models_to_those_without_a_token(tmp_path):
    from bayou.serve.tokens import Tokens

    path = tmp_path / "tokens"
    path.write_text("read " + "r" * 20)
    path.chmod(0o600)
    with running(tmp_path / "state", {"secret": learner()}, tokens=Tokens.of(path)) as server:
        assert server.client.get("/readyz").json() == {"ready": True}
        head = {"authorization": "Bearer " + "r" * 20}
        assert server.client.get("/readyz", headers=head).json() == {"ready": True, "models": {"secret": "ready"}}


# --- a log that was removed -------------------------------------------------------------------------------------------


def remove(folder):
    shutil.rmtree(folder)


def move(folder):
    folder.rename(folder.with_name("moved"))


def replace(folder):
    shutil.copytree(folder, folder.with_name("copy"))
    folder.rename(folder.with_name("old"))
    folder.with_name("copy").rename(folder)


def remove_wal(folder):
    (folder / "models/default/log.sqlite-wal").unlink()


@pytest.mark.parametrize("change", [remove, move, replace, remove_wal])
def test_a_log_that_is_not_where_it_was_is_noticed(tmp_path, change):
    with running(tmp_path / "state") as server:
        server.post("/learn", ROW)
        change(tmp_path / "state")
        assert eventually(lambda: health(server) == 503, seconds=5.0)
        told = server.post("/learn", ROW)
        assert told.status_code == 503
        assert "was removed, moved or replaced while the server ran" in told.json()["error"]
        assert server.post("/predict", {"a": 1.0}).status_code == 200
        assert "removed, moved or replaced" in server.served.alarms()[0]
        assert readiness(server)[1]["models"] == {"default": "broken"}
        assert server.client.post("/snapshot").status_code == 503
        assert server.served.model.learner.examples == 1
        before = sorted(tmp_path.rglob("*.bayou"))
    assert sorted(tmp_path.rglob("*.bayou")) == before  # nothing is put into a folder that may be another's by now
    assert not any("has everything" in text for text in server.said)
    assert any("what was learned after entry 0 is in no snapshot" in text for text in server.said)


def test_a_log_that_was_removed_at_the_last_moment_is_not_said_to_have_everything(tmp_path, monkeypatch):
    monkeypatch.setattr("bayou.serve.log_writer.EXPIRY_CHECK_SECONDS", 60.0)
    with running(tmp_path / "state") as server:
        server.post("/learn", ROW)
        shutil.rmtree(tmp_path / "state")
    assert not any("has everything" in text for text in server.said)
    assert any("no last snapshot" in text and "was removed" in text for text in server.said)


# --- supervisors ------------------------------------------------------------------------------------------------------


def messages(end):
    told = []
    end.setblocking(False)
    try:
        while True:
            told.append(end.recv(1000))
    except BlockingIOError:
        return told


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no such sockets here")
def test_a_supervisor_hears_of_a_server_while_it_is_healthy(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setattr("bayou.serve.server.WATCHDOG_SECONDS", 0.02)
        with running(tmp_path / "state") as server:
            heard = []
            assert eventually(lambda: heard.extend(messages(end)) or b"READY=1" in heard)
            assert eventually(lambda: b"WATCHDOG=1" in messages(end))
            shutil.rmtree(tmp_path / "state")
            assert eventually(lambda: health(server) == 503)
            messages(end)
            time.sleep(0.2)
            assert messages(end) == []


def test_without_a_supervisor_nobody_is_told():
    supervisor = Supervisor({})
    assert not supervisor.listens
    supervisor.tell("READY=1")
    gone = Supervisor({"NOTIFY_SOCKET": "/nowhere/at/all"})
    assert gone.listens
    gone.tell("READY=1")


# --- followers --------------------------------------------------------------------------------------------------------


def test_a_follower_says_nothing_of_snapshots_when_it_stops(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
    leader = Running(tmp_path, {})
    leader.server._told_to_stop()
    leader.stop()
    assert any("a last snapshot" in text for text in leader.said)
    follower = Running(tmp_path, {}, read_only=True)
    follower.server._told_to_stop()
    follower.stop()
    assert any("stopping" in text for text in follower.said)
    assert not any("snapshot" in text for text in follower.said)


def test_there_must_be_something_to_follow(tmp_path):
    with pytest.raises(bayou.BadInput, match="no model to follow, or this user cannot read it"):
        Running(tmp_path, {}, read_only=True)


def test_a_follower_has_no_log_that_could_be_full(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
    with running(tmp_path, {}, read_only=True) as follower:
        assert (follower.served.log_writable, follower.served.alarms()) == (True, [])
        assert health(follower) == readiness(follower)[0] == 200
