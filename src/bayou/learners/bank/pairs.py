"""The bank's lanes of pairs, beside its other lanes: X (`crosses`), and with factors P and Q (`factors`).

Each has one output in the combination, whose stacking coefficient has a prior variance of .01: such a lane has to show
that it helps. With "auto" they are checked after FIRST_CHECK_EXAMPLE examples and then at each doubling: a lane is
dropped if it is worth less than MIN_LANE_GAIN of the loss so far both in the mixture (how much lower its loss is than
that of the best other output) and to the stackers (the evidence that its coefficient is not 0, averaged by the
stackers' shares).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bayou.core.checks import check_choice, check_int, check_iterable, shortened_repr
from bayou.core.errors import BadInput
from bayou.core.prediction import Weights, WeightViewPart
from bayou.kernels.row_layout import BatchArrays
from bayou.learners.bank import crosses, factors
from bayou.learners.bank.combination import Output
from bayou.learners.bank.factors import FactorState
from bayou.learners.bank.row_scaling import stream_scale

KINDS = {
    "crosses": "a lane of hashed pairs",
    "factors": "that one, and two factorisation machines",
    "auto": "crosses for as long as they pay",
    "auto,factors": "all of them, each for as long as it pays",
}
FIRST_CHECK_EXAMPLE, MIN_LANE_GAIN = 65536, 1e-3
# Prior variance of the coefficient of one lane of pairs.
COEFFICIENT_PRIOR = 0.01
# Learned arrays other than the factors of features.
_OF_CROSSES, _OF_FACTORS = ("weights", "features", "stream", "intercept", "scale"), ("stream", "intercept", "pairs")
# Words for the pairs that the lane of crosses has, if they are not listed.
CROSSED = {"columns": "features of different columns, and any two without one", "all": "any two features"}


@dataclass(frozen=True)
class PairLane:
    """Name and settings of a lane beside the bank's own, as `Bank.lanes` shows it."""

    words: str
    temper: tuple[float, float]
    memory: float = 0.0
    second: None = None
    rate: None = None

    def __str__(self) -> str:
        return self.words


LANES_OF_PAIRS = (
    PairLane("crosses", (1.0, 1.0)),
    PairLane("factors", (factors.UPDATE, factors.SAYS)),
    PairLane("factors, memory 0.01", (factors.UPDATE, factors.SAYS), 0.01),
)


def checked_pairs(pairs: Any) -> str | None:
    """Check which lanes of pairs a bank has, one of KINDS or a list of its words, and return it as one of KINDS."""
    if isinstance(pairs, list | tuple) and all(isinstance(word, str) for word in pairs):
        pairs = ",".join(sorted(pairs))
    if pairs is not None:
        check_choice("pairs", pairs, KINDS)
    return pairs


def checked_cross(cross: Any) -> Any:
    """Check which pairs of groups are crossed; return a word, or a list of pairs of numbers that JSON can hold."""
    if isinstance(cross, str) and cross in CROSSED:
        return cross
    what = f"cross must be {' or '.join(map(repr, CROSSED))}, or pairs of groups such as [[1, 2]]"
    if isinstance(cross, str):
        raise BadInput(f"{what}; it is {cross!r}.")
    crossed = []
    for pair in check_iterable("cross", cross, "pairs of groups"):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise BadInput(f"{what}; it holds {shortened_repr(pair)}.")
        crossed.append([check_int("a group in cross", group, 0, crosses.GROUPS - 1) for group in pair])
    return crossed


def crossed_groups(cross: Any) -> np.ndarray:
    """Return a (GROUPS, GROUPS) table of whether features of two groups are crossed."""
    shape = crosses.GROUPS, crosses.GROUPS
    if cross == "all":
        return np.ones(shape, np.bool_)
    if cross == "columns":
        apart = ~np.eye(crosses.GROUPS, dtype=np.bool_)
        apart[0, 0] = True
        return apart
    chosen = np.zeros(shape, np.bool_)
    for g, h in cross:
        chosen[g, h] = chosen[h, g] = True
    return chosen


class PairLanes:
    """The lanes of pairs of one bank; `column` is their first column in the lane outputs."""

    def __init__(
        self, kind: str, cross: Any, bits: int, column: int, n_features: int, has_intercept: bool, dtype: str
    ) -> None:
        self.column = column
        self.crosses = crosses.new_crosses(crossed_groups(cross), has_intercept, bits, dtype)
        self.factors = factors.new_factors(n_features, has_intercept, dtype) if "factors" in kind else None
        self.lanes = LANES_OF_PAIRS[: 1 if self.factors is None else 3]
        self.live = [True] * len(self.lanes)
        self.looks = "auto" in kind

    @property
    def outputs(self) -> list[Output]:
        return [
            Output(self.column + k, lane.temper[1], COEFFICIENT_PRIOR, has_weights=not lane.memory)
            for k, lane in enumerate(self.lanes)
        ]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file; small ones have one row."""
        arrays = {f"pair {name}": getattr(self.crosses, name) for name in _OF_CROSSES}
        if self.factors is not None:
            arrays["factors"] = self.factors.state
            arrays |= {f"factor {name}": getattr(self.factors, name) for name in _OF_FACTORS}
        tables = ("pair weights", "pair features", "factors")
        return {name: array if name in tables else array.reshape(1, -1) for name, array in arrays.items()}

    def with_global_arrays(self, arrays: Mapping[str, np.ndarray]) -> PairLanes:
        """Return a copy whose state, but for the factors of features, is that in `arrays`, keyed by names in files."""
        was, x, f = copy.copy(self), self.crosses, self.factors
        own: dict[str, Any] = {name: arrays[f"pair {name}"].reshape(getattr(x, name).shape) for name in _OF_CROSSES}
        was.crosses = x._replace(**own)
        if f is not None:
            own = {name: arrays[f"factor {name}"].reshape(getattr(f, name).shape) for name in _OF_FACTORS}
            was.factors = f._replace(**own)
        return was

    def tasks(
        self, rows: BatchArrays, groups: np.ndarray, row: int, last: int, examples: int, outputs: np.ndarray
    ) -> list[Callable[[], Any]]:
        """Return tasks, to run in any order, that predict rows `row` to `last` and learn from those with a weight."""
        if not all(self.live):
            outputs[row:last, :, self.column :] = 0.0
        tasks: list[Callable[[], Any]] = []
        if self.factors is not None and any(self.live[1:]):
            tasks.append(
                partial(factors.run_factors, rows, groups, self.factors, row, last, examples, self.column + 1, outputs)
            )
        if self.live[0]:
            tasks.append(
                partial(crosses.run_crosses, rows, groups, self.crosses, row, last, examples, self.column, outputs)
            )
        return tasks

    def next_check_example(self, examples: int) -> int:
        """Return the number of examples at which lanes are checked next; -1 for never."""
        if not self.looks or not any(self.live):
            return -1
        return max(FIRST_CHECK_EXAMPLE, 1 << int(examples).bit_length())

    # --- weights of features alone ------------------------------------------------------------------------------

    def parts(self, features: np.ndarray) -> list[WeightViewPart]:
        """Return each lane's weights of single features, without pairs."""
        views = [self._crosses_alone(features)]
        if self.factors is not None:
            nothing = WeightViewPart(1.0, Weights(np.zeros(len(features)), np.zeros(len(features))), (0.0, 0.0))
            views += [self._factors_alone(self.factors, features), nothing]
        return views

    def _crosses_alone(self, features: np.ndarray) -> WeightViewPart:
        x = self.crosses
        mean, gain = (
            x.weights[crosses.weight_indices(features, np.full(len(features), -1), x.bits)].astype(np.float64).T
        )
        factor = self.value_scale(crosses.FEATURES)
        weights = Weights(factor * mean, factor**2 / (crosses.PRIORS[crosses.FEATURES] + gain))
        return WeightViewPart(1.0, weights, _intercept(x.has_intercept, x.intercept, crosses.BIAS_PRIOR))

    def value_scale(self, kind: int) -> float:
        """Return the factor of values of features, or of products of two (`kind` is FEATURES or PAIRS)."""
        unit = stream_scale(self.crosses.stream[1]) if self.crosses.stream[0] else 1.0
        return float(np.exp(self.crosses.scale[0, kind])) * unit ** (1 + kind)

    def _factors_alone(self, lanes: FactorState, features: np.ndarray) -> WeightViewPart:
        mean, gain = (lanes.state[features, factors.ALONE + column].astype(np.float64) for column in (0, 8))
        own = _intercept(lanes.has_intercept, lanes.intercept, factors.BIAS_PRIOR)
        return WeightViewPart(1.0, Weights(mean, 1.0 / (factors.ALONE_PRIOR + gain)), own)


def _intercept(there: bool, intercept: np.ndarray, prior: float) -> tuple[float, float]:
    return (float(intercept[0]), 1.0 / (prior + float(intercept[1]))) if there else (0.0, 0.0)
