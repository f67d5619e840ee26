"""What a round on Spark costs: CPU seconds against the same learning in plain processes, and what is predicted there.

    python benchmarks/spark.py [--rows 1600000] [--files 16] [--folder /tmp/bayou-spark]

Rows of a label, eight columns of text and two numbers, in Parquet files; 2^18 weights; a base of 50,000 rows in
sequence. A round is one shard for each file, whose rows count as often as there are files, lanes alone:

    plain       two processes, a copy of the base for each file: what the learning itself costs
    files       `bayou.spark`, whose tasks read their files: the first round of a session, which starts the Python
                workers, and later ones
    frame       the same of a DataFrame, which is written as Parquet first
    scoring     `transform` of a DataFrame, beside Spark's reading of the same columns

CPU seconds are those of Java and of Python, of all processes, from /proc: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bayou
from bayou import rounds
from bayou.spark import engine, frames, layout, scoring, tasks

TICKS = os.sysconf("SC_CLK_TCK")
BASE = 50_000


def write(folder: Path, rows: int, files: int) -> list[str]:
    """Eight columns of text with Zipf's law, two numbers, and labels that they decide."""
    folder = folder / f"{rows}-{files}"
    names = [str(folder / f"part-{k:02d}.parquet") for k in range(files)]
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, 0.4, 20_000) for _ in range(8)]
    for name in names:
        n = rows // files
        picked = [np.minimum(rng.zipf(1.3, n), 20_000) - 1 for _ in range(8)]
        numbers = rng.normal(size=(2, n))
        score = sum(w[k] for w, k in zip(weights, picked, strict=True)) + 0.3 * numbers[0] - 2.0
        columns = {f"c{j}": pa.array([f"c{j}v{v}" for v in k.tolist()]) for j, k in enumerate(picked)}
        columns |= {"n0": numbers[0], "n1": numbers[1]}
        columns["clicked"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int8)
        if not os.path.exists(name):
            pq.write_table(pa.table(columns), name)
    return names


def shards_of(names: list[str]) -> list[list[bayou.sources.row_group_slices.RowGroupSlice]]:
    return [layout.row_groups([name])[0] for name in names]


def plain(model: str, names: list[str], weight: float) -> None:
    """A process: a model for each of some files."""
    base = bayou.load(model)
    for parts in shards_of(names):
        tasks.learn_parts(copy.copy(base), parts, weight, "raise")


def in_processes(model: Path, names: list[str], processes: int = 2) -> float:
    """CPU seconds of processes that share the files."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = [
        subprocess.Popen([sys.executable, __file__, "--plain", model, str(len(names)), *names[k::processes]])
        for k in range(processes)
    ]
    assert [one.wait() for one in started] == [0] * processes
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def used(java: int) -> np.ndarray:
    """CPU seconds so far: of Java; of the Python processes below it and of this one."""
    parents, spent = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
            spent[int(entry)] = [sum(map(int, fields[11:13])) / TICKS, sum(map(int, fields[13:15])) / TICKS]
    below = {java}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    python = sum(sum(spent[pid]) for pid in below - {java})
    return np.array([spent[java][0], python + time.process_time()])


def measured(java: int, work) -> np.ndarray:
    before = used(java)
    work()
    return used(java) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--times", type=int, default=3, help="how often each is measured; the median is shown")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "bayou-spark"))
    args = parser.parse_args()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    names = write(args.folder, args.rows, args.files)
    model = args.folder / "base.bayou"
    first = bayou.sources.row_group_slices.RowGroupSlices(shards_of(names)[0]).cut(0, BASE)
    base = bayou.train(bayou.sources.row_group_slices.RowGroupSlices(first), label="clicked", bits=18).learner
    base.save(model)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "OFF").config("spark.ui.showConsoleProgress", "false")
    spark = engine.usable(builder.config("spark.driver.memory", "2g").getOrCreate())
    java = spark.sparkContext._gateway.proc.pid
    shards, weight = shards_of(names), float(len(names))

    def files() -> None:
        rounds.apply(copy.copy(base), engine.summed_gains(spark, base, shards, weight, "raise"), weight)

    def frame() -> None:
        rows = spark.read.parquet(*names)
        with frames.as_files(rows) as written:
            parts = bayou.sources.row_group_slices.RowGroupSlices(layout.row_groups(written)[0])
            cut = layout.RowLayout(parts, parts, "").shards(rounds.PlannedRound(0, parts.rows, len(names)))
            rounds.apply(copy.copy(base), engine.summed_gains(spark, base, cut, weight, "raise"), weight)

    def score() -> None:
        scoring.transform(spark.read.parquet(*names), base, keep=[]).write.format("noop").mode("overwrite").save()

    def only_read() -> None:
        rows = spark.read.parquet(*names)
        rows.mapInArrow(lambda batches: (b.select(["n0"]) for b in batches), "n0 double").write.format("noop").mode(
            "overwrite"
        ).save()

    cold = measured(java, files)
    pairs = [(in_processes(model, names), *measured(java, files)) for _ in range(args.times)]
    alone = statistics.median(pair[0] for pair in pairs)
    shown = {"files, first round": cold, "files": np.median([pair[1:] for pair in pairs], axis=0)}
    shown["frame"] = measured(java, frame)
    print(f"{args.rows:,} rows in {len(names)} files, bayou {bayou.__version__}; CPU seconds\n")
    print("| | Java | Python | together | of plain processes |\n|---|---|---|---|---|")
    print(f"| plain processes | | {alone:.1f} | {alone:.1f} | 1 |")
    for name, (jvm, python) in shown.items():
        print(f"| {name} | {jvm:.1f} | {python:.1f} | {jvm + python:.1f} | {alone / (jvm + python):.2f} |")
    for name, work in (("transform", score), ("Spark's own reading, through Python", only_read)):
        jvm, python = measured(java, work)
        print(f"| {name} | {jvm:.1f} | {python:.1f} | {jvm + python:.1f} | |")
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--plain"]:
        plain(sys.argv[2], sys.argv[4:], float(sys.argv[3]))
    else:
        main()
