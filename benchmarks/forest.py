"""The forest on tables: rows predicted before they are learned, and rows predicted by a model that has stopped.

    python benchmarks/forest.py [--sets "kin40k ~,bike,adult"] [--rows N] [--no-peer] [--data DIR]
    python benchmarks/forest.py --cost

The sets are those of column_rules.py, read as `bayou train` reads a table; a ~ stands for rows that were shuffled
first. The first three quarters are learned; "live" is the loss of each of these rows before it is learned, "later" that
of the last quarter, which is only predicted: root mean squared error, or log loss of two classes. `bank` is the bank
alone (the number bank for numbers), `forest` is Forest(base=bank), whose codes are cut on the first 10,000 rows:
numbers, and a 0/1 column for each value of a category of at most 16 (larger ones are left to the bank). us: CPU time of
the forest a learned row, less that of the bank.

The peer is LightGBM with its defaults, on one thread, where `lightgbm` is installed: fitted to the first three quarters
at once, with categories as such.

--cost: us a learned row beyond the base, and a predicted one in batches, on simulated rows of which half of the columns
have an effect and two act together.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from pathlib import Path
from typing import Any

import column_rules
import numpy as np
import pandas as pd
from quality import markdown
from quality_sets import data_folder

from bayou import Batch, sources
from bayou.learners import Bank, Forest, Gaussian, Marginal, NumberBank
from bayou.learners.forest import Cuts

LABEL = column_rules.LABEL
SETS = "kin40k ~,protein ~,pol ~,elevators ~,california ~,bike,abalone,adult,covtype ~,higgs"
FIT_ROWS, FEW_VALUES, BITS = 10_000, 16, 18


def coded_columns(frame: pd.DataFrame) -> np.ndarray:
    """Numbers, and a 0/1 column for each value of a category of few values; the second only if there are two."""
    columns = []
    for name in frame.columns.drop(LABEL):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.to_numpy(float))
            continue
        values = sorted(column[:FIT_ROWS].dropna().unique())
        if len(values) <= FEW_VALUES:
            columns += [(column == value).to_numpy(float) for value in (values[1:] if len(values) == 2 else values)]
    return np.column_stack(columns)


def batches_of(frame: pd.DataFrame) -> list[Batch]:
    """The rows as `bayou train` reads them, with codes."""
    numbers = coded_columns(frame)
    codes = Cuts(numbers[:FIT_ROWS]).codes(numbers)
    batches, row = [], 0
    for batch in sources.open(frame, recipe={"label": LABEL, "bits": BITS}):
        batches.append(batch.with_codes(codes[row : row + len(batch)]))
        row += len(batch)
    if row != len(frame):
        raise SystemExit(f"{len(frame) - row} of {len(frame)} rows could not be read")
    return batches


def run(learner: Any, batches: list[Batch], n_learned: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Live and later predictions, and the CPU time of learning."""
    live, later, row, used = [], [], 0, 0.0
    for batch in batches:
        split = min(max(n_learned - row, 0), len(batch))
        if split:
            start = time.process_time()
            live.append(learner.learn(batch[:split]))
            used += time.process_time() - start
        if split < len(batch):
            later.append(learner.predict(batch[split:], "later").expected)
        row += len(batch)
    return np.concatenate(live), np.concatenate(later), used


def loss(expected: np.ndarray, labels: np.ndarray, is_logistic: bool) -> float:
    if not is_logistic:
        return float(np.sqrt(np.mean((expected - labels) ** 2)))
    p = np.clip(np.where(labels > 0, expected, 1.0 - expected), 1e-14, 1.0)
    return float(-np.mean(np.log(p)))


def of_peer(frame: pd.DataFrame, n_learned: int, is_logistic: bool) -> float:
    import lightgbm

    X, y = frame.drop(columns=LABEL), frame[LABEL].to_numpy(float)
    X = X.astype({name: "category" for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])})
    make = lightgbm.LGBMClassifier if is_logistic else lightgbm.LGBMRegressor
    model = make(n_jobs=1, verbose=-1).fit(X[:n_learned], y[:n_learned])
    expected = model.predict_proba(X[n_learned:])[:, 1] if is_logistic else model.predict(X[n_learned:])
    return loss(expected, y[n_learned:], is_logistic)


def row_of(name: str, data: Path, rows: int, peer: bool) -> list[str]:
    frame = column_rules.load(name, data, rows)
    is_logistic, n_learned, y = name in column_rules.CLASSES, len(frame) * 3 // 4, frame[LABEL].to_numpy(float)
    batches, base = batches_of(frame), Bank if is_logistic else NumberBank
    for learner in (base(2**BITS), Forest(base=base(2**BITS))):  # compile
        run(learner, [batches[0][:200]], 150)
    alone, forest = (run(learner, batches, n_learned) for learner in (base(2**BITS), Forest(base=base(2**BITS))))
    parts = y[:n_learned], y[n_learned:]
    losses = [loss(one[k], part, is_logistic) for k, part in enumerate(parts) for one in (alone, forest)]
    losses += [of_peer(frame, n_learned, is_logistic)] if peer else []
    extra = (forest[2] - alone[2]) / n_learned * 1e6
    size = f"{len(frame):,} x {batches[0].codes.shape[1]}"
    return [name, size, *(f"{one:.4g}" for one in losses), f"{extra:.1f}"]


def cost() -> None:
    """Time of a row, of 10 and 40 columns, in the first 50,000 rows and once the ring is full."""
    rng, n, out = np.random.default_rng(0), 200_000, []
    for d in (10, 40):
        X = rng.normal(size=(n, d))
        score = X[:, 0] * X[:, 1] + X[:, : d // 2] @ np.linspace(1.0, 0.1, d // 2) + 0.5 * rng.normal(size=n)
        codes = Cuts(X[:FIT_ROWS]).codes(X)
        for base, labels in ((Gaussian, score), (Marginal, np.sign(score))):
            rows = Batch.from_csr(X, labels).with_codes(codes)
            times = []
            for learner in (base(d), Forest(base=base(d))):
                learner.learn(rows[:70])  # compile
                learner.predict(rows[:70], "later")
                for start, stop in ((70, 50_000), (50_000, 66_000), (66_000, 131_000), (131_000, n)):
                    begun = time.process_time()
                    learner.learn(rows[start:stop])
                    times.append((time.process_time() - begun) / (stop - start) * 1e6)
                begun = time.process_time()
                learner.predict(rows[:50_000], "later")
                times.append((time.process_time() - begun) / 0.05)
            extra = np.subtract(times[5:], times[:5])
            out.append([str(d), "numbers" if base is Gaussian else "two classes", *(f"{us:.1f}" for us in extra)])
    head = ["columns", "task", "first 50,000", "to 66,000", "to 131,000", "to 200,000", "prediction"]
    print(markdown([head, *out]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--rows", type=int, default=10**9, help="at most so many rows of a set, evenly spaced")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--data", type=Path, default=data_folder())
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cost:
        cost()
        return
    peer = not options.no_peer and importlib.util.find_spec("lightgbm") is not None
    head = [
        "set",
        "rows x codes",
        "live bank",
        "live forest",
        "later bank",
        "later forest",
        *(["LightGBM"] if peer else []),
    ]
    rows = []
    for name in options.sets.split(","):
        rows.append(row_of(name, options.data, options.rows, peer))
        print(*rows[-1], sep="\t", flush=True)
    print(markdown([[*head, "us"], *rows]))


if __name__ == "__main__":
    main()
