"""The five generators: each checks its parameters and returns a `Simulation`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayou.core.batch import MAX_FEATURES
from bayou.core.checks import check_int, check_positive
from bayou.core.errors import BadInput
from bayou.simulate.bernoulli import IndependentFeatures
from bayou.simulate.categories import CategoricalFeatures
from bayou.simulate.stream import Simulation, simulation

LARGEST_STD = 1e100


def random(
    n_features: int = 200, active: float = 0.1,
    weight_std: float = 1.0, weights: str = "normal", link: str = "logistic", seed: int = 0,
) -> Simulation:  # fmt: skip
    """Return a stream of binary features, each active with probability `active` (E[d_t]/d).

    Used in table 1 and figures 1, 4 and 5 right.

    >>> stream = random(n_features=200, active=0.1, weight_std=2.0)
    >>> sum(batch.nonzeros for batch in stream.batches(10_000)) // 10_000
    19
    """
    std = _std("weight_std", weight_std)
    return _independent("random", n_features, active, True, std, weights, link, seed)


def nonbinary(
    n_features: int = 200, active: float = 0.2,
    weight_std: float = 2.0, weights: str = "normal", link: str = "logistic", seed: int = 0,
) -> Simulation:  # fmt: skip
    """Return a stream like `random`, with values uniform in [0, 1] (figure 5 left).

    >>> batch = next(nonbinary(n_features=20).batches(100))
    >>> bool(0 < batch.values.min() < batch.values.max() < 1)
    True
    """
    std = _std("weight_std", weight_std)
    return _independent("nonbinary", n_features, active, False, std, weights, link, seed)


def categorical(
    n_categories: int = 10, category_size: int = 200, picked: int = 5, decay: float | None = None,
    weight_std: float = 2.0, weights: str = "normal", link: str = "logistic", seed: int = 0,
) -> Simulation:  # fmt: skip
    """Return a stream with `picked` features from each category, drawn without replacement (figure 6).

    Feature n of a category (n = 0, 1, ...) is drawn evenly, or with probability proportional to
    exp(-n / decay); 20 gives the right half of figure 6.

    >>> batch = next(categorical(n_categories=3, category_size=10, picked=2).batches(5))
    >>> np.diff(batch.indptr).tolist()  # two features of each of three categories
    [6, 6, 6, 6, 6]
    """
    n_categories = check_int("n_categories", n_categories, 1)
    category_size = check_int("category_size", category_size, 1)
    n_features = check_int("n_categories * category_size", n_categories * category_size, 1, MAX_FEATURES)
    picked = check_int("picked", picked, 1, category_size)
    std = _std("weight_std", weight_std)
    order = np.arange(category_size)
    probabilities = np.ones(category_size) if decay is None else np.exp(-order / check_positive("decay", decay))
    activity = CategoricalFeatures(np.full(n_categories, category_size), picked, probabilities)
    return simulation("categorical", n_features, std, weights, link, seed, activity)


def longtail(
    n_categories: int = 22, exponent: float = 1.75,
    weight_std: float = 2.0, weights: str = "normal", link: str = "logistic", seed: int = 0,
) -> Simulation:  # fmt: skip
    """Return a stream with one feature from each category; category j = 1, 2, ... has 2^j features (figure 2 left).

    Feature n of its category (n = 0, 1, ...) is drawn with probability proportional to 1/(n + 1)^exponent.

    >>> longtail(n_categories=10).n_features
    2046
    """
    n_categories = check_int("n_categories", n_categories, 1, 28)
    std = _std("weight_std", weight_std)
    sizes = 2 ** np.arange(1, n_categories + 1)
    probabilities = np.arange(1, sizes[-1] + 1, dtype=np.float64) ** -check_positive("exponent", exponent)
    activity = CategoricalFeatures(sizes, 1, probabilities)
    return simulation("longtail", int(sizes.sum()), std, weights, link, seed, activity)


def groups(
    groups: Sequence[tuple[int, float]] = ((100, 0.5), (100, 2.0)), active: float = 0.1,
    weights: str = "normal", link: str = "logistic", seed: int = 0,
) -> Simulation:  # fmt: skip
    """Return a stream like `random`, with a prior per group of features: `groups` lists (count, weight std).

    >>> groups([(2, 1.0), (1, 3.0)]).prior_variance
    array([1., 1., 9.])
    """
    try:
        counts, stds = zip(*((count, std) for count, std in groups), strict=True)
    except (TypeError, ValueError):
        raise BadInput(
            f"groups is {groups!r}; it must list pairs (count, weight std), such as [(100, 0.5), (100, 2)]."
        ) from None
    sizes = [check_int("the count of a group", count, 1) for count in counts]
    std = np.repeat([_std("the weight std of a group", std) for std in stds], sizes)
    return _independent("groups", len(std), active, True, std, weights, link, seed)


GENERATORS: dict[str, Callable[..., Simulation]] = {
    "random": random,
    "nonbinary": nonbinary,
    "categorical": categorical,
    "longtail": longtail,
    "groups": groups,
}


def _independent(
    name: str, n_features: int, active: float, binary: bool, std: Any, weights: str, link: str, seed: int
) -> Simulation:
    n_features = check_int("n_features", n_features, 1, MAX_FEATURES)
    coins = IndependentFeatures(n_features, _share("active", active), binary)
    return simulation(name, n_features, std, weights, link, seed, coins)


def _std(name: str, value: Any) -> float:
    """Return the checked standard deviation of weights, bounded so that its square, the prior variance, is finite."""
    return check_positive(name, value, high=LARGEST_STD)


def _share(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not 0 < value <= 1:
        raise BadInput(f"{name} is {value!r}; it must be a share of the features, > 0 and <= 1.")
    return float(value)
