"""Files that are written whole or not at all."""

import os
import stat
import subprocess
import sys

import pytest

from bayou.core.files import remove_leftovers, whole_file
from bayou.runs.output_paths import check_outputs


@pytest.mark.parametrize("flush", [True, False])
def test_a_file_is_there_once_it_is_whole(tmp_path, flush):
    path = tmp_path / "a.txt"
    with whole_file(path, flush) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_what_was_there_stays_if_anything_goes_wrong(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with whole_file(path) as temporary:
            temporary.write_text("ne")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("rights", [0o600, 0o640, 0o444, 0o666])
def test_a_file_keeps_its_rights_when_it_is_replaced(tmp_path, rights):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(rights)
    with whole_file(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # nobody else reads it before it is done
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == rights


def test_a_new_file_has_the_rights_of_any_new_file(tmp_path):
    (tmp_path / "any").touch()
    with whole_file(tmp_path / "a.txt") as temporary:
        temporary.unlink()
        temporary.touch(0o600)
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("file")
    with whole_file(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_devices_are_written_to_and_never_replaced():
    with whole_file(os.devnull) as name:
        name.write_text("gone")
        assert str(name) == os.devnull
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_pipes_are_written_to_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    with whole_file(pipe) as name:
        name.write_text("through")
    assert reader.communicate()[0] == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path):
    path = tmp_path / "a.txt"
    script = (
        "import os, signal, sys\nfrom bayou.core.files import whole_file\n"
        "with whole_file(sys.argv[1]) as name:\n    name.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, path], check=False)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".a.txt.")
    with whole_file(tmp_path / "b.txt") as name:  # another file's is left alone
        name.write_text("b")
    assert left in os.listdir(tmp_path)
    with whole_file(path) as name:
        name.write_text("new")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


def test_it_is_removed_by_a_run_that_writes_nothing_too(tmp_path):
    """A training that finds that it was finished before, say."""
    (tmp_path / ".m.bayou.0123abcd.part").mkdir()
    check_outputs({"--model": tmp_path / "m.bayou"})
    assert os.listdir(tmp_path) == []


def test_what_a_living_process_is_writing_is_never_removed(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as mine:
        mine.write_text("mine")
        script = (
            "import sys\nfrom bayou.core.files import whole_file\n"
            "with whole_file(sys.argv[1]) as name:\n    name.write_text('theirs')"
        )
        subprocess.run([sys.executable, "-c", script, path], check=True)
        assert path.read_text() == "theirs"
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks on Windows")
def test_what_any_killed_process_left_in_a_folder_is_removed(tmp_path):
    for name in (".a.txt.0123abcd.part", ".b.bayou.89abcdef.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("ha")
    for name in (".hidden.part", "c.01234567.part", ".d.0123456.part"):  # which are nothing of ours
        (tmp_path / name).mkdir()
    with whole_file(tmp_path / "at_work.txt") as temporary:
        remove_leftovers(tmp_path)
        temporary.write_text("done")
    assert (tmp_path / "at_work.txt").read_text() == "done"
    assert sorted(os.listdir(tmp_path)) == [".d.0123456.part", ".hidden.part", "at_work.txt", "c.01234567.part"]
