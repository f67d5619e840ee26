"""The base class of learners: checks, one lock, files, snapshots, merging and sampling, and hooks for algorithms.

An algorithm is one file or folder in `learners/`: a module-level RECORD of its properties (`registry.Record`), and a
subclass of `Learner` with the record's `name`. Batches that reach it are canonical, finite, and of its dtype.

Required:

    _arrays()                    the arrays of its state by name, not copies; zero bytes mean "as in the prior"
    _run(batch, signs, weights)  predict every row and, if its weight is not 0, learn from it; returns `Scores`.
                                 For regression, `signs` are the labels themselves, in float64
    _mean_at(features)           means of the weights of some features
    _variance_at(features)       their variances; only if the record claims a posterior
    _intercept()                 mean and variance of the intercept

Optional:

    _merge_one(other, base)      merge: add what `other` has learned since `base`, or since the prior. Override
                                 `_merge_many` instead if the sum depends on the number of learners
    _draw(batch, seed, ...)      fill in scores under drawn weights, if means and variances do not determine them
    _predict_later(batch)            predict rows that arrive after learning has stopped, if that differs
    _run_example(row, sign, weight)  `_run` for one row, returning only the probability, if that can be faster
    _run_deferred(..., behind)      `_run` that may defer a part of the work to the thread `behind`
    _make_room(shapes)           before a file is read: resize arrays that grow with the data to the shapes in the file
    _check_state()               after a file was read: raise BadModel if kernels could read out of bounds
    _nbytes_for(n_features)      memory of a learner with that many weights, if it is not proportional to them

Public methods that do nothing here may be overridden: `end_pass`, `new_stream`, `progress`, `parts`, `later_loss`,
`supports_later`, `will_change_other_features`. Fields: `_per_feature_arrays` (arrays with a row for each feature),
`_takes` (the type of values), `_by_rows_at_hand` (arrays that depend on batch boundaries), `wants_groups`.

Learners with a joint posterior override `_covariance_at`. Learners composed of others also override `_targets`,
`_predict_next`, `_concatenate_scores`, `_reading`, `_associated`, `_parameters_to_header` and
`_parameters_from_header`. No other private name is for subclasses, and none is for other packages.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from bayou.core import forking, links, registry
from bayou.core.batch import MAX_FEATURES, Batch, Example
from bayou.core.checks import check_bool, check_choice, check_dtype, check_int
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.inspection import InspectionMixin
from bayou.core.prediction import HORIZONS, ONLY_NEXT, ScoreRule, corrected, no_posterior
from bayou.core.prediction import Prediction as Prediction
from bayou.core.prediction import Scores as Scores
from bayou.core.threads import DrainingLock, SerialExecutor
from bayou.core.validation import check_batch, numbers_of, signs_of
from bayou.kernels.compiling import kernel
from bayou.kernels.random import draw_scores

# Rows of a large batch that are learned at a time, so that per-row scratch stays in the cache.
LEARN_CHUNK_ROWS = 8192
# Maximum number of chunks whose deferred work may be pending while the next one is learned.
MAX_PENDING_CHUNKS = 4
# Rows that are predicted at a time: scratch stays in the cache, and new memory is expensive.
PREDICT_CHUNK_ROWS = 4 * LEARN_CHUNK_ROWS
# Purposes of draws.
PURPOSES = {purpose: purpose for purpose in ("choose", "interval")}


class Learner(InspectionMixin):
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
    # Whether readers should compute the column of each non-zero (`Batch.groups`).
    wants_groups = False
    # Arrays that depend on batch boundaries; all others depend only on the rows and their order.
    _by_rows_at_hand: ClassVar[tuple[str, ...]] = ()
    # Type of the values that kernels take, if it is not the state's.
    _takes: str | None = None
    supported_links: tuple[str, ...] = ("logistic", "probit")

    def __init__(self, *, n_features: int, dtype: Any, intercept: bool, **parameters: Any) -> None:
        self._n_features = check_int("n_features", n_features, 1, MAX_FEATURES)
        self._dtype = check_dtype(registry.find(self.name).dtype if dtype is None else dtype)
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
        self._is_regression = registry.find(self.name).task == "regression"
        self._lock = DrainingLock()
        forking.watch(self)
        self.extras = Extras()  # data stored with the model besides its weights

    # --- hooks of algorithms ------------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:  # regression: targets as signs
        raise NotImplementedError

    def _run_deferred(
        self, batch: Batch, signs: np.ndarray, weights: np.ndarray, behind: SerialExecutor | None
    ) -> Scores:
        """Do as `_run`, but possibly leave a part of the work, scores included, to the thread `behind`."""
        return self._run(batch, signs, weights)

    def _run_example(self, row: Example, sign: float, weight: float) -> float:
        """Do as `_run` for one row and return the probability. Override if there is a faster way."""
        one = np.ones(1, self._dtype)
        return float(self._run(self._cast_batch(row.batch()), sign * one, weight * one).expected[0])

    def _merge_one(self, other: Self, base: Self | None) -> None:
        raise NotImplementedError

    def _merge_many(self, others: Sequence[Self], base: Self | None) -> None:
        """Do as `_merge_one` for several learners. Override if the sum depends on how many there are."""
        for other in others:
            self._merge_one(other, base)

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
        self._check_writable()
        if not isinstance(behind, SerialExecutor | None):
            raise BadInput(
                "behind is the thread in which a run scores (`bayou.core.threads.SerialExecutor`); leave it out."
            )
        if isinstance(batch, Batch) and len(batch) > LEARN_CHUNK_ROWS:
            with self._lock, SerialExecutor("following", max_pending=MAX_PENDING_CHUNKS) as following:
                told = self._observe(batch, following)
                following.drain_and_raise()
        else:
            with self._lock.pipelined(behind):
                told = self._observe(batch, behind)
        return self.wrap_scores(told[0] if len(told) == 1 else self._concatenate_scores(told))

    def _observe(self, batch: Batch, behind: SerialExecutor | None) -> list[Scores]:
        """Learn LEARN_CHUNK_ROWS rows at a time, return the scores of each chunk; `behind` does the deferred work."""
        self._check(batch, learn=True)
        weights = self._row_weights(batch)
        targets, negative = self._targets(batch, weights)
        told = []
        for start in range(0, max(len(batch), 1), LEARN_CHUNK_ROWS):
            rows = slice(start, start + LEARN_CHUNK_ROWS)
            part = self._cast_batch(batch if len(batch) <= LEARN_CHUNK_ROWS else batch[rows])
            self.touch(part.indices)
            told.append(self._run_deferred(part, targets[rows], weights[rows], behind))
            self._examples += len(part) if batch.weights is None else int(np.count_nonzero(weights[rows]))
        self._negative = negative
        return told

    @staticmethod
    def _concatenate_scores(parts: Any) -> Any:
        """Concatenate the scores of consecutive chunks."""
        return Scores(*map(_concatenate_scores, zip(*parts, strict=True)))

    def _check_writable(self) -> None:
        if self._frozen:
            raise BadInput("this is a snapshot: it predicts, but does not learn. Learn with the learner itself.")

    def check(self, batch: Batch, learn: bool = True) -> None:
        """Raise BadInput if `learn` would raise it for this batch; or, without `learn`, if `predict` would."""
        if not learn:
            self._check(batch)
            return
        with self._lock:
            self._check(batch, learn=True)
            self._targets(batch, self._row_weights(batch))

    def learn_example(self, row: Example, label: float, weight: float = 1.0) -> float:
        """Learn from one row and return its prediction, faster than `learn`. With weight 0, only predict.

        For a classifier, any label but 0 is positive.
        """
        if weight:
            self._check_writable()
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
                known = label if self._is_regression else 1 if label else self._negative or 0
                return float(self.learn(row.batch([known], [weight]))[0])
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
            self._check(batch)
            run = self._predict_later if later else self._predict_next
            parts = (
                [batch]
                if len(batch) <= PREDICT_CHUNK_ROWS
                else [batch[at : at + PREDICT_CHUNK_ROWS] for at in range(0, len(batch), PREDICT_CHUNK_ROWS)]
            )
            told = [run(self._cast_batch(part)) for part in parts]
            scores = told[0] if len(told) == 1 else self._concatenate_scores(told)
            return self.wrap_scores(scores).with_sampling_correction(self.negative_rate)

    def _predict_next(self, batch: Batch) -> Scores:
        # Predicting is learning with weight 0, in the same machine code, so that `learn` and `predict` return the
        # same bits.
        nothing = np.zeros(len(batch), self._dtype)
        unused = np.ones(len(batch), np.float64 if self.record.task == "regression" else self._dtype)
        return self._run(batch, unused, nothing)

    def _predict_later(self, batch: Batch) -> Scores:
        """Predict rows that arrive after learning has stopped. Override if that differs from `_predict_next`."""
        return self._predict_next(batch)

    @property
    def supports_later(self) -> bool:
        """True if the "later" horizon is supported; if not, `predict` falls back to "next" with a warning."""
        return True

    @property
    def tells_later_apart(self) -> bool:
        """True if predictions of later rows differ from those of the next one."""
        return self.supports_later and type(self)._predict_later is not Learner._predict_later

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
            purpose: "choose", to decide what to try next (Thompson sampling), or "interval", to see the spread of the
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
            self._check(batch)
            scores = allocate_draws(n_draws, len(batch))
            self._draw(self._cast_batch(batch), key, purpose, scores)
        if self.record.task == "binary":
            _to_probability(self._link, scores)
        return corrected(scores, self.negative_rate)

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        """Fill scores[draw, row] with scores under drawn weights."""
        weights = self._mean_at(batch.indices), self._variance_at(batch.indices)
        self._draw_gaussian(batch, *weights, self.intercept, seed, np.arange(len(scores)), scores)

    @staticmethod
    def _draw_gaussian(
        batch: Batch,
        mean: np.ndarray,
        variance: np.ndarray,
        intercept: tuple[float, float],
        seed: np.uint64,
        draws: np.ndarray,
        scores: np.ndarray,
    ) -> None:
        """Fill `scores` under Gaussian weights; `mean` and `variance` are those of each non-zero's feature."""
        draw_scores(
            batch.indptr,
            batch.indices,
            batch.values,
            mean.astype(np.float64, copy=False),
            np.sqrt(variance, dtype=np.float64),
            intercept[0],
            float(np.sqrt(intercept[1])),
            seed,
            draws,
            scores,
        )

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
        """Signal that the following rows are new, even after `end_pass`. For multi-pass learners."""

    # --- copies, files, merging ---------------------------------------------------------------------------------

    def snapshot(self) -> Self:
        """Return an immutable copy to predict from, even while this learner goes on in another thread."""
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
            raise BadModel("merge takes a learner, or a list of some, and a learner as base=.")
        if self.record.merge == "refused":
            raise BadModel(f"{self.name} models cannot be merged.")
        merged, extras = copy.copy(self), self.extras
        merged._frozen = False
        base = None if base is None else copy.copy(base)
        before = 0 if base is None else base._examples
        for one in others if base is None else (*others, base):
            self._check_alike(one)
        for one in others:
            extras = extras.merge(one.extras, None if base is None else base.extras)
        with ExitStack() as held:
            for one in others:
                held.enter_context(one._lock)
            if before > min(one._examples for one in (merged, *others)):
                raise BadModel("base has seen more examples than a model grown from it; give a common ancestor.")
            at_once = type(self)._merge_many is not Learner._merge_many
            for some in [others] if at_once else [[one] for one in others]:
                for one in some:
                    merged._examples += one._examples - before
                    merged._negative = one._negative if merged._negative is None else merged._negative
                merged._merge_many(some, base)
        merged.extras = extras
        return merged

    def take_over(self, other: Self) -> None:
        """Take over the state of `other`, which was made from this learner and must not be used afterwards."""
        with self._lock:
            self.__dict__.update({**other.__dict__, "extras": self.extras, "_lock": self._lock})

    def _check_alike(self, other: Learner) -> None:
        if self.name != other.name:
            raise BadModel(f"a {self.name} model and a {other.name} model cannot be merged; give two of one learner.")
        for key, value in self._parameters.items():
            if not np.array_equal(value, other._parameters[key]):
                shown = ("an array" if isinstance(v, np.ndarray) else v for v in (value, other._parameters[key]))
                raise BadModel("the models differ in {}: {} and {}. Merge models of one kind.".format(key, *shown))
        if None not in (self._negative, other._negative) and self._negative != other._negative:
            raise BadModel("one model's negative labels are 0, the other's -1: they are not of one stream.")

    # --- validation ---------------------------------------------------------------------------------------------

    def _check(self, batch: Batch, learn: bool = False) -> None:
        check_batch(batch, self._n_features, self._dtype, self._widest, learn)

    def _cast_batch(self, batch: Batch) -> Batch:
        """Cast the values to the type of the kernels, which Numba would otherwise compile again for another type."""
        return batch.astype(self._takes or self._dtype)

    def _row_weights(self, batch: Batch) -> np.ndarray:
        """Return the weight of every row in the state's type, in which tiny weights may round to 0."""
        return np.ones(len(batch), self._dtype) if batch.weights is None else batch.weights.astype(self._dtype)

    def _targets(self, batch: Batch, weights: np.ndarray) -> tuple[np.ndarray, int | None]:
        """Return the targets (signs, or the labels for regression) and the stream's negative label, if any."""
        if batch.labels is None:
            raise BadInput("the batch has no labels to learn from; give them: Batch.from_csr(X, y).")
        if self.record.task == "binary":
            return signs_of(batch.labels, weights, self._dtype, self._negative)
        return numbers_of(batch.labels, self._dtype), None


def allocate_draws(n_draws: int, rows: int) -> np.ndarray:
    """Return an empty array of shape (n_draws, rows); raise BadInput if it does not fit into memory."""
    n_draws = check_int("n_draws", n_draws, 1, 2**31)
    try:
        return np.empty((n_draws, rows))
    except MemoryError:
        size = n_draws * rows / 2**27
        raise BadInput(
            f"{n_draws} draws for {rows} rows take {size:.0f} GiB, more than there is; ask for fewer."
        ) from None


def _concatenate_scores(parts: Any) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


@kernel
def _to_probability(link, scores):
    for draw in range(scores.shape[0]):
        for row in range(scores.shape[1]):
            scores[draw, row] = links.cdf(link, scores[draw, row])
