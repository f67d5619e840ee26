"""Disks that are full at every place of a file, outputs that take nothing, pipes that are closed or slow.

A command says in a sentence that it could not write, with an exit code that is not 0; what was there before is still
there, whole, and nothing else is. Or it does not matter to the command, and the file is right.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from tests.hostile.commands import WORKS, Bench, Work, command, finished, same
from tests.hostile.counts import Counts, rounds


def attack(seconds: float, seed: int, works: tuple[Work, ...] = WORKS) -> Counts:
    """A round has each command meet a full disk once, the first with no room at all, and one of the other troubles."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for number in rounds(seconds):
            rng = random.Random(f"{seed} {number}")
            for work in works:
                size = 0 if number == 0 else rng.randrange(len(bench.prepare(work)) + 200)
                for wrong in _full(bench, work, size, old=rng.random() < 0.5):
                    counts.check(False, f"{work.name}, a disk with room for {size} bytes: {wrong}")
                counts.add("full disks")
            trouble = _OTHERS[number % len(_OTHERS)]
            for wrong in trouble(bench, rng):
                counts.check(False, f"{trouble.__name__[1:]}, seed {seed}, round {number}: {wrong}")
            counts.add("pipes")
    return counts


def _full(bench: Bench, work: Work, size: int, old: bool) -> list[str]:
    """No file can grow beyond so many bytes: writes fail there, as on a full disk."""
    right, out = bench.prepare(work), bench.folder / work.out
    if old:
        out.write_bytes(b"what was there before")

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    code, _, told = finished(bench.folder, work.arguments, preexec_fn=no_room)
    wrong = _spoken(code, told)
    found = out.read_bytes() if out.exists() else None
    fine = same(found, right, work.out)
    if code == 0 and not fine:
        wrong.append(f"it says that all is well, but {work.out} is wrong")
    if code != 0 and found != (b"what was there before" if old else None) and not fine:
        wrong.append(f"{work.out} is neither what it was nor what it was to be")
    if left := bench.leftovers(work.out):
        wrong.append(f"it leaves {', '.join(left)}")
    if out.exists():
        out.unlink()
    return wrong


def _spoken(code: int, told: str) -> list[str]:
    wrong = [] if code in (0, 1) else [f"it ends with {code}"]
    if "Traceback" in told or "Exception ignored" in told:
        wrong.append(f"it shows its insides: {told[-600:]}")
    if code == 1 and not told.strip():
        wrong.append("it fails without a word")
    return wrong


_TO_STDOUT = (
    ("predict", "d.svm", "--model", "a.bayou", "--out", "-"),
    ("features", "a.bayou", "--out", "-"),
    ("info", "a.bayou"),
    ("train", "d.svm", "--learner", "marginal", "--bits", "10", "--json"),
)


def _nothing_is_taken(bench: Bench, rng: random.Random) -> list[str]:
    bench.prepare(WORKS[2])
    arguments = rng.choice(_TO_STDOUT)
    with open("/dev/full", "wb") as full:
        code, _, told = finished(bench.folder, arguments, stdout=full)
    wrong = _spoken(code, told)
    return wrong if code else [*wrong, f"{arguments[0]}: what it said is lost, and it says that all is well"]


def _the_reader_goes_away(bench: Bench, rng: random.Random) -> list[str]:
    bench.prepare(WORKS[2])
    arguments, some = rng.choice(_TO_STDOUT), rng.choice([0, 1, 100])
    with command(bench.folder, arguments) as process:
        assert process.stdout is not None
        process.stdout.read(some)
        process.stdout.close()
        assert process.stderr is not None
        told = process.stderr.read()
    wrong = _spoken(process.returncode, told)
    quiet = process.returncode in (0, 1, 128 + signal.SIGPIPE, -signal.SIGPIPE)
    return [] if quiet and not any("insides" in one for one in wrong) else [f"{arguments[0]}: {one}" for one in wrong]


def _data_come_slowly(bench: Bench, rng: random.Random) -> list[str]:
    """Data that come in drops, through a pipe, are the same data."""
    train, text = WORKS[0], (bench.folder / "d.svm").read_bytes()
    arguments = ("predict", "-", "--model", "a.bayou", "--out", "p.csv", "--format", "svmlight")
    right = bench.prepare(WORKS[2])
    with command(bench.folder, arguments, stdin=subprocess.PIPE, text=False) as process:
        pipe = process.stdin
        assert pipe is not None
        at = 0
        while at < len(text):
            size = rng.choice([1, 7, 4096, 60_000])
            pipe.write(text[at : at + size])
            pipe.flush()
            at += size
            time.sleep(rng.choice([0, 0, 0.02]))
        pipe.close()
        told = b"" if process.stderr is None else process.stderr.read()
    out = bench.folder / "p.csv"
    wrong = _spoken(process.returncode, told.decode())
    if process.returncode or out.read_bytes() != right:
        wrong.append(f"{train.name}: other predictions than from a file")
    out.unlink(missing_ok=True)
    return wrong


def _the_output_is_slow(bench: Bench, rng: random.Random) -> list[str]:
    """A named pipe that is read slowly gets all of the file."""
    right, pipe, found = bench.prepare(WORKS[2]), bench.folder / "slow.csv", bytearray()
    os.mkfifo(pipe)

    def read() -> None:
        with open(pipe, "rb", buffering=0) as file:
            while some := file.read(rng.choice([100, 9999, 100_000])):
                found.extend(some)
                time.sleep(0.001)

    reader = threading.Thread(target=read)
    reader.start()
    code, _, told = finished(bench.folder, ("predict", "d.svm", "--model", "a.bayou", "--out", "slow.csv"))
    if reader.is_alive() and not found and code:  # nobody has opened the other end
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    reader.join()
    pipe.unlink()
    wrong = _spoken(code, told)
    return wrong if bytes(found) == right else [*wrong, "not all of the file came through"]


_OTHERS = (_nothing_is_taken, _the_reader_goes_away, _data_come_slowly, _the_output_is_slow)
