"""Regression data sets.

Columns and labels are standardized over the whole set, so that always predicting the mean has squared loss 1, and
one learning rate or penalty means the same for all sets. Rows are shuffled by the draw's seed, except for the bike
rentals, which are in time order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayou.reproduce.experiment import data_folder

# Maximum numbers of rows of a quick run; fewer for wide sets, whose steps take longer.
QUICK_ROWS, QUICK_WIDE_ROWS, WIDE = 400, 60, 200


@dataclass(frozen=True)
class RegressionSet:
    """Data set: its file, the column to predict, columns to leave out, and whether the order of rows is kept."""

    name: str
    file: str
    label: str | None = None  # for tables; in svmlight files the label comes first
    ignore: tuple[str, ...] = ()
    in_order: bool = False


SETS = (
    RegressionSet("diabetes", "diabetes.csv.gz", "target"),
    RegressionSet("diabetes, products", "diabetes_interactions.reg.svm.gz"),
    RegressionSet("prostate", "prostate.csv.gz", "lpsa", ("train",)),
    RegressionSet("ozone, products", "ozone_interactions.reg.svm.gz"),
    RegressionSet("housing, products", "housing_interactions.reg.svm.gz"),
    RegressionSet("permeability", "permeability.reg.svm.gz"),
    RegressionSet("wheat", "wheat_env1.reg.svm.gz"),
    RegressionSet("year of the song", "yearmsd.sample6k.reg.svm.gz"),
    RegressionSet("abalone", "abalone.csv.gz", "Rings"),
    RegressionSet("california", "california_housing.csv.gz", "medianHouseValue"),
    RegressionSet(
        "bike rentals",
        "bike_sharing_hourly.csv.gz",
        "cnt",
        ("instant", "dteday", "casual", "registered"),
        in_order=True,
    ),
)


def load(say: Callable[[str], Any]) -> list[tuple[RegressionSet, np.ndarray, np.ndarray]]:
    """Return all sets, standardized; if their files are missing, only the one that comes with scikit-learn."""
    folder = data_folder()
    if not (folder / SETS[0].file).is_file():
        say("no real data (neither BAYOU_DATA nor ../shared/data holds them): using only scikit-learn's diabetes")
        from sklearn.datasets import load_diabetes

        return [(SETS[0], *standardised(*load_diabetes(return_X_y=True, scaled=False)))]
    return [(dataset, *standardised(*_read(folder, dataset))) for dataset in SETS]


def _read(folder: Path, dataset: RegressionSet) -> tuple[np.ndarray, np.ndarray]:
    if dataset.label is None:
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(str(folder / dataset.file), zero_based=False)
        return X.toarray(), y
    from pyarrow import csv

    table, columns = csv.read_csv(folder / dataset.file), []
    for name in table.column_names:
        if name not in (dataset.label, *dataset.ignore):
            cells = table[name].to_numpy()
            # Of text, one indicator per value.
            columns.append(cells[:, None] if cells.dtype != object else cells[:, None] == np.unique(cells))
    return np.hstack(columns).astype(float), table[dataset.label].to_numpy().astype(float)


def standardised(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns that vary, and the labels, with mean 0 and variance 1."""
    X = X[:, X.std(axis=0) > 1e-12]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def draw_of(
    dataset: RegressionSet, X: np.ndarray, y: np.ndarray, seed: int, quick: bool, examples: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in the order of a draw, limited in quick runs and by `examples`."""
    order = np.arange(len(y)) if dataset.in_order else np.random.default_rng(seed).permutation(len(y))
    max_rows = (QUICK_ROWS if X.shape[1] <= WIDE else QUICK_WIDE_ROWS) if quick else len(y)
    order = order[: min(max_rows, examples or max_rows)]
    return X[order], y[order]
