"""Data of the paper's experiments: simulated rows, and texts."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bayou.core.errors import BadInput
from bayou.reproduce.experiment import ExperimentOptions, Report, data_folder
from bayou.reproduce.quadratic_l1.solutions import Problem

# Table 1's true weights: the intercept, then ten features of which three are redundant.
TRUTH = np.array([0.259, 0.761, -0.360, 0.876, 0.913, -0.302, -0.820, 0.0, 0.0, 0.0, -0.319])


def simulated(seed: int, rows: int, link: str = "logistic", variance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return simulated features without the intercept, and labels in {0, 1}, as in section 7."""
    generator = np.random.default_rng(seed)
    X = np.sqrt(variance) * generator.normal(size=(rows, len(TRUTH) - 1))
    noise = generator.logistic(size=rows) if link == "logistic" else generator.normal(size=rows)
    return X, (X @ TRUTH[1:] + TRUTH[0] + noise > 0).astype(float)


def documents(options: ExperimentOptions, name: str) -> list[dict[str, Any]]:
    """Return the objects of a .jsonl.gz file: one of --data, or in the folder BAYOU_DATA or ../shared/data."""
    given_paths = [Path(file) for file in options.data if Path(file).name == name]
    path = next((candidate for candidate in [*given_paths, data_folder() / name] if candidate.is_file()), None)
    if path is None:
        raise BadInput(
            f"{name} was not found: name it with --data FILE, or set BAYOU_DATA to the folder that holds it "
            "(docs/howto/data-sets.md says what it is)."
        )
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def stems_of() -> Callable[[str], list[str]]:
    """Return the function from a text to the stems of its words, which are runs of letters and digits.

    Uses Porter's algorithm (An algorithm for suffix stripping, 1980). As in his own program, words with digits and
    words of one or two letters are not changed.
    """
    try:
        import snowballstemmer
    except ImportError:
        raise BadInput(
            "word stems need snowballstemmer, which is not installed: pip install snowballstemmer."
        ) from None
    stem = cache(snowballstemmer.stemmer("porter").stemWord)

    def stems(text: str) -> list[str]:
        tokens = re.findall(r"[a-z0-9]+", text.lower())
        return [stem(word) if len(word) > 2 and word.isalpha() else word for word in tokens]

    return stems


def reuters(report: Report, penalty: float) -> tuple[Problem, list[str]]:
    """Return the problem of counts of stems in the ModApte training documents, labeled 'earn' or not, and the stems."""
    from sklearn.feature_extraction.text import CountVectorizer

    train = [doc for doc in documents(report.options, "reuters21578_modapte.jsonl.gz") if doc["split"] == "train"]
    if report.options.quick:
        train = train[:3000]
    counter = CountVectorizer(analyzer=stems_of(), dtype=np.float64)
    X = counter.fit_transform([doc["text"] for doc in train])
    report.say(f"{len(train):,} documents, {X.shape[1]:,} stems, gamma = {penalty:.0f}")
    y = np.array([float("earn" in doc["label"]) for doc in train])
    return Problem(X, y, penalty), counter.get_feature_names_out().tolist()
