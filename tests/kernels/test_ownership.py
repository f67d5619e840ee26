"""Files of kernels are loaded that nobody but this user and root can have written."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import bayou
from bayou.kernels import cache, ownership
from bayou.runs import warmup

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and permissions of POSIX")
needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can act as another user")
NOWHERE = Path("/nowhere")
# A kernel of another package: quick to compile. Says what it gives, and which files it was kept in.
TRY = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    from other import f
    result = f(1.0)
from bayou.kernels import cache
place = cache.writable()
names = [name for name in os.listdir(place) if "other" in name]
print(json.dumps([result, len(compiled.buffer), str(place), names]))
"""
PAYLOAD = """
import os, pickle, sys, zlib
class Payload:
    def __reduce__(self):
        return os.mkdir, (sys.argv[1],)
content = pickle.dumps(Payload())
sys.stdout.buffer.write(zlib.crc32(content).to_bytes(4, "little") + content)
"""


@pytest.fixture
def shared():
    """A folder where everybody can write, and remove what is theirs."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def copy(tmp_path) -> Path:
    """bayou's sources in a folder of their own, and a package with a kernel."""
    sources = Path(bayou.__file__).parent
    shutil.copytree(sources, tmp_path / "bayou", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "other.py").write_text(
        "from bayou.kernels.compiling import kernel\n\n@kernel\ndef f(x):\n    return x + 1\n"
    )
    return tmp_path


def run(copy: Path, folder: Path, where: Path | None = None, umask: int = 0o022) -> list:
    env = {**os.environ, "PYTHONPATH": str(copy), "HOME": str(copy), "NUMBA_CACHE_DIR": str(folder)}
    if where is not None:
        del env["NUMBA_CACHE_DIR"]
    code = [sys.executable, "-c", TRY, str(copy)]
    done = subprocess.run(code, env=env, cwd=where, umask=umask, capture_output=True, text=True, check=True)
    return [*json.loads(done.stdout), done.stderr]


def as_nobody(script: str, content: bytes = b"") -> None:
    nobody = pwd.getpwnam("nobody")
    own = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    subprocess.run(["/bin/sh", "-ec", script], cwd="/", input=content, check=True, **own)


@needs_root
def test_what_another_user_has_left_in_a_shared_folder_is_not_run(copy, shared):
    _, _, place, names, _ = run(copy, shared)
    shutil.rmtree(place)
    made = [sys.executable, "-c", PAYLOAD, str(copy / "ran")]
    payload = subprocess.run(made, capture_output=True, check=True).stdout
    files = " ".join(f"{place}/{name}" for name in names)
    as_nobody(f"mkdir {place}; tee {files} > {shared}/copy", payload)
    result, compiled, kept, _, said = run(copy, shared)
    assert not (copy / "ran").exists()
    assert (result, compiled) == (2.0, 2)
    assert f"compiled kernels in {shared} are not used, for {place} belongs to another user" in said
    assert Path(kept).is_relative_to(copy / "bayou")  # they are kept all the same, and found again
    assert run(copy, shared)[1] == 0
    # in a folder of ours, the file alone
    as_nobody(f"rm -r {place}")
    (shared / place).mkdir(0o700)
    for name in names:
        shutil.copy(shared / "copy", f"{place}/{name}")
        shutil.chown(f"{place}/{name}", "nobody")
    assert run(copy, shared)[:3] == [2.0, 2, place]
    assert not (copy / "ran").exists()


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_what_is_kept_is_written_by_its_owner_alone_whatever_the_umask(copy, tmp_path, umask):
    _, compiled, place, names, said = run(copy, tmp_path / "new" / "kernels", umask=umask)
    assert compiled == 2
    assert "not used" not in said
    for folder in (tmp_path / "new", tmp_path / "new" / "kernels", Path(place)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [(Path(place) / name).stat().st_mode & 0o022 for name in names] == [0] * len(names)
    assert run(copy, tmp_path / "new" / "kernels", umask=umask)[1] == 0


def test_the_folder_of_the_package_may_be_read_by_all_who_may_read_its_sources(copy):
    _, _, place, _, _ = run(copy, NOWHERE, where=copy, umask=0o002)
    assert Path(place).is_relative_to(copy / "bayou")
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o755


def test_a_file_in_the_current_folder_does_not_say_where_kernels_are(copy, tmp_path):
    pytest.importorskip("yaml", reason="without PyYAML Numba does not read its file in the current folder")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".numba_config.yaml").write_text("cache_dir: planted\n")
    _, _, place, _, _ = run(copy, NOWHERE, where=tmp_path / "data")
    assert Path(place).is_relative_to(copy / "bayou")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder of ours, with a file, in one where nobody else can write."""
    ownership._above.cache_clear()
    (tmp_path / "base").mkdir(0o755)
    place = tmp_path / "base" / "place"
    place.mkdir(0o755)
    ownership.write(place / "file", b"kernel")
    return place


def test_files_of_our_own_are_read(folder):
    assert ownership.why_unsafe(folder, NOWHERE) is None
    assert ownership.read(folder, "file", NOWHERE) == b"kernel"
    assert ownership.why_unsafe(folder / "missing", NOWHERE) is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_where_others_can_write_is_not_read(folder, mode):
    folder.chmod(mode)
    assert ownership.why_unsafe(folder, NOWHERE) == f"others can write to {folder}"
    assert ownership.read(folder, "file", NOWHERE) is None


def test_a_file_that_others_can_write_is_not_read(folder):
    (folder / "file").chmod(0o646)
    assert ownership.read(folder, "file", NOWHERE) is None


def test_links_are_not_followed(folder):
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert ownership.why_unsafe(link, NOWHERE) == f"{link} is a link"
    (folder / "other").symlink_to(folder / "file")
    for place, name in ((link, "file"), (folder, "other")):
        with pytest.raises(OSError, match=r"symbolic|directory"):
            ownership.read(place, name, NOWHERE)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe", 0o600)
    assert ownership.read(folder, "pipe", NOWHERE) is None


def test_where_others_may_rename_it_only_a_private_folder_is_read(folder):
    folder.parent.chmod(0o777)
    assert ownership.why_unsafe(folder, NOWHERE) == f"others can write to {folder.parent}"
    assert ownership.read(folder, "file", NOWHERE) is None
    assert ownership.why_unsafe(folder, within=folder.parent) is None
    folder.chmod(0o700)
    assert ownership.read(folder, "file", NOWHERE) == b"kernel"
    folder.chmod(0o755)
    folder.parent.chmod(0o1777)  # as the shared temporary folder
    ownership._above.cache_clear()
    assert ownership.read(folder, "file", NOWHERE) == b"kernel"


@needs_root
def test_another_users_folder_file_and_link_are_not_read(folder):
    shutil.chown(folder / "file", "nobody")
    assert ownership.read(folder, "file", NOWHERE) is None
    shutil.chown(folder / "file", "root")
    link = folder.parent.parent / "link"
    link.symlink_to(folder.parent)
    assert ownership.read(link / "place", "file", NOWHERE) == b"kernel"
    os.chown(link, pwd.getpwnam("nobody").pw_uid, -1, follow_symlinks=False)
    ownership._above.cache_clear()
    assert ownership.why_unsafe(link / "place", NOWHERE) == f"{link} is another user's link"
    assert ownership.read(link / "place", "file", NOWHERE) is None
    shutil.chown(folder, "nobody")
    assert ownership.why_unsafe(folder, NOWHERE) == f"{folder} belongs to another user"
    assert ownership.read(folder, "file", NOWHERE) is None


@needs_root
def test_folders_of_others_are_not_cleared_away(tmp_path):
    for number in range(12):
        (tmp_path / f"{number:016x}").mkdir()
        os.utime(tmp_path / f"{number:016x}", (number, number))
    for number in range(3):
        shutil.chown(tmp_path / f"{number:016x}", "nobody")
    cache._remove_old_caches(tmp_path / f"{11:016x}")
    left = sorted(int(folder.name, 16) for folder in tmp_path.iterdir())
    assert left == [0, 1, 2, *range(11 - cache.OTHERS_KEPT, 12)]


@needs_root
def test_another_users_word_that_kernels_are_compiled_is_not_taken(shared, monkeypatch):
    place = shared / f"{0:016x}"
    as_nobody(f"mkdir {place}; touch {place}/learner-adagrad.warm; ln -s {shared}/made {place}/learner-ftrl.warm")
    monkeypatch.setattr(cache, "_named", lambda: [place])
    monkeypatch.setattr(cache, "_usual", list)
    assert not warmup.is_warm("learner adagrad")
    assert cache.writable() is None
    monkeypatch.setattr(warmup, "_learn", lambda name: None)
    warmup.run("learner ftrl")  # kept nowhere: written nowhere
    assert not (shared / "made").exists()
