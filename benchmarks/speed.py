"""How fast bayou learns compared with its peers, in one run on the same rows.

    python benchmarks/speed.py [--rows 300000] [--clock wall|cpu|caller] [--json out.json]

Prints nanoseconds per active feature and the ratio to each peer; what of bayou's time is memory, which is what asking
for, loading and storing the same cache lines takes alone; the time of a million examples of the first paper's Table 1
set; what intervals of predictions take; and start-up times. Run it on an otherwise idle machine. On a busy one count
CPU time instead: that of all threads (--clock cpu), or of the calling one (caller), which is about what passes where
every thread has a core of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from bayou import Batch, evaluate, simulate
from bayou.core.prediction import Prediction, ScoreRule, Scores
from bayou.kernels.gather import prefetch
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.row_layout import PREFETCH_NONZEROS
from bayou.learners import FTRL, AdaGrad, Bank, Gaussian, Joint, Marginal, Moment, SpikeSlab
from bayou.learners.bank import row_scaling as bank_rows
from bayou.learners.spike_slab import vector_kernel

FIELDS = 39
BITS = 22
PEER = "scikit-learn SGDClassifier.partial_fit"
US = "bayou Marginal, learn"
RIVER = "river LogisticRegression.learn_one"


def click_rows(n_rows: int, hashed: bool = False, seed: int = 0) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of 39 fields over 2^22 columns; each field follows Zipf's law (1/rank^1.1); labels from true weights.

    Columns are numbered by how frequent they are, as a dictionary would number them, or scattered by a hash.
    """
    rng = np.random.default_rng(seed)
    chances = np.cumsum(1.0 / np.arange(1, 2**BITS // FIELDS + 1) ** 1.1)
    values = np.searchsorted(chances, rng.random((n_rows, FIELDS)) * chances[-1]).astype(np.uint64)
    columns = values * np.uint64(FIELDS) + np.arange(FIELDS, dtype=np.uint64)
    if hashed:
        columns = (columns * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - BITS)
    columns = np.sort((columns % np.uint64(2**BITS)).astype(np.int32), axis=1)
    indptr = np.arange(0, n_rows * FIELDS + 1, FIELDS, dtype=np.int32)
    X = sp.csr_matrix((np.ones(n_rows * FIELDS), columns.ravel(), indptr), shape=(n_rows, 2**BITS))
    X.sum_duplicates()  # two fields sometimes share a column
    score = X @ np.random.default_rng(12345).normal(0, 0.5, 2**BITS) - 1.0  # one truth, whatever the seed
    return X, np.where(rng.random(n_rows) < 1 / (1 + np.exp(-score)), 1, -1)


Work = Callable[[], Any]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time, "caller": time.thread_time}
clock = CLOCKS["wall"]


def median_seconds(works: dict[str, tuple[Work, Work]], repeats: int = 5) -> dict[str, float]:
    """The median time of each job, given as (prepare, work) by name. Jobs alternate: a busy machine is busy for all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, (prepare, work) in works.items():
            prepare()
            start = clock()
            work()
            times[name].append(clock() - start)
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}  # the first run warms up


def nothing() -> None:
    """Nothing to prepare."""


def learning(rows: int, hashed: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Nanoseconds per active feature, in memory: bayou, scikit-learn, river; and what of it memory takes alone."""
    from sklearn.linear_model import SGDClassifier

    X, y = click_rows(rows, hashed)
    batch = Batch.from_csr(X, y)
    now: dict[str, Any] = {}

    # Every learner has seen some rows, so that its table of weights is in memory; the bank, whose table is large, all.
    def new(make: Callable[..., Any], met: int = 1000, **parameters: Any) -> Work:
        def prepare() -> None:
            now["learner"] = make(2**BITS, **parameters)
            now["learner"].learn(batch[:met])

        return prepare

    def new_sgd() -> None:
        now["sgd"] = SGDClassifier(loss="log_loss").partial_fit(X[:1000], y[:1000], classes=[-1, 1])

    def learn() -> None:
        now["learner"].learn(batch)

    def predict() -> None:
        now["learner"].predict(batch)

    def from_csr() -> None:
        now["learner"].learn(Batch.from_csr(X, y))

    # The bank counts how large values are as soon as one is not 1: where a hash has brought two together.
    lanes = Traffic((64,) if (batch.values == 1).all() else (64, 8), bank_rows.AHEAD)
    wide_slab, slab = (Traffic((size,), vector_kernel.AHEAD) for size in (64, 32))
    select, probit_peak = {"inclusion_prior": 1e-3}, {"link": "probit", "variance_update": "peak"}
    contenders: dict[str, tuple[Work, Work, Traffic | None]] = {
        PEER: (new_sgd, lambda: now["sgd"].partial_fit(X, y), None),
        US: (new(Marginal), learn, PAIRS),
        "bayou Marginal, Batch.from_csr + learn": (new(Marginal), from_csr, PAIRS),
        "bayou Marginal, predict": (nothing, predict, PAIRS._replace(write=False)),
        "bayou Marginal, learn, float64": (new(Marginal, dtype="float64"), learn, WIDE_PAIRS),
        "bayou Marginal, learn, probit": (new(Marginal, link="probit"), learn, PAIRS),
        "bayou Marginal, learn, peak": (new(Marginal, variance_update="peak"), learn, PAIRS),
        "bayou Marginal, learn, probit and peak": (new(Marginal, **probit_peak), learn, PAIRS),
        "bayou Moment, learn": (new(Moment), learn, PAIRS),
        "bayou Joint, learn": (new(Joint), learn, PAIRS),
        "bayou AdaGrad, learn": (new(AdaGrad), learn, PAIRS),
        "bayou FTRL, learn": (new(FTRL, l1=1.0), learn, PAIRS),
        "bayou FTRL, learn, float64": (new(FTRL, l1=1.0, dtype="float64"), learn, WIDE_PAIRS),
        "bayou SpikeSlab, learn": (new(SpikeSlab, met=rows, **select), learn, wide_slab),
        "bayou SpikeSlab, learn, float32": (new(SpikeSlab, met=rows, **select, dtype="float32"), learn, slab),
        "bayou Gaussian, learn (labels as numbers)": (new(Gaussian), learn, PAIRS),
        "bayou Bank, learn": (new(Bank, met=rows), learn, lanes),
        "bayou Bank, predict": (nothing, predict, lanes._replace(write=False)),
    }
    seconds = median_seconds({name: (prepare, work) for name, (prepare, work, _) in contenders.items()})
    nanoseconds = {name: s / batch.nonzeros * 1e9 for name, s in seconds.items()}
    few = batch[: min(rows, 20_000)]
    nanoseconds[RIVER] = river_seconds(few) / few.nonzeros * 1e9
    kinds = {name: kind for name, (_, _, kind) in contenders.items() if kind is not None}
    alone = memory_alone(batch, set(kinds.values()))
    return nanoseconds, {name: alone[kind] for name, kind in kinds.items()}


def river_seconds(batch: Batch) -> float:
    from river.linear_model import LogisticRegression

    model = LogisticRegression()
    examples = [
        (
            dict(zip(batch.indices[a:b].tolist(), batch.values[a:b].tolist(), strict=True)),
            bool(label > 0),
        )
        for a, b, label in zip(batch.indptr, batch.indptr[1:], batch.labels, strict=False)
    ]
    start = time.perf_counter()
    for x, y in examples:
        model.learn_one(x, y)
    return time.perf_counter() - start


class Traffic(NamedTuple):
    """What a learner does to memory for each non-zero: so many bytes of each of its tables (a cache line or a part of
    one), asked for so far ahead."""

    tables: tuple[int, ...]
    ahead: int
    write: bool = True


PAIRS, WIDE_PAIRS = Traffic((8,), PREFETCH_NONZEROS), Traffic((16,), PREFETCH_NONZEROS)


@njit
def _visit(indptr, indices, state, ahead, write):
    """Touch the cache line of each of a row's features as learners do: ask ahead, load the row, store it."""
    table, stride, end = state.reshape(-1), np.uint64(state.shape[1]), indptr[indptr.size - 1]
    seen = table[0]
    for row in range(indptr.size - 1):
        start, stop = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
        if indptr[row + 1] + ahead <= end:
            for k in range(start + np.uint64(ahead), stop + np.uint64(ahead)):
                prefetch(table, np.int64(np.uint64(indices[k]) * stride))
        for k in range(start, stop):
            seen += table[np.uint64(indices[k]) * stride]
        for k in range(start, stop if write else start):
            table[np.uint64(indices[k]) * stride] += state.dtype.type(1)
    return seen


def memory_alone(batch: Batch, kinds: set[Traffic]) -> dict[Traffic, float]:
    """Nanoseconds per active feature that the memory traffic of learners takes without anything else."""
    found = dict.fromkeys(kinds, 0.0)
    for size in {size for kind in kinds for size in kind.tables}:
        state = aligned_zeros(2**BITS + 1, size // 4, "float32")
        state[:] = 1
        works = {
            (kind.ahead, kind.write): (nothing, partial(_visit, batch.indptr, batch.indices, state, *kind[1:]))
            for kind in kinds
            if size in kind.tables
        }
        seconds = median_seconds(works)
        for kind in kinds:
            found[kind] += kind.tables.count(size) * seconds.get(kind[1:], 0.0) / batch.nonzeros * 1e9
    return found


def cached_ns(rows: int) -> dict[str, float]:
    """With all weights in the cache: almost only the arithmetic."""
    X, y = click_rows(rows)
    rows_there = Batch.from_arrays(X.indptr, X.indices % 4096, X.data)
    batch = Batch.from_arrays(rows_there.indptr, rows_there.indices, np.ones(rows_there.nonzeros), y)
    now: dict[str, Any] = {}

    def learn(make: Callable[..., Any]) -> tuple[Work, Work]:
        return lambda: now.update(learner=make(4096)), lambda: now["learner"].learn(batch)

    seconds = median_seconds({make.__name__: learn(make) for make in (Marginal, Moment, Joint, AdaGrad, Bank)})
    return {name: s / batch.nonzeros * 1e9 for name, s in seconds.items()}


def table1_seconds(examples: int = 1_000_000) -> tuple[float, float]:
    """(seconds, r = R / ln T) of generating, predicting and learning Table 1's set (d = 200, 20 active)."""
    stream = simulate.random(n_features=200, active=0.1, weight_std=1.0, seed=0)
    evaluate.progressive(Marginal(200, intercept=False), stream.batches(1000), truth=stream.weights)
    learner = Marginal(200, prior_variance=1.0, intercept=False)
    start = time.perf_counter()
    result = evaluate.progressive(learner, stream.batches(examples), truth=stream.weights)
    return time.perf_counter() - start, result.normalized_regret


def full_covariance_rate(features: int = 200, examples: int = 50_000) -> float:
    """Examples per second of `Joint` with full covariance on dense rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(examples, features))
    batch = Batch.from_csr(X, rng.random(examples) < 1 / (1 + np.exp(-X @ rng.normal(0, 0.2, features))))
    seconds = median_seconds({"full": (nothing, lambda: Joint(features, covariance="full").learn(batch))}, repeats=3)[
        "full"
    ]
    return examples / seconds


def cost_of_later(rows: int) -> dict[str, float]:
    """What it costs the bank to learn how to predict later rows: seconds with and without, and the share of the former.

    Without: as in a second pass, in which rows are no longer new.
    """
    batch = Batch.from_csr(*click_rows(rows, hashed=False))
    now: dict[str, Any] = {}

    def new(rests: bool) -> Work:
        def prepare() -> None:
            now["bank"] = Bank(2**BITS)
            if rests:
                now["bank"].end_pass()

        return prepare

    def learn() -> None:
        now["bank"].learn(batch)

    seconds = median_seconds({"with": (new(False), learn), "without": (new(True), learn)}, repeats=3)
    return seconds | {"share": seconds["with"] / seconds["without"] - 1.0}


def interval_ns(rows: int = 10_000) -> dict[str, float]:
    """Of scores near 0, and of such that are both large and unsure, whose intervals are not symmetrical."""
    rng = np.random.default_rng(0)
    found = {}
    for name, low, high in (("sure", 0.0, 1.0), ("large and unsure", 8.0, 12.0)):
        mean, variance = rng.uniform(low, high, rows), rng.uniform(4.0, 5.0, rows)
        probability = 1.0 / (1.0 + np.exp(-mean / np.sqrt(1.0 + np.pi / 8.0 * variance)))
        prediction = Prediction(Scores(probability, mean, variance), "marginal", ScoreRule())
        took = median_seconds({name: (nothing, partial(prediction.interval, 0.95))}, repeats=51)
        found[name] = 1e9 * took[name] / rows
    return found


LEARN_ONE = (
    "from bayou import Batch; from bayou.learners import Marginal; Marginal(10).learn(Batch.from_rows([{1: 1.0}], [1]))"
)


def start_up_seconds() -> dict[str, float]:
    def run(*arguments: str) -> tuple[Work, Work]:
        command = [sys.executable, *arguments]
        return nothing, lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return median_seconds(
        {"import bayou, learn one batch": run("-c", LEARN_ONE), "bayou --help": run("-m", "bayou", "--help")}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="what is counted")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    global clock
    clock = CLOCKS[args.clock]

    for hashed in (False, True):
        ns, memory = learning(args.rows, hashed)
        title = "columns scattered by a hash" if hashed else "columns numbered by frequency"
        print(f"{args.rows:,} rows, {FIELDS} non-zeros each, Zipf over 2^{BITS} {title}; {args.clock}, median of 5")
        print(f"{'':45}{'ns/feature':>12}{'/ scikit-learn':>16}{'river /':>10}{'memory alone':>14}{'share':>7}")
        for name, value in ns.items():
            alone = f"{memory[name]:14.2f}{memory[name] / value:7.0%}" if name in memory else ""
            print(f"{name:45}{value:12.2f}{value / ns[PEER]:16.3f}{ns[RIVER] / value:10.0f}{alone}")
        print()
        found[title], found[f"{title}, memory alone"] = ns, memory
        if not hashed:
            found["cached"] = cached_ns(args.rows)
            shown = ", ".join(f"{name} {value:.2f}" for name, value in found["cached"].items())
            print(f"With 4,096 columns, all weights in the cache: {shown}\n")
    found["table1_seconds"], r = table1_seconds()
    print(f"Table 1 set, 1M examples generated, predicted, learned: {found['table1_seconds']:.2f} s (r = {r:.1f})")
    found["full_covariance_rate"] = full_covariance_rate()
    print(f"Joint, full covariance, 200 dense features: {found['full_covariance_rate']:,.0f} examples a second")
    for rows in (100_000, 1_000_000):
        found[f"later_{rows}"] = cost = cost_of_later(rows)
        each = 1e6 * (cost["with"] - cost["without"]) / rows
        print(f"Bank, {rows:,} rows: to predict later rows costs {cost['share']:+.1%}, {each:.2f} us a row")
    found["intervals"] = interval_ns()
    shown = ", ".join(f"{name} {value:.0f}" for name, value in found["intervals"].items())
    print(f"Prediction.interval, ns a row: {shown}")
    clock = CLOCKS["wall"]  # other processes have their own
    found["start_up"] = start_up_seconds()
    for name, value in found["start_up"].items():
        print(f"{name}: {value:.2f} s with warm caches")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
