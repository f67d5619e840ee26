"""Starting point of a training run: a new learner, a model to resume, or one to copy in all but the weights."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayou.core import registry
from bayou.core.checks import check_choice
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.core.spelling import option, setting
from bayou.core.storage import load
from bayou.recipe.recipe import TASKS
from bayou.runs.learner_specs import LearnerSpec, choose, settings_of, task_of

Model = str | os.PathLike[str] | Learner


@dataclass(frozen=True)
class LearnerChoice:
    """Specification of a run's learner, without what the data decide: its task and number of weights.

    Attributes:
        name: the requested learner, None for the default.
        old: the model to resume, or to copy in all but the weights.
    """

    name: str | None
    settings: Mapping[str, Any] | Sequence[str]
    old: Learner | None
    resumed: bool

    @property
    def assumed_record(self) -> registry.Record:
        """Record of the learner, assuming a binary task."""
        if self.old is not None:
            return self.old.record
        return registry.find(registry.DEFAULT if self.name is None else self.name)

    def spec_for(self, task: str, classes: int = 0) -> LearnerSpec:
        """Return the learner for a task; `classes` is the number of classes seen so far."""
        if self.old is None:
            return choose(self.name, self.settings, task, classes)
        settings = settings_of(self.old.record, self.settings)
        old = {name: value for name, value in self.old.parameters.items() if name != "n_features"}
        return LearnerSpec(self.old.record, old | settings)


def start_from(
    name: str | None,
    settings: Mapping[str, Any] | Sequence[str],
    resume: Model | None,
    like: Model | None,
    recipe: dict[str, Any],
) -> LearnerChoice:
    """Return the start that these options specify. Raise BadInput or BadModel for contradictory options."""
    check_choice("task", recipe.get("task", "auto"), TASKS)
    model = like if resume is None else resume
    old = copy.copy(model) if isinstance(model, Learner) else None if model is None else load(model)
    start = LearnerChoice(name, settings, old, resume is not None)
    if old is not None:
        _refuse_other(old, "the model" if isinstance(model, Learner) else str(model), name, recipe)
        if resume is not None:
            _refuse_changes(old, start.spec_for("auto").parameters)
    else:
        _settle_task(start.assumed_record, recipe)
        if recipe.get("task", "auto") != "auto" or start.assumed_record.name != registry.DEFAULT:
            # Invalid parameters are reported now, before the data decide the task.
            start.spec_for(recipe.get("task", "auto")).build(1)
    return start


def _settle_task(record: registry.Record, recipe: dict[str, Any]) -> None:
    """Set the task in the recipe if the learner has only one. Raise BadInput if an option contradicts it."""
    fixed, choice = task_of(record), recipe.get("task", "auto")
    if fixed == "auto":
        return
    for name in ("positive", "label_above", "negative_rate"):
        if name in recipe:
            does = "predicts numbers" if fixed == "regression" else "predicts several"
            raise BadInput(f"{option(name)} is for two classes, but {record.name} {does}; omit the option.")
    if choice not in ("auto", fixed):
        raise BadInput(f"{option('task', choice)} was given, but {record.name} is for {fixed}; omit one of them.")
    recipe["task"] = fixed


def _refuse_other(old: Learner, path: str, learner: str | None, options: dict[str, Any]) -> None:
    """Raise BadModel if options differ from an existing model's learner or recipe; repeating them is allowed."""
    recipe = {} if old.extras.recipe is None else old.extras.recipe.to_json()
    record = None if learner is None else registry.find(learner)
    if record is not None and record.name != old.name:
        requested = choose(record.name, (), recipe.get("task") or task_of(old.record))
        if requested.record.name != old.name or requested.parameters.get("learner") != old.parameters.get("learner"):
            raise BadModel(
                f"{path} is a {old.name} model; it cannot continue as {learner}. Omit {option('learner')}, or start "
                "a new model."
            )
    for name, value in options.items():
        value_of_model = recipe.get(name)
        if name == "cross":  # whether made by a lane or as features
            value, value_of_model = (
                sorted(map(list, crosses)) for crosses in (value, [*recipe.get("pairs", []), *(value_of_model or [])])
            )
        if json.loads(json.dumps(value)) != value_of_model and (name, value) != ("task", "auto"):
            raise BadModel(
                f"{option(name, value)} was given, but the recipe of {path} has "
                f"{'none' if value_of_model is None else value_of_model}; omit the option."
            )


def _refuse_changes(old: Learner, spec_for: dict[str, Any]) -> None:
    for name, value in spec_for.items():
        if value != old.parameters[name]:
            raise BadInput(
                f"{setting(name, value)} was given, but the resumed model has {old.parameters[name]} and keeps it; "
                "omit it."
            )
