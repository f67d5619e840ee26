"""Attacks bayou in every way there is a sweep for, and counts: python benchmarks/hostile.py --minutes 15

    formats         spoiled files of every format against independent readers
    models          damaged model files of every learner
    kills           commands killed at any moment
    disks           full disks, closed and slow pipes
    bounds          every kernel with bounds checks
    misuse          every public function given the wrong thing
    command_lines   random command lines

Each sweep is a module of tests/hostile with `attack(seconds, seed)`. The minutes are shared evenly among the sweeps.
Prints what was tried and everything that should not have happened; ends with 1 if anything did.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SWEEPS = ("formats", "models", "kills", "disks", "bounds", "misuse", "command_lines")
SHOWN = 20  # findings of a sweep


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="for all sweeps; each has a round at least")
    parser.add_argument("--only", default="", help="some sweeps, separated by commas")
    parser.add_argument("--seed", type=int, default=None, help="of the attacks; if not given, another in each run")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    there = [name for name in SWEEPS if importlib.util.find_spec(f"tests.hostile.{name}")]
    chosen = given.only.split(",") if given.only else there
    if unknown := set(chosen) - set(there):
        parser.error(f"there is no sweep {', '.join(sorted(unknown))}; there are {', '.join(there)}")
    from tests.conftest import kernel_folder

    os.environ.setdefault("NUMBA_CACHE_DIR", kernel_folder())
    seed = int(time.time()) % 10**6 if given.seed is None else given.seed
    print(f"seed {seed}\n\n| sweep | tried | findings | seconds |\n|---|---|---|---|", flush=True)
    findings: list[str] = []
    for name in chosen:
        started = time.monotonic()
        counts = importlib.import_module(f"tests.hostile.{name}").attack(60 * given.minutes / len(chosen), seed)
        tried = ", ".join(f"{number:,} {what}" for what, number in counts.tried.items())
        print(f"| {name} | {tried} | {len(counts.findings)} | {time.monotonic() - started:.0f} |", flush=True)
        findings += [f"{name}: {finding}" for finding in counts.findings[:SHOWN]]
    print("\n" + ("\n\n".join(findings) or "Nothing was found."))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
