"""Algorithm 2, a single pass: examples are expanded as they arrive, and the weights maximized every few of them.

The equations are in the docstring of `learner`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.l1_solver import MAX_SWEEPS, coordinate_descent, improve
from bayou.learners.lasso.expansion import FULL, MAXIMISE, SURPRISE, InactiveFeatures, LookaheadState, expansion
from bayou.learners.lasso.problem import LassoProblem
from bayou.learners.lasso.sketch import CURVATURE, LINEAR, SIGN, WEIGHT

# Largest violation that maximizing leaves, as a fraction of the penalty: far below what the next ten examples change.
# The final solution is more accurate.
ONLINE_TOLERANCE = 1e-4
ONLINE_SWEEPS = 100  # the next maximization, some ten examples later, does the rest
FINAL_TOLERANCE = 1e-9
LEAST_PENALTY = 1.0  # where a ramp starts
# The multiples of sqrt(examples) among which "lookahead" chooses.
LOOKAHEAD = np.array([0.03, 0.1, 0.3, 1.0, 3.0])


class OnlineSolver:
    """Optimizer that keeps the weights of a `LassoProblem` near the maximum of the quadratic gathered so far."""

    def __init__(self, problem: LassoProblem, link: int, parameters: dict[str, Any]) -> None:
        self._problem = problem
        self._link = link
        self._slack, self._block_size, self._ramp = (parameters[name] for name in ("slack", "block", "ramp"))
        self.looks_ahead = isinstance(parameters["penalty"], str)
        size = problem.n_features + 1
        self.waiting = InactiveFeatures(
            np.zeros(size, np.uint32), np.zeros(1, np.int64), np.zeros(size), np.zeros(size)
        )
        lanes = len(LOOKAHEAD) if self.looks_ahead else 0
        self.ahead = LookaheadState(np.zeros((lanes, size if lanes else 0)), np.zeros(lanes))
        # The intercept is always active.
        problem.activate(np.arange(size) if problem.dense else np.array([size - 1]))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to save in addition to those of the problem, by name."""
        arrays: dict[str, np.ndarray] = {}
        if not self._problem.dense:
            arrays |= {
                "met": self.waiting.seen,
                "reference": self.waiting.reference,
                "bend": self.waiting.curvature_diagonal,
            }
        if self.looks_ahead:
            arrays |= {"lanes": self.ahead.weights, "lane scores": self.ahead.scores}
        return arrays

    def ramped(self, learned: int) -> float:
        """Return the fraction of the penalty that applies after `learned` examples."""
        if self._ramp is None:
            return 1.0
        return min(1.0, max(LEAST_PENALTY / self._problem.scale(), learned / self._ramp))

    def penalty_in_force(self, learned: int) -> float:
        if self.looks_ahead:
            return float(LOOKAHEAD[self.ahead.scores.argmax()] * math.sqrt(max(learned, 1)))
        return self.ramped(learned) * self._problem.scale()

    def max_margin_excess(self) -> float:
        """Return how far the peak of a surprising example of margin z may lie beyond |z|; see `expansion.expansion`."""
        return SURPRISE

    def progress(self) -> str:
        return ""

    def resume(self, reason: int, learned: int) -> None:
        """Do the work for which `gather` stopped, after `learned` examples."""
        if reason == MAXIMISE:
            self.maximise(learned)
        else:
            self.reexpand_block(learned)
            if reason == FULL:
                self._problem.flush_log()

    def end_pass(self, learned: int) -> bool:
        """Bring the weights to the maximum of the sketch; return True: there is no more to gain from the same data."""
        self.maximise(learned, final=True)
        return True

    def maximise(self, learned: int, final: bool = False) -> None:
        """Bring the weights to the maximum of the sketch: approximately, or (final) exactly."""
        problem = self._problem
        share = self.ramped(learned)
        tolerance = (FINAL_TOLERANCE if final else ONLINE_TOLERANCE) * problem.scale()
        sweeps = MAX_SWEEPS if final else ONLINE_SWEEPS
        if self.looks_ahead:
            self._maximise_lanes(math.sqrt(max(learned, 1)), tolerance, sweeps)
        elif problem.dense:
            gradient, weights, penalty = problem.gradient, problem.weights, share * problem.penalty
            coordinate_descent(problem.block, gradient, weights, penalty, share * tolerance, sweeps)
        elif final and problem.sketch is not None:
            self._refresh()
            improve(problem.sketch, problem.gradient, problem.weights, share * problem.penalty, share * tolerance)
            self.waiting.reference[:] = problem.weights
        else:
            self._maximise_active(share, share * tolerance)

    def _maximise_active(self, share: float, tolerance: float) -> None:
        """Maximize over the features that have a slot, giving slots to all features that may become nonzero.

        A change d of the weights changes no other G_j by more than sqrt(H_jj d'Hd): as long as that keeps all of
        them below the penalty, they need not be checked.
        """
        problem = self._problem
        self._activate_violating(share)
        waking = True
        while waking:
            active = problem.active
            weights, gradient = problem.weights[active], problem.gradient[active]
            penalty = share * problem.penalty[active]
            coordinate_descent(problem.block, gradient, weights, penalty, tolerance, ONLINE_SWEEPS)
            problem.weights[active], problem.gradient[active] = weights, gradient
            waking = self._activate_violating(share)

    def _activate_violating(self, share: float) -> bool:
        """Give slots to features near their penalty if any may exceed it; return whether one does."""
        problem = self._problem
        change = problem.weights[problem.active] - self.waiting.reference[problem.active]
        reach = _squared_length(problem.block, change)
        waiting = self.waiting.seen, problem.slots, problem.gradient
        if not _any_in_reach(*waiting, self.waiting.curvature_diagonal, reach, problem.penalty, share):
            return False
        self._refresh()
        near = _near_violation(*waiting, problem.penalty, share * self._slack)
        beyond = np.abs(problem.gradient[near]) > share * problem.penalty[near]
        self._activate(near)
        return bool(beyond.any())

    def _refresh(self) -> None:
        """Update the gradient of features without a slot to the current weights."""
        problem = self._problem
        active = problem.active
        change = problem.weights[active] - self.waiting.reference[active]
        changed = np.flatnonzero(change)
        if problem.sketch is None or problem.dense or len(changed) == 0:
            return
        exact = problem.gradient[active]
        problem.sketch.subtract_product(active[changed], change[changed], problem.gradient)
        problem.gradient[active] = exact
        self.waiting.reference[active] = problem.weights[active]

    def _maximise_lanes(self, root: float, tolerance: float, sweeps: int) -> None:
        """Maximize for every penalty of "lookahead", then use the weights that have predicted best so far."""
        problem = self._problem
        self._refresh()
        gradients = []
        for lane, multiple in zip(self.ahead.weights, LOOKAHEAD, strict=True):
            gradient, penalty = problem.gradient.copy(), multiple * root * problem.penalty
            changed = np.flatnonzero(lane != problem.weights)
            change = (lane - problem.weights)[changed]
            if problem.sketch is None:
                gradient -= change @ problem.block[changed]
                coordinate_descent(problem.block, gradient, lane, penalty, multiple * root * tolerance, sweeps)
            else:
                problem.sketch.subtract_product(changed, change, gradient)
                improve(problem.sketch, gradient, lane, penalty, multiple * root * tolerance)
            gradients.append(gradient)
        chosen = int(self.ahead.scores.argmax())
        problem.weights[:], problem.gradient[:] = self.ahead.weights[chosen], gradients[chosen]
        self.waiting.reference[:] = problem.weights
        if not problem.dense:
            self._activate(np.setdiff1d(np.flatnonzero(problem.weights), problem.active))

    def _activate(self, features: np.ndarray) -> None:
        """Give these features slots in the block, and read their curvature so far from the sketch."""
        problem = self._problem
        if len(features) == 0 or problem.sketch is None:
            return
        first = len(problem.active)
        problem.active = np.append(problem.active, features.astype(np.int64))
        if (size := len(problem.active)) > len(problem.block):
            larger = np.zeros((2 * size, 2 * size))
            larger[:first, :first] = problem.block[:first, :first]
            problem.block = larger
        problem.slots[features] = np.arange(first + 1, size + 1)
        problem.sketch.add_rows(problem.slots, problem.active, first, problem.block)

    def reexpand_block(self, learned: int) -> None:
        """Apply the block heuristic: expand the last block of examples again, at the weights after it."""
        problem = self._problem
        log = problem.sketch
        if log is None or not self._block_size:
            return
        rows = min(learned - int(problem.tally.block_start), int(log.length[0]))
        problem.tally.block_start = learned
        self.maximise(learned)
        self._refresh()
        last = log.length[0]
        _expand_again(last - rows, last, log.log, self._link, problem.quadratic)
        self.maximise(learned)
        if problem.dense:
            log.length[0] = 0


@kernel
def _squared_length(block, change):
    """Return change' H change, on the first rows and columns of the block."""
    total = 0.0
    for a in range(change.size):
        if change[a] != 0.0:
            bent = 0.0
            for b in range(change.size):
                bent += block[a, b] * change[b]
            total += change[a] * bent
    return total


@kernel
def _any_in_reach(inactive_features, slots, gradient, bend, reach, penalty, share):
    """Return whether |G_j| of any feature without a slot may exceed its penalty after a change of sqrt(bend reach)."""
    for k in range(inactive_features.size):
        j = inactive_features[k]
        if slots[j] < 0:
            room = share * penalty[j] - abs(gradient[j])
            if room <= 0.0 or room * room <= bend[j] * reach:
                return True
    return False


@kernel
def _near_violation(inactive_features, slots, gradient, penalty, share):
    """Return the features without a slot whose gradient exceeds this fraction of their penalty."""
    violating = empty(inactive_features.size, np.int64)
    size = 0
    for k in range(inactive_features.size):
        j = inactive_features[k]
        if slots[j] < 0 and abs(gradient[j]) > share * penalty[j]:
            violating[size] = j
            size += 1
    return violating[:size]


@kernel
def _expand_again(first, last, log, link, quadratic):
    """Replace the expansions of the logged examples `first` to `last` (exclusive) by those at the current weights.

    An example contributes (linear - h m) x to G = theta - H b; at the point of expansion linear - h m is its slope g.
    """
    ends, indices, values, rows, _ = log
    beta, gradient, slots, block = quadratic
    for row in range(first, last):
        m = 0.0
        for k in range(ends[row], ends[row + 1]):
            m += values[k] * beta[indices[k]]
        y, c = rows[row, SIGN], rows[row, WEIGHT]
        slope, curvature = expansion(link, y * m, SURPRISE)
        g, h = c * y * slope, c * curvature
        shift = g - (rows[row, LINEAR] - rows[row, CURVATURE] * m)
        bend = h - rows[row, CURVATURE]
        rows[row, CURVATURE] = h
        rows[row, LINEAR] = g + h * m
        for k in range(ends[row], ends[row + 1]):
            gradient[indices[k]] += shift * values[k]
            a = slots[indices[k]] - 1
            if a >= 0:
                for i in range(ends[row], ends[row + 1]):
                    b = slots[indices[i]] - 1
                    if b >= 0:
                        block[a, b] += bend * values[k] * values[i]
