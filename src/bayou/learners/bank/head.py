"""The head: a joint Gaussian over the features used most and the intercept; all other features are diagonal.

Diagonal lanes cannot know that weights move together. With e^l a common scale of all weights and the intercept,

    inside the head    w ~ e^l N(mu, S)             S = (P + H)^-1,  mu = S b
    outside            w_j ~ e^l N(m_j, 1/(P_j + g_j))
    prior              P_j = r_j / v_g              r_j the spread of the column, v_g the variance of its group

P and H, b are the precisions of the prior and of the rows. A row (x, y = +-1), its values times e^l, has a score of
mean m and variance s, that of l included: m^2 v_l with v_l = 1/(20 + G + .03 t). Moments are matched as in all lanes:
g = 1/(1 + C8 s), z = y m sqrt(g), dm = y sqrt(g) S(-z), dv = g S(z) S(-z). With m_h and s_h, the head's parts of m and
s:

    inside     c = dv/(1 - dv s_h)     H += c x x'     b += x (dm + c (m_h + s_h dm))
    outside    m_j += x v dm           g_j += h/max(1 - h v, 1/2), h = x^2 dv
    scale      l += m v_l dm           G += h/max(1 - h v_l, 1/2), h = m^2 dv

The intercept, a feature of value 1, has the scale of all others. With one of its own, folding would tell the level of
the columns that give every row a value, which no row does.

**Deferred updates.** S is recomputed from H at a refresh. Until then an informative row (dv s_h > .2) conditions S at
once; the gradients x dm of all others are kept, and mu += S sum x dm once their information reaches .3. A refresh is
due when the information reaches .2 per slot, at 8, 16, 32, ... rows, and when it is far larger than usual, as with new
values in every row. It folds l into H, b and the weights, learns the prior variances (MacKay's evidence, counting as
four weights around one for all groups), and at powers of two exchanges features, so that the most used are inside.

**Two answers.** Answer 0 remembers every row. Answer 1 fades, by .001 a row: S1 = (P + phi H)^-1 with
phi = (1 - e^-ft)/(ft), and the mean decays towards the prior at each refresh. Both share H, the slots, l and the
features outside.

**Intervals of later rows** are those of answer 0's score, N(m, s), where the head fits: where delayed rows show that
its log loss is not higher than that of the combination which predicts them. Rows count in proportion to their number in
the stream, so that those from which the head has learned its prior are soon forgotten. Where that is not shown (weights
drift, much is outside the head, or labels tell too little), the score is the combination's, and its variance includes
the squared distance between the two log-odds. The probability is the combination's in either case.

Kernels are in `head_kernels`, the inverse in `head_matrix`; `tests/reference/head.py` has the rule in plain NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_int
from bayou.core.errors import BadModel
from bayou.core.links import C8
from bayou.core.model_file import nonzero_rows
from bayou.core.prediction import JointCovariance, Scores, Weights, WeightViewPart
from bayou.core.sampling import draw_gaussian
from bayou.kernels.huge_pages import aligned_zeros, release
from bayou.kernels.random import INTERCEPT
from bayou.kernels.row_layout import BatchArrays
from bayou.kernels.vector import LANES
from bayou.learners.bank import head_kernels as kernels
from bayou.learners.bank.combination import Output
from bayou.learners.bank.head_kernels import HeadState
from bayou.learners.bank.head_matrix import tiled
from bayou.learners.bank.pairs import PairLane

AUTOMATIC = "auto"
MAX_SLOTS = 1024
# With "auto" the head is dropped after FIRST_LOOK examples or a later power of two, unless it has lowered the loss of
# measured rows by WORTH, times the square of its non-zeros in a row over 100. Measured are the first FIRST_LOOK rows,
# and of each doubling the last quarter, up to MAX_MEASURED.
FIRST_LOOK, MAX_MEASURED, WORTH = 8192, 8192, 5e-3
# Key of the scale's draws.
SCALE_KEY = np.uint64(2**64 - 3)
# Weights outside the head are learned as if they were independent, so their variances are too small. The standard
# deviations that are shown are larger by this factor (`benchmarks/uncertainty.py --heads`).
OUTSIDE_WIDENING = 1.1
# The head fits if its delayed loss, LATER_ERRORS standard errors of the difference added, is at most this much higher
# than the combination's, relative to that. In simulations the errors tell drift from chance at .2 to .7 % (`docs/lab`).
MAX_LATER_EXCESS, LATER_ERRORS = 5e-3, 3.0
# Prior variance of the coefficient of an output, and its first share of the mixture, relative to those of a lane.
COEFFICIENT_PRIOR, LATER_COEFFICIENT_PRIOR, FIRST_SHARE = 0.03, 0.01, 0.1
MAX_CANDIDATES = 1 << 14
N_VECTORS = 5  # of scratch
_VECTORS = ("features", "group_variance", "stream")
_MATRICES = ("precision", "covariance")
LATER_GAPS = "later head gaps"  # the array's name in model files


def new_state(n_features: int, n_slots: int, has_intercept: bool, max_candidates: int = MAX_CANDIDATES) -> HeadState:
    """Return the state at the prior."""
    width = tiled(n_slots + 1)
    vectors = np.zeros(6 * width)
    state = HeadState(
        has_intercept=has_intercept,
        table=aligned_zeros(n_features, kernels.GAIN + 1, "float64"),
        groups=aligned_zeros(n_features, 1, "uint8").reshape(-1),
        slots=aligned_zeros(n_features, 1, "int16").reshape(-1),
        features=np.zeros(width, np.int64),
        precision=aligned_zeros(width, width, "float64").reshape(-1),
        vectors=vectors,
        shift=vectors[:width],
        prior=vectors[width : 2 * width],
        covariance=aligned_zeros(2 * width, width, "float64").reshape(-1),
        mean=vectors[2 * width : 4 * width],
        waiting=vectors[4 * width :],
        group_variance=np.zeros(kernels.GROUPS),
        stream=np.zeros(kernels.NUMBERS),
        candidates=np.zeros(max_candidates, np.int64),
        n_candidates=np.zeros(1, np.int64),
        work=aligned_zeros(3 * width + N_VECTORS, width, "float64").reshape(-1),
    )
    _set_prior(state, n_slots)
    return state


def _set_prior(state: HeadState, n_slots: int) -> None:
    """Set the numbers that are not 0 at the prior."""
    state.stream[[kernels.TAKEN, kernels.LIMIT]] = 1.0, n_slots
    state.stream[[kernels.MARK, kernels.UNIT]] = kernels.FIRST_MARK, 1.0
    state.prior[0] = kernels.INTERCEPT_PRECISION
    state.covariance[[0, state.prior.size**2]] = state.has_intercept / kernels.INTERCEPT_PRECISION


def checked_head(head: Any) -> int | str:
    """Check how many features have a joint posterior, a number or "auto", and return it."""
    return head if isinstance(head, str) and head == AUTOMATIC else check_int("head", head, 0, MAX_SLOTS)


class Head:
    """Predicts and learns rows with a joint posterior of the features used most.

    Args:
        n_features: number of features.
        n_slots: number of features in the joint posterior; "auto" to choose it by the length of the rows.
        has_intercept: whether slot 0 is an intercept; otherwise it stays empty.
        column: its first column in the lane outputs.
    """

    lanes = (PairLane("head", (1.0, 1.0)), PairLane(f"head, fading {kernels.FADE:g}", (1.0, 1.0), memory=kernels.FADE))

    def __init__(self, n_features: int, n_slots: int | str, has_intercept: bool, column: int = 0) -> None:
        self.is_auto = isinstance(n_slots, str)
        self.state = new_state(n_features, kernels.MANY_SLOTS if isinstance(n_slots, str) else n_slots, has_intercept)
        if self.is_auto:
            self._choose_slots_later()
        self.column, self.live = column, True
        # Sums over delayed rows, each times its number: how much more it cost the head than the combination, the square
        # of that, and what it cost the combination.
        self.later_gaps = np.zeros(3)
        self._settled: Head | None = None

    @property
    def outputs(self) -> list[Output]:
        return [
            Output(self.column + k, 1.0, COEFFICIENT_PRIOR, LATER_COEFFICIENT_PRIOR, FIRST_SHARE)
            for k in range(len(self.lanes))
        ]

    @property
    def width(self) -> int:
        return self.state.prior.size

    @property
    def taken(self) -> int:
        """The number of slots in use, the intercept's included."""
        return int(self.state.stream[kernels.TAKEN])

    def tasks(
        self, rows: BatchArrays, groups: np.ndarray, start: int, stop: int, outputs: np.ndarray
    ) -> list[Callable[[], Any]]:
        """Return tasks that predict rows in [start, stop), learn from those with a weight, and fill the outputs."""
        if not self.live:
            outputs[start:stop, :, self.column : self.column + len(self.lanes)] = 0.0
            return []
        self._settled = None
        return [partial(kernels.run_head, rows, groups, self.state, start, stop, self.column, outputs)]

    # --- dropping -------------------------------------------------------------------------------------------------

    def next_look(self, examples: int) -> tuple[int, int]:
        """Return the numbers of examples between which the head's worth is measured next."""
        end = max(FIRST_LOOK, 1 << int(examples).bit_length())
        return 0 if end == FIRST_LOOK else end - min(end // 4, MAX_MEASURED), end

    def pays(self, gain: float) -> bool:
        """Return whether lowering the logarithm of the loss by `gain` is worth the time that the head takes."""
        inside = self.state.stream[kernels.INSIDE] / max(self.state.stream[kernels.ROWS], 1.0)
        return gain >= WORTH * (inside / 100.0) ** 2

    def clear(self) -> None:
        """Reset everything, so that files hold nothing of it. For a head of automatic size."""
        for array in self.state[1:]:
            array[nonzero_rows(array.reshape(len(array), -1))] = 0
            release(array)
        _set_prior(self.state, kernels.FEW_SLOTS)
        self._choose_slots_later()
        self.later_gaps[:] = 0.0
        self._settled = None

    def _choose_slots_later(self) -> None:
        self.state.stream[[kernels.LIMIT, kernels.AUTO]] = kernels.FEW_SLOTS, 1.0

    def will_choose(self, examples: int) -> bool:
        """Return whether this many more examples may exchange features, which changes table rows of any feature."""
        stream = self.state.stream
        return self.live and bool(stream[kernels.ROWS] + examples >= stream[kernels.MARK])

    # --- later rows -----------------------------------------------------------------------------------------------

    def later_gaps_of(
        self, outputs: np.ndarray, signs: np.ndarray, weights: np.ndarray, losses: np.ndarray, n_before: float
    ) -> np.ndarray:
        """Return the `later_gaps` of delayed rows, given their lane outputs, labels, weights and combination losses."""
        numbers = weights * (n_before + np.arange(1.0, len(losses) + 1.0))
        gaps = numbers * (np.logaddexp(0.0, -signs * self._later_answer(outputs)[0]) - losses)
        return np.array([gaps.sum(), gaps @ gaps, numbers @ losses])

    @property
    def fits(self) -> bool:
        """Whether delayed rows show that the head predicts later rows as well as the combination does."""
        gaps, squares, losses = self.later_gaps.tolist()
        return bool(gaps + LATER_ERRORS * math.sqrt(squares) < MAX_LATER_EXCESS * losses)

    def describe_later(self, scores: Scores, outputs: np.ndarray) -> Scores:
        """Return the combination's scores of later rows with the same probabilities, and what the head says of them."""
        together = np.asarray(scores.variance)
        log_odds = scores.mean / np.sqrt(1.0 + C8 * together)
        own_log_odds, mean, variance = self._later_answer(outputs)
        if not self.fits:
            mean, variance = scores.mean, together + (log_odds - own_log_odds) ** 2
        return Scores(scores.expected, mean, variance, log_odds=log_odds)

    def _later_answer(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the log-odds of the answer that remembers, and mean and variance of its score."""
        mean, variance = outputs[:, :, self.column].T.astype(np.float64)
        return mean / np.sqrt(1.0 + C8 * variance), mean, variance

    # --- files ----------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file."""
        state, found = self.state, {"table": self.state.table, "groups": self.state.groups}
        found |= {name: getattr(state, name).reshape(-1, LANES) for name in _MATRICES}  # files leave out zero rows
        found["vectors"] = state.vectors.reshape(-1, 1)
        found |= {name: getattr(state, name).reshape(1, -1) for name in _VECTORS}
        return {f"head {name}": array for name, array in found.items()} | {LATER_GAPS: self.later_gaps.reshape(1, -1)}

    def copy_from(self, other: Head) -> None:
        """Copy the state of another head of the same size."""
        for own, theirs in zip(self.state[1:], other.state[1:], strict=True):
            own[nonzero_rows(own.reshape(len(own), -1))] = 0
            rows = nonzero_rows(theirs.reshape(len(theirs), -1))
            own[rows] = theirs[rows]
        self.later_gaps[:] = other.later_gaps
        self._settled = None

    def restore(self) -> None:
        """Recompute what files do not store, after the arrays were loaded."""
        state, taken = self.state, self.taken
        features = state.features[1:taken]
        if not 1 <= taken <= self.width or state.stream[kernels.LIMIT] >= self.width:
            raise BadModel(f"the model's head has {taken - 1} features, more than its capacity.")
        if not ((features >= 0) & (features < len(state.table))).all() or len(np.unique(features)) < len(features):
            raise BadModel("the model's head has out-of-range or duplicate features.")
        state.slots[nonzero_rows(state.slots)] = 0
        state.slots[features] = np.arange(1, taken)
        self.refresh_candidates()

    def refresh_candidates(self) -> None:
        """List the features outside that are used often enough to enter at the next choice."""
        state, rows = self.state, nonzero_rows(self.state.table)
        rows = rows[(state.slots[rows] == 0) & (state.table[rows, kernels.USES] > state.stream[kernels.LEAST])]
        state.n_candidates[0] = len(rows)
        state.candidates[: len(rows)] = rows[: state.candidates.size]

    def refresh(self, chooses: bool = False) -> None:
        """Compute S and mu anew (`head_kernels.refresh`)."""
        kernels.refresh(self.state, np.zeros(self.width, np.int64), chooses)
        self.forget_settled()

    def forget_settled(self) -> None:
        """Forget `settled`, as the state has changed."""
        self._settled = None

    # --- what it knows --------------------------------------------------------------------------------------------

    def settled(self) -> Head:
        """Return a copy without pending updates; it shares the tables of features."""
        if self._settled is None:
            state, own = self.state, (*_VECTORS, *_MATRICES, "shift", "prior", "mean", "waiting", "work")
            self._settled = twin = type(self).__new__(type(self))
            twin.state = state._replace(**{name: getattr(state, name).copy() for name in own})
            twin.later_gaps, twin.state.stream[kernels.RETRY] = self.later_gaps, 0.0
            if state.stream[kernels.ROWS]:
                twin.refresh()
            twin._settled = twin
        return self._settled

    def weights_at(self, features: np.ndarray) -> Weights:
        """Return means and variances of some features' weights."""
        mean, own, scale_variance = self.settled()._widened_weights(features)
        return Weights(mean, own + scale_variance * mean**2)

    def covariance_at(self, features: np.ndarray) -> np.ndarray:
        """Return the joint covariance of some features' weights."""
        twin = self.settled()
        mean, own, scale_variance = twin._widened_weights(features)
        slots = twin.state.slots[features].astype(np.int64)
        joint = twin.state.covariance[: self.width**2].reshape(self.width, -1)[np.ix_(slots, slots)]
        inside = slots > 0
        joint = np.where(inside[:, None] & inside, joint, (features[:, None] == features) * own)
        return joint + scale_variance * np.outer(mean, mean)

    def intercept(self) -> tuple[float, float]:
        """Return mean and variance of the intercept."""
        state, variance = self.settled().state, self._scale_variance
        return float(state.mean[0]), float(state.covariance[0] + variance * state.mean[0] ** 2)

    def parts(self, features: np.ndarray) -> list[WeightViewPart]:
        """Return the weights and the intercept of each answer, as they predict: the variances are not widened.

        Those of the second answer are the variances of the first.
        """
        if not self.live:
            return [WeightViewPart(0.0, Weights(np.zeros(len(features)), np.zeros(len(features))), (0.0, 0.0))] * 2
        twin, mean = self.settled(), self.settled().state.mean
        mean_at, own, scale_variance = twin.weights_given_scale(features)
        weights, (bias, variance) = Weights(mean_at, own + scale_variance * mean_at**2), self.intercept()
        moved = (mean[self.width :] - mean[: self.width]) * twin.state.stream[kernels.FADING]
        slots = twin.state.slots[features]
        faded = Weights(mean_at + np.where(slots > 0, moved[slots], 0.0), weights.variance)
        return [
            WeightViewPart(1.0, weights, (bias, variance)),
            WeightViewPart(1.0, faded, (bias + float(moved[0]), variance)),
        ]

    def joint_at(self, features: np.ndarray) -> JointCovariance:
        """Return the joint covariance of the intercept and of those features that are inside."""
        twin, slots = self.settled(), self.state.slots[features].astype(np.int64)
        inside = np.flatnonzero(slots)
        mean, _, scale_variance = twin.weights_given_scale(features[inside])
        scaled, rows = np.append(twin.state.mean[0], mean), np.append(0, slots[inside])
        joint = twin.state.covariance[: self.width**2].reshape(self.width, -1)[np.ix_(rows, rows)]
        return JointCovariance(inside, joint + scale_variance * np.outer(scaled, scaled))

    def draw(self, batch: Batch, seed: np.uint64, share: float, draws: np.ndarray, scores: np.ndarray) -> None:
        """Fill scores[draw, row] under weights drawn from the joint posterior, with `share` of its variance."""
        from scipy.sparse import csr_array  # here, because it takes long to load

        twin, taken, root = self.settled(), self.taken, float(np.sqrt(share))
        mean, own, scale_variance = twin.weights_given_scale(batch.indices)
        slots = twin.state.slots[batch.indices].astype(np.int64)
        outside, nothing = slots == 0, (0.0, 0.0)
        told = np.where(outside, mean, 0.0), np.where(outside, share * own, 0.0)
        draw_gaussian(batch, *told, nothing, seed, draws, scores)
        inside = csr_array((np.where(outside, 0.0, batch.values), slots, batch.indptr), (len(batch), taken))
        begin = 0 if twin.state.has_intercept else 1
        joint = twin.state.covariance[: self.width**2].reshape(self.width, -1)[begin:taken, begin:taken]
        keys = np.append(twin.state.features[begin:taken].astype(np.uint64), SCALE_KEY)
        keys[: 1 - begin] = INTERCEPT
        normals = np.empty((len(draws), len(keys)))
        kernels.fill_normals(seed, draws, keys, normals)
        weights = np.zeros((len(draws), taken))
        factor = np.linalg.cholesky(joint)
        for drawn, numbers in zip(weights, normals, strict=True):  # bits must not depend on how many draws there are
            drawn[begin:] = twin.state.mean[begin:taken] + root * (factor @ numbers[:-1])
        stretch = 1.0 + root * float(np.sqrt(scale_variance)) * normals[:, -1:]
        scores[draws] = stretch * (weights[:, :1] + scores[draws] + (inside[:, 1:] @ weights[:, 1:].T).T)

    def _widened_weights(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return `weights_given_scale` of a settled head, sd outside times OUTSIDE_WIDENING up to that of the prior."""
        mean, variance, scale_variance = self.weights_given_scale(features)
        gained = self.state.table[features, kernels.GAIN] / self.state.stream[kernels.UNIT] ** 2
        prior = 1.0 / np.maximum(1.0 / np.maximum(variance, 1e-300) - gained, 1e-300)
        widened = np.maximum(np.minimum(OUTSIDE_WIDENING**2 * variance, prior), variance)
        return mean, np.where(self.state.slots[features] > 0, variance, widened), scale_variance

    def weights_given_scale(
        self, features: np.ndarray, state: HeadState | None = None
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return means of some weights, their variances given the scale, and the variance of the scale."""
        state, mean, variance = state or self.state, np.empty(len(features)), np.empty(len(features))
        kernels.fill_weights(state, np.ascontiguousarray(features, np.int64), mean, variance)
        return mean, variance, self._scale_variance

    @property
    def _scale_variance(self) -> float:
        gained = self.state.stream[kernels.SCALE_GAIN] + kernels.SCALE_DECAY * self.state.stream[kernels.ROWS]
        return float(1.0 / (kernels.SCALE_PRECISION + gained))
