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
all lanes, summed with their coefficients. These belong to logits z = m / sqrt(1 + C8 kp s); so each is divided by the
mean of sqrt((1 + C8 kp s) / (1 + C8 variance)) over the last thousand examples or so, which makes it one of the m and
of the score. The variance of a weight is that of the mixture of lanes.

Merging adds natural parameters lane by lane and stacker by stacker, and the logarithms of shares.

Paper: none, it is ours. Fixed share: Herbster and Warmuth 1998; moment matching: marginal-gaussian, appendix D.2.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import one_of, positive_number, yes_or_no
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores
from bayou.core.links import C8
from bayou.kernels.vector import LANES, aligned_zeros, padded
from bayou.learners.bank.combination import STACKER_PRIOR, STACKER_SPREAD, combine
from bayou.learners.bank.lanes import (
    BIAS_PRIOR,
    KEEP,
    LIVE,
    LOG_LENGTH,
    NORMALISED,
    OTHER,
    PRECISION,
    PRIOR,
    RATE,
    ROWS,
    SCALE_FARTHEST,
    SCALE_PRECISION,
    SCALED,
    WEIGHT,
    effective_weights,
    merge_lanes,
    run_lanes,
    unit_of,
)

MAX_LANES = 64
# The combination follows the lanes so many rows behind.
STRIDE = 1024

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
    _newer = ("damping",)

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
        room = padded(outputs + 2)
        self._slots = slice(2, 2 + outputs)
        self._lane_of = np.array([lane for lane, _ in self._outputs])
        self._output_spread = np.zeros(room, self._dtype)
        self._output_spread[self._slots] = [C8 * temper for _, temper in self._outputs]

        # Of each feature: eight means, eight precisions gained; a second such block for lanes 8 to 15, and so on. Zero
        # bytes mean the prior.
        self._state = aligned_zeros(self._n_features, 2 * LANES * self._blocks, self._dtype)
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
        # How much more an output is damped than the score is, lately; less 1.
        self._damping = np.zeros(room)

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
            "damping": self._damping,
        }
        # One row each: a row of a file that is all zeros is left out.
        return {"state": self._state, "squares": self._squares} | {name: a.reshape(1, -1) for name, a in small.items()}

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        said = np.empty(len(batch) * 2 * self._settings.shape[1], self._dtype)
        scores = Scores(np.empty(len(batch)), np.zeros(len(batch)), np.zeros(len(batch)))
        row, examples = 0, self._examples
        while row < len(batch):
            stops = [at for at in NARROWING if at > examples] if self._parameters["narrowing"] else []
            stop = min(stops, default=-1)
            row, examples = self._run_until(stop, batch, signs, weights, said, row, examples, scores)
            if examples == stop:
                self._narrow(NARROWING[stop])
        return scores

    def _run_until(
        self,
        stop: int,
        batch: Batch,
        signs: np.ndarray,
        weights: np.ndarray,
        said: np.ndarray,
        row: int,
        examples: int,
        scores: Scores,
    ) -> tuple[int, int]:
        """From `row` on, until `stop` examples were learned: (the next row, examples learned).

        The lanes need nothing of the combination: they go on with the next rows while it follows in another thread.
        """
        behind: list[Future[None]] = []
        try:
            while row < len(batch) and examples != stop:
                first, before, last = row, examples, min(row + STRIDE, len(batch))
                row, examples = run_lanes(
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
                    self._widest,
                    first,
                    last,
                    before,
                    stop,
                    said,
                )
                combining = (
                    said,
                    signs,
                    weights,
                    self._settings[RATE] == 0,
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
                    self._damping,
                    first,
                    row,
                    before,
                    *scores[:3],
                )
                if behind or row < len(batch):
                    behind.append(_follower().submit(combine, *combining))
                else:
                    combine(*combining)
        finally:
            for part in behind:
                part.result()
        return row, examples

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
        unit = unit_of(self._stream_state[LOG_LENGTH]) if self._stream_state[ROWS] else 1.0
        return np.exp(self._scale_state[0]) * np.where(self._settings[NORMALISED] > 0, 1.0, unit)

    def _stacking(self) -> np.ndarray:
        """The coefficients of the outputs in the stackers, averaged by the stackers' shares."""
        shares = self._final_shares[1:]
        return shares @ self._stacker_mean / shares.sum() if shares.size else np.zeros(self._shares.size)

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Of each lane: its coefficient in the linearised combination, its weight in the mixture, how far its means are
        stretched there; and the offset.
        """
        width, of = self._settings.shape[1], self._lane_of
        shares, stretch = self._shares[self._slots], 1.0 / (1.0 + self._damping[self._slots])
        each, offset = self._final_shares[0] * shares, 0.0
        for share, mean in zip(self._final_shares[1:], self._stacker_mean, strict=True):
            c = mean[self._slots]
            each = each + share * ((1.0 + mean[1] - c.sum()) * shares + c)
            offset += share * mean[0]
        gaussian = np.where(self._settings[RATE] > 0, 0.0, np.bincount(of, shares, minlength=width))
        if not gaussian.sum():
            gaussian = np.bincount(of, shares, minlength=width)
        each_share = np.bincount(of, shares, minlength=width)
        stretched = np.bincount(of, shares * stretch, minlength=width) / np.where(each_share > 0, each_share, 1.0)
        return np.bincount(of, each * stretch, minlength=width), gaussian / gaussian.sum(), stretched, float(offset)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[0]

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[1]

    def _weights_at(self, features: Any) -> np.ndarray:
        """Means and variances of some effective weights."""
        coefficients, mixing, stretched, _ = self._coefficients()
        numbers = np.arange(self._n_features)[features]
        found = np.empty((2, len(numbers)), self._dtype)
        effective_weights(
            numbers, self._state, self._squares, self._settings, self._factors(), coefficients, mixing, stretched, found
        )
        return found

    def _intercept(self) -> tuple[float, float]:
        coefficients, mixing, stretched, offset = self._coefficients()
        means, gains = self._intercept_state
        mean = float(coefficients @ means) + offset
        means = stretched * means
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
        dampings = np.stack([learner._damping for learner, _ in parts])
        damping = (signs * streams[:, ROWS]) @ dampings / rows if rows else np.zeros_like(self._damping)
        self._damping[:] = np.clip(damping, dampings.min(axis=0), dampings.max(axis=0))
        self._stream_state[[ROWS, LOG_LENGTH, OTHER, WEIGHT]] = rows, length, streams[:, OTHER].max(), weight
        self._scale_state[:] = _natural_sum(
            [learner._scale_state for learner, _ in parts], signs, np.full(self._settings.shape[1], SCALE_PRECISION)
        )
        held = np.where(self._settings[RATE] > 0, 0.0, self._settings[BIAS_PRIOR])
        self._intercept_state[:] = _natural_sum([learner._intercept_state for learner, _ in parts], signs, held)

        # Always three: without a base, the other counts once more with the sign 0.
        third = other if base is None else base
        short = merge_lanes(
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


_here = threading.local()


def _follower() -> ThreadPoolExecutor:
    """The thread in which the combination follows the lanes of the present one; a process that was forked has none."""
    if getattr(_here, "process", None) != os.getpid():
        _here.process, _here.pool = os.getpid(), ThreadPoolExecutor(1, "bayou-combination")
    return _here.pool


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
