"""The streams of numbers that regression is measured on, as CSR rows and labels, prepared the same way each time.

    svmlight files   as they are
    tables           numbers as they are and one indicator for each value of a category (california, bike, abalone,
                     diabetes, prostate); flights and adult as in quality_sets.py, every cell an indicator
    text             TfidfVectorizer(min_df=2, sublinear_tf=True)

Rows keep the order of their file, flights that of their departures.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import quality_sets
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer

Rows = tuple[sparse.csr_matrix, np.ndarray]
FLIGHTS, REVIEWS = 40_000, 12_000


def _svmlight(name: str) -> Callable[[Path], Rows]:
    def read(data: Path) -> Rows:
        X, y = load_svmlight_file(str(data / f"{name}.reg.svm.gz"))
        return X.tocsr()[:, np.flatnonzero(X.getnnz(0))], y

    return read


def _table(name: str, label: str, categories: tuple[str, ...] = (), ignore: tuple[str, ...] = ()):
    """Numbers as they are; of each category an indicator for each of its values."""

    def read(data: Path) -> Rows:
        frame = pd.read_csv(data / f"{name}.csv.gz")
        y = frame[label].to_numpy(float)
        frame = pd.get_dummies(frame.drop(columns=[label, *ignore]), columns=list(categories), dtype=float)
        return sparse.csr_matrix(frame.to_numpy(float)), y

    return read


def _flights(label: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], Rows]:
    """How late flights arrive, from what is known before departure."""

    def read(data: Path) -> Rows:
        frame = pd.read_csv(data / "nycflights13.csv.gz")
        frame = frame[frame["arr_delay"].notna()].sort_values(["month", "day", "sched_dep_time"], kind="stable")
        frame = frame[:FLIGHTS].reset_index(drop=True)
        numbers, categories = ["sched_dep_time", "sched_arr_time", "distance"], ["month", "day", "hour", "carrier"]
        X, _ = quality_sets.table(
            frame, np.zeros(len(frame)), numbers, [*categories, "flight", "tailnum", "origin", "dest"]
        )
        return X[:, np.flatnonzero(X.getnnz(0))], label(frame["arr_delay"].to_numpy(float))

    return read


def _adult(data: Path) -> Rows:
    """The hours that people work in a week."""
    frame = pd.read_csv(data / "adult.csv.gz").sort_values("split", key=lambda c: c == "test", kind="stable")
    frame = frame.reset_index(drop=True)
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss"]
    categories = [name for name in frame.columns if name not in [*numbers, "hours-per-week", "split"]]
    X, _ = quality_sets.table(frame, np.zeros(len(frame)), numbers, categories)
    return X[:, np.flatnonzero(X.getnnz(0))], frame["hours-per-week"].to_numpy(float)


def _imdb(data: Path) -> Rows:
    """The stars that a review gives."""
    with gzip.open(data / "imdb_reviews.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(REVIEWS), strict=False)]
    X = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform([row["text"] for row in rows])
    return X.tocsr(), np.array([float(row["rating"]) for row in rows])


SETS: dict[str, Callable[[Path], Rows]] = {
    "california": _table("california_housing", "medianHouseValue"),
    "bike": _table(
        "bike_sharing_hourly",
        "cnt",
        ("season", "mnth", "hr", "weekday", "weathersit"),
        ("instant", "dteday", "casual", "registered"),
    ),
    "abalone": _table("abalone", "Rings", ("Type",)),
    "diabetes": _table("diabetes", "target"),
    "prostate": _table("prostate", "lpsa", ignore=("train",)),
    "diabetes_i": _svmlight("diabetes_interactions"),
    "housing_i": _svmlight("housing_interactions"),
    "ozone_i": _svmlight("ozone_interactions"),
    "wheat": _svmlight("wheat_env1"),
    "permeability": _svmlight("permeability"),
    "yearmsd": _svmlight("yearmsd.sample6k"),
    "flights_log": _flights(lambda late: np.log(np.maximum(late, 0.0) + 1.0)),
    "flights_min": _flights(lambda late: late),
    "adult_hours": _adult,
    "imdb_rating": _imdb,
}
SORTED = {"prostate"}  # its rows come in the order of their labels, so they are shuffled first
