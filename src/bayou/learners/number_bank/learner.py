"""The regression bank: several regressions learned side by side and combined by evidence, so that nothing is tuned.

A lane is a Gaussian regression with one answer to the questions that a user would otherwise have to answer: how strong
are all features together, in which units are they, do weights drift? Labels and columns may have any unit.

**A lane** has the posterior N(mu, s V) of its weights, s the noise. For a row (x, y) of weight c it computes

    m = x'mu       q = x'Vx       e = y - m          dm = c e / (1 + c q)       dv = c / (1 + c q)
    mu += V x dm   V -= (V x)(V x)' dv

What a lane says, M, is m cut to the range of labels so far, widened by a quarter at either side. s is not needed for
that, and V does not depend on the unit of the labels. e is y - M; but a block lane with all columns of the row in its
head has e = y - m, and c |y - M| / |e| instead of c where that is less. So it remains Bayesian ridge regression: with
another error than its own, V would shrink around a mean that the rows do not support.

    columns     in units of their first value. n uses in t rows, sums S1 of x and S2 of x^2, including the current row.
                spread r = (S2 - S1^2/t)/n + S2/n^2: the variance of a dense column, the mean square of a rare one.
                From 16 uses on, unless it is constant, S2/n^2 is at most ten variances, and at least S2/n^2/100
    prior       v = S / (r D), D the mean number of non-zeros in a row: S is the signal-to-noise of a whole row. That of
                the intercept is 1e6 around the first label
    diagonal    V is diagonal, stored as precision gained over the prior's. Dense columns (in more than half of the
                rows) are centered. When r grows, mu shrinks by (old precision)/(new precision)
    block       V is full over the intercept and a head of at most 128 columns (`head`), diagonal over the rest. At
                t = 2, 3, 4, 6, 8, 12, ... the head becomes the columns used most (its own count 1.25 times), and its
                priors are updated to the current spreads, as if each weight had been observed to be 0, more or less
                precisely
    learned S   of the first lane, at the same t if t exceeds the number of weights in the head, or nothing is outside:
                S <- (16 + sum p mu^2 / noise)/(16 + sum gamma) within [.01, 100], p = r D, gamma = 1 - p V_jj / S
                (MacKay). noise = Q/t; Q is the sum of e^2/(1/c + q), of the observations that priors make too: always
                that of the current priors
    raw         diagonal, with r D = the mean squared length of a row: columns in the units of the data, such as tf-idf
    walk w      block: a weight's variance grows by w times the prior's after each use, while it is below that;
                diagonal: its precision is (1 - w) times as much before each use, and no less than the prior's
    drift i     the intercept's variance grows by i with every row

**Combining**, in three levels; the lanes' means, and the prediction, are cut to the range of labels so far.

    1. fixed share by a Student-t of 5 degrees around m_k, squared scale R_k (1 + q_k), R_k the running mean of
       e^2/(1 + q); at row t a fraction max(1/(t+1), 1e-4) is replaced by the first shares. Its mean is z
    2. from row 20 on, two stackers: y = z + b sd(y) + a (z - mean(y)) + sum c_k (m_k - z), m_k - z cut at four
       deviations of z's errors; (b, a, c) ~ N(0, diag(.01, .01, .1/K)), full covariance C, Kalman steps with the
       running R of their own errors. In one an outlier counts less, R (5 + e^2/var)/6; the other has C += .001 (C0 - C)
    3. fixed share, by the same density, over z and the stackers; first shares .9, .05, .05: the mean

**Around the mean** a label has the density of nine Student-t's (3, 6 and 30 degrees of freedom, each with scales that
remember all errors, the last hundred, the last twenty), the scales learned by on-line EM on e/sqrt(1 + q), their shares
by fixed share. All scales are times one factor f, steered so that intervals of 90% hold 90%:
ln f += max(.02, min(.1, .5/sqrt(t+1))) (missed - .1). The noise is the variance of that mixture, and q times it that of
the mean.

A weight c multiplies the evidence of a row; units and spreads are learned from rows, whatever their weights.

**Later rows.** A model that has stopped learning predicts with a second combination, learned from lane outputs of rows
before their block was learned (`ensembles.delayed`). Its mixture has the lanes whose weights do not walk, by evidence
without sharing. Its two stackers never forget, one of them is not robust, and both also read the raw lane that walks by
.01, with a tenth of the prior variance. The last level is judged by the normal density in place of Student's: users
measure squared errors, and heavy tails would prefer medians to means. It is used by `predict(batch, horizon="later")`.
The weights shown are those of this combination, as a sum over lanes (`weights`).

Paper: none, it is ours. Fixed share: Herbster and Warmuth 1998.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from bayou.core import checks
from bayou.core.batch import Batch
from bayou.core.errors import BadModel
from bayou.core.learner import Scores
from bayou.core.prediction import ScoreRule
from bayou.kernels.row_layout import batch_arrays
from bayou.kernels.vector import LANES
from bayou.learners.ensembles.delayed import N_LEARNED, N_PASSES, DelayBlock, DelayedRows
from bayou.learners.ensembles.learner import Ensemble, frozen_combination
from bayou.learners.number_bank.combination import DEGREES, LATER, LIVE, combine, new_combination
from bayou.learners.number_bank.head import (
    HEAD_COLUMNS,
    MAX_HEAD_COLUMNS,
    MAX_PENDING_UPDATES,
    N_HEAD_LANES,
    WIDE,
    new_head,
)
from bayou.learners.number_bank.lanes import PRESET, NumberLane, maintain_head, new_lanes, run_lanes, scratch_for
from bayou.learners.number_bank.sampling import draw
from bayou.learners.number_bank.weights import intercept_of, weights_of

# The first MAX_SAMPLED rows are all sampled, row t after that with probability MAX_SAMPLED / t.
MAX_SAMPLED = 4096


class NumberBank(Ensemble):
    """Ensemble of regressions combined by evidence: nothing to tune, with labels and columns in any unit.

    Args:
        n_features: number of weights; feature indices start at 0.
        head: number of most-used columns whose correlations four lanes track. More of them help with a few hundred
            rows of more columns than that, but slow down learning and enlarge files by their square.
        intercept: whether to add a weight whose feature is always 1.
        dtype: type of the weights returned, "float64" or "float32". The state is always in float64.

    >>> from bayou import Batch
    >>> learner = NumberBank(n_features=10)
    >>> m = learner.learn(Batch.from_rows([{0: 1.0, 3: 1.0}, {0: 1.0}], labels=[7.0, 7.5]))
    >>> float(m[0]), float(m[1])
    (0.0, 7.0)
    >>> prediction = learner.predict(Batch.from_rows([{0: 1.0}]))
    >>> low, high = prediction.interval(0.9)
    >>> bool(low[0] < prediction.mean[0] < high[0]), prediction.mean.tolist() == prediction.quantile(0.5).tolist()
    (True, True)
    """

    name = "number-bank"
    _per_feature_arrays = ("state", "columns", "uses")

    def __init__(self, n_features: int, *, head: int = HEAD_COLUMNS, intercept: bool = True, dtype: Any = None) -> None:
        head = checks.check_int("head", head, 1, MAX_HEAD_COLUMNS)
        super().__init__(n_features=n_features, dtype=dtype, intercept=intercept, head=head)
        self._widest, self._takes = WIDE, "float64"
        self._lanes = new_lanes(self._n_features, self._has_intercept, head)
        first = np.array([lane.share for lane in PRESET])
        later = np.array([lane.later for lane in PRESET])
        self._combination = new_combination(first, np.ones(LANES), self._has_intercept, LIVE)
        self._later_combination = new_combination(first * (later == 1.0), later, self._has_intercept, LATER)
        self._delayed = DelayedRows("squared loss", MAX_SAMPLED)
        self._by_rows_at_hand = ("tally", "delayed", *(f"later {name}" for name in self._later_combination.arrays()))

    def _arrays(self) -> dict[str, np.ndarray]:
        lanes = self._lanes
        small = {"stream": lanes.stream, "intercept": lanes.intercept, "delayed": self._delayed.progress}
        small |= self._combination_arrays()
        # One row each: a row of a file that is all zeros is left out.
        rows = {name: array.reshape(1, -1) for name, array in small.items()}
        large = {"state": lanes.state, "columns": lanes.columns, "uses": lanes.uses, "tally": self._delayed.tally}
        return large | lanes.head.arrays() | rows

    def _nbytes_for(self, n_features: int) -> int:
        """Return the bytes needed; the head has a place for each column, up to a limit."""
        room = min(max(n_features, 1), self._parameters["head"])
        then, now = new_head(room, True, [], np.ones(N_HEAD_LANES)).arrays(), self._lanes.head.arrays()
        return super()._nbytes_for(n_features) + sum(then[name].nbytes - now[name].nbytes for name in now)

    def _check_state(self) -> None:
        head = self._lanes.head
        (places, waiting), room = head.counts, (len(head.columns), MAX_PENDING_UPDATES - 1)
        if not (0 <= places <= room[0] and 0 <= waiting <= room[1] and places % 1 == waiting % 1 == 0):
            raise BadModel(f"the model's head has {places:g} places and {waiting:g} pending rows; at most {room} fit.")
        if len(head.columns) and not 0 <= head.columns.min() <= head.columns.max() < self._n_features:
            raise BadModel("the model's head has columns that the model does not have.")

    # --- learning and predicting --------------------------------------------------------------------------------

    @cached_property
    def score_rule(self) -> ScoreRule:
        return ScoreRule(degrees=tuple(DEGREES.tolist()))

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        weights = weights.astype(np.float64, copy=False)
        scores, outputs = empty_scores(len(batch)), np.empty((len(batch), 2, LANES))
        scratch, row, delayed = scratch_for(self._lanes, batch.max_row_length), 0, np.full(len(batch), np.nan)
        rows = batch_arrays(batch, signs, weights)
        looks_ahead = bool(weights.any()) and not self._delayed.progress[N_PASSES]
        if not looks_ahead:
            self._delayed.progress[N_LEARNED] += np.count_nonzero(weights)
        nothing = DelayBlock(0, len(batch), 0, np.zeros(0, np.int64))
        for block in self._delayed.blocks(weights, self._examples) if looks_ahead else [nothing]:
            sampled = block.sampled
            ahead = self._outputs_of(batch.take(sampled)) if len(sampled) and block.n_examples > 1 else None
            while row < block.stop:
                row, due = run_lanes(rows, self._lanes, scratch, row, block.stop, outputs)
                if due:
                    maintain_head(self._lanes, scratch)
            if len(sampled):
                later = empty_scores(len(sampled))
                combine(
                    outputs[sampled] if ahead is None else ahead,
                    signs[sampled],
                    weights[sampled],
                    self._later_combination,
                    later,
                )
                self._delayed.progress[N_LEARNED] += len(sampled)
                if ahead is not None:
                    delayed[sampled] = (signs[sampled] - later.mean) ** 2
        combine(outputs, signs, weights, self._combination, scores)
        if looks_ahead:
            self._delayed.add((signs - scores.mean) ** 2, weights, delayed, self._examples)
        return scores._replace(expected=scores.mean.copy())

    def _outputs_of(self, batch: Batch) -> np.ndarray:
        """Return the lane outputs of some rows without learning from them."""
        outputs, nothing = np.empty((len(batch), 2, LANES)), np.zeros(len(batch))
        rows, scratch = batch_arrays(batch, nothing, nothing), scratch_for(self._lanes, batch.max_row_length)
        run_lanes(rows, self._lanes, scratch, 0, len(batch), outputs)
        return outputs

    def _predict_later(self, batch: Batch) -> Scores:
        scores, nothing = empty_scores(len(batch)), np.zeros(len(batch))
        combine(self._outputs_of(batch), nothing, nothing, frozen_combination(self), scores)
        return scores._replace(expected=scores.mean.copy())

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def noise(self) -> float:
        """The variance of a label around its mean, as learned so far."""
        return float(self.predict(Batch.from_rows([{}])).noise[0])

    @property
    def lanes(self) -> list[tuple[NumberLane, float]]:
        """Every lane, and its share in the first level."""
        with self._lock:
            return list(zip(PRESET, self._combination.shares.tolist(), strict=True))

    def parts(self) -> list[dict[str, Any]]:
        """Return `lanes` as mappings for the command."""
        return [{"name": str(lane), "weight": share} for lane, share in self.lanes]

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[0].astype(self._dtype)

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[1].astype(self._dtype)

    def _weights_at(self, features: Any) -> np.ndarray:
        return weights_of(self._lanes, frozen_combination(self), np.arange(self._n_features)[features])

    def _intercept(self) -> tuple[float, float]:
        return intercept_of(self._lanes, frozen_combination(self))

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        draw(self._lanes, frozen_combination(self), batch, seed, scores)


def empty_scores(rows: int) -> Scores:
    mean, variance, noise = np.empty((3, rows))
    return Scores(mean, mean, variance, noise, np.empty((rows, 2, len(DEGREES))))
