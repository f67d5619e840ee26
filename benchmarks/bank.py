"""The bank, part by part: units, long streams, what each part gains, the first examples, speed, combining, weights.

    python benchmarks/bank.py units            all values times 1e-4 to 1e4: does the loss stay?
    python benchmarks/bank.py long             ten million examples, with and without drift: does anything degrade?
    python benchmarks/bank.py parts            the loss without each part, and with each lane alone
    python benchmarks/bank.py start            the first examples: the bank against its mixture alone
    python benchmarks/bank.py speed            time per feature of the lanes, time per example of combining
    python benchmarks/bank.py combining        CPU time per example of the lanes and of both combinations
    python benchmarks/bank.py weights          CPU time per feature of rows of weight 1 and 16; Marginal, too
    python benchmarks/bank.py head             what the head gains on each set, and whether it is kept
    python benchmarks/bank.py headcost         time per row with it and without
    python benchmarks/bank.py halves           later rows after one pass, and after two halves were merged

Options: --data DIR (the real sets; by default the folder BAYOU_DATA), --cache DIR, --examples N (long), --sets a,b
(units, parts, start, head; head takes covtype_shuffled and criteo:10000, the first rows, too), --heads a,b (head),
--repeats N (speed, headcost). Log loss is that of predictions made before each example was learned from.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import quality_peers
import quality_sets
from speed import click_rows, median_seconds

from bayou import Batch, evaluate, simulate
from bayou.learners import Bank, Marginal
from bayou.learners import marginal as marginal_learner
from bayou.learners.bank import PRESETS
from bayou.learners.bank import running as bank_running

# Variants are compared on these alone: the held-out sets must not be used to choose among them.
LOOKED_AT = [name for name in quality_sets.SETS if name not in quality_sets.ASIDE]

# --- real sets ------------------------------------------------------------------------------------------------------


def loss_of(X, y, **parameters) -> float:
    learner = Bank(X.shape[1], **parameters)
    learner.learn(Batch.from_csr(X, y))
    return learner.levels["bank"]["loss"]


def sets_of(args: argparse.Namespace, default: list[str]) -> Iterator[tuple]:
    for name in args.sets.split(",") if args.sets else default:
        yield name, *quality_sets.load(name, args.data, args.cache)


FACTORS = (1.0, 0.01, 30.0, 1e-4, 1e4)
CHANGE = 0.02


def units(args: argparse.Namespace) -> None:
    """The same rows in other units: all values times f, as for a user who measures in metres instead of kilometres."""
    print(f"{'':12}{'log loss':>9}   change with all values times\n{'':21}" + "".join(f"{f:>11g}" for f in FACTORS[1:]))
    for name, X, y in sets_of(args, ["a9a", "w8a", "covtype", "rcv1", "sms"]):
        losses = [loss_of(X * factor, y) for factor in FACTORS]
        changes = np.array(losses[1:]) / losses[0] - 1.0
        late = "" if abs(changes[:2]).max() < CHANGE else f"   at .01 or 30: {CHANGE:.0%} or more"
        print(f"{name:12}{losses[0]:9.4f}" + "".join(f"{change:11.2%}" for change in changes) + late, flush=True)


def parts(args: argparse.Namespace) -> None:
    """Log loss over that of slim: geometric mean over the sets, and where it is worst and best.

    Also the calibration error of slim, beside what perfect probabilities as sharp as these would show by chance.
    """
    lanes = PRESETS["slim"]
    variants: dict[str, dict] = {"slim": {}, "first level alone": {"combine": "share"}}
    variants |= {f"without {lane}": {"lanes": [*lanes[:k], *lanes[k + 1 :]]} for k, lane in enumerate(lanes)}
    variants |= {f"{lane} alone": {"lanes": [lane]} for lane in lanes}
    variants |= {f"{lane} alone, no stackers": {"lanes": [lane], "combine": "share"} for lane in lanes}
    variants |= {"wide": {"preset": "wide"}, "wide, narrowed": {"preset": "wide", "narrowing": True}}
    found: dict[str, list[float]] = {}
    names = []
    print(f"{'slim':16}{'log loss':>9}{'calibration':>13}{'by chance':>11}")
    for name, X, y in sets_of(args, LOOKED_AT):
        names.append(name)
        batch = Batch.from_csr(X, y)
        for variant, parameters in variants.items():
            learner = Bank(X.shape[1], **parameters)
            result = evaluate.progressive(learner, batch)
            levels = learner.levels
            found.setdefault(variant, []).append(levels["bank"]["loss"])
            if variant == "slim":  # what its levels would have lost by themselves
                for level in ("stacker", "stacker with memory"):
                    found.setdefault(f"{level} alone", []).append(levels[level]["loss"])
                found.setdefault("its best output, in hindsight", []).append(min(o.loss for o in learner.lanes))
                chance = 0.8 * np.sqrt(20 * result.brier / len(y))
                print(f"{name:16}{result.log_loss:9.4f}{result.calibration_error:13.4f}{chance:11.4f}", flush=True)
    print(f"\n{'log loss over that of slim':46}{'mean':>8}{'worst':>9}{'':14}{'best':>9}")
    slim = np.array(found.pop("slim"))
    for variant, losses in found.items():
        ratios = np.array(losses) / slim
        low, high = ratios.argmin(), ratios.argmax()
        mean = np.exp(np.log(ratios).mean())
        print(f"{variant:46}{mean:8.4f}{ratios[high]:9.3f} {names[high]:13}{ratios[low]:9.3f} {names[low]}")


PREFIXES = (10, 30, 100, 300, 1000, 3000, 10_000)


def start(args: argparse.Namespace) -> None:
    """Loss of the first n examples, the bank's over its own mixture's: geometric mean over sets, ten orders of each."""
    ratios: dict[int, list[float]] = {n: [] for n in PREFIXES}
    for _, X, y in sets_of(args, LOOKED_AT):
        for seed in range(10):
            order = np.random.default_rng(seed).permutation(len(y))[: max(PREFIXES)]
            batch = Batch.from_csr(X[order], y[order])
            learner = Bank(X.shape[1])
            done = 0
            for n in PREFIXES:
                if n <= len(batch):
                    learner.learn(batch[done:n])
                    done = n
                    ratios[n].append(np.log(learner.levels["bank"]["loss"] / learner.levels["mixture"]["loss"]))
    print("first n examples, log loss of the bank over that of its mixture; standard error over sets and orders")
    for n, logs in ratios.items():
        print(f"{n:8,}{np.exp(np.mean(logs)):9.4f} +- {np.std(logs) / np.sqrt(len(logs)):.4f}   ({len(logs)} runs)")


# --- ten million examples -------------------------------------------------------------------------------------------

BLOCK = 10_000
MILLION = 1_000_000
COLUMNS = ("million", "truth", "bank", "64 bit", "wide", "Marginal", "mixture", "stacker", "memory", "best lane")


def truths(stream: simulate.Simulation, drift: str, examples: int) -> Iterator[simulate.Simulation]:
    """The stream's truth for each block of examples. Its weights keep their spread while they drift."""
    rng = np.random.default_rng(1)
    for first in range(0, examples, BLOCK):
        if drift == "switches" and first and first % MILLION == 0:
            stream = replace(stream, weights=rng.permutation(stream.weights))
        if drift == "walks":  # half of what was there is forgotten in a million examples
            stay = 0.5 ** (BLOCK / MILLION)
            noise = rng.standard_normal(stream.n_features) * np.sqrt(stream.prior_variance * (1.0 - stay**2))
            stream = replace(stream, weights=stay * stream.weights + noise)
        yield stream


def score_of(stream: simulate.Simulation, batch: Batch) -> np.ndarray:
    return batch.to_csr(stream.n_features) @ stream.weights


def condition(learner: Bank) -> list[str]:
    """Of each stacker: asymmetry, smallest and largest eigenvalue of its covariance."""
    found = []
    live = np.flatnonzero(learner._stacker_prior > 0)
    for covariance in learner._stacker_covariance:
        inner = covariance[np.ix_(live, live)]
        values = np.linalg.eigvalsh(inner)
        found.append(f"{np.abs(inner - inner.T).max():.0e} {values[0]:.1e} {values[-1]:.1e}")
    return found


def long(args: argparse.Namespace) -> None:
    """Loss of the truth, and regret against the current truth: nats per thousand examples, million by million."""
    tail = simulate.longtail(n_categories=20, weight_std=1.0, seed=0)
    few = simulate.categorical(n_categories=4, category_size=200, picked=5, weight_std=1.0, seed=0)
    for stream, drift in ((tail, "stays"), (few, "stays"), (few, "switches"), (few, "walks")):
        banks = {
            "float32": Bank(stream.n_features),
            "float64": Bank(stream.n_features, dtype="float64"),
            "wide": Bank(stream.n_features, preset="wide"),
        }
        marginal = Marginal(stream.n_features, prior_variance=stream.prior_variance)
        bank = banks["float32"]
        print(f"\n{stream.name}, {stream.n_features:,} features, 20 active, truth {drift}")
        print("".join(f"{column:>10}" for column in COLUMNS) + "  (which); shares in the last level; largest of lanes")
        losses = dict.fromkeys([*banks, "marginal", "truth"], 0.0)
        apart, before, done = 0.0, np.zeros(len(bank.lanes) + 4), 0
        for truth in truths(stream, drift, args.examples):
            batch = next(truth.batches(BLOCK, batch_size=BLOCK, start=done))
            done += BLOCK
            signs = np.where(batch.labels > 0, 1.0, -1.0)
            losses["truth"] += np.logaddexp(0.0, -signs * score_of(truth, batch)).sum()
            p = {name: learner.learn(batch) for name, learner in banks.items()} | {"marginal": marginal.learn(batch)}
            for name, each in p.items():
                losses[name] -= np.log(np.where(signs > 0, each, 1.0 - each)).sum()
            apart = max(apart, np.abs(p["float32"] - p["float64"]).max())
            if done % MILLION:
                continue
            now = np.array([o.loss for o in bank.lanes] + [s["loss"] for s in bank.levels.values()]) * done
            each = (now - before - losses["truth"]) / MILLION * 1000
            before = now
            best = int(each[:-4].argmin())
            own = [(losses[name] - losses["truth"]) / MILLION * 1000 for name in p]
            numbers = [losses["truth"] / MILLION * 1000, *own, *each[-3:], each[best]]
            top = max(bank.lanes, key=lambda o: o.weight)
            shares = " ".join(f"{share:.5f}" for share in bank._combination.final_shares)
            print(
                f"{done // MILLION:10}"
                + "".join(f"{number:10.3f}" for number in numbers)
                + f"  ({bank.lanes[best].name}); {shares}; {top.weight:.4f} {top.name}",
                flush=True,
            )
            losses = dict.fromkeys(losses, 0.0)
            if done // MILLION in (1, args.examples // MILLION):
                print(f"{'':8}covariances: asymmetry, eigenvalues: " + "; ".join(condition(bank)))
        print(f"{'':8}float32 and float64: single probabilities differ by at most {apart:.1e}")


# --- speed ----------------------------------------------------------------------------------------------------------

LENGTHS = (1, 8, 39, 100, 200)
NONZEROS = 2_000_000


def indicators(length: int, columns: int) -> Batch:
    """About two million non-zeros, every column equally likely. (A column drawn twice in a row counts once.)"""
    rng = np.random.default_rng(length)
    rows = NONZEROS // length
    indices = np.sort(rng.integers(0, columns, (rows, length)), axis=1)
    new = np.ones(indices.shape, bool)
    new[:, 1:] = indices[:, 1:] != indices[:, :-1]
    indptr = np.append(0, np.cumsum(new.sum(axis=1)))
    return Batch.from_arrays(indptr, indices[new], np.ones(indptr[-1]), rng.choice([-1.0, 1.0], rows))


def speed(args: argparse.Namespace) -> None:
    """Time per row against the row's length: the slope is the lanes' work, the intercept is combining."""
    kinds: dict[str, dict] = {"slim": {}, "slim, share": {"combine": "share"}, "wide": {"preset": "wide"}}
    for bits, where in ((12, "in the cache"), (22, "out of it")):
        batches = {length: indicators(length, 2**bits) for length in LENGTHS}
        learners = {kind: Bank(2**bits, **parameters) for kind, parameters in kinds.items()}
        works = {}
        for kind, learner in learners.items():
            for length, batch in batches.items():
                learner.learn(batch)  # so that its memory is allocated
                works[kind, length] = (lambda: None, lambda learner=learner, batch=batch: learner.learn(batch))
        seconds = median_seconds(works, args.repeats)
        print(f"\n2^{bits} weights ({where}): us per row of N indicators; median of {args.repeats}, alternating")
        print(f"{'':14}" + "".join(f"{length:>8}" for length in LENGTHS) + f"{'ns/feature':>13}{'us/example':>12}")
        for kind in kinds:
            per_row = np.array([seconds[kind, n] / len(batches[n]) for n in LENGTHS])
            lengths = np.array([batches[n].nonzeros / len(batches[n]) for n in LENGTHS])
            # Relative errors count, or the longest rows would decide the intercept.
            slope, intercept = np.polyfit(lengths, per_row, 1, w=1.0 / per_row)
            each = "".join(f"{s * 1e6:8.2f}" for s in per_row)
            print(f"{kind:14}{each}{slope * 1e9:13.1f}{intercept * 1e6:12.2f}")


def timed(module: Any, *kernels: str) -> dict[str, float]:
    """Have these kernels of a module add up the CPU seconds of their threads; the sums."""
    spent = dict.fromkeys(kernels, 0.0)

    def counting(name: str, kernel: Callable) -> Callable:
        def run(*given):
            start = time.thread_time()
            told = kernel(*given)
            spent[name] += time.thread_time() - start
            return told

        return run

    for name in kernels:
        setattr(module, name, counting(name, getattr(module, name)))
    return spent


def combining(args: argparse.Namespace) -> None:
    """CPU time of each kernel's own thread, which other processes disturb less than the time of day."""
    Bank(2**12).learn(indicators(8, 2**12)[:3000])  # compiled
    spent = timed(bank_running, "run_lanes", "combine", "learn_sampled_rows")
    for length in (2, 10, 40):
        batch, found = indicators(length, 2**12), []
        for _ in range(args.repeats):
            spent.update(dict.fromkeys(spent, 0.0))
            Bank(2**12).learn(batch)
            found.append([1e6 * seconds / len(batch) for seconds in spent.values()])
        each = "".join(f"  {name} {us:.3f}" for name, us in zip(spent, np.median(found, axis=0), strict=True))
        print(f"{len(batch):9,} rows of {length:2}: us of CPU an example{each}", flush=True)


def weights(args: argparse.Namespace) -> None:
    """Rows of weight 16, as rounds over shards have them, against the same rows of weight 1; learners are new."""
    X, y = click_rows(50_000)
    streams = {f"{length} of 2^12 indicators": (indicators(length, 2**12), 2**12) for length in (10, 40)}
    streams["39 of 2^22, Zipf's law"] = (Batch.from_csr(X, y), X.shape[1])
    for make in (Bank, Marginal):
        make(2**12).learn(indicators(8, 2**12)[:3000])  # compiled
    kernels = {
        Bank: timed(bank_running, "run_lanes", "combine", "learn_sampled_rows"),
        Marginal: timed(marginal_learner, "_stream"),
    }
    print(f"CPU ns a feature; median of {args.repeats}\n{'':44}{'weight 1':>8}{'weight 16':>12}{'ratio':>8}")
    for stream, (batch, columns) in streams.items():
        pair = [batch.with_labels(batch.labels, np.full(len(batch), weight)) for weight in (1.0, 16.0)]
        for make, spent in kernels.items():
            found = np.zeros((args.repeats, 2, len(spent)))
            for repeat, which in np.ndindex(args.repeats, 2):
                spent.update(dict.fromkeys(spent, 0.0))
                make(columns).learn(pair[which])
                found[repeat, which] = [1e9 * seconds / batch.nonzeros for seconds in spent.values()]
            for name, (light, heavy) in zip(spent, np.median(found, axis=0).T, strict=True):
                kernel = f"{make.__name__}, {name.strip('_')}"
                print(f"{stream:24}{kernel:20}{light:8.2f}{heavy:12.2f}{heavy / light:8.2f}", flush=True)


# Of long streams the first rows, as many as the page of the lab has.
FIRST_ROWS = {"talkingdata": 60_000, "flights": 60_000, "frappe": 60_000, "openbandit": 40_000, "ipinyou": 40_000}
FIRST_ROWS |= {"nsl_kdd": 40_000, "newsgroups": 14_000, "enron_spam": 12_000, "imdb": 12_000}


def mean_log_loss(probability: np.ndarray, y: np.ndarray) -> float:
    own = np.where(y > 0, probability, 1.0 - probability)
    return float(-np.mean(np.log(np.maximum(own, np.exp(-quality_peers.SUREST)))))


def head(args: argparse.Namespace) -> None:
    """Log loss with a head, 100 ln(with / without): live, and for later rows, the last 30 % after the first 70 %.

    Whether the head is kept to the end, and whether it predicts later rows.
    """
    names = [*quality_sets.SETS, *quality_sets.MORE, "covtype_shuffled"]
    every = args.sets.split(",") if args.sets else [f"{name}:{FIRST_ROWS.get(name, '')}" for name in names]
    heads = [int(head) if head.isdigit() else head for head in args.heads.split(",")]
    print(
        f"{'set':18}{'rows':>8}{'live':>9}{'later':>9}"
        + "".join(f"{f'head={head}: live, later':>44}" for head in heads)
    )
    gains = []
    for given in every:
        name, _, rows = given.partition(":")
        X, y = quality_sets.load(name.removesuffix("_shuffled"), args.data, args.cache)
        fields = quality_sets.fields(name.removesuffix("_shuffled"), args.data, args.cache)
        order = np.random.default_rng(0).permutation(len(y)) if name.endswith("_shuffled") else np.arange(len(y))
        order = order[: int(rows or len(y))]
        X, y, cut = X[order], y[order], int(0.7 * len(order))
        groups = None if fields is None else fields[X.indices]
        batch, found = Batch.from_arrays(X.indptr, X.indices, X.data, y, groups=groups), {}
        for size in (0, *heads):
            learner = Bank(X.shape[1], head=size)
            told = learner.learn(batch[:cut])
            later = learner.predict(batch[cut:], horizon="later").probability
            told = np.concatenate([told, learner.learn(batch[cut:])])
            losses = [mean_log_loss(told, y), mean_log_loss(later, y[cut:])]
            found[size] = np.array(losses), [output.kept for output in learner.lanes if "head" in str(output.lane)]
        base = found[0][0]
        gains.append([100.0 * np.log(found[size][0] / base) for size in heads])
        each = "".join(
            f"{live:+12.2f} %{later:+10.2f} %  {'kept' if any(found[size][1]) else 'dropped':16}"
            for size, (live, later) in zip(heads, gains[-1], strict=True)
        )
        print(f"{name:18}{len(y):8,}{base[0]:9.4f}{base[1]:9.4f}{each}", flush=True)
    for word, of in (("mean", np.mean), ("worst", np.max)):
        print(f"{word:44}" + "".join(f"{a:+12.2f} %{b:+10.2f} %{'':18}" for a, b in of(gains, axis=0)))


def halves(args: argparse.Namespace) -> None:
    """Log loss of later rows by the head alone and by the bank: one pass over 70 %, and two halves of it merged."""
    print(f"{'set':12}{'head: one pass, merged':>28}{'bank: one pass, merged':>28}")
    for name, X, y in sets_of(args, ["a9a", "adult", "higgs", "covtype"]):
        order, cut = np.random.default_rng(0).permutation(len(y)), int(0.7 * len(y))
        batch = Batch.from_csr(X[order], y[order])
        one, first, second = (Bank(X.shape[1], head=256) for _ in range(3))
        for bank, rows in (one, slice(cut)), (first, slice(cut // 2)), (second, slice(cut // 2, cut)):
            bank.learn(batch[rows])
        losses = []
        for bank in one, first.merge(second):
            head = bank.live_head
            later = bank.predict(batch[cut:], horizon="later").probability
            score = batch[cut:].to_csr(X.shape[1]) @ head.weights_at(np.arange(X.shape[1])).mean + head.intercept()[0]
            losses.append([mean_log_loss(p, y[order][cut:]) for p in (1.0 / (1.0 + np.exp(-score)), later)])
        pairs = (f"{before:.5f}, {merged:.5f}" for before, merged in zip(*losses, strict=True))
        print(f"{name:12}" + "".join(f"{pair:>28}" for pair in pairs), flush=True)


def headcost(args: argparse.Namespace) -> None:
    """Rows of indicators whose values follow Zipf's law, with a head that is kept; runs take turns."""
    print(f"{'indicators':>10}{'slots':>8}{'us a row: wall':>16}{'CPU':>8}{'more wall':>12}{'more CPU':>10}")
    for length in (14, 39):
        random, values = np.random.default_rng(0), 2**16 // length
        chances = np.cumsum(1.0 / np.arange(1, values + 1) ** 1.1)
        cells = np.searchsorted(chances, random.random((200_000, length)) * chances[-1]) + np.arange(length) * values
        score = random.normal(0, 0.5, 2**16)[cells].sum(axis=1) - 1.0
        y = np.where(random.random(len(score)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
        ends = np.arange(0, cells.size + 1, length)
        batch = Batch.from_arrays(ends, cells.ravel(), np.ones(cells.size), y).astype("float32")
        times: dict[int, list] = {size: [] for size in (0, 64, 128, 256)}
        for _ in range(args.repeats):
            for size, spent in times.items():
                learner, clocks = Bank(2**16, head=size), (time.perf_counter, time.process_time)
                before = [clock() for clock in clocks]
                learner.learn(batch)
                spent.append([1e6 * (clock() - then) / len(y) for clock, then in zip(clocks, before, strict=True)])
        least = {size: np.min(spent, axis=0) for size, spent in times.items()}
        for size, (wall, cpu) in least.items():
            more = 100.0 * (least[size] / least[0] - 1.0)
            print(f"{length:10}{size:8}{wall:16.3f}{cpu:8.3f}{more[0]:+10.0f} %{more[1]:+8.0f} %", flush=True)


PARTS = {
    "head": head,
    "headcost": headcost,
    "halves": halves,
    "combining": combining,
    "units": units,
    "long": long,
    "parts": parts,
    "start": start,
    "speed": speed,
}
PARTS["weights"] = weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path("quality-cache"))
    parser.add_argument("--sets", help="real sets, by their names in quality_sets.py")
    parser.add_argument("--examples", type=int, default=10 * MILLION)
    parser.add_argument("--heads", default="auto", help="numbers of features, or auto")
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    PARTS[args.part](args)


if __name__ == "__main__":
    main()
