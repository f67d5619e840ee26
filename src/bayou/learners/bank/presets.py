"""Lanes of a bank: `Lane` holds the settings of one lane, and `PRESETS` two sets to choose from.

`settings_table` turns them into the table of settings that the kernels take.

To add a setting: a field of `Lane` with its name and check (`__str__`, `_own_lane`), a line of `settings_table`, and in
`lanes` a numbered field, `LaneConfig`, and the step of the kernel that it changes (`updates`). A lane that forgets is
marked in `forgets` here, and in `merging.rules_of`; one without variances in `combination.new_combination`.
`tests/reference/bank.py` has the rule in plain NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bayou.core.checks import check_bool, check_positive
from bayou.core.errors import BadInput
from bayou.core.links import C8
from bayou.kernels.vector import pad_to_lanes
from bayou.learners.bank import lanes as layout
from bayou.learners.bank.combination import Output

MAX_LANES = 64


@dataclass(frozen=True)
class Lane:
    """Settings of one lane of the bank: Gaussian, or AdaGrad if it has a rate.

    The docstring of `learner` explains the fields.

    >>> from bayou.learners import Bank
    >>> bank = Bank(n_features=10, lanes=[Lane(1.0), Lane(10.0, memory=0.01)], head=0)
    >>> [str(output.lane) for output in bank.lanes]
    ['plain 1', 'plain 10, memory 0.01']
    """

    prior_variance: float = 1.0
    temper: tuple[float, float] = (1.0, 1.0)
    second: float | None = None  # kp of a second output
    scale: bool = False
    normalise: bool = False
    memory: float = 0.0
    rate: float | None = None
    learned_prior: bool = False  # prior_variance is then the initial one of each group of features
    fading: float = 0.0  # fraction of the evidence that is lost at every example

    @property
    def forgets(self) -> bool:
        """True if old evidence fades, by use or over time."""
        return self.memory > 0.0 or self.fading > 0.0

    def __str__(self) -> str:
        if self.rate is not None:
            return f"AdaGrad {self.rate:g}"
        words = ["scaled"] * self.scale + ["tempered"] * (self.temper[0] < 1.0) + ["normalised"] * self.normalise
        words += ["learned"] * self.learned_prior
        fades = (f", {word} {share:g}" for word, share in (("memory", self.memory), ("fading", self.fading)) if share)
        return f"{' '.join(words) or 'plain'} {self.prior_variance:g}{''.join(fades)}"


def _scaled(v0: float, memory: float = 0.0) -> Lane:
    return Lane(v0, scale=True, memory=memory)


def _tempered(v0: float, memory: float = 0.0, second: float | None = None) -> Lane:
    return Lane(v0, temper=(0.3, 0.1), second=second, memory=memory)


def _normalised(v0: float) -> Lane:
    return Lane(v0, normalise=True)


PRESETS = {
    "slim": (
        *(Lane(0.1, scale=True, learned_prior=True), _scaled(10.0)),
        *(Lane(0.1, temper=(0.3, 0.1), fading=1e-4), _tempered(10.0, second=0.3)),
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


def as_mappings(lanes: Sequence[Lane]) -> list[dict[str, Any]]:
    """Return lanes as mappings that JSON can hold."""
    return [asdict(lane) | {"temper": list(lane.temper)} for lane in lanes]


def parse_lanes(lanes: Sequence[Any]) -> tuple[Lane, ...]:
    """Check the lanes that the caller gives, and return them as `Lane` objects."""
    if isinstance(lanes, str | bytes) or not isinstance(lanes, Sequence) or not 1 <= len(lanes) <= MAX_LANES:
        raise BadInput(f"lanes is {lanes!r}; give a list of 1 to {MAX_LANES} lanes.")
    return tuple(_own_lane(lane) for lane in lanes)


def _own_lane(given: Any) -> Lane:
    try:
        lane = given if isinstance(given, Lane) else Lane(**given)
        ku, kp = (check_positive("temper of a lane", k, high=100.0) for k in lane.temper)
    except (TypeError, ValueError) as error:
        fields = ", ".join(Lane.__dataclass_fields__)
        raise BadInput(f"{given!r} is not a lane: {error}. A lane has {fields}; temper is two numbers.") from None
    if min(ku, kp) < 0.01:
        raise BadInput(f"a lane's temper is {lane.temper}; both numbers must be from 0.01 to 100.")
    second = None if lane.second is None else check_positive("second of a lane", lane.second, zero=True, high=100.0)
    rate = None if lane.rate is None else check_positive("rate of a lane", lane.rate, high=1e6)
    learned = check_bool("learned_prior of a lane", lane.learned_prior)
    if learned and (rate is not None or lane.normalise or lane.memory or lane.fading):
        raise BadInput("a lane with learned_prior is Gaussian, not normalised, and does not forget.")
    variance = check_positive("prior_variance of a lane", lane.prior_variance, high=1e6)
    if variance < 1e-6:
        raise BadInput(f"prior_variance of a lane is {variance:g}; it must be from 1e-6 to 1e6.")
    return Lane(
        prior_variance=variance,
        temper=(ku, kp),
        second=second,
        scale=check_bool("scale of a lane", lane.scale),
        normalise=check_bool("normalise of a lane", lane.normalise),
        memory=check_positive("memory of a lane", lane.memory, zero=True, high=1e3),
        rate=rate,
        learned_prior=learned,
        fading=check_positive("fading of a lane", lane.fading, zero=True, high=0.5),
    )


def reference_lane(lanes: Sequence[Lane]) -> int:
    """Return the scaled lane with the smallest prior variance: the nearest to logistic regression over all examples."""
    scaled = [k for k, lane in enumerate(lanes) if lane.scale and not lane.forgets and lane.rate is None]
    if not scaled:
        raise BadInput("the bank has no scaled lane without memory, which would show what was associated.")
    return min(scaled, key=lambda k: lanes[k].prior_variance)


def outputs_of_lanes(lanes: Sequence[Lane]) -> list[Output]:
    """Return all outputs: first one of every lane, then the second ones."""
    second = [Output(k, lane.second) for k, lane in enumerate(lanes) if lane.second is not None]
    return [Output(k, lane.temper[1]) for k, lane in enumerate(lanes)] + second


def settings_table(lanes: Sequence[Lane], intercept_variance: float | None) -> np.ndarray:
    """Return the table of settings, one column per lane; `intercept_variance` None means max(3, prior_variance)."""
    settings = np.zeros((layout.TIME_DECAY + 1, pad_to_lanes(len(lanes))))
    settings[
        [
            layout.PRIOR_PRECISION,
            layout.INITIAL_PRECISION,
            layout.USE_DECAY,
            layout.TIME_DECAY,
            layout.INTERCEPT_PRECISION,
        ]
    ] = 1.0  # padding lanes
    for k, lane in enumerate(lanes):
        mine = settings[:, k]
        mine[layout.UPDATE_DAMPING], mine[layout.IS_ACTIVE] = C8 * lane.temper[0], 1.0
        if lane.rate is not None:
            mine[layout.ADAGRAD_RATE] = lane.rate
            continue
        precision = 1.0 / lane.prior_variance
        mine[layout.PRIOR_PRECISION], mine[layout.PRECISION_PER_SQUARE] = (
            (0.0, precision) if lane.normalise else (precision, 0.0)
        )
        mine[layout.INITIAL_PRECISION], mine[layout.USE_DECAY] = precision, 1.0 / (1.0 + lane.memory)
        mine[layout.HAS_LEARNED_SCALE], mine[layout.IS_NORMALIZED] = lane.scale, lane.normalise
        mine[layout.HAS_LEARNED_PRIOR], mine[layout.TIME_DECAY] = lane.learned_prior, 1.0 - lane.fading
        wide = max(3.0, lane.prior_variance) if intercept_variance is None else intercept_variance
        mine[layout.INTERCEPT_PRECISION] = 1.0 / wide
    return settings
