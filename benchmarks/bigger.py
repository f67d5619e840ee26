"""Bigger than here, on paper: a billion rows of 39 features on 16 and 128 cores, from parts measured on this machine.

    python benchmarks/bigger.py [--rows 400000] [--of 1000000000] [--cores 16,128] [--gigabits 10]

Measured, in CPU seconds of one core: a worker reading Parquet and learning with weights, what it gained made into
blocks, gains added, a sum applied; bytes of a gain; how many features a shard of so many rows touches (a power law
through three sizes). Not measured: a network, and what an engine such as Spark adds; machines of 16 cores with so many
gigabits a second each, all of whose cores are as quick as this one with the others at work.

The rounds are those of `bayou.rounds.plan`. Shards learn at the same time; gains go over the network once, are added by
all cores, and the sum goes to the driver, which applies it alone and sends it to every machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from speed import BITS, FIELDS, click_rows

from bayou import Batch, rounds, sources
from bayou.learners import Bank

CORES_OF_A_MACHINE = 16


class Parts(NamedTuple):
    """What was measured."""

    read: float  # seconds a row, from Parquet
    learn: float  # seconds a row, lanes alone, with weights
    gain: float  # seconds a touched feature
    add: float  # seconds a feature of a gain
    apply: float  # seconds a feature of the sum
    gain_bytes: float  # a touched feature
    sum_bytes: float
    touched: tuple[float, float]  # a, b of a m^b features in m rows


def measure(rows: int) -> Parts:
    X, y = click_rows(rows, hashed=True)
    whole = Batch.from_csr(X, y)
    base = Bank(X.shape[1])
    base.learn(whole[: rows // 10], combine=False)
    sizes = [rows // 40, rows // 10, rows // 2]
    shards = [Batch.from_csr(X[:size], y[:size]) for size in sizes]
    slope, start = np.polyfit(np.log(sizes), [np.log(len(np.unique(s.indices))) for s in shards], 1)
    shard, last = rounds.Shard(base), whole[rows // 2 :]
    shard.learn(last[:1000], 16.0)  # compiled, and the table's memory is there
    learn = cpu(lambda: shard.learn(last, 16.0)) / len(last)
    gains: list[pa.Table] = []
    gain = cpu(lambda: gains.append(shard.gain(0)))
    features = len(shard.part.touched)
    again = rounds.gain(shard.part, base, 1)
    sums: list[pa.Table] = []
    add = cpu(lambda: sums.append(rounds.add([gains[0], again]))) / (2 * features)
    apply = cpu(lambda: rounds.apply(base, sums[0], 16.0))
    return Parts(
        read=parquet_seconds(rows // 4),
        learn=learn,
        gain=gain / features,
        add=add,
        apply=apply / features,
        gain_bytes=gains[0].nbytes / features,
        sum_bytes=sums[0].nbytes / features,
        touched=(float(np.exp(start)), float(slope)),
    )


def parquet_seconds(rows: int) -> float:
    """CPU seconds a row for reading 39 columns of names as a recipe says; only the reading, in one thread."""
    rng, names = np.random.default_rng(0), np.array([f"v{k}" for k in range(2**16)], object)
    table = {f"c{k}": names[np.minimum(rng.zipf(1.3, rows), 2**16) - 1] for k in range(FIELDS)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        pq.write_table(pa.table({"y": rng.integers(0, 2, rows), **table}), path)
        source = sources.open(str(path), recipe={"label": "y", "bits": BITS}, threads=0)
        for _ in source:  # compiled, fitted
            pass
        rows = 0

        def read() -> None:
            nonlocal rows
            rows = sum(len(batch) for batch in source)

        return cpu(read) / rows


def cpu(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def expected(parts: Parts, rows: int, cores: int, gigabits: float) -> dict[str, float]:
    """Seconds of each stage, summed over all rounds."""
    machines = max(cores // CORES_OF_A_MACHINE, 1)
    link = gigabits / 8 * 1e9

    def touched(n: float) -> float:
        return min(parts.touched[0] * n ** parts.touched[1], 2.0**BITS)

    spent = dict.fromkeys(("read", "learn", "gain", "shuffle", "add", "apply", "send", "combine"), 0.0)
    held = int(rounds.HOLDOUT_FRACTION_MIN_MAX.of(rows))
    planned = rounds.plan(rows - held, cores)
    for first, last, shards in planned:
        each, whole = (last - first) / shards, touched(last - first)
        spent["read"] += each * parts.read
        spent["learn"] += each * parts.learn
        if shards > 1:
            met = touched(each)
            spent["gain"] += met * parts.gain
            spent["shuffle"] += shards * met * parts.gain_bytes / (machines * link)
            spent["add"] += shards * met * parts.add / cores
            spent["apply"] += whole * parts.apply
            spent["send"] += 2 * whole * parts.sum_bytes / link
    spent["combine"] = held * (parts.read + parts.learn) * len(planned)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--of", type=float, default=1e9)
    parser.add_argument("--cores", type=lambda text: [int(n) for n in text.split(",")], default=[16, 128])
    parser.add_argument("--gigabits", type=float, default=10.0)
    args = parser.parse_args()
    parts = measure(args.rows)
    print("| measured here | |\n|---|---|")
    for name, value in parts._asdict().items():
        if name == "touched":
            print(f"| features that m rows touch | {value[0]:.0f} m^{value[1]:.2f} |")
        elif name.endswith("bytes"):
            print(f"| {name.replace('_', ', ')} a feature | {value:.0f} |")
        else:
            unit = "row" if name in ("read", "learn") else "feature"
            print(f"| {name}, us a {unit} | {1e6 * value:.2f} |")
    print(f"\n| {args.of:,.0f} rows, minutes | {' | '.join(f'{cores} cores' for cores in args.cores)} |")
    print(f"|---|{'---|' * len(args.cores)}")
    found = [expected(parts, int(args.of), cores, args.gigabits) for cores in args.cores]
    for name in found[0]:
        print(f"| {name} | {' | '.join(f'{spent[name] / 60:.1f}' for spent in found)} |")
    print(f"| all | {' | '.join(f'{sum(spent.values()) / 60:.0f}' for spent in found)} |")


if __name__ == "__main__":
    main()
