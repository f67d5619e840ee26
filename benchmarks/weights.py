"""Can the weights that a model shows be read? Against its own predictions, and against batch logistic regression.

    python benchmarks/weights.py [--sets adult bank_marketing flights sms housing newsgroups]

Each set as the command reads it, in the order of the file (flights in order of time): the bank learns 70% of the rows.
Shown weights (`bayou features`: centred by column, the intercept the score of the mean row) are held

    score       against the log-odds that the model predicts: correlation with the sum of weights, of the rows that were
                learned, and of all later rows, where values come up that have no weight yet
    missed      what `bayou predict --explain` leaves for the others once all features are told, as a share of the score
                less that of the average row, roots of mean squares; also of numbers, and of several classes
    LR          against scikit-learn's logistic regression on the same features, centred too: correlation of weights,
                and how often signs agree where LR's is above .1, features used 50 times or more; then the same of the
                other view, --view associated

and the intercept, the largest weight of a column of few values, and the columns that carry most are printed. Where a
stream drifts, LR explains the past, and the bank has learned not to trust it: it need not look like LR there.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from quality_sets import data_folder
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import bayou
from bayou import sources
from bayou.core.extras import Extras
from bayou.learners import Bank, Classes
from bayou.learners.bank.linearization import mean_row_log_odds, row_coefficients, row_weights
from bayou.outputs.features import FeatureStrengths, feature_strengths, seen_features

SHARE, USED, LARGE, FEW = 0.7, 50, 0.1, 20


def flights(folder: Any) -> pd.DataFrame:
    frame = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["arr_delay"])
    frame = frame.sort_values(["time_hour", "flight"], kind="stable").assign(late=frame["arr_delay"] > 15)
    known_later = ["arr_delay", "dep_delay", "dep_time", "arr_time", "air_time"]
    return frame.drop(columns=known_later).astype({"late": int})


SETS = {
    "adult": (lambda f: pd.read_csv(f / "adult.csv.gz").drop(columns="split"), {"label": "income", "positive": ">50K"}),
    "bank_marketing": (lambda f: pd.read_csv(f / "bank_marketing.csv.gz"), {"label": "y", "positive": "yes"}),
    "flights": (flights, {"label": "late"}),
    "housing": (
        lambda f: pd.read_csv(f / "california_housing.csv.gz").sample(frac=1.0, random_state=0),
        {"label": "medianHouseValue"},
    ),
    "newsgroups": (
        lambda f: pd.read_json(f / "newsgroups20_bydate.jsonl.gz", lines=True).drop(columns="split"),
        {"label": "label", "text": ["text"]},
    ),
    "sms": (lambda f: pd.read_json(f / "sms_spam.jsonl.gz", lines=True), {"label": "label", "text": ["text"]}),
}


def rows_of(learner: Any, frame: pd.DataFrame) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    """The features that the learner has met, labels, and the log-odds that it predicts."""
    parts = []
    for batch in sources.open(frame, extras=Extras.of(learner).for_predicting()):
        told = learner.predict(batch, horizon="later").log_odds
        parts.append((batch.to_csr(learner.n_features)[:, learner.touched], batch.labels > 0, told))
    X, y, told = zip(*parts, strict=True)
    return sparse.vstack(X).tocsr(), np.concatenate(y), np.concatenate(told)


def centred(weights: np.ndarray, uses: np.ndarray, shown: FeatureStrengths) -> np.ndarray:
    weights = weights.copy()
    for k, family in enumerate(shown.families):
        own = shown.family == k
        if family.complete:
            weights[own] -= np.average(weights[own], weights=uses[own])
    return weights


def missed(learner: Any, frame: pd.DataFrame) -> float:
    """What is left for `others` once all features are told, as a share of what is explained (roots of mean squares)."""
    several, known = isinstance(learner, Classes), seen_features(learner)
    learners = learner.learners if several else [learner]
    asked = [partial(learner.reading_of, label) for label in learner.labels] if several else [learner.reading]
    readings = [reading(known.features, squares=known.squares) for reading in asked]
    mean = known.moments.mean
    places = learner.places(known.features) if several else known.features
    is_bank = isinstance(learners[0], Bank)
    banks = [row_weights(one, places, mean, known.moments.square) if is_bank else None for one in learners]
    averages = [
        one.intercept + one.mean @ mean if bank is None else mean_row_log_odds(own, bank)
        for one, own, bank in zip(readings, learners, banks, strict=True)
    ]
    left, apart = [], []
    for batch in sources.open(frame, extras=Extras.of(learner).for_predicting(), labels=False):
        told = learner.predict(batch, horizon="later")
        score = told.expected if learner.record.task == "regression" else told.log_odds
        X, placed = batch.to_csr(learner.n_features)[:, known.features], learner.placed(batch) if several else batch
        moved = np.empty((len(batch), len(learners)))
        for k, (one, bank) in enumerate(zip(learners, banks, strict=True)):
            if bank is None:
                moved[:, k] = X @ readings[k].mean - mean @ readings[k].mean
                continue
            by_mean, by_variance = row_coefficients(one, placed, bank)
            moved[:, k] = (by_mean * (X @ bank.mean - mean @ bank.mean)).sum(axis=1)
            moved[:, k] += (by_variance * (X.power(2) @ bank.variance - known.squares @ bank.variance)).sum(axis=1)
        score = score.reshape(moved.shape) - averages
        if several:
            best = np.arange(len(batch)), told.probability.argmax(axis=1)
            score, moved = (part[best] - part.mean(axis=1) for part in (score, moved))
        left.append(np.ravel(score - moved))
        apart.append(np.ravel(score))
    return float(np.sqrt(np.mean(np.concatenate(left) ** 2) / np.mean(np.concatenate(apart) ** 2)))


def measure(name: str, rows: int | None) -> None:
    read, options = SETS[name]
    frame = read(data_folder())[:rows]
    cut = int(SHARE * len(frame))
    learner = bayou.train(frame[:cut], **options).learner
    print(f"\n{name}: {cut:,} rows learned, {len(frame) - cut:,} later ones")
    print(f"  missed {missed(learner, frame[:cut]):.3f}, of later rows {missed(learner, frame[cut:]):.3f}")
    if learner.name != "bank":
        return
    shown, associated = feature_strengths(learner), feature_strengths(learner, view="associated")
    X, y, told = rows_of(learner, frame[:cut])
    later, _, told_later = rows_of(learner, frame[cut:])
    uses = np.asarray((X != 0).sum(axis=0)).ravel()
    solved = LogisticRegression(max_iter=2000).fit(X, y)
    best = centred(solved.coef_[0], uses, shown)
    often = uses >= USED
    large = often & (np.abs(best) > LARGE)
    known, new = (np.corrcoef(rows @ shown.mean, odds)[0, 1] for rows, odds in ((X, told), (later, told_later)))
    print(f"  sum of weights with predicted log-odds  {known:.4f}, of later rows {new:.4f}")
    for view, found in (("model", shown), ("associated", associated)):
        signs = np.mean(np.sign(found.mean[large]) == np.sign(best[large]))
        print(
            f"  {view:10}  with LR {np.corrcoef(found.mean[often], best[often])[0, 1]:.3f}  signs {signs:.3f}", end=""
        )
        print(f"  intercept {found.intercept:+.2f} ± {found.intercept_sd:.2f}")
    few = [c for c in shown.columns() if c.features <= FEW]
    print(f"  raw: intercept {learner.intercept[0]:+.2f}")
    for column in shown.columns()[:4] + [c for c in few if c.name == "origin"]:
        values = ", ".join(f"{shown.name(i)} {shown.mean[i]:+.2f} ± {shown.sd[i]:.2f}" for i in column.top_features[:3])
        print(f"  {column.name:16} {column.spread:.3f}  {values}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, help="no more rows of each set than these")
    options = parser.parse_args()
    for name in options.sets:
        measure(name, options.rows)


if __name__ == "__main__":
    main()
