"""What a server leaves on the disk: for its user alone, nothing half written, and nothing of where it was made."""

import os
import stat

import pytest

from bayou.serve.state_folder import StateFolder
from tests.serve.serving import learner, running

ROW = {"a": 1.0, "label": 1}
pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX systems")


def modes(folder):
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}


def open_to_others(folder):
    return {name: oct(mode) for name, mode in modes(folder).items() if mode & 0o077}


@pytest.fixture(params=[0o000, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_only_the_servers_user_can_read_the_state(tmp_path, umask):
    with running(tmp_path / "state", {"one": learner(), "two": learner()}) as server:
        for name in ("one", "two"):
            assert server.post(f"/models/{name}/learn", ROW).status_code == 200
            assert server.client.post(f"/models/{name}/snapshot").status_code == 200
        while_it_runs = modes(tmp_path / "state")
        assert open_to_others(tmp_path / "state") == {}
        names = {name.rpartition("/")[2] for name in while_it_runs}
        assert names >= {"log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "base.bayou", "head", "lock"}
        assert not any("others" in text for text in server.said)
    assert open_to_others(tmp_path / "state") == {}


def test_a_state_that_others_could_read_is_made_private_and_that_is_said_once(tmp_path):
    state = tmp_path / "state"
    with running(state) as server:
        server.post("/learn", ROW)
    for path in [state, *state.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    with running(state, {}) as server:
        assert open_to_others(state) == {}
        assert len([text for text in server.said if "others could read" in text]) == 1
        assert server.post("/learn", ROW).status_code == 200
    with running(state, {}) as server:
        assert not any("others" in text for text in server.said)


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "mine.txt").write_text("x")
    (tmp_path / "mine.txt").chmod(0o644)
    with running(tmp_path) as server:
        server.post("/learn", ROW)
        assert set(open_to_others(tmp_path)) == {".", "mine.txt"}


def test_what_a_kill_left_half_written_is_removed_at_the_next_start(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
    folder = StateFolder(tmp_path, "default")
    left = [
        folder.snapshots / ".000000000061.bayou.0123abcd.part",
        folder.snapshots / ".000000000001.bayou.89abcdef.part",
        folder.path / ".base.bayou.01234567.part",
    ]
    for path in left:
        path.mkdir()
        (path / "half").write_bytes(b"x" * 1000)
    (folder.path / ".hidden.part").mkdir()  # which is nothing of ours
    with running(tmp_path, {}) as server:
        assert [path for path in left if path.exists()] == []
        assert (folder.path / ".hidden.part").exists()
        assert server.served.model.learner.examples == 1


def test_answers_do_not_tell_where_the_server_keeps_its_state(tmp_path):
    with running(tmp_path / "somewhere") as server:
        server.post("/learn", ROW)
        told = server.client.post("/snapshot").json()
        assert told == {"version": 1, "file": "models/default/snapshots/000000000001.bayou"}
        assert (tmp_path / "somewhere" / told["file"]).exists()
        server.served.log_damage = f"{server.served.log.path} is damaged: entry 2 is not whole."
        info = server.client.get("/info")
        assert info.json()["log"]["damage"] == "log.sqlite is damaged: entry 2 is not whole."
        assert str(tmp_path) not in info.text
