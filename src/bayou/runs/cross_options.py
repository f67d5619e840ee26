"""Pairs of features requested by the user: a binary bank forms them itself, in a separate lane."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.core import registry
from bayou.recipe import crosses
from bayou.recipe.groups import crossed_groups
from bayou.recipe.recipe import Recipe
from bayou.runs.learner_specs import LearnerSpec
from bayou.sources import Source


def leave_pairs(spec: LearnerSpec, source: Source) -> LearnerSpec:
    """Return `spec` with the recipe's pairs as parameters if it is a bank; other learners get pairs as features."""
    if spec.record.name != registry.DEFAULT:
        return spec
    source.leave_pairs()
    pairs = spec.parameters.get("pairs") or ("crosses" if source.recipe.pairs else None)
    if pairs is None:
        return spec
    cross = spec.parameters.get("cross", crossed_groups(source.recipe))
    return spec._replace(parameters={**spec.parameters, "pairs": pairs, "cross": cross})


def crosses_in_words(recipe: Recipe, spec: LearnerSpec) -> Iterator[str]:
    """Yield notes on what crosses and pair lanes add to a row."""
    if crossed := crosses.in_words(recipe):
        yield crossed
    if (pairs := spec.parameters.get("pairs")) is not None:
        from bayou.learners.bank.crosses import MOST_PAIRS

        factors = ", and factors of every feature" if "factors" in pairs else ""
        until = "; lanes that do not pay are dropped" if "auto" in pairs else ""
        yield f"pairs have lanes of their own: up to {MOST_PAIRS:,} pairs per row{factors}{until}"
