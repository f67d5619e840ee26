"""Lasso: L1-penalized logistic or probit regression from quadratic sketches of the likelihood, with a certificate.

    maximize over b    L(b) - sum_j gamma_j |b_j|,    L(b) = sum_i c_i log F(y_i x_i'b)             (quadratic-l1, 4)

which is liblinear's objective, with C = 1/gamma. An example of weight c whose score is m = x'b is replaced by its
Taylor polynomial there (appendix A): with z = y m, slope s = (log F)'(z) and curvature k = -(log F)''(z),

    g = c y s,  h = c k:     log F(y x'b') ~ const + g (x'b' - m) - h (x'b' - m)^2 / 2

so that the sum of many is a quadratic with H = sum h x x' (the paper's -2 Psi) and the gradient G = theta - H b. That
is the sketch; adding an example to it changes only G_j += g x_j and H on the example's own features.
`bayou.kernels.l1_solver` finds the sketch's maximum under the penalty.

algorithm="online" (algorithm 2). A single pass. Each example is expanded at the current weights, and every
`shoot_every` examples the weights are brought to the maximum of the sketch so far. H is kept in full only on features
that have been close to active; where another feature's |G_j| may have exceeded gamma it joins them, and its part of H
is read back from the log of examples (`sketch`). Taylor's polynomial of a surprising example (z << 0) is a straight
line, along which weights would diverge; its curvature is therefore at least s / (10 + 2 |z|). Two heuristics of section
4.1: with `ramp` = t the penalty grows with the examples as max(1, gamma i/t), as otherwise early weights are shrunk too
much (started from 0 instead of 1 it diverges); with `block` = B the last B examples are expanded again, at the weights
after them.

penalty="lookahead" (section 4.1, online): gamma = m sqrt(i) grows with the examples i as the noise in the gradient
does, m from a small grid. The sketch is solved for each m; each example is scored by all of them before it is learned,
and the weights in use are those of the m with the best log-likelihood of such predictions so far.

algorithm="multipass" (section 5). Every pass expands all examples at the same weights; `end_pass` solves. This is
Newton's method, and like it overshoots from a bad start; so a pass also computes the objective at its weights, and if
that did not fall as expected, the step is shortened (to the minimum of a parabola through the known values, and to half
its length at most) and the next pass is made there, or at the step's start if the step went far astray. From then on
surprising examples have the same curvature as online, with a 10 that grows with every step that is taken in full: the
last ones are Newton's.

algorithm="reduced" (algorithm 3). The same in O(d + k^2) memory: H is kept only on an active set S of at most k =
`max_active` features, fixed during a pass. The next S takes, in this order and up to k: the weights that are not 0,
those with |G_j| >= gamma by size, the last S, those with |G_j| >= tau gamma (`slack`). A k too close to the number of
weights that are not 0 makes it cycle: where the certificate has not improved for some passes, or no room is left, k is
doubled.

**The certificate.** A pass at b gives the exact gradient of L there, hence how far b is from optimal: `kkt_violation`
is the largest of |G_j - gamma_j sign(b_j)| over weights that are not 0 and |G_j| - gamma_j over those that are.
`end_pass` returns True once it is at most `tolerance` times the penalty, and keeps the weights that it has certified.

**Merging.** Sketches made at the same weights add: learners that each read a shard of the data ("multipass" or
"reduced", within one pass) merge to the learner that would have read all of it. Online sketches have been expanded at
different weights and cannot be merged.

Paper: Balakrishnan, Madigan, Algorithms for sparse linear classifiers in the massive data setting (quadratic-l1). Its
gamma is `penalty`, k `max_active`, tau `slack`. (3) has a sign slip; in section 5 "the fixed value beta_z" is
beta_{z-1}; algorithm 2 drops the last example.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_bool, check_choice, check_int, check_positive
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores, check_writable
from bayou.kernels.row_layout import batch_arrays
from bayou.learners.lasso import problem as limits
from bayou.learners.lasso.expansion import ENDED, ExpansionConfig, gather, predict
from bayou.learners.lasso.multipass import MultipassSolver
from bayou.learners.lasso.online import OnlineSolver
from bayou.learners.lasso.problem import MOST_BYTES, LassoProblem, checked_penalty
from bayou.learners.lasso.sketch import MOST_NONZEROS, MOST_ROWS

ALGORITHMS = {"online": "online", "multipass": "multipass", "reduced": "reduced"}


class Lasso(Learner):
    """L1-penalized logistic or probit regression, online or exact in a few passes.

    Args:
        n_features: number of weights; feature indices start at 0.
        algorithm: "online" learns in one pass. "multipass" and "reduced" need several, each ended by `end_pass`, and
            converge to the solution of a batch solver; "reduced" keeps only `max_active` features' curvature in memory.
        penalty: gamma; a number, or one for each feature (0: not penalized), or "lookahead" (online), which learns it.
        link: "logistic" or "probit".
        penalize_intercept: whether to penalize the intercept like the features (by the mean of their penalties).
        max_active: k, number of features whose curvature "reduced" keeps; raised if it proves too small.
        slack: tau; "reduced" also tracks features whose gradient is at least this fraction of the penalty.
        ramp: online, the number of examples over which the penalty grows to its full size; None: full from the start.
        block: online, expand each block of this many examples again once it is complete; 0: never.
        shoot_every: online, number of examples between two solutions for the weights.
        tolerance: largest violation of a certified solution, as a fraction of the penalty.
        intercept: whether to add a weight whose feature is always 1.
        dtype: type of the weights returned, "float64" (the default) or "float32". The state is always float64.

    >>> from bayou import Batch
    >>> batch = Batch.from_rows([{0: 1.0, 1: 1.0}, {1: 1.0}, {0: 1.0}, {1: 1.0}] * 5, labels=[1, 0, 1, 1] * 5)
    >>> learner = Lasso(n_features=3, algorithm="multipass", penalty=1.0)
    >>> for _ in range(20):
    ...     p = learner.learn(batch)
    ...     if learner.end_pass():
    ...         break
    >>> learner.mean.round(3), learner.kkt_violation < 1e-6
    (array([1.792, 0.   , 0.   ]), True)
    """

    name = "lasso"
    _per_feature_arrays = ("state", "gradient")

    def __init__(
        self,
        n_features: int,
        *,
        algorithm: str = "online",
        penalty: Any = 1.0,
        link: str = "logistic",
        penalize_intercept: bool = False,
        max_active: int = 400,
        slack: float = 0.8,
        ramp: int | None = None,
        block: int = 0,
        shoot_every: int = 10,
        tolerance: float = 1e-7,
        intercept: bool = True,
        dtype: Any = None,
    ) -> None:
        check_choice("algorithm", algorithm, ALGORITHMS)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            algorithm=algorithm,
            penalty=checked_penalty(penalty, n_features),
            link=link,
            penalize_intercept=check_bool("penalize_intercept", penalize_intercept),
            max_active=check_int("max_active", max_active, 1, 1 << 14),
            slack=check_positive("slack", slack, high=1.0),
            ramp=None if ramp is None else check_int("ramp", ramp, 1),
            block=check_int("block", block, 0, MOST_ROWS),
            shoot_every=check_int("shoot_every", shoot_every, 1),
            tolerance=check_positive("tolerance", tolerance, high=0.1),
        )
        self._takes = "float64"
        looks_ahead, online, reduced = isinstance(penalty, str), algorithm == "online", algorithm == "reduced"
        if not online and (ramp is not None or block or looks_ahead):
            raise BadInput('ramp, block and penalty="lookahead" are for algorithm="online".')
        if looks_ahead and (ramp is not None or block):
            raise BadInput('ramp and block are for a fixed penalty, not for penalty="lookahead".')
        parameters = self._parameters
        dense = parameters["max_active"] if reduced else limits.DENSE
        logged = bool(block) or not (reduced or self._n_features + 1 <= dense)
        self._problem = LassoProblem(self._n_features, parameters["penalty"], penalize_intercept, dense, logged)
        self._solver: OnlineSolver | MultipassSolver
        if online:
            self._solver = OnlineSolver(self._problem, self._link, parameters)
        else:
            self._solver = MultipassSolver(self._problem, reduced, parameters)
        self._rules = ExpansionConfig(
            link=self._link,
            has_intercept=self._has_intercept,
            online=online,
            has_inactive=online and not self._problem.dense,
            keeps_log=self._problem.sketch is not None,
            maximize_every=parameters["shoot_every"] if online else 0,
            block_size=parameters["block"],
        )

    # --- what is saved ------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, np.ndarray]:
        problem = self._problem
        size = len(problem.active)
        arrays: dict[str, np.ndarray] = {
            "state": problem.weights[:-1, None],
            "gradient": problem.gradient[:-1, None],
            "intercept": np.atleast_2d(problem.weights[-1:]),
            "intercept gradient": problem.gradient[-1:],
            "tally": problem.tally.numbers,
            "block": problem.block[:size, :size],
        }
        if not problem.dense:
            arrays["active"] = problem.active
        if problem.sketch is not None:
            arrays |= problem.sketch.arrays()
        return arrays | self._solver.arrays()

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        problem = self._problem
        try:
            if not problem.dense:
                (size,) = shapes["active"]
                if size > len(problem.weights):
                    raise BadModel("more features are active than there are; the file was not written by bayou.")
                problem.active, problem.block = np.zeros(size, np.int64), np.zeros((size, size))
            if problem.sketch is not None:
                problem.sketch.resize(shapes)
            if self._rules.has_inactive:
                waiting = self._solver.waiting
                waiting.n_met[0] = min(shapes["met"][0], len(waiting.indices))
        except (LookupError, ValueError, TypeError):
            raise BadModel("the model lacks a part of its sketch; its file was not written by bayou.") from None

    def _check_state(self) -> None:
        problem, met = self._problem, self._solver.waiting.seen
        active = problem.active
        if problem.sketch is not None:
            problem.sketch.check()
        if (met > self._n_features).any() or ((active < 0) | (active > self._n_features)).any():
            raise BadModel("the model's features are out of range; its file was not written by bayou.")
        problem.slots[met] = -1
        problem.slots[active] = np.arange(1, len(active) + 1)

    def _nbytes_for(self, n_features: int) -> int:
        """Return the size in bytes, including the initial size of a sketch."""
        size, most = n_features + 1, self._parameters["max_active"]
        if self._parameters["algorithm"] == "reduced":
            return 8 * min(size, most) ** 2 + 32 * size
        return 8 * size**2 + 32 * size if size <= limits.DENSE else 32 * size + 12 * MOST_NONZEROS

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        problem, solver = self._problem, self._solver
        score, probability = np.empty(len(batch)), np.empty(len(batch))
        if not weights.any():
            rows = batch.indptr, batch.indices, batch.values
            predict(*rows, self._link, self._has_intercept, problem.weights, score, probability)
            return Scores(probability, score, None)
        log = problem.sketch
        if log is not None:
            if batch.max_row_length >= MOST_NONZEROS:
                raise BadInput(f'a row has {batch.max_row_length:,} features; use algorithm="reduced".')
            if log.folded is not None and log.folded.nnz * 16 > MOST_BYTES:
                raise BadInput('the sketch has grown beyond 4 GB; use algorithm="reduced", or fewer features.')
        examples = batch_arrays(batch, signs.astype(np.float64), weights.astype(np.float64))
        row, learned, reason = 0, self._examples, None
        while reason != ENDED:
            sums = problem.quadratic, problem.log, solver.waiting, solver.ahead, problem.tally.numbers
            reach = solver.max_margin_excess()
            row, learned, reason = gather(examples, row, learned, self._rules, reach, sums, score, probability)
            if reason != ENDED:
                solver.resume(reason, learned)
        return Scores(probability, score, None)

    def end_pass(self) -> bool:
        """End a pass over the data: bring the weights to the maximum of the quadratic gathered in it.

        Returns True once the weights are certified, and then keeps them. Online there is one pass: always True.
        """
        check_writable(self)
        with self._lock:
            return self._solver.end_pass(self._examples)

    def at_penalty(self, penalty: Any) -> Self:
        """Return a learner with the same parameters but another penalty, whose passes start from this one's weights."""
        if self._rules.online:
            raise BadInput('algorithm="online" makes one pass; at_penalty is for algorithm="multipass" and "reduced".')
        with self._lock:
            other = type(self)(**{**self._parameters, "penalty": penalty})
            other._problem.weights[:] = self._problem.weights
            other._problem.tally.active_limit = self._problem.tally.active_limit
            if not self._problem.dense:
                other._problem.activate(self._problem.active)
        return other

    def progress(self) -> str:
        """Return a short description of the progress of the passes; "" online."""
        return self._solver.progress()

    # --- looking inside -----------------------------------------------------------------------------------------

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._problem.weights[:-1][features].astype(self._dtype)

    def _intercept(self) -> tuple[float, float]:
        return float(self._problem.weights[-1]), math.nan

    @property
    def active_size(self) -> int:
        """The number of weights that are not 0, including the intercept."""
        return int(np.count_nonzero(self._problem.weights))

    @property
    def n_passes(self) -> int:
        """The number of completed passes."""
        return int(self._problem.tally.passes)

    @property
    def objective(self) -> float:
        """The value of -L(b) + sum gamma |b| at the weights of the last pass (NaN before the first)."""
        return self._problem.tally.objective if self._problem.tally.passes else math.nan

    @property
    def kkt_violation(self) -> float:
        """The largest violation at the weights of the last pass, in the units of the penalty (NaN before the first).

        Once `end_pass` has returned True, these are the current weights.
        """
        return self._problem.tally.violation if self._problem.tally.passes else math.nan

    @property
    def largest_gradient(self) -> float:
        """The largest |G_j| of the quadratic gathered so far, without the intercept's."""
        return float(np.abs(self._problem.gradient[:-1]).max())

    @property
    def penalty_in_force(self) -> float:
        """The penalty after the examples so far, with its ramp, or as chosen by "lookahead"."""
        return self._solver.penalty_in_force(self._examples)

    # --- merging ------------------------------------------------------------------------------------------------

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        for other in others:
            self._merge_one(other, base)

    def _merge_one(self, other: Self, base: Self | None) -> None:
        """Add the sums of `other`, minus those of `base`. All must be at the same weights, for the same features."""
        if self._rules.online:
            raise BadModel(
                "online sketches were expanded along different paths and cannot be merged; "
                'those of algorithm="multipass" and "reduced" can.'
            )
        mine, theirs, held = self._problem, other._problem, None if base is None else base._problem
        for one, what in ((theirs, "the models"), (held, "base and the models")):
            if one is not None and not (
                np.array_equal(one.weights, mine.weights) and np.array_equal(one.active, mine.active)
            ):
                raise BadModel(
                    f"{what} have different weights: merge what was gathered in one pass, before any end_pass."
                )
        if held is not None:
            for heir in (mine, theirs):
                lost = np.diag(heir.block) < (1.0 - 1e-9) * np.diag(held.block)
                if lost.any() or heir.tally.loss < (1.0 - 1e-9) * held.tally.loss:
                    raise BadModel("base knows more than the models grown from it; give a common ancestor.")
        for one, sign in ((theirs, 1.0), (held, -1.0)):
            if one is not None:
                mine.gradient += sign * one.gradient
                mine.block += sign * one.block
                mine.tally.loss += sign * one.tally.loss
                mine.tally.examples += sign * one.tally.examples
        if mine.sketch is not None and theirs.sketch is not None:
            mine.sketch.add(theirs.sketch, None if held is None else held.sketch)
