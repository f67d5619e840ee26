"""Twenty-odd tables that people have: files of the data folder, and those that come with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

# By file: the options that `bayou look` is given.
FILES: dict[str, dict[str, Any]] = {
    "abalone.csv.gz": {"label": "Rings"},
    "adult.csv.gz": {"label": "income"},
    "bank_marketing.csv.gz": {"label": "y"},
    "bike_sharing_hourly.csv.gz": {"label": "cnt"},
    "california_housing.csv.gz": {"label": "medianHouseValue"},
    "criteo.raw8k.tsv.gz": {"format": "criteo"},
    "diabetes.csv.gz": {"label": "target"},
    "enron_spam.jsonl.gz": {"label": "label"},
    "imdb_reviews.jsonl.gz": {"label": "label"},
    "newsgroups20_bydate.jsonl.gz": {"label": "label"},
    "nsl_kdd.csv.gz": {"label": "class"},
    "nycflights13.csv.gz": {"label": "arr_delay"},
    "openbandit.sample60k.csv.gz": {"label": "click"},
    "prostate.csv.gz": {"label": "lpsa"},
    "rcv1_topics.sample2k.jsonl.gz": {"label": "label"},
    "reuters21578_modapte.jsonl.gz": {"label": "label"},
    "sms_spam.jsonl.gz": {"label": "label"},
    "talkingdata.sample100k.csv.gz": {"label": "is_attributed"},
}
TOYS = ("breast_cancer", "iris", "wine", "digits")


def decided(look: Any) -> dict[str, str]:
    """By column, its role and what it gives."""
    return {column.name: f"{column.role}: {column.gives}" if column.gives else column.role for column in look.columns}


def looks(data: Path) -> dict[str, Callable[[], dict[str, str]]]:
    """By table, what was decided about it."""
    import bayou

    def of_file(name: str) -> Callable[[], dict[str, str]]:
        return lambda: decided(bayou.look(str(data / name), **FILES[name]))

    def of_toy(name: str) -> Callable[[], dict[str, str]]:
        from sklearn import datasets

        return lambda: decided(bayou.look(getattr(datasets, f"load_{name}")(as_frame=True).frame, label="target"))

    return {name: of_file(name) for name in FILES} | {name: of_toy(name) for name in TOYS}
