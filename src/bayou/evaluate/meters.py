"""The meter of each task."""

from __future__ import annotations

from typing import Any

from bayou.core.checks import check_choice
from bayou.evaluate.binary import Meter
from bayou.evaluate.multiclass import ClassMeter
from bayou.evaluate.regression import RegressionMeter

METERS: dict[str, Any] = {"binary": Meter, "multiclass": ClassMeter, "regression": RegressionMeter}


def meter_for(task: str, **options: Any) -> Any:
    """Return a new meter for a learner whose record has this task.

    >>> [type(meter_for(task)).__name__ for task in ("binary", "multiclass", "regression")]
    ['Meter', 'ClassMeter', 'RegressionMeter']
    """
    return check_choice("task", task, METERS)(**options)
