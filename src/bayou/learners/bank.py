"""The bank: several priors learned side by side and combined by evidence, so that nothing is left to tune.

A lane is a small learner of all weights with one answer to the questions that a user would otherwise have to answer:
how large are weights, in which units do features come, how sure may one be, do weights drift?

**A Gaussian lane** believes its weights to be N(mu_i, v_i). For an example (x, y = +-1) of weight c, with m = sum x mu
and s = sum x^2 v, it says m / sqrt(1 + C8 kp s), and then matches moments, C8 = pi/8:

    g = 1/(1 + C8 ku s)    z = y m sqrt(g)    dm = y sqrt(g) S(-z)    dv = g S(z) S(-z)
    mu += x v dm           v *= max(1 - h, 1/(1 + 2h))                h = x^2 v dv

    temper      (ku, kp): how much of its variance to believe when updating and when predicting
    scale       one factor e^l for all features, l ~ N(0, .05), is learned as one more weight, of the value
                M = e^l sum x mu: s += M^2 v_l, and a step of l is at most 1/2
    normalise   the prior variance is v0/q, q the mean square of the feature's own values: units do not matter
    memory      v <- min((1 + gamma) v, v0) at each use: old evidence fades

A lane with a `rate` is AdaGrad instead: with the gradient g, G += g^2 and w -= rate g / max(sqrt(G), 1e-6). Weights
c <= 1 multiply dm and dv; of a larger one the first unit counts as above and the rest where it leaves the score, at
t = g s [S(-z) + (c - 1) S(-z - t)].

**The unit of the stream.** All lanes but the normalised ones see x in units in which a typical row (the geometric mean
of |x| over the first SETTLED rows) has a length between SHORTEST and LONGEST; most streams do as they are.

**Combining**, in three storeys. A lane has one output logit z_k, or two with different kp (`second`).

    1. fixed share:   P = sum w_k S(z_k), logit zm;   w_k <- (1 - a) w_k p_k(y)/P(y) + a/K,  a = max(1/(t+1), 1e-5)
    2. two stackers:  zm + b + A zm + sum c_k (z_k - zm), Bayesian logistic regression with full covariance S, prior
                      N(0, diag(.01, .01, 10/K)), learned by the same step; one of them with S += 1e-4 (S0 - S)
    3. fixed share over zm and the two stackers' logits: the probability

**The score** of a prediction has the variance own + disagreement + stacking (the lanes' variances, how far outputs
lie apart, the stackers' variances, each averaged by the shares of its storey), and the mean that gives the probability
back, P = S(mean / sqrt(1 + C8 variance)). The weights are those of the combination linearised as it stands: e^l mu of
all lanes, summed with their coefficients; their variance is that of the mixture of lanes.

Merging adds natural parameters lane by lane and stacker by stacker, and the logarithms of shares.

Paper: none, it is ours. Fixed share: Herbster and Warmuth 1998; moment matching: marginal-gaussian, appendix D.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit

from bayou import links
from bayou.batch import Batch
from bayou.checks import one_of, positive_number, yes_or_no
from bayou.errors import BadInput, BadModel
from bayou.learner import LIMIT, Learner, Scores
from bayou.simd import (
    LANES,
    any_above,
    copy_lanes,
    exp2,
    exp2_within,
    fill,
    last_place,
    like,
    load,
    magnitude,
    prefetch,
    rounding_phase,
    rounding_phases,
    sqrt,
    store,
    total,
    where_above,
)

C8 = links.C8
LOG2E = 1.0 / math.log(2.0)
LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]

# l ~ N(0, .05) before any data; an example moves it by at most 1/2, and it stays within +-5.
SCALE_PRECISION, SCALE_STEP, SCALE_FARTHEST = 1.0 / 0.05, 0.5, 5.0
# A typical row's length is brought to between these, and is settled after so many rows.
SHORTEST, LONGEST, SETTLED = 0.9, 12.0, 1024
# An output says no more than this, so that no product of probabilities vanishes: S(-30) is 1e-13. To the stackers it
# says no more than that: beyond, a larger logit tells nothing but pulls the harder.
SUREST, SUREST_STACKED = 30.0, 15.0
STACKER_PRIOR, STACKER_SPREAD, STACKER_MEMORY = 0.01, 10.0, 1e-4
# A root of squared gradients counts as at least this: what is sure to 1e-6 should not move a weight by the whole rate.
LEAST_ROOT = 1e-6
# Mean squares are at least this, so that v0/q stays a float32.
LEAST_SQUARE = 1e-30
# Non-zeros between a feature and the one whose lanes are asked for.
AHEAD = 96
MAX_LANES = 64

# Rows of the table of settings.
(PRIOR, PER_SQUARE, SPREAD, KEEP, RATE, SCALED, NORMALISED, LIVE, BIAS_PRIOR, PRECISION) = range(10)
# What is counted of the stream: rows measured, their mean log length, whether a value other than 1 or -1 was met, the
# sum of weights.
ROWS, LOG_LENGTH, OTHER, WEIGHT = range(4)
# Behind the outputs in the table of losses: the bank itself, the mixture, the stackers.
FINALS = ("bank", "mixture", "stacker", "stacker with memory")


@dataclass(frozen=True)
class Lane:
    """One learner of the bank: Gaussian, or AdaGrad if it has a rate. See the module's docstring."""

    prior_variance: float = 1.0
    temper: tuple[float, float] = (1.0, 1.0)
    second: float | None = None  # kp of a second output
    scale: bool = False
    normalise: bool = False
    memory: float = 0.0
    rate: float | None = None

    def __str__(self) -> str:
        if self.rate is not None:
            return f"AdaGrad {self.rate:g}"
        words = ["scaled"] * self.scale + ["tempered"] * (self.temper[0] < 1.0) + ["normalised"] * self.normalise
        memory = f", memory {self.memory:g}" if self.memory else ""
        return f"{' '.join(words) or 'plain'} {self.prior_variance:g}{memory}"


def _scaled(v0: float, memory: float = 0.0) -> Lane:
    return Lane(v0, scale=True, memory=memory)


def _tempered(v0: float, memory: float = 0.0, second: float | None = None) -> Lane:
    return Lane(v0, temper=(0.3, 0.1), second=second, memory=memory)


def _normalised(v0: float) -> Lane:
    return Lane(v0, normalise=True)


PRESETS = {
    "slim": (
        *(_scaled(0.1), _scaled(10.0)),
        *(_tempered(0.1), _tempered(10.0, second=0.3)),
        _normalised(1.0),
        *(_tempered(1.0, memory=0.1), _tempered(10.0, memory=0.01)),
        Lane(rate=0.8),
    ),
    "wide": (
        *(_scaled(0.1), _scaled(1.0), _scaled(10.0), _scaled(100.0)),
        *(_tempered(0.1), _tempered(10.0, second=0.3), _tempered(100.0, second=0.3)),
        *(_normalised(0.1), _normalised(1.0), _normalised(10.0)),
        *(_scaled(0.1, memory=0.01), _scaled(10.0, memory=0.01)),
        *(_tempered(1.0, memory=0.01), _tempered(10.0, memory=0.01), _tempered(10.0, memory=0.1)),
        Lane(rate=0.8),
    ),
}
COMBINATIONS = {"stack": 2, "share": 0}  # how many stackers
# After so many examples, so many outputs are kept.
NARROWING = {4096: 12, 16384: 8}


class Output(NamedTuple):
    """What one output of a lane has to say for itself; `Bank.lanes` lists them."""

    lane: Lane
    temper: float  # kp of this output
    weight: float  # its share of the mixture
    stacking: float  # its coefficient c_k, the mean over both stackers by their shares
    loss: float  # its own mean log loss so far; NaN once it was dropped
    scale: float  # the factor e^l it has learned, 1 if it learns none
    kept: bool  # not dropped by narrowing

    @property
    def name(self) -> str:
        """The lane's name, and kp where this is its second output."""
        return str(self.lane) + (f", kp {self.temper:g}" if self.temper == self.lane.second else "")


class Bank(Learner):
    """Many priors side by side, combined by evidence: the default learner.

    Args:
        n_features: how many weights there are; features are numbered from 0.
        preset: "slim" (8 lanes, one cache line per feature) or "wide" (16 lanes, a little better, half as fast).
        lanes: lanes of your own instead: a list of `Lane`s, or of mappings with their fields.
        combine: "stack", or "share" for the first storey alone.
        narrowing: keep 12 outputs after 4,096 examples and 8 after 16,384, those with most evidence.
        intercept: whether there is an extra weight whose feature is always 1.
        intercept_variance: its prior variance; in each lane max(3, prior_variance) if not given.
        dtype: of the state, "float32" or "float64". The intercept and the stackers are always kept in float64.

    >>> from bayou import Batch
    >>> learner = Bank(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 3: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(p[0] == 0.5 and p[1] > 0.5)
    True
    >>> [str(output.lane) for output in learner.lanes][:3]
    ['scaled 0.1', 'scaled 10', 'tempered 0.1']
    """

    name = "bank"
    _per_feature = ("state", "squares")

    def __init__(
        self,
        n_features: int,
        *,
        preset: str = "slim",
        lanes: Sequence[Any] | None = None,
        combine: str = "stack",
        narrowing: bool = False,
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        chosen = one_of("preset", preset, PRESETS) if lanes is None else _own_lanes(lanes)
        if intercept_variance is not None:
            intercept_variance = positive_number("intercept_variance", intercept_variance, high=1e15)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            preset=preset,
            lanes=None if lanes is None else [asdict(lane) | {"temper": list(lane.temper)} for lane in chosen],
            combine=combine,
            narrowing=yes_or_no("narrowing", narrowing),
            intercept_variance=intercept_variance,
        )
        self._lanes = chosen
        self._blocks = -(-len(chosen) // LANES)
        n_stackers = one_of("combine", combine, COMBINATIONS)
        if narrowing and not n_stackers:
            raise BadInput('narrowing goes by the stackers\' evidence; it needs combine="stack".')
        self._settings = self._lane_settings(intercept_variance)
        widest = np.where(self._settings[SCALED] > 0, math.exp(2 * SCALE_FARTHEST), 1.0) / self._settings[PRECISION]
        self._widest = max(1.0, float(widest.max()), float((1.0 / self._settings[BIAS_PRIOR]).max()))

        firsts = [(k, lane.temper[1]) for k, lane in enumerate(chosen)]
        self._outputs = firsts + [(k, lane.second) for k, lane in enumerate(chosen) if lane.second is not None]
        # Slots of a stacker's coefficients: b, A, then one for each output. What is kept of outputs has the same slots.
        outputs = len(self._outputs)
        room = _padded(outputs + 2)
        self._slots = slice(2, 2 + outputs)
        self._lane_of = np.array([lane for lane, _ in self._outputs])
        self._output_spread = np.zeros(room, self._dtype)
        self._output_spread[self._slots] = [C8 * temper for _, temper in self._outputs]

        # Of each feature: eight means, eight precisions gained; a second such block for lanes 8 to 15, and so on. Zero
        # bytes mean the prior.
        self._state = _aligned_zeros(self._n_features, 2 * LANES * self._blocks, self._dtype)
        # Mean square and uses, counted from the stream's first value other than 1 or -1 on. Before, they are all 1.
        self._squares = np.zeros((self._n_features, 2), self._dtype)
        self._stream_state = np.zeros(4)
        self._intercept_state = np.zeros((2, LANES * self._blocks))
        self._scale_state = np.zeros((2, LANES * self._blocks))
        self._kept = np.zeros(room)
        self._kept[self._slots] = 1.0
        self._shares = self._kept / outputs
        self._final_shares = np.full(1 + n_stackers, 1.0 / (1 + n_stackers))
        self._stacker_prior = self._kept * (STACKER_SPREAD / outputs)
        self._stacker_prior[:2] = STACKER_PRIOR if self._has_intercept else 0.0, STACKER_PRIOR
        self._stacker_mean = np.zeros((n_stackers, room))
        self._stacker_covariance = np.zeros((n_stackers, room, room))
        self._stacker_covariance[:] = np.diag(self._stacker_prior)
        # Losses of outputs and finals, and the products of probabilities that were not yet added to them.
        self._losses = np.zeros((2, room + LANES))
        self._losses[1] = 1.0

    def _lane_settings(self, intercept_variance: float | None) -> np.ndarray:
        settings = np.zeros((PRECISION + 1, LANES * self._blocks))
        settings[[PRIOR, PRECISION, KEEP, BIAS_PRIOR]] = 1.0  # of lanes that only fill the block
        for k, lane in enumerate(self._lanes):
            gaussian = lane.rate is None
            precision = 1.0 / lane.prior_variance if gaussian else 1.0
            wide = max(3.0, lane.prior_variance) if intercept_variance is None else intercept_variance
            settings[:, k] = (
                0.0 if lane.normalise and gaussian else precision,
                precision if lane.normalise and gaussian else 0.0,
                C8 * lane.temper[0],
                1.0 / (1.0 + lane.memory) if gaussian else 1.0,
                0.0 if lane.rate is None else lane.rate,
                lane.scale and gaussian,
                lane.normalise and gaussian,
                1.0,
                1.0 / wide if gaussian else 1.0,
                precision,
            )
        return settings

    def _arrays(self) -> dict[str, np.ndarray]:
        small = {
            "stream": self._stream_state,
            "intercept": self._intercept_state,
            "scale": self._scale_state,
            "shares": self._shares,
            "kept": self._kept,
            "final shares": self._final_shares,
            "stacker means": self._stacker_mean,
            "stacker covariances": self._stacker_covariance,
            "losses": self._losses,
        }
        # One row each: a row of a file that is all zeros is left out.
        return {"state": self._state, "squares": self._squares} | {name: a.reshape(1, -1) for name, a in small.items()}

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        probability = np.empty(len(batch))
        mean, variance = np.zeros(len(batch)), np.zeros(len(batch))
        row, examples = 0, self._examples
        while row < len(batch):
            stops = [at for at in NARROWING if at > examples] if self._parameters["narrowing"] else []
            stop = min(stops, default=-1)
            row, examples = _stream(
                batch.indptr,
                batch.indices,
                batch.values,
                batch.longest,
                batch.ones,
                signs,
                weights,
                self._state.reshape(-1),
                self._squares.reshape(-1),
                self._stream_state,
                self._settings,
                self._has_intercept,
                self._intercept_state,
                self._scale_state,
                self._lane_of,
                self._output_spread,
                self._shares,
                self._kept,
                self._final_shares,
                self._stacker_prior,
                len(self._stacker_mean),
                self._stacker_mean.reshape(-1),
                self._stacker_covariance.reshape(-1),
                self._losses,
                self._widest,
                row,
                examples,
                stop,
                probability,
                mean,
                variance,
            )
            if examples == stop:
                self._narrow(NARROWING[stop])
        return Scores(probability, mean, variance)

    def _narrow(self, keep: int) -> None:
        """Keep the outputs with most evidence, summed over the stackers; the others as if they had never been.

        The evidence for c_k != 0 is the density of c_k = 0 before the data over that after them, as logarithms.
        """
        slots = np.flatnonzero(self._kept)
        evidence = np.zeros(len(slots))
        for mean, covariance in zip(self._stacker_mean, self._stacker_covariance, strict=True):
            now, before = np.diag(covariance)[slots], self._stacker_prior[slots]
            evidence += (mean[slots] ** 2 / now - np.log(before / now)) / 2.0
        for slot in slots[np.argsort(-evidence, kind="stable")[keep:]].tolist():
            self._drop(slot)
        self._shares *= self._kept
        self._shares /= self._shares.sum()

    def _drop(self, slot: int) -> None:
        """Condition the stackers on c_k = 0, and let a lane rest none of whose outputs is left."""
        self._kept[slot] = 0.0
        for mean, covariance in zip(self._stacker_mean, self._stacker_covariance, strict=True):
            gain = covariance[:, slot] / covariance[slot, slot]
            mean -= gain * mean[slot]
            covariance -= np.outer(gain, covariance[slot])
            mean[slot] = covariance[slot] = covariance[:, slot] = 0.0
        self._rest()

    def _rest(self) -> None:
        """What follows from which outputs are kept."""
        self._stacker_prior[2:] *= self._kept[2:]
        live = np.bincount(self._lane_of, self._kept[self._slots], minlength=self._settings.shape[1]) > 0
        self._settings[LIVE] = live
        self._settings[KEEP, ~live] = 1.0

    @classmethod
    def _restored(cls, header: Any, arrays: Any) -> Self:
        learner = super()._restored(header, arrays)
        learner._rest()
        return learner

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def lanes(self) -> list[Output]:
        """Every output of every lane: setting, weight, stacking coefficient, loss so far, learned scale."""
        with self._lock:
            scales = np.exp(self._scale_state[0])[self._lane_of]
            columns = [self._shares, self._stacking(), self._mean_losses(), self._kept]
            numbers = zip(*(column[self._slots].tolist() for column in columns), scales.tolist(), strict=True)
            return [
                Output(self._lanes[lane], temper, weight, stacking, loss if kept else math.nan, scale, kept > 0)
                for (lane, temper), (weight, stacking, loss, kept, scale) in zip(self._outputs, numbers, strict=True)
            ]

    def parts(self) -> list[dict[str, Any]]:
        """`lanes` and `storeys` in words and numbers, for the command."""
        outputs = [
            {"name": o.name, "weight": o.weight, "stacking": o.stacking, "loss": o.loss, "scale": o.scale}
            for o in self.lanes
            if o.kept
        ]
        return outputs + [{"name": name, **numbers} for name, numbers in self.storeys.items()]

    @property
    def storeys(self) -> dict[str, dict[str, float]]:
        """Mean log loss so far, and share in the last storey, of the bank, the mixture and the stackers."""
        with self._lock:
            losses = self._mean_losses()[-LANES:]
            shares = [1.0, *self._final_shares]
            names = FINALS[: len(shares)]
            return {
                name: {"share": float(share), "loss": float(loss)}
                for name, share, loss in zip(names, shares, losses, strict=False)
            }

    def _mean_losses(self) -> np.ndarray:
        weight = self._stream_state[WEIGHT]
        summed = self._losses[0] - np.log(self._losses[1])
        return summed / weight if weight else np.full(summed.size, math.log(2.0))

    def _factors(self) -> np.ndarray:
        """What a value is multiplied by in each lane: scale and unit of the stream."""
        unit = _unit(self._stream_state[LOG_LENGTH]) if self._stream_state[ROWS] else 1.0
        return np.exp(self._scale_state[0]) * np.where(self._settings[NORMALISED] > 0, 1.0, unit)

    def _stacking(self) -> np.ndarray:
        """The coefficients of the outputs in the stackers, averaged by the stackers' shares."""
        shares = self._final_shares[1:]
        return shares @ self._stacker_mean / shares.sum() if shares.size else np.zeros(self._shares.size)

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Of each lane: its coefficient in the linearised combination, its weight in the mixture; and the offset."""
        width, of = self._settings.shape[1], self._lane_of
        shares = self._shares[self._slots]
        each, offset = self._final_shares[0] * shares, 0.0
        for share, mean in zip(self._final_shares[1:], self._stacker_mean, strict=True):
            c = mean[self._slots]
            each = each + share * ((1.0 + mean[1] - c.sum()) * shares + c)
            offset += share * mean[0]
        gaussian = np.where(self._settings[RATE] > 0, 0.0, np.bincount(of, shares, minlength=width))
        if not gaussian.sum():
            gaussian = np.bincount(of, shares, minlength=width)
        return np.bincount(of, each, minlength=width), gaussian / gaussian.sum(), float(offset)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[0]

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[1]

    def _weights_at(self, features: Any) -> np.ndarray:
        """Means and variances of some effective weights."""
        coefficients, mixing, _ = self._coefficients()
        numbers = np.arange(self._n_features)[features]
        found = np.empty((2, len(numbers)), self._dtype)
        _effective_weights(
            numbers, self._state, self._squares, self._settings, self._factors(), coefficients, mixing, found
        )
        return found

    def _intercept(self) -> tuple[float, float]:
        coefficients, mixing, offset = self._coefficients()
        means, gains = self._intercept_state
        mean = float(coefficients @ means) + offset
        variances = np.where(self._settings[RATE] > 0, 0.0, 1.0 / (self._settings[BIAS_PRIOR] + gains))
        stacked = sum(u * s[0, 0] for u, s in zip(self._final_shares[1:], self._stacker_covariance, strict=True))
        return mean, float(mixing @ (variances + (means - mixing @ means) ** 2) + stacked)

    # --- merging ------------------------------------------------------------------------------------------------

    def _add(self, other: Self, base: Self | None) -> None:
        parts = [(self, 1.0), (other, 1.0)] + ([] if base is None else [(base, -1.0)])
        signs = np.array([sign for _, sign in parts])
        factors = [learner._factors() for learner, _ in parts]

        streams = np.stack([learner._stream_state for learner, _ in parts])
        rows, weight = np.maximum(signs @ streams[:, [ROWS, WEIGHT]], 0.0)
        length = (signs * streams[:, ROWS]) @ streams[:, LOG_LENGTH] / rows if rows else 0.0
        self._stream_state[[ROWS, LOG_LENGTH, OTHER, WEIGHT]] = rows, length, streams[:, OTHER].max(), weight
        self._scale_state[:] = _natural_sum(
            [learner._scale_state for learner, _ in parts], signs, np.full(self._settings.shape[1], SCALE_PRECISION)
        )
        held = np.where(self._settings[RATE] > 0, 0.0, self._settings[BIAS_PRIOR])
        self._intercept_state[:] = _natural_sum([learner._intercept_state for learner, _ in parts], signs, held)

        # Always three: without a base, the other counts once more with the sign 0.
        third = other if base is None else base
        short = _merge_lanes(
            (self._state, other._state, third._state),
            (self._squares, other._squares, third._squares),
            np.array([*signs, 0.0][:3]),
            np.array([*factors, factors[1]][:3]),
            self._settings,
            self._factors(),
        )
        if short:
            raise BadModel("base knows more than the models grown from it; give a common ancestor.")

        dropped = np.flatnonzero((self._kept > 0) & (other._kept == 0))
        self._add_stackers(parts)
        self._shares, self._final_shares = (
            _merged_shares([getattr(learner, name) for learner, _ in parts], signs)
            for name in ("_shares", "_final_shares")
        )
        summed = signs @ [learner._losses[0] - np.log(learner._losses[1]) for learner, _ in parts]
        self._losses[0], self._losses[1] = np.maximum(summed, 0.0), 1.0
        for slot in dropped.tolist():
            self._drop(slot)
        self._shares *= self._kept
        self._shares /= self._shares.sum()

    def _add_stackers(self, parts: list[tuple[Any, float]]) -> None:
        """Precisions, and precisions times means, add beyond the prior's."""
        for j in range(len(self._stacker_mean)):
            live = np.flatnonzero(self._stacker_prior > 0)
            prior = np.diag(1.0 / self._stacker_prior[live])
            gained, moved = np.zeros_like(prior), np.zeros(len(live))
            for learner, sign in parts:
                # Where an output was dropped there is nothing to invert: it counts as never learned.
                there = learner._stacker_prior[live] > 0
                covariance = learner._stacker_covariance[j][np.ix_(live, live)]
                covariance = np.where(np.outer(there, there), covariance, np.diag(self._stacker_prior[live]))
                precision = np.linalg.inv(covariance)
                gained += sign * (precision - prior)
                moved += sign * precision @ learner._stacker_mean[j][live]
            # With memory, or a base, less may be known than the prior says in some direction; that much is known.
            root = np.sqrt(self._stacker_prior[live])
            values, vectors = np.linalg.eigh(root[:, None] * (gained + gained.T) / 2.0 * root)
            half = root[:, None] * vectors
            covariance = half / (1.0 + np.maximum(values, 0.0)) @ half.T
            self._stacker_covariance[j][np.ix_(live, live)] = (covariance + covariance.T) / 2.0
            self._stacker_mean[j][live] = covariance @ moved


def _own_lanes(lanes: Sequence[Any]) -> tuple[Lane, ...]:
    """Lanes as a caller describes them, checked."""
    if isinstance(lanes, str | bytes) or not isinstance(lanes, Sequence) or not 1 <= len(lanes) <= MAX_LANES:
        raise BadInput(f"lanes is {lanes!r}; give a list of 1 to {MAX_LANES} lanes.")
    return tuple(_own_lane(lane) for lane in lanes)


def _own_lane(given: Any) -> Lane:
    try:
        lane = given if isinstance(given, Lane) else Lane(**given)
        ku, kp = (positive_number("temper of a lane", k, high=100.0) for k in lane.temper)
    except (TypeError, ValueError) as error:
        fields = ", ".join(Lane.__dataclass_fields__)
        raise BadInput(f"{given!r} is no lane: {error}. A lane has {fields}; temper is two numbers.") from None
    if min(ku, kp) < 0.01:
        raise BadInput(f"a lane's temper is {lane.temper}; both numbers must be from 0.01 to 100.")
    second = None if lane.second is None else positive_number("second of a lane", lane.second, zero=True, high=100.0)
    rate = None if lane.rate is None else positive_number("rate of a lane", lane.rate, high=1e6)
    variance = positive_number("prior_variance of a lane", lane.prior_variance, high=1e6)
    if variance < 1e-6:
        raise BadInput(f"prior_variance of a lane is {variance:g}; it must be from 1e-6 to 1e6.")
    return Lane(
        prior_variance=variance,
        temper=(ku, kp),
        second=second,
        scale=yes_or_no("scale of a lane", lane.scale),
        normalise=yes_or_no("normalise of a lane", lane.normalise),
        memory=positive_number("memory of a lane", lane.memory, zero=True, high=1e3),
        rate=rate,
    )


def _padded(n: int) -> int:
    """The multiple of LANES that holds n."""
    return -(-n // LANES) * LANES


def _aligned_zeros(rows: int, columns: int, dtype: str) -> np.ndarray:
    """Zeros that cost nothing until touched, each row at the beginning of a cache line (64 bytes)."""
    item = np.dtype(dtype).itemsize
    room = np.zeros(rows * columns + 64 // item, dtype)
    skip = -room.ctypes.data % 64 // item
    return room[skip : skip + rows * columns].reshape(rows, columns)


def _merged_shares(shares: list[np.ndarray], signs: np.ndarray) -> np.ndarray:
    """Evidence adds: the shares' logarithms do. A share of 0 stays one."""
    there = np.all([each > 0 for each in shares], axis=0)
    logs = signs @ [np.log(np.where(there, each, 1.0)) for each in shares]
    merged = np.where(there, np.exp(logs - np.max(logs[there])), 0.0)
    return merged / merged.sum()


def _natural_sum(states: list[np.ndarray], signs: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Rows (mean, precision gained) merged: natural parameters add beyond the prior's precision."""
    means, gains = np.stack(states, axis=1)
    gained = np.maximum(signs @ gains, 0.0)
    moved, whole = signs @ ((prior + gains) * means), prior + gained
    return np.stack([np.divide(moved, whole, out=np.zeros_like(moved), where=whole > 0), gained])


@njit(cache=True, nogil=True, error_model="numpy")
def _unit(log_length):
    """By how much values are multiplied, for a typical row to have a length between SHORTEST and LONGEST."""
    there = min(max(log_length, math.log(SHORTEST)), math.log(LONGEST))
    return math.exp(min(max(there - log_length, -69.0), 69.0))


@njit(cache=True, nogil=True, error_model="numpy")
def _heavy(z, tau, c):
    """Slope and curvature of c > 1 units of evidence at z: the first as it stands, c - 1 where they leave z.

    t = tau [q(z) + (c - 1) q(z + t)], q(z) = S(-z), by Newton's steps from beyond the inflection of q: monotone.
    """
    slope, curvature = links.slope_and_curvature(links.LOGISTIC, z)
    first, rest = tau * slope, (c - 1.0) * tau
    t = max(first, -z)
    for _ in range(100):
        q, k = links.slope_and_curvature(links.LOGISTIC, z + t)
        previous = t
        t = (first + rest * (q + k * t)) / (1.0 + rest * k)
        if abs(t - previous) <= 1e-12 * abs(t):
            break
    q, k = links.slope_and_curvature(links.LOGISTIC, z + t)
    return slope + (c - 1.0) * q, curvature + (c - 1.0) * k


@njit(cache=True, nogil=True, error_model="numpy")
def _stream(
    indptr,
    indices,
    values,
    longest,
    ones,
    signs,
    weights,
    state,
    squares,
    stream,
    settings,
    has_intercept,
    intercept,
    scale,
    lane_of,
    output_spread,
    shares,
    kept,
    final_shares,
    stacker_prior,
    n_stackers,
    stacker_mean,
    stacker_covariance,
    losses,
    widest,
    row,
    examples,
    stop,
    probability,
    score_mean,
    score_variance,
):
    """Predict rows from `row` on, learn from those whose weight is not 0. (The next row, examples learned so far.)

    Vectors run across lanes: one register holds the eight means of a feature, another what its eight precisions have
    gained. Rows with a weight end early, where `examples` reaches `stop`.
    """
    dtype = state.dtype.type
    width = settings.shape[1]
    stride = 2 * width
    room = shares.size
    n_outputs = lane_of.size
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    reach = math.sqrt(most / widest)
    farthest = math.sqrt(most)  # of any score, so that its square is finite

    # Rows of tables as arrays of their own: in a loop, taking one costs more than what is done with it.
    typed = settings.astype(state.dtype)
    prior, per_square, spreads, keep, rate = typed[PRIOR], typed[PER_SQUARE], typed[SPREAD], typed[KEEP], typed[RATE]
    lose = dtype(1) - keep
    scaled, keeps, bias_prior = settings[SCALED], settings[KEEP], settings[BIAS_PRIOR]
    normalised, live_lanes = settings[NORMALISED], settings[LIVE]
    bias_mean, bias_gain, scale_log, scale_gain = intercept[0], intercept[1], scale[0], scale[1]
    summed, products = losses[0], losses[1]
    any_rate, any_scaled = rate.any(), scaled.any()
    factors, slopes, curvatures = np.zeros_like(rate), np.zeros_like(rate), np.zeros_like(rate)
    # One row's scratch.
    xs = np.zeros(longest + LANES, state.dtype)
    mean_squares = np.ones(longest + LANES, state.dtype)
    xvs = np.zeros((longest + 1) * width, state.dtype)
    places, phases = np.zeros(longest + 1, np.int64), np.zeros(longest + LANES, state.dtype)
    m, s, own = np.zeros(width, state.dtype), np.zeros(width, state.dtype), np.zeros(width, state.dtype)
    v_bias, v_scale = np.zeros(width, state.dtype), np.zeros(width, state.dtype)
    heavy = np.zeros(2 * width, state.dtype)
    output_m, output_s, z = np.zeros(room, state.dtype), np.zeros(room, state.dtype), np.zeros(room, state.dtype)
    plus, minus, f, along = np.zeros(room), np.zeros(room), np.zeros(room), np.zeros(n_stackers * room)
    stacked_m, stacked_s = np.zeros(n_stackers), np.zeros(n_stackers)
    logits, finals_plus, finals_minus = np.zeros(1 + n_stackers), np.zeros(1 + n_stackers), np.zeros(1 + n_stackers)
    chance = np.zeros(room)
    share_floor = kept / kept.sum()
    is_b, is_a = np.zeros(room), np.zeros(room)
    is_b[0], is_a[1] = 1.0, 1.0

    zero = fill(load(xs, 0), 0.0)
    zeros = fill(load(f, 0), 0.0)
    counted, log_length = stream[ROWS], stream[LOG_LENGTH]
    unit = _unit(log_length) if counted > 0.0 else 1.0
    filled = dtype(-1)
    stale = True  # factors are to be made anew
    end = indptr[indptr.size - 1]
    while row < indptr.size - 1:
        start = indptr[row]
        length = indptr[row + 1] - start
        c = np.float64(weights[row])

        # --- the row in units of the stream
        new_log_length = log_length
        if counted < SETTLED and length > 0:
            square = 0.0
            for k in range(start, start + length):
                square += np.float64(values[k]) ** 2
            new_log_length += (0.5 * math.log(max(square, 1e-300)) - log_length) / (counted + 1.0)
            row_unit = _unit(new_log_length)
            if row_unit != unit:
                unit = row_unit
                stale = True
        if stale:
            for at in range(0, width, LANES):
                factor = exp2(load(scale_log, at) * LOG2E)
                factor = where_above(load(normalised, at), 0.0, factor / unit, factor) * load(live_lanes, at)
                store(factors, at, like(factor, zero))
            stale = False
        counts = stream[OTHER] > 0.0
        if ones:
            if filled != dtype(unit):
                filled = dtype(unit)
                xs[:] = filled
        else:
            bound = dtype(reach / math.sqrt(1.0 + length))
            rescale = dtype(unit)
            whole = length // LANES * LANES
            for k in range(0, whole, LANES):
                copy_lanes(xs, k, values, start + k)
                x = load(xs, k)
                counts |= any_above(magnitude(x * x - 1.0), 0.0)
                store(xs, k, max(min(x * rescale, bound), -bound))
            for k in range(whole, length):
                x = dtype(values[start + k])
                counts |= x * x != dtype(1)
                xs[k] = max(min(x * rescale, bound), -bound)
        if counts:
            for k in range(length):
                there = 2 * np.int64(indices[start + k])
                x = dtype(values[start + k])
                q = squares[there] + (x * x - squares[there]) / (squares[there + 1] + dtype(1))
                mean_squares[k] = min(max(q, dtype(LEAST_SQUARE)), most)

        # --- the lanes' scores. Unsigned: Numba would ask of every signed index whether it counts from the end.
        if start + AHEAD + length <= end:
            for k in range(start + AHEAD, start + AHEAD + length):
                there = np.int64(indices[np.uint64(k)])
                for at in range(0, stride, 2 * LANES):
                    prefetch(state, there * stride + at)
                if counts:
                    prefetch(squares, 2 * there)
        for k in range(length):
            places[k] = np.int64(indices[np.uint64(start + k)]) * stride
        for at in range(0, width, LANES):
            factor = load(factors, at)
            fixed, moving = load(prior, at), load(per_square, at)
            if not counts:
                fixed = fixed + moving
            sum_m = sum_s = zero
            for k in range(length):
                place = places[k] + 2 * at
                x = factor * xs[k]
                precision = fixed + load(state, place + LANES)
                if counts:
                    precision = precision + moving * mean_squares[k]
                xv = x / precision
                sum_m = sum_m + x * load(state, place)
                sum_s = sum_s + x * xv
                store(xvs, k * width + at, xv)
            live = like(load(live_lanes, at), zero) * dtype(has_intercept)
            v_b = live / like(load(bias_prior, at) + load(bias_gain, at), zero)
            v_l = like(load(scaled, at), zero) / like(load(scale_gain, at) + SCALE_PRECISION, zero)
            sum_m = max(min(sum_m, farthest), -farthest)
            sum_s = where_above(load(rate, at), 0.0, zero, sum_s + v_b)
            store(own, at, sum_m)
            store(v_bias, at, v_b)
            store(v_scale, at, v_l)
            store(s, at, sum_s + sum_m * sum_m * v_l)
            store(m, at, sum_m + live * like(load(bias_mean, at), zero))

        # --- first storey
        for o in range(n_outputs):
            output_m[2 + o], output_s[2 + o] = m[lane_of[o]], s[lane_of[o]]
        sum_plus = sum_minus = zeros
        for at in range(0, room, LANES):
            logit = load(output_m, at) / sqrt(load(output_s, at) * load(output_spread, at) + 1.0)
            logit = max(min(logit, SUREST), -SUREST) * like(load(kept, at), zero)
            e = exp2_within(logit * LOG2E)
            negative = 1.0 / (e + 1.0)
            positive, negative = like(e * negative, zeros), like(negative, zeros)
            share = load(shares, at)
            sum_plus, sum_minus = sum_plus + share * positive, sum_minus + share * negative
            store(z, at, logit)
            store(plus, at, positive)
            store(minus, at, negative)
        mixed_plus, mixed_minus = total(sum_plus), total(sum_minus)
        mixed = math.log(mixed_plus / mixed_minus)
        logits[0] = mixed
        finals_plus[0] = mixed_plus / (mixed_plus + mixed_minus)
        finals_minus[0] = mixed_minus / (mixed_plus + mixed_minus)

        # --- second storey
        if n_stackers:
            offset = min(max(mixed, -SUREST_STACKED), SUREST_STACKED)
            for at in range(0, room, LANES):
                logit = like(max(min(load(z, at), SUREST_STACKED), -SUREST_STACKED), zeros)
                store(f, at, (logit - offset) * load(kept, at) + load(is_b, at) + load(is_a, at) * offset)
        for j in range(n_stackers):
            score, spread = zeros, zeros
            for at in range(0, room, LANES):
                product = zeros
                for k in range(n_outputs + 2):
                    product = product + f[k] * load(stacker_covariance, (j * room + k) * room + at)
                store(along, j * room + at, product)
                score = score + load(stacker_mean, j * room + at) * load(f, at)
                spread = spread + product * load(f, at)
            stacked_m[j] = offset + total(score)
            stacked_s[j] = max(total(spread), 0.0)
            logit = stacked_m[j] / math.sqrt(1.0 + C8 * stacked_s[j])
            logits[1 + j] = min(max(logit, -SUREST), SUREST)
            e = math.exp(logits[1 + j])
            finals_minus[1 + j] = 1.0 / (1.0 + e)
            finals_plus[1 + j] = e * finals_minus[1 + j]

        # --- third storey
        sure_plus = sure_minus = 0.0
        for j in range(1 + n_stackers):
            sure_plus += final_shares[j] * finals_plus[j]
            sure_minus += final_shares[j] * finals_minus[j]
        probability[row] = sure_plus / (sure_plus + sure_minus)
        if c == 0.0:
            variance = 0.0
            known = 0.0
            center = 0.0
            for o in range(n_outputs):
                share = shares[2 + o]
                center += share * z[2 + o]
                if rate[lane_of[o]] == 0.0:
                    known += share
                    variance += share * output_s[2 + o]
            variance = variance / known if known > 0.0 else 0.0
            for o in range(n_outputs):
                variance += final_shares[0] * shares[2 + o] * (z[2 + o] - center) ** 2
            center = 0.0
            for j in range(1 + n_stackers):
                center += final_shares[j] * logits[j]
            for j in range(1 + n_stackers):
                variance += final_shares[j] * (logits[j] - center) ** 2
                if j > 0:
                    variance += final_shares[j] * stacked_s[j - 1]
            score_variance[row] = variance
            score_mean[row] = math.log(sure_plus / sure_minus) * math.sqrt(1.0 + C8 * variance)
            row += 1
            continue

        # --- learning: what the label tells every lane
        examples += 1
        y = dtype(signs[row])
        for at in range(0, width, LANES):
            spread = load(s, at)
            g = 1.0 / (load(spreads, at) * spread + 1.0)
            root = sqrt(g)
            if c <= 1.0:
                e = exp2(load(m, at) * root * (y * dtype(LOG2E)))
                slope = dtype(c) / (e + 1.0)
                curvature = slope * (e / (e + 1.0))
            else:
                for k in range(at, at + LANES):
                    shrink = 1.0 / (1.0 + np.float64(spreads[k]) * s[k])
                    if rate[k] > 0.0:
                        heavy[k], heavy[width + k] = c * links.sigmoid(-y * m[k]), 0.0
                    else:
                        heavy[k], heavy[width + k] = _heavy(y * m[k] * math.sqrt(shrink), shrink * s[k], c)
                slope, curvature = load(heavy, at), load(heavy, width + at)
            step, fall = slope * root * y, curvature * g
            store(slopes, at, step)
            store(curvatures, at, fall)

            big, v_l = load(own, at), load(v_scale, at)
            far = load(scale_log, at) + like(max(min(big * v_l * step, SCALE_STEP), -SCALE_STEP), zeros)
            store(scale_log, at, max(min(far, SCALE_FARTHEST), -SCALE_FARTHEST))
            more = like(load(scaled, at), zero) * (big * big * fall)
            more = like(more / max(1.0 - more * v_l, 0.5), zeros)
            store(scale_gain, at, min(load(scale_gain, at) + more, LIMIT_64))

            # the intercept
            v, pace = load(v_bias, at), load(rate, at)
            live, kept_share = load(live_lanes, at) * np.float64(has_intercept), load(keeps, at)
            gained = load(bias_gain, at)
            grown = gained + live * like(step * step, zeros)
            moved, more = v * step, fall / max(1.0 - v * fall, 0.5)
            if any_rate:
                moved = where_above(pace, 0.0, pace * step / max(sqrt(like(grown, zero)), LEAST_ROOT), moved)
            gained = gained + live * like(more, zeros)
            gained = max(gained * kept_share - load(bias_prior, at) * (1.0 - kept_share), 0.0)
            store(bias_mean, at, load(bias_mean, at) + live * like(moved, zeros))
            store(bias_gain, at, min(where_above(like(pace, zeros), 0.0, grown, gained), LIMIT_64))

        # --- every feature in every lane
        whole = length // LANES * LANES
        for k in range(0, whole, LANES):
            store(phases, k, rounding_phases(zero, indices, start + k, np.uint64(examples)))
        for k in range(whole, length):
            phases[k] = rounding_phase(indices[np.uint64(start + k)], examples)
        for at in range(0, width, LANES):
            factor, step, fall = load(factors, at), load(slopes, at), load(curvatures, at)
            stay, fade, pace = load(keep, at), load(lose, at), load(rate, at)
            fixed, moving = load(prior, at), load(per_square, at)
            lost = (fixed + moving) * fade
            for k in range(length):
                place = places[k] + 2 * at
                phase = phases[k]
                mean, gained, xv = load(state, place), load(state, place + LANES), load(xvs, k * width + at)
                x = factor * xs[k]
                xf = x * fall
                top, bottom = x * xf, max(1.0 - xv * xf, 0.5)
                shift = xv * step
                if any_rate:
                    gradient = x * step
                    square = gradient * gradient
                    top = where_above(pace, 0.0, pace * gradient, top)
                    bottom = where_above(pace, 0.0, max(sqrt(gained + square), LEAST_ROOT), bottom)
                    more = top / bottom
                    shift = where_above(pace, 0.0, more, shift)
                    more = where_above(pace, 0.0, square, more)
                else:
                    more = top / bottom
                if counts:
                    lost = (fixed + moving * mean_squares[k]) * fade
                grown = gained + (more + phase * last_place(gained))
                grown = min(max(grown * stay - lost, 0.0), most)
                store(state, place, mean + (shift + phase * last_place(mean)))
                store(state, place + LANES, grown)

        # --- what the label tells the combination
        learned = examples - 1
        alpha = max(1.0 / (learned + 2.0), 1e-5)
        if y > 0.0:
            mixed_chance, bank_chance = mixed_plus, sure_plus / (sure_plus + sure_minus)
            for at in range(0, room, LANES):
                store(chance, at, load(plus, at))
            for j in range(1 + n_stackers):
                logits[j] = finals_plus[j]
        else:
            mixed_chance, bank_chance = mixed_minus, sure_minus / (sure_plus + sure_minus)
            for at in range(0, room, LANES):
                store(chance, at, load(minus, at))
            for j in range(1 + n_stackers):
                logits[j] = finals_minus[j]
        if c == 1.0:
            whole = (1.0 - alpha) / mixed_chance
            low = False
            for at in range(0, room, LANES):
                of_label = load(chance, at)
                store(shares, at, load(shares, at) * of_label * whole + load(share_floor, at) * alpha)
                product = load(products, at) * of_label
                store(products, at, product)
                low |= any_above(1e-250 - product, 0.0)
            products[room] *= bank_chance
            low |= products[room] < 1e-250
            for j in range(1 + n_stackers):
                products[room + 1 + j] *= logits[j]
                low |= products[room + 1 + j] < 1e-250
            if low:
                for k in range(room + LANES):
                    summed[k] -= math.log(products[k])
                    products[k] = 1.0
            whole = 0.0
            for j in range(1 + n_stackers):
                final_shares[j] *= logits[j]
                whole += final_shares[j]
            for j in range(1 + n_stackers):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / (1 + n_stackers)
        else:
            summed[room] -= c * math.log(bank_chance)
            best = -np.inf
            for o in range(2, n_outputs + 2):
                if kept[o] > 0.0:
                    likely = math.log(chance[o])
                    summed[o] -= c * likely
                    chance[o] = math.log(shares[o]) + c * likely
                    best = max(best, chance[o])
            whole = 0.0
            for o in range(2, n_outputs + 2):
                shares[o] = math.exp(chance[o] - best) if kept[o] > 0.0 else 0.0
                whole += shares[o]
            for o in range(2, n_outputs + 2):
                shares[o] = (1.0 - alpha) * shares[o] / whole + alpha * share_floor[o]
            best = -np.inf
            for j in range(1 + n_stackers):
                likely = math.log(logits[j])
                summed[room + 1 + j] -= c * likely
                logits[j] = math.log(final_shares[j]) + c * likely
                best = max(best, logits[j])
            whole = 0.0
            for j in range(1 + n_stackers):
                final_shares[j] = math.exp(logits[j] - best)
                whole += final_shares[j]
            for j in range(1 + n_stackers):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / (1 + n_stackers)
        for j in range(n_stackers):
            spread = stacked_s[j]
            g = 1.0 / (1.0 + C8 * spread)
            against = finals_minus[1 + j] if y > 0.0 else finals_plus[1 + j]
            in_favour = finals_plus[1 + j] if y > 0.0 else finals_minus[1 + j]
            if c > 1.0:
                slope, curvature = _heavy(y * stacked_m[j] * math.sqrt(g), g * spread, c)
            else:
                slope, curvature = c * against, c * against * in_favour
            step, fall = y * math.sqrt(g) * slope, g * curvature
            root = math.sqrt(min(fall, 2.0 * fall / (1.0 + 2.0 * spread * fall)))
            stay = 1.0 - STACKER_MEMORY * j  # the second one forgets
            for at in range(j * room, (j + 1) * room, LANES):
                product = load(along, at)
                store(stacker_mean, at, load(stacker_mean, at) + product * step)
                store(along, at, product * root)
            for k in range(n_outputs + 2):
                here = (j * room + k) * room
                for at in range(0, room, LANES):
                    fallen = along[j * room + k] * load(along, j * room + at)
                    store(stacker_covariance, here + at, (load(stacker_covariance, here + at) - fallen) * stay)
                if j > 0:
                    stacker_covariance[here + k] += STACKER_MEMORY * j * stacker_prior[k]

        # --- what is counted
        if counts:
            stream[OTHER] = 1.0
            for k in range(length):
                there = 2 * np.int64(indices[start + k])
                squares[there] = mean_squares[k]
                squares[there + 1] += dtype(1)
        if counted < SETTLED and length > 0:
            counted += 1.0
            log_length = new_log_length
        stream[WEIGHT] += c
        stale |= any_scaled
        row += 1
        if examples == stop:
            break
    stream[ROWS], stream[LOG_LENGTH] = counted, log_length
    return row, examples


@njit(cache=True, nogil=True, error_model="numpy")
def _effective_weights(numbers, state, squares, settings, factors, coefficients, mixing, found):
    """(means, variances) of some features' weights in the linearised combination of all lanes."""
    for n in range(numbers.size):
        i = numbers[n]
        square = squares[i, 0] if squares[i, 1] > 0 else 1.0
        mean = middle = 0.0
        for k in range(settings.shape[1]):
            weight = factors[k] * state[i, k // LANES * 2 * LANES + k % LANES]
            mean += coefficients[k] * weight
            middle += mixing[k] * weight
        variance = 0.0
        for k in range(settings.shape[1]):
            if mixing[k] > 0.0:
                place = k // LANES * 2 * LANES + k % LANES
                apart = factors[k] * state[i, place] - middle
                precision = settings[PRIOR, k] + settings[PER_SQUARE, k] * square + state[i, place + LANES]
                own = 0.0 if settings[RATE, k] > 0.0 else factors[k] * factors[k] / precision
                variance += mixing[k] * (own + apart * apart)
        found[0, n] = mean
        found[1, n] = variance


@njit(cache=True, nogil=True, error_model="numpy")
def _merge_lanes(states, squares, signs, factors, settings, merged_factors):
    """Merge the lanes of up to three banks into the first: natural parameters add, in the units of the features.

    True if the third, which is subtracted, knows more of some feature than the others do.
    """
    mine = states[0]
    most = LIMIT_32 if mine.itemsize == 4 else LIMIT_64
    short = False
    for i in range(mine.shape[0]):
        touched = False
        for part in range(3):
            for place in range(mine.shape[1]):
                touched |= states[part][i, place] != 0
        if not touched:  # its memory stays untouched, too
            continue
        uses = square = 0.0
        each = np.ones(3)
        for part in range(3):
            if squares[part][i, 1] > 0:
                each[part] = squares[part][i, 0]
                uses += signs[part] * squares[part][i, 1]
                square += signs[part] * squares[part][i, 1] * squares[part][i, 0]
        merged_square = min(max(square / uses, LEAST_SQUARE), most) if uses > 0.0 else 1.0
        for k in range(settings.shape[1]):
            place = k // LANES * 2 * LANES + k % LANES
            gained = moved = raw = 0.0
            for part in range(3):
                if signs[part] != 0.0:
                    gain, factor = np.float64(states[part][i, place + LANES]), factors[part, k]
                    held = settings[PRIOR, k] + settings[PER_SQUARE, k] * each[part]
                    if settings[RATE, k] > 0.0:
                        held = 0.0
                    gained += signs[part] * gain / (factor * factor)
                    moved += signs[part] * (held + gain) * states[part][i, place] / factor
                    raw += signs[part] * gain
            if signs[2] < 0.0 and settings[KEEP, k] == 1.0 and raw < -1e-6 * states[2][i, place + LANES]:
                short = True
            factor = merged_factors[k]
            held = settings[PRIOR, k] + settings[PER_SQUARE, k] * merged_square
            if settings[RATE, k] > 0.0:
                held = 0.0
            gain = max(gained, 0.0) * factor * factor
            mine[i, place] = moved * factor / (held + gain) if held + gain > 0.0 else 0.0
            mine[i, place + LANES] = min(gain, most)
        if uses > 0.0:
            squares[0][i, 0] = merged_square
            squares[0][i, 1] = uses
    return short
