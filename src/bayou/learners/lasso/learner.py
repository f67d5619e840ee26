"""Lasso: L1-penalised logistic or probit regression from quadratic sketches of the likelihood, with a certificate.

    maximise over b    L(b) - sum_j gamma_j |b_j|,    L(b) = sum_i c_i log F(y_i x_i'b)             (quadratic-l1, 4)

which is what liblinear minimises, with C = 1/gamma. An example of weight c whose score is m = x'b is replaced by its
Taylor polynomial there (appendix A): with z = y m, slope s = (log F)'(z) and curvature k = -(log F)''(z),

    g = c y s,  h = c k:     log F(y x'b') ~ const + g (x'b' - m) - h (x'b' - m)^2 / 2

so that the sum of many is a quadratic with H = sum h x x' (the paper's -2 Psi) and the gradient G = theta - H b. That
is the sketch; adding an example to it changes only G_j += g x_j and H on the example's own features.
`bayou.kernels.l1_solver` finds the sketch's maximum under the penalty.

algorithm="online" (algorithm 2). One pass. Each example is expanded at the present weights, and every `shoot_every`
examples the weights are shot to the maximum of the sketch so far. H is kept in full only on features that have been
close to active; where another's |G_j| may have passed gamma it joins them, its part of H read back from the log of
examples (`sketch`). Taylor's polynomial of a surprising example (z << 0) is a straight line, along which weights
would run away; its curvature is therefore at least s / (10 + 2 |z|). Two heuristics of section 4.1: with `ramp` = t the
penalty rises with the examples as max(1, gamma i/t), or else early weights are shrunk too much (from 0 instead of 1 it
diverges); with `block` = B the last B examples are expanded again, at the weights after them.

penalty="lookahead" (section 4.1, on line): gamma = m sqrt(i) grows with the examples i as the noise in the gradient
does, m from a small grid. The sketch is shot for each m; each example is scored by all of them before it is learned,
and the weights in use are those of the m whose log-likelihood ahead is the best so far.

algorithm="multipass" (section 5). Every pass expands all examples at the same weights; `end_pass` shoots. That is
Newton's method, and like it overshoots from a bad start; so a pass also sums the objective where it stands, and if that
did not fall as it should, the step is cut (to the least of the parabola through what is known, at most to a half) and
the next pass looks there, or from where it began if it went far astray. From then on surprising examples have the
curvature that they have on line, with a 10 that grows with every step that is taken whole: the last ones are Newton's.

algorithm="reduced" (algorithm 3). The same in O(d + k^2) memory: H is kept only on an active set S of at most k =
`max_active` features, fixed during a pass. The next S takes, in this order and up to k: the weights that are not 0,
those with |G_j| >= gamma by size, the last S, those with |G_j| >= tau gamma (`slack`). A k too close to the number of
weights that are not 0 makes it go in circles: where the certificate has not improved for a while, or no room is left,
k is doubled.

**The certificate.** A pass at b gives the exact gradient of L there, hence how far b is from optimal: `kkt_violation`
is the largest of |G_j - gamma_j sign(b_j)| over weights that are not 0 and |G_j| - gamma_j over those that are.
`end_pass` says True once it is at most `tolerance` times the penalty, and leaves the weights that it has certified.

**Merging.** Sketches made at the same weights add: learners that read a part of the data each ("multipass" or
"reduced", in the midst of one pass) merge to the one that read all of it. Online sketches have been expanded along
different ways and are refused.

Paper: Balakrishnan, Madigan, Algorithms for sparse linear classifiers in the massive data setting (quadratic-l1). Its
gamma is `penalty`, k `max_active`, tau `slack`. (3) has a sign slip; in section 5 "the fixed value beta_z" is
beta_{z-1}; algorithm 2 drops the last example.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.checks import one_of, positive_number, whole_number, yes_or_no
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores
from bayou.kernels.l1_solver import MOST_SWEEPS, improve, shoot, violations
from bayou.learners.lasso.sketch import CURVATURE, LINEAR, MOST_NONZEROS, MOST_ROWS, SIGN, WEIGHT, Sketch

ONLINE, MULTIPASS, REDUCED = range(3)
ALGORITHMS = {"online": ONLINE, "multipass": MULTIPASS, "reduced": REDUCED}
# Up to so many features H is one dense matrix (of 33 MB), which is simpler and faster than anything else.
DENSE = 2048
# Matrices and sketches beyond this are refused.
MOST_BYTES = 4 << 30
# How near to the maximum the weights are shot on line, as a share of the penalty: far below what the next ten examples
# change. Accurately so at the end of the data.
ONLINE_TOLERANCE = 1e-4
ONLINE_SWEEPS = 100  # what is not done then is done in ten examples
FINAL_TOLERANCE = 1e-9
LEAST_PENALTY = 1.0  # where a ramp starts
# On line a surprising example may ask for a margin as large as its own was wrong, and this much more. Taylor's
# polynomial has hardly any curvature there, and asks for margins of thousands.
SURPRISE = 10.0
MORE_REACH = 4.0  # so many times further after each step that was taken whole
# The multiples of sqrt(examples) among which "lookahead" chooses.
LOOKAHEAD = np.array([0.03, 0.1, 0.3, 1.0, 3.0])
# A step must bring at least this share of what its slope promises (Armijo), beyond what rounding hides.
ARMIJO = 1e-4
ROUNDING = 1e-11
SHORTEST_CUT = 1e-3
ASTRAY = 2.0
# So many passes without a better certificate, and the active set is too small (or rounding is all there is left).
PATIENCE = 5
# What is counted: of the present pass the log loss and the examples; of the last one the objective and the largest
# violation; of the last accepted weights the objective; of the step from them the slope and the share taken; the best
# violation so far and the passes since; how many features H has room for; whether the weights are certified; on line,
# where the block of `block` began; in passes, how far surprising examples may go (0: as far as they ask).
LOSS, EXAMPLES, PASSES, OBJECTIVE, VIOLATION = range(5)
ACCEPTED, SLOPE, SHARE, BEST, STALLED, ROOM, CONVERGED, BLOCK = range(5, 13)
REACH = BLOCK


class Lasso(Learner):
    """L1-penalised logistic or probit regression, on line or to the last digit.

    Args:
        n_features: how many weights there are; features are numbered from 0.
        algorithm: "online" learns in one pass. "multipass" and "reduced" need several, each ended by `end_pass`, and
            come to what a batch solver finds; "reduced" keeps only `max_active` features' curvature in memory.
        penalty: gamma; a number, or one for each feature (0 is free), or "lookahead" (on line), which learns it.
        link: "logistic" or "probit".
        penalize_intercept: whether the intercept is penalised as the features are (by the mean of their penalties).
        max_active: k, how many features' curvature "reduced" keeps; raised if it proves too small.
        slack: tau; "reduced" also watches features whose gradient is at least this share of the penalty.
        ramp: on line, the number of examples over which the penalty rises to its full size; None: full from the start.
        block: on line, expand the last so many examples again once they have come; 0: never.
        shoot_every: on line, how many examples are learned between two looks at the weights.
        tolerance: the share of the penalty that the largest violation may have at the end.
        intercept: whether there is an extra weight whose feature is always 1.
        dtype: in which weights are shown, "float64" (the default) or "float32". All that is kept is float64.

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
    _per_feature = ("state", "gradient")

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
        self._algorithm = one_of("algorithm", algorithm, ALGORITHMS)
        self._looks_ahead = isinstance(penalty, str)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            algorithm=algorithm,
            penalty=_checked_penalty(penalty, n_features),
            link=link,
            penalize_intercept=yes_or_no("penalize_intercept", penalize_intercept),
            max_active=whole_number("max_active", max_active, 1, 1 << 14),
            slack=positive_number("slack", slack, high=1.0),
            ramp=None if ramp is None else whole_number("ramp", ramp, 1),
            block=whole_number("block", block, 0, MOST_ROWS),
            shoot_every=whole_number("shoot_every", shoot_every, 1),
            tolerance=positive_number("tolerance", tolerance, high=0.1),
        )
        self._online = self._algorithm == ONLINE
        if not self._online and (ramp is not None or block or self._looks_ahead):
            raise BadInput('ramp, block and penalty="lookahead" are for algorithm="online".')
        if self._looks_ahead and (ramp is not None or block):
            raise BadInput('ramp and block are for a fixed penalty, not for penalty="lookahead".')
        # The intercept is one more feature, behind the last.
        size = self._n_features + 1
        self._weights, self._gradient, self._before = np.zeros(size), np.zeros(size), np.zeros(size)
        # Where a feature stands in the block: 0 if it was never met, -1 if it has no place, else its place from 1 on.
        self._slots = np.zeros(size, np.int32)
        self._tally = np.zeros(BLOCK + 1)
        # Of the features met on line without a place: G is kept at the weights of `reference`, and H_jj in `bend`.
        self._met, self._n_met = np.zeros(size, np.uint32), np.zeros(1, np.int64)
        self._reference, self._bend = np.zeros(size), np.zeros(size)
        self._dense = size <= (self._parameters["max_active"] if self._algorithm == REDUCED else DENSE)
        logged = self._algorithm != REDUCED and not self._dense
        self._sketch = Sketch(size) if logged or block else None
        lanes = len(LOOKAHEAD) if self._looks_ahead else 0
        self._lanes, self._lane_scores = np.zeros((lanes, size if lanes else 0)), np.zeros(lanes)
        self._penalty_each = np.atleast_1d(np.asarray(1.0 if self._looks_ahead else self._parameters["penalty"]))
        self._intercept_penalty = float(self._penalty_each.mean()) if penalize_intercept else 0.0
        # The intercept is always active. In passes with a log nothing needs a place: blocks are made when all is there.
        always = np.array([size - 1] if self._online or self._algorithm == REDUCED else [], np.int64)
        self._give_places(np.arange(size) if self._dense else always)

    def _give_places(self, features: np.ndarray) -> None:
        """A block of nothing for these features."""
        self._active = features.astype(np.int64)
        self._slots[:] = 0
        self._slots[features] = np.arange(1, len(features) + 1)
        self._block = np.zeros((len(features), len(features)))

    # --- what is saved ------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, np.ndarray]:
        size = len(self._active)
        arrays: dict[str, np.ndarray] = {
            "state": self._weights[:-1, None],
            "gradient": self._gradient[:-1, None],
            "intercept": np.atleast_2d(self._weights[-1:]),
            "intercept gradient": self._gradient[-1:],
            "tally": self._tally,
            "block": self._block[:size, :size],
        }
        if not self._online:
            arrays["before"] = self._before
        if not self._dense:
            arrays["active"] = self._active
        if self._sketch is not None:
            arrays |= self._sketch.arrays()
            if self._online and not self._dense:
                arrays |= {"met": self._met[: self._n_met[0]], "reference": self._reference, "bend": self._bend}
        if self._looks_ahead:
            arrays |= {"lanes": self._lanes, "lane scores": self._lane_scores}
        return arrays

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        try:
            if not self._dense:
                (size,) = shapes["active"]
                if size > len(self._weights):
                    raise BadModel("more features are active than there are; the file was not written by bayou.")
                self._active, self._block = np.zeros(size, np.int64), np.zeros((size, size))
            if self._sketch is not None:
                self._sketch.make_room(shapes)
                if self._online and not self._dense:
                    self._n_met[0] = min(shapes["met"][0], len(self._met))
        except (LookupError, ValueError, TypeError):
            raise BadModel("the model lacks a part of its sketch; its file was not written by bayou.") from None

    def _check_state(self) -> None:
        met = self._met[: self._n_met[0]]
        if self._sketch is not None:
            self._sketch.check()
        if (met > self._n_features).any() or ((self._active < 0) | (self._active > self._n_features)).any():
            raise BadModel("the model's features are out of range; its file was not written by bayou.")
        self._slots[met] = -1
        self._slots[self._active] = np.arange(1, len(self._active) + 1)

    def nbytes_for(self, n_features: int) -> int:
        """The memory that a learner like this one would take with so many weights, and what a sketch takes at first."""
        size, most = n_features + 1, self._parameters["max_active"]
        if self._algorithm == REDUCED:
            block = min(size, most)
        else:
            block = size if size <= DENSE else 0
        return 8 * block**2 + 32 * size + (0 if block == size or self._algorithm == REDUCED else 12 * MOST_NONZEROS)

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        score, probability = np.empty(len(batch)), np.empty(len(batch))
        values, signs, weights = (_plain(array) for array in (batch.values, signs, weights))
        log = self._sketch
        learning = bool(weights.any())
        if log is not None and learning:
            if batch.longest >= MOST_NONZEROS:
                raise BadInput(f'a row has {batch.longest:,} features; use algorithm="reduced".')
            if log.folded is not None and log.folded.nnz * 16 > MOST_BYTES:
                raise BadInput('the sketch has grown beyond 4 GB; use algorithm="reduced", or fewer features.')
        if log is None:
            log = _NO_LOG
        row, learned = 0, self._examples
        while True:
            row, learned, why = _gather(
                batch.indptr,
                batch.indices,
                values,
                signs,
                weights,
                row,
                self._link,
                self._has_intercept,
                self._weights,
                self._gradient,
                self._slots,
                self._block,
                self._online,
                self._reach(),
                self._online and not self._dense,
                log is not _NO_LOG,
                log.ends,
                log.indices,
                log.values,
                log.rows,
                log.length,
                self._met,
                self._n_met,
                self._reference,
                self._bend,
                self._lanes,
                self._lane_scores,
                self._tally,
                learned,
                self._parameters["shoot_every"] if self._online else 0,
                self._parameters["block"],
                score,
                probability,
            )
            if why == ENDED:
                break
            if why == SHOOT:
                self._shoot(learned)
            else:
                self._expand_block_again(learned)
                if why == FULL and not self._dense:
                    log.fold()
        return Scores(probability, score, None)

    def end_pass(self) -> bool:
        """The data came to their end once: bring the weights to the maximum of what was gathered.

        True once the weights are certified; they are then left as they are. On line there is one pass: always True.
        """
        if self._frozen:
            raise BadInput("this is a snapshot: it predicts, but does not learn. Learn with the learner itself.")
        with self._lock:
            if self._online:
                self._shoot(self._examples, final=True)
                return True  # there is no more to gain from the same data
            if self._tally[EXAMPLES] == 0:
                return False
            return self._end_pass()

    def at_penalty(self, penalty: Any) -> Self:
        """A learner like this one with another penalty, whose passes start from the weights that this one has found."""
        if self._online:
            raise BadInput('on line there is one pass; at_penalty is for algorithm="multipass" and "reduced".')
        with self._lock:
            other = type(self)(**{**self._parameters, "penalty": penalty})
            other._weights[:] = self._weights
            other._tally[ROOM] = self._tally[ROOM]
            if not self._dense:
                other._give_places(self._active)
        return other

    def progress(self) -> str:
        """How far the passes have come, in a few words."""
        if self._online or not self._tally[PASSES]:
            return ""
        words = [
            f"objective {self.objective:.10g}",
            f"KKT violation {self.kkt_violation / self._scale():.1e} of the penalty",
            f"{self.active_size:,} weights are not 0",
        ]
        if (share := self._tally[SHARE]) < 1.0:
            words.append(f"too far: {share:.2g} of the step is tried next" if share else "much too far: back again")
        if self._algorithm == REDUCED and (room := self._room) > self._parameters["max_active"]:
            words.append(f"max_active raised to {room:,}")
        return ", ".join(words)

    # --- on line ------------------------------------------------------------------------------------------------

    def _shoot(self, learned: int, final: bool = False) -> None:
        """Bring the weights to the maximum of the sketch; nearly so, or (final) exactly."""
        share = self._ramped(learned)
        tolerance = (FINAL_TOLERANCE if final else ONLINE_TOLERANCE) * self._scale()
        sweeps = MOST_SWEEPS if final else ONLINE_SWEEPS
        if self._looks_ahead:
            self._shoot_lanes(math.sqrt(max(learned, 1)), tolerance, sweeps)
        elif self._dense:
            shoot(self._block, self._gradient, self._weights, self._penalties(share), share * tolerance, sweeps)
        elif final and self._sketch is not None:
            self._refresh()
            improve(self._sketch, self._gradient, self._weights, self._penalties(share), share * tolerance)
            self._reference[:] = self._weights
        else:
            self._shoot_active(share, share * tolerance)

    def _shoot_active(self, share: float, tolerance: float) -> None:
        """Shoot on the features that have a place; first see to it that all that matter have one.

        A change d of the weights changes no other G_j by more than sqrt(H_jj d'Hd): as long as that keeps all of
        them below the penalty, they need not be looked at.
        """
        self._activate_in_reach(share)
        waking = True
        while waking:
            active = self._active
            weights, gradient = self._weights[active], self._gradient[active]
            shoot(self._block, gradient, weights, share * self._penalty_of(active), tolerance, ONLINE_SWEEPS)
            self._weights[active], self._gradient[active] = weights, gradient
            waking = self._activate_in_reach(share)

    def _activate_in_reach(self, share: float) -> bool:
        """Where a gradient may be beyond its penalty, look, and give places to all that are near; was one beyond?"""
        change = self._weights[self._active] - self._reference[self._active]
        reach = _squared_length(self._block, change)
        waiting = self._met[: self._n_met[0]], self._slots, self._gradient
        if not _any_in_reach(*waiting, self._bend, reach, self._penalty_each, share):
            return False
        self._refresh()
        near = _nearest(*waiting, self._penalty_each, share * self._parameters["slack"])
        beyond = np.abs(self._gradient[near]) > share * self._penalty_of(near)
        self._activate(near)
        return bool(beyond.any())

    def _refresh(self) -> None:
        """Bring the gradient of features without a place to the present weights."""
        active = self._active
        change = self._weights[active] - self._reference[active]
        changed = np.flatnonzero(change)
        if self._sketch is None or self._dense or len(changed) == 0:
            return
        exact = self._gradient[active]
        self._sketch.subtract_product(active[changed], change[changed], self._gradient)
        self._gradient[active] = exact
        self._reference[active] = self._weights[active]

    def _shoot_lanes(self, root: float, tolerance: float, sweeps: int) -> None:
        """Every penalty of "lookahead"; the weights in use are then those that have looked ahead best."""
        self._refresh()
        found = []
        for lane, multiple in zip(self._lanes, LOOKAHEAD, strict=True):
            gradient, penalty = self._gradient.copy(), self._penalties(multiple * root)
            changed = np.flatnonzero(lane != self._weights)
            change = (lane - self._weights)[changed]
            if self._sketch is None:
                gradient -= change @ self._block[changed]
                shoot(self._block, gradient, lane, penalty, multiple * root * tolerance, sweeps)
            else:
                self._sketch.subtract_product(changed, change, gradient)
                improve(self._sketch, gradient, lane, penalty, multiple * root * tolerance)
            found.append(gradient)
        chosen = int(self._lane_scores.argmax())
        self._weights[:], self._gradient[:] = self._lanes[chosen], found[chosen]
        self._reference[:] = self._weights
        if not self._dense:
            self._activate(np.setdiff1d(np.flatnonzero(self._weights), self._active))

    def _activate(self, features: np.ndarray) -> None:
        """Keep the curvature of these features from now on; what there is of it is in the sketch."""
        if len(features) == 0 or self._sketch is None:
            return
        first = len(self._active)
        self._active = np.append(self._active, features.astype(np.int64))
        if (size := len(self._active)) > len(self._block):
            larger = np.zeros((2 * size, 2 * size))
            larger[:first, :first] = self._block[:first, :first]
            self._block = larger
        self._slots[features] = np.arange(first + 1, size + 1)
        self._sketch.add_rows(self._slots, self._active, first, self._block)

    def _expand_block_again(self, learned: int) -> None:
        """The block heuristic: what was expanded as it came is expanded anew at the weights after it."""
        log = self._sketch
        if log is None or not self._parameters["block"]:
            return
        rows = min(learned - int(self._tally[BLOCK]), int(log.length[0]))
        self._tally[BLOCK] = learned
        self._shoot(learned)
        self._refresh()
        _expand_again(
            log.length[0] - rows,
            log.length[0],
            log.ends,
            log.indices,
            log.values,
            log.rows,
            self._link,
            self._weights,
            self._gradient,
            self._slots,
            self._block,
        )
        self._shoot(learned)
        if self._dense:
            log.length[0] = 0

    # --- pass by pass -------------------------------------------------------------------------------------------

    def _end_pass(self) -> bool:
        tally, penalty = self._tally, self._penalties()
        worst = float(violations(self._gradient, self._weights, penalty).max())
        tally[PASSES] += 1
        tally[OBJECTIVE] = tally[LOSS] + (penalty * np.abs(self._weights)).sum()
        tally[VIOLATION] = worst
        target = self._parameters["tolerance"] * self._scale()
        tally[CONVERGED] = worst <= target
        slack = ROUNDING * abs(tally[OBJECTIVE])
        stepped = tally[SLOPE] < 0.0
        if stepped and not tally[CONVERGED]:
            promised = tally[ACCEPTED] + ARMIJO * tally[SHARE] * tally[SLOPE]
            if tally[OBJECTIVE] > promised + slack and self._shorten():
                tally[REACH] = SURPRISE
                self._clear(self._active)
                return False
            if tally[SHARE] == 1.0:
                tally[REACH] *= MORE_REACH
        if worst < tally[BEST] or tally[PASSES] == 1:
            tally[BEST], tally[STALLED] = worst, 0
        else:
            tally[STALLED] += 1
        stuck = tally[STALLED] >= PATIENCE
        full = self._algorithm == REDUCED and not self._dense and len(self._active) >= self._room
        hopeless = stuck and not full and stepped and tally[OBJECTIVE] >= tally[ACCEPTED] - slack
        self._before[:] = self._weights
        tally[ACCEPTED], tally[SLOPE], tally[SHARE] = tally[OBJECTIVE], 0.0, 1.0
        if tally[CONVERGED] or hopeless:  # rounding is all that is left of the violation
            self._clear(self._active)
            return True
        gradient = self._gradient.copy()
        self._climb(gradient, max(0.1 * target, 1e-6 * worst))
        step = self._weights - self._before
        lost = penalty * (np.abs(self._weights) - np.abs(self._before))
        tally[SLOPE] = (lost - self._gradient * step).sum()
        self._clear(self._next_active(gradient, stuck and full) if self._algorithm == REDUCED else self._active)
        return False

    def _shorten(self) -> bool:
        """Go back on the step taken, to where a parabola through what is known is least; False if none is left.

        A step that surprises have led far astray is not worth a part of it: back to where it began, to hold them back.
        """
        tally = self._tally
        fall = tally[SHARE] * tally[SLOPE]
        cut = min(max(-0.5 * fall / (tally[OBJECTIVE] - tally[ACCEPTED] - fall), SHORTEST_CUT), 0.5)
        if tally[OBJECTIVE] > ASTRAY * tally[ACCEPTED] and self._reach() > SURPRISE:
            cut, tally[SLOPE] = 0.0, 0.0
        tally[SHARE] *= cut
        self._weights[:] = self._before + cut * (self._weights - self._before)
        return cut == 0.0 or bool((self._weights != self._before).any())

    def _climb(self, gradient: np.ndarray, tolerance: float) -> None:
        """To the maximum of the quadratic that was gathered. `gradient` goes with the weights."""
        if self._sketch is not None:
            improve(self._sketch, gradient, self._weights, self._penalties(), tolerance)
            return
        active = self._active
        # Each pair was added once, on one side of the diagonal.
        whole = self._block + self._block.T
        whole[np.diag_indices_from(whole)] *= 0.5
        near, weights = gradient[active], self._weights[active]
        shoot(whole, near, weights, self._penalty_of(active), tolerance, MOST_SWEEPS)
        self._weights[active], gradient[active] = weights, near

    def _next_active(self, gradient: np.ndarray, raise_room: bool) -> np.ndarray:
        """The features whose curvature the next pass gathers, at most as many as there is room for.

        `gradient` is that of the last pass, and for features that were active that of the quadratic at its maximum.
        """
        if self._dense:
            return self._active
        size, penalty = np.abs(gradient), self._penalties()
        rank = np.zeros(len(size), np.int8)
        rank[size >= self._parameters["slack"] * penalty] = 1
        rank[self._active] = 2
        rank[(size >= penalty) & (size > 0.0)] = 3
        rank[self._active[(self._weights[self._active] == 0.0)]] = 2
        rank[self._weights != 0.0] = 4
        rank[size == 0.0] = np.where(rank[size == 0.0] == 4, 4, 0)  # never met
        wanted = np.flatnonzero(rank)
        kept = int(np.count_nonzero(rank == 4))
        if raise_room or (kept >= self._room and np.count_nonzero(rank >= 3) > self._room):
            room = max(2 * self._room, kept)
            self._tally[ROOM] = min(room, math.isqrt(MOST_BYTES // 8), len(size))
        if len(wanted) > self._room:
            wanted = wanted[np.lexsort((-size[wanted], -rank[wanted]))[: self._room]]
        return np.sort(wanted)

    def _clear(self, active: np.ndarray) -> None:
        """Ready for the next pass."""
        self._gradient = np.zeros(len(self._gradient))
        self._tally[[LOSS, EXAMPLES]] = 0.0
        if self._sketch is not None:
            self._sketch.clear()
        if np.array_equal(active, self._active):
            self._block[:] = 0.0
        else:
            self._give_places(active)

    # --- looking inside -----------------------------------------------------------------------------------------

    def _penalty_of(self, features: np.ndarray) -> np.ndarray:
        """gamma of some features; the one behind the last is the intercept."""
        each = self._penalty_each
        own = np.full(len(features), each[0]) if len(each) == 1 else np.append(each, 0.0)[features]
        own[features == self._n_features] = self._intercept_penalty
        return own

    def _penalties(self, share: float = 1.0) -> np.ndarray:
        return share * self._penalty_of(np.arange(self._n_features + 1))

    def _scale(self) -> float:
        """What violations are measured by: the largest penalty, or 1 if nothing is penalised."""
        return float(self._penalty_each.max()) or 1.0

    def _ramped(self, learned: int) -> float:
        """The share of the penalty that is in force after so many examples."""
        ramp = self._parameters["ramp"]
        return 1.0 if ramp is None else min(1.0, max(LEAST_PENALTY / self._scale(), learned / ramp))

    def _reach(self) -> float:
        """How far beyond the mirror image of its margin a surprising example may go."""
        return SURPRISE if self._online else float(self._tally[REACH]) or math.inf

    @property
    def _room(self) -> int:
        return int(self._tally[ROOM]) or self._parameters["max_active"]

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._weights[:-1][features].astype(self._dtype)

    def _intercept(self) -> tuple[float, float]:
        return float(self._weights[-1]), math.nan

    @property
    def active_size(self) -> int:
        """How many weights are not 0, the intercept among them."""
        return int(np.count_nonzero(self._weights))

    @property
    def n_passes(self) -> int:
        """How many passes have ended."""
        return int(self._tally[PASSES])

    @property
    def objective(self) -> float:
        """-L(b) + sum gamma |b| at the weights that the last pass was made with (NaN before the first)."""
        return float(self._tally[OBJECTIVE]) if self._tally[PASSES] else math.nan

    @property
    def kkt_violation(self) -> float:
        """The largest violation at the weights that the last pass was made with, in the units of the penalty.

        Those are the weights shown once `end_pass` has said True.
        """
        return float(self._tally[VIOLATION]) if self._tally[PASSES] else math.nan

    @property
    def largest_gradient(self) -> float:
        """The largest |G_j| of what has been gathered, the intercept's left out."""
        return float(np.abs(self._gradient[:-1]).max())

    @property
    def penalty_in_force(self) -> float:
        """The penalty after the examples so far: on a ramp, or as "lookahead" has chosen it."""
        if self._looks_ahead:
            return float(LOOKAHEAD[self._lane_scores.argmax()] * math.sqrt(max(self._examples, 1)))
        return self._ramped(self._examples) * self._scale()

    # --- merging ------------------------------------------------------------------------------------------------

    def _add(self, other: Self, base: Self | None) -> None:
        """Sums add. They must have been made at the same weights, for the same features."""
        if self._online:
            raise BadModel(
                "online sketches were expanded along different ways and cannot be merged; "
                'those of algorithm="multipass" and "reduced" can.'
            )
        for one, what in ((other, "the models"), (base, "base and the models")):
            if one is not None and not (
                np.array_equal(one._weights, self._weights) and np.array_equal(one._active, self._active)
            ):
                raise BadModel(
                    f"{what} have different weights: merge what was gathered in one pass, before any end_pass."
                )
        parts = [(other, 1.0)] + ([] if base is None else [(base, -1.0)])
        if base is not None:
            for heir in (self, other):
                lost = np.diag(heir._block) < (1.0 - 1e-9) * np.diag(base._block)
                if lost.any() or heir._tally[LOSS] < (1.0 - 1e-9) * base._tally[LOSS]:
                    raise BadModel("base knows more than the models grown from it; give a common ancestor.")
        for one, sign in parts:
            self._gradient += sign * one._gradient
            self._block += sign * one._block
            self._tally[[LOSS, EXAMPLES]] += sign * one._tally[[LOSS, EXAMPLES]]
        if self._sketch is not None and other._sketch is not None:
            self._sketch.add(other._sketch, None if base is None else base._sketch)


def _checked_penalty(penalty: Any, n_features: int) -> Any:
    """A number, an array with one for each feature, or "lookahead"."""
    if isinstance(penalty, str):
        one_of("penalty", penalty, {"lookahead": True})
        return penalty
    if np.ndim(penalty) == 0:
        return positive_number("penalty", penalty, zero=True, high=1e30)
    try:
        each = np.array(penalty, np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"penalty is {penalty!r:.80}; it must be a number, or one for each feature.") from None
    if each.shape != (n_features,):
        raise BadInput(f"penalty has shape {each.shape}; it must be one number, or {n_features}, one for each feature.")
    if not ((each >= 0.0) & (each <= 1e30)).all():
        raise BadInput("penalty has entries that are not numbers >= 0.")
    each.flags.writeable = False
    return each


def _plain(array: np.ndarray) -> np.ndarray:
    """In float64 and not to be written to: kernels meet one kind of array, and are compiled once."""
    plain = array.astype(np.float64, copy=False).view()
    plain.flags.writeable = False
    return plain


# Why the kernel stopped: the rows ended; the weights are to be shot; the log is full; a block of examples has ended.
ENDED, SHOOT, FULL, BLOCK_ENDED = range(4)
_NO_LOG = Sketch(1, rows=0, nonzeros=0)


@njit(cache=True, nogil=True, error_model="numpy")
def _expansion(link, z, reach):
    """Slope and curvature of log F at a margin z, no flatter than lets a surprise go on to |z| + reach."""
    slope, curvature = links.slope_and_curvature(link, z)
    if z < 0.0:
        curvature = max(curvature, slope / (reach - 2.0 * z))
    return slope, curvature


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(
    indptr,
    indices,
    values,
    signs,
    weights,
    start,
    link,
    has_intercept,
    beta,
    gradient,
    slots,
    block,
    online,
    reach,
    waits,
    logging,
    log_ends,
    log_indices,
    log_values,
    log_rows,
    log_length,
    met,
    n_met,
    reference,
    bend,
    lanes,
    lane_scores,
    tally,
    learned,
    shoot_every,
    block_size,
    score,
    probability,
):
    """Predict rows and add those whose weight is not 0 to the sketch; (the row to go on with, learned, why)."""
    bias = beta.size - 1
    places = block.size > 0
    longest = 0
    for row in range(start, indptr.size - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    at = np.empty(longest + 1, np.int64)
    x = np.empty(longest + 1)
    for row in range(start, indptr.size - 1):
        first, last = indptr[row], indptr[row + 1]
        m = 0.0
        for k in range(first, last):
            m += values[k] * beta[indices[k]]
        if has_intercept:
            m += beta[bias]
        score[row] = m
        probability[row] = links.cdf(link, m)
        c = weights[row]
        if c == 0.0:
            continue
        n = log_length[0]
        if logging and (n == log_rows.shape[0] or log_ends[n] + last - first + 1 > log_values.size):
            return row, learned, FULL
        y = signs[row]
        for lane in range(lanes.shape[0]):
            ahead = lanes[lane, bias] if has_intercept else 0.0
            for k in range(first, last):
                ahead += values[k] * lanes[lane, indices[k]]
            lane_scores[lane] += c * links.log_cdf(link, y * ahead)
        slope, curvature = _expansion(link, y * m, reach)
        g, h = c * y * slope, c * curvature
        tally[LOSS] -= c * links.log_cdf(link, y * m)
        tally[EXAMPLES] += 1.0

        for k in range(first, last):
            gradient[indices[k]] += g * values[k]
        if has_intercept:
            gradient[bias] += g
        # Which of the row's features have a place in the block; the intercept comes last.
        size = 0
        shift = 0.0  # how far the score has moved since the reference, to which the others' gradients belong
        in_order = True
        for k in range(first, last + has_intercept if places else first):
            j = np.int64(indices[k]) if k < last else bias
            slot = slots[j]
            if slot > 0:
                at[size] = slot - 1
                x[size] = values[k] if k < last else 1.0
                in_order &= size == 0 or at[size] == at[size - 1] + 1
                if waits:
                    shift += x[size] * (beta[j] - reference[j])
                size += 1
        if waits:
            for k in range(first, last):
                j = np.int64(indices[k])
                if slots[j] <= 0:
                    value = values[k]
                    gradient[j] += h * shift * value
                    bend[j] += h * value * value
                    if slots[j] == 0:
                        slots[j] = -1
                        met[n_met[0]] = j
                        n_met[0] += 1
        for a in range(size):
            bent = h * x[a]
            place = at[a]
            # On line the block is needed whole at any time; else each pair is added once.
            end = size if online else a + 1
            if in_order:
                for b in range(end):
                    block[place, at[0] + b] += bent * x[b]
            else:
                for b in range(end):
                    block[place, at[b]] += bent * x[b]
        if logging:
            to = log_ends[n]
            for k in range(last - first):
                log_indices[to + k] = indices[first + k]
            for k in range(last - first):
                log_values[to + k] = values[first + k]
            to += last - first
            if has_intercept:
                log_indices[to] = bias
                log_values[to] = 1.0
                to += 1
            log_rows[n, CURVATURE] = h
            log_rows[n, LINEAR] = g + h * m
            log_rows[n, SIGN] = y
            log_rows[n, WEIGHT] = c
            log_ends[n + 1] = to
            log_length[0] = n + 1
        learned += 1
        if block_size > 0 and learned - tally[BLOCK] >= block_size:
            return row + 1, learned, BLOCK_ENDED
        if shoot_every > 0 and learned % shoot_every == 0:
            return row + 1, learned, SHOOT
    return indptr.size - 1, learned, ENDED


@njit(cache=True, nogil=True, error_model="numpy")
def _squared_length(block, change):
    """change' H change, on the first rows and columns of the block."""
    total = 0.0
    for a in range(change.size):
        if change[a] != 0.0:
            bent = 0.0
            for b in range(change.size):
                bent += block[a, b] * change[b]
            total += change[a] * bent
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _any_in_reach(met, slots, gradient, bend, reach, penalty, share):
    """Whether the gradient of any feature without a place may be beyond its penalty, at most sqrt(bend reach) away."""
    for k in range(met.size):
        j = met[k]
        if slots[j] < 0:
            room = share * (penalty[j] if penalty.size > 1 else penalty[0]) - abs(gradient[j])
            if room <= 0.0 or room * room <= bend[j] * reach:
                return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def _nearest(met, slots, gradient, penalty, share):
    """The features without a place whose gradient is beyond this share of their penalty."""
    found = np.empty(met.size, np.int64)
    size = 0
    for k in range(met.size):
        j = met[k]
        if slots[j] < 0 and abs(gradient[j]) > share * (penalty[j] if penalty.size > 1 else penalty[0]):
            found[size] = j
            size += 1
    return found[:size]


@njit(cache=True, nogil=True, error_model="numpy")
def _expand_again(first, last, ends, indices, values, rows, link, beta, gradient, slots, block):
    """Replace the expansions of some examples in the log by those at the present weights.

    An example's part of G = theta - H b is (linear - h m) x; at the point of expansion that is its own slope g.
    """
    for row in range(first, last):
        m = 0.0
        for k in range(ends[row], ends[row + 1]):
            m += values[k] * beta[indices[k]]
        y, c = rows[row, SIGN], rows[row, WEIGHT]
        slope, curvature = _expansion(link, y * m, SURPRISE)
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
