"""The base class of learners: checks, one lock, files, snapshots, merging and sampling, and what a new learner adds.

An algorithm is one file or folder in `learners/`: a module-level RECORD of what it claims (`registry.Record`), and a
subclass of `Learner` whose `name` is that of the record. Batches that reach it are canonical, finite, and of its type.

Required:

    _arrays()                    its state by name, the arrays themselves; zero bytes mean "as the prior says"
    _run(batch, signs, weights)  predict every row and, where its weight is not 0, learn from it; returns `Scores`.
                                 Where the record's task is regression, the labels come as signs, in float64
    _mean_at(features)           means of some weights
    _variance_at(features)       variances of them; only if the record says that there is a posterior
    _intercept()                 mean and variance of the intercept

Optional:

    _add(other, base)            merge: learn what `other` has learned since `base`, or since the prior. `_add_all` in
                                 its place takes several, where their sum depends on how many there are
    _draw(batch, seed, ...)      fill in scores under drawn weights, where means and variances do not say it all
    _run_later(batch)            predict rows that arrive after learning has stopped, where that differs
    _run_row(row, sign, weight)  `_run` for one row, returning the probability alone, where that can be faster
    _run_ahead(..., behind)      `_run` of which a part may be done later, in the thread `behind`
    _make_room(shapes)           before a file is read: make arrays that grow with the data as large as they are there
    _check_state()               after a file was read: raise BadModel if kernels could stray because of it
    _nbytes_for(n_features)      memory of that many weights, where it is not proportional to them

Public methods that do nothing here may be overridden: `end_pass`, `new_stream`, `progress`, `parts`, `later_loss`,
`looks_later`, `rewrites`. Fields: `_per_feature` (arrays with a row for each feature), `_takes` (the type of values),
`_by_rows_at_hand` (arrays that depend on how batches were cut), `wants_groups`.

Learners that are made of others also override `_targets`, `_run_next`, `_joined`, `_reading`, `_associated`,
`_written` and `_meant`. Nothing else with an underscore is for subclasses, and nothing of it for other packages.
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
from bayou.core.batch import MAX_FEATURES, Batch, Row
from bayou.core.checks import float_type, one_of, whole_number, yes_or_no
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.inspection import Inspected
from bayou.core.prediction import HORIZONS, ONLY_NEXT, ScoreRule, corrected, no_posterior
from bayou.core.prediction import Prediction as Prediction
from bayou.core.prediction import Scores as Scores
from bayou.core.threads import Guard, InTurn
from bayou.core.validation import check_batch, numbers_of, signs_of
from bayou.kernels.compiling import kernel
from bayou.kernels.random import draw_scores

# A large batch is learned this many rows at a time, so that what is kept of each row stays in the cache.
AT_ONCE = 8192
# While one such part is learned, what follows of so many before it may still have to be done.
FOLLOWING = 4
# So many rows are predicted at a time: what is noted on the way is in the cache, and new memory is dear.
MANY = 4 * AT_ONCE
# What draws are for.
PURPOSES = {purpose: purpose for purpose in ("choose", "interval")}


class Learner(Inspected):
    """Base of all learners; see the module's docstring for what a new one must say.

    A learner has one lock: one thread learns, and others predict from a `snapshot`.

    Attributes:
        name: as the command and model files call it; record: what it claims of itself (`bayou.registry.Record`).
        extras: what travels with the model besides its weights: recipe, names, counters.

    >>> from bayou import Batch
    >>> from bayou.learners import Bank
    >>> learner = Bank(n_features=100)
    >>> p = learner.learn(Batch.from_rows([{3: 1.0}, {3: 1.0, 7: 2.0}], labels=[1, 0]))  # made before learning
    >>> float(p[0]), learner.examples, learner.touched.tolist()
    (0.5, 2, [3, 7])
    """

    name: ClassVar[str]
    # Whether batches should say of each non-zero which column it is of (`Batch.groups`); readers then work that out.
    wants_groups = False
    # Arrays that depend on how many rows were at hand at a time; all others, on the rows and their order alone.
    _by_rows_at_hand: ClassVar[tuple[str, ...]] = ()
    # In which type kernels take values, where that is not the state's.
    _takes: str | None = None
    supported_links: tuple[str, ...] = ("logistic", "probit")

    def __init__(self, *, n_features: int, dtype: Any, intercept: bool, **parameters: Any) -> None:
        self._n_features = whole_number("n_features", n_features, 1, MAX_FEATURES)
        self._dtype = float_type(registry.find(self.name).dtype if dtype is None else dtype)
        self._has_intercept = yes_or_no("intercept", intercept)
        self._parameters = {
            "n_features": self._n_features,
            "dtype": self._dtype,
            "intercept": self._has_intercept,
            **parameters,
        }
        self._link = links.code(parameters.get("link", "logistic"), self.supported_links)
        self._examples = 0
        self._negative: int | None = None  # how this stream writes a negative label: -1 or 0
        self._widest = 1.0  # at least 1, and at least the largest variance a weight can have
        self._frozen = False
        self._is_regression = registry.find(self.name).task == "regression"
        self._lock = Guard()
        forking.watch(self)
        self.extras = Extras()  # what travels with the model besides its weights

    # --- what an algorithm says ---------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:  # a regressor: targets, as signs
        raise NotImplementedError

    def _run_ahead(self, batch: Batch, signs: np.ndarray, weights: np.ndarray, behind: InTurn | None) -> Scores:
        """`_run`, of which a part may be left to be done `behind`, scores among it."""
        return self._run(batch, signs, weights)

    def _run_row(self, row: Row, sign: float, weight: float) -> float:
        """`_run` for one row; the probability. An algorithm may have a shorter way."""
        one = np.ones(1, self._dtype)
        return float(self._run(self._typed(row.batch()), sign * one, weight * one).expected[0])

    def _add(self, other: Self, base: Self | None) -> None:
        raise NotImplementedError

    def _add_all(self, others: Sequence[Self], base: Self | None) -> None:
        """`_add` for several, all at once for those whose sum depends on how many there are."""
        for other in others:
            self._add(other, base)

    # --- learning and predicting --------------------------------------------------------------------------------

    def learn(self, batch: Batch) -> np.ndarray:
        """Learn from every row in order; P(y = 1) of each, or its predicted mean, from before it was learned from.

        A batch with anything wrong in it is refused whole, before its first row is learned.
        """
        return self.observe(batch).expected

    def observe(self, batch: Batch, behind: InTurn | None = None) -> Prediction:
        """Learn as `learn` does; all that was believed of each row before it was learned from.

        Args:
            batch: the rows, with labels.
            behind: who need not have the answer at once gives a thread in which the rest may be done. Then the answer
                is for work that follows in that thread. Whatever else is asked of the learner waits for it.
        """
        self._check_learns()
        if not isinstance(behind, InTurn | None):
            raise BadInput("behind is the thread in which a run scores (`bayou.core.threads.InTurn`); leave it out.")
        if isinstance(batch, Batch) and len(batch) > AT_ONCE:
            with self._lock, InTurn("following", most=FOLLOWING) as following:
                told = self._observe(batch, following)
                following.wait()
        else:
            with self._lock.ahead(behind):
                told = self._observe(batch, behind)
        return self.prediction(told[0] if len(told) == 1 else self._joined(told))

    def _observe(self, batch: Batch, behind: InTurn | None) -> list[Scores]:
        """What was believed of rows AT_ONCE; `behind` is where what follows one such part is done."""
        self._check(batch, learn=True)
        weights = self._row_weights(batch)
        targets, negative = self._targets(batch, weights)
        told = []
        for start in range(0, max(len(batch), 1), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            part = self._typed(batch if len(batch) <= AT_ONCE else batch[rows])
            self.touch(part.indices)
            told.append(self._run_ahead(part, targets[rows], weights[rows], behind))
            self._examples += len(part) if batch.weights is None else int(np.count_nonzero(weights[rows]))
        self._negative = negative
        return told

    @staticmethod
    def _joined(parts: Any) -> Any:
        """Scores of rows one after another."""
        return Scores(*map(_joined, zip(*parts, strict=True)))

    def _check_learns(self) -> None:
        if self._frozen:
            raise BadInput("this is a snapshot: it predicts, but does not learn. Learn with the learner itself.")

    def check(self, batch: Batch, learn: bool = True) -> None:
        """Raise BadInput if `learn` would, because of any row; or, without `learn`, if `predict` would."""
        if not learn:
            self._check(batch)
            return
        with self._lock:
            self._check(batch, learn=True)
            self._targets(batch, self._row_weights(batch))

    def learn_row(self, row: Row, label: float, weight: float = 1.0) -> float:
        """`learn` for one row: the short way, for streams within Python. With weight 0 it predicts.

        A classifier's positive label is anything but 0.
        """
        if weight:
            self._check_learns()
        with self._lock:
            # Nothing in a row of so few small values is too large; all others are looked at more closely.
            small = row.largest <= 1e6 and row.size <= 1e6 and self._widest <= 1e8 and row.max_index < self._n_features
            if not small or self._is_regression or weight not in (0.0, 1.0):
                if weight == 0.0:
                    return float(self.predict(row.batch()).expected[0])
                known = label if self._is_regression else 1 if label else self._negative or 0
                return float(self.learn(row.batch([known], [weight]))[0])
            probability = self._run_row(row, 1.0 if label else -1.0, weight)
            if weight:
                self._examples += 1
                if self._negative is None and not label:
                    self._negative = 0
        return probability if weight else corrected(probability, self.negative_rate)

    def predict(self, batch: Batch, horizon: str = "next") -> Prediction:
        """What the learner believes of each row. Changes nothing.

        Where its recipe says that only a share of the negatives was learned from, this is of the full stream.

        Args:
            batch: rows, with labels or without.
            horizon: "next" for the next example of a stream whose labels are all told: what `learn` would answer, to
                the bit. "later" for a model that has stopped learning; only the bank tells the two apart.
        """
        later = one_of("horizon", horizon, HORIZONS)
        if later and not self.looks_later:
            warnings.warn(ONLY_NEXT, stacklevel=2)
        with self._lock:
            self._check(batch)
            run = self._run_later if later else self._run_next
            parts = [batch] if len(batch) <= MANY else [batch[at : at + MANY] for at in range(0, len(batch), MANY)]
            told = [run(self._typed(part)) for part in parts]
            scores = told[0] if len(told) == 1 else self._joined(told)
            return self.prediction(scores).of_full_stream(self.negative_rate)

    def _run_next(self, batch: Batch) -> Scores:
        # A row of weight 0 is predicted and not learned from: predicting is learning with weight 0, in the
        # same machine code, so that `learn` and `predict` answer with the same bits.
        nothing = np.zeros(len(batch), self._dtype)
        unused = np.ones(len(batch), np.float64 if self.record.task == "regression" else self._dtype)
        return self._run(batch, unused, nothing)

    def _run_later(self, batch: Batch) -> Scores:
        """For a model that has stopped learning; an algorithm may have a better answer for it."""
        return self._run_next(batch)

    @property
    def looks_later(self) -> bool:
        """Whether `predict(horizon="later")` is for later rows; if not, it answers for the next one."""
        return True

    @property
    def tells_later_apart(self) -> bool:
        """Whether it predicts later rows otherwise than the next one."""
        return self.looks_later and type(self)._run_later is not Learner._run_later

    def later_loss(self) -> Any:
        """What later rows are expected to cost, where a learner can tell that from its stream; see `Bank`."""
        return None

    def prediction(self, scores: Scores) -> Prediction:
        """What a kernel answered, with what it means for data such as were learned from."""
        return Prediction(scores, self.name, self.score_rule)

    @cached_property
    def score_rule(self) -> ScoreRule:
        """How scores become probabilities: by the parameters `link`, `predictive` and `temper`, where there are any."""
        predictive: Any = self._parameters.get("predictive", "closed") if self.record.posterior else "plain"
        return ScoreRule(self._link, predictive, self._parameters.get("temper", (1.0, 1.0))[1])

    def sample(self, batch: Batch, n_draws: int, seed: int = 0, purpose: str = "choose") -> np.ndarray:
        """Probabilities (or means) under `n_draws` weight vectors drawn from the posterior, shape (n_draws, rows).

        A draw is one weight vector for all rows. It depends on (seed, draw, feature) alone, so the same seed gives the
        same weights to any other batch.

        Args:
            batch: the rows; labels are not looked at.
            n_draws: how many weight vectors.
            seed: another seed gives other draws.
            purpose: "choose", to decide what to try next (Thompson sampling), or "interval", to see how far the
                probabilities may lie apart. The bank draws with half of its variance to choose, which loses fewer
                clicks, and with all of it for intervals. All other learners draw from their posterior either way.

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
        one_of("purpose", purpose, PURPOSES)
        key = np.uint64(whole_number("seed", seed, 0, 2**64 - 1))
        with self._lock:
            self._check(batch)
            scores = room_for_draws(n_draws, len(batch))
            self._draw(self._typed(batch), key, purpose, scores)
        if self.record.task == "binary":
            _to_probability(self._link, scores)
        return corrected(scores, self.negative_rate)

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        """Fill scores[draw, row]."""
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
        """Fill the scores of some draws; mean and variance are those of each non-zero's feature."""
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
        """What a learner made of several others tells of each, as JSON can say it; others have nothing to tell."""
        return []

    def progress(self) -> str:
        """What there is to say after a pass, in a few words; nothing, for one-pass learners."""
        return ""

    def end_pass(self) -> bool:
        """Say that the data came to their end once; True once converged. One-pass learners have nothing to do."""
        return False

    def rewrites(self, examples: int) -> bool:
        """Whether learning so many examples more changes numbers of features that are not in them."""
        return False

    def compile_last_kernels(self) -> None:
        """Compile those kernels that learning calls last: meanwhile another process may compile the first ones."""

    def new_stream(self) -> None:
        """Say that what comes next was never learned from, also after `end_pass`; for learners of many passes."""

    # --- copies, files, merging ---------------------------------------------------------------------------------

    def snapshot(self) -> Self:
        """An immutable copy to predict from, also while this learner goes on in another thread."""
        frozen = copy.copy(self)
        frozen._frozen = True
        return frozen

    def merge(self, other: Self | Sequence[Self], base: Self | None = None) -> Self:
        """A new learner that knows what all know.

        All must have started from the same prior, or all from `base` (a model they were resumed from), whose knowledge
        is then counted once. Their recipes must be equal, and their numberings agree; what else travels with them
        (names, counters) is merged, too.

        Args:
            other: another learner, or several: of weights that fade the mean over all is taken, so that merging three
                at once differs from merging two and then the third.
            base: the learner that all of them grew from, if there is one.

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
            at_once = type(self)._add_all is not Learner._add_all
            for some in [others] if at_once else [[one] for one in others]:
                for one in some:
                    merged._examples += one._examples - before
                    merged._negative = one._negative if merged._negative is None else merged._negative
                merged._add_all(some, base)
        merged.extras = extras
        return merged

    def take_over(self, other: Self) -> None:
        """Become what `other` is, which grew from this learner and must not be used any more."""
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

    def _typed(self, batch: Batch) -> Batch:
        """The rows as kernels take them: of values of another type Numba would compile every kernel once more."""
        return batch.astype(self._takes or self._dtype)

    def _row_weights(self, batch: Batch) -> np.ndarray:
        """The weight of every row; what rounds to 0 is 0 for everyone."""
        return np.ones(len(batch), self._dtype) if batch.weights is None else batch.weights.astype(self._dtype)

    def _targets(self, batch: Batch, weights: np.ndarray) -> tuple[np.ndarray, int | None]:
        """What is to be predicted: classes as signs, and how this stream writes negative ones; or numbers."""
        if batch.labels is None:
            raise BadInput("the batch has no labels to learn from; give them: Batch.from_csr(X, y).")
        if self.record.task == "binary":
            return signs_of(batch.labels, weights, self._dtype, self._negative)
        return numbers_of(batch.labels, self._dtype), None


def room_for_draws(n_draws: int, rows: int) -> np.ndarray:
    """An array to fill, (n_draws, rows); a sentence where there is no room for it."""
    n_draws = whole_number("n_draws", n_draws, 1, 2**31)
    try:
        return np.empty((n_draws, rows))
    except MemoryError:
        size = n_draws * rows / 2**27
        raise BadInput(
            f"{n_draws} draws for {rows} rows take {size:.0f} GiB, more than there is; ask for fewer."
        ) from None


def _joined(parts: Any) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


@kernel
def _to_probability(link, scores):
    for draw in range(scores.shape[0]):
        for row in range(scores.shape[1]):
            scores[draw, row] = links.cdf(link, scores[draw, row])
