"""A sweep in a process of its own: with other settings, less memory, and an end if it does not come to one."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.hostile.counts import Counts

ROOT = Path(__file__).parents[2]
MEMORY = 6 << 30  # address space: what a process with Numba, Arrow and pandas has of it, and two gigabytes more
GRACE = 1200.0  # seconds that compiling may take


def run(module: str, seconds: float, seed: int, **environment: str) -> Counts:
    """What `sweep(seconds, seed, said)` of a module counts. It names each thing that it does on a line of `said`."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1", **environment}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.hostile.apart", module, str(seconds), str(seed), said],
                cwd=folder,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds + GRACE,
                check=False,
            )
            wrong = "" if done.returncode == 0 else f"it ended with {done.returncode}: {done.stderr[-2000:]}"
        except subprocess.TimeoutExpired:
            wrong = "it did not come to an end"
        if wrong:
            last = said.read_text(errors="replace").rsplit("\n", 2)[-2:] if said.exists() else ""
            return Counts(findings=[f"{module}: {wrong}; the last it did: {last}"])
        plain = json.loads(done.stdout.splitlines()[-1])
    counts = Counts(findings=plain["findings"])
    counts.tried.update(plain["tried"])
    return counts


def main(module: str, seconds: str, seed: str, said: str) -> None:
    faulthandler.enable()
    sweep = importlib.import_module(f"tests.hostile.{module}").sweep
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with open(said, "w", buffering=1, errors="replace") as file:
        counts = sweep(float(seconds), int(seed), lambda what: file.write(what.replace("\n", " ") + "\n"))
    print("\n" + json.dumps({"tried": counts.tried, "findings": counts.findings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
