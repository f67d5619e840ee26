"""How fast `bayou.river` is compared with river itself, in one run on the same rows.

    python benchmarks/river_face.py [--data shared/data] [--repeats 7] [--json out.json]

Criteo's rows as dictionaries of 35 hashed features, one by one and many at once, and raw Criteo rows (13 numbers, 26
texts) as a DataFrame. Prints microseconds per row and the ratio to river's LogisticRegression: the median of the
ratios within a round. Contenders alternate, so that a busy machine is as busy for all. (Not named river.py: scripts in
this folder import river.)
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import linear_model
from sklearn.datasets import load_svmlight_file

import bayou.river

RIVER = "river LogisticRegression"
BITS = 18


def hashed_rows(folder: Path) -> tuple[Any, list[dict[str, float]], list[bool]]:
    """A matrix, its rows as dictionaries with string names, and the labels."""
    X, y = load_svmlight_file(str(folder / "criteo.train10k.svm.gz"))
    rows = [
        {f"f{column}": float(value) for column, value in zip(X.indices[a:b], X.data[a:b], strict=True)}
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    return X, rows, (y > 0).tolist()


def raw_rows(folder: Path) -> tuple[pd.DataFrame, list[bool]]:
    numbers, texts = [f"I{c}" for c in range(13)], [f"C{c}" for c in range(26)]
    table = pd.read_csv(folder / "criteo.raw8k.tsv.gz", sep="\t", names=["y", *numbers, *texts])
    table[numbers] = np.log1p(table[numbers].clip(lower=0))
    return table[numbers + texts], (table["y"] > 0).tolist()


def one_by_one(model: Any, rows: list[dict], labels: list[bool], predict: bool = False) -> None:
    for x, y in zip(rows, labels, strict=True):
        if predict:
            model.predict_proba_one(x)
        model.learn_one(x, y)


def microseconds(works: dict[str, tuple[Callable[[], Any], int]], repeats: int) -> dict[str, list[float]]:
    """The time per row of each job (a function and its number of rows) in each round; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, (work, rows) in works.items():
            start = time.perf_counter()
            work()
            times[name].append((time.perf_counter() - start) / rows * 1e6)
    return {name: found[1:] for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = Path(__file__).parent.parent.parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("BAYOU_DATA", home)))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    X, rows, labels = hashed_rows(options.data)
    numbered = [{int(name[1:]): value for name, value in row.items()} for row in rows]
    table, clicks = raw_rows(options.data)
    raw = [{k: v for k, v in row.items() if v == v} for row in table.to_dict("records")]  # without missing values

    def ours(name: str, **more: Any) -> Any:
        return bayou.river.Classifier(name, bits=BITS, **more)

    logistic = linear_model.LogisticRegression
    n = len(rows)
    works: dict[str, tuple[Callable[[], Any], int]] = {
        f"{RIVER}, learn_one": (lambda: one_by_one(logistic(), rows, labels), n),
        "bayou marginal, learn_one": (lambda: one_by_one(ours("marginal"), rows, labels), n),
        "bayou marginal, learn_one, names that are numbers": (
            lambda: one_by_one(ours("marginal"), numbered, labels),
            n,
        ),
        "bayou marginal, learn_one, names in a dictionary": (
            lambda: one_by_one(ours("marginal", hashing=False), rows, labels),
            n,
        ),
        "bayou bank, learn_one": (lambda: one_by_one(ours("bank"), rows, labels), n),
        f"{RIVER}, predict_proba_one + learn_one": (lambda: one_by_one(logistic(), rows, labels, predict=True), n),
        "bayou marginal, predict_proba_one + learn_one": (
            lambda: one_by_one(ours("marginal"), rows, labels, predict=True),
            n,
        ),
        "bayou marginal, learn_many of a sparse matrix": (lambda: ours("marginal").learn_many(X, labels), n),
        "bayou bank, learn_many of a sparse matrix": (lambda: ours("bank").learn_many(X, labels), n),
        "bayou marginal, learn_many of a raw DataFrame, hashed on the way": (
            lambda: ours("marginal").learn_many(table, clicks),
            len(clicks),
        ),
        "bayou marginal, learn_one of raw rows, hashed on the way": (
            lambda: one_by_one(ours("marginal"), raw, clicks),
            len(clicks),
        ),
    }
    times = microseconds(works, options.repeats)
    peer, result = times[f"{RIVER}, learn_one"], {}
    print(f"{'':68}{'us / row':>9}{'of river learn_one':>24}")
    for name, found in times.items():
        ratio = statistics.median(a / b for a, b in zip(found, peer, strict=True))
        result[name] = {"microseconds": statistics.median(found), "ratio": ratio, "rounds": found}
        print(f"{name:68}{statistics.median(found):9.2f}{ratio:14.3f}, 1 / {1 / ratio:.1f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
