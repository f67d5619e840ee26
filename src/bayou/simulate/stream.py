"""Streams of simulated examples with known true weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.checks import check_choice, check_int

# Small enough that a batch of a few dozen features a row stays in the second-level cache.
BATCH_SIZE = 8192


class FeatureSampler(Protocol):
    """Generator of the features and values of examples."""

    def draw(self, key: np.uint64, start: int, size: int, weights: np.ndarray, link: int) -> tuple:
        """Return (indptr, indices, values, labels) of `size` examples from `start` on."""


@dataclass(frozen=True)
class Simulation:
    """An endless stream of examples; `batches` yields any section of it.

    Attributes:
        name: name of the generator.
        n_features: d; features are 0 to d - 1.
        weights: the true weights, float64.
        link: "logistic" or "probit".
        prior_variance: the variance of the true weights, one number or one per feature.
        seed: seed of the weights and the examples.

    >>> from bayou import simulate
    >>> stream = simulate.random(n_features=50, seed=3)
    >>> [len(batch) for batch in stream.batches(1000, batch_size=600)], stream.weights.shape
    ([600, 400], (50,))
    """

    name: str
    n_features: int
    weights: np.ndarray
    link: str
    prior_variance: float | np.ndarray
    seed: int
    _activity: FeatureSampler = field(repr=False)

    def batches(self, n_examples: int, batch_size: int = BATCH_SIZE, start: int = 0) -> Iterator[Batch]:
        """Yield batches of the examples start to start + n_examples - 1, with labels +1 and -1."""
        n_examples = check_int("n_examples", n_examples, 0)
        batch_size = check_int("batch_size", batch_size, 1)
        start = check_int("start", start, 0)
        return self._batches(start, start + n_examples, batch_size)

    def _batches(self, start: int, stop: int, batch_size: int) -> Iterator[Batch]:
        # Spawned, so that examples are independent of the random numbers of the weights.
        key = np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1, np.uint64)[0]
        link = links.link_code(self.link)
        for first in range(start, stop, batch_size):
            size = min(batch_size, stop - first)
            indptr, indices, values, labels = self._activity.draw(key, first, size, self.weights, link)
            yield Batch.from_arrays(indptr, indices, values, labels)


def simulation(
    name: str, n_features: int, std: Any, weights: str, link: str, seed: int, activity: FeatureSampler
) -> Simulation:
    """Draw the true weights, with standard deviation `std`, and return the stream."""
    links.link_code(link)
    seed = check_int("seed", seed, 0)
    generator = np.random.default_rng(seed)
    if check_choice("weights", weights, {"normal": True, "uniform": False}):
        true = generator.standard_normal(n_features)
    else:
        true = generator.uniform(-math.sqrt(3.0), math.sqrt(3.0), n_features)  # of variance 1
    true *= std
    return Simulation(name, n_features, true, link, std**2, seed, activity)
