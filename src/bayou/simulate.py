"""Streams with known true weights: the generators of marginal-gaussian, section 4 and appendix E.

    random       each of d features is active with the same probability, independently; values 1
    nonbinary    the same, values uniform in [0, 1]
    categorical  some features picked from each of several categories, evenly or with weights exp(-n / decay)
    longtail     one feature from each of 22 categories of 2^j features, by Zipf's law: 8,388,606 features
    groups       as random, where the true weights of different features have different spreads

True weights are normal or uniform around 0. Labels follow P(y = 1) = F(sum_i x_i w_i), F logistic or probit.

**Example number t of a seed is always the same**, whatever the batch size and wherever a stream starts, so a
stream can be cut, resumed and shared among workers. Its random numbers are a splitmix64 sequence of its own,
which starts at a hash of (seed, t). The true weights come from NumPy's generator with the same seed.

>>> stream = random(n_features=200, active=0.1, seed=7)
>>> whole = next(stream.batches(100))
>>> later = next(stream.batches(40, start=60))
>>> bool((later.indices == whole[60:].indices).all() and (later.labels == whole[60:].labels).all())
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.batch import MAX_FEATURES, Batch
from bayou.core.checks import positive_number, whole_number
from bayou.core.errors import BadInput
from bayou.kernels.random import GOLDEN, mix, unit

# Small enough that a batch of a few dozen features a row stays in the second-level cache.
BATCH_SIZE = 8192


class _Activity(Protocol):
    """Which features an example has, and with what values."""

    def draw(self, key: np.uint64, start: int, size: int, weights: np.ndarray, link: int) -> tuple:
        """(indptr, indices, values, labels) of examples start, start + 1, ..."""


@dataclass(frozen=True)
class Simulation:
    """An endless stream of examples, of which `batches` cuts a piece.

    Attributes:
        name: the generator's name.
        n_features: d; features are 0 to d - 1.
        weights: the true weights, float64.
        link: "logistic" or "probit".
        prior_variance: what the true weights' variance is, one number or one per feature.
        seed: what the weights and the examples were drawn with.
    """

    name: str
    n_features: int
    weights: np.ndarray
    link: str
    prior_variance: float | np.ndarray
    seed: int
    _activity: _Activity = field(repr=False)

    def batches(self, n_examples: int, batch_size: int = BATCH_SIZE, start: int = 0) -> Iterator[Batch]:
        """Examples start to start + n_examples - 1, with labels +1 and -1."""
        n_examples = whole_number("n_examples", n_examples, 0)
        batch_size = whole_number("batch_size", batch_size, 1)
        start = whole_number("start", start, 0)
        return self._batches(start, start + n_examples, batch_size)

    def _batches(self, start: int, stop: int, batch_size: int) -> Iterator[Batch]:
        # Spawned, so that it has nothing in common with the numbers the weights were drawn from.
        key = np.random.SeedSequence(self.seed, spawn_key=(1,)).generate_state(1, np.uint64)[0]
        link = links.code(self.link)
        for first in range(start, stop, batch_size):
            size = min(batch_size, stop - first)
            indptr, indices, values, labels = self._activity.draw(key, first, size, self.weights, link)
            yield Batch.from_arrays(indptr, indices, values, labels)


# ----------------------------------------------------------------------------------------------------
# The generators
# ----------------------------------------------------------------------------------------------------


def random(
    n_features: int = 200,
    active: float = 0.1,
    weight_std: float = 1.0,
    weights: str = "normal",
    link: str = "logistic",
    seed: int = 0,
) -> Simulation:
    """Binary features, each active with probability `active` (E[d_t]/d): Table 1, figures 1, 4 and 5 right.

    >>> stream = random(n_features=200, active=0.1, weight_std=2.0)
    >>> sum(batch.nonzeros for batch in stream.batches(10_000)) // 10_000
    19
    """
    n_features = whole_number("n_features", n_features, 1, MAX_FEATURES)
    std = positive_number("weight_std", weight_std)
    activity = _Coins(n_features, _share("active", active), binary=True)
    return _simulation("random", n_features, std, weights, link, seed, activity)


def nonbinary(
    n_features: int = 200,
    active: float = 0.2,
    weight_std: float = 2.0,
    weights: str = "normal",
    link: str = "logistic",
    seed: int = 0,
) -> Simulation:
    """As `random`, with values uniform in [0, 1]: figure 5 left."""
    n_features = whole_number("n_features", n_features, 1, MAX_FEATURES)
    std = positive_number("weight_std", weight_std)
    activity = _Coins(n_features, _share("active", active), binary=False)
    return _simulation("nonbinary", n_features, std, weights, link, seed, activity)


def categorical(
    n_categories: int = 10,
    category_size: int = 200,
    picked: int = 5,
    decay: float | None = None,
    weight_std: float = 2.0,
    weights: str = "normal",
    link: str = "logistic",
    seed: int = 0,
) -> Simulation:
    """`picked` different features from each category, one after another without replacement: figure 6.

    Feature n of a category (n = 0, 1, ...) is drawn evenly, or with probability proportional to
    exp(-n / decay); 20 gives the right half of figure 6.
    """
    n_categories = whole_number("n_categories", n_categories, 1)
    category_size = whole_number("category_size", category_size, 1)
    n_features = whole_number("n_categories * category_size", n_categories * category_size, 1, MAX_FEATURES)
    picked = whole_number("picked", picked, 1, category_size)
    std = positive_number("weight_std", weight_std)
    order = np.arange(category_size)
    chances = np.ones(category_size) if decay is None else np.exp(-order / positive_number("decay", decay))
    activity = _Categories(np.full(n_categories, category_size), picked, chances)
    return _simulation("categorical", n_features, std, weights, link, seed, activity)


def longtail(
    n_categories: int = 22,
    exponent: float = 1.75,
    weight_std: float = 2.0,
    weights: str = "normal",
    link: str = "logistic",
    seed: int = 0,
) -> Simulation:
    """One feature from each category, category j = 1, 2, ... having 2^j of them: figure 2 left.

    Feature n of its category (n = 0, 1, ...) is drawn with probability proportional to 1/(n + 1)^exponent.

    >>> longtail(n_categories=10).n_features
    2046
    """
    n_categories = whole_number("n_categories", n_categories, 1, 28)
    std = positive_number("weight_std", weight_std)
    sizes = 2 ** np.arange(1, n_categories + 1)
    chances = np.arange(1, sizes[-1] + 1, dtype=np.float64) ** -positive_number("exponent", exponent)
    activity = _Categories(sizes, 1, chances)
    return _simulation("longtail", int(sizes.sum()), std, weights, link, seed, activity)


def groups(
    groups: Sequence[tuple[int, float]] = ((100, 0.5), (100, 2.0)),
    active: float = 0.1,
    weights: str = "normal",
    link: str = "logistic",
    seed: int = 0,
) -> Simulation:
    """As `random`, several priors governing a subset of features each: `groups` lists (count, weight std).

    >>> groups([(2, 1.0), (1, 3.0)]).prior_variance
    array([1., 1., 9.])
    """
    try:
        counts, stds = zip(*((count, std) for count, std in groups), strict=True)
    except (TypeError, ValueError):
        raise BadInput(
            f"groups is {groups!r}; it must list pairs (count, weight std), such as [(100, 0.5), (100, 2)]."
        ) from None
    sizes = [whole_number("the count of a group", count, 1) for count in counts]
    std = np.repeat([positive_number("the weight std of a group", std) for std in stds], sizes)
    n_features = whole_number("the number of features", len(std), 1, MAX_FEATURES)
    activity = _Coins(n_features, _share("active", active), binary=True)
    return _simulation("groups", n_features, std, weights, link, seed, activity)


GENERATORS: dict[str, Callable[..., Simulation]] = {
    "random": random,
    "nonbinary": nonbinary,
    "categorical": categorical,
    "longtail": longtail,
    "groups": groups,
}


def _simulation(
    name: str, n_features: int, std: Any, weights: str, link: str, seed: int, activity: _Activity
) -> Simulation:
    links.code(link)
    seed = whole_number("seed", seed, 0)
    generator = np.random.default_rng(seed)
    if weights == "normal":
        true = generator.standard_normal(n_features)
    elif weights == "uniform":
        true = generator.uniform(-math.sqrt(3.0), math.sqrt(3.0), n_features)  # of variance 1
    else:
        raise BadInput(f"weights is {weights!r}; it must be 'normal' or 'uniform'.")
    true *= std
    return Simulation(name, n_features, true, link, std**2, seed, activity)


def _share(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not 0 < value <= 1:
        raise BadInput(f"{name} is {value!r}; it must be a share of the features, > 0 and <= 1.")
    return float(value)


# ----------------------------------------------------------------------------------------------------
# Random numbers: splitmix64
# ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _example_state(key, number):
    """Where the sequence of an example starts: hashed, else each would be its neighbour's, moved by one."""
    return mix(key + np.uint64(number) * GOLDEN)


# ----------------------------------------------------------------------------------------------------
# Independent features: random, nonbinary, groups
# ----------------------------------------------------------------------------------------------------


class _Coins:
    """Every feature flips its own coin; only the heads are visited.

    The number of tails between two heads is geometric, P(k) = p (1 - p)^k. It comes from an alias table of
    the outcomes 0 .. n-1 and "n or more". As coins have no memory, the last is n plus a geometric number,
    drawn the slow way: the whole part of log(u) / log(1 - p), u uniform.
    """

    # A longer table would leave the first-level cache.
    LONGEST = 1024

    def __init__(self, n_features: int, active: float, binary: bool) -> None:
        self.n_features, self.active, self.binary = n_features, active, binary
        self.n_outcomes = min(n_features, self.LONGEST)
        stay = 1.0 - active
        self.log_stay = math.log1p(-active) if active < 1.0 else -math.inf
        chances = active * stay ** np.arange(self.n_outcomes)
        self.thresholds, self.others = _alias_table(np.append(chances, stay**self.n_outcomes))

    def draw(self, key: np.uint64, start: int, size: int, weights: np.ndarray, link: int) -> tuple:
        indptr, labels = np.empty(size + 1, np.int64), np.empty(size)
        mean = size * self.n_features * self.active
        room = int(mean + 8 * math.sqrt(mean * (1 - self.active)) + 64)
        while True:
            indices = np.empty(room, np.uint32)
            values = np.ones(room, np.float32) if self.binary else np.empty(room, np.float32)
            used = _flip_coins(
                key, start, self.thresholds, self.others, self.n_outcomes, self.log_stay, self.binary,
                weights, link, indptr, indices, values, labels,
            )  # fmt: skip
            if used >= 0:
                return indptr, indices[:used], values[:used], labels
            room *= 2  # eight standard deviations: this hardly ever happens


@njit(cache=True, nogil=True, error_model="numpy")
def _flip_coins(
    key,
    start,
    thresholds,
    others,
    n_outcomes,
    log_stay,
    binary,
    weights,
    link,
    indptr,
    indices,
    values,
    labels,
):
    """Fill in the examples from `start` on; how many features they have, or -1 if there is no room."""
    mask = np.uint64(thresholds.size - 1)
    shift = np.uint64(_log2(thresholds.size))
    indptr[0] = 0
    k = 0
    for row in range(labels.size):
        state = _example_state(key, start + row)
        score = 0.0
        feature = 0
        while True:
            state += GOLDEN
            bits = mix(state)
            cell = bits & mask
            other = np.int64(others[cell])
            skip = np.int64(cell) if bits >> shift < thresholds[cell] else other
            if skip == n_outcomes:
                state += GOLDEN
                more = math.log(1.0 - unit(mix(state))) / log_stay
                skip += np.int64(min(more, np.float64(weights.size)))
            feature += skip
            if feature >= weights.size:
                break
            if k == indices.size:
                return -1
            indices[k] = feature
            if binary:
                score += weights[feature]
            else:
                state += GOLDEN
                # 2^24 even steps, none of them 0: a feature that is there has a value.
                values[k] = (np.float32(mix(state) >> np.uint64(40)) + np.float32(0.5)) * np.float32(2**-24)
                score += np.float64(values[k]) * weights[feature]
            k += 1
            feature += 1
        indptr[row + 1] = k
        labels[row] = 1.0 if unit(mix(state + GOLDEN)) < links.cdf(link, score) else -1.0
    return k


@njit(cache=True, nogil=True)
def _log2(size):
    bits = 0
    while 1 << bits < size:
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def _alias_table(chances):
    """Walker's alias table, of a power of two of cells that are equally likely to be drawn.

    A 64-bit draw names a cell by its low bits. The other bits, as a number, are below the cell's threshold
    with the probability that the outcome is the cell's own number and not `others[cell]`.
    """
    bits = _log2(chances.size)
    n = 1 << bits
    height = np.zeros(n)
    height[: chances.size] = chances * (n / chances.sum())
    thresholds = np.zeros(n, np.uint64)
    others = np.arange(n).astype(np.uint32)
    low, high = np.empty(n, np.int64), np.empty(n, np.int64)
    n_low, n_high = 0, 0
    for cell in range(n):
        if height[cell] < 1.0:
            low[n_low] = cell
            n_low += 1
        else:
            high[n_high] = cell
            n_high += 1
    top = 2.0 ** (64 - bits)
    while n_low > 0 and n_high > 0:
        n_low -= 1
        poor, rich = low[n_low], high[n_high - 1]
        thresholds[poor] = np.uint64(height[poor] * top)
        others[poor] = rich
        height[rich] -= 1.0 - height[poor]
        if height[rich] < 1.0:
            n_high -= 1
            low[n_low] = rich
            n_low += 1
    # What is left is full up to rounding: its own number either way.
    return thresholds, others


# ----------------------------------------------------------------------------------------------------
# Categories: categorical, longtail
# ----------------------------------------------------------------------------------------------------


class _Categories:
    """Some features from each category, by chances that depend only on the number within the category.

    Then one table of cumulated chances serves categories of every size. A guide tells for each of 4096 even
    slices of it where to begin to look.
    """

    SLICES = 4096

    def __init__(self, sizes: np.ndarray, picked: int, chances: np.ndarray) -> None:
        self.sizes, self.picked, self.chances = sizes, picked, chances
        self.cumulated = np.cumsum(chances)
        edges = np.arange(self.SLICES + 1) * (self.cumulated[-1] / self.SLICES)
        found = np.searchsorted(self.cumulated, edges, side="right")
        self.guide = np.minimum(found, len(chances) - 1).astype(np.uint32)

    def draw(self, key: np.uint64, start: int, size: int, weights: np.ndarray, link: int) -> tuple:
        per_row = len(self.sizes) * self.picked
        indptr = np.arange(size + 1) * per_row
        indices, labels = np.empty(size * per_row, np.uint32), np.empty(size)
        _pick(
            key, start, self.sizes, self.picked, self.chances, self.cumulated, self.guide, weights, link,
            indices, labels,
        )  # fmt: skip
        return indptr, indices, np.ones(size * per_row, np.float32), labels


# So many draws of a feature that was picked already, and the chances of the others are added up instead.
_TRIES = 8


@njit(cache=True, nogil=True, error_model="numpy")
def _pick(key, start, sizes, picked, chances, cumulated, guide, weights, link, indices, labels):
    """Fill in the examples from `start` on.

    One flat function: handing arrays to another in the inner loop would count references at every draw, which
    takes three times as long as the draw.
    """
    slices = guide.size - 1
    to_slice = slices / cumulated[cumulated.size - 1]
    chosen = np.empty(picked, np.int64)
    k = 0
    for row in range(labels.size):
        state = _example_state(key, start + row)
        score = 0.0
        offset = 0
        for category in range(sizes.size):
            size = sizes[category]
            n = 0
            tries = 0
            while n < picked:
                state += GOLDEN
                chance = unit(mix(state))
                if tries == _TRIES:
                    drawn = _scan(chance, size, n, chosen, chances)
                else:
                    # The first number whose cumulated chance is above the target.
                    target = chance * cumulated[size - 1]
                    slot = min(np.int64(target * to_slice), slices - 1)
                    last = min(np.int64(guide[slot + 1]), size - 1)
                    drawn = min(np.int64(guide[slot]), last)
                    while last - drawn > 8:
                        middle = (drawn + last) >> 1
                        if cumulated[middle] > target:
                            last = middle
                        else:
                            drawn = middle + 1
                    while drawn < last and cumulated[drawn] <= target:
                        drawn += 1
                # Put it where it belongs among the n that were chosen, which ascend, unless it is there.
                place = n
                while place > 0 and chosen[place - 1] > drawn:
                    place -= 1
                if place > 0 and chosen[place - 1] == drawn:
                    tries += 1
                    continue
                for m in range(n, place, -1):
                    chosen[m] = chosen[m - 1]
                chosen[place] = drawn
                n += 1
                tries = 0
            for n in range(picked):
                feature = offset + chosen[n]
                indices[k] = feature
                score += weights[feature]
                k += 1
            offset += size
        labels[row] = 1.0 if unit(mix(state + GOLDEN)) < links.cdf(link, score) else -1.0


@njit(cache=True, nogil=True)
def _scan(unit, size, n, chosen, chances):
    """Draw among the numbers that are not chosen by going through all of them."""
    total = 0.0
    taken = 0
    for number in range(size):
        if taken < n and chosen[taken] == number:
            taken += 1
        else:
            total += chances[number]
    target = unit * total
    drawn = -1
    taken = 0
    for number in range(size):
        if taken < n and chosen[taken] == number:
            taken += 1
            continue
        target -= chances[number]
        # The first that is left stands in where all that are left have chances too small for a number.
        if drawn < 0 or chances[number] > 0.0:
            drawn = number
        if target < 0.0:
            break
    return drawn
