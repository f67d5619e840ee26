"""The bank in plain NumPy float64, one example at a time, written to be read.

A bank runs a few lanes side by side. A lane is a small learner of all weights with one answer to "how large are
weights, in which units, how sure may one be, do they drift". Every lane has one output logit or two. Evidence
combines the outputs in three levels:

    1. fixed share over the K outputs                      -> zm
    2. two stackers on the outputs, one with memory        -> q1, q2
    3. fixed share over {zm, q1, q2}                       -> the probability

Labels are y = +1 or -1. A weight c multiplies the log-likelihood of an example; c = 0 predicts and changes nothing.

The fast kernel answers to this file; this file answers to ``test_bank.py``. What keeps the kernel within the
range of its numbers in absurd cases (values beyond 1e15 times a typical row, say) is left out here.
"""

from typing import NamedTuple

import numpy as np

from bayou.learners.bank import PRESETS, Lane
from bayou.learners.bank.lanes import NON_UNIT_ROW_RATIO
from bayou.learners.bank.row_scaling import LEAST_SQUARE, MAX_ROW_NORM, MIN_ROW_NORM, UNIT_FIT_ROWS
from bayou.learners.bank.updates import LEAST_ROOT
from tests.reference.common import LINKS, active_features, label_signs, log_sigmoid, sigmoid

C8 = LINKS["logistic"].shrink

# An output says no more than this, so that no product of probabilities underflows: S(-30) is 1e-13.
SUREST = 30.0
# To the stackers it says no more than this: beyond, a larger logit tells nothing but pulls the harder.
SUREST_STACKED = 15.0
# Weight of a row in the first pass over it, in the second, and in all later ones: more would make lanes too sure.
REPEATED_WEIGHTS = 1.0, 0.2, 0.1


# ----------------------------------------------------------------------------------------------------
# The shared step: every Gaussian lane, and both stackers
# ----------------------------------------------------------------------------------------------------


def score_step(m: float, s: float, y: float, weight: float = 1.0, temper_update: float = 1.0) -> tuple[float, float]:
    """What a label tells of a score believed to be N(m, s): the slope dm and the curvature dv of the evidence.

    The evidence is Z(m) = S(y m sqrt g), g = 1/(1 + C8 ku s), equation (8) with ku of the variance believed. Then

        dm =  (log Z)'  = y sqrt(g) S(-z)        dv = -(log Z)'' = g S(z) S(-z)        z = y m sqrt g

    and moment matching, which for Gaussian beliefs is a law of two derivatives, reads: any quantity that is jointly
    Gaussian with the score, of covariance k with it, moves by k dm, and its variance falls by k^2 dv.

    A weight c <= 1 multiplies both. A larger one would overshoot without bound: its first unit is taken as above and
    the other c - 1 where they leave the score, z + t, which is to solve t = g s [q(z) + (c-1) q(z+t)], q(z) = S(-z).
    """
    g = 1.0 / (1.0 + C8 * temper_update * s)
    z = y * m * np.sqrt(g)
    slope, curvature = sigmoid(-z), sigmoid(z) * sigmoid(-z)
    if weight <= 1.0:
        slope, curvature = weight * slope, weight * curvature
    else:
        z_new = z + heavy_shift(z, g * s, weight)
        slope = slope + (weight - 1.0) * sigmoid(-z_new)
        curvature = curvature + (weight - 1.0) * sigmoid(z_new) * sigmoid(-z_new)
    return float(y * np.sqrt(g) * slope), float(g * curvature)


def heavy_shift(z: float, tau: float, weight: float) -> float:
    """Solve t = tau [q(z) + (c - 1) q(z + t)], q(z) = S(-z), for c > 1: at most a dozen Newton steps.

    From the inflection of q, or from the first unit's own shift if that lies beyond it, the steps near the root from
    one side, as in `newton_shift`.
    """
    first, rest = tau * sigmoid(-z), (weight - 1.0) * tau
    t = max(first, -z)
    for _ in range(100):
        q, r = sigmoid(-(z + t)), sigmoid(z + t) * sigmoid(-(z + t))
        previous = t
        t = (first + rest * (q + r * t)) / (1.0 + rest * r)
        if abs(t - previous) <= 1e-12 * abs(t):
            break
    return float(t)


def shrunk(h):
    """By what factor a variance falls when moment matching asks for 1 - h; the second form never reaches 0.

    The two meet at h = 1/2. Beyond it go only tempered steps (ku < 1) and heavy examples.
    """
    return np.maximum(1.0 - h, 1.0 / (1.0 + 2.0 * h))


def told(variance, k):
    """The same as a gain of precision, of a variance v that should fall by k v^2: 1/(v shrunk(k v)) - 1/v.

    Written so that a small gain is not lost in a large precision.
    """
    return k / np.maximum(1.0 - k * variance, 0.5)


# ----------------------------------------------------------------------------------------------------
# Lanes
# ----------------------------------------------------------------------------------------------------

# l ~ N(0, .05) at the start; one example moves it by at most 1/2, and it stays within +-5.
SCALE_VARIANCE, SCALE_STEP, SCALE_FARTHEST = 0.05, 0.5, 5.0


class Seen(NamedTuple):
    """A row as one lane sees it."""

    x: np.ndarray  # values in the lane's units
    prior: np.ndarray  # the prior precisions of the row's features
    mean: np.ndarray  # and the means of their weights under that prior
    scale_value: float  # M, the value of the scale as a feature: dm/dl
    m: float  # the score's mean
    s: float  # and variance


class GaussianLane:
    """Weights N(mean_i, 1/(prior precision + gained)). The last one is the intercept, whether rows have it or not.

    What examples told is kept apart from the prior, because a normalised lane's prior moves: of a feature whose values
    have the mean square q it is N(0, v0/q). Elsewhere q counts as 1.

    Examples tell of precision and of precision times mean, and both stay when the prior moves: `see` gives the means
    under the prior of the present row,  mu (q_old/v0 + gained) / (q_new/v0 + gained).
    """

    def __init__(self, lane: Lane, n_features: int, intercept_variance: float):
        self.lane, self.n_features, self.intercept_variance = lane, n_features, intercept_variance
        self.mean, self.gained = np.zeros(n_features + 1), np.zeros(n_features + 1)
        self.log_scale, self.scale_gained = 0.0, 0.0

    @property
    def scale_variance(self) -> float:
        return 1.0 / (1.0 / SCALE_VARIANCE + self.scale_gained) if self.lane.scale else 0.0

    def factor(self, unit: float) -> float:
        """What a feature's value is multiplied by: the learned scale, and the stream's unit if it minds units."""
        return float(np.exp(self.log_scale)) * (1.0 if self.lane.normalise else unit)

    def prior_precision(self, i, square) -> np.ndarray:
        of_features = (square if self.lane.normalise else 1.0) / self.lane.prior_variance
        return np.where(i < self.n_features, of_features, 1.0 / self.intercept_variance)

    def see(self, i, x, unit: float, square, square_before=None) -> Seen:
        """m = sum x mu, s = sum x^2 v + M^2 v_l, of a row whose features have these mean squares; pure.

        `square_before` has those that the means belong to, where they are others.
        """
        of_features = i < self.n_features
        x = np.where(of_features, self.factor(unit) * x, x)
        before = self.prior_precision(i, square if square_before is None else square_before) + self.gained[i]
        prior = self.prior_precision(i, square)
        mean = self.mean[i] * (before / (prior + self.gained[i]))
        scale_value = np.sum((x * mean)[of_features])
        m = np.sum(x * mean)
        s = np.sum(x**2 / (prior + self.gained[i])) + scale_value**2 * self.scale_variance
        return Seen(x, prior, mean, float(scale_value), float(m), float(s))

    def learn(self, i, seen: Seen, y: float, weight: float) -> None:
        """The shared step. A feature has the covariance x v with the score, the logarithm of the scale M v_l."""
        dm, dv = score_step(seen.m, seen.s, y, weight, self.lane.temper[0])
        variance = 1.0 / (seen.prior + self.gained[i])
        self.mean[i] = seen.mean + seen.x * variance * dm
        gained = self.gained[i] + told(variance, seen.x**2 * dv)
        # Memory, v <- min((1 + gamma) v, v0), is for the next use. It is done now: nothing happens in between, and so
        # a prediction is two sums and no more.
        if self.lane.memory:
            gained = np.maximum((seen.prior + gained) / (1.0 + self.lane.memory) - seen.prior, 0.0)
        self.gained[i] = gained
        # Memory by time: what was told of any feature fades, in the row or not; means stay, and the intercept is kept.
        self.gained[: self.n_features] *= 1.0 - self.lane.fading
        if self.lane.scale:
            v, M = self.scale_variance, seen.scale_value
            step = np.clip(M * v * dm, -SCALE_STEP, SCALE_STEP)
            self.log_scale = float(np.clip(self.log_scale + step, -SCALE_FARTHEST, SCALE_FARTHEST))
            self.scale_gained += float(told(v, M**2 * dv))

    def variance(self, square) -> np.ndarray:
        """Of all weights, in the lane's units."""
        return 1.0 / (self.prior_precision(np.arange(self.n_features + 1), square) + self.gained)


class LearnedLane(GaussianLane):
    """The prior variance of each group of features is learned: empirical Bayes, as MacKay has it.

    Of a group g the precision of the prior is P_g = (number of weights that are known) / (sum of their squares),

        N_g = sum (1 - P_g v_i)        A_g = sum mu_i^2        P_g = (2 + max(N_g, 0)) / (2 v0 + max(A_g, 0))

    both sums kept up by what each step adds to them (a variance counts as falling by a half at most), and P_g made anew
    after every 16th example. When it moves, eta = mu/v stays, which is what examples told of a weight.
    """

    LEAST, MOST, EVERY = 1e-3, 1e4, 16

    def __init__(self, lane: Lane, n_features: int, intercept_variance: float, groups):
        super().__init__(lane, n_features, intercept_variance)
        self.groups = groups
        self.squares, self.known = np.zeros(256), np.zeros(256)  # A and N
        self.precision = np.full(256, 1.0 / lane.prior_variance)  # P
        self.eta, self.learned = np.zeros(n_features), 0

    def prior_precision(self, i, square) -> np.ndarray:
        of_features = self.precision[self.groups[np.minimum(i, self.n_features - 1)]]
        return np.where(i < self.n_features, of_features, 1.0 / self.intercept_variance)

    def learn(self, i, seen: Seen, y: float, weight: float) -> None:
        dm, dv = score_step(seen.m, seen.s, y, weight, self.lane.temper[0])
        before = self.gained[i]
        super().learn(i, seen, y, weight)
        features = i < self.n_features
        i, x, prior, mean = i[features], seen.x[features], seen.prior[features], seen.mean[features]
        v = 1.0 / (prior + before[features])
        d = x * v * dm
        np.add.at(self.squares, self.groups[i], d * (2.0 * mean + d))
        np.add.at(self.known, self.groups[i], prior * v * np.minimum(x**2 * v * dv, 0.5))
        self.eta[i] = (mean + d) * (prior + self.gained[i])
        self.learned += 1
        if self.learned % self.EVERY == 0:
            v0 = self.lane.prior_variance
            precision = (2.0 + np.maximum(self.known, 0.0)) / (2.0 * v0 + np.maximum(self.squares, 0.0))
            self.precision = np.clip(precision, self.LEAST, self.MOST)
            self.mean[: self.n_features] = self.eta / (self.precision[self.groups] + self.gained[: self.n_features])


class AdaGradLane:
    """`adagrad_step` in the stream's unit. It has no variance; `gained` is its sum of squared gradients.

    A feature whose gradients were all below LEAST_ROOT hardly moves: its rows were as good as sure of their labels.
    """

    def __init__(self, lane: Lane, n_features: int):
        self.lane, self.n_features = lane, n_features
        self.mean, self.gained = np.zeros(n_features + 1), np.zeros(n_features + 1)
        self.log_scale, self.scale_gained = 0.0, 0.0

    def factor(self, unit: float) -> float:
        return unit

    def see(self, i, x, unit: float, square, square_before=None) -> Seen:
        x = np.where(i < self.n_features, unit * x, x)
        return Seen(x, np.zeros(len(i)), self.mean[i], 0.0, float(np.sum(x * self.mean[i])), 0.0)

    def learn(self, i, seen: Seen, y: float, weight: float) -> None:
        gradient = -weight * y * sigmoid(-y * seen.m) * seen.x
        self.gained[i] += gradient**2
        self.mean[i] -= self.lane.rate * gradient / np.maximum(np.sqrt(self.gained[i]), LEAST_ROOT)

    def variance(self, square) -> np.ndarray:
        return np.zeros(self.n_features + 1)


def made(
    lane: Lane, n_features: int, intercept_variance: float | None = None, groups=None
) -> GaussianLane | AdaGradLane:
    """A lane at its start; its intercept has the prior variance max(3, v0) unless it is given."""
    if lane.rate is not None:
        return AdaGradLane(lane, n_features)
    wide = max(lane.prior_variance, 3.0) if intercept_variance is None else intercept_variance
    if lane.learned_prior:
        return LearnedLane(lane, n_features, wide, np.zeros(n_features, int) if groups is None else groups)
    return GaussianLane(lane, n_features, wide)


def outputs_of(lanes) -> list[tuple[int, float]]:
    """(lane, kp) of each output: first one for each lane, then the second outputs."""
    firsts = [(k, lane.temper[1]) for k, lane in enumerate(lanes)]
    return firsts + [(k, lane.second) for k, lane in enumerate(lanes) if lane.second is not None]


# ----------------------------------------------------------------------------------------------------
# Combining
# ----------------------------------------------------------------------------------------------------


def mixed_logit(shares, logits) -> float:
    """The logit of P = sum_k w_k S(z_k), with no 1 - P."""
    return float(np.log(np.sum(shares * sigmoid(logits))) - np.log(np.sum(shares * sigmoid(-logits))))


def share_step(shares, logits, y: float, learned: int, weight: float = 1.0, kept=None) -> np.ndarray:
    """Fixed share: w_k <- (1 - alpha) w_k p_k(y)^c / sum + alpha/K, alpha = max(1/(t+1), 1e-5) at example t = 1, 2, ...

    The best output may change at any example, with probability alpha. As alpha falls like 1/t, a stream without a
    change loses about ln t more than the best output does; the floor is for streams with no end. `kept` marks the
    K outputs still in the race.
    """
    kept = np.ones(len(shares), dtype=bool) if kept is None else kept
    alpha = max(1.0 / (learned + 2), 1e-5)  # `learned` is t - 1
    log_posterior = np.log(shares[kept]) + weight * log_sigmoid(y * logits[kept])
    posterior = np.exp(log_posterior - np.max(log_posterior))
    new = np.zeros(len(shares))
    new[kept] = (1.0 - alpha) * posterior / np.sum(posterior) + alpha / np.sum(kept)
    return new


class Stacker:
    """Bayesian logistic regression on the outputs, full covariance: score = zm + b + a zm + sum_k c_k (z_k - zm).

    (b, a, c_k) ~ N(0, diag(.01, .01, 10/K)) at the start: to stack is to correct the mixture, and at first it is the
    mixture. `memory` draws the covariance back to where it started, S += memory (S0 - S), once per learned example.
    """

    def __init__(self, n_outputs: int, memory: float = 0.0, intercept: bool = True):
        bias = 0.01 if intercept else 0.0
        self.prior = np.diag([bias, 0.01] + [10.0 / n_outputs] * n_outputs)
        self.covariance, self.mean, self.memory = self.prior.copy(), np.zeros(n_outputs + 2), memory

    @staticmethod
    def features(zm: float, logits) -> tuple[float, np.ndarray]:
        """The offset, and what b, a and the c_k are multiplied by."""
        zm, logits = np.clip(zm, -SUREST_STACKED, SUREST_STACKED), np.clip(logits, -SUREST_STACKED, SUREST_STACKED)
        return float(zm), np.concatenate([[1.0, zm], logits - zm])

    def score(self, offset: float, f) -> tuple[float, float]:
        """Mean and variance of the score."""
        return float(offset + f @ self.mean), float(f @ self.covariance @ f)

    def learn(self, offset: float, f, y: float, weight: float) -> None:
        """The shared step; the covariance loses k (S f)(S f)', with k such that f'Sf falls by the factor `shrunk`."""
        m, s = self.score(offset, f)
        dm, dv = score_step(m, s, y, weight)
        k = min(dv, 2.0 * dv / (1.0 + 2.0 * s * dv))  # (1 - shrunk(s dv))/s, also at s = 0
        direction = self.covariance @ f
        self.mean = self.mean + direction * dm
        self.covariance = self.covariance - k * np.outer(direction, direction)
        self.covariance = self.covariance + self.memory * (self.prior - self.covariance)

    def evidence(self) -> np.ndarray:
        """For c_k != 0, of each output: [c_k^2/S_kk - ln(S0_kk/S_kk)]/2, the density of c_k = 0 before over after."""
        c, now, then = self.mean[2:], np.diag(self.covariance)[2:], np.diag(self.prior)[2:]
        there = now > 0
        evidence = np.full(len(c), -np.inf)
        evidence[there] = (c[there] ** 2 / now[there] - np.log(then[there] / now[there])) / 2.0
        return evidence

    def drop(self, output: int) -> None:
        """Condition on c_k = 0."""
        j = output + 2
        gain = self.covariance[:, j] / self.covariance[j, j]
        self.mean = self.mean - gain * self.mean[j]
        self.covariance = self.covariance - np.outer(gain, self.covariance[j, :])
        self.mean[j] = self.covariance[j, :] = self.covariance[:, j] = self.prior[j, j] = 0.0


# ----------------------------------------------------------------------------------------------------
# The bank
# ----------------------------------------------------------------------------------------------------

STACKER_MEMORY = 1e-4
DAMPED_MEMORY, DAMPED_MOST = 1e-3, 100.0


def unit_of(log_lengths) -> float:
    """By how much values are multiplied so that a typical row is neither shorter nor longer than it should be.

    A row's length is |x|, and typical is the geometric mean. Rows are often enough of a fit as they are: the unit is 1.
    """
    if not log_lengths:
        return 1.0
    typical = np.exp(np.mean(log_lengths))
    return float(np.clip(typical, MIN_ROW_NORM, MAX_ROW_NORM) / typical)


class Look(NamedTuple):
    """All that a prediction finds out; learning starts from it."""

    log_lengths: list[float]  # of the first rows that have features, this one included
    square: np.ndarray  # mean squares of the row's features, this row included
    uses: np.ndarray  # how often each of them was met, where that is counted
    seen: list[Seen]  # per lane
    z: np.ndarray  # output logits
    zm: float  # of their mixture
    stacked: list[tuple[float, float]]  # mean and variance of each stacker's score
    q: np.ndarray  # the final logits: zm and the stackers'
    logit: float  # of the probability


class BankReference:
    """The bank over the rows of a CSR matrix.

    `lanes` is a preset's name or a list of lanes; combine="share" is the first level alone; `narrowing` says after
    how many learned examples how many outputs to keep. Without an intercept the stackers have no b either. `groups` has
    the group of each feature.
    """

    def __init__(
        self,
        n_features: int,
        lanes="slim",
        combine: str = "stack",
        intercept: bool = True,
        intercept_variance: float | None = None,
        narrowing: dict[int, int] | None = None,
        groups=None,
    ):
        chosen = PRESETS[lanes] if isinstance(lanes, str) else lanes
        self.n_features, self.has_intercept, self.narrowing = n_features, intercept, narrowing or {}
        self.lanes = [made(lane, n_features, intercept_variance, groups) for lane in chosen]
        self.outputs = outputs_of(chosen)
        K = len(self.outputs)
        self.kept = np.ones(K, dtype=bool)
        self.shares = np.full(K, 1.0 / K)
        self.stackers = [Stacker(K, memory, intercept) for memory in (0.0, STACKER_MEMORY) if combine == "stack"]
        self.final_shares = np.full(1 + len(self.stackers), 1.0 / (1 + len(self.stackers)))
        self.learned = 0  # examples of positive weight
        self.passes = 0  # finished ones over the same rows: later ones teach the lanes less, and nothing above them
        self.damping = np.zeros(K)  # of each output beside the score's, in the mean of the last examples; less 1
        self.log_lengths: list[float] = []
        self.others = 0  # rows with a value other than 1 or -1
        self.uses = np.zeros(n_features + 1)  # counted uses of each feature
        self.square = np.ones(n_features + 1)  # and the mean square of its values there
        self.weight = 0.0  # the sum of weights
        self.losses = np.zeros(K)  # weighted sums of log losses: of each output,
        self.final_losses = np.zeros(2 + len(self.stackers))  # of the bank, the mixture, the stackers

    # --- predicting and learning ------------------------------------------------------------------------

    def look(self, i, x) -> Look:
        """Predict; pure."""
        log_lengths = self._log_lengths_with(i, x)
        square, uses = self._squares_with(i, x)
        seen = [lane.see(i, x, unit_of(log_lengths), square, self.square[i]) for lane in self.lanes]
        z = np.array([seen[k].m / np.sqrt(1.0 + C8 * kp * seen[k].s) for k, kp in self.outputs])
        z = np.where(self.kept, np.clip(z, -SUREST, SUREST), 0.0)
        zm = mixed_logit(self.shares, z)
        f = self._stacked_features(zm, z)
        stacked = [stacker.score(*f) for stacker in self.stackers]
        q = np.array([zm] + [m / np.sqrt(1.0 + C8 * s) for m, s in stacked])
        q = np.clip(q, -SUREST, SUREST)
        return Look(log_lengths, square, uses, seen, z, zm, stacked, q, mixed_logit(self.final_shares, q))

    def _log_lengths_with(self, i, x) -> list[float]:
        """Logarithms of lengths, of the first SETTLED rows that have features, this row included."""
        of_features = x[i < self.n_features]
        if len(self.log_lengths) == UNIT_FIT_ROWS or not len(of_features):
            return self.log_lengths
        return [*self.log_lengths, float(np.log(np.sum(of_features**2)) / 2.0)]

    def _squares_with(self, i, x) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares of the row's features with this row, and how often each was met by then; 0: it is not counted.

        While less than one row in FEW holds a value other than 1 or -1, they are counted from a feature's own first
        such value on, before which it is 1: a stream of indicators has nothing to count. How often it was met before
        that is known as far as the first normalised lane knows it: each use of an indicator has told it 1/4 at most.
        """
        first = next((lane for lane in self.lanes if lane.lane.normalise and lane.lane.rate is None), None)
        met = np.zeros(len(i)) if first is None else 4.0 * first.gained[i] / np.exp(2.0 * first.log_scale)
        every = (self.others + bool(np.any(x**2 != 1.0))) * NON_UNIT_ROW_RATIO > self.learned + 1
        counted = ((self.uses[i] > 0) | (x**2 != 1.0) | every) & (i < self.n_features)
        before = np.where(self.uses[i] > 0, self.uses[i], met)
        square = np.maximum((before * self.square[i] + x**2) / (before + 1.0), LEAST_SQUARE)
        return np.where(counted, square, 1.0), np.where(counted, before + 1.0, 0.0)

    def _stacked_features(self, zm: float, z) -> tuple[float, np.ndarray]:
        return Stacker.features(zm, np.where(self.kept, z, zm))  # a dropped output has nothing to add

    def learn_example(self, i, x, y: float, weight: float) -> Look:
        """What was predicted before learning."""
        look = self.look(i, x)
        if weight == 0:
            return look
        _, variance = self.score(look)
        weight *= REPEATED_WEIGHTS[min(self.passes, 2)]
        busy = {k for (k, _), kept in zip(self.outputs, self.kept, strict=True) if kept}
        for k in busy:
            self.lanes[k].learn(i, look.seen[k], y, weight)
        self.log_lengths = look.log_lengths
        self.square[i], self.uses[i] = look.square, look.uses
        self.others += bool(np.any(x**2 != 1.0))
        if self.passes:
            self.learned += 1
            return look
        self.weight += weight
        self.losses -= weight * log_sigmoid(y * look.z)
        self.final_losses -= weight * log_sigmoid(y * np.array([look.logit, *look.q]))
        self.shares = share_step(self.shares, look.z, y, self.learned, weight, self.kept)
        for stacker in self.stackers:
            stacker.learn(*self._stacked_features(look.zm, look.z), y, weight)
        self.final_shares = share_step(self.final_shares, look.q, y, self.learned, weight)
        self.learned += 1
        damping = damping_of(self.outputs, look, variance)
        self.damping += self.kept * (damping - self.damping) * max(1.0 / self.learned, DAMPED_MEMORY)
        if self.learned in self.narrowing:
            self.narrow(self.narrowing[self.learned])
        return look

    def narrow(self, keep: int) -> None:
        """Keep the outputs of most evidence, summed over the stackers; the others as if they had never been."""
        evidence = np.sum([stacker.evidence() for stacker in self.stackers], axis=0)
        for output in np.argsort(-evidence, kind="stable")[keep:]:
            if self.kept[output]:
                self.kept[output] = False
                for stacker in self.stackers:
                    stacker.drop(output)
        self.shares = np.where(self.kept, self.shares, 0.0)
        self.shares = self.shares / np.sum(self.shares)

    def score(self, look: Look) -> tuple[float, float]:
        """Mean and variance of the score: the law of total variance down the levels, and equation (8) backwards.

            own           what the lanes do not know yet: sum_k w_k s_k over the outputs that have a variance
            disagreement  u_0 sum_k w_k (z_k - z)^2 + sum_j u_j (q_j - q)^2,  z and q the means under w and u
            stacking      what the stackers do not know yet: sum_j u_j f'S_j f

        The mean is what gives back the probability, P = S(mean / sqrt(1 + C8 variance)), so that it can be read as
        any other learner's. Tempered lanes count with their whole s: the temper is about the use of a variance.
        """
        s = np.array([look.seen[k].s for k, _ in self.outputs])
        known = self.shares * [self.lanes[k].lane.rate is None for k, _ in self.outputs]
        own = np.sum(known * s) / np.sum(known) if np.any(known > 0) else 0.0
        z, q = np.sum(self.shares * look.z), np.sum(self.final_shares * look.q)
        disagreement = self.final_shares[0] * np.sum(self.shares * (look.z - z) ** 2)
        disagreement += np.sum(self.final_shares * (look.q - q) ** 2)
        stacking = np.sum(self.final_shares[1:] * [variance for _, variance in look.stacked])
        variance = float(own + disagreement + stacking)
        return look.logit * float(np.sqrt(1.0 + C8 * variance)), variance

    def learn(self, X, y, weights=None) -> np.ndarray:
        """P(y = 1) of each row as predicted just before learning from it."""
        signs = label_signs(y)
        weights = np.ones(len(signs)) if weights is None else np.asarray(weights, dtype=float)
        probabilities = np.empty(len(signs))
        for row in range(len(signs)):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            probabilities[row] = sigmoid(self.learn_example(i, x, signs[row], weights[row]).logit)
        return probabilities

    def predict(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P(y = 1), and the mean and variance of the score, of each row."""
        probability, mean, variance = np.empty((3, X.shape[0]))
        for row in range(X.shape[0]):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            look = self.look(i, x)
            probability[row] = sigmoid(look.logit)
            mean[row], variance[row] = self.score(look)
        return probability, mean, variance

    # --- one weight for each feature --------------------------------------------------------------------

    def coefficients(self) -> np.ndarray:
        return coefficients(self.shares, self.final_shares, self.stackers)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of the combination for the next row; see `linear_weights`."""
        of = [k for k, _ in self.outputs]
        known = self.shares * [self.lanes[k].lane.rate is None for k in of]
        mixing = known / np.sum(known) if np.any(known > 0) else self.shares
        return linear_weights(self, of, self.shares, self.final_shares, self.stackers, self.damping, mixing)

    # --- draws ------------------------------------------------------------------------------------------

    def lanes_to_draw(self) -> dict[int, float]:
        """The lanes that a draw may take, each with its probability ~ exp(-its summed loss).

        Those whose posterior is one: Gaussian, not tempered, without memory. If there are none, any Gaussian lane; if
        all are AdaGrad, any. A lane of two outputs has the loss of the better one.
        """
        losses: dict[int, float] = {}
        for (k, _), loss, kept in zip(self.outputs, self.losses, self.kept, strict=True):
            if kept:
                losses[k] = min(loss, losses.get(k, np.inf))
        gaussian = [k for k in losses if self.lanes[k].lane.rate is None]
        proper = [k for k in gaussian if self.lanes[k].lane.temper[0] == 1 and not self.lanes[k].lane.forgets]
        allowed = proper or gaussian or list(losses)
        best = min(losses[k] for k in allowed)
        evidence = {k: float(np.exp(best - losses[k])) for k in allowed}
        return {k: each / sum(evidence.values()) for k, each in evidence.items()}

    def drawn(self, k: int, normals, purpose: str) -> np.ndarray:
        """Weights of lane k, the intercept last: e^l (mu_i + r n_i / sqrt(precision_i)), r^2 = 1/2 to choose."""
        lane, r = self.lanes[k], np.sqrt({"choose": 0.5, "interval": 1.0}[purpose])
        factors = np.append(np.full(self.n_features, lane.factor(unit_of(self.log_lengths))), 1.0)
        return factors * (lane.mean + r * normals * np.sqrt(lane.variance(self.square)))


def damping_of(outputs, look: Look, variance: float) -> np.ndarray:
    """How much more than the score each output (a lane and its kp) is damped in one row, less 1."""
    own = np.array([1.0 + C8 * kp * look.seen[k].s for k, kp in outputs])
    return np.clip(np.sqrt(own / (1.0 + C8 * variance)), 1.0 / DAMPED_MOST, DAMPED_MOST) - 1.0


def coefficients(shares, final_shares, stackers) -> np.ndarray:
    """Of each output in a combination linearised as it stands: every mixture is read as one of logits.

    The mixture is sum_k w_k z_k. A stacker is b + (1 + a) times the mixture + sum_k c_k (z_k - mixture).
    """
    each = final_shares[0] * shares
    for share, stacker in zip(final_shares[1:], stackers, strict=True):
        a, c = stacker.mean[1], stacker.mean[2:]
        each = each + share * ((1.0 + a - np.sum(c)) * shares + c)
    return each


def linear_weights(bank: BankReference, of, shares, final_shares, stackers, damping, mixing):
    """Means and variances of all features' weights and, last, of the intercept; `of` has the lane of each output.

    A weight is the sum over outputs of coefficient times e^l mu, in the units of the features, stretched from the
    scale of what the output says, m / sqrt(1 + C8 kp s), to that of the score's mean. Its variance is
    that of a mixture, which draws an output with probability `mixing`, a Gaussian one if there is any, and then the
    lane's own weight. The intercept has the stackers' b besides.
    """
    unit = unit_of(bank.log_lengths)
    factors = np.array([np.append(np.full(bank.n_features, lane.factor(unit)), 1.0) for lane in bank.lanes])
    means = factors * [lane.mean for lane in bank.lanes]
    variances = factors**2 * [lane.variance(bank.square) for lane in bank.lanes]
    mean = (coefficients(shares, final_shares, stackers) / (1.0 + damping)) @ means[of]

    # A lane of two outputs has one weight: stretched as its outputs are on average.
    each = np.bincount(of, shares, minlength=len(bank.lanes))
    stretch = np.bincount(of, shares / (1.0 + damping), minlength=len(bank.lanes)) / np.where(each > 0, each, 1.0)
    apart = (stretch[:, None] * means)[of]
    variance = mixing @ variances[of] + mixing @ (apart - mixing @ apart) ** 2
    for share, stacker in zip(final_shares[1:], stackers, strict=True):
        mean[-1] += share * stacker.mean[0]
        variance[-1] += share * stacker.covariance[0, 0]
    return mean, variance
