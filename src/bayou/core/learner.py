"""The base class of learners: checks, one lock, files, snapshots, merging and sampling, and hooks for algorithms.

An algorithm is one file or folder in `learners/`: a module-level RECORD of its properties (`registry.Record`), and a
subclass of `Learner` with the record's `name`. Batches that reach it are canonical, finite, and of its dtype.

Required:

    _arrays()                        the arrays of its state by name, not copies; zero bytes mean "as in the prior"
    _run(batch, signs, weights)      predict every row and, if its weight is not 0, learn from it; returns `Scores`.
                                     For regression, `signs` are the labels themselves, in float64
    _mean_at(features)               means of the weights of some features
    _variance_at(features)           their variances; only if the record claims a posterior
    _intercept()                     mean and variance of the intercept

Optional:

    _merge_many(others, base)        merge: add what `others` have learned since `base`, or since the prior
    _draw(batch, seed, ...)          fill in scores under drawn weights, if means and variances do not determine them
    _predict_later(batch)            predict rows that arrive after learning has stopped, if that differs
    _run_example(row, sign, weight)  `_run` for one row, returning only the probability, if that can be faster
    _run_deferred(..., behind)       `_run` that may defer a part of the work to the thread `behind`
    _make_room(shapes)               before a file is read: resize arrays that grow with the data to the file's shapes
    _check_state()                   after a file was read: raise BadModel if kernels could read out of bounds
    _nbytes_for(n_features)          memory of a learner with that many weights, if it is not proportional to them

Public methods that do nothing here may be overridden: `end_pass`, `new_stream`, `progress`, `parts`, `later_loss`,
`supports_later`, `will_change_other_features`. Fields: `_per_feature_arrays` (arrays with a row for each feature),
`_by_rows_at_hand` (arrays that depend on batch boundaries), `_unstored_parameters` (values of parameters that files
leave out, if not the default), and those that the constructor sets for learners to change.

Learners with a joint posterior override `covariance`. Learners composed of others also override `_targets` and
`_reading`. No other private name is for subclasses, and none is for other packages.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from bayou.core import checks, forking, links, model_file, registry, state
from bayou.core.batch import MAX_FEATURES, Batch, Example
from bayou.core.checks import check_bool, check_choice, check_dtype, check_int
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.prediction import (
    HORIZONS,
    ONLY_NEXT,
    Contrast,
    ScoreRule,
    Weights,
    WeightView,
    WeightViewPart,
    corrected,
    no_posterior,
    z_score,
)
from bayou.core.prediction import Prediction as Prediction
from bayou.core.prediction import Scores as Scores
from bayou.core.sampling import PURPOSES, allocate_draws, draw_gaussian, to_probability
from bayou.core.threads import DrainingLock, SerialExecutor
from bayou.core.validation import check_batch, feature_numbers, numbers_of, signs_of
from bayou.kernels.huge_pages import HugePageAdvisor

# Rows of a large batch that are learned at a time, so that per-row scratch stays in the cache.
LEARN_CHUNK_ROWS = 8192
# Maximum number of chunks whose deferred work may be pending while the next one is learned.
MAX_PENDING_CHUNKS = 4
# Rows that are predicted at a time: scratch stays in the cache, and new memory is expensive.
PREDICT_CHUNK_ROWS = 4 * LEARN_CHUNK_ROWS
# Views of the weights: those that predict, or the association with the labels so far.
VIEWS = {"model": False, "associated": True}


class Learner:
    """Base class of all learners; the module's docstring lists the hooks of a new one.

    A learner has one lock: one thread learns, and others predict from a `snapshot`.

    Attributes:
        name: the learner's name in commands and model files; record: its properties (`bayou.registry.Record`).
        extras: data stored with the model besides its weights: recipe, names, counters.

    >>> from bayou import Batch
    >>> from bayou.learners import Bank
    >>> learner = Bank(n_features=100)
    >>> p = learner.learn(Batch.from_rows([{3: 1.0}, {3: 1.0, 7: 2.0}], labels=[1, 0]))  # made before learning
    >>> float(p[0]), learner.examples, learner.touched.tolist()
    (0.5, 2, [3, 7])
    """

    name: ClassVar[str]
    # The arrays with a row for each feature.
    _per_feature_arrays: tuple[str, ...] = ("state",)
    _unstored_parameters: ClassVar[dict[str, Any]] = {}
    # Arrays that depend on batch boundaries; all others depend only on the rows and their order.
    _by_rows_at_hand: tuple[str, ...] = ()
    supported_links: tuple[str, ...] = ("logistic", "probit")

    def __init__(self, *, n_features: int, dtype: Any, intercept: bool, **parameters: Any) -> None:
        self._n_features = check_int("n_features", n_features, 1, MAX_FEATURES)
        self.record = registry.find(self.name)
        self._dtype = check_dtype(self.record.dtype if dtype is None else dtype)
        self._has_intercept = check_bool("intercept", intercept)
        self._parameters = {
            "n_features": self._n_features,
            "dtype": self._dtype,
            "intercept": self._has_intercept,
            **parameters,
        }
        self._link = links.link_code(parameters.get("link", "logistic"), self.supported_links)
        self._examples = 0
        self._negative: int | None = None  # the negative label of this stream: -1 or 0
        self._widest = 1.0  # at least 1, and at least the largest variance a weight can have
        self._frozen = False
        self._is_regression = self.record.task == "regression"
        self._lock = DrainingLock()
        self._pages: HugePageAdvisor | None = None  # memory pages of the tables with a row for each feature
        forking.watch(self)
        self.extras = Extras()  # data stored with the model besides its weights
        # For learners to change:
        self.has_posterior = self.record.posterior  # whether there are variances and intervals
        self.wants_groups = False  # whether readers should compute the column of each non-zero (`Batch.groups`)
        # Parameters as files have them, if they differ from `parameters`; None for those that files leave out.
        self._stored_parameters: dict[str, Any] = {}
        self._takes: str = self._dtype  # type of the values that kernels take
        self._no_target: Any = np.float64(1) if self._is_regression else np.dtype(self._dtype).type(1)  # to predict

    # --- hooks of algorithms ------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:  # regression: targets as signs
        raise NotImplementedError

    def _mean_at(self, features: Any) -> np.ndarray:
        raise NotImplementedError

    def _variance_at(self, features: Any) -> np.ndarray:
        raise NotImplementedError

    def _intercept(self) -> tuple[float, float]:
        raise NotImplementedError

    def _run_deferred(
        self, batch: Batch, signs: np.ndarray, weights: np.ndarray, behind: SerialExecutor | None
    ) -> Scores:
        """Predict and learn rows as `_run` does, but leave part of it, scores included, to the thread `behind`."""
        return self._run(batch, signs, weights)

    def _run_example(self, row: Example, sign: float, weight: float) -> float:
        """Predict and learn one row, and return only the probability. Override if there is a faster way than `_run`."""
        one = np.ones(1, self._dtype)
        return float(self._run(cast_batch(self, row.batch()), sign * one, weight * one).expected[0])

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        raise NotImplementedError

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Resize arrays that grow with the data to these shapes, before their content is restored."""

    def _check_state(self) -> None:
        """Raise BadModel if restored arrays could make kernels access memory out of bounds."""

    def _targets(self, batch: Batch, weights: np.ndarray) -> tuple[np.ndarray, int | None]:
        """Return the targets (signs, or the labels for regression) and the stream's negative label, if any."""
        if batch.labels is None:
            raise BadInput("the batch has no labels to learn from; give them: Batch.from_csr(X, y).")
        if self.record.task == "binary":
            return signs_of(batch.labels, weights, self._dtype, self._negative)
        return numbers_of(batch.labels, self._dtype), None

    # --- learning and predicting --------------------------------------------------------------------------------

    def learn(self, batch: Batch) -> np.ndarray:
        """Learn from every row in order; return P(y = 1), or the predicted mean, of each before it was learned.

        Raises BadInput if any row is invalid; then nothing is learned.
        """
        return self.observe(batch).expected

    def observe(self, batch: Batch, behind: SerialExecutor | None = None) -> Prediction:
        """Learn from a batch and return the full prediction of each row, made before it was learned.

        Args:
            batch: the rows, with labels.
            behind: if given, a thread to which part of the work may be deferred. The prediction may then only be used
                by later work in that thread. Other calls on the learner wait for the deferred work.
        """
        check_writable(self)
        if not isinstance(behind, SerialExecutor | None):
            raise BadInput("behind must be a `bayou.core.threads.SerialExecutor`, which only runs need; omit it.")
        if isinstance(batch, Batch) and len(batch) > LEARN_CHUNK_ROWS:
            with self._lock, SerialExecutor("following", max_pending=MAX_PENDING_CHUNKS) as following:
                scores = _learn_chunks(self, batch, following)
                following.drain_and_raise()
        else:
            with self._lock.pipelined(behind):
                scores = _learn_chunks(self, batch, behind)
        return self.wrap_scores(_concatenate_scores(scores))

    def check(self, batch: Batch, learn: bool = True) -> None:
        """Raise BadInput if `learn` would raise it for this batch; or, without `learn`, if `predict` would."""
        if not learn:
            check_rows(self, batch)
            return
        with self._lock:
            checked_chunks(self, batch)

    def learn_example(self, row: Example, label: float, weight: float = 1.0) -> float:
        """Learn from one row and return its prediction, faster than `learn`. With weight 0, only predict.

        For a classifier, any label but 0 is positive.
        """
        if weight:
            check_writable(self)
        with self._lock:
            # A row of few small values needs no further check; all others take the checked path.
            small = (
                row.max_abs_value <= 1e6
                and row.size <= 1e6
                and self._widest <= 1e8
                and row.max_index < self._n_features
            )
            if not small or self._is_regression or weight not in (0.0, 1.0):
                if weight == 0.0:
                    return float(self.predict(row.batch()).expected[0])
                known_label = label if self._is_regression else 1 if label else self._negative or 0
                return float(self.learn(row.batch([known_label], [weight]))[0])
            probability = self._run_example(row, 1.0 if label else -1.0, weight)
            if weight:
                self._examples += 1
                if self._negative is None and not label:
                    self._negative = 0
        return probability if weight else corrected(probability, self.negative_rate)

    def predict(self, batch: Batch, horizon: str = "next") -> Prediction:
        """Return the prediction of each row. Changes nothing.

        If the recipe says that the data contain only a fraction of the negatives, the prediction is corrected to the
        full stream.

        Args:
            batch: rows, with labels or without.
            horizon: "next" for the next example of a stream in which every label arrives before the next row: what
                `learn` would return, to the bit. "later" for rows after learning has stopped; only the bank
                distinguishes the two.
        """
        later = check_choice("horizon", horizon, HORIZONS)
        if later and not self.supports_later:
            warnings.warn(ONLY_NEXT, stacklevel=2)
        with self._lock:
            check_rows(self, batch)
            parts = (
                [batch]
                if len(batch) <= PREDICT_CHUNK_ROWS
                else [batch[start : start + PREDICT_CHUNK_ROWS] for start in range(0, len(batch), PREDICT_CHUNK_ROWS)]
            )
            typed = (cast_batch(self, part) for part in parts)
            scores = [self._predict_later(part) if later else run_next(self, part) for part in typed]
            return self.wrap_scores(_concatenate_scores(scores)).with_sampling_correction(self.negative_rate)

    def _predict_later(self, batch: Batch) -> Scores:
        """Predict rows that arrive after learning has stopped. Override if that differs from `run_next`."""
        return run_next(self, batch)

    @property
    def supports_later(self) -> bool:
        """True if the "later" horizon is supported; if not, `predict` falls back to "next" with a warning."""
        return True

    def later_loss(self) -> Any:
        """Return the expected loss on later rows, or None if the learner does not estimate it; see `Bank`."""
        return None

    def wrap_scores(self, scores: Scores) -> Prediction:
        """Return the prediction for a kernel's scores, not corrected for negatives missing from the data."""
        return Prediction(scores, self.name, self.score_rule)

    @cached_property
    def score_rule(self) -> ScoreRule:
        """The rule that turns scores into probabilities, from the parameters `link`, `predictive` and `temper`."""
        predictive: Any = self._parameters.get("predictive", "closed") if self.record.posterior else "plain"
        return ScoreRule(self._link, predictive, self._parameters.get("temper", (1.0, 1.0))[1])

    def sample(self, batch: Batch, n_draws: int, seed: int = 0, purpose: str = "choose") -> np.ndarray:
        """Return probabilities (or means) under weight vectors drawn from the posterior, shape (n_draws, rows).

        A draw is one weight vector for all rows. It depends only on (seed, draw, feature), so the same seed gives the
        same weights for any other batch.

        Args:
            batch: the rows; labels are ignored.
            n_draws: the number of weight vectors.
            seed: seed of the draws.
            purpose: "choose", to decide what to try next (Thompson sampling), or "interval", for the spread of the
                probabilities. To choose, the bank draws with half of its variance, which loses fewer clicks; for
                intervals, with all of it. All other learners draw from their posterior either way.

        >>> from bayou import Batch
        >>> from bayou.learners import Bank
        >>> learner = Bank(n_features=2)
        >>> p = learner.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}, {0: 1.0}], labels=[1, 0, 1]))
        >>> two_ads = Batch.from_rows([{0: 1.0}, {1: 1.0}])
        >>> best = learner.sample(two_ads, n_draws=1000, seed=0).argmax(axis=1)
        >>> bool(0.5 < (best == 0).mean() < 1)  # the first is shown more often, but not always
        True
        """
        if not self.record.posterior:
            raise no_posterior(self.name)
        check_choice("purpose", purpose, PURPOSES)
        key = np.uint64(check_int("seed", seed, 0, 2**64 - 1))
        with self._lock:
            check_rows(self, batch)
            scores = allocate_draws(n_draws, len(batch))
            self._draw(cast_batch(self, batch), key, purpose, scores)
        if self.record.task == "binary":
            to_probability(self._link, scores)
        return corrected(scores, self.negative_rate)

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        """Fill scores[draw, row] with scores under drawn weights."""
        weights = self._mean_at(batch.indices), self._variance_at(batch.indices)
        draw_gaussian(batch, *weights, self.intercept, seed, np.arange(len(scores)), scores)

    def parts(self) -> list[dict[str, Any]]:
        """Return a JSON-serializable description of each component of a composed learner; [] for other learners."""
        return []

    def progress(self) -> str:
        """Return a short status to show after a pass; "" for one-pass learners."""
        return ""

    def end_pass(self) -> bool:
        """Signal the end of a pass over the data and return whether the learner has converged."""
        return False

    def will_change_other_features(self, examples: int) -> bool:
        """Return whether learning `examples` more examples changes the state of features that do not occur in them."""
        return False

    def compile_last_kernels(self) -> None:
        """Compile the kernels that learning calls last, while another process may compile the first ones."""

    def new_stream(self) -> None:
        """Signal that the following rows are new, even after `end_pass`."""

    # --- weights, properties and size ---------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments, including defaults."""
        return copy.deepcopy(self._parameters)

    @property
    def examples(self) -> int:
        """Number of examples learned from, without those of weight 0."""
        return self._examples

    @property
    def negative_label(self) -> int | None:
        """The value of negative labels in this learner's stream, -1 or 0; None before the first."""
        return self._negative

    @property
    def negative_rate(self) -> float:
        """The fraction of the full stream's negatives that the data contain, from the recipe; 1 without one."""
        return 1.0 if self.extras.recipe is None or self._is_regression else self.extras.recipe.negative_rate

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the learner takes once all weights are touched."""
        return self._nbytes_for(self._n_features)

    @classmethod
    def memory_for(cls, n_features: int, **parameters: Any) -> int:
        """Return the bytes that `cls(n_features, **parameters)` takes once all weights are touched, without making it.

        >>> from bayou.learners import Marginal
        >>> Marginal.memory_for(2**30) // 2**30  # GiB: a mean and a precision in float32 for each weight
        8
        """
        # A learner with one weight shows what each weight takes.
        alike: dict[str, Any] = {k: v[:1] if isinstance(v, np.ndarray) else v for k, v in parameters.items()}
        return cls(n_features=1, **alike).nbytes_for(check_int("n_features", n_features, 1, MAX_FEATURES))

    def nbytes_for(self, n_features: int) -> int:
        """Return the bytes that a learner like this one would take with `n_features` weights."""
        return self._nbytes_for(check_int("n_features", n_features, 0))

    def _nbytes_for(self, n_features: int) -> int:
        arrays = self._arrays()
        per_feature = sum(arrays.pop(name)[:1].nbytes for name in self._per_feature_arrays)
        return sum(array.nbytes for array in arrays.values()) + n_features * per_feature

    @property
    def touched(self) -> np.ndarray:
        """The features whose state differs from the prior, in ascending order."""
        with self._lock:
            arrays = self._arrays()
            return model_file.nonzero_rows(*(arrays[name] for name in self._per_feature_arrays))

    @property
    def mean(self) -> np.ndarray:
        """The means of all weights, a copy."""
        with self._lock:
            return np.array(self._mean_at(slice(None)))

    @property
    def variance(self) -> np.ndarray:
        """The variances of all weights, a copy."""
        if not self.has_posterior:
            raise no_posterior(self.name)
        with self._lock:
            return np.array(self._variance_at(slice(None)))

    def weights_at(self, features: Any) -> Weights:
        """Return the weights of some features: means, and variances and intervals if there is a posterior.

        >>> from bayou.learners import Marginal
        >>> low, high = Marginal(n_features=10).weights_at([3, 7]).interval(0.9)
        >>> low.round(3), high.round(3)
        (array([-1.645, -1.645]), array([1.645, 1.645]))
        """
        features = feature_numbers(features, self._n_features)
        with self._lock:
            mean = np.array(self._mean_at(features), np.float64)
            variance = np.array(self._variance_at(features), np.float64) if self.has_posterior else None
        return Weights(mean, variance)

    def covariance(self, features: Any) -> np.ndarray:
        """Return the joint covariance of some features' weights.

        The result is diagonal if the learner's posterior is. A bank with a head has a joint posterior over its most
        used features; any other feature is correlated with them only through the uncertain common scale of all weights.

        >>> from bayou.learners import Marginal
        >>> Marginal(n_features=10, prior_variance=4.0).covariance([3, 7]).tolist()
        [[4.0, 0.0], [0.0, 4.0]]
        """
        if not self.has_posterior:
            raise no_posterior(self.name)
        features = feature_numbers(features, self._n_features)
        with self._lock:
            variance = np.array(self._variance_at(features), np.float64)
        return np.where(features[:, None] == features, variance, 0.0)

    def contrast(self, features: Any, weights: Any, level: float = 0.95) -> Contrast:
        """Return a linear combination of weights: with 1 and -1, the difference of two.

        Args:
            features: indices of the features.
            weights: the factor of each.
            level: posterior probability of the interval.

        >>> from bayou.learners import Marginal
        >>> difference = Marginal(n_features=10).contrast([3, 7], [1, -1], level=0.9)
        >>> round(difference.sd**2, 6), round(difference.low, 3), round(difference.high, 3)
        (2.0, -2.326, 2.326)
        """
        if not self.has_posterior:
            raise no_posterior(self.name)
        features, factors = feature_numbers(features, self._n_features), np.asarray(weights, np.float64)
        if factors.shape != features.shape or not np.isfinite(factors).all():
            raise BadInput(f"a contrast of {features.size} features needs one finite weight per feature.")
        with self._lock:
            mean = float(self.weights_at(features).mean @ factors)
            sd = float(np.sqrt(max(factors @ self.covariance(features) @ factors, 0.0)))
        reach = z_score(level) * sd
        return Contrast(mean, sd, mean - reach, mean + reach)

    def weight_view(self, features: Any, view: str = "model", squares: np.ndarray | None = None) -> WeightView:
        """Return weights and the intercept for display, with the components that their variances come from.

        Args:
            features: indices of the features.
            view: "model" for the weights that predict, or, for the bank, "associated" for the association with the
                labels so far, as its most careful lane learned it, whether or not it is expected to last.
            squares: if `features` are all that were seen, the mean squares of their values over all rows, from which
                the bank derives the uncertainty of its lanes.
        """
        associated = check_choice("view", view, VIEWS)
        features = feature_numbers(features, self._n_features)
        with self._lock:
            return self._reading(features, squares, associated)

    def _reading(self, features: np.ndarray, squares: np.ndarray | None, associated: bool) -> WeightView:
        if associated:
            raise BadInput(f"{self.name} models have a single view of their weights; only the bank has another.")
        weights, intercept = self.weights_at(features), self.intercept
        return WeightView(
            weights.mean, intercept[0], [WeightViewPart(1.0, weights, intercept)] if self.record.posterior else []
        )

    @property
    def intercept(self) -> tuple[float, float]:
        """Mean and variance of the intercept: (0, 0) without an intercept; the variance is NaN without a posterior."""
        with self._lock:
            return self._intercept() if self._has_intercept else (0.0, 0.0)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key}={'array' if isinstance(value, np.ndarray) else repr(value)}"
            for key, value in self._parameters.items()
        )
        return f"{type(self).__name__}({shown})"

    # --- copies, files, merging ---------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the bytes of the file that `save` would write."""
        with self._lock:
            return model_file.to_bytes(*state.contents_of(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file. `bayou.load` returns a learner that continues bit for bit."""
        path = checks.check_path("path", path)
        with self._lock:
            header, arrays = state.contents_of(self)
            model_file.write(path, header, arrays)

    def __copy__(self) -> Self:
        return state.copied(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return state.copied(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return state.pickled(self)

    def snapshot(self) -> Self:
        """Return an immutable copy to predict from, even while this learner keeps learning in another thread."""
        frozen = copy.copy(self)
        frozen._frozen = True
        return frozen

    def merge(self, other: Self | Sequence[Self], base: Self | None = None) -> Self:
        """Return a new learner that combines what all of them have learned.

        All must have started from the same prior, or all from `base` (a model they were resumed from), whose examples
        then count once. Their recipes must be equal, and their numberings must agree; their other extras (names,
        counters) are merged, too.

        Args:
            other: another learner, or several. Weights that fade are averaged over all, so merging three learners at
                once differs from merging two and then the third.
            base: the learner that all of them were resumed from, if any.

        >>> from bayou import Batch
        >>> from bayou.learners import Marginal
        >>> parts = [Marginal(n_features=9) for _ in range(3)]
        >>> told = [part.learn(Batch.from_rows([{k: 1.0}], labels=[1])) for k, part in enumerate(parts)]
        >>> parts[0].merge(parts[1:]).touched.tolist()
        [0, 1, 2]
        """
        others = [other] if isinstance(other, Learner) else list(other) if isinstance(other, list | tuple) else []
        if not others or not all(isinstance(one, Learner) for one in (others if base is None else (*others, base))):
            raise BadModel("merge takes a learner or a list of learners, and a learner as base=.")
        if self.record.merge == "refused":
            raise BadModel(f"{self.name} models cannot be merged.")
        merged, extras = copy.copy(self), self.extras
        merged._frozen = False
        base = None if base is None else copy.copy(base)
        before = 0 if base is None else base._examples
        for one in others if base is None else (*others, base):
            check_alike(self, one)
        for one in others:
            extras = extras.merge(one.extras, None if base is None else base.extras)
        with ExitStack() as held:
            for one in others:
                held.enter_context(one._lock)
            if before > min(one._examples for one in (merged, *others)):
                raise BadModel("base has seen more examples than a model grown from it; give a common ancestor.")
            for one in others:
                merged._examples += one._examples - before
                merged._negative = one._negative if merged._negative is None else merged._negative
            merged._merge_many(others, base)
        merged.extras = extras
        return merged


def adopt_state(learner: Learner, other: Learner) -> None:
    """Give a learner the state of `other`, which was made from it and must not be used afterwards."""
    with learner._lock:
        learner.__dict__.update({**other.__dict__, "extras": learner.extras, "_lock": learner._lock})


def distinguishes_horizons(learner: Learner) -> bool:
    """Return whether predictions of later rows differ from those of the next one."""
    return learner.supports_later and type(learner)._predict_later is not Learner._predict_later


def check_writable(learner: Learner) -> None:
    """Raise BadInput if a learner is a snapshot."""
    if learner._frozen:
        raise BadInput("this is a snapshot: it predicts, but does not learn. Learn with the learner itself.")


def check_alike(learner: Learner, other: Learner) -> None:
    """Raise BadModel if two learners differ in kind, parameters or negative labels."""
    if learner.name != other.name:
        raise BadModel(f"a {learner.name} model and a {other.name} model cannot be merged; use the same learner.")
    for key, value in learner._parameters.items():
        if not np.array_equal(value, other._parameters[key]):
            shown = ("an array" if isinstance(v, np.ndarray) else v for v in (value, other._parameters[key]))
            raise BadModel("the models differ in {}: {} and {}. Merge models of the same kind.".format(key, *shown))
    if None not in (learner._negative, other._negative) and learner._negative != other._negative:
        raise BadModel("one model's negative labels are 0, the other's -1: the streams differ.")


def check_rows(learner: Learner, batch: Batch, learn: bool = False) -> None:
    """Raise BadInput if a batch does not fit a learner; labels are not checked."""
    check_batch(batch, learner._n_features, learner._dtype, learner._widest, learn)


def cast_batch(learner: Learner, batch: Batch) -> Batch:
    """Cast the values to the type of the kernels, which Numba would otherwise compile again for another type."""
    return batch.astype(learner._takes)


def checked_chunks(learner: Learner, batch: Batch) -> tuple[int | None, Iterator[tuple[Batch, np.ndarray, np.ndarray]]]:
    """Check a batch to learn as a whole; return the negative label of the stream, and the rows in chunks.

    Each chunk has values of the kernels' type, targets, and weights in the state's type, in which tiny ones may round
    to 0.
    """
    check_rows(learner, batch, learn=True)
    dtype = learner._dtype
    weights = np.ones(len(batch), dtype) if batch.weights is None else batch.weights.astype(dtype)
    targets, negative = learner._targets(batch, weights)
    if len(batch) <= LEARN_CHUNK_ROWS:
        return negative, iter([(cast_batch(learner, batch), targets, weights)])
    cuts = (slice(start, start + LEARN_CHUNK_ROWS) for start in range(0, len(batch), LEARN_CHUNK_ROWS))
    return negative, ((cast_batch(learner, batch[cut]), targets[cut], weights[cut]) for cut in cuts)


def run_next(learner: Learner, batch: Batch) -> Scores:
    """Predict rows as the next ones of the stream: learn them with weight 0.

    The machine code is the same, so that `learn` and `predict` return the same bits.
    """
    return learner._run(batch, np.full(len(batch), learner._no_target), np.zeros(len(batch), learner._dtype))


def _learn_chunks(learner: Learner, batch: Batch, behind: SerialExecutor | None) -> list[Scores]:
    """Learn LEARN_CHUNK_ROWS rows at a time and return the scores of each chunk; `behind` does the deferred work."""
    negative, chunks = checked_chunks(learner, batch)
    scores = []
    for chunk, targets, weights in chunks:
        state.touch(learner, chunk.indices)
        scores.append(learner._run_deferred(chunk, targets, weights, behind))
        learner._examples += len(chunk) if batch.weights is None else int(np.count_nonzero(weights))
    learner._negative = negative
    return scores


def _concatenate_scores(chunks: list[Any]) -> Any:
    """Concatenate the scores of consecutive chunks."""
    return chunks[0] if len(chunks) == 1 else type(chunks[0]).concatenate(chunks)
