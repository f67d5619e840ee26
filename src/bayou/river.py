"""The river interface: any learner as a river estimator.

    from bayou import river

    model = river.Classifier("marginal", bits=18, prior_variance=1.0)
    model.learn_one({"age": 37, "site": "a.com"}, True)

Rows are dictionaries; `bayou.sources.rows` defines how names and values become features.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

try:
    from river import base
except ImportError:
    raise ImportError("bayou.river needs river, which is not installed: pip install river.") from None

from bayou.core import registry
from bayou.core.arrays import as_array
from bayou.core.checks import check_bool, check_finite, check_iterable, check_positive, shortened_repr
from bayou.core.errors import BadInput
from bayou.learners.classes import Classes
from bayou.learners.classes.new_classes import can_extend, extend
from bayou.sources.rows.encoder import RowEncoder


class _RiverMixin:
    """Base class of both estimators: a learner, created by name, and the encoder of its rows."""

    _model: Any

    def _begin(
        self, task: str, learner: str, bits: int, hashing: bool, cross: Any, kwargs: dict[str, Any]
    ) -> registry.Record:
        record = registry.find(learner)
        if task == "regression" and record.name == registry.DEFAULT:
            record = registry.find(registry.DEFAULT_REGRESSION)
        if record.task != task:
            raise BadInput(f"{learner} is a {record.task} learner and cannot be used as {type(self).__name__}.")
        if "n_features" in kwargs:
            raise BadInput("n_features does not apply to rows with named features; set the number of weights by bits.")
        encoding = bits, check_bool("hashing", hashing), str(kwargs.get("dtype") or record.dtype)
        self._rows = RowEncoder(*encoding, cross=cross or ())
        return record

    def _made(self, kind: Any, **parameters: Any) -> Any:
        try:
            made = kind(n_features=self._rows.n_features, **parameters, **self.kwargs)  # type: ignore[attr-defined]
        except TypeError as error:  # an unknown parameter
            raise BadInput(f"{self.learner} cannot be created: {error}.") from None  # type: ignore[attr-defined]
        self._rows.groups = made.wants_groups
        return made

    @property
    def model(self) -> Any:
        """The underlying learner, with its means and variances, `sample`, `save`, and so on."""
        return self._model

    def _learn_many(self, model: Any, X: Any, labels: np.ndarray, w: Any) -> None:
        batch, names = self._rows.encode_rows(X, learn=True)
        weights = None if isinstance(w, int | float) and w == 1 else as_array(w, "w")
        if weights is not None and weights.ndim == 0:
            weights = np.broadcast_to(weights, labels.shape)
        model.learn(batch.with_labels(labels, weights))
        self._rows.store_names(names)

    def _learn_one(self, model: Any, x: Any, y: float, w: Any) -> None:
        w = w if type(w) is float else check_positive("w", w, zero=True)
        row, names = self._rows.encode_row(x, learn=True)
        model.learn_example(row, y, w)
        if names:
            self._rows.store_names(names)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self._get_params().items())  # type: ignore[attr-defined]
        return f"{type(self).__name__}({parameters})"


class Classifier(_RiverMixin, base.MiniBatchClassifier):
    """Binary or multiclass classifier, with any of bayou's learners.

    A number or boolean is the value of a feature; a text is a category, the feature `name=text`; None and NaN count as
    absent. No encoding is needed beforehand.

    `learn_many` learns its rows one after another: it equals a loop of `learn_one` (exactly, if names are hashed), but
    is many times faster. Rows may be a pandas DataFrame, any object with `__arrow_c_stream__` (polars, Arrow), a SciPy
    sparse matrix, whose columns are features named by number, or a list of dictionaries.

    Without `classes`, new labels are accepted as they appear. As long as they are False and True there is a single
    learner; with other classes each has its own, under a common softmax (`bayou.learners.Classes`).

    Parameters
    ----------
    learner
        Name of the learner in `bayou.registry`: "bank", "marginal", "adagrad" and so on.
    bits
        Size of the weight table: 2^bits. With most learners, untouched weights take no memory.
    hashing
        Whether names are hashed, which takes no memory but lets some share a weight, or kept in a dictionary of at most
        2^bits names.
    classes
        All labels; of two the positive one last. 0 and 1 are equivalent to False and True. None accepts any labels.
    cross
        Names whose features are multiplied, two or three at a time, such as [("user", "ad")]; "*" is every other name.
        For features that matter only in combination. Rows then take about ten times as long.
    kwargs
        Parameters of the learner.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import bayou.river
    >>> model = bayou.river.Classifier("marginal", bits=12)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get() > 0.85
    True
    """

    def __init__(
        self,
        learner: str = "bank",
        bits: int = 18,
        hashing: bool = True,
        classes: tuple[base.typing.ClfTarget, ...] | None = None,
        cross: Sequence[Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.learner, self.bits, self.hashing, self.kwargs = learner, bits, hashing, kwargs
        self.classes, self.cross = classes, cross
        record = self._begin("binary", learner, bits, hashing, cross, kwargs)
        try:
            labels = list((False, True) if classes is None else classes)
            # The learner's number of each label; of two labels, 1 is the positive one.
            self._numbers = {label: index for index, label in enumerate(labels)}
        except (TypeError, ValueError):
            raise BadInput(f"classes is {classes!r}; give all labels, of two the positive one last, or None.") from None
        if not 2 <= len(self._numbers) == len(labels):
            raise BadInput(f"classes is {classes!r}; give at least two different labels, or None.")
        self._model = (
            self._made(record.load())
            if len(labels) == 2
            else self._of_many(classes=len(labels), max_classes=len(labels))
        )

    def _of_many(self, **parameters: Any) -> Any:
        return self._made(Classes, learner=self.learner, **parameters)

    @property
    def _multiclass(self) -> bool:
        return self.classes is None or len(self.classes) > 2

    def _number(self, label: Any, new: dict[Any, int]) -> int:
        """Return the number of a label's class; a new class is added to `new`. Raise BadInput if it is not allowed."""
        try:
            index = self._numbers.get(label, new.get(label))
        except (TypeError, ValueError):  # labels must be hashable
            raise self._no_label(label) from None
        if index is None:
            if self.classes is not None:
                raise self._no_label(label)
            index = new[label] = max(self._numbers.values()) + 1 + len(new)
        return index

    def _joined(self, new: dict[Any, int]) -> Any:
        """Return a learner that accepts the new classes: a new one if so far there were only False and True."""
        if not new or isinstance(self._model, Classes):
            return self._model
        if not self._model.examples:
            return self._of_many()
        if not can_extend(self._model):
            raise BadInput(
                f"the label is {shortened_repr(next(iter(new)))}, but {self.learner} started with only False and "
                "True; pass all labels as classes=(...)."
            )
        return extend(self._model)

    def _learned(self, model: Any, new: dict[Any, int]) -> None:
        """Adopt the model and its new classes after learning, in the learner's order of classes."""
        self._model = model
        if new:
            labels = {index: label for label, index in (self._numbers | new).items()}
            self._numbers = {labels[int(index)]: int(index) for index in model.labels}

    @property
    def weights(self) -> dict[Hashable, Any]:
        """Mean of each weight by name, if names are kept (`hashing=False`).

        With more than two classes, one such dictionary for each class.
        """
        if self._rows.numbers is None:
            raise BadInput("names are hashed, so they are not known; use hashing=False to keep them.")
        names, means = self._rows.numbers.items(), np.atleast_2d(self._model.mean)
        by_class = [{name: float(mean[index]) for name, index in names} for mean in means]
        return dict(zip(self._numbers, by_class, strict=True)) if isinstance(self._model, Classes) else by_class[0]

    # --- one row --------------------------------------------------------------------------------------------------

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget, w: float = 1.0) -> None:
        """Learn from one row. The weight multiplies its log-likelihood; with weight 0 nothing changes."""
        new: dict[Any, int] = {}
        label = self._number(y, new)
        model = self._joined(new) if new and check_positive("w", w, zero=True) else self._model
        self._learn_one(model, x, label, w)
        if new and w:
            self._learned(model, new)

    def predict_proba_one(
        self, x: dict[base.typing.FeatureName, Any], **unused: Any
    ) -> dict[base.typing.ClfTarget, float]:
        """Return the probability of each class."""
        p = self._model.learn_example(self._rows.encode_row(x)[0], 1, 0.0)
        probabilities = p.tolist() if isinstance(self._model, Classes) else (1.0 - p, p)
        return dict(zip(self._numbers, probabilities, strict=True))

    # --- many rows ------------------------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from the rows of X one after another; `w` is one weight for all of them, or one for each."""
        new: dict[Any, int] = {}
        labels = self._labels(y, new)
        model = self._joined(new)
        self._learn_many(model, X, labels, w)
        self._learned(model, new)

    def predict_proba_many(self, X: Any) -> Any:
        """Return a DataFrame of probabilities, with a column for each class and the index of X if it has one."""
        import pandas as pd  # type: ignore[import-untyped]

        p = self._model.predict(self._rows.encode_rows(X)[0]).probability
        columns = p.T if isinstance(self._model, Classes) else (1.0 - p, p)
        table = dict(zip(self._numbers, columns, strict=True))
        return pd.DataFrame(table, index=X.index if hasattr(X, "iloc") else None)

    def _labels(self, y: Any, new: dict[Any, int]) -> np.ndarray:
        if getattr(y, "dtype", None) == np.bool_ and not isinstance(self._model, Classes) and False in self._numbers:
            return np.asarray(y)
        labels = check_iterable("y", y.tolist() if hasattr(y, "tolist") else y, "labels, one per row")
        return np.array([self._number(label, new) for label in labels], np.float64)

    def _no_label(self, y: Any) -> BadInput:
        allowed = "something that can be told from others" if self.classes is None else f"one of {self.classes!r}"
        return BadInput(
            f"the label is {shortened_repr(y)}; it must be {allowed}. Pass classes=(negative, positive) for others."
        )


class Regressor(_RiverMixin, base.MiniBatchRegressor):
    """Regressor, with any of bayou's regression learners.

    Rows are as for `Classifier`. The default, "bank", is `bayou.learners.NumberBank`: nothing to scale or tune.

    Parameters
    ----------
    learner
        Name of the learner in `bayou.registry`: "bank", "gaussian", "shrinkage".
    bits
        Size of the weight table: 2^bits. With most learners, untouched weights take no memory.
    hashing
        Whether names are hashed, or kept in a dictionary of at most 2^bits names.
    cross
        Names whose features are multiplied, as for `Classifier`.
    kwargs
        Parameters of the learner.

    Examples
    --------
    >>> import bayou.river
    >>> model = bayou.river.Regressor("gaussian", bits=8)
    >>> model.learn_one({"size": 2.0}, 4.0)
    >>> low, high = model.predict_interval_one({"size": 2.0}, level=0.9)
    >>> bool(low < model.predict_one({"size": 2.0}) < high)
    True
    """

    def __init__(
        self,
        learner: str = "bank",
        bits: int = 18,
        hashing: bool = True,
        cross: Sequence[Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.learner, self.bits, self.hashing, self.cross, self.kwargs = learner, bits, hashing, cross, kwargs
        self._model = self._made(self._begin("regression", learner, bits, hashing, cross, kwargs).load())

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.RegTarget, w: float = 1.0) -> None:
        """Learn from one row. The weight multiplies its log-likelihood; with weight 0 nothing changes."""
        self._learn_one(self._model, x, check_finite("the label", y), w)

    def predict_one(self, x: dict[base.typing.FeatureName, Any]) -> float:
        """Return the expected label."""
        return float(self._model.learn_example(self._rows.encode_row(x)[0], 0.0, 0.0))

    def predict_interval_one(self, x: dict[base.typing.FeatureName, Any], level: float = 0.95) -> tuple[float, float]:
        """Return (low, high), the interval that contains the label with probability `level`."""
        low, high = self._model.predict(self._rows.encode_row(x)[0].batch()).interval(level)
        return float(low[0]), float(high[0])

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from the rows of X one after another; `w` is one weight for all of them, or one for each."""
        self._learn_many(self._model, X, as_array(y, "y"), w)

    def predict_many(self, X: Any) -> Any:
        """Return the expected labels as a pandas Series, with the index of X if it has one."""
        import pandas as pd

        expected = self._model.predict(self._rows.encode_rows(X)[0]).expected
        return pd.Series(expected, index=X.index if hasattr(X, "iloc") else None)
