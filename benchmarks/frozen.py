"""What a model is worth that is trained and then frozen: real streams in the order of time, and shuffled.

    python benchmarks/frozen.py [--sets flights1,adult] [--no-peers] [--peers-of results.json] [--json out.json]
                                [--markdown out.md] [--data DIR] [--cache DIR]

**Origins.** The bank learns the first 40, 50, ... 90% of a stream; each time it predicts the next fifth of the rows,
frozen: by its live combination (`horizon="next"`) and by the one for later rows (`horizon="later"`). Shown is
100 ln(later / live) of the log losses, the mean of six origins, for rows in the order of the file and shuffled. Each
time it also says what it expects later rows to cost (`later_loss`), and whether that differs from what it prints.

**At 70%.** All later rows, predicted frozen, against: the share of positives so far; Marginal; AdaGrad; Vowpal Wabbit
at its defaults, and the best of 15 settings *by these very rows*; scikit-learn's LogisticRegression, C chosen on a
random third of the training rows.

**Alternating.** Rows of one set, ordered so that labels go 1, 0, 1, 0: whoever follows labels closely is fooled.

A set's results are written to the JSON as soon as it is done; --peers-of takes what slow peers reached from an earlier
one, --no-peers leaves them out. How features are made: quality_sets.py, and here for flights (slices of 100,000 rows;
`raw`: numbers as numbers; `cli`: as `bayou train` reads the CSV) and bike (more rentals than the median hour). The bank
is told the columns of features where a set has columns, as readers of tables tell it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import quality_peers
import quality_sets
from quality import markdown, plain
from scipy import sparse

from bayou import Batch, sources
from bayou.learners import AdaGrad, Bank, Marginal

Rows, Table, Columns = quality_sets.Rows, quality_sets.Table, quality_sets.Columns
ORIGINS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
AHEAD = 0.2
HORIZONS = ("next", "later")
ORDERS = ("ordered", "shuffled")
SLICE = 100_000
SLOW = ("VW", "VW tuned", "LogisticRegression")
PEERS = ("base rate", "Marginal", "AdaGrad", *SLOW)


# --- streams in the order of time -----------------------------------------------------------------------------------


def _arrived(data: Path, first: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Flights that arrived, in the order of their departures (in the file October follows January)."""
    frame = pd.read_csv(data / "nycflights13.csv.gz")
    frame = frame[frame["arr_delay"].notna()].sort_values(["month", "day", "sched_dep_time"], kind="stable")
    frame = frame[first:][:SLICE].reset_index(drop=True)
    return frame, (frame["arr_delay"] > 15).to_numpy()


CATEGORIES = ["month", "day", "carrier", "tailnum", "origin", "dest"]
NUMBERS = ["sched_dep_time", "sched_arr_time", "flight"]


def flights(first: int) -> Callable[[Path], Table]:
    return lambda data: Table(*_arrived(data, first), NUMBERS, CATEGORIES)


def flights_raw(data: Path) -> Columns:
    """Numbers as they are, beside the indicators of the other columns."""
    frame, late = _arrived(data, 0)
    categories = Table(frame, late, [], CATEGORIES)
    X = sparse.hstack([categories.rows()[0], frame[NUMBERS].to_numpy(float)]).tocsr()
    numbers = len(CATEGORIES) + 1 + np.arange(len(NUMBERS))
    return Columns(X, late, np.concatenate([categories.fields(), numbers]))


def flights_cli(first: int) -> Callable[[Path], Columns]:
    """Every column that is known before departure, as the command takes it by itself."""

    def read(data: Path) -> Columns:
        frame, late = _arrived(data, first)
        known_too_late = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
        frame = frame.drop(columns=known_too_late).assign(late=late.astype(int))
        return as_the_command_reads(frame, "late")

    return read


def as_the_command_reads(frame: pd.DataFrame, label: str) -> Columns:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        frame.to_csv(path, index=False)
        batch = Batch.concatenate(list(sources.open(str(path), recipe={"label": label, "bits": 22}, groups=True)))
    used, columns = np.unique(batch.indices, return_inverse=True)  # as many columns as there are features
    X = sparse.csr_matrix((batch.values.astype(float), columns, batch.indptr), shape=(len(batch), len(used)))
    fields = np.zeros(len(used), np.uint8)
    fields[columns] = batch.groups
    return Columns(X, batch.labels > 0, fields)


def bike(data: Path) -> Table:
    frame = pd.read_csv(data / "bike_sharing_hourly.csv.gz")
    numbers = ["temp", "atemp", "hum", "windspeed"]
    categories = ["season", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"]
    return Table(frame, (frame["cnt"] > frame["cnt"].median()).to_numpy(), numbers, categories)


FLIGHTS = {
    **{"flights1": flights(0), "flights2": flights(130_000), "flights3": flights(227_346)},
    "flights_raw": flights_raw,
    "flights_cli": flights_cli(0),
    "flights_cli2": flights_cli(150_000),
}
OTHERS = ["talkingdata", "ipinyou", "criteo", "bike", "openbandit", "nsl_kdd", "adult", "bank_marketing", "newsgroups"]
OTHERS += ["enron_spam", "reuters", "frappe", "covtype", "sms", "a9a", "w8a"]
quality_sets.SETS |= FLIGHTS | {"bike": bike}


# --- one stream -----------------------------------------------------------------------------------------------------


def loss(probability: np.ndarray, y: np.ndarray) -> float:
    """Mean log loss; no logit counts as surer than 30."""
    logits = np.clip(quality_peers.logit(np.asarray(probability, float)), -quality_peers.SUREST, quality_peers.SUREST)
    return float(np.mean(np.logaddexp(0.0, -y * logits)))


class Stream(NamedTuple):
    """Rows in an order, and the column of each feature where there are columns."""

    X: sparse.csr_matrix
    y: np.ndarray
    fields: np.ndarray | None

    def batch(self, start: int, stop: int) -> Batch:
        X = self.X[start:stop]
        groups = None if self.fields is None else self.fields[X.indices]
        return Batch.from_arrays(X.indptr, X.indices, X.data, self.y[start:stop], groups=groups)

    def taken(self, rows: np.ndarray) -> Stream:
        return self._replace(X=self.X[rows], y=self.y[rows])


def origins(stream: Stream) -> list[dict]:
    """Both frozen losses of the next fifth, after each origin, and what was expected."""
    n, width = stream.X.shape
    bank = Bank(width)
    results, learned = [], 0
    for origin in ORIGINS:
        stop, ahead = int(origin * n), min(int((origin + AHEAD) * n), n)
        bank.learn(stream.batch(learned, stop))
        rows, labels = stream.batch(stop, ahead), stream.y[stop:ahead]
        losses = {horizon: loss(bank.predict(rows, horizon=horizon).probability, labels) for horizon in HORIZONS}
        learned, later = stop, bank.later_loss()
        results.append(
            {"origin": origin, **losses, "expected": later.expected, "error": later.error, "differs": later.differs}
        )
    return results


def at_70(stream: Stream, known: dict[str, float] | None, peers: bool) -> dict[str, float]:
    """`known` has what slow peers reached on these rows."""
    X, y, _ = stream
    here = int(0.7 * len(y))
    train, test, told = stream.batch(0, here), stream.batch(here, len(y)), y[here:]
    bank = Bank(X.shape[1])
    found = {"progressive": loss(bank.learn(train), y[:here])}
    found |= {horizon: loss(bank.predict(test, horizon=horizon).probability, told) for horizon in HORIZONS}
    share = (np.sum(y[:here] > 0) + 0.5) / (here + 1.0)
    found["base rate"] = loss(np.full(len(told), share), told)
    for name, learner in {"Marginal": Marginal(X.shape[1]), "AdaGrad": AdaGrad(X.shape[1])}.items():
        learner.learn(train)
        found[name] = loss(learner.predict(test).probability, told)
    if known and peers:
        found |= {name: known[name] for name in SLOW}
    elif peers:
        found |= vowpal_wabbit(X, y, here)
        found["LogisticRegression"] = logistic_regression(X, y, here)
    return found


def vowpal_wabbit(X, y, here: int) -> dict[str, float]:
    """At its defaults, and the best of the settings of quality_peers by the rows it is tested on."""
    bits = str(max(18, math.ceil(math.log2(X.shape[1])) + 2))
    command = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "--quiet", "-b", bits]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, test, model, out = (str(folder / part) for part in ("train.vw", "test.vw", "model", "logits"))
        quality_peers.write_vw(X[:here], y[:here], Path(train))
        quality_peers.write_vw(X[here:], y[here:], Path(test))
        losses = []
        settings = [setting.name.split() for setting in quality_peers.settings() if setting.family == "VW"]
        for options in ([], *settings):
            subprocess.run([*command, "-d", train, "-f", model, *options], check=True)
            subprocess.run([*command, "-t", "-d", test, "-i", model, "-p", out], check=True)
            logits = np.clip(np.loadtxt(out, ndmin=1), -quality_peers.SUREST, quality_peers.SUREST)
            losses.append(float(np.mean(np.logaddexp(0.0, -y[here:] * logits))))
    return {"VW": losses[0], "VW tuned": min(losses)}


def logistic_regression(X, y, here: int) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler

    X = MaxAbsScaler().fit_transform(X)  # it has no units of its own; streams of ones stay as they are
    rows = np.random.default_rng(0).permutation(here)
    fit, check = rows[here // 3 :], rows[: here // 3]

    def fitted(C: float, rows: np.ndarray):
        return LogisticRegression(C=C, solver="liblinear", max_iter=1000).fit(X[rows], y[rows])

    tried = {C: loss(fitted(C, fit).predict_proba(X[check])[:, 1], y[check]) for C in (0.01, 0.1, 1.0, 10.0)}
    best = fitted(min(tried, key=lambda C: tried[C]), np.arange(here))
    return loss(best.predict_proba(X[here:])[:, 1], y[here:])


def shuffled(stream: Stream, seed: int = 0) -> Stream:
    return stream.taken(np.random.default_rng(seed).permutation(len(stream.y)))


def alternating(stream: Stream) -> Stream:
    """As many rows of one label as of the other, in turns."""
    one, other = np.flatnonzero(stream.y > 0), np.flatnonzero(stream.y < 0)
    n = min(len(one), len(other))
    return stream.taken(np.column_stack([one[:n], other[:n]]).ravel())


def load(name: str, data: Path, cache: Path) -> Stream:
    return Stream(*quality_sets.load(name, data, cache), quality_sets.fields(name, data, cache))


def run(name: str, data: Path, cache: Path, known: dict, peers: bool) -> dict:
    found: dict = {}
    stream = load(name, data, cache)
    for words, there, rows in ("ordered", "at 70%", stream), ("shuffled", "shuffled at 70%", shuffled(stream)):
        found |= {words: origins(rows), there: at_70(rows, known.get(there), peers)}
    return {"rows": len(stream.y), **found}


# --- tables ---------------------------------------------------------------------------------------------------------


def gain(results: list[dict], one: str = "later", other: str = "next") -> float:
    """100 ln(one / other), the mean of the origins."""
    return 100.0 * float(np.mean([math.log(r[one] / r[other]) for r in results]))


def origins_table(found: dict) -> list[list[str]]:
    lines = [["set", "rows", "in order", "shuffled", "expects more, of 6", "shuffled, of 6"]]
    for name, about in found.items():
        fires = [str(sum(r["differs"] for r in about[how])) for how in ORDERS]
        lines.append([name, f"{about['rows']:,}", *(f"{gain(about[how]):+.1f}%" for how in ORDERS), *fires])
    for words, there in kinds(found):
        means = [f"{np.mean([gain(about[how]) for about in there]):+.1f}%" for how in ORDERS]
        fires = [str(sum(r["differs"] for a in there for r in a[how])) for how in ORDERS]
        lines.append([f"{words}, mean", "", *means, *fires])
    return lines


def kinds(found: dict) -> list[tuple[str, list[dict]]]:
    every = [
        (words, [found[n] for n in names if n in found]) for words, names in (("flights", FLIGHTS), ("others", OTHERS))
    ]
    return [(words, there) for words, there in every if there]


def peers_table(found: dict, which: str) -> list[list[str]]:
    columns = ["progressive", "next", "later", *PEERS]
    lines = [["set", *columns]]
    for name, about in found.items():
        lines.append([name, *(f"{about[which][c]:.4f}" if c in about[which] else "" for c in columns)])
    for words, abouts in kinds(found):
        there = [about[which] for about in abouts]
        against = {}
        for peer in ("next", *PEERS):
            both = [(each["later"], each[peer]) for each in there if peer in each]
            if both:
                mean = 100.0 * float(np.mean([math.log(a / b) for a, b in both]))
                against[peer] = f"{mean:+.1f}% ({sum(a < b for a, b in both)}/{len(both)})"
        lines.append([f"later against, {words}", *(against.get(column, "") for column in columns)])
    return lines


def alternating_line(data: Path, cache: Path) -> str:
    stream = alternating(load("higgs", data, cache))
    about = at_70(stream, None, peers=False)
    said = ", ".join(f"{name} {about[name]:.3f}" for name in ("progressive", *HORIZONS))
    return f"alternating labels (higgs, {len(stream.y):,} rows, frozen at 70%): {said}; a coin costs {math.log(2):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join([*FLIGHTS, *OTHERS]))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers-of", type=Path, help="results that have the slow peers")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "bayou-quality")
    options = parser.parse_args()
    known = json.loads(options.peers_of.read_text()) if options.peers_of else {}
    found = {}
    for name in options.sets.split(","):
        start = time.perf_counter()
        found[name] = about = run(name, options.data, options.cache, known.get(name, {}), not options.no_peers)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
        gains = ", ".join(f"{how} {gain(about[how]):+.1f}%" for how in ORDERS)
        print(f"{name}: {gains} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    tables = {
        "The next fifth, six origins: log loss for later rows against the live combination": origins_table(found),
        "All rows after 70%, in order": peers_table(found, "at 70%"),
        "All rows after 70%, shuffled": peers_table(found, "shuffled at 70%"),
    }
    for title, lines in tables.items():
        print(f"\n{title}\n\n{plain(lines)}")
    last = alternating_line(options.data, options.cache)
    print(f"\n{last}")
    if options.markdown:
        parts = [f"### {title}\n\n{markdown(lines)}" for title, lines in tables.items()]
        options.markdown.write_text("\n\n".join([*parts, last]) + "\n")


if __name__ == "__main__":
    main()
