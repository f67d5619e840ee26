"""Choice of the learner for a task: binary learners also serve multiclass tasks, and the bank also regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bayou.core import registry
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.recipe.crosses import no_lanes
from bayou.runs import settings as parameters

SEVERAL = "classes"
# Learners of a comparison that names none, by task.
COMPARED = {
    "binary": registry.DEFAULT_COMPARED,
    "multiclass": registry.DEFAULT_COMPARED,
    "regression": registry.DEFAULT_COMPARED_REGRESSION,
}
# With more classes than this, banks are light: their own predictions are stacked instead of those of their lanes.
LIGHT = 64
# Parameters of multiclass models in addition to those of the learner of each class.
_OF_CLASSES = ("max_classes", "light")


class LearnerSpec(NamedTuple):
    """A learner for a task, without its number of weights."""

    record: registry.Record
    parameters: dict[str, Any]

    def build(self, n_features: int) -> Learner:
        learner: Learner = self.record.load()(n_features=n_features, **self.parameters)
        return learner


def task_of(record: registry.Record) -> str:
    """Return the task of a learner; "auto" if the labels decide it."""
    return "auto" if record.task == "binary" else record.task


def choose(name: str | None, settings: Mapping[str, Any] | Sequence[str], task: str, classes: int = 0) -> LearnerSpec:
    """Return the named learner (None: the default) for a task; `classes` is the number of classes seen so far.

    >>> choose("bank", {}, "regression").record.name, choose("marginal", {}, "multiclass").parameters
    ('number-bank', {'learner': 'marginal'})
    """
    requested = registry.find(registry.DEFAULT if name is None else name)
    if task == "regression" and requested.name == registry.DEFAULT:
        requested = registry.find(registry.DEFAULT_REGRESSION)
    if (requested.task == "regression") != (task == "regression"):
        raise BadInput(_misfit(requested, task))
    if task != "multiclass":
        return LearnerSpec(requested, settings_of(requested, settings))
    if requested.name == SEVERAL:
        settings_chosen = settings_of(requested, settings)
    else:
        settings_chosen = parameters.parse(settings, requested.load(), taken=("n_features",), extra_names=_OF_CLASSES)
        settings_chosen = {"learner": requested.name} | settings_chosen
    if classes > LIGHT:
        settings_chosen = {"light": True} | settings_chosen
    return LearnerSpec(registry.find(SEVERAL), settings_chosen)


def settings_of(record: registry.Record, settings: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """Parse the settings of a learner. Raise BadInput for unknown ones, and for `pairs` of a learner without lanes."""
    refused = {} if record.task == "binary" else {"pairs": no_lanes()}
    return parameters.parse(settings, record.load(), taken=("n_features", "own"), refused=refused)


def _misfit(record: registry.Record, task: str) -> str:
    if task == "regression":
        names = [candidate.name for candidate in registry.own_records() if candidate.task == "regression"]
        return (
            f"the label is a number, but {record.name} predicts classes; use {option('learner', registry.DEFAULT)} "
            f"or one of {', '.join(names)}, or turn it into classes with {option('label_above')} or {option('task')}."
        )
    return f"{record.name} predicts numbers, but the task is {task}; use {option('learner', registry.DEFAULT)}."
