"""How large the weights of each column are, as a bank has learned it before it knows any one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from bayou.recipe.groups import columns_by_group


class ShownPrior(NamedTuple):
    """What was learned of the size of a group's weights."""

    group: int
    column: str | None  # where the recipe names columns
    sd: float
    features: int  # that were met

    @property
    def name(self) -> str:
        return self.column or ("of no column" if self.group == 0 else f"group {self.group}")


def shown_priors(learner: Any) -> list[ShownPrior]:
    """The largest first; nothing of a learner that does not learn them.

    >>> from bayou import Batch
    >>> from bayou.learners import Bank
    >>> bank = Bank(n_features=4)
    >>> rows = Batch.from_rows([{0: 1.0, 2: 1.0}, {1: 1.0, 3: 1.0}], labels=[1, 0]).with_groups([0, 1, 0, 1])
    >>> p = bank.learn(rows)
    >>> sorted(prior.name for prior in shown_priors(bank))
    ['group 1', 'of no column']
    """
    recipe = learner.extras.recipe
    names = {} if recipe is None else columns_by_group(recipe)
    found = learner.priors() if hasattr(learner, "priors") else []
    each = [ShownPrior(prior.group, names.get(prior.group), prior.sd, prior.features) for prior in found]
    return sorted(each, key=lambda prior: -prior.sd)
