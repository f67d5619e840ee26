"""Logs where nothing can be written: archives, snapshots of volumes, read-only mounts."""

import os
import shutil
import subprocess
import sys

import pytest

from bayou.serve import log as logs
from bayou.serve.label_joins import LEARN
from bayou.serve.log import JSON, BadLog, Log, PendingEntry
from bayou.serve.state_folder import replayed
from tests.serve.serving import running

ROW = {"a": 1.0, "label": 1}


@pytest.fixture
def read_only(tmp_path):
    """Mounts a folder again, to be read alone."""
    mounted = []

    def mount(folder):
        place = tmp_path / f"mount{len(mounted)}"
        place.mkdir()
        commands = [["mount", "--bind", str(folder), str(place)], ["mount", "-o", "remount,ro,bind", str(place)]]
        for command in commands:
            if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("nothing can be mounted here")
            if place not in mounted:
                mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such mounts")
def test_a_read_only_mount_is_replayed(tmp_path, read_only):
    with running(tmp_path / "state") as server:
        server.post("/learn", [ROW] * 3)
        shutil.copytree(tmp_path / "state", tmp_path / "live")  # with what is in the write-ahead log alone
    assert replayed(read_only(tmp_path / "state")).learner.examples == 3
    live = tmp_path / "live/models/default"
    assert (live / "log.sqlite-wal").stat().st_size
    place = read_only(tmp_path / "live")
    assert replayed(place).learner.examples == 3  # SQLite's index of that log is there, too
    (live / "log.sqlite-shm").unlink()
    with pytest.raises(BadLog, match=r"holds entries that are not in log\.sqlite yet: the server did not stop") as told:
        replayed(place)
    assert "Copy the folder to where it can be written" in str(told.value)


@pytest.mark.parametrize("copied_live", [False, True])
def test_a_folder_that_cannot_be_written_is_read_without_a_wal_or_refused(tmp_path, monkeypatch, copied_live):
    log = Log(tmp_path)
    log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]])
    if copied_live:
        (tmp_path / "copy").mkdir()
        for name in ("log.sqlite", "log.sqlite-wal", "head"):
            shutil.copy(tmp_path / name, tmp_path / "copy")
    log.close()
    asked = []
    connect = logs.sqlite3.connect
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(logs.sqlite3, "connect", lambda place, **how: asked.append(place) or connect(place, **how))
    if copied_live:
        with pytest.raises(BadLog, match=r"cannot be written, and log\.sqlite-wal holds entries"):
            Log(tmp_path / "copy", write=False)
        return
    again = Log(tmp_path, write=False)
    assert asked[0].endswith("?mode=ro&immutable=1")
    assert again.last == 1
    again.close()


def test_a_log_that_can_be_written_is_not_taken_for_one_that_cannot_change(tmp_path):
    log = Log(tmp_path)
    log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]])
    again = Log(tmp_path, write=False)
    log.commit([[PendingEntry(LEARN, JSON, None, b"{}")]])
    assert again._db.execute("SELECT count(*) FROM log").fetchone() == (2,)
    again.close()
    log.close()
