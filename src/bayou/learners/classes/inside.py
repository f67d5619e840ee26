"""What can be asked of several classes, and what is kept of them in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayou.core import registry
from bayou.core.batch import Batch
from bayou.core.checks import shown
from bayou.core.class_prediction import class_names
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.prediction import Reading
from bayou.core.registry import Record
from bayou.core.validation import feature_numbers
from bayou.learners.classes.stack import StackState
from bayou.learners.classes.table import CompactIndex
from bayou.learners.ensembles.learner import Ensemble
from bayou.recipe.numbering import Numbering

# What is counted of each class: examples since it joined, and its own among them.
ALL, OWN = range(2)
# What later rows cost is counted for all classes together.
UNUSED = ("tally",)


class Inside(Ensemble):
    """The part of `Classes` that tells of itself."""

    _inner: Record
    _like: Learner
    _learners: list[Learner]
    _max_classes: int
    _table: CompactIndex
    _ids: np.ndarray
    _combination: StackState
    _later: StackState
    _labels: np.ndarray
    _learned: np.ndarray

    def _join(self, label: float) -> None:
        raise NotImplementedError

    def _resize(self) -> None:
        raise NotImplementedError

    @property
    def wants_groups(self) -> bool:  # type: ignore[override]
        return self._like.wants_groups

    @property
    def labels(self) -> np.ndarray:
        """The label of each class that is known, in the order of the columns of probabilities."""
        return self._labels.copy()

    @property
    def class_names(self) -> list[str]:
        """What the data call each class, in the order of `labels`; its label, where a model does not know that."""
        return class_names(self._labels, self.extras.classes)

    @property
    def counts(self) -> np.ndarray:
        """How many examples of each class were learned, in the order of `labels`."""
        return self._learned[:, OWN].copy()

    @property
    def posterior(self) -> bool:
        return self._inner.posterior

    @property
    def learners(self) -> list[Any]:
        """The learner of each class. Banks of many features have numbered them as they came."""
        return list(self._learners)

    @property
    def levels(self) -> dict[str, float]:
        """The shares of the learners divided by their sum, of the stacker, and of the one that forgets."""
        with self._lock:
            return dict(
                zip(("normalised", "stacker", "stacker with memory"), self._combination.shares.tolist(), strict=True)
            )

    def parts(self) -> list[dict[str, Any]]:
        """`levels` for the command."""
        return [{"name": name, "share": share} for name, share in self.levels.items()]

    @property
    def touched(self) -> np.ndarray:
        with self._lock:
            features = self._table.features()
            if features is not None:
                return np.sort(features)
            found = [one.touched for one in self._learners]
            return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    def _each(self, asked: Callable[[Learner, Any], Any], features: Any) -> np.ndarray:
        """(classes, features) of what each learner says of some."""
        places = self._table.places(np.arange(self._n_features)[features])
        rows = [asked(learner, places) for learner in self._learners]
        return np.stack(rows) if rows else np.zeros((0, len(places)), self._dtype)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._each(lambda learner, places: learner._mean_at(places), features)

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._each(lambda learner, places: learner._variance_at(places), features)

    @property
    def intercept(self) -> tuple[Any, Any]:
        """(means, variances) of the classes' intercepts."""
        with self._lock:
            pairs = np.array([learner.intercept for learner in self._learners]).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def reading_of(self, label: float, features: Any, view: str = "model", squares: Any = None) -> Reading:
        """`reading` of the class with this label: changes of its log-odds against the rest.

        >>> from bayou.learners import Classes
        >>> learner = Classes(n_features=4, learner="marginal", classes=[7, 8])
        >>> learner.reading_of(8, [0, 3]).mean
        array([0., 0.])
        """
        known = self._labels.tolist()
        if label not in known:
            raise BadInput(f"label is {shown(label)}, which is none of the classes that were met.")
        features = feature_numbers(features, self._n_features)
        with self._lock:
            return self._learners[known.index(label)].reading(self._table.places(features), view, squares)

    def places(self, features: np.ndarray) -> np.ndarray:
        """Where the classes' own learners have the weights of some features."""
        with self._lock:
            return self._table.places(features)

    def placed(self, batch: Batch) -> Batch:
        """The same rows, with features numbered as the classes' own learners have them."""
        with self._lock:
            return self._table.placed(batch, np.zeros(len(batch), self._dtype))

    def _reading(self, features: np.ndarray, squares: np.ndarray | None) -> Reading:
        raise BadInput("each class has its own weights: ask for those of one, as in reading_of(labels[0], features).")

    # --- files --------------------------------------------------------------------------------------------------

    @classmethod
    def _written(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        return registry.find(parameters["learner"]).load()._written(parameters)

    @classmethod
    def _meant(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        return registry.find(parameters["learner"]).load()._meant(parameters)

    def _arrays(self) -> dict[str, np.ndarray]:
        n_classes, numbering = len(self._learners), self._table.numbering
        ids = self._ids if self._ids.size or numbering is None else numbering.arrays()["ids"]
        progress = self._delayed.progress[::-1]  # files have whether it rests first
        own = {"labels": self._labels, "learned": self._learned, "progress": progress, "ids": ids}
        own |= {"tally": self._delayed.tally}
        own |= self._combination.arrays(n_classes)
        own |= {f"later {name}": array for name, array in self._later.arrays(n_classes).items()}
        for k, learner in enumerate(self._learners):
            own |= {f"{k}:{name}": array for name, array in learner._arrays().items() if name not in UNUSED}
        return own

    def _under(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{k}:{name}" for k in range(len(self._learners)) for name in names if name not in UNUSED)

    @property
    def _per_feature(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._under(self._like._per_feature)

    @property
    def _newer(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._under(self._like._newer)

    @property
    def _by_rows_at_hand(self) -> tuple[str, ...]:  # type: ignore[override]
        later = tuple(f"later {name}" for name in self._later.arrays(0))
        return (*later, "progress", "tally", *self._under(self._like._by_rows_at_hand))

    def _nbytes_for(self, n_features: int) -> int:
        own = sum(array.nbytes for name, array in self._arrays().items() if ":" not in name)
        return own + len(self._learners) * self._like.nbytes_for(n_features)

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self._ids = np.zeros(shapes.get("ids", (0,)), np.uint64)
        for _ in range(len(self._learners), min(shapes.get("labels", (0,))[0], self._max_classes)):
            self._join(0.0)
        if self._table.numbering is not None and self._learners:
            self._table.rows = shapes.get(f"0:{self._like._per_feature[0]}", (self._table.rows,))[0]
            self._resize()
        for k, learner in enumerate(self._learners):
            prefix = f"{k}:"
            learner._make_room({n.removeprefix(prefix): s for n, s in shapes.items() if n.startswith(prefix)})

    def _check_state(self) -> None:
        for learner, learned in zip(self._learners, self._learned[:, ALL].tolist(), strict=True):
            learner._examples = learned
            learner._check_state()
        if self._table.numbering is not None:
            self._table.numbering = Numbering.from_arrays(self._n_features, {"ids": self._ids})
        self._ids = np.zeros(0, np.uint64)
