"""Environments for two versions of bayou side by side: another commit and the working tree.

Each has one version's sources and, for all else, the packages of the environment that runs this: nothing is fetched,
and both start alike.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(tempfile.gettempdir()) / "bayou-sides"


def install_commit(commit: str) -> Path:
    """Return the Python of an environment that has bayou of `commit`, which is made once."""
    commit = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    sources = HOME / commit
    if not sources.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as temporary:
            subprocess.run(["tar", "-x", "-C", temporary], input=_git("archive", commit), check=True)
            os.rename(temporary, sources)
            os.mkdir(temporary)  # to be removed
    return install_sources(sources / "src")


def install_sources(sources: Path) -> Path:
    """Return the Python of an environment that has bayou of the folder `sources`."""
    paths = [str(sources.resolve()), *_package_folders()]
    name = hashlib.blake2b(repr((sys.version, paths)).encode(), digest_size=8).hexdigest()
    environment = HOME / f"environment-{name}"
    python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = environment / "done"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", environment], check=True)
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        place = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        (Path(place) / "side.pth").write_text("".join(f"{path}\n" for path in paths))
        done.touch()
    return python


def variables() -> dict[str, str]:
    """Return the environment variables of either side: without those that would make them differ."""
    unwanted = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "BAYOU_DEBUG"}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def _package_folders() -> list[str]:
    """Return the folders that hold the packages of this environment."""
    folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return list(dict.fromkeys(folders)) or [sysconfig.get_path("purelib")]
