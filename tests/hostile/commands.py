"""The command at work in a folder of its own: what kills and full disks are tried on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayou
from bayou.core.state import contents_of

ROOT = Path(__file__).parents[2]
ROWS = 3000


@dataclass(frozen=True)
class Work:
    """A command that makes one file of others that are there already."""

    name: str
    arguments: tuple[str, ...]
    out: str


_TRAIN = ("train", "--learner", "marginal", "--bits", "10")
WORKS = (
    Work("train", (*_TRAIN, "d.svm", "--checkpoint", "150", "--model", "m.bayou"), "m.bayou"),
    Work("merge", ("merge", "a.bayou", "b.bayou", "--out", "c.bayou"), "c.bayou"),
    Work("predict", ("predict", "d.svm", "--model", "a.bayou", "--out", "p.csv"), "p.csv"),
    Work("predict to Parquet", ("predict", "d.svm", "--model", "a.bayou", "--out", "p.parquet"), "p.parquet"),
    Work("select", ("select", "d.svm", "--bits", "10", "--sizes", "5,10", "--out", "f.csv"), "f.csv"),
)  # fmt: skip
PARTS = (
    (*_TRAIN, "one.svm", "--model", "a.bayou"),
    (*_TRAIN, "two.svm", "--model", "b.bayou"),
)


def same(found: bytes | None, right: bytes, out: str) -> bool:
    """Whether a file is what it was to be. Two files of one model may name its parts in another order."""
    if found is None or found == right or not out.endswith(".bayou"):
        return found == right
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("found", "right")]
        for path, content in zip(paths, (found, right), strict=True):
            path.write_bytes(content)
        try:
            return weights(paths[0]) == weights(paths[1])
        except bayou.BadModel:
            return False


def command(folder: Path, arguments: tuple[str, ...], **more: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "bayou", *arguments], cwd=folder, env=environment, **{"text": True} | streams | more
    )


def finished(folder: Path, arguments: tuple[str, ...], **more: Any) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command that is let be."""
    with command(folder, arguments, **more) as process:
        said, told = process.communicate(timeout=300)
    return process.returncode, said or "", told or ""


class Bench:
    """A folder with data and models, what each command makes of them, and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = random.Random(1)
        lines = [
            f"{rng.choice((1, -1))} {' '.join(f'{k}:{rng.random():.3f}' for k in sorted(rng.sample(range(900), 6)))}\n"
            for _ in range(ROWS)
        ]
        for name, part in {"d.svm": lines, "one.svm": lines[: ROWS // 2], "two.svm": lines[ROWS // 2 :]}.items():
            (folder / name).write_text("".join(part))
        self.kept = {"d.svm", "one.svm", "two.svm", "a.bayou", "b.bayou"}
        self.right: dict[str, bytes] = {}
        self.seconds: dict[str, float] = {}

    def prepare(self, work: Work) -> bytes:
        """What the command makes when it is let be; how long that takes is noted."""
        if work.name != "train" and not (self.folder / "a.bayou").exists():
            for arguments in PARTS:
                self._run(arguments)
        if work.name not in self.right:
            taken = self._run(work.arguments)
            # Kernels may have had to be compiled.
            self.seconds[work.name] = taken if taken < 3.0 else self._run(work.arguments)
            self.right[work.name] = (self.folder / work.out).read_bytes()
            (self.folder / work.out).unlink()
        return self.right[work.name]

    def _run(self, arguments: tuple[str, ...]) -> float:
        started = time.monotonic()
        code, _, told = finished(self.folder, arguments)
        assert code == 0, told
        return time.monotonic() - started

    def leftovers(self, *expected: str) -> list[str]:
        return sorted(set(os.listdir(self.folder)) - self.kept - {*expected})


def weights(path: Path) -> tuple[Any, ...]:
    """All that a model has learned, to be compared exactly; how often it was resumed is no part of it."""
    learner = bayou.load(path)
    _, arrays = contents_of(learner)
    return learner.examples, {name: array.tobytes() for name, array in arrays.items()}


def is_unfinished(path: Path) -> bool:
    return bayou.load(path).extras.unfinished is not None
