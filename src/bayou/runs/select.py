"""Feature selection: learners with decreasing inclusion priors, trained side by side and cut to given sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import ndtr

from bayou import sources
from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.spelling import option
from bayou.core.state import resized
from bayou.evaluate.binary import Meter
from bayou.learners.classes.compact_index import FEW, CompactIndex
from bayou.learners.spike_slab import SpikeSlab
from bayou.runs import memory
from bayou.runs import settings as parameters
from bayou.runs.holdout import HoldoutRows, HoldoutSpec
from bayou.runs.options import Data, Note, RunOptions, options_of

# From even odds to nearly 0: on text, each selects about a quarter fewer features than the one before.
PRIORS = (0.5, 0.35, 0.25, 0.15, 0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-7, 1e-10, 1e-15, 1e-20, 1e-30)
DEFAULT_SIZES = (30, 100, 300, 1000)


@dataclass(frozen=True)
class PathModel:
    """A sparse model, and its evaluation on the held-out examples."""

    inclusion_prior: float
    features: np.ndarray
    weights: np.ndarray
    inclusion: np.ndarray
    intercept: float
    log_loss: float | None
    auc: float | None
    wanted: int | None = None  # requested size; None: all features that the learner selected

    @property
    def size(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class Selection:
    """Result of a selection: all models of the path, and those of the requested sizes."""

    path: list[PathModel]
    sizes: list[PathModel]
    names: dict[int, str]
    examples: int
    held_out: int
    positives: float
    skipped: int
    seconds: float
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the output of `bayou select --json`."""

        def plain(source: Any, *names: str) -> dict[str, Any]:
            return {name: getattr(source, name) for name in names}

        scores = ("size", "inclusion_prior", "log_loss", "auc")
        return plain(self, "examples", "held_out", "positives", "skipped", "seconds") | {
            "sizes": [plain(point, "wanted", *scores) for point in self.sizes],
            "path": [plain(point, *scores) for point in self.path],
        }


class SelectionOptions(RunOptions, total=False):
    """Options of `select` in addition to those of every run."""

    settings: Mapping[str, Any] | Sequence[str]
    holdout: float


def select(
    data: Data,
    sizes: Sequence[int] = DEFAULT_SIZES,
    *,
    on_progress: Callable[[int], Any] = lambda done: None,
    **options: Unpack[SelectionOptions],
) -> Selection:
    """Select the features that matter, for models of several sizes, in one pass over the data.

    Args:
        data: as for `bayou.train`.
        sizes: numbers of features, one for each model.
        on_progress: called with the number of bytes read so far.
        settings: parameters of spike-slab, by name.
        holdout: fraction of examples to test on; 0.1 by default.
        options: format, on_error, threads, on_note and the recipe options, as for `bayou.train`.
    """
    return SelectionRun(data, sizes, **options).run(on_progress)


class SelectionRun:
    """Selection in two steps: the constructor checks the options and raises BadInput, `run` does the work."""

    def __init__(self, data: Data, sizes: Sequence[int] = DEFAULT_SIZES, **options: Unpack[SelectionOptions]) -> None:
        parsed = options_of(options, settings=(), holdout=0.1)
        fixed = parameters.parse(parsed.own.settings, SpikeSlab, taken=("n_features", "inclusion_prior", "predictive"))
        small = SpikeSlab(n_features=1, **{"dtype": "float32", **fixed})
        dtype = small.parameters["dtype"]
        source = self.source = sources.open(data, recipe=parsed.recipe, dtype=dtype, **parsed.opening)
        if (task := source.fit_recipe().task) != "binary":
            labels = "several classes" if task == "multiclass" else "numbers"
            raise BadInput(
                f"select is for two classes, but the labels are {labels}; specify the positive class with "
                f"{option('positive')} or {option('label_above')}."
            )
        self._sizes, self._held_out = sorted(set(sizes)), HoldoutRows(HoldoutSpec(parsed.own.holdout, last=False))
        self._n_features = source.recipe.n_features
        # Features are numbered as they appear, so that only seen features take memory.
        self._table = CompactIndex(self._n_features, numbered=self._n_features > FEW)
        n_megabytes = small.nbytes_for(1 << 20) * len(PRIORS) >> 20
        parsed.note(Note(f"{len(PRIORS)} learners side by side, {n_megabytes} bytes of memory for every feature seen"))
        common = {**small.parameters, "n_features": self._table.rows}
        self.learners = [SpikeSlab(**{**common, "inclusion_prior": prior}) for prior in PRIORS]

    def run(self, on_progress: Callable[[int], Any] = lambda done: None) -> Selection:
        start = time.perf_counter()
        held_out = self._held_out
        for batch in held_out.training_batches(self.source, keep=True):
            self._learn(batch.take(np.flatnonzero(batch.weights_or_ones() > 0)))
            on_progress(self.source.bytes_done)
        self.source.check_learned((), 0)
        if not held_out.seen:
            raise BadInput(
                f"{held_out.rows:,} examples are too few for a holdout; provide more of them, or a larger "
                f"{option('holdout')}."
            )
        path = [self._point(learner, learner.selected) for learner in self.learners]
        sizes = [self._cut(path, size) for size in self._sizes]
        selected = np.unique(np.concatenate([point.features for point in sizes]))
        labels, weights = (
            np.concatenate(arrays) for arrays in zip(*map(_labels_and_weights, held_out.kept), strict=True)
        )
        return Selection(
            path=path,
            sizes=sizes,
            names=self._names(selected),
            examples=held_out.rows,
            held_out=len(labels),
            positives=float(weights @ labels) / max(float(weights.sum()), 1e-300),
            skipped=self.source.skipped,
            seconds=time.perf_counter() - start,
            notes=[*self._notes(path), *self.source.warnings],
        )

    def _learn(self, batch: Batch) -> None:
        weights = batch.weights_or_ones()
        placed = self._table.reindex(batch, weights).with_labels(batch.labels, weights)
        if self._table.rows > self.learners[0].n_features:
            memory.check(self.learners[0], self._table.rows * len(PRIORS))
            self.learners = [resized(learner, self._table.rows) for learner in self.learners]
        for learner in self.learners:
            learner.learn(placed)

    def _features(self, slots: np.ndarray) -> np.ndarray:
        """Return the features at these positions of the compact table."""
        features = self._table.features()
        return slots if features is None else features[slots - 1]

    def _point(self, learner: SpikeSlab, slots: np.ndarray, requested: int | None = None) -> PathModel:
        """Evaluate the model that keeps only these features of a learner: Phi(intercept + sum of weight * value)."""
        order = np.argsort(self._features(slots), kind="stable")
        slots = slots[order]
        features, weights = self._features(slots), learner.weights_at(slots).mean
        small = np.zeros(self._n_features)
        small[features] = weights
        meter = Meter()
        for batch in self._held_out.kept:
            score = batch.to_csr(self._n_features) @ small + learner.intercept[0]
            meter.add(ndtr(score), *_labels_and_weights(batch))
        result = meter.result()
        return PathModel(
            inclusion_prior=learner.parameters["inclusion_prior"],
            features=features,
            weights=weights,
            inclusion=learner.inclusion[slots],
            intercept=learner.intercept[0],
            log_loss=result.log_loss,
            auc=result.auc,
            wanted=requested,
        )

    def _cut(self, path: Sequence[PathModel], size: int) -> PathModel:
        """Cut the learner that selected the fewest features, but at least `size`, to its `size` most probable ones."""
        enough = [k for k, point in enumerate(path) if point.size >= size]
        k = min(enough, key=lambda k: path[k].size) if enough else int(np.argmax([point.size for point in path]))
        slots = self.learners[k].selected
        log_odds = self.learners[k].log_odds[slots]
        first = np.sort(np.argsort(-log_odds, kind="stable")[:size])
        return self._point(self.learners[k], slots[first], requested=size)

    def _names(self, features: np.ndarray) -> dict[int, str]:
        names = self.source.extras.names
        names_or_none = names.name_of(features) if names is not None else [None] * len(features)
        return {
            int(feature): str(feature) if name is None else name
            for feature, name in zip(features, names_or_none, strict=True)
        }

    def _notes(self, path: Sequence[PathModel]) -> list[str]:
        max_size = max(point.size for point in path)
        short = [size for size in self._sizes if size > max_size]
        return [f"no more than {max_size:,} features were found to matter; {max(short):,} were wanted"] if short else []


def _labels_and_weights(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the positive examples, and the weights."""
    return np.asarray(batch.labels) == 1, batch.weights_or_ones()
