"""The bank: several priors learned side by side and combined by evidence, so that nothing is left to tune.

A lane is a small learner of all weights with one answer to the questions that a user would otherwise have to answer:
how large are the weights, in which units are the features, how far can variances be trusted, do weights drift?

**A Gaussian lane** has the posterior N(mu_i, v_i) of its weights. For an example (x, y = +-1) of weight c, with
m = sum x mu and s = sum x^2 v, it predicts the logit m / sqrt(1 + C8 kp s), and then matches moments, C8 = pi/8:

    g = 1/(1 + C8 ku s)    z = y m sqrt(g)    dm = y sqrt(g) S(-z)    dv = g S(z) S(-z)
    mu += x v dm           v *= max(1 - h, 1/(1 + 2h))                h = x^2 v dv

    temper      (ku, kp): how much of its variance to use when updating and when predicting
    scale       one factor e^l for all features, l ~ N(0, .05), is learned as one more weight, of the value
                M = e^l sum x mu: s += M^2 v_l, and a step of l is at most 1/2
    normalise   the prior variance is v0/q, q the mean square of the feature's own values: units do not matter. When q
                changes, mu/v stays: mu <- mu (q_old/v0 + gained) / (q_new/v0 + gained) before each use
    memory      v <- min((1 + gamma) v, v0) at each use: old evidence fades
    fading      1/v - 1/v0 loses this share at every example, used or not; means and the intercept stay (`priors`)
    learned     the prior variance of each column is learned, from the weights learned so far (`priors`)

A lane with a `rate` is AdaGrad instead: with the gradient g, G += g^2 and w -= rate g / max(sqrt(G), 1e-6). Weights
c <= 1 multiply dm and dv; of a larger weight the first unit counts at z and the rest at z + t, where the update leaves
the score, t = g s [S(-z) + (c - 1) S(-z - t)].

**The unit of the stream.** All lanes but the normalized ones read x in units in which a typical row (the geometric mean
of |x| over the first UNIT_FIT_ROWS rows) has a length between MIN_ROW_NORM and MAX_ROW_NORM; most streams do as they
are.

**Combining**, in three levels. A lane has one output logit z_k, or two with different kp (`Lane.second`).

    1. fixed share:   P = sum w_k S(z_k), logit zm;   w_k <- (1 - a) w_k p_k(y)/P(y) + a/K,  a = max(1/(t+1), 1e-5)
    2. two stackers:  zm + b + A zm + sum c_k (z_k - zm), Bayesian logistic regression with full covariance S, prior
                      N(0, diag(.01, .01, 10/K)), learned by the same step; one of them with S += 1e-4 (S0 - S)
    3. fixed share over zm and the two stackers' logits: the probability

**The score** of a prediction has the variance own + disagreement + stacking (the lanes' variances, how far outputs
lie apart, the stackers' variances, each averaged by the shares of its level), and the mean that gives the probability
back, P = S(mean / sqrt(1 + C8 variance)). A draw has the weights of one lane (`sampling`).

**Later rows.** A model that has stopped learning predicts with a second combination, of lanes without memory by use. It
is learned from delayed outputs (`ensembles.delayed`) and used by `predict(batch, horizon="later")`. The weights shown
are those of this combination, linearized at its current state (`weights`).

**Passes.** After `end_pass` rows are repeated: in the lanes they have a weight of .2 in the second pass and of .1 in
later ones, and both combinations rest. Repeated rows of full weight would make lanes too certain, and combinations
would learn to believe lanes that have seen the labels. After `new_stream` rows are new again.

**Pairs** of features have lanes of their own, one output each (`pairs`).

Banks that learned separately are merged by adding the gains of their lanes (`merging`); the combination of such lanes
can be relearned from rows that they have not learned (`recombining`).

Paper: none, it is ours. Fixed share: Herbster and Warmuth 1998; moment matching: marginal-gaussian, appendix D.2.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from bayou.core import threads
from bayou.core.batch import Batch
from bayou.core.checks import check_bool, check_callable, check_choice, check_int, check_positive
from bayou.core.errors import BadInput
from bayou.core.learner import Scores
from bayou.core.prediction import WeightView, WeightViewPart
from bayou.core.sharding import ShardingLearner
from bayou.core.validation import feature_numbers
from bayou.learners.bank import presets
from bayou.learners.bank.combination import DELAYED_LOSS, Combination, new_combinations
from bayou.learners.bank.dropping import PROGRESS, Dropping, HeadTwin
from bayou.learners.bank.groups import GroupPriors, LearnedPrior
from bayou.learners.bank.head import AUTOMATIC, LATER_GAPS, Head, checked_head
from bayou.learners.bank.inspection import OutputInfo, outputs_of, stages_of
from bayou.learners.bank.lanes import new_lanes
from bayou.learners.bank.linearization import intercept_of, lane_reading, log_odds_reading, weights_of
from bayou.learners.bank.pairs import PairLanes, checked_cross, checked_pairs
from bayou.learners.bank.recombining import learn_lanes, recombine
from bayou.learners.bank.running import BankRunner, LabelledRows, LaneRunner
from bayou.learners.bank.sampling import draw
from bayou.learners.bank.shards import BankSharding, merge_banks
from bayou.learners.ensembles.delayed import DelayedRows
from bayou.learners.ensembles.learner import Ensemble, frozen_combination

COMBINATIONS = {"stack": 2, "share": 0}  # how many stackers


class Bank(Ensemble, ShardingLearner):
    """Ensemble of many priors, learned side by side and combined by evidence: the default learner.

    Args:
        n_features: number of weights; feature indices start at 0.
        preset: "slim" (8 lanes, one cache line per feature) or "wide" (16 lanes, a little better, half as fast).
        lanes: your own lanes instead of a preset: a list of `Lane`s, or of mappings with their fields.
        combine: "stack", or "share" to use only the first level.
        narrowing: keep only the 12 outputs with the most evidence after 4,096 examples, and 8 after 16,384.
        intercept: whether to add a weight whose feature is always 1.
        intercept_variance: its prior variance; in each lane max(3, prior_variance) if not given.
        dtype: type of the state, "float32" or "float64". The intercept and the stackers are always in float64.
        pairs: additional lanes of pairs of features: "crosses", "factors" (crosses, and factorization machines), or
            "auto" and "auto,factors", which drop those that do not pay off.
        cross: which features are paired: "columns" (`Batch.groups`), "all", or a list of pairs of groups.
        pair_bits: the weights of pairs are stored in a hash table of size 2^pair_bits.
        head: number of most-used features whose weights have a joint posterior; 0 for none. The default, "auto", uses
            128, or 64 for rows of more than 100 features, as long as that pays off.

    >>> from bayou import Batch
    >>> learner = Bank(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 3: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(p[0] == 0.5 and p[1] > 0.5)
    True
    >>> [str(output.lane) for output in learner.lanes][:3]
    ['scaled learned 0.1', 'scaled 10', 'tempered 0.1, fading 0.0001']
    """

    name = "bank"
    _per_feature_arrays: tuple[str, ...] = ("state", "squares", "groups")
    _unstored_parameters: ClassVar[dict[str, Any]] = {"head": 0}

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
        head: int | str = AUTOMATIC,
    ) -> None:
        chosen = check_choice("preset", preset, presets.PRESETS) if lanes is None else presets.parse_lanes(lanes)
        if intercept_variance is not None:
            intercept_variance = check_positive("intercept_variance", intercept_variance, high=1e15)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            preset=preset,
            lanes=None if chosen == presets.PRESETS.get(preset) else presets.as_mappings(chosen),
            combine=combine,
            narrowing=check_bool("narrowing", narrowing),
            intercept_variance=intercept_variance,
            pairs=(pairs := checked_pairs(pairs)),
            cross=checked_cross(cross),
            pair_bits=check_int("pair_bits", pair_bits, 4, 30),
            head=(head := checked_head(head)),
        )
        n_stackers = check_choice("combine", combine, COMBINATIONS)
        if narrowing and not n_stackers:
            raise BadInput('narrowing uses the stackers\' evidence, so it needs combine="stack".')
        self._chosen = chosen
        # Lanes in full, so that presets may change; a head only if there is one.
        self._stored_parameters = {"lanes": presets.as_mappings(chosen), "head": head or None}
        self._outputs = outputs = presets.outputs_of_lanes(chosen)
        settings = presets.settings_table(chosen, intercept_variance)
        state = self._n_features, self._has_intercept, self._dtype
        lanes = new_lanes(settings, *state)
        self._widest, self.wants_groups = lanes.max_prior_variance, pairs is not None or len(lanes.priors) > 0
        pair_lanes = None
        if pairs is not None:
            cross, pair_bits = self._parameters["cross"], self._parameters["pair_bits"]
            pair_lanes = PairLanes(pairs, cross, pair_bits, lanes.width, *state)
            outputs += pair_lanes.outputs
            if pair_lanes.factors is not None:
                self._per_feature_arrays = (*type(self)._per_feature_arrays, "factors")
        self._said_by: dict[int, Any] = dict(enumerate(chosen))
        self._said_by |= dict(enumerate(() if pair_lanes is None else pair_lanes.lanes, start=lanes.width))
        joint = None
        if head:
            joint = Head(n_features, head, intercept, column=lanes.width + len(self._said_by) - len(chosen))
            outputs += joint.outputs
            self._said_by |= dict(enumerate(joint.lanes, start=joint.column))
            self._per_feature_arrays = (*self._per_feature_arrays, "head table", "head groups")
        static = np.array([not self._said_by[output.lane].memory for output in outputs])
        self._static = static | ~static.any()
        self._combination, self._later_combination = new_combinations(lanes, outputs, self._static, n_stackers)
        self._delayed = DelayedRows()
        later = self._later_combination.arrays()
        self._by_rows_at_hand = "tally", "delayed", LATER_GAPS, *(f"later {name}" for name in later)
        self._by_rows_at_hand += tuple(f"later twin {name}" for name in (*later, "predicts"))
        self._twin = None
        if joint is not None and joint.is_auto:
            twins = new_combinations(lanes, outputs, self._static, n_stackers)
            self._twin = HeadTwin(*twins, np.zeros(PROGRESS), np.zeros(1))
        self._lanes, self._pairs, self._head, self._groups = lanes, pair_lanes, joint, GroupPriors(lanes)
        live, later = self._combination, self._later_combination
        self._dropping = Dropping(
            live, later, self._static, lanes, self._groups, pair_lanes, narrowing, joint, self._twin
        )
        self._lane_runner = LaneRunner(lanes, self._groups, pair_lanes, joint)
        self._runner = BankRunner(self._lane_runner, live, later, self._delayed, self._dropping)

    def _arrays(self) -> dict[str, np.ndarray]:
        lanes = self._lanes
        small = {
            "stream": lanes.stream,
            "intercept": lanes.intercept,
            "scale": lanes.scale,
            "delayed": self._delayed.progress,
        }
        small |= {"fade": lanes.fade, "priors": lanes.priors, "fresh priors": lanes.pending_sums}
        small |= self._combination_arrays()
        # One row each: a row of a file that is all zeros is left out.
        rows = {name: array.reshape(1, -1) for name, array in small.items()}
        tables = {"state": lanes.state, "squares": lanes.squares, "groups": lanes.groups, "tally": self._delayed.tally}
        beside = [part.arrays() for part in (self._pairs, self._head, self._twin) if part is not None]
        return tables | dict(ChainMap(*beside)) | rows

    # --- learning and predicting --------------------------------------------------------------------------------

    def learn(self, batch: Batch, combine: bool = True) -> np.ndarray:
        """Learn from a batch like any learner, or train only the lanes, in less than half the time.

        Args:
            batch: the rows, with labels.
            combine: False does not update the combination, which is then out of date. Use it for parts of a stream
                that are learned separately and whose combination is relearned at the end (`recombine`). No predictions
                are made then: the result is NaN for every row.
        """
        if check_bool("combine", combine):
            return super().learn(batch)
        learn_lanes(self, batch)
        return np.full(len(batch), np.nan)

    def recombine(
        self,
        batches: Iterable[Batch],
        on_told: Callable[[Batch, np.ndarray], object] | None = None,
        learn: bool = False,
    ) -> float:
        """Relearn the combination of the lanes from scratch, from rows that the lanes have not learned.

        On rows that the lanes have learned, it would favor lanes that memorize best. 20,000 rows are enough, or a tenth
        of the rows if there are fewer than 200,000. A head of automatic size is dropped if it does not pay on them.

        Args:
            batches: the rows, with labels.
            on_told: called with chunks of rows and P(y = 1) of each row, predicted before learning from it.
            learn: whether the lanes also learn each row after it is predicted. This is better at the end: no row is
                lost, and the combination fits the final lanes. Otherwise lanes do not change, and the
                same rows can be used again after the next round.

        Returns:
            the mean log loss of these rows, each predicted before the combination learned from it.

        >>> from bayou.learners import Bank
        >>> bank = Bank(n_features=10)
        >>> told = bank.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}] * 50, labels=[1, 0] * 50), combine=False)
        >>> bank.recombine([Batch.from_rows([{0: 1.0}, {1: 1.0}] * 50, labels=[1, 0] * 50)]) < 0.1
        True
        """
        check_callable("on_told", on_told)
        return recombine(self, batches, on_told, check_bool("learn", learn))

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        return self._run_deferred(batch, signs, weights, None)

    def _run_deferred(
        self, batch: Batch, signs: np.ndarray, weights: np.ndarray, behind: threads.SerialExecutor | None
    ) -> Scores:
        queue = None if behind is None else threads.WorkQueue(behind)
        rows, outputs = LabelledRows(batch, signs, weights), self._lane_runner.empty_outputs(len(batch))
        try:
            scores, delayed = self._runner.learn(rows, outputs, self._examples, queue)
            if delayed is not None:
                run = signs, weights, scores.expected, delayed[DELAYED_LOSS], self._examples
                if queue is None:
                    self._runner.count_losses(*run)
                else:
                    queue.submit(self._runner.count_losses, *run)
        finally:
            if queue is not None:
                queue.flush()
        return scores

    def _predict_later(self, batch: Batch) -> Scores:
        rows = LabelledRows.unlabelled(batch, self._dtype)
        return self._runner.predict(rows, frozen_combination(self), self._examples)

    @property
    def _used_later(self) -> Combination:
        return self._dropping.later

    @property
    def supports_later(self) -> bool:
        """True if the combination for later rows has learned enough to be used, and has outputs left."""
        return super().supports_later and bool(self._later_combination.is_kept.any())

    def will_change_other_features(self, examples: int) -> bool:
        return self._groups.will_rebase(examples) or (self._head is not None and self._head.will_choose(examples))

    def compile_last_kernels(self) -> None:
        """Compile the kernels that follow the lanes, by running them on no rows."""
        self._runner.compile(self._dtype)

    def _check_state(self) -> None:
        self._groups.restore()
        if self._head is not None:
            self._head.restore()
        self._dropping.refresh()

    # --- shards -------------------------------------------------------------------------------------------------

    @property
    def sharding(self) -> BankSharding:
        """The operations on this bank as a shard, or as the base of shards."""
        return BankSharding(self)

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        merge_banks(self, others, base)

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def lanes(self) -> list[OutputInfo]:
        """Every output of every lane: settings, share, stacking coefficient, loss so far, learned scale."""
        with self._lock:
            chosen = [(self._said_by[output.lane], output.temper) for output in self._outputs]
            return outputs_of(self._lanes, self._combination, chosen)

    def parts(self) -> list[dict[str, Any]]:
        """Return the kept outputs of `lanes`, then `levels`, as mappings for the command."""
        outputs = [
            {"name": o.name, "weight": o.weight, "stacking": o.stacking, "loss": o.loss, "scale": o.scale}
            for o in self.lanes
            if o.kept
        ]
        return outputs + [{"name": name, **numbers} for name, numbers in self.levels.items()]

    @property
    def levels(self) -> dict[str, dict[str, float]]:
        """Mean log loss so far, and share in the last level, of the bank, the mixture and the stackers."""
        with self._lock:
            return stages_of(self._lanes, self._combination)

    def priors(self) -> list[LearnedPrior]:
        """Return the prior of each group seen, from the first lane that learns priors; empty if no lane does.

        >>> from bayou.learners import Bank
        >>> bank = Bank(n_features=4)
        >>> rows = Batch.from_rows([{0: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}], labels=[1, 0]).with_groups([0, 1, 0, 1])
        >>> p = bank.learn(rows)
        >>> [(prior.group, prior.features) for prior in bank.priors()]
        [(0, 2), (1, 2)]
        """
        with self._lock:
            return self._groups.learned()

    def covariance(self, features: Any) -> np.ndarray:
        if (head := self.live_head) is None:
            return super().covariance(features)
        with self._lock:
            return head.covariance_at(feature_numbers(features, self._n_features))

    @property
    def live_head(self) -> Head | None:
        """The joint posterior, if there is one that has not been dropped."""
        return self._head if self._head is not None and self._head.live else None

    def _mean_at(self, features: Any) -> np.ndarray:
        return _weights_at(self, features)[0]

    def _variance_at(self, features: Any) -> np.ndarray:
        return _weights_at(self, features)[1]

    def _intercept(self) -> tuple[float, float]:
        if (head := self.live_head) is not None:
            return head.intercept()
        return intercept_of(self._lanes, frozen_combination(self), self._pairs)

    def _reading(self, features: np.ndarray, squares: np.ndarray | None, associated: bool) -> WeightView:
        if associated:
            return lane_reading(self._lanes, presets.reference_lane(self._chosen), features, squares)
        if (head := self.live_head) is not None:
            part = WeightViewPart(1.0, head.weights_at(features), head.intercept())
            return WeightView(part.weights.mean, part.intercept[0], [part], "log_odds", head.joint_at(features))
        return log_odds_reading(self._lanes, frozen_combination(self), features, squares, self._pairs)

    def _draw(self, batch: Batch, seed: np.uint64, purpose: str, scores: np.ndarray) -> None:
        draw(self._lanes, self._combination, batch, batch.indices, seed, purpose, scores, self._head)


def _weights_at(bank: Bank, features: Any) -> np.ndarray:
    """Return means and variances of some features' weights."""
    indices = _indices(features, bank._n_features)
    if (head := bank.live_head) is None:
        return weights_of(bank._lanes, frozen_combination(bank), indices, bank._pairs)
    weights, most = head.weights_at(indices), 1e37 if bank._dtype == "float32" else 1e300
    return np.clip([weights.mean, weights.variance], -most, most).astype(bank._dtype)


def _indices(features: Any, n_features: int) -> np.ndarray:
    """Return features as an index array; `features` may be anything that indexes an array."""
    if isinstance(features, np.ndarray) and features.dtype.kind in "iu":
        return features.astype(np.int64, copy=False)
    indices: np.ndarray = np.arange(n_features)[features]
    return indices
