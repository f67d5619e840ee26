"""Features drawn from categories, for `categorical` and `longtail`."""

from __future__ import annotations

import numpy as np

from bayou.core import links
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix, unit
from bayou.simulate.seeds import example_state


class CategoricalFeatures:
    """Features drawn from each category, with probabilities that depend only on the index within the category.

    So one table of cumulative probabilities serves categories of every size. For each of 4096 even slices of it, a
    guide table gives the start of the search.
    """

    SLICES = 4096

    def __init__(self, sizes: np.ndarray, n_picked: int, probabilities: np.ndarray) -> None:
        self.sizes, self.picked, self.chances = sizes, n_picked, probabilities
        self.cumulative = np.cumsum(probabilities)
        edges = np.arange(self.SLICES + 1) * (self.cumulative[-1] / self.SLICES)
        edge_indices = np.searchsorted(self.cumulative, edges, side="right")
        self.guide = np.minimum(edge_indices, len(probabilities) - 1).astype(np.uint32)

    def draw(self, key: np.uint64, start: int, size: int, weights: np.ndarray, link: int) -> tuple:
        per_row = len(self.sizes) * self.picked
        indptr = np.arange(size + 1) * per_row
        indices, labels = np.empty(size * per_row, np.uint32), np.empty(size)
        _sample(
            key, start, self.sizes, self.picked, self.chances, self.cumulative, self.guide, weights, link,
            indices, labels,
        )  # fmt: skip
        return indptr, indices, np.ones(size * per_row, np.float32), labels


# After this many draws of already chosen features, draw from the others by adding up their probabilities.
_TRIES = 8


@kernel
def _sample(key, start, sizes, n_picked, probabilities, cumulative, guide, weights, link, indices, labels):
    """Write the examples from `start` on.

    A single flat function: passing arrays to another one in the inner loop would count references at every draw, which
    takes three times as long as the draw.
    """
    slices = guide.size - 1
    to_slice = slices / cumulative[cumulative.size - 1]
    chosen_indices = empty(n_picked, np.int64)
    k = 0
    for row in range(labels.size):
        state = example_state(key, start + row)
        score = 0.0
        offset = 0
        for category in range(sizes.size):
            size = sizes[category]
            n = 0
            tries = 0
            while n < n_picked:
                state += GOLDEN
                chance = unit(mix(state))
                if tries == _TRIES:
                    drawn = _scan(chance, size, n, chosen_indices, probabilities)
                else:
                    # The first index whose cumulative probability is above the target.
                    target = chance * cumulative[size - 1]
                    slot = min(np.int64(target * to_slice), slices - 1)
                    last = min(np.int64(guide[slot + 1]), size - 1)
                    drawn = min(np.int64(guide[slot]), last)
                    while last - drawn > 8:
                        middle = (drawn + last) >> 1
                        if cumulative[middle] > target:
                            last = middle
                        else:
                            drawn = middle + 1
                    while drawn < last and cumulative[drawn] <= target:
                        drawn += 1
                # Insert it among the n chosen ones, in ascending order, unless it is one of them.
                position = n
                while position > 0 and chosen_indices[position - 1] > drawn:
                    position -= 1
                if position > 0 and chosen_indices[position - 1] == drawn:
                    tries += 1
                    continue
                for m in range(n, position, -1):
                    chosen_indices[m] = chosen_indices[m - 1]
                chosen_indices[position] = drawn
                n += 1
                tries = 0
            for n in range(n_picked):
                feature = offset + chosen_indices[n]
                indices[k] = feature
                score += weights[feature]
                k += 1
            offset += size
        labels[row] = 1.0 if unit(mix(state + GOLDEN)) < links.cdf(link, score) else -1.0


@kernel
def _scan(unit, size, n, chosen_indices, probabilities):
    """Draw one of the indices that are not chosen yet, by a linear scan."""
    total = 0.0
    n_passed = 0
    for index in range(size):
        if n_passed < n and chosen_indices[n_passed] == index:
            n_passed += 1
        else:
            total += probabilities[index]
    target = unit * total
    drawn = -1
    n_passed = 0
    for index in range(size):
        if n_passed < n and chosen_indices[n_passed] == index:
            n_passed += 1
            continue
        target -= probabilities[index]
        # Fall back on the first remaining index if the probabilities of all remaining ones underflow to 0.
        if drawn < 0 or probabilities[index] > 0.0:
            drawn = index
        if target < 0.0:
            break
    return drawn
