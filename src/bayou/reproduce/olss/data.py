"""Data sets of the second paper's experiments, or public ones instead of those that are not public.

Its click logs are Yahoo's own. Text: Reuters-21578 (four topics) and 20 Newsgroups, as tf-idf of unit length and as 0/1
words. Clicks: late flights and TalkingData, both in time order, so that the tests come after the training rows; Criteo
and Frappe; iPinYou, where clicks are rare.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from bayou.core.errors import BadInput
from bayou.reproduce.experiment import data_folder

TOPICS = ("acq", "money-fx", "grain", "earn")
# Values of tau0 for rows of unit length, and for 0/1 features; the usual one is in the middle.
UNIT_ROWS, INDICATORS = (1.0, 3.0, 10.0, 30.0, 100.0), (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Problem:
    """Training rows, in the order of their file, and tests.

    Attributes:
        slab_variances: the tau0 to choose from.
        tests: (name, rows, labels).
        weights: those of the training rows; None means 1 each.
        groups: the group name of each feature; empty if there are no groups.
    """

    name: str
    X: csr_array
    y: np.ndarray
    tests: tuple[tuple[str, csr_array, np.ndarray], ...]
    slab_variances: tuple[float, ...]
    weights: np.ndarray | None = None
    groups: tuple[str, ...] = field(default=(), repr=False)

    @property
    def usual_slab_variance(self) -> float:
        return self.slab_variances[len(self.slab_variances) // 2]


def folder(data: Sequence[str]) -> Path:
    """Return the folder of the data sets: --data, else BAYOU_DATA, else ../shared/data; raise BadInput if missing."""
    path = Path(data[0]) if data else data_folder()
    if not path.is_dir():
        raise BadInput(
            f"the data sets were not found: {path} is not a folder. Give it with --data FOLDER, or in the "
            "environment variable BAYOU_DATA."
        )
    return path


def _file(path: Path, name: str) -> Path:
    if not (path / name).is_file():
        raise BadInput(f"{path} has no file {name}, which this experiment needs.")
    return path / name


# --- text -----------------------------------------------------------------------------------------------------------


@cache
def _texts(path: Path) -> tuple[csr_array, csr_array, list, list]:
    """Return tf-idf features of training and test rows, and their labels."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    train, test = ([row for row in rows if (row["split"] == "train") == is_training] for is_training in (True, False))
    vectors = TfidfVectorizer(min_df=2, stop_words="english")
    X = csr_array(vectors.fit_transform(row["text"] for row in train))
    Z = csr_array(vectors.transform(row["text"] for row in test))
    return X, Z, [row["label"] for row in train], [row["label"] for row in test]


def _text_problem(path: Path, name: str, positive: Callable[[object], bool], binary: bool) -> Problem:
    X, Z, labels, test_labels = _texts(path)
    y, z = (np.array([positive(label) for label in label_list]) for label_list in (labels, test_labels))
    if binary:
        X, Z = csr_array(X.sign()), csr_array(Z.sign())
    kind = "0/1" if binary else "tf-idf"
    return Problem(f"{name}, {kind}", X, y, (("test", Z, z),), INDICATORS if binary else UNIT_ROWS)


def text_problems(path: Path, quick: bool = False) -> list[Problem]:
    """Return the problems from Reuters and 20 Newsgroups: nine, or two for a quick run."""
    reuters, news = _file(path, "reuters21578_modapte.jsonl.gz"), _file(path, "newsgroups20_bydate.jsonl.gz")
    problems = [
        _text_problem(reuters, topic, lambda label, topic=topic: topic in label, binary)  # type: ignore[misc]
        for topic in (TOPICS[:1] if quick else TOPICS)
        for binary in (False, True)
    ]
    if not quick:
        problems.append(_text_problem(news, "comp+sci", lambda label: str(label).startswith(("comp", "sci")), True))
    return problems


# --- clicks ---------------------------------------------------------------------------------------------------------


def _one_hot(columns: dict[str, np.ndarray], train: int) -> tuple[csr_array, tuple[str, ...]]:
    """Return indicators of the values that occur in the first `train` rows, and the column of each indicator."""
    from sklearn.preprocessing import OneHotEncoder

    values = np.column_stack(list(columns.values()))
    encoder = OneHotEncoder(handle_unknown="ignore").fit(values[:train])
    groups = [name for name, vocabulary in zip(columns, encoder.categories_, strict=True) for _ in vocabulary]
    return csr_array(encoder.transform(values)), tuple(groups)


def _in_time(name: str, columns: dict[str, np.ndarray], y: np.ndarray, share: float, tests: Sequence[str]) -> Problem:
    """Return a problem whose first fraction `share` is for training and the rest, in equal parts, for tests."""
    train = int(share * len(y))
    X, groups = _one_hot(columns, train)
    edges = np.linspace(train, len(y), len(tests) + 1).astype(int)
    periods = tuple((test, X[a:b], y[a:b]) for test, a, b in zip(tests, edges[:-1], edges[1:], strict=True))
    return Problem(name, X[:train], y[:train], periods, INDICATORS, groups=groups)


def flights(path: Path) -> Problem:
    """Return arrivals more than 15 minutes late, New York 2013; the first half of the year is for training."""
    from pyarrow import compute as pc
    from pyarrow import csv

    has_arrived = pc.field("arr_delay").is_valid()
    table = csv.read_csv(_file(path, "nycflights13.csv.gz")).filter(has_arrived).sort_by("time_hour")

    def column(name: str) -> np.ndarray:
        return table[name].to_numpy().astype(str)

    columns = {name: column(name) for name in ("carrier", "origin", "dest", "hour", "tailnum")}
    columns["weekday"] = (table["time_hour"].to_numpy().astype("datetime64[D]").astype(int) % 7).astype(str)
    for a, b in (("carrier", "flight"), ("carrier", "dest"), ("origin", "hour")):
        columns[f"{a} x {b}"] = np.char.add(np.char.add(column(a), "/"), column(b))
    is_late = table["arr_delay"].to_numpy().astype(float) > 15
    return _in_time("flights", columns, is_late, 0.5, ("Jul-Aug", "Sep-Oct", "Nov-Dec"))


def talkingdata(path: Path) -> Problem:
    """Return app installs after clicks, in the order of the clicks."""
    from pyarrow import csv

    table = csv.read_csv(_file(path, "talkingdata.sample100k.csv.gz"))
    columns = {name: table[name].to_numpy().astype(str) for name in ("app", "device", "os", "channel", "ip")}
    columns["hour"] = (table["click_time"].to_numpy().astype("datetime64[h]").astype(int) % 24).astype(str)
    for a, b in (("app", "channel"), ("app", "os")):
        columns[f"{a} x {b}"] = np.char.add(np.char.add(columns[a], "/"), columns[b])
    y = table["is_attributed"].to_numpy() == 1
    return _in_time("TalkingData", columns, y, 0.55, ("next 15%", "then 15%", "last 15%"))


def svmlight(path: Path, name: str, train: str, test: str) -> Problem:
    from sklearn.datasets import load_svmlight_files

    X, y, Z, z = load_svmlight_files([str(_file(path, train)), str(_file(path, test))])
    return Problem(name, csr_array(X), y > 0, (("test", csr_array(Z), z > 0),), INDICATORS)


def ipinyou(path: Path) -> Problem:
    """Return iPinYou, with one click in a hundred rows; the test is from another day."""
    return svmlight(path, "iPinYou", "ipinyou.train.svm.gz", "ipinyou.test.svm.gz")


def fewer_negatives(problem: Problem, rate: float, seed: int = 0) -> Problem:
    """Return a problem with a fraction `rate` of the negatives, each weighted by 1 / rate."""
    is_kept = problem.y | (np.random.default_rng(seed).random(len(problem.y)) < rate)
    weights = np.where(problem.y, 1.0, 1.0 / rate)[is_kept]
    name = f"{problem.name}, {rate:.0%} of negatives"
    return Problem(name, problem.X[is_kept], problem.y[is_kept], problem.tests, problem.slab_variances, weights)


def click_problems(path: Path) -> list[Problem]:
    criteo = svmlight(path, "Criteo", "criteo.train10k.svm.gz", "criteo.test10k.svm.gz")
    frappe = svmlight(path, "Frappe", "frappe.train58k.svm.gz", "frappe.test29k.svm.gz")
    return [flights(path), talkingdata(path), criteo, frappe]
