"""Which learner serves a task: one of two classes also tells several apart, and the bank predicts numbers, too."""

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
    "binary": registry.COMPARED,
    "multiclass": registry.COMPARED,
    "regression": registry.COMPARED_OF_NUMBERS,
}
# From so many classes on, their banks are heard as one each.
LIGHT = 64
# What can be set of several classes, besides the parameters of the learner of each.
_OF_CLASSES = ("max_classes", "light")


class Chosen(NamedTuple):
    """A learner for a task, but for how many weights it has."""

    record: registry.Record
    parameters: dict[str, Any]

    def make(self, n_features: int) -> Learner:
        learner: Learner = self.record.load()(n_features=n_features, **self.parameters)
        return learner


def task_of(record: registry.Record) -> str:
    """The task that a learner is for; "auto" where the labels are to decide."""
    return "auto" if record.task == "binary" else record.task


def choose(name: str | None, settings: Mapping[str, Any] | Sequence[str], task: str, classes: int = 0) -> Chosen:
    """The learner of this name (None: the default) for a task; `classes`: how many were met already.

    >>> choose("bank", {}, "regression").record.name, choose("marginal", {}, "multiclass").parameters
    ('number-bank', {'learner': 'marginal'})
    """
    asked = registry.find(registry.DEFAULT if name is None else name)
    if task == "regression" and asked.name == registry.DEFAULT:
        asked = registry.find(registry.OF_NUMBERS)
    if (asked.task == "regression") != (task == "regression"):
        raise BadInput(_misfit(asked, task))
    if task != "multiclass":
        return Chosen(asked, settings_of(asked, settings))
    if asked.name == SEVERAL:
        chosen = settings_of(asked, settings)
    else:
        chosen = parameters.parse(settings, asked.load(), taken=("n_features",), more=_OF_CLASSES)
        chosen = {"learner": asked.name} | chosen
    if classes > LIGHT:
        chosen = {"light": True} | chosen
    return Chosen(registry.find(SEVERAL), chosen)


def settings_of(record: registry.Record, settings: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """What is set of a learner, by name; of lanes of pairs it is said where there are none."""
    refused = {} if record.task == "binary" else {"pairs": no_lanes()}
    return parameters.parse(settings, record.load(), taken=("n_features", "own"), refused=refused)


def _misfit(asked: registry.Record, task: str) -> str:
    if task == "regression":
        others = [record.name for record in registry.own_records() if record.task == "regression"]
        return (
            f"the label is a number, and {asked.name} tells classes apart; use {option('learner', registry.DEFAULT)} "
            f"or one of {', '.join(others)}, or make classes of it with {option('label_above')} or {option('task')}."
        )
    return f"{asked.name} predicts numbers, but the task is {task}; use {option('learner', registry.DEFAULT)}."
