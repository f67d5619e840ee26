"""State shared by the lasso's algorithms: the penalties, the weights, and the quadratic gathered at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.checks import check_choice, check_int, check_positive, shortened_repr
from bayou.core.errors import BadInput
from bayou.learners.lasso.expansion import Quadratic
from bayou.learners.lasso.sketch import Sketch

# Up to this size H is one dense matrix (of 33 MB), which is simpler and faster than anything else.
DENSE = 2048
# Largest matrices and sketches that are accepted.
MOST_BYTES = 4 << 30
_NO_SKETCH = Sketch(1, rows=0, nonzeros=0)


class _TallyField:
    """Descriptor of one number in a `Tally`."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, tally: Tally, owner: Any = None) -> float:
        return float(tally.numbers[self._place])

    def __set__(self, tally: Tally, value: float) -> None:
        tally.numbers[self._place] = value


class Tally:
    """Counters and sums by name, stored in one array that is saved."""

    def __init__(self) -> None:
        self.numbers = np.zeros(13)

    # of the present pass
    loss, examples = _TallyField(0), _TallyField(1)
    # number of passes ended; of the last one, the objective at its weights and the largest violation there
    passes, objective, violation = _TallyField(2), _TallyField(3), _TallyField(4)
    # the objective at the last accepted weights; of the step from them, its slope and the fraction taken
    accepted, slope, share = _TallyField(5), _TallyField(6), _TallyField(7)
    # the smallest violation so far, and the number of passes since
    best, stalled = _TallyField(8), _TallyField(9)
    # number of features H has room for (0: `max_active`), and whether the weights are certified
    active_limit, converged = _TallyField(10), _TallyField(11)
    # online: number of examples learned before the current block
    # in passes: the reach of surprising examples (0: unlimited)
    block_start = max_margin_excess = _TallyField(12)


class LassoProblem:
    """The problem max L(b) - sum_j gamma_j |b_j|, L approximated by a quadratic. The intercept is the last feature."""

    def __init__(self, n_features: int, penalty: Any, penalize_intercept: bool, dense: int, logged: bool) -> None:
        """Keep H in one matrix for up to `dense` features, including the intercept; keep a sketch of it if `logged`."""
        size = n_features + 1
        self.n_features = n_features
        self.dense = size <= dense
        gamma = 1.0 if isinstance(penalty, str) else penalty
        self.penalty = np.zeros(size)
        self.penalty[:-1], self.penalty[-1] = gamma, np.mean(gamma) if penalize_intercept else 0.0
        self.weights, self.gradient = np.zeros(size), np.zeros(size)
        # A feature's slot in the block, counted from 1; 0 if it was never seen, -1 if it was seen but has none.
        self.slots = np.zeros(size, np.int32)
        self.tally = Tally()
        self.sketch = Sketch(size) if logged else None
        self.log = (self.sketch or _NO_SKETCH).log

    def activate(self, features: np.ndarray) -> None:
        """Make these features the active ones, with an empty block."""
        self.active = features.astype(np.int64)
        self.slots[:] = 0
        self.slots[features] = np.arange(1, len(features) + 1)
        self.block = np.zeros((len(features), len(features)))

    def flush_log(self) -> None:
        """Make room in the log of the sketch, unless H is one matrix."""
        if self.sketch is not None and not self.dense:
            self.sketch.flush_log()

    @property
    def quadratic(self) -> Quadratic:
        return Quadratic(self.weights, self.gradient, self.slots, self.block)

    def scale(self) -> float:
        """Return the unit of violations: the largest penalty, or 1 if nothing is penalized."""
        return float(self.penalty[:-1].max()) or 1.0


def checked_penalty(penalty: Any, n_features: int) -> Any:
    """Return a checked penalty: a number, an array with one number per feature, or "lookahead"."""
    if isinstance(penalty, str):
        check_choice("penalty", penalty, {"lookahead": True})
        return penalty
    try:
        if np.ndim(penalty) == 0:
            return check_positive("penalty", penalty, zero=True, high=1e30)
        each = np.array(penalty, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"penalty is {shortened_repr(penalty)}; it must be a number, or one for each feature.") from None
    if each.shape != (check_int("n_features", n_features, 1),):
        raise BadInput(f"penalty has shape {each.shape}; it must be one number, or {n_features}, one for each feature.")
    if not ((each >= 0.0) & (each <= 1e30)).all():
        raise BadInput("penalty has entries that are not numbers >= 0.")
    each.flags.writeable = False
    return each
