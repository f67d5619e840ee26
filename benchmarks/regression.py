"""How well numbers are predicted: the untuned bank against peers tuned in hindsight, one pass over real streams.

    python benchmarks/regression.py [--sets bike,abalone] [--no-peers] [--orders order,shuffled] [--rows N] [--head N]
                                 [--reuse results.json] [--json out.json] [--markdown out.md] [--picture out.png]
                                 [--data DIR]

**In order, shuffled.** Every row is predicted before it is learned from. Squared loss over the variance of all labels
(1 - R2), from the second row on; of ours also the mean log density of standardised labels, the share of labels in
intervals of 90%, and pinball losses of the .1 and .9 quantiles (in deviations of the labels) against the best of five
settings of VW's quantile loss, from the eleventh row on. `Gaussian` and `Shrinkage` are at their defaults.

**Frozen.** The first 70% are learned, the rest is predicted by the model as it is then: the bank for later rows and
for the next one, the mean label so far, ridge regression (its penalty by cross-validation on the training rows), the
tuned peer (of all peers and settings the one with the least loss as it learned the training rows), and the setting of
each peer that is best *on these very rows*, which nobody could know. --frozen: this alone.

Peers and their settings: regression_peers.py. Rows and columns: regression_sets.py. Results are written to the JSON as
soon as a set is done; --reuse goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import quality_sets
import regression_peers
import regression_sets
from quality import markdown, plain

from bayou import Batch
from bayou.learners import Gaussian, NumberBank, Shrinkage

TRAINED = 0.7
ORDERS = {"order": None, "shuffled": 1}
SKIPPED = 10  # rows at the start that intervals are not judged by
QUANTILES = (0.1, 0.9)
SHRINKABLE = 1000  # columns and rows that `Shrinkage`, which solves for all weights after every row, is run on


# --- scores ---------------------------------------------------------------------------------------------------------


def loss(said: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.mean((said - y)[1:] ** 2) / y.var())
    return found if math.isfinite(found) else math.inf


def pinball(said: np.ndarray, y: np.ndarray, share: float) -> float:
    away = (y - said)[SKIPPED:]
    return float(np.mean(np.maximum(share * away, (share - 1.0) * away)) / y.std())


def cut(said: np.ndarray, y: np.ndarray) -> np.ndarray:
    """To the range of the labels so far."""
    low, high = np.minimum.accumulate(y)[:-1], np.maximum.accumulate(y)[:-1]
    return np.append(said[:1], np.clip(np.nan_to_num(said[1:]), low, high))


# --- one set --------------------------------------------------------------------------------------------------------


def ours(X, y, head: int) -> dict:
    start = time.perf_counter()
    told = NumberBank(X.shape[1], head=head).observe(Batch.from_csr(X, y))
    seconds = time.perf_counter() - start
    later = told.take(np.arange(SKIPPED, len(y)))
    found = {
        "bank": loss(told.mean, y),
        "log_density": float(later.log_density(y[SKIPPED:]).mean() + math.log(y.std())),
        "coverage": float(np.mean(later.central_probability(y[SKIPPED:]) <= 0.9)),
        "seconds": seconds,
        "gaussian": loss(Gaussian(X.shape[1]).learn(Batch.from_csr(X, y)), y),
    }
    found |= {f"pinball {share}": pinball(told.quantile(share), y, share) for share in QUANTILES}
    rows = slice(0, None if X.shape[1] <= 20 else SHRINKABLE)
    if X.shape[1] <= SHRINKABLE:
        found["shrinkage"] = loss(Shrinkage(X.shape[1]).learn(Batch.from_csr(X[rows], y[rows])), y[rows])
    return found


def peers(X, y) -> dict:
    """The best setting of each peer, labels standardised in hindsight."""
    best: dict = {}
    z = (y - y.mean()) / y.std()
    for setting in regression_peers.settings():
        if setting.fits(*X.shape):
            found = loss(cut(setting.run(X, z), z), z)
            if setting.family not in best or found < best[setting.family][0]:
                best[setting.family] = [found, setting.name]
    for share in QUANTILES:
        found = min((pinball(s.run(X, z), z, share), s.name) for s in regression_peers.quantiles(share))
        best[f"pinball {share}"] = list(found)
    return best


def frozen(X, y, with_peers: bool, head: int) -> dict:
    """Squared loss of the last rows over their variance, by models that have stopped learning."""
    from sklearn.linear_model import RidgeCV

    n = int(TRAINED * len(y))
    spread = y[n:].var()
    learner = NumberBank(X.shape[1], head=head)
    learner.learn(Batch.from_csr(X[:n], y[:n]))
    found: dict = {"mean so far": float(np.mean((y[n:] - y[:n].mean()) ** 2) / spread)}
    for horizon in ("later", "next"):
        told = learner.predict(Batch.from_csr(X[n:]), horizon)
        found[f"bank {horizon}"] = float(np.mean((y[n:] - told.mean) ** 2) / spread)
        found[f"coverage {horizon}"] = float(np.mean(told.central_probability(y[n:]) <= 0.9))
    expected = learner.later_loss()
    found["expected"] = expected.expected / spread if expected else None
    if not with_peers:
        return found
    if X.shape[1] < 10_000:
        Z = regression_peers.standardised(X)
        Z = Z.toarray() if X.shape[1] < 2000 else Z
        ridge = RidgeCV(10.0 ** np.arange(-2, 6), cv=5).fit(Z[:n], y[:n])
        found["ridge"] = float(np.mean((y[n:] - ridge.predict(Z[n:])) ** 2) / spread)
    told = np.append((y[:n] - y[:n].mean()) / y[:n].std(), np.full(len(y) - n, np.nan))
    least = math.inf
    for setting in regression_peers.settings():
        if setting.fits(*X.shape) and setting.family != "river":
            every = setting.run(X, told)
            said = np.clip(np.nan_to_num(every[n:]), told[:n].min(), told[:n].max())
            away = float(np.mean((y[n:] - (y[:n].mean() + y[:n].std() * said)) ** 2) / spread)
            found[setting.family] = min(away, found.get(setting.family, math.inf))
            learning = loss(cut(every[:n], told[:n]), told[:n])
            if learning < least:
                least, found["tuned peer"], found["setting"] = learning, away, f"{setting.family} {setting.name}"
    return found


def run_set(
    name: str, orders: list[str], rows: int | None, with_peers: bool, only_frozen: bool, data: Path, head: int
) -> dict:
    X, y = regression_sets.SETS[name](data)
    if name in regression_sets.SORTED:
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order]
    X, y = X[:rows], y[:rows]
    found: dict = {"rows": len(y), "columns": X.shape[1], "nonzeros": X.nnz}
    for which in orders:
        seed = ORDERS[which]
        order = np.arange(len(y)) if seed is None else np.random.default_rng(seed).permutation(len(y))
        start = time.perf_counter()
        found[which] = {"frozen": frozen(X[order], y[order], with_peers, head)}
        if not only_frozen:
            found[which]["ours"] = ours(X[order], y[order], head)
        if with_peers and not only_frozen:
            found[which]["peers"] = peers(X[order], y[order])
        found[which]["seconds"] = time.perf_counter() - start
    return found


# --- tables ---------------------------------------------------------------------------------------------------------

FAMILIES = ("VW", "SGDRegressor", "AdaGrad", "least squares", "river")


def best_peer(about: dict) -> tuple[float, str]:
    known = about.get("peers", {})
    return min(((known[f][0], f"{f} {known[f][1]}") for f in FAMILIES if f in known), default=(math.nan, ""))


def _digits(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4f}" if value < 1e3 else f"{value:.3g}"


def main_table(found: dict, order: str) -> list[list[str]]:
    head = ["set", "rows", "columns", "best peer", "", "VW", "bank", "to peer", "log density", "90% cover"]
    lines = [[*head, "Gaussian", "Shrinkage"]]
    for name, about in found.items():
        if order not in about:
            continue
        here = about[order]
        best, setting = best_peer(here)
        bank = here["ours"]["bank"]
        to_peer = "" if math.isnan(best) else f"{100 * math.log(bank / best):+.1f}%"
        vw = here.get("peers", {}).get("VW", [None])[0]
        cells = [name, f"{about['rows']:,}", f"{about['columns']:,}", _digits(best), setting, _digits(vw)]
        cells += [_digits(bank), to_peer, f"{here['ours']['log_density']:.3f}", f"{here['ours']['coverage']:.3f}"]
        lines.append([*cells, _digits(here["ours"]["gaussian"]), _digits(here["ours"].get("shrinkage"))])
    return lines


def pinball_table(found: dict, order: str) -> list[list[str]]:
    lines = [["set", *(f"{who}, {share}" for share in QUANTILES for who in ("bank", "VW quantile"))]]
    for name, about in found.items():
        here = about.get(order, {})
        if here.get("peers"):
            keys = [f"pinball {share}" for share in QUANTILES]
            pairs = [[_digits(here["ours"][key]), _digits(here["peers"][key][0])] for key in keys]
            lines.append([name, *(cell for pair in pairs for cell in pair)])
    return lines


def frozen_table(found: dict, order: str) -> list[list[str]]:
    columns = [
        "bank later",
        "coverage later",
        "expected",
        "bank next",
        "coverage next",
        "mean so far",
        "ridge",
        "tuned peer",
    ]
    columns += [family for family in FAMILIES if family != "river"]
    lines = [["set", *columns]]
    for name, about in found.items():
        if order in about:
            lines.append([name, *(_digits(about[order]["frozen"].get(column)) for column in columns)])
    return lines


def draw(found: dict, path: Path) -> None:
    """A line per set: squared loss over that of the best peer. Left of 1 the bank wins."""
    from matplotlib.figure import Figure

    compared = {name: about["order"] for name, about in found.items() if about.get("order", {}).get("peers")}
    names = sorted(compared, key=lambda name: -compared[name]["ours"]["bank"] / best_peer(compared[name])[0])
    figure = Figure(figsize=(9, 0.33 * len(names) + 1.9), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.axvline(1.0, color="0.35", linewidth=1)
    looks = {"VW": ("o", "#d98c5f"), "SGDRegressor": ("v", "#7fae7f"), "AdaGrad": ("s", "#a9a9a9")}
    looks |= {"least squares": ("D", "#8f7fb5")}
    for family, (mark, color) in looks.items():
        known = [
            (compared[n]["peers"].get(family, [math.nan])[0] / best_peer(compared[n])[0], k)
            for k, n in enumerate(names)
        ]
        known = [(min(ratio, 2.0), k) for ratio, k in known if not math.isnan(ratio)]
        axes.plot(*zip(*known, strict=True), mark, color=color, label=f"{family}, tuned in hindsight")
    bank = [compared[n]["ours"]["bank"] / best_peer(compared[n])[0] for n in names]
    axes.plot(
        bank, range(len(names)), "o", color="#0b4f6c", markersize=10, label="bank, untuned", markeredgecolor="white"
    )
    axes.set_xscale("log")
    ticks = [0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.grid(axis="y", linewidth=0.4)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("squared loss over that of the best peer (left is better; 2: or more)")
    axes.set_title("Numbers: one pass, nothing tuned, against peers at their best", loc="left", weight="bold")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.13), ncols=3, frameon=False, fontsize=9)
    figure.savefig(path)


# --- all of it ------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", default=",".join(regression_sets.SETS))
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--rows", type=int, help="the first rows of each set alone")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--frozen", action="store_true", help="models that have stopped learning alone")
    parser.add_argument("--head", type=int, default=128, help="columns in the bank's head; default: %(default)s")
    parser.add_argument("--reuse", type=Path, help="sets that this file of earlier results has are not run again")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--picture", type=Path, help="also draw the picture into this file")
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    args = parser.parse_args()
    sets, orders = args.sets.split(","), args.orders.split(",")
    for given, known in ((sets, regression_sets.SETS), (orders, ORDERS)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    found = json.loads(args.reuse.read_text()) if args.reuse and args.reuse.exists() else {}
    for name in sets:
        if name not in found:
            found[name] = run_set(*(name, orders, args.rows, not args.no_peers, args.frozen, args.data, args.head))
            if args.json:
                args.json.write_text(json.dumps(found, indent=1) + "\n")
        for which in orders:
            if args.frozen:
                print(name, which, *(f"{k} {v}" for k, v in found[name][which]["frozen"].items()), sep="  ", flush=True)
                continue
            best, setting = best_peer(found[name][which])
            mine, frozen_too = found[name][which]["ours"], found[name][which]["frozen"]
            print(
                f"{name:13} {which:9} bank {mine['bank']:.4f} (90%: {mine['coverage']:.3f}) best peer {_digits(best)} "
                f"{setting}  gaussian {_digits(mine['gaussian'])} frozen: later {frozen_too['bank later']:.4f}, "
                f"next {frozen_too['bank next']:.4f}  {found[name][which]['seconds']:.0f} s",
                flush=True,
            )
    found = {name: found[name] for name in sets}
    kinds = (frozen_table,) if args.frozen else (main_table, pinball_table, frozen_table)
    tables = [table(found, which) for which in orders for table in kinds]
    tables = [table for table in tables if len(table) > 1]
    print("", *map(plain, tables), sep="\n\n")
    if args.markdown:
        args.markdown.write_text("\n\n".join(map(markdown, tables)) + "\n")
    if args.picture:
        draw(found, args.picture)


if __name__ == "__main__":
    main()
