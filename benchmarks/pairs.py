"""What pairs of features are worth, and what they cost: the bank's lanes of pairs against Vowpal Wabbit's `-q ::`.

    python benchmarks/pairs.py quality [--sets adult,frappe] [--peers] [--seeds 3] [--reuse out.json] [--json out.json]
                                       [--markdown out.md] [--data DIR] [--cache DIR]
    python benchmarks/pairs.py cost    [--data DIR] [--cache DIR]

quality: progressive log loss over 19 whole streams, each row predicted before it is learned from, in % of the bank's
without pairs, 100 ln(loss / loss of the bank). The lanes have nothing to tune; features are numbered anew for each
seed, which changes all of their hashes, and the mean over seeds is shown. With --peers, Vowpal Wabbit without and with
all pairs, tuned in hindsight: learning rates .1 .5 2, power_t .5 .25, and its defaults; `--lrq ff8` at its defaults;
and river's FMClassifier and FFMClassifier at their defaults where there are at most 12,000 rows.

cost: ns a pair of the lane of crosses with weights in the cache and beyond, and the time of factors over the bank's
own, in one run; from files against VW `-q ::` on the same rows.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import quality_peers
import quality_sets

from bayou import Batch
from bayou.learners import Bank

SETS = (
    *("mushrooms", "sms", "rcv1", "phishing", "higgs", "covtype", "covtype_binned", "criteo_raw", "criteo", "frappe"),
    *("ipinyou", "adult", "bank_marketing", "w8a", "reuters", "talkingdata", "openbandit", "nsl_kdd", "flights"),
)
KINDS = {"X": "crosses", "X, P, Q": "factors", "auto": "auto", "auto, factors": "auto,factors"}
GRID = [("-l", rate, "--power_t", power) for rate in (".1", ".5", "2") for power in (".5", ".25")]
RIVER_ROWS = 12_000


def rows_of(name: str, data: Path, cache: Path, seed: int = 0) -> Batch:
    """A set with the fields of its features; with a seed other than 0 the features have other numbers."""
    X, y = quality_sets.load(name, data, cache)
    fields, indices = quality_sets.fields(name, data, cache), X.indices.astype(np.int64)
    groups = None if fields is None else fields[indices]
    if seed:
        indices = np.random.default_rng(seed).permutation(X.shape[1])[indices]
    return Batch.from_arrays(X.indptr, indices, X.data, y, groups=groups).astype("float32")


def loss_of(p, y) -> float:
    return float(-np.mean(np.log(np.clip(np.where(y > 0, p, 1.0 - p), 1e-13, 1.0))))


def own(name: str, data: Path, cache: Path, seeds: int) -> dict[str, list[float]]:
    """Losses of the bank and of each kind of pairs, one for each seed."""
    found: dict[str, list[float]] = {kind: [] for kind in ("bank", *KINDS)}
    for seed in range(seeds):
        batch = rows_of(name, data, cache, seed)
        size = batch.max_index + 1
        for kind in found:
            bank = Bank(size, pairs=KINDS.get(kind))
            found[kind].append(loss_of(bank.learn(batch), batch.labels))
    return found


# --- peers ------------------------------------------------------------------------------------------------------------


def vw(X, y, text: Path, *options: str) -> float:
    return loss_of(1.0 / (1.0 + np.exp(-quality_peers.vw(*options)(X, y, text))), y)


def river(kind: str, X, y, fields) -> float:
    from river import facto

    model, lost = getattr(facto, kind)(seed=0), 0.0
    for row in range(len(y)):
        at = slice(X.indptr[row], X.indptr[row + 1])
        cells = zip(X.indices[at].tolist(), X.data[at].tolist(), strict=True)
        x = {f"{'' if fields is None else fields[i]}_{i}": value for i, value in cells}
        p = model.predict_proba_one(x).get(True, 0.5)
        lost += -math.log(min(max(p if y[row] > 0 else 1.0 - p, 1e-13), 1.0))
        model.learn_one(x, bool(y[row] > 0))
    return lost / len(y)


def peers(name: str, data: Path, cache: Path) -> dict[str, float]:
    X, y = quality_sets.load(name, data, cache)
    text = cache / f"{name}.vw"
    if not text.exists():
        quality_peers.write_vw(X, y, text)
    pairs = ("-q", "::")
    found = {
        "VW": vw(X, y, text),
        "VW tuned": min(vw(X, y, text, *some) for some in GRID),
        "VW -q": vw(X, y, text, *pairs),
        "VW -q tuned": min(vw(X, y, text, *pairs, *some) for some in GRID),
        "VW --lrq": vw(X, y, text, "--redefine", "f:=:", "--lrq", "ff8"),
    }
    found["VW tuned"], found["VW -q tuned"] = (min(found[f"{kind} tuned"], found[kind]) for kind in ("VW", "VW -q"))
    if len(y) <= RIVER_ROWS:
        fields = quality_sets.fields(name, data, cache)
        found |= {kind: river(kind, X, y, fields) for kind in ("FMClassifier", "FFMClassifier")}
    return found


# --- quality ----------------------------------------------------------------------------------------------------------


def quality(args) -> None:
    known = json.loads(args.reuse.read_text()) if args.reuse else {}
    found: dict = {}
    for name in args.sets.split(",") if args.sets else SETS:
        start = time.perf_counter()
        held = known.get(name, {})
        losses = own(name, args.data, args.cache, args.seeds) if args.seeds else held["own"]
        found[name] = {"own": losses, "peers": held.get("peers", {})}
        if args.peers and not found[name]["peers"]:
            found[name]["peers"] = peers(name, args.data, args.cache)
        if args.json:
            args.json.write_text(json.dumps(found, indent=1))
        told = "  ".join(f"{kind} {gain(losses, kind):+.2f}%" for kind in KINDS)
        others = "  ".join(f"{peer} {value:.4f}" for peer, value in found[name]["peers"].items())
        bank = np.mean(losses["bank"])
        print(f"{name:15} bank {bank:.4f}  {told}  {others}  ({time.perf_counter() - start:.0f} s)", flush=True)
    table = markdown(found)
    print(table)
    if args.markdown:
        args.markdown.write_text(table)


def gain(losses: dict[str, list[float]], kind: str) -> float:
    """In per cent of the bank's loss, in the mean over seeds."""
    return 100.0 * float(np.mean(np.log(np.divide(losses[kind], losses["bank"]))))


def markdown(found: dict) -> str:
    columns = ("VW", "VW tuned", "VW -q", "VW -q tuned")
    lines = ["| set | " + " | ".join([*columns, "bank", *(f"{kind} %" for kind in KINDS), "X, P, Q"]) + " |"]
    lines.append("|---" * (len(columns) + 3 + len(KINDS)) + "|")
    for name, one in found.items():
        told = [f"{one['peers'][peer]:.4f}" if peer in one["peers"] else "" for peer in columns]
        told += [f"{np.mean(one['own']['bank']):.4f}", *(f"{gain(one['own'], kind):+.2f}" for kind in KINDS)]
        lines.append(f"| {name} | " + " | ".join([*told, f"{np.mean(one['own']['X, P, Q']):.4f}"]) + " |")
    for what, of in (("mean", np.mean), ("median", np.median), ("worst", np.max)):
        each = [f"{of([gain(one['own'], kind) for one in found.values()]):+.2f}" for kind in KINDS]
        lines.append(f"| {what} | " + " | ".join([*[""] * len(columns), "", *each, ""]) + " |")
    behind = behind_of(found)
    if behind:
        lines.append("")
        worst = ", ".join(f"{name} {by:+.2f}%" for name, by in behind)
        lines.append(f"Behind the best of VW's settings: {worst}.")
    return "\n".join(lines) + "\n"


def behind_of(found: dict) -> list[tuple[str, float]]:
    """The sets on which the best of VW, tuned with and without pairs, loses less than the bank with factors."""
    behind = []
    for name, one in found.items():
        if one["peers"]:
            best = min(one["peers"]["VW tuned"], one["peers"]["VW -q tuned"])
            by = 100.0 * math.log(np.mean(one["own"]["X, P, Q"]) / best)
            if by > 0:
                behind.append((name, by))
    return behind


# --- cost -------------------------------------------------------------------------------------------------------------


def seconds_of(bank: Bank, batch: Batch) -> float:
    start = time.process_time()
    bank.learn(batch)
    return time.process_time() - start


def cost(args) -> None:
    """The least of five, in turns."""
    print("lane of crosses, ns a pair")
    for columns, values, where in ((10, 20, "in the cache"), (14, 50, "in the cache"), (39, 2000, "beyond the cache")):
        rng, n = np.random.default_rng(0), 20_000
        cells = rng.zipf(1.3, (n, columns)) % values + values * np.arange(columns)
        groups = np.tile(np.arange(1, columns + 1), n)
        labels, ends = rng.choice([-1.0, 1.0], n), columns * np.arange(n + 1)
        batch = Batch.from_arrays(ends, cells.ravel(), np.ones(cells.size), labels, groups=groups).astype("float32")
        plain, crossed = Bank(values * columns), Bank(values * columns, pairs="crosses")
        crossed.learn(batch), plain.learn(batch)  # touched, and compiled
        times = [(seconds_of(plain, batch), seconds_of(crossed, batch)) for _ in range(5)]
        one = min(b for _, b in times) - min(a for a, _ in times)
        pairs = n * columns * (columns - 1) / 2
        print(f"  {columns} columns, {where:16} {1e9 * one / pairs:6.1f}")
    print("factors over the bank's own time (us a row)")
    for name in ("frappe", "adult"):
        batch = rows_of(name, args.data, args.cache)
        banks = [Bank(batch.max_index + 1, pairs=kind) for kind in (None, "crosses", "factors")]
        for bank in banks:
            bank.learn(batch[:1000])
        times = np.array([[seconds_of(bank, batch) for bank in banks] for _ in range(5)]).min(axis=0) / len(batch) * 1e6
        factor = (times[2] - times[1]) / times[0]
        print(
            f"  {name:8} bank {times[0]:.2f}  crosses +{times[1] - times[0]:.2f}  P and Q +{times[2] - times[1]:.2f}  "
            f"{factor:.2f} times the bank"
        )
    print("from files, rows a second in the stream (bayou's own count), and VW -q :: as a whole process: ratios")
    for name in ("frappe", "adult"):
        rows, *rates = from_files(name, args.data, args.cache)
        ratios = "  ".join(f"{rate / rates[-1]:.2f}" for rate in rates[:-1])
        told = "  ".join(f"{rate:9,.0f}" for rate in rates)
        print(f"  {name:8} {rows:9,.0f} rows  crosses, factors, VW: {told}  {ratios}")


def from_files(name: str, data: Path, cache: Path, times: int = 10) -> tuple[float, ...]:
    """All read the same VW text, a namespace for each field, the rows so many times; the best of three, in turns."""
    X, y = quality_sets.load(name, data, cache)
    fields = quality_sets.fields(name, data, cache)
    lines = []
    for row, label in enumerate(y):
        at = slice(X.indptr[row], X.indptr[row + 1])
        cells = zip(X.indices[at].tolist(), X.data[at].tolist(), strict=True)
        told = " ".join(f"|f{fields[i]} {i}" + (f":{x:.9g}" if x != 1 else "") for i, x in cells)
        lines.append(f"{int(label)} {told}\n")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "rows.vw"
        with text.open("w") as file:
            for _ in range(times):
                file.writelines(lines)
        own_command = [sys.executable, "-m", "bayou", "train", str(text), "--quiet", "--json", "--pairs"]
        vw_command = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "--quiet", "-q", "::"]
        ways = [partial(stream, [*own_command, kind]) for kind in ("crosses", "factors")]
        ways.append(partial(wall, [*vw_command, "-b", "22", "-d", str(text)]))
        seconds = np.array([[way() for way in ways] for _ in range(3)]).min(axis=0)
    rows = times * len(y)
    return rows, *(rows / seconds).tolist()


def stream(command: list[str]) -> float:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return float(json.loads(done.stdout)["seconds"])


def wall(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "cost"))
    parser.add_argument("--sets", help="some of them, by name")
    parser.add_argument("--peers", action="store_true", help="Vowpal Wabbit and river, too")
    parser.add_argument("--seeds", type=int, default=3, help="0 takes the bank's losses from --reuse")
    parser.add_argument("--reuse", type=Path, help="peers' results of an earlier run")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path("quality-cache"))
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    (quality if args.what == "quality" else cost)(args)


if __name__ == "__main__":
    main()
