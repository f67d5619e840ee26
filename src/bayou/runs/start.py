"""What a training run starts from: a new learner, a model to go on with, or one to be like in all but the weights."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayou.core import registry
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.core.storage import load
from bayou.runs import settings as parameters

Model = str | os.PathLike[str] | Learner


@dataclass(frozen=True)
class Start:
    """Everything about the learner but how many weights it will have.

    Attributes:
        old: the model that is resumed, or that the new one is to be like.
        small: one with a single weight: what is wrong with the parameters is wrong whatever the data.
        chosen: the parameters that were set.
    """

    record: registry.Record
    old: Learner | None
    resumed: bool
    small: Learner
    chosen: dict[str, Any]

    @property
    def dtype(self) -> str:
        old = {} if self.old is None else self.old.parameters
        return str({**self.small.parameters, **old, **self.chosen}["dtype"])

    def learner(self, n_features: int) -> Learner:
        """The one that will learn."""
        if self.old is not None and self.resumed:
            return self.old
        old = {} if self.old is None else self.old.parameters
        return self.record.load()(**{**old, **self.chosen, "n_features": n_features})


def start_from(
    name: str | None,
    settings: Mapping[str, Any] | Sequence[str],
    resume: Model | None,
    like: Model | None,
    recipe: dict[str, Any],
) -> Start:
    """What these options mean. Options that contradict the model, or one another, are refused."""
    given = like if resume is None else resume
    old = copy.copy(given) if isinstance(given, Learner) else None if given is None else load(given)
    if old is not None:
        _refuse_other(old, "the model" if isinstance(given, Learner) else str(given), name, recipe)
    record = old.record if old is not None else registry.find(registry.DEFAULT if name is None else name)
    if record.task == "regress":
        _refuse_classes(record.name, recipe)
        recipe["numbers"] = True
    if record.task == "classes":
        raise BadInput("classes is for Python so far: bayou.learners.Classes, or BankClassifier.")
    kind = record.load()
    chosen = parameters.parse(settings, kind, taken=("n_features",))
    if old is not None and resume is not None:
        _refuse_changes(old, chosen)
    return Start(record, old, resume is not None, kind(n_features=1, **chosen), chosen)


def _refuse_other(old: Learner, path: str, learner: str | None, given: dict[str, Any]) -> None:
    """A model that exists has its learner and its recipe; options may repeat them, not change them."""
    if learner is not None and learner != old.name:
        raise BadModel(
            f"{path} is a {old.name} model; it cannot go on as {learner}. Leave --learner out, or start a new model."
        )
    recipe = {} if old.extras.recipe is None else old.extras.recipe.to_json()
    for name, value in given.items():
        there = recipe.get(name)
        if json.loads(json.dumps(value)) != there:
            raise BadModel(
                f"--{name.replace('_', '-')} is {value}, but the recipe of {path} has "
                f"{'none' if there is None else there}; leave the option out."
            )


def _refuse_classes(learner: str, given: dict[str, Any]) -> None:
    for name in ("positive", "label_above", "negative_rate"):
        if name in given:
            option = name.replace("_", "-")
            raise BadInput(f"--{option} is about classes, but {learner} predicts numbers; leave the option out.")


def _refuse_changes(old: Learner, chosen: dict[str, Any]) -> None:
    for name, value in chosen.items():
        if value != old.parameters[name]:
            raise BadInput(
                f"--set {name}={value}, but the resumed model has {old.parameters[name]} and keeps it; leave it out."
            )
