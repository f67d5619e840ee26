"""The river face: any learner as a river estimator.

    from bayou import river

    model = river.Classifier("marginal", bits=18, prior_variance=1.0)
    model.learn_one({"age": 37, "site": "a.com"}, True)

Rows are dictionaries; `bayou.sources.rows` says how names and values become features.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

try:
    from river import base
except ImportError:
    raise ImportError("bayou.river needs river, which is not installed: pip install river.") from None

from bayou.core import registry
from bayou.core.arrays import as_array
from bayou.core.checks import positive_number, several, shown, yes_or_no
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.sources.rows import Rows

# Kinds of learners, as registry.Record.task has them, and the estimator here that is for each.
_FACES = {"classify": "Classifier"}


class Classifier(base.MiniBatchClassifier):
    """Tells two classes apart by any of bayou's learners.

    A number or truth value is a feature's value; a text is a category, the feature `name=text`; None and NaN are
    missing, which is as good as absent. Nothing needs to be encoded before.

    `learn_many` learns from its rows one after another: it is a loop of `learn_one`, to the last bit if names are
    hashed, but many times faster. Rows may come as a DataFrame of pandas, anything with `__arrow_c_stream__` (polars,
    Arrow), a SciPy sparse matrix, whose columns are features with numbers for names, or a list of dictionaries.

    For more than two classes there is `river.multiclass.OneVsRestClassifier`.

    Parameters
    ----------
    learner
        Its name, as `bayou.registry` has it: "bank", "marginal", "adagrad" and so on.
    bits
        There are 2^bits weights. Those never touched take no memory with most learners.
    hashing
        Whether names are hashed, which takes no memory and lets some share a weight, or kept in a dictionary, which has
        room for 2^bits names.
    classes
        The two labels, the positive one last. 0 and 1 are as good as False and True.
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
        classes: tuple[base.typing.ClfTarget, base.typing.ClfTarget] = (False, True),
        **kwargs: Any,
    ) -> None:
        self.learner, self.bits, self.hashing, self.classes, self.kwargs = learner, bits, hashing, classes, kwargs
        record = registry.find(learner)
        if _FACES.get(record.task) != type(self).__name__:
            raise BadInput(f"{learner} is a learner to {record.task}; this is a {type(self).__name__}.")
        try:
            self._negative, self._positive = classes
            self._is_positive = {self._negative: False, self._positive: True}
        except (TypeError, ValueError):
            raise BadInput(f"classes is {classes!r}; give two labels, the positive one last.") from None
        if len(self._is_positive) < 2:
            raise BadInput(f"classes is {classes!r}; give two different labels.")
        if "n_features" in kwargs:
            raise BadInput(
                "n_features is not for river's rows, which have names: bits says how many weights there are."
            )
        dtype = str(kwargs.get("dtype") or record.dtype)
        self._rows = Rows(bits, yes_or_no("hashing", hashing), dtype)
        try:
            self._model: Learner = record.load()(n_features=self._rows.n_features, **kwargs)
        except TypeError as error:  # an unknown parameter
            raise BadInput(f"{learner} cannot be made so: {error}.") from None

    @property
    def model(self) -> Learner:
        """The learner inside: its means and variances, `sample`, `save`, and so on."""
        return self._model

    @property
    def weights(self) -> dict[Hashable, float]:
        """The mean of every named weight, where names are kept in a dictionary (`hashing=False`)."""
        if self._rows.numbers is None:
            raise BadInput("names are hashed, so they are not known; use hashing=False to keep them.")
        means = self._model.mean
        return {name: float(means[number]) for name, number in self._rows.numbers.items()}

    # --- one row --------------------------------------------------------------------------------------------------

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget, w: float = 1.0) -> None:
        """Learn from one row. The weight multiplies its log-likelihood; with weight 0 nothing changes."""
        try:
            positive = self._is_positive[y]
        except (KeyError, TypeError):
            raise self._no_label(y) from None
        w = w if type(w) is float else positive_number("w", w, zero=True)
        row, new = self._rows.one(x, learn=True)
        self._model.learn_row(row, positive, w)
        if new:
            self._rows.keep(new)

    def predict_proba_one(
        self, x: dict[base.typing.FeatureName, Any], **unused: Any
    ) -> dict[base.typing.ClfTarget, float]:
        """The probability of each class."""
        p = self._model.learn_row(self._rows.one(x)[0], True, 0.0)
        return {self._negative: 1.0 - p, self._positive: p}

    # --- many rows ------------------------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from the rows of X one after another; `w` is one weight for all of them, or one for each."""
        labels = self._labels(y)
        batch, new = self._rows.many(X, learn=True)
        weights = None if isinstance(w, int | float) and w == 1 else as_array(w, "w")
        if weights is not None and weights.ndim == 0:
            weights = np.broadcast_to(weights, labels.shape)
        self._model.learn(batch.with_labels(labels, weights))
        self._rows.keep(new)

    def predict_proba_many(self, X: Any) -> Any:
        """The probabilities of the classes, a column of a DataFrame each, with the index of X if it has one."""
        import pandas as pd  # type: ignore[import-untyped]

        p = self._model.predict(self._rows.many(X)[0]).probability
        return pd.DataFrame({self._negative: 1.0 - p, self._positive: p}, index=X.index if hasattr(X, "iloc") else None)

    def _labels(self, y: Any) -> np.ndarray:
        if getattr(y, "dtype", None) == np.bool_ and self.classes == (False, True):
            return np.asarray(y)
        labels = several("y", y.tolist() if hasattr(y, "tolist") else y, "labels, one per row")
        positive = np.empty(len(labels), bool)
        for k, label in enumerate(labels):
            try:
                positive[k] = self._is_positive[label]
            except (KeyError, TypeError):
                raise self._no_label(label) from None
        return positive

    def _no_label(self, y: Any) -> BadInput:
        return BadInput(
            f"the label is {shown(y)}; it must be one of {self.classes!r}. Say classes=(negative, positive) for others."
        )

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in self._get_params().items())
        return f"{type(self).__name__}({parameters})"
