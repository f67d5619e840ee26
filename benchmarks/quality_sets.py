"""The real streams that quality is measured on, as CSR rows and labels -1 or +1, prepared the same way each time.

    svmlight files   as they are
    tables           every cell one indicator, hashed to 2^18 columns; numbers cut at their 20-quantiles first
    text             TfidfVectorizer(min_df=2, sublinear_tf=True)

Where a set has a train and a test part, the train part comes first (mushrooms: only the train part). Rows keep
the order of their file. Quantiles and document frequencies are those of the whole set: they do not use the labels,
and every contender reads the same rows.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.feature_extraction.text import TfidfVectorizer

Rows = tuple[sparse.csr_matrix, np.ndarray]

HASH_BITS = 18
QUANTILES = 20


def data_folder() -> Path:
    """The folder BAYOU_DATA names, or shared/data beside the repository."""
    named = os.environ.get("BAYOU_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


# --- the three kinds of files ---------------------------------------------------------------------------------------


def svmlight(data: Path, *names: str, positive: float = 1.0) -> Rows:
    parts = load_svmlight_files([str(data / f"{name}.svm.gz") for name in names], zero_based=False)
    return sparse.vstack(parts[0::2]).tocsr(), np.where(np.concatenate(parts[1::2]) == positive, 1.0, -1.0)


class Table(NamedTuple):
    """A table on its way to rows: one indicator per cell, also for an empty one, in 2^18 buckets for all columns."""

    frame: pd.DataFrame
    labels: np.ndarray
    numbers: list[str]
    categories: list[str]

    def cells(self) -> np.ndarray:
        columns = [_hashed(name, _cut(self.frame[name])) for name in self.numbers]
        columns += [_hashed(name, self.frame[name].fillna("").astype(str)) for name in self.categories]
        return np.column_stack(columns)

    def rows(self) -> Rows:
        cells = self.cells()
        indptr = np.arange(0, cells.size + 1, cells.shape[1])
        X = sparse.csr_matrix((np.ones(cells.size), cells.ravel(), indptr), shape=(len(self.frame), 1 << HASH_BITS))
        X.sum_duplicates()
        return X, np.where(self.labels, 1.0, -1.0)

    def fields(self) -> np.ndarray:
        """The column of each feature, from 1 on; 0 for features that no cell has. Of two that share one the first."""
        cells, found = self.cells(), np.zeros(1 << HASH_BITS, np.uint8)
        for column in reversed(range(cells.shape[1])):
            found[cells[:, column]] = column + 1
        return found


def table(frame: pd.DataFrame, labels: np.ndarray, numbers: list[str], categories: list[str]) -> Rows:
    return Table(frame, labels, numbers, categories).rows()


class Columns(NamedTuple):
    """Rows whose features are of known columns: of each feature its number from 1 on, or 0."""

    X: sparse.csr_matrix
    labels: np.ndarray
    of_features: np.ndarray

    def rows(self) -> Rows:
        return self.X, np.where(self.labels, 1.0, -1.0)

    def fields(self) -> np.ndarray:
        return self.of_features.astype(np.uint8)


def one_hot_fields(X) -> np.ndarray:
    """Where every field gives a row one feature, and features are numbered field by field: the field of each feature.

    The longest rows have all of them: feature k of such a row is of field k.
    """
    lengths = np.diff(X.indptr)
    whole = np.flatnonzero(lengths == lengths.max())
    first = X.indices[X.indptr[whole][:, None] + np.arange(lengths.max())].min(axis=0)
    return np.searchsorted(first, np.arange(X.shape[1]), side="right").clip(1, 255).astype(np.uint8)


def _cut(column: pd.Series) -> pd.Series:
    """The number of the quantile, or "" for an empty cell. Ties fall into one quantile."""
    values = column.to_numpy(dtype=float)
    edges = np.unique(np.nanquantile(values, np.arange(1, QUANTILES) / QUANTILES))
    slots = np.searchsorted(edges, values, side="right").astype(str)
    return pd.Series(np.where(np.isnan(values), "", slots))


def _hashed(name: str, cells: pd.Series) -> np.ndarray:
    codes, kinds = pd.factorize(cells)
    buckets = np.array([zlib.crc32(f"{name}={kind}".encode()) & ((1 << HASH_BITS) - 1) for kind in kinds])
    return buckets[codes]


def text(data: Path, name: str, positive: Callable[[dict], bool]) -> Rows:
    with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows.sort(key=lambda row: row.get("split") == "test")  # stable: train, then test
    X = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform([row["text"] for row in rows])
    return X.tocsr(), np.array([1.0 if positive(row) else -1.0 for row in rows])


# --- the sets -------------------------------------------------------------------------------------------------------


def _flights(data: Path) -> Table:
    """Arrival more than 15 minutes late, from what is known before departure; flights that arrived."""
    frame = pd.read_csv(data / "nycflights13.csv.gz")
    frame = frame[frame["arr_delay"].notna()].reset_index(drop=True)
    numbers = ["sched_dep_time", "sched_arr_time", "flight"]
    categories = ["month", "day", "carrier", "tailnum", "origin", "dest"]
    return Table(frame, (frame["arr_delay"] > 15).to_numpy(), numbers, categories)


def _adult(data: Path) -> Table:
    frame = pd.read_csv(data / "adult.csv.gz").sort_values("split", key=lambda c: c == "test", kind="stable")
    frame = frame.reset_index(drop=True)
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    categories = [name for name in frame.columns if name not in [*numbers, "income", "split"]]
    return Table(frame, frame["income"].str.startswith(">50K").to_numpy(), numbers, categories)


def _bank_marketing(data: Path) -> Table:
    """Without the duration of the call, which is known only after it."""
    frame = pd.read_csv(data / "bank_marketing.csv.gz")
    numbers = ["day", "campaign", "pdays", "previous", "age", "balance"]
    categories = [name for name in frame.columns if name not in [*numbers, "duration", "y"]]
    return Table(frame, (frame["y"] == "yes").to_numpy(), numbers, categories)


def _talkingdata(data: Path) -> Table:
    """The numbers are ids (of an address, an app, ...); of the click time only the hour is used."""
    frame = pd.read_csv(data / "talkingdata.sample100k.csv.gz")
    frame["hour"] = frame["click_time"].str[11:13]
    categories = ["ip", "app", "device", "os", "channel", "hour"]
    return Table(frame, (frame["is_attributed"] == 1).to_numpy(), [], categories)


def _nsl_kdd(data: Path) -> Table:
    """An attack or a normal connection; the test part has kinds of attacks that the train part lacks."""
    frame = pd.read_csv(data / "nsl_kdd.csv.gz").sort_values("split", key=lambda c: c == "test", kind="stable")
    frame = frame.reset_index(drop=True)
    categories = ["protocol_type", "service", "flag", "land", "logged_in", "root_shell", "is_host_login"]
    categories += ["is_guest_login", "su_attempted"]
    numbers = [name for name in frame.columns if name not in [*categories, "class", "split"]]
    return Table(frame, (frame["class"] != "normal").to_numpy(), numbers, categories)


def _openbandit(data: Path) -> Table:
    frame = pd.read_csv(data / "openbandit.sample60k.csv.gz")
    frame["hour"] = frame["timestamp"].str[11:13]
    numbers = ["propensity_score", "user_item_affinity", "user_affinity_total", "item_feature_0"]
    categories = [name for name in frame.columns if name not in [*numbers, "timestamp", "click"]]
    return Table(frame, (frame["click"] == 1).to_numpy(), numbers, categories)


def _criteo_raw(data: Path) -> Table:
    frame = pd.read_csv(data / "criteo.raw8k.tsv.gz", sep="\t", header=None)
    frame.columns = [f"c{k}" for k in range(40)]
    numbers = [f"c{k}" for k in range(1, 14)]
    return Table(frame, (frame["c0"] == 1).to_numpy(), numbers, [f"c{k}" for k in range(14, 40)])


def _covtype_binned(data: Path) -> Table:
    """Ten numbers in bins, and two categories that the file has as indicators."""
    X, y = svmlight(data, "covtype.sample20k", positive=2.0)
    dense = np.asarray(X.todense())
    frame = pd.DataFrame({f"n{k}": dense[:, k] for k in range(10)})
    frame["wilderness"], frame["soil"] = dense[:, 10:14].argmax(axis=1), dense[:, 14:].argmax(axis=1)
    return Table(frame, y > 0, [f"n{k}" for k in range(10)], ["wilderness", "soil"])


def _labelled(row: dict) -> bool:
    return row["label"] == 1


SETS: dict[str, Callable[[Path], Rows | Table | Columns]] = {
    # used while the bank was designed; small ones first
    "mushrooms": lambda data: svmlight(data, "mushrooms.train"),
    "rcv1": lambda data: svmlight(data, "rcv1.train1k", "rcv1.test500"),
    "sms": lambda data: text(data, "sms_spam", _labelled),
    "covtype": lambda data: svmlight(data, "covtype.sample20k", positive=2.0),
    "a9a": lambda data: svmlight(data, "a9a.train", "a9a.test"),
    "w8a": lambda data: svmlight(data, "w8a.train"),
    "reuters": lambda data: text(data, "reuters21578_modapte", lambda row: "earn" in row["label"]),
    "criteo": lambda data: svmlight(data, "criteo.train10k", "criteo.test10k"),
    "ipinyou": lambda data: svmlight(data, "ipinyou.train", "ipinyou.test"),
    "frappe": lambda data: svmlight(data, "frappe.train58k", "frappe.test29k"),
    "adult": _adult,
    "bank_marketing": _bank_marketing,
    "talkingdata": _talkingdata,
    "newsgroups": lambda data: text(data, "newsgroups20_bydate", lambda row: row["label"].startswith("comp.")),
    "enron_spam": lambda data: text(data, "enron_spam", _labelled),
    "imdb": lambda data: text(data, "imdb_reviews", _labelled),
    "flights": _flights,
    # not used in any choice about the bank
    "phishing": lambda data: svmlight(data, "phishing"),
    "splice": lambda data: svmlight(data, "splice"),
    "higgs": lambda data: svmlight(data, "higgs.train7k", "higgs.test500"),
    "madelon": lambda data: svmlight(data, "madelon"),
    "basehock": lambda data: svmlight(data, "basehock"),
    "pcmac": lambda data: svmlight(data, "pcmac"),
    "relathe": lambda data: svmlight(data, "relathe"),
    "openbandit": _openbandit,
    "nsl_kdd": _nsl_kdd,
}
# For pairs of features only.
MORE: dict[str, Callable[[Path], Rows | Table | Columns]] = {
    "criteo_raw": _criteo_raw,
    "covtype_binned": _covtype_binned,
}
# svmlight files that have a feature for each of their fields.
ONE_HOT = {"criteo", "frappe", "ipinyou", "mushrooms"}
ASIDE = {"phishing", "splice", "higgs", "madelon", "basehock", "pcmac", "relathe", "openbandit", "nsl_kdd"}


def load(name: str, data: Path, cache: Path) -> Rows:
    """The rows of a set, from the cache folder if they were prepared before."""
    path = cache / f"{name}.npz"
    if not path.exists():
        made = (SETS | MORE)[name](data)
        X, y = made.rows() if isinstance(made, Table | Columns) else made
        X.eliminate_zeros()
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.npz")  # several processes may write it at once
        np.savez_compressed(
            unfinished, values=X.data, indices=X.indices.astype(np.int32), indptr=X.indptr, shape=X.shape, labels=y
        )
        unfinished.replace(path)
    with np.load(path) as held:
        X = sparse.csr_matrix((held["values"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
        return X, held["labels"]


def fields(name: str, data: Path, cache: Path) -> np.ndarray | None:
    """The field of each feature, from 1 on, where the set has fields."""
    if name in ONE_HOT:
        return one_hot_fields(load(name, data, cache)[0])
    path = cache / f"{name}.fields.npy"
    if not path.exists():
        made = (SETS | MORE)[name](data)
        np.save(path, made.fields() if isinstance(made, Table | Columns) else np.zeros(0, np.uint8))
    found = np.load(path)
    return found if len(found) else None
