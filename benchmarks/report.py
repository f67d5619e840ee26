"""What recording for a report costs: processor time per row with and without a recorder, alternating.

    python benchmarks/report.py [--rows 1000000] [--times 7]

Rows of 39 indicators in 2^18 columns, in batches of 8,192. The minimum over the runs counts, each with a new learner.
Then the seconds that writing the page of the last run took, and its size.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from bayou import Batch
from bayou.evaluate.binary import Meter
from bayou.learners import Bank, Marginal
from bayou.report import Recorder, ReportedRun, write

ACTIVE, BITS, BATCH = 39, 18, 8192


def batches(rows: int, seed: int = 0) -> list[Batch]:
    rng = np.random.default_rng(seed)
    made = []
    for start in range(0, rows, BATCH):
        n = min(BATCH, rows - start)
        # A column each, popular values more often: no feature comes twice in a row.
        values = np.minimum(rng.zipf(1.3, (n, ACTIVE)) - 1, 2**BITS // ACTIVE - 1)
        indices = values + np.arange(ACTIVE) * (2**BITS // ACTIVE)
        labels = (rng.random(n) < 0.25).astype(np.float64)
        made.append(
            Batch.from_arrays(np.arange(n + 1) * ACTIVE, indices.ravel(), np.ones(n * ACTIVE, np.float32), labels)
        )
    return made


def nanoseconds(learner, stream: list[Batch], recorded: bool) -> tuple[float, Recorder | None, Meter]:
    recorder, meter = Recorder(learner) if recorded else None, Meter()
    start = time.process_time()
    for batch in recorder.split_at_recordings(stream) if recorder else stream:
        meter.add((recorder or learner).learn(batch), batch.labels)
    return (time.process_time() - start) / meter.examples * 1e9, recorder, meter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=7)
    given = parser.parse_args()
    stream = batches(given.rows)
    for kind in (Marginal, Bank):
        nanoseconds(kind(2**BITS), stream[:2], recorded=True)  # kernels
        found = {False: [], True: []}
        for _ in range(given.times):
            for recorded in found:
                taken, recorder, meter = nanoseconds(kind(2**BITS), stream, recorded)
                found[recorded].append(taken)
        alone, with_it = (min(times) for times in found.values())
        print(f"{kind.name:<10} {alone:8.0f} ns per row alone, {with_it:8.0f} with a recorder: {with_it - alone:+.0f}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            start = time.perf_counter()
            write(path, ReportedRun(recorder, meter.result()))
            print(f"{'':<10} page of {path.stat().st_size / 1e6:.2f} MB in {time.perf_counter() - start:.2f} seconds")


if __name__ == "__main__":
    main()
