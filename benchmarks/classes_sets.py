"""The real streams of several classes, as CSR rows and class numbers, prepared the same way each time.

    news20, reuters10, rcv1_4    TfidfVectorizer(min_df=2, sublinear_tf=True); of reuters and rcv1 the documents that
                                 have exactly one of the largest topics
    covtype7, digits, abalone3   raw numbers, and indicators for abalone's type; its classes are few, some, many rings
    kdd_service, flights_delay, flights_carrier, adult_occ, bank_job
                                 every cell one indicator, hashed to 2^18 columns; numbers cut at their 20-quantiles

Rows keep the order of their file; of flights the first 40,000 that arrived, of nsl_kdd the first 30,000.
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
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer

Rows = tuple[sparse.csr_matrix, np.ndarray]
FLIGHTS, CONNECTIONS = 40_000, 30_000
FLIGHT_NUMBERS = ["sched_dep_time", "sched_arr_time", "flight"]
# Delays in minutes at which one class ends and the next begins.
DELAYS = [0.0, 15.0, 60.0]
# Rings up to which shells count as young, and as middle-aged.
RINGS = [8, 10]


def _documents(data: Path, name: str) -> list[dict]:
    with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return sorted(rows, key=lambda row: row.get("split") == "test")


def _text(rows: list[dict], labels: list[str]) -> Rows:
    X = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform([row["text"] for row in rows])
    return X.tocsr(), _numbers(pd.Series(labels))


def _numbers(labels: pd.Series) -> np.ndarray:
    """Classes by the order of their names."""
    return np.unique(labels.astype(str), return_inverse=True)[1]


def _single(rows: list[dict], topics: list[str]) -> Rows:
    """Documents with exactly one of these topics."""
    kept = [(row, set(row["label"]) & set(topics)) for row in rows]
    kept = [(row, found) for row, found in kept if len(found) == 1]
    return _text([row for row, _ in kept], [next(iter(found)) for _, found in kept])


def news20(data: Path) -> Rows:
    rows = _documents(data, "newsgroups20_bydate")
    return _text(rows, [row["label"] for row in rows])


def reuters10(data: Path) -> Rows:
    rows = _documents(data, "reuters21578_modapte")
    topics = pd.Series([topic for row in rows for topic in row["label"]]).value_counts().index[:10]
    return _single(rows, list(topics))


def rcv1_4(data: Path) -> Rows:
    return _single(_documents(data, "rcv1_topics.sample2k"), ["CCAT", "ECAT", "GCAT", "MCAT"])


def covtype7(data: Path) -> Rows:
    X, y = load_svmlight_file(str(data / "covtype.sample20k.svm.gz"), zero_based=False)
    return X.tocsr(), y.astype(int) - 1


def digits(data: Path) -> Rows:
    X, y = load_digits(return_X_y=True)
    return sparse.csr_matrix(X), y


def abalone3(data: Path) -> Rows:
    frame = pd.read_csv(data / "abalone.csv.gz")
    numbers = frame.drop(columns=["Type", "Rings"]).to_numpy(float)
    X = np.column_stack([numbers, pd.get_dummies(frame["Type"]).to_numpy(float)])
    return sparse.csr_matrix(X), np.searchsorted(RINGS, frame["Rings"].to_numpy())


def _table(frame: pd.DataFrame, labels: np.ndarray, numbers: list[str], leave: list[str]) -> Rows:
    categories = [name for name in frame.columns if name not in [*numbers, *leave]]
    return quality_sets.table(frame, np.ones(len(frame)), numbers, categories)[0], labels


def kdd_service(data: Path) -> Rows:
    """The service of a connection: the twelve largest, and all others."""
    frame = pd.read_csv(data / "nsl_kdd.csv.gz")[:CONNECTIONS]
    largest = frame["service"].value_counts().index[:12]
    labels = _numbers(frame["service"].where(frame["service"].isin(largest), "~"))
    indicators = ["protocol_type", "flag", "land", "logged_in", "root_shell", "is_host_login"]
    indicators += ["is_guest_login", "su_attempted"]
    leave = ["service", "class", "split"]
    numbers = [name for name in frame.columns if name not in [*indicators, *leave]]
    return _table(frame, labels, numbers, leave)


def _flights(data: Path) -> pd.DataFrame:
    frame = pd.read_csv(data / "nycflights13.csv.gz")
    return frame[frame["arr_delay"].notna()][:FLIGHTS].reset_index(drop=True)


def flights_delay(data: Path) -> Rows:
    frame = _flights(data)
    categories = ["month", "day", "carrier", "tailnum", "origin", "dest"]
    X, _ = quality_sets.table(frame, np.ones(len(frame)), FLIGHT_NUMBERS, categories)
    return X, np.searchsorted(DELAYS, frame["arr_delay"].to_numpy())


def flights_carrier(data: Path) -> Rows:
    """Who flies, from when and where: without the numbers of flight and plane, which tell."""
    frame = _flights(data)
    numbers = ["sched_dep_time", "sched_arr_time", "distance"]
    X, _ = quality_sets.table(frame, np.ones(len(frame)), numbers, ["month", "day", "origin", "dest"])
    return X, _numbers(frame["carrier"])


def adult_occ(data: Path) -> Rows:
    frame = pd.read_csv(data / "adult.csv.gz").sort_values("split", key=lambda c: c == "test", kind="stable")
    frame = frame.reset_index(drop=True)
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    return _table(frame, _numbers(frame["occupation"].fillna("?")), numbers, ["occupation", "split"])


def bank_job(data: Path) -> Rows:
    frame = pd.read_csv(data / "bank_marketing.csv.gz")
    numbers = ["day", "campaign", "pdays", "previous", "age", "balance"]
    return _table(frame, _numbers(frame["job"]), numbers, ["job", "duration"])


SETS: dict[str, Callable[[Path], Rows]] = {
    **{"digits": digits, "abalone3": abalone3, "rcv1_4": rcv1_4, "reuters10": reuters10, "covtype7": covtype7},
    **{"news20": news20, "kdd_service": kdd_service, "flights_delay": flights_delay},
    **{"flights_carrier": flights_carrier, "adult_occ": adult_occ, "bank_job": bank_job},
}


def load(name: str, data: Path, cache: Path) -> Rows:
    """The rows of a set, from the cache folder if they were prepared before."""
    quality_sets.SETS |= {f"classes_{name}": SETS[name]}
    X, y = quality_sets.load(f"classes_{name}", data, cache)
    return X, y.astype(int)
