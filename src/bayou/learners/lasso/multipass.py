"""Section 5 and algorithm 3: several passes that converge to a batch solver's solution, with a certificate.

"reduced" keeps H only on an active set of features. The equations are in the docstring of `learner`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayou.kernels.l1_solver import MAX_SWEEPS, coordinate_descent, improve, violations
from bayou.learners.lasso.expansion import SURPRISE, InactiveFeatures, LookaheadState
from bayou.learners.lasso.problem import MOST_BYTES, LassoProblem

MORE_REACH = 4.0  # factor of `max_margin_excess` after each step that was taken in full
# A step must gain at least this fraction of what its slope predicts (Armijo), apart from rounding.
ARMIJO = 1e-4
ROUNDING = 1e-11
SHORTEST_CUT = 1e-3
ASTRAY = 2.0
# After this many passes without a better certificate the active set is too small (or only rounding noise is left).
PATIENCE = 5


class MultipassSolver:
    """Optimizer that takes one step of a `LassoProblem` per pass."""

    # No feature waits for a slot, and there is no lookahead.
    waiting = InactiveFeatures(np.zeros(0, np.uint32), np.zeros(1, np.int64), np.zeros(0), np.zeros(0))
    ahead = LookaheadState(np.zeros((0, 0)), np.zeros(0))

    def __init__(self, problem: LassoProblem, reduced: bool, parameters: dict[str, Any]) -> None:
        self._problem = problem
        self._reduced = reduced
        self._tolerance, self._slack = parameters["tolerance"], parameters["slack"]
        self._max_active = parameters["max_active"]
        size = problem.n_features + 1
        self.before = np.zeros(size)  # the last accepted weights
        # With a log no feature needs a slot: blocks are made at the end of a pass. Else the intercept is always active.
        problem.activate(np.arange(size) if problem.dense else np.arange(size - 1, size if reduced else size - 1))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to save in addition to those of the problem, by name."""
        return {"before": self.before}

    @property
    def active_limit(self) -> int:
        """The largest number of features whose curvature is kept."""
        return int(self._problem.tally.active_limit) or self._max_active

    def max_margin_excess(self) -> float:
        """Return how far the peak of a surprising example of margin z may lie beyond |z|; see `expansion.expansion`."""
        return self._problem.tally.max_margin_excess or math.inf

    def progress(self) -> str:
        """Return a short description of the progress so far; "" before the end of the first pass."""
        tally = self._problem.tally
        if not tally.passes:
            return ""
        words = [
            f"objective {tally.objective:.10g}",
            f"KKT violation {tally.violation / self._problem.scale():.1e} of the penalty",
            f"{np.count_nonzero(self._problem.weights):,} weights are not 0",
        ]
        if (share := tally.share) < 1.0:
            words.append(f"too far: {share:.2g} of the step is tried next" if share else "much too far: back again")
        if self._reduced and self.active_limit > self._max_active:
            words.append(f"max_active raised to {self.active_limit:,}")
        return ", ".join(words)

    def penalty_in_force(self, learned: int) -> float:
        return self._problem.scale()

    def resume(self, reason: int, learned: int) -> None:
        """Make room in the log, which is why `gather` stopped."""
        self._problem.flush_log()

    def end_pass(self, learned: int) -> bool:
        """Go to the quadratic's maximum, or shorten the last step if it went too far; return True once certified."""
        problem = self._problem
        if problem.tally.examples == 0:
            return False
        tally, penalty = problem.tally, problem.penalty
        worst = float(violations(problem.gradient, problem.weights, penalty).max())
        tally.passes += 1
        tally.objective = tally.loss + (penalty * np.abs(problem.weights)).sum()
        tally.violation = worst
        target = self._tolerance * problem.scale()
        tally.converged = worst <= target
        slack = ROUNDING * abs(tally.objective)
        stepped = tally.slope < 0.0
        if stepped and not tally.converged:
            promised = tally.accepted + ARMIJO * tally.share * tally.slope
            if tally.objective > promised + slack and self._shorten():
                tally.max_margin_excess = SURPRISE
                self._clear(problem.active)
                return False
            if tally.share == 1.0:
                tally.max_margin_excess *= MORE_REACH
        if worst < tally.best or tally.passes == 1:
            tally.best, tally.stalled = worst, 0
        else:
            tally.stalled += 1
        stuck = tally.stalled >= PATIENCE
        full = self._reduced and not problem.dense and len(problem.active) >= self.active_limit
        hopeless = stuck and not full and stepped and tally.objective >= tally.accepted - slack
        self.before[:] = problem.weights
        tally.accepted, tally.slope, tally.share = tally.objective, 0.0, 1.0
        if tally.converged or hopeless:  # only rounding noise is left of the violation
            self._clear(problem.active)
            return True
        gradient = problem.gradient.copy()
        self._maximize_quadratic(gradient, max(0.1 * target, 1e-6 * worst))
        step = problem.weights - self.before
        lost = penalty * (np.abs(problem.weights) - np.abs(self.before))
        tally.slope = (lost - problem.gradient * step).sum()
        self._clear(self._next_active(gradient, stuck and full) if self._reduced else problem.active)
        return False

    def _shorten(self) -> bool:
        """Shorten the last step to the minimum of a parabola through the known values; False if nothing is left of it.

        A step that surprising examples have led far astray is undone; the next one bounds their influence.
        """
        problem = self._problem
        tally = problem.tally
        fall = tally.share * tally.slope
        cut = min(max(-0.5 * fall / (tally.objective - tally.accepted - fall), SHORTEST_CUT), 0.5)
        if tally.objective > ASTRAY * tally.accepted and self.max_margin_excess() > SURPRISE:
            cut, tally.slope = 0.0, 0.0
        tally.share *= cut
        problem.weights[:] = self.before + cut * (problem.weights - self.before)
        return cut == 0.0 or bool((problem.weights != self.before).any())

    def _maximize_quadratic(self, gradient: np.ndarray, tolerance: float) -> None:
        """Bring the weights to the maximum of the quadratic gathered in this pass, and `gradient` along with them."""
        problem = self._problem
        if problem.sketch is not None:
            improve(problem.sketch, gradient, problem.weights, problem.penalty, tolerance)
            return
        active = problem.active
        # Each pair was added once, on one side of the diagonal.
        block = problem.block + problem.block.T
        block[np.diag_indices_from(block)] *= 0.5
        near, weights = gradient[active], problem.weights[active]
        coordinate_descent(block, near, weights, problem.penalty[active], tolerance, MAX_SWEEPS)
        problem.weights[active], gradient[active] = weights, near

    def _next_active(self, gradient: np.ndarray, raise_room: bool) -> np.ndarray:
        """Return the features whose curvature the next pass gathers, at most `active_limit` of them.

        `gradient` is that of the last pass; for features that were active, that of the quadratic at its maximum.
        """
        problem = self._problem
        if problem.dense:
            return problem.active
        size, penalty = np.abs(gradient), problem.penalty
        rank = np.zeros(len(size), np.int8)
        rank[size >= self._slack * penalty] = 1
        rank[problem.active] = 2
        rank[(size >= penalty) & (size > 0.0)] = 3
        rank[problem.active[(problem.weights[problem.active] == 0.0)]] = 2
        rank[problem.weights != 0.0] = 4
        rank[size == 0.0] = np.where(rank[size == 0.0] == 4, 4, 0)  # never seen
        wanted = np.flatnonzero(rank)
        kept = int(np.count_nonzero(rank == 4))
        if raise_room or (kept >= self.active_limit and np.count_nonzero(rank >= 3) > self.active_limit):
            active_limit = max(2 * self.active_limit, kept)
            problem.tally.active_limit = min(active_limit, math.isqrt(MOST_BYTES // 8), len(size))
        if len(wanted) > self.active_limit:
            wanted = wanted[np.lexsort((-size[wanted], -rank[wanted]))[: self.active_limit]]
        return np.sort(wanted)

    def _clear(self, active: np.ndarray) -> None:
        """Clear the sums and give slots to these features, for the next pass."""
        problem = self._problem
        problem.gradient[:] = 0.0
        problem.tally.loss = problem.tally.examples = 0.0
        if problem.sketch is not None:
            problem.sketch.clear()
        if np.array_equal(active, problem.active):
            problem.block[:] = 0.0
        else:
            problem.activate(active)
