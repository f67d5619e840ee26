"""Commands killed at any moment: the file that was to be made is whole, or as it was, or not there.

Nothing that was said to be saved is lost: a killed training goes on from its last checkpoint to the same bits that it
would have come to. What a killed process has left behind is gone after the next run that writes to the same path.
"""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from pathlib import Path

import bayou
from tests.hostile.commands import WORKS, Bench, Work, command, finished, is_unfinished, same, weights
from tests.hostile.counts import Counts, rounds


def attack(seconds: float, seed: int, works: tuple[Work, ...] = WORKS) -> Counts:
    """A round kills every command once."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for number in rounds(seconds):
            for k, work in enumerate(works):
                rng = random.Random(f"{seed} {number} {k}")
                for wrong in _kill(bench, work, rng):
                    counts.check(False, f"{work.name}, seed {seed}, round {number}: {wrong}")
                counts.add("kills")
    return counts


def _kill(bench: Bench, work: Work, rng: random.Random) -> list[str]:
    right, out = bench.prepare(work), bench.folder / work.out
    old = b"what was there before" if rng.random() < 0.5 and work.name != "train" else None
    if old is not None:
        out.write_bytes(old)
    with command(bench.folder, work.arguments) as process:
        try:
            # A command that comes to its end before is no worse.
            process.communicate(timeout=bench.seconds[work.name] * rng.uniform(0.3, 1.1))
        except subprocess.TimeoutExpired:
            process.kill()
        _, told = process.communicate()
    wrong = []
    if work.name == "train":
        wrong += _resumed(bench, work, told)
    else:
        found = out.read_bytes() if out.exists() else None
        if found != old and not same(found, right, work.out):
            wrong.append(f"{work.out} is neither what it was nor what it was to be")
        finished(bench.folder, work.arguments)
    if work.name != "train" and not same(out.read_bytes(), right, work.out):
        wrong.append(f"the next run makes another {work.out}")
    if left := bench.leftovers(work.out):
        wrong.append(f"the next run leaves {', '.join(left)}")
    out.unlink()
    return wrong


def _resumed(bench: Bench, work: Work, told: str) -> list[str]:
    """What is wrong with a model after its training was killed and gone on with."""
    out, said = bench.folder / work.out, re.findall(r"checkpoint after ([\d,]+) examples", told)
    acknowledged = int(said[-1].replace(",", "")) if said else 0
    wrong, more = [], ()
    if out.exists():
        try:
            examples = bayou.load(out).examples
        except bayou.BadModel as error:
            return [f"the model is not whole: {error}"]
        if examples < acknowledged:
            wrong.append(f"{acknowledged} examples were said to be saved, and {examples} are")
        more = ("--resume", work.out)
    elif acknowledged:
        wrong.append(f"{acknowledged} examples were said to be saved, and there is no model")
    if not out.exists() or is_unfinished(out):
        code, _, told = finished(bench.folder, (*work.arguments, *more))
        if code:
            return [*wrong, f"it cannot be gone on with: {told[-500:]}"]
    whole = bench.folder / "whole.bayou"
    whole.write_bytes(bench.right[work.name])
    if weights(out) != weights(whole):
        wrong.append("gone on with, it has not come to the same weights")
    whole.unlink()
    return wrong
