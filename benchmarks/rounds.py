"""What learning in shards costs in log loss: rounds and merges, against one sequential pass of the same learner.

    python benchmarks/rounds.py quality [--sets a9a,frappe] [--shards 16] [--passes 2] [--orders 3] [--least 10000]
    python benchmarks/rounds.py merge [--sets ...] [--orders 3]
    python benchmarks/rounds.py coverage
    python benchmarks/rounds.py processes [--rows 4000000] [--processes 2]

Of each set the first 90% are learned, and the last 10% predicted, frozen. An order is a permutation of all rows;
order 0 is that of the file (of flights, that of the first permutation). Shown is log loss over that of the sequential
pass, in per cent, for the next row and for later ones.

**quality**: doubling rounds (--growth 1) over at most so many shards of at least 10,000 rows (--least), the combination
learned afresh on 2% of the rows (at least 20,000, or a tenth of them all), which the lanes learn in the end; rounds
where the loss on those rises are counted.

**merge**: sixteen parts, each learned alone: from nothing, and from a base of the first 5%; merged, and merged with
the combination learned afresh; one part alone; and Vowpal Wabbit's `merge_models`, over its own sequential pass.

**coverage**: of simulated streams, whose probabilities are known, how many of them 90% intervals hold after all that.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import quality_peers
import quality_sets

from bayou import Batch, rounds, simulate, sources
from bayou.core import registry
from bayou.core.learner import Learner
from bayou.runs.merge import merge_learners

SIMULATED = {
    "longtail": (lambda: simulate.longtail(n_categories=16, seed=1), 2_000_000),
    "table1": (lambda: simulate.random(n_features=200, seed=1), 1_000_000),
}
SETS = ("longtail", "table1", "flights", "frappe", "a9a")
PARTS = 16
VW = [sys.executable, "-m", "vowpalwabbit"]


def rows_of(name: str, data: Path, cache: Path) -> Batch:
    if name in SIMULATED:
        make, examples = SIMULATED[name]
        return Batch.concatenate(list(make().batches(examples)))
    X, y = quality_sets.load(name, data, cache)
    fields = quality_sets.fields(name, data, cache)
    return Batch.from_arrays(X.indptr, X.indices, X.data, y, groups=None if fields is None else fields[X.indices])


def ordered(rows: Batch, name: str, order: int) -> Batch:
    seed = order + (name == "flights")
    return rows if not seed else rows.take(np.random.default_rng(seed).permutation(len(rows)))


def losses(learner: Learner, test: Batch) -> np.ndarray:
    """Mean log loss of rows that are not learned: for the next row, and for later ones."""
    positive, found = test.labels > 0, []
    for horizon in ("next", "later") if learner.name == "bank" else ("next",):
        p = learner.predict(test, horizon=horizon).probability
        found.append(-np.log(np.where(positive, p, 1.0 - p)).mean())
    return np.array(found)


def split(rows: Batch, seed: int) -> tuple[Batch, Batch]:
    """(to learn, held out for the combination)"""
    n = int(
        rounds.HOLDOUT_FRACTION_MIN_MAX._replace(low=min(rounds.HOLDOUT_FRACTION_MIN_MAX.low, 0.1 * len(rows))).of(
            len(rows)
        )
    )
    held = np.zeros(len(rows), bool)
    held[np.random.default_rng(100 + seed).choice(len(rows), n, replace=False)] = True
    return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))


def shards_of(rows: Batch, first: int, last: int, shards: int) -> list[Batch]:
    return [rows.take(np.arange(first + k, last, shards)) for k in range(shards)]


def in_rounds(
    base: Learner,
    rows: Batch,
    held: Batch,
    shards: int,
    passes: int,
    test: Batch,
    growth: float = 1.0,
    least: int = rounds.MIN_SHARD_ROWS,
) -> Iterable:
    """After each pass: what it costs, how often the loss on held-out rows rose, shards of the last round."""
    told, rises = [], 0
    first = max(len(rows) // 100, min(5000, len(rows) // 4))
    driver = rounds.LoopDriver(base)
    for round_ in rounds.plan(len(rows), shards, first, least, growth):
        driver.learn_round(shards_of(rows, *round_), round_.shards)
        rises += note(base, held, told)
    yield losses(ended(base, held), test), rises, round_.shards
    for _ in range(1, passes):
        many = rounds.shard_count(len(rows), shards, least)
        driver.learn_round(shards_of(rows, 0, len(rows), many), many, is_repeated=True)
        rises += note(base, held, told)
        yield losses(ended(base, held), test), rises, many


def note(base: Learner, held: Batch, told: list[float]) -> bool:
    """Learn the combination afresh; whether what it costs has risen."""
    told.append(base.recombine([held]) if base.name == "bank" else float(losses(base, held)[0]))
    return len(told) > 1 and told[-1] > told[-2]


def ended(base: Learner, held: Batch) -> Learner:
    """As it is when no further pass follows: held-out rows are learned, too."""
    last = copy.copy(base)
    if last.name == "bank":
        last.recombine([held], learn=True)
    else:
        rounds.learn_mergeable(last, held)
    return last


def over(found: np.ndarray, sequential: np.ndarray) -> str:
    return " / ".join(f"{100 * (a / b - 1):+.2f}" for a, b in zip(found, sequential, strict=True))


def quality(args: argparse.Namespace) -> None:
    heads = "set", "order", "sequential", "pass", "over it, % (next / later)", "shards", "rises", "s"
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, order, train, test in cases(args):
        one, parts = (make(args.learner, train) for _ in range(2))
        one.learn(train)
        sequential, start = losses(one, test), time.perf_counter()
        learned, held = split(train, order)
        told = in_rounds(parts, learned, held, args.shards, args.passes, test, args.growth, args.least)
        for number, (found, rises, shards) in enumerate(told, 1):
            shown = f"{sequential[0]:.4f}", number, over(found, sequential), shards, rises
            seconds = f"{time.perf_counter() - start:.0f}"
            print(f"| {name} | {order} | {' | '.join(map(str, shown))} | {seconds} |", flush=True)


def cases(args: argparse.Namespace) -> Iterable[tuple[str, int, Batch, Batch]]:
    """Of each set and order: what is learned, and what is predicted."""
    for name in args.sets:
        rows = rows_of(name, args.data, args.cache)
        for order in range(args.orders):
            here = ordered(rows, name, order)
            yield name, order, here[: len(here) * 9 // 10], here[len(here) * 9 // 10 :]


def make(learner: str, rows: Batch) -> Learner:
    return registry.find(learner).load()(n_features=int(rows.max_index) + 1)


def merge(args: argparse.Namespace) -> None:
    heads = "one part", "merged", "merged, recombined", "with a base", "with a base, recombined", "VW one part"
    print(f"| set | order | {' | '.join((*heads, 'VW merge_models'))} |\n|{'---|' * 9}")
    for name, order, train, test in cases(args):
        shown = [over(found, *rest) for found, *rest in merged(args.learner, train, test, order)]
        shown += [f"{100 * (loss / first - 1):+.2f}" for loss, first in vw_merged(train, test)]
        print(f"| {name} | {order} | {' | '.join(shown)} |", flush=True)


def merged(learner: str, train: Batch, test: Batch, order: int) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    one = make(learner, train)
    one.learn(train)
    sequential = losses(one, test)
    rest, held = split(train, order)
    parts = [make(learner, train) for _ in range(PARTS)]
    for part, rows in zip(parts, shards_of(train, 0, len(train), PARTS), strict=True):
        part.learn(rows)
    yield losses(parts[0], test), sequential
    yield losses(parts[0].merge(parts[1:]), test), sequential
    yield losses(recombined(learner, rest, held, 0), test), sequential
    base = make(learner, train)
    base.learn(train[: len(train) // 20])
    grown = [copy.copy(base) for _ in range(PARTS)]
    for part, rows in zip(grown, shards_of(train, len(train) // 20, len(train), PARTS), strict=True):
        part.learn(rows)
    yield losses(grown[0].merge(grown[1:], base=base), test), sequential
    yield losses(recombined(learner, rest, held, len(rest) // 20), test), sequential


def recombined(learner: str, rest: Batch, held: Batch, first: int) -> Learner:
    base = make(learner, rest)
    base.learn(rest[:first])
    grown = [copy.copy(base) for _ in range(PARTS)]
    for part, rows in zip(grown, shards_of(rest, first, len(rest), PARTS), strict=True):
        part.learn(rows)
    return merge_learners(grown, base if first else None, held_out=[held]).learner


def vw_merged(train: Batch, test: Batch) -> list[tuple[float, float]]:
    """(loss, that of its sequential pass) of one part, and of sixteen that were merged."""
    import vowpalwabbit  # here, as no other part needs it

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)

        def learn(rows: Batch, to: str) -> None:
            quality_peers.write_vw(rows.to_csr(), rows.labels, place / "rows.txt")
            options = ["--loss_function", "logistic", "-b", "20", "--quiet", "--save_resume", "-f", str(place / to)]
            subprocess.run([*VW, "-d", str(place / "rows.txt"), *options], check=True)

        def loss(model: str) -> float:
            options = ["--link", "logistic", "-t", "--quiet", "-i", str(place / model), "-p", str(place / "p.txt")]
            subprocess.run([*VW, "-d", str(place / "test.txt"), *options], check=True)
            p = np.clip(np.loadtxt(place / "p.txt", usecols=0), 1e-7, 1 - 1e-7)
            return float(-np.log(np.where(test.labels > 0, p, 1 - p)).mean())

        quality_peers.write_vw(test.to_csr(), test.labels, place / "test.txt")
        learn(train, "one")
        for k, rows in enumerate(shards_of(train, 0, len(train), PARTS)):
            learn(rows, f"part{k}")
        models = [vowpalwabbit.Workspace(f"--quiet -i {place / f'part{k}'}") for k in range(PARTS)]
        vowpalwabbit.merge_models(None, models).save(str(place / "merged"))
        one = loss("one")
        return [(loss("part0"), one), (loss("merged"), one)]


def coverage(args: argparse.Namespace) -> None:
    """The share of true probabilities that 90% intervals hold: for the next row, and for later ones."""
    heads = (
        "stream",
        "one process",
        "one part",
        "merged",
        "merged, recombined",
        "with a base",
        "recombined",
        "in rounds",
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    learned, held_out, tested = 96_000, 20_000, 10_000
    for name, stream in {
        "random, 200 features": simulate.random(n_features=200, seed=1),
        "long tail, 2,046 features": simulate.longtail(n_categories=10, seed=1),
        "values, 200 features": simulate.nonbinary(n_features=200, seed=2),
    }.items():
        rows = Batch.concatenate(list(stream.batches(learned + held_out + tested)))
        train, held, test = rows[:learned], rows[learned:-tested], rows[-tested:]
        truth = 1.0 / (1.0 + np.exp(-(test.to_csr(stream.n_features) @ stream.weights)))
        shown = []
        for learner in learned_in_every_way(args.learner, train, held):
            for horizon in ("next", "later"):
                low, high = learner.predict(test, horizon=horizon).interval(0.9)
                shown.append(f"{np.mean((low <= truth) & (truth <= high)):.2f}")
        pairs = [f"{a} / {b}" for a, b in zip(shown[::2], shown[1::2], strict=True)]
        print(f"| {name} | {' | '.join(pairs)} |", flush=True)


def learned_in_every_way(name: str, train: Batch, held: Batch) -> Iterable[Learner]:
    one, base = make(name, train), make(name, train)
    one.learn(train)
    yield one
    parts = [make(name, train) for _ in range(PARTS)]
    for part, rows in zip(parts, shards_of(train, 0, len(train), PARTS), strict=True):
        part.learn(rows)
    yield parts[0]
    yield merge_learners(parts).learner
    yield merge_learners(parts, held_out=[held]).learner
    base.learn(train[:5000])
    grown = [copy.copy(base) for _ in range(PARTS)]
    for part, rows in zip(grown, shards_of(train, 5000, len(train), PARTS), strict=True):
        part.learn(rows)
    yield merge_learners(grown, base).learner
    yield merge_learners(grown, base, held_out=[held]).learner
    in_shards = make(name, train)
    for _ in in_rounds(in_shards, train, held, PARTS, 1, held):
        pass
    yield ended(in_shards, held)


def processes(args: argparse.Namespace) -> None:
    """From text to a model: one process, several, and the limit: as many that parse and learn and share nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.svm")
        bayou = [sys.executable, "-m", "bayou"]
        simulated = ["simulate", "longtail", "--examples", str(args.rows), "--seed", "1", "--out", str(path)]
        subprocess.run([*bayou, *simulated], check=True, capture_output=True)
        train = [*bayou, "train", str(path), "--bits", "22", "--json", "--quiet"]
        ways = {"one process": train, f"--processes {args.processes}": [*train, "--processes", str(args.processes)]}
        alone = [sys.executable, __file__, "alone", "--file", str(path)]
        print("| | rows a second | CPU seconds a million rows |\n|---|---|---|")
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in (*ways, "the limit")}
        for _ in range(4):
            for name, command in ways.items():
                before = cpu_of_children()
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                spent[name].append((json.loads(said)["seconds"], cpu_of_children() - before))
            before = cpu_of_children()
            running = [subprocess.Popen(alone, stdout=subprocess.PIPE, text=True) for _ in range(args.processes)]
            slowest = max(float(one.communicate()[0]) for one in running)
            spent["the limit"].append((slowest / args.processes, (cpu_of_children() - before) / args.processes))
        for name, found in spent.items():
            seconds, cpu = np.median(found[1:], axis=0)  # the first has compiled
            print(f"| {name} | {args.rows / seconds:,.0f} | {1e6 * cpu / args.rows:.2f} |")


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def alone(args: argparse.Namespace) -> None:
    """Seconds for all rows of a file in one process without threads: parsing, and lanes alone with weights."""
    source = sources.open(args.file, recipe={"bits": 22}, threads=0)
    source.fit_recipe()
    shard, start = rounds.Shard(make_bits(22)), 0.0
    for number, cut in enumerate(source.blocks()):
        start = time.perf_counter() if number == 1 else start
        shard.learn(source.read(cut), float(args.processes))
    print(time.perf_counter() - start)


def make_bits(bits: int) -> Learner:
    return registry.find("bank").load()(n_features=1 << bits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("quality", "merge", "coverage", "processes", "alone"))
    parser.add_argument("--sets", type=lambda text: text.split(","), default=SETS)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--growth", type=float, default=1.0, help="how many times as large as all before it a round is")
    parser.add_argument("--least", type=int, default=rounds.MIN_SHARD_ROWS, help="how many rows a shard has at least")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--file")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--learner", default="bank")
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "bayou-quality"))
    args = parser.parse_args()
    parts = quality, merge, coverage, processes, alone
    next(part for part in parts if part.__name__ == args.part)(args)


if __name__ == "__main__":
    sys.exit(main())
