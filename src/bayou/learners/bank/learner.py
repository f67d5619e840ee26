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
    normalise   the prior variance is v0/q, q the mean square of the feature's own values: units do not matter. When q
                changes, mu/v stays: mu <- mu (q_old/v0 + gained) / (q_new/v0 + gained) before each use
    memory      v <- min((1 + gamma) v, v0) at each use: old evidence fades
    fading      1/v - 1/v0 loses this share at every example, used or not; means and the intercept stay (`priors`)
    learned     the prior variance of each column is learned, from the weights that are known so far (`priors`)

A lane with a `rate` is AdaGrad instead: with the gradient g, G += g^2 and w -= rate g / max(sqrt(G), 1e-6). Weights
c <= 1 multiply dm and dv; of a larger one the first unit counts as above and the rest where it leaves the score, at
t = g s [S(-z) + (c - 1) S(-z - t)].

**The unit of the stream.** All lanes but the normalised ones see x in units in which a typical row (the geometric mean
of |x| over the first SETTLED rows) has a length between SHORTEST and LONGEST; most streams do as they are.

**Combining**, in three levels. A lane has one output logit z_k, or two with different kp (`second`).

    1. fixed share:   P = sum w_k S(z_k), logit zm;   w_k <- (1 - a) w_k p_k(y)/P(y) + a/K,  a = max(1/(t+1), 1e-5)
    2. two stackers:  zm + b + A zm + sum c_k (z_k - zm), Bayesian logistic regression with full covariance S, prior
                      N(0, diag(.01, .01, 10/K)), learned by the same step; one of them with S += 1e-4 (S0 - S)
    3. fixed share over zm and the two stackers' logits: the probability

**The score** of a prediction has the variance own + disagreement + stacking (the lanes' variances, how far outputs
lie apart, the stackers' variances, each averaged by the shares of its level), and the mean that gives the probability
back, P = S(mean / sqrt(1 + C8 variance)). A draw has the weights of one lane (`draws`).

**Later rows.** A model that has stopped learning predicts by a second combination, of lanes without memory by use, that
is learned from delayed outputs (`later`) and answers `predict(batch, horizon="later")`. The weights are those of this
one, linearised as it stands (`weights`).

**Pairs** of features have lanes of their own, one output each (`pairs`).

Parts that learned apart become one by what their lanes have gained (`merging`); the combination of such lanes can be
learned afresh from rows that they do not know (`in_parts`).

Paper: none, it is ours. Fixed share: Herbster and Warmuth 1998; moment matching: marginal-gaussian, appendix D.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from bayou.core import threads
from bayou.core.batch import Batch
from bayou.core.checks import one_of, positive_number, whole_number, yes_or_no
from bayou.core.errors import BadInput
from bayou.core.learner import AT_ONCE, Scores
from bayou.core.prediction import Reading
from bayou.kernels.random import choices
from bayou.learners.bank.combination import LOST, Combination, combine, learn_sampled_rows, new_combination
from bayou.learners.bank.draws import SHARE_OF_VARIANCE, lanes_to_draw
from bayou.learners.bank.dropping import Dropping
from bayou.learners.bank.in_parts import InParts
from bayou.learners.bank.inspection import OutputInfo, levels_of, outputs_of
from bayou.learners.bank.lanes import new_lanes, run_lanes
from bayou.learners.bank.pair_parts import PairWeights, pair_weights
from bayou.learners.bank.pairs import PairLanes, checked_cross, checked_pairs
from bayou.learners.bank.presets import PRESETS, SaysItsLanes, as_mappings, most_careful, own_lanes, settings_of
from bayou.learners.bank.weights import (
    intercept_of,
    lane_part,
    lane_reading,
    log_odds_reading,
    weights_of,
)
from bayou.learners.ensembles.delayed import N_LEARNED, RESTS, DelayedRows, log_losses, next_delay_block

COMBINATIONS = {"stack": 2, "share": 0}  # how many stackers
# The combination follows the lanes this many rows behind.
STRIDE = 1024
# From so many rows on, lanes of pairs work beside the others.
APART = 128


class Told(NamedTuple):
    """What a bank says of some rows: for the next ones, and for later ones."""

    scores: Scores
    delayed: np.ndarray | None  # of kept rows what was LOST, if it was said ahead, and the log-odds TOLD; else NaN


class Bank(SaysItsLanes, Dropping, InParts):
    """Many priors side by side, combined by evidence: the default learner.

    Args:
        n_features: how many weights there are; features are numbered from 0.
        preset: "slim" (8 lanes, one cache line per feature) or "wide" (16 lanes, a little better, half as fast).
        lanes: lanes of your own instead: a list of `Lane`s, or of mappings with their fields.
        combine: "stack", or "share" for the first level alone.
        narrowing: keep 12 outputs after 4,096 examples and 8 after 16,384, those with most evidence.
        intercept: whether there is an extra weight whose feature is always 1.
        intercept_variance: its prior variance; in each lane max(3, prior_variance) if not given.
        dtype: of the state, "float32" or "float64". The intercept and the stackers are always kept in float64.
        pairs: lanes of pairs of features besides: "crosses", "factors" (crosses, and factorisation machines), or
            "auto" and "auto,factors", which drop those that do not pay.
        cross: which pairs: "columns" (`Batch.groups`), "all", or a list of pairs of groups.
        pair_bits: 2^pair_bits places for their weights.

    >>> from bayou import Batch
    >>> learner = Bank(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 3: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(p[0] == 0.5 and p[1] > 0.5)
    True
    >>> [str(output.lane) for output in learner.lanes][:3]
    ['scaled learned 0.1', 'scaled 10', 'tempered 0.1, fading 0.0001']
    """

    name = "bank"
    _per_feature: tuple[str, ...] = ("state", "squares", "groups")  # type: ignore[misc]
    _by_rows_at_hand = (
        *("later shares", "later final shares", "later stacker means", "later stacker covariances", "later losses"),
        *("later damping", "later kept", "tally", "delayed"),
    )
    _newer = ("damping", "fade", "groups", "priors", "fresh priors", *_by_rows_at_hand)

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
        pairs: str | None = None,
        cross: Any = "columns",
        pair_bits: int = 22,
    ) -> None:
        chosen = one_of("preset", preset, PRESETS) if lanes is None else own_lanes(lanes)
        if intercept_variance is not None:
            intercept_variance = positive_number("intercept_variance", intercept_variance, high=1e15)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            preset=preset,
            lanes=None if chosen == PRESETS.get(preset) else as_mappings(chosen),
            combine=combine,
            narrowing=yes_or_no("narrowing", narrowing),
            intercept_variance=intercept_variance,
            pairs=(pairs := checked_pairs(pairs)),
            cross=checked_cross(cross),
            pair_bits=whole_number("pair_bits", pair_bits, 4, 30),
        )
        n_stackers = one_of("combine", combine, COMBINATIONS)
        if narrowing and not n_stackers:
            raise BadInput('narrowing goes by the stackers\' evidence; it needs combine="stack".')
        self._chosen = chosen
        firsts = [(k, lane.temper[1]) for k, lane in enumerate(chosen)]
        self._outputs = firsts + [(k, lane.second) for k, lane in enumerate(chosen) if lane.second is not None]
        settings = settings_of(chosen, intercept_variance)
        self._lanes = new_lanes(settings, self._n_features, self._has_intercept, self._dtype)
        self._widest, width = self._lanes.widest, self._lanes.width
        self._fill_held()
        self._pairs, self.wants_groups = None, pairs is not None or len(self._lanes.priors) > 0
        if pairs is not None:
            own = self._n_features, self._has_intercept, self._dtype
            self._pairs = PairLanes(pairs, self._parameters["cross"], self._parameters["pair_bits"], width, *own)
            self._outputs += self._pairs.outputs
            if self._pairs.factors is not None:
                self._per_feature = (*type(self)._per_feature, "factors")
        self._said_by = dict(enumerate(chosen)) | dict(
            enumerate(() if self._pairs is None else self._pairs.lanes, start=width)
        )
        self._combination = new_combination(self._lanes, self._outputs, n_stackers)
        static = [output for output in self._outputs if not self._said_by[output[0]].memory]
        self._static = np.array([output in static or not static for output in self._outputs])
        self._later = new_combination(self._lanes, static or self._outputs, min(n_stackers, 1))
        self._delayed = DelayedRows()
        self._missed = 0  # examples of the stream before the bank's first, for one that joins others

    def _arrays(self) -> dict[str, np.ndarray]:
        lanes = self._lanes
        small = {
            "stream": lanes.stream,
            "intercept": lanes.intercept,
            "scale": lanes.scale,
            "delayed": self._delayed.progress,
        }
        small |= {"fade": lanes.fade, "priors": lanes.priors, "fresh priors": lanes.fresh}
        small |= self._combination.arrays() | {f"later {name}": a for name, a in self._later.arrays().items()}
        # One row each: a row of a file that is all zeros is left out.
        rows = {name: array.reshape(1, -1) for name, array in small.items()}
        tables = {"state": lanes.state, "squares": lanes.squares, "groups": lanes.groups, "tally": self._delayed.tally}
        return tables | ({} if self._pairs is None else self._pairs.arrays()) | rows

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        return self._run_ahead(batch, signs, weights, None)

    def _run_ahead(self, batch: Batch, signs: np.ndarray, weights: np.ndarray, behind: threads.InTurn | None) -> Scores:
        later = None if behind is None else threads.Together(behind)
        try:
            scores, delayed = self._run_told(batch, signs, weights, self._nothing_said(len(batch)), later)
            if delayed is not None:
                told = signs, weights, scores.expected, delayed[LOST], self._examples
                if later is None:
                    self._count(*told)
                else:
                    later.do(self._count, *told)
        finally:
            if later is not None:
                later.bring()
        return scores

    def _count(self, signs: Any, weights: Any, expected: Any, delayed: Any, examples: int) -> None:
        self._delayed.add(log_losses(signs, expected), weights, delayed, examples)

    def _nothing_said(self, rows: int) -> np.ndarray:
        """Room for what lanes say of some rows: mean and variance of the score in every lane."""
        more = 0 if self._pairs is None else len(self._pairs.lanes)
        return np.empty((rows, 2, self._lanes.width + more), self._dtype)

    def _run_told(
        self,
        batch: Batch,
        signs: np.ndarray,
        weights: np.ndarray,
        said: np.ndarray,
        later: threads.Together | None = None,
    ) -> Told:
        """`_run`, with all that was said on the way, for those who combine banks; `said` is for what lanes say.

        What follows the lanes is left to be done `later`, if that is given.
        """
        rows = len(batch)
        if weights.any():
            self._fold()
        scores = Scores(np.empty(rows), np.empty(rows), np.empty(rows))
        learns_delayed = weights.any() and not self._delayed.progress[RESTS] and self._later.kept.any()
        delayed = np.full((2, rows), np.nan) if learns_delayed else None
        row, examples = 0, self._examples
        while row < rows:
            stop = self._next_stop(examples)
            told = batch, signs, weights, said, row, examples, self._combination, scores, delayed, later
            row, examples = self._run_until(stop, *told)
            if examples == stop:
                if later is not None:
                    later.rest()
                self._stopped(stop)
        return Told(scores, delayed)

    def _run_until(
        self,
        stop: int,
        batch: Batch,
        signs: np.ndarray,
        weights: np.ndarray,
        said: np.ndarray,
        row: int,
        examples: int,
        combination: Combination,
        scores: Scores,
        delayed: np.ndarray | None,
        later: threads.Together | None,
    ) -> tuple[int, int]:
        """From `row` on, until `stop` examples were learned: (the next row, examples learned).

        The lanes need nothing of the combinations: they go on with the next rows while those follow in another thread,
        now or `later`. `combination` says what the `scores` are. `delayed` gets what the one for later rows said and
        lost; where it is None, that one learns nothing.
        """
        following: list[Future[None]] = []
        # Of many rows long strides are enough; and pairs work beside the lanes, which wait at the end of a stride.
        long = self._pairs is not None or len(batch) > AT_ONCE
        stride = len(batch) if later is not None else 4 * STRIDE if long else STRIDE

        def follow(*work: Any) -> None:
            if later is not None:
                later.do(*work)
            elif following or row < len(batch):
                following.append(threads.follower().submit(*work))
            else:
                work[0](*work[1:])

        try:
            while row < len(batch) and examples != stop:
                end = len(batch)
                if delayed is not None:
                    end, size, kept = next_delay_block(
                        weights, row, self._missed + examples, stop if stop < 0 else self._missed + stop
                    )
                    ahead = self._said_ahead(batch, signs, kept, examples) if len(kept) and size > 1 else None
                while row < end and examples != stop:
                    first, before, last = row, examples, min(row + stride, end)
                    row, examples = self._run_lanes(batch, signs, weights, first, last, before, stop, said)
                    follow(combine, said, signs, weights, combination, first, row, before, *scores[:3])
                if delayed is not None and len(kept):
                    follow(self._learn_delayed, said if ahead is None else ahead, signs, weights, kept, ahead, delayed)
        finally:
            for part in following:
                part.result()
        return row, examples

    def _run_lanes(
        self,
        batch: Batch,
        signs: np.ndarray,
        weights: np.ndarray,
        row: int,
        last: int,
        examples: int,
        stop: int,
        said: np.ndarray,
    ) -> tuple[int, int]:
        groups = self._groups_of(batch, learns=bool(weights.any()))
        rows = batch.indptr, batch.indices, batch.values, batch.longest, batch.ones, groups
        if self._pairs is None:
            return run_lanes(*rows, signs, weights, self._lanes, row, last, examples, stop, said)
        end: list[tuple[int, int]] = []

        def run() -> None:
            end.append(run_lanes(*rows, signs, weights, self._lanes, row, last, examples, stop, said))

        told = batch, groups, signs, weights, row
        if stop >= 0 and examples + last - row >= stop:  # nobody knows yet where it ends
            run()
            threads.all_done(self._pairs.work(*told, end[0][0], examples, said), apart=False)
        else:
            work = [run, *self._pairs.work(*told, last, examples, said)]
            threads.all_done(work, apart=last - row >= APART)
        return end[0]

    def _said_ahead(self, batch: Batch, signs: np.ndarray, rows: np.ndarray, examples: int) -> np.ndarray:
        """What lanes say of some rows, after so many examples, before they learn any of them."""
        chosen = batch.take(rows)
        said = self._nothing_said(len(rows))
        self._run_lanes(chosen, signs, np.zeros(len(rows), self._dtype), 0, len(rows), examples, -1, said)
        return said

    def _learn_delayed(self, said: Any, signs: Any, weights: Any, rows: Any, ahead: Any, losses: Any) -> None:
        progress = self._delayed.progress
        progress[N_LEARNED] = learn_sampled_rows(
            said, signs, weights, rows, ahead is not None, self._later, progress[N_LEARNED], losses
        )

    def warm_up_combination(self) -> None:
        """Have what follows the lanes compiled, by no rows: at the same time another process may compile the lanes."""
        nothing, scores = np.zeros(0, self._dtype), np.empty(0)
        said = self._nothing_said(0)
        combine(said, nothing, nothing, self._combination, 0, 0, 0, scores, scores, scores)
        self._learn_delayed(said, nothing, nothing, np.empty(0, np.int64), None, np.empty((2, 0)))

    def _run_later(self, batch: Batch) -> Scores:
        """What the combination for later rows says; the live one where there is none (files of earlier versions)."""
        rows = len(batch)
        nothing = np.zeros(rows, self._dtype)
        said = self._nothing_said(rows)
        scores = Scores(np.empty(rows), np.empty(rows), np.empty(rows))
        told = batch, nothing, nothing, said, 0, self._examples, self._frozen_combination, scores, None, None
        self._run_until(-1, *told)
        return scores

    @property
    def looks_later(self) -> bool:
        """Whether it has learned how to predict later rows, and has outputs left for it."""
        return super().looks_later and bool(self._later.kept.any())

    def _check_state(self) -> None:
        super()._check_state()
        self._rest()

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def lanes(self) -> list[OutputInfo]:
        """Every output of every lane: setting, weight, stacking coefficient, loss so far, learned scale."""
        with self._lock:
            chosen = [(self._said_by[lane], temper) for lane, temper in self._outputs]
            return outputs_of(self._lanes, self._combination, chosen)

    def parts(self) -> list[dict[str, Any]]:
        """`lanes` and `levels` in words and numbers, for the command."""
        outputs = [
            {"name": o.name, "weight": o.weight, "stacking": o.stacking, "loss": o.loss, "scale": o.scale}
            for o in self.lanes
            if o.kept
        ]
        return outputs + [{"name": name, **numbers} for name, numbers in self.levels.items()]

    @property
    def has_pairs(self) -> bool:
        """Whether it has lanes of pairs."""
        return self._pairs is not None

    @property
    def has_live_pairs(self) -> bool:
        """Whether it has a lane of crosses that the combination still uses."""
        return self._pairs is not None and bool(self._pairs.live[0])

    def pair_weights(self) -> PairWeights | None:
        """Return the pairs that the lane of crosses has seen, with their weights; None for a bank without pairs."""
        with self._lock:
            pairs = self._pairs
            return None if pairs is None else pair_weights(pairs, self._lanes, self._frozen_combination)

    @property
    def levels(self) -> dict[str, dict[str, float]]:
        """Mean log loss so far, and share in the last level, of the bank, the mixture and the stackers."""
        with self._lock:
            return levels_of(self._lanes, self._combination)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[0]

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._weights_at(features)[1]

    def _weights_at(self, features: Any) -> np.ndarray:
        """Means and variances of some weights."""
        asked = isinstance(features, np.ndarray) and features.dtype.kind in "iu"
        places = features.astype(np.int64, copy=False) if asked else np.arange(self._n_features)[features]
        return weights_of(self._lanes, self._frozen_combination, places, self._pairs)

    def _intercept(self) -> tuple[float, float]:
        return intercept_of(self._lanes, self._frozen_combination, self._pairs)

    def _reading(self, features: np.ndarray, squares: np.ndarray | None) -> Reading:
        return log_odds_reading(self._lanes, self._frozen_combination, features, squares, self._pairs)

    def _associated(self, features: np.ndarray, squares: np.ndarray | None) -> Reading:
        return lane_reading(self._lanes, most_careful(self._chosen), features, squares)

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        self._draw_at(batch, batch.indices, seed, purpose, scores)

    def _draw_at(self, batch: Batch, places: np.ndarray, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        """Each draw from one lane (`draws`); `places` are those of the non-zeros' weights in the table."""
        numbers, chances = lanes_to_draw(self._lanes, self._combination)
        taken, share = numbers[choices(seed, chances, len(scores))], SHARE_OF_VARIANCE[purpose]
        for lane in np.unique(taken).tolist():
            _, weights, (bias, unsure) = lane_part(self._lanes, lane, places)
            variance = share * np.asarray(weights.variance)
            intercept = (bias, share * unsure) if self._has_intercept else (0.0, 0.0)
            self._draw_gaussian(batch, weights.mean, variance, intercept, seed, np.flatnonzero(taken == lane), scores)
