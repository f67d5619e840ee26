"""Files that are written whole or not at all."""

import os
import stat

import pytest

from bayou.files import whole_file


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
