"""Scales of the priors that a bank has learned for the weights of each column."""

from __future__ import annotations

from typing import Any, NamedTuple

from bayou.recipe.groups import columns_by_group


class GroupPrior(NamedTuple):
    """Learned prior of a group's weights: the standard deviation of a weight that has not been learned yet."""

    group: int
    column: str | None  # None if the recipe names no columns
    sd: float
    features: int  # number of features seen

    @property
    def name(self) -> str:
        return self.column or ("of no column" if self.group == 0 else f"group {self.group}")


def group_priors(learner: Any) -> list[GroupPrior]:
    """Return the prior of each group, largest first; empty for learners without learned priors.

    >>> from bayou import Batch
    >>> from bayou.learners import Bank
    >>> bank = Bank(n_features=4)
    >>> rows = Batch.from_rows([{0: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}], labels=[1, 0]).with_groups([0, 1, 0, 1])
    >>> p = bank.learn(rows)
    >>> sorted(prior.name for prior in group_priors(bank))
    ['group 1', 'of no column']
    """
    recipe = learner.extras.recipe
    names = {} if recipe is None else columns_by_group(recipe)
    priors = learner.priors() if hasattr(learner, "priors") else []
    named = [GroupPrior(prior.group, names.get(prior.group), prior.sd, prior.features) for prior in priors]
    return sorted(named, key=lambda prior: -prior.sd)
