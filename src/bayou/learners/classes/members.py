"""The learners of all classes: each separates its class from the rest; all use the same table rows for features."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from bayou.core.learner import Learner
from bayou.core.memory import check_room
from bayou.core.state import resized
from bayou.learners.classes.compact_index import FEW, CompactIndex
from bayou.recipe.numbering import Numbering

# Counters of each class: examples since it joined, and its own among them.
ALL_CLASSES, OWN_CLASS = range(2)
# Available memory is checked before tables grow by more than this.
MIN_CHECKED_BYTES = 64 << 20
# Arrays of learners that files leave out: the loss on later rows is tallied for all classes together.
UNUSED = ("tally",)


class Members:
    """The learners of the classes so far, in the order in which the classes joined.

    Args:
        make: constructor of the learner of one class.
        n_features: number of features; learners that are `banks` get a row for each feature seen.
        own: all other arguments of the learners.
    """

    def __init__(self, make: Callable[..., Learner], n_features: int, banks: bool, own: dict[str, Any]) -> None:
        self._make, self._n_features, self._banks, self._own = make, n_features, banks, own
        self.index = CompactIndex(n_features, numbered=banks and n_features > FEW)
        self._ids = np.zeros(0, np.uint64)  # of the index, while it is restored
        self._spare: Learner | None = self._new(0)
        self.like = self._spare  # stands for any of the learners, which are all alike
        self.learners: list[Learner] = []
        self.labels, self.learned = np.zeros(0), np.zeros((0, 2), np.int64)

    def __len__(self) -> int:
        return len(self.learners)

    def _new(self, number: int) -> Learner:
        own = dict(self._own)
        if "seed" in inspect.signature(self._make).parameters:
            own["seed"] = own.get("seed", 0) + number
        return self._make(n_features=self.index.rows, **own)

    def join(self, label: float) -> None:
        """Add a class."""
        learner, self._spare = self._spare or self._new(len(self)), None
        self.learners.append(learner)
        self.labels = np.append(self.labels, label)
        self.learned = np.pad(self.learned, ((0, 1), (0, 0)))

    def resize(self) -> None:
        """Resize all tables to the number of rows of the index."""
        rows = self.index.rows
        self.learners = [one if one.n_features == rows else resized(one, rows) for one in self.learners]

    def check_room(self, n_classes: int, rows: int) -> None:
        """Raise BadInput if there is not enough memory for this many classes and rows."""
        each, taken = self.like.nbytes_for(rows), self.like.nbytes_for(self.index.n_rows_used)
        more = n_classes * each - len(self) * taken
        if self._banks and more > MIN_CHECKED_BYTES:
            what = f"{n_classes} classes x {rows:,} features x {each // rows} bytes"
            check_room(what, more, 'Use fewer features, or learner="marginal", which takes 8 bytes')

    def touched(self) -> np.ndarray:
        """Return the features that any learner has seen, ascending."""
        features = self.index.features()
        if features is not None:
            return np.sort(features)
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(one.touched for one in self.learners)]))

    def ask(self, asked: Callable[[Learner, Any], Any], features: Any) -> np.ndarray:
        """Return `asked(learner, places)` for each learner and some features, shape (classes, features)."""
        places = self.index.rows_of(np.arange(self._n_features)[features])
        rows = [asked(learner, places) for learner in self.learners]
        return np.stack(rows) if rows else np.zeros((0, len(places)), self._own["dtype"])

    # --- files --------------------------------------------------------------------------------------------------

    @property
    def ids(self) -> np.ndarray:
        """Ids of the features that have a row of their own; empty if all have."""
        numbering = self.index.numbering
        return self._ids if self._ids.size or numbering is None else numbering.arrays()["ids"]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learners' arrays, keyed by their names in the model file."""
        each = ((k, learner._arrays()) for k, learner in enumerate(self.learners))
        return {f"{k}:{name}": array for k, arrays in each for name, array in arrays.items() if name not in UNUSED}

    def named(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names, in the model file, of some arrays of all learners."""
        return tuple(f"{k}:{name}" for k in range(len(self)) for name in names if name not in UNUSED)

    def make_room(self, shapes: dict[str, tuple[int, ...]], max_classes: int) -> None:
        """Add classes and resize tables for arrays of these shapes, which are about to be loaded."""
        self._ids = np.zeros(shapes.get("ids", (0,)), np.uint64)
        for _ in range(len(self), min(shapes.get("labels", (0,))[0], max_classes)):
            self.join(0.0)
        if self.index.numbering is not None and self.learners:
            self.index.rows = shapes.get(f"0:{self.like._per_feature_arrays[0]}", (self.index.rows,))[0]
            self.resize()
        for k, learner in enumerate(self.learners):
            prefix = f"{k}:"
            learner._make_room({n.removeprefix(prefix): s for n, s in shapes.items() if n.startswith(prefix)})

    def restore(self) -> None:
        """Recompute the state that files do not store, after the arrays were loaded."""
        for learner, learned in zip(self.learners, self.learned[:, ALL_CLASSES].tolist(), strict=True):
            learner._examples = learned
            learner._check_state()
        if self.index.numbering is not None:
            self.index.numbering = Numbering.from_arrays(self._n_features, {"ids": self._ids})
        self._ids = np.zeros(0, np.uint64)
