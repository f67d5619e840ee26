"""What a model carries besides its weights: the recipe, the names of its features, their numbering."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.core.errors import BadModel
from bayou.core.learner import Learner
from bayou.core.names import Names
from bayou.core.numbering import Numbering
from bayou.core.recipe import Recipe

_NAMES, _NUMBERING = "names.", "numbering."


@dataclass
class Carried:
    """Enough to read raw data for a model as it was read when the model learned."""

    recipe: Recipe
    names: Names | None = None
    numbering: Numbering | None = None

    @classmethod
    def new(cls, recipe: Recipe) -> Carried:
        """For a model that has seen nothing yet. svmlight's features have numbers, not names."""
        named = recipe.kind != "svmlight"
        return cls(
            recipe,
            Names(recipe.n_features) if named else None,
            Numbering(recipe.n_features) if named and recipe.exact else None,
        )

    @classmethod
    def of(cls, learner: Learner) -> Carried:
        """What a loaded model carries; one that was saved from Python, without a recipe, reads svmlight."""
        plain = learner.attached.get("recipe")
        if plain is None:
            numbers = learner.record.task == "regress"
            return cls(Recipe(kind="svmlight", bits=_bits(learner), exact=True, numbers=numbers))
        recipe = Recipe.from_json(plain)
        # A model made in Python may have any number of weights; its indices are taken as they are.
        as_is = recipe.kind == "svmlight" and recipe.exact and recipe.bits == _bits(learner)
        if recipe.n_features != learner.n_features and not as_is:
            raise BadModel(
                f"the model has {learner.n_features} weights, but its recipe makes {recipe.n_features} features."
            )
        names, numbering = (
            {key.removeprefix(part): array for key, array in learner.attached_arrays.items() if key.startswith(part)}
            for part in (_NAMES, _NUMBERING)
        )
        return cls(
            recipe,
            Names.from_arrays(recipe.n_features, names) if names else None,
            Numbering.from_arrays(recipe.n_features, numbering) if numbering else None,
        )

    def attach(self, learner: Learner) -> None:
        """Have a learner carry this into its file."""
        learner.attached["recipe"] = self.recipe.to_json()
        arrays = {
            key: array for key, array in learner.attached_arrays.items() if not key.startswith((_NAMES, _NUMBERING))
        }
        for part, held in ((_NAMES, self.names), (_NUMBERING, self.numbering)):
            if held is not None:
                arrays |= {part + key: array for key, array in held.arrays().items()}
        learner.attached_arrays = arrays

    def merge(self, other: Carried) -> None:
        """Take in the names that another model of the same recipe knows."""
        if self.numbering is not None and other.numbering is not None and not self.numbering.agrees(other.numbering):
            raise BadModel(
                "the models number their features differently; train them --like one model, or let names be hashed."
            )
        if other.numbering is not None and len(other.numbering) > len(self.numbering or ()):
            self.numbering = other.numbering
        if self.names is not None and other.names is not None:
            self.names.merge(other.names)


def _bits(learner: Learner) -> int:
    """Enough to number all its features."""
    return max((learner.n_features - 1).bit_length(), 1)
