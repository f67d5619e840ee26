"""One run of `bayou select`: learners with ever smaller inclusion priors side by side, and what each size is worth."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import typer
from scipy.sparse import csr_array
from scipy.special import ndtr

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.evaluate.classification import Meter
from bayou.learners.spike_slab import SpikeSlab
from bayou.outputs.text import output
from bayou.sources import Source

# From "as likely as not" to the least there is: on text each selects about a quarter less than the one before.
PRIORS = (0.5, 0.35, 0.25, 0.15, 0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-7, 1e-10, 1e-15, 1e-20, 1e-30)
# So many held-out examples are kept; of more every other one is dropped, again and again.
MOST_KEPT = 100_000


@dataclass(frozen=True)
class Point:
    """A sparse model, and what it is worth on the held-out examples."""

    inclusion_prior: float
    features: np.ndarray
    weights: np.ndarray
    inclusion: np.ndarray
    intercept: float
    log_loss: float | None
    auc: float | None
    wanted: int | None = None  # None: all that the learner selected

    @property
    def size(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class Found:
    """What a run has to show: all learners of the path, and the models of the sizes wanted."""

    path: list[Point]
    sizes: list[Point]
    names: dict[int, str]
    examples: int
    held_out: int
    positives: float
    skipped: int
    seconds: float
    notes: list[str]


class Selecting:
    """Learn from all but the held-out examples of a source; then cut models to the sizes wanted."""

    def __init__(self, source: Source, sizes: Sequence[int], holdout: float, parameters: dict[str, Any]) -> None:
        self._source, self._sizes, self._holdout = source, sizes, holdout
        common = {**parameters, "n_features": source.recipe.n_features}
        self.learners = [SpikeSlab(**{**common, "inclusion_prior": prior}) for prior in PRIORS]
        self._n_features = source.recipe.n_features
        self._kept: list[tuple[csr_array, np.ndarray, np.ndarray]] = []
        self._step = 1

    def run(self, progress: Callable[[int], Any] = lambda done: None) -> Found:
        start = time.perf_counter()
        seen = 0
        for batch in self._source:
            numbers = np.arange(seen, seen + len(batch))
            held = np.floor((numbers + 1) * self._holdout) > np.floor(numbers * self._holdout)
            seen += len(batch)
            for learner in self.learners:
                learner.learn(batch.with_labels(batch.labels, np.where(held, 0.0, batch.each_weight())))
            self._keep(batch, np.flatnonzero(held))
            progress(self._source.bytes_done)
        self._source.check_learned((), 0)
        held_out = sum(len(labels) for _, labels, _ in self._kept)
        if not held_out:
            raise BadInput(f"{seen:,} examples are too few to hold some out; give more of them, or a larger --holdout.")
        path = [self._point(learner, learner.selected) for learner in self.learners]
        sizes = [self._cut(path, size) for size in self._sizes]
        chosen = np.unique(np.concatenate([point.features for point in sizes]))
        weight = sum(float(weights.sum()) for _, _, weights in self._kept)
        positive = sum(float(weights @ labels) for _, labels, weights in self._kept)
        return Found(
            path=path,
            sizes=sizes,
            names=self._names(chosen),
            examples=seen,
            held_out=held_out,
            positives=positive / max(weight, 1e-300),
            skipped=self._source.skipped,
            seconds=time.perf_counter() - start,
            notes=self._notes(path),
        )

    def _keep(self, batch: Batch, rows: np.ndarray) -> None:
        """Held-out rows for the end."""
        X = csr_array((batch.values, batch.indices.astype(np.int64), batch.indptr), (len(batch), self._n_features))
        rows = rows[:: self._step]
        labels = np.asarray(batch.labels)[rows] == 1
        self._kept.append((X[rows], labels, batch.each_weight()[rows]))
        if sum(len(labels) for _, labels, _ in self._kept) > MOST_KEPT:
            self._kept = [(X[::2], labels[::2], weights[::2]) for X, labels, weights in self._kept]
            self._step *= 2

    def _point(self, learner: SpikeSlab, features: np.ndarray, wanted: int | None = None) -> Point:
        """The model of some features of a learner, by its formula: Phi(intercept + sum of weight * value)."""
        weights = np.asarray(learner._mean_at(features), np.float64)
        small = np.zeros(self._n_features)
        small[features] = weights
        meter = Meter()
        for X, labels, importance in self._kept:
            meter.add(ndtr(X @ small + learner.intercept[0]), labels, importance)
        result = meter.result()
        return Point(
            inclusion_prior=learner.parameters["inclusion_prior"],
            features=features,
            weights=weights,
            inclusion=learner.inclusion[features],
            intercept=learner.intercept[0],
            log_loss=result.log_loss,
            auc=result.auc,
            wanted=wanted,
        )

    def _cut(self, path: Sequence[Point], size: int) -> Point:
        """The learner that selected so many or the fewest more, cut to its most probable features."""
        enough = [k for k, point in enumerate(path) if point.size >= size]
        k = min(enough, key=lambda k: path[k].size) if enough else int(np.argmax([point.size for point in path]))
        log_odds = self.learners[k].log_odds[path[k].features]
        first = np.sort(np.argsort(-log_odds, kind="stable")[:size])
        return self._point(self.learners[k], path[k].features[first], wanted=size)

    def _names(self, features: np.ndarray) -> dict[int, str]:
        names = self._source.carried.names
        known = names.name_of(features) if names is not None else [None] * len(features)
        return {
            int(feature): str(feature) if name is None else name for feature, name in zip(features, known, strict=True)
        }

    def _notes(self, path: Sequence[Point]) -> list[str]:
        most = max(point.size for point in path)
        short = [size for size in self._sizes if size > most]
        return [f"no more than {most:,} features were found to matter; {max(short):,} were wanted"] if short else []


def as_dict(found: Found) -> dict[str, Any]:
    def plain(point: Point) -> dict[str, Any]:
        return {
            "size": point.size,
            "inclusion_prior": point.inclusion_prior,
            "log_loss": point.log_loss,
            "auc": point.auc,
        }

    return {
        "examples": found.examples,
        "held_out": found.held_out,
        "positives": found.positives,
        "skipped": found.skipped,
        "seconds": found.seconds,
        "sizes": [{"wanted": point.wanted, **plain(point)} for point in found.sizes],
        "path": [plain(point) for point in found.path],
    }


def show(found: Found) -> None:
    typer.echo(f"{'size':>8}{'log loss':>12}{'AUC':>10}{'inclusion prior':>18}")
    for point in found.sizes:
        loss = "-" if point.log_loss is None else f"{point.log_loss:.5f}"
        auc = "-" if point.auc is None else f"{point.auc:.4f}"
        typer.echo(f"{point.size:>8,}{loss:>12}{auc:>10}{point.inclusion_prior:>18g}")
    typer.echo(f"{found.examples:,} examples read, {found.held_out:,} of them held out", err=True)


def write_features(found: Found, out: str) -> None:
    """Every feature of every size: size, feature, weight, inclusion."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "feature", "weight", "inclusion"])
    for point in found.sizes:
        writer.writerow([point.size, "(intercept)", f"{point.intercept:.9g}", "1"])
        order = np.argsort(-np.abs(point.weights), kind="stable")
        for k in order:
            feature = found.names[int(point.features[k])]
            writer.writerow([point.size, feature, f"{point.weights[k]:.9g}", f"{point.inclusion[k]:.9g}"])
    with output(out) as file:
        file.write(text.getvalue().encode())
