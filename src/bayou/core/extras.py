"""Extras: typed data stored with a model besides its weights, with their own merge and place in the file.

    recipe, names, numbering    all that is needed to read raw data as during training
    groups                      whether those data gave the column or namespace of each feature (`recipe.groups`)
    classes                     the names of the multiclass labels 0, 1, 2, ...
    uses                        how often features occurred, to interpret weights
    counters                    totals over all runs of the model, and its loss
    unfinished                  the progress of a run that was interrupted, or that saves checkpoints
    finished                    the files that were learned completely
    rounds                      the progress of learning in rounds, or in micro-batches

In a model file the header has all but arrays as JSON under "attached"; the arrays of names, numbering and uses are
stored under "attached:names." and so on.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayou.core.errors import BadInput, BadModel
from bayou.core.file_fingerprints import FileFingerprint
from bayou.core.spelling import option

# Recipes, names and numberings are imported only when made: a learner that reads no raw data starts without them.
if TYPE_CHECKING:
    from bayou.recipe.feature_counts import FeatureCounts
    from bayou.recipe.feature_names import FeatureNames
    from bayou.recipe.numbering import Numbering
    from bayou.recipe.recipe import Recipe

_NAMES, _NUMBERING, _USES = "names.", "numbering.", "uses."
_LOSSES = ("log_loss", "squared_loss")
_MOST_NUMBERS = 1 << 20  # labels of classes without names must be below this
_SHOWN = 5  # maximum number of recipe differences in a message


@dataclass(frozen=True)
class Counters:
    """Totals over all runs of a model. Only predictions of examples that it had not seen before are scored.

    Attributes:
        examples: number of scored predictions; nonzeros: total number of features of those examples.
        skipped: number of bad lines that were skipped.
        weight: the summed weight of the examples; loss: their summed loss.
        runs: number of runs.
        loss_name: the name of the mean loss, "log_loss" or "squared_loss".

    >>> one = Counters(examples=2, weight=2.0, loss=1.0, runs=1)
    >>> (one + one).mean_loss, (one + one - one) == one
    (0.5, True)
    """

    examples: int = 0
    nonzeros: int = 0
    skipped: int = 0
    weight: float = 0.0
    loss: float = 0.0
    runs: int = 0
    loss_name: str = "log_loss"

    @property
    def mean_loss(self) -> float | None:
        return self.loss / self.weight if self.weight > 0 else None

    def __add__(self, other: Counters) -> Counters:
        return self._with(other, 1)

    def __sub__(self, other: Counters) -> Counters:
        return self._with(other, -1)

    def _with(self, other: Counters, sign: int) -> Counters:
        names = [part.name for part in fields(self) if part.name != "loss_name"]
        return replace(self, **{name: getattr(self, name) + sign * getattr(other, name) for name in names})

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["loss_name"]
        return {**plain, self.loss_name: self.mean_loss}

    @classmethod
    def from_json(cls, plain: Any) -> Counters:
        """Return the counters from the result of `to_json`."""
        plain = _mapping("counters", plain)
        name = next((name for name in _LOSSES if name in plain), _LOSSES[0])
        return cls(**_numbers("counters", plain, cls), loss_name=name)


@dataclass(frozen=True)
class ResumePoint:
    """Progress of a run that has not finished.

    Attributes:
        files: the files that it reads, as they were at its start.
        passed: number of finished passes; passes: total number of passes.
        rows: number of rows learned in the current pass; skipped: number of bad lines among those read.
        holdout: the fraction of examples held out for testing; last: whether these are the last ones.
    """

    files: list[FileFingerprint] = field(default_factory=list)
    passed: int = 0
    passes: int = 1
    rows: int = 0
    skipped: int = 0
    holdout: float = 0.0
    last: bool = False

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["files"]
        plain = {"data": [mark.name for mark in self.files], "pass": plain.pop("passed"), **plain}
        has_sizes = any(mark.size is not None for mark in self.files)
        return plain | ({"files": [mark.to_json() for mark in self.files]} if has_sizes else {})

    @classmethod
    def from_json(cls, plain: Any) -> ResumePoint:
        plain = _mapping("unfinished", plain)
        numbers = _numbers("unfinished", {**plain, "passed": plain.get("pass", 0)}, cls)
        # Pipes only have a name.
        files = _marks(plain.get("files")) or [FileFingerprint(str(name)) for name in plain.get("data") or ()]
        return cls(files=files, **numbers)


@dataclass(frozen=True)
class RoundProgress:
    """Progress of learning in rounds (`bayou.spark`), or in micro-batches.

    Attributes:
        plan: all that determines the resulting model to the bit, by name: a digest of the data, the number of shards,
            the seed and so on.
        losses: the loss on held-out rows after each finished round.
        examples: number of examples learned by then; if the model has more, it was trained otherwise since.
        batch: the number of the last micro-batch that was learned.
    """

    plan: dict[str, Any] = field(default_factory=dict)
    losses: tuple[float, ...] = ()
    examples: int = 0
    batch: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Any) -> RoundProgress:
        plain = _mapping("rounds", plain)
        numbers = _numbers("rounds", plain, cls)
        losses = plain.get("losses", [])
        if not isinstance(losses, list | tuple) or not all(isinstance(loss, int | float) for loss in losses):
            raise BadModel(f"the model's rounds have losses = {losses!r}; it must be a list of numbers.")
        return cls(plan=dict(_mapping("plan", plain.get("plan", {}))), losses=tuple(losses), **numbers)


def _numbered_classes(learner: Any) -> list[str]:
    """Return names for classes that have none: "0", "1", ... up to the largest label."""
    labels = learner.labels
    if len(labels) and not 0 <= labels.min() <= labels.max() < _MOST_NUMBERS:
        raise BadModel("data cannot be read with the way the model numbers its classes; number them from 0.")
    return [str(k) for k in range(int(labels.max(initial=-1)) + 1)]


@dataclass
class Extras:
    """Data stored with a model besides its weights; any of them may be missing.

    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=16)
    >>> learner.extras.recipe is None, Extras.of(learner).recipe.kind
    (True, 'svmlight')
    """

    recipe: Recipe | None = None
    names: FeatureNames | None = None
    numbering: Numbering | None = None
    uses: FeatureCounts | None = None
    counters: Counters | None = None
    unfinished: ResumePoint | None = None
    finished: list[FileFingerprint] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    rounds: RoundProgress | None = None
    groups: bool = False

    @classmethod
    def new(cls, recipe: Recipe) -> Extras:
        """Return the extras of a new model. Features of svmlight data have no names, unless they are crossed."""
        from bayou.recipe.recipe import Recipe

        if not isinstance(recipe, Recipe):
            raise BadInput("give a bayou.sources.Recipe to read data with.")
        if recipe.kind == "svmlight" and not recipe.crossed:
            return cls(recipe)
        from bayou.recipe.feature_names import FeatureNames
        from bayou.recipe.numbering import Numbering

        return cls(
            recipe,
            FeatureNames(recipe.n_features),
            Numbering(recipe.n_features) if recipe.exact else None,
        )

    @classmethod
    def of(cls, learner: Any) -> Extras:
        """Return a learner's extras for reading data; a learner made in Python, without a recipe, reads svmlight."""
        if not hasattr(learner, "extras"):
            raise BadInput("expected one of bayou's learners, which have extras.")
        extras, bits = learner.extras, max((learner.n_features - 1).bit_length(), 1)  # enough to number its features
        if extras.recipe is None:
            from bayou.recipe.recipe import Recipe

            recipe = Recipe(kind="svmlight", bits=bits, exact=True, task=learner.record.task)
            classes = _numbered_classes(learner) if recipe.task == "multiclass" else []
            return replace(extras, recipe=recipe, classes=extras.classes or classes)
        recipe = extras.recipe
        # A model made in Python may have any number of weights; its indices are taken as they are.
        as_is = recipe.kind == "svmlight" and recipe.exact and recipe.bits == bits
        if recipe.n_features != learner.n_features and not as_is:
            raise BadModel(
                f"the model has {learner.n_features} weights, but its recipe makes {recipe.n_features} features."
            )
        return extras

    @property
    def required_recipe(self) -> Recipe:
        """The recipe; raises BadModel if there is none."""
        if self.recipe is None:
            raise BadModel("the model has no recipe to read data with; `Extras.of(learner)` gives it one for svmlight.")
        return self.recipe

    def for_predicting(self) -> Extras:
        """Return extras for data that are only predicted: new features get no number, and no names are collected."""
        numbering = copy.copy(self.numbering)  # shares the arrays
        if numbering is not None:
            numbering.growing = False
        return replace(self, names=None, numbering=numbering)

    def copy(self) -> Extras:
        """Return independent extras for a copy of the model."""
        own = {name: copy.deepcopy(getattr(self, name)) for name in ("names", "numbering", "uses", "classes")}
        return replace(self, **own)

    def check_alike(self, other: Extras) -> None:
        """Raise BadModel if the extras of two models keep them from being merged."""
        if (self.recipe is None) != (other.recipe is None):
            raise BadModel("the models have different recipes: one has a recipe and the other has none.")
        if self.recipe is not None and other.recipe is not None:
            differences = self.recipe.differences(other.recipe)
            if differences:
                more = f"; and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
                raise BadModel(
                    f"the models read data with different recipes: {'; '.join(differences[:_SHOWN])}{more}. "
                    f"Train one of them with {option('like', 'OTHER')}."
                )
        if any(one != another for one, another in zip(self.classes, other.classes, strict=False)):
            raise BadModel(f"the models have different class names; train one of them with {option('like', 'OTHER')}.")
        if (
            self.numbering is not None
            and other.numbering is not None
            and not self.numbering.is_compatible(other.numbering)
        ):
            raise BadModel(
                f"the models number their features differently; train them with {option('like', 'MODEL')}, or "
                "hash the names."
            )

    def merge(self, other: Extras, base: Extras | None = None) -> Extras:
        """Return the extras of a merged model: all names, the longer numbering, and the summed counters.

        Counts of `base`, from which both models were resumed, count once. Unfinished runs are dropped.
        """
        for one in (other,) if base is None else (other, base):
            self.check_alike(one)
        base = Extras() if base is None else base
        names = copy.deepcopy(self.names or other.names)
        if self.names is not None and names is not None and other.names is not None:
            names.merge(other.names)
        numberings = (numbering for numbering in (self.numbering, other.numbering) if numbering is not None)
        return Extras(
            recipe=self.recipe,
            names=names,
            numbering=copy.deepcopy(max(numberings, key=len, default=None)),
            uses=None if self.uses is None or other.uses is None else self.uses.merge(other.uses, base.uses),
            counters=_added(self.counters, other.counters, base.counters),
            finished=list(dict.fromkeys([*self.finished, *other.finished])),
            classes=max(self.classes, other.classes, key=len),
            groups=self.groups or other.groups,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the extras without arrays as JSON for the header of a model file; missing parts are left out."""
        kinds = ("recipe", "counters", "unfinished", "rounds")
        parts = {name: getattr(self, name) for name in kinds}
        plain: dict[str, Any] = {name: part.to_json() for name, part in parts.items() if part is not None}
        plain |= {"classes": list(self.classes)} if self.classes else {}
        plain |= {"groups": True} if self.groups else {}
        return plain | ({"finished": [mark.to_json() for mark in self.finished]} if self.finished else {})

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the extras by name, for a model file."""
        return {
            prefix + name: array
            for prefix, part in ((_NAMES, self.names), (_NUMBERING, self.numbering), (_USES, self.uses))
            if part is not None
            for name, array in part.arrays().items()
        }

    @classmethod
    def from_file(cls, plain: Any, arrays: Mapping[str, np.ndarray]) -> Extras:
        """Return the extras from the results of `to_json` and `arrays`."""
        plain = _mapping("attached", plain)

        def part(name: str, kind: Any) -> Any:
            return None if plain.get(name) is None else kind.from_json(plain[name])

        def under(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

        extras = cls(
            counters=part("counters", Counters),
            unfinished=part("unfinished", ResumePoint),
            finished=_marks(plain.get("finished")),
            classes=_class_names(plain.get("classes")),
            rounds=part("rounds", RoundProgress),
            groups=plain.get("groups") is True,
        )
        if plain.get("recipe") is None:
            return extras
        from bayou.recipe.feature_counts import FeatureCounts
        from bayou.recipe.feature_names import FeatureNames
        from bayou.recipe.numbering import Numbering
        from bayou.recipe.recipe import Recipe

        recipe, names, numbering, uses = part("recipe", Recipe), under(_NAMES), under(_NUMBERING), under(_USES)
        return replace(
            extras,
            recipe=recipe,
            names=FeatureNames.from_arrays(recipe.n_features, names) if names else None,
            numbering=Numbering.from_arrays(recipe.n_features, numbering) if numbering else None,
            uses=FeatureCounts.from_arrays(uses) if uses else None,
        )


def _added(mine: Counters | None, theirs: Counters | None, base: Counters | None) -> Counters | None:
    if mine is None or theirs is None:
        return mine or theirs
    return mine + theirs if base is None else mine + theirs - base


def _mapping(name: str, plain: Any) -> Mapping[str, Any]:
    if not isinstance(plain, Mapping):
        raise BadModel(f"the data stored with the model ({name}) are {plain!r}; they must be a mapping.")
    return plain


def _class_names(plain: Any) -> list[str]:
    if not isinstance(plain, list | None) or not all(isinstance(name, str) for name in plain or ()):
        raise BadModel(f"the model's class names are {plain!r}; they must be a list of names.")
    return list(plain or ())


def _marks(plain: Any) -> list[FileFingerprint]:
    if not isinstance(plain, list | None):
        raise BadModel(f"the model describes its files as {plain!r}; it must be a list.")
    return [FileFingerprint.from_json(one) for one in plain or ()]


def _numbers(what: str, plain: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Return the numeric fields of a dataclass that `plain` has; the others keep their defaults."""
    names = [part.name for part in fields(kind) if isinstance(part.default, int | float | None)]
    numbers = {name: plain[name] for name in names if plain.get(name) is not None}
    for name, value in numbers.items():
        if not isinstance(value, int | float):
            raise BadModel(f"the model's {what} have {name} = {value!r}; it must be a number.")
    return numbers
