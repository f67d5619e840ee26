"""Table 5: a larger text set, a part of it and all (quadratic-l1, section 7.1); IMDB and Enron instead of RCV1.

RCV1-v2 is not free to ship. As there, features are cosine-normalised log tf-idf weights: left a part of the training
set, where all algorithms can be run, right all of it by reduced memory alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.reproduce.experiment import ExperimentOptions, Report
from bayou.reproduce.quadratic_l1 import picture, solutions
from bayou.reproduce.quadratic_l1.data import documents
from bayou.reproduce.quadratic_l1.solutions import Problem, after, by_pass, largest, shown, weights_of

SETS = {"IMDB": "imdb_reviews.jsonl.gz", "Enron": "enron_spam.jsonl.gz"}
PART = 10  # one document in ten is in the small training set
ROOM, LARGE_ROOM = 1500, 2500
PENALTY, LARGE_PENALTY = 1.0, 10.0
# Left, gamma = 10, k = 1500: online, and z = 2, 5, 10.
PRINTED = {"online": 24.798, "z = 2": 87.940, "z = 5": 0.480, "z = 10": 0.001}


class TextDataset(NamedTuple):
    """Text set: all training documents, which of them are in the small part, and the test documents."""

    X: Any
    y: np.ndarray
    small: np.ndarray
    test_X: Any
    test_y: np.ndarray
    names: list[str]


def texts(options: ExperimentOptions, name: str) -> TextDataset:
    """Return tf-idf features of a text set, with idf from the training documents. Enron is split at random."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    rows = documents(options, SETS[name])
    generator = np.random.default_rng(0)
    if "split" in rows[0]:
        train = np.array([document["split"] == "train" for document in rows])
    else:
        train = generator.random(len(rows)) < 0.75
    if options.quick:
        sampled = np.flatnonzero(generator.random(len(rows)) < 0.2)
        rows, train = [rows[k] for k in sampled], train[sampled]
    y = np.array([float(document["label"] in (1, "1", "pos", "positive", "spam")) for document in rows])
    weigh = TfidfVectorizer(min_df=2, sublinear_tf=True)
    X = weigh.fit_transform([document["text"] for document, is_train in zip(rows, train, strict=True) if is_train])
    test_X = weigh.transform([document["text"] for document, is_train in zip(rows, train, strict=True) if not is_train])
    small = np.arange(X.shape[0]) % PART == 0
    return TextDataset(X, y[train], small, test_X, y[~train], weigh.get_feature_names_out().tolist())


def run(report: Report) -> None:
    columns = ("what", *PRINTED)
    rows = [("paper: RCV1, 23,149 documents, gamma = 10", *(shown(gap) for gap in PRINTED.values()))]
    lines, panels, weight_tables = [], {}, []
    for name in report.each(list(SETS)):
        data = texts(report.options, name)
        X, y = data.X[data.small], data.y[data.small]
        report.say(f"{name}, {len(y):,} documents of {len(data.y):,}, {X.shape[1]:,} words")
        problem = Problem(X, y, PENALTY)
        gaps = problem.gaps("reduced", max_active=ROOM)
        our_gaps = (problem.online_gap, *(after(gaps, z) for z in (2, 5, 10)))
        rows.append((f"{name}, {len(y):,} documents", *map(shown, our_gaps)))
        lines += [(name, *line) for line in (*by_pass("online", [problem.online_gap]), *by_pass("RMMP", gaps))]
        panels[name] = {f"RMMP, k = {ROOM}": picture.by_pass(gaps)}
        batch = Batch.from_csr(data.X, data.y)
        learner = solutions.solved(batch, X.shape[1], LARGE_PENALTY, algorithm="reduced", max_active=LARGE_ROOM)
        report.notes.append(
            f"{name}, all {len(data.y):,} documents, gamma = {LARGE_PENALTY:.0f}, k = {LARGE_ROOM}: "
            f"{learner.active_size} weights are not 0, {learner.n_passes} passes, violation "
            f"{learner.kkt_violation / LARGE_PENALTY:.1e} of the penalty."
        )
        weights = weights_of(learner)
        first = [
            (word, f"{problem.exact[j]:.3f}", f"{weights[j]:.3f}") for j, word in largest(weights, data.names)[:10]
        ]
        weight_tables.append((f"{name}: the ten largest weights of all documents", ("what", "a tenth", "all"), first))
    title = f"l1-table5: L1 distance from the batch solution, gamma = {PENALTY:g}, RMMP with k = {ROOM}"
    report.table(title, columns, rows)
    for table in weight_tables:
        report.table(*table)
    report.csv(("set", "method", "pass", "l1_gap"), lines)
    picture.draw(report, panels, ("passes", "L1 distance"))
