"""The simulators: the right features at the right rates, honest labels, and example t always the same."""

import numpy as np
import pytest
from scipy import special, stats

from bayou import simulate
from bayou.core.errors import BadInput

# Small versions, so that every test can go over all of them.
SMALL = {
    "random": lambda **more: simulate.random(n_features=50, active=0.2, **more),
    "nonbinary": lambda **more: simulate.nonbinary(n_features=50, active=0.2, **more),
    "categorical": lambda **more: simulate.categorical(n_categories=3, category_size=20, picked=4, **more),
    "decaying": lambda **more: simulate.categorical(3, 20, 4, decay=5.0, **more),
    "longtail": lambda **more: simulate.longtail(n_categories=8, **more),
    "groups": lambda **more: simulate.groups([(20, 0.5), (30, 2.0)], active=0.2, **more),
}
every_generator = pytest.mark.parametrize("make", SMALL.values(), ids=SMALL.keys())

# Chi-square and the like: seeds are fixed, so a test that passes once passes forever.
SURPRISE = 1e-3


def whole(simulation, n, **more):
    (batch,) = simulation.batches(n, batch_size=n, **more)
    return batch


def assert_frequencies(counts, expected):
    """Counted as expected, by chi-square; rare outcomes are put together."""
    common = expected >= 10
    counts = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 0
    assert counts[~keep].sum() == 0
    assert stats.chisquare(counts[keep], expected[keep], sum_check=False).pvalue > SURPRISE


@every_generator
def test_example_t_is_the_same_whatever_the_batch_size_and_the_start(make):
    simulation = make(seed=3)
    all_at_once = whole(simulation, 1000)
    for n, batch_size, start in [(1000, 7, 0), (1000, 999, 0), (400, 64, 600), (1, 1, 999)]:
        row = start
        for batch in make(seed=3).batches(n, batch_size=batch_size, start=start):
            piece = all_at_once[row : row + len(batch)]
            for part in ("indptr", "indices", "values", "labels"):
                np.testing.assert_array_equal(getattr(batch, part), getattr(piece, part))
            row += len(batch)
        assert row == start + n


@every_generator
def test_another_seed_gives_other_weights_and_other_examples(make):
    one, two = make(seed=0), make(seed=1)
    assert not (one.weights == two.weights).any()
    a, b = whole(one, 200), whole(two, 200)
    assert a.nonzeros != b.nonzeros or (a.indices != b.indices).any()
    assert (a.labels != b.labels).any()


@every_generator
def test_rows_ascend_without_repeats_and_hold_float32(make):
    batch = whole(make(), 2000)
    steps = np.diff(batch.indices.astype(np.int64))
    within = np.ones(batch.nonzeros - 1, bool)
    starts = batch.indptr[1:-1]
    within[starts[(starts > 0) & (starts < batch.nonzeros)] - 1] = False
    assert (steps[within] > 0).all()
    assert batch.values.dtype == np.float32
    assert set(np.unique(batch.labels)) == {-1.0, 1.0}
    assert batch.max_index < make().n_features == len(make().weights)


@every_generator
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_labels_follow_the_true_weights(make, link):
    simulation = make(link=link, seed=5)
    batch = whole(simulation, 60_000)
    score = batch.to_csr(simulation.n_features).astype(float) @ simulation.weights
    p = (special.expit if link == "logistic" else special.ndtr)(score)
    positive = batch.labels > 0
    for group in np.array_split(np.argsort(p), 20):
        # One group in 30,000 is further off than this many standard errors.
        allowed = 4.2 * np.sqrt(np.sum(p[group] * (1 - p[group]))) + 1
        assert abs(np.sum(positive[group] - p[group])) < allowed


@pytest.mark.parametrize(("d", "active"), [(200, 0.1), (200, 1.0), (5000, 0.01), (100_000, 1e-4), (3, 0.5)])
def test_each_feature_is_active_with_its_probability(d, active):
    """Beyond 1024 features skips are too long for the table, and the logarithm steps in."""
    n = 20_000
    batch = whole(simulate.random(d, active, seed=2), n)
    lengths = np.diff(batch.indptr)
    if active == 1:
        assert (lengths == d).all()
        return
    longest = np.arange(lengths.max() + 1)
    expected = n * stats.binom.pmf(longest, d, active)
    assert_frequencies(np.bincount(lengths), expected)
    counts = np.bincount(batch.indices, minlength=d)
    blocks = [block.sum() for block in np.array_split(counts, min(d, 100))]
    sizes = [len(block) for block in np.array_split(counts, min(d, 100))]
    spread = (np.array(blocks) - n * active * np.array(sizes)) ** 2
    chi = np.sum(spread / (n * active * (1 - active) * np.array(sizes)))
    assert SURPRISE < stats.chi2.sf(chi, len(blocks)) < 1 - SURPRISE


def test_features_are_active_independently_of_each_other():
    batch = whole(simulate.random(20, 0.3, seed=4), 50_000)
    together = np.corrcoef(batch.to_csr(20).toarray(), rowvar=False)
    assert np.abs(together - np.eye(20)).max() < 4.5 / np.sqrt(50_000)


def test_neighbouring_examples_have_nothing_in_common():
    batch = whole(simulate.random(20, 0.3, seed=4), 50_000)
    X = batch.to_csr(20).toarray() - 0.3
    for lag in (1, 2):
        assert np.abs(X[lag:].T @ X[:-lag] / (0.21 * len(X))).max() < 4.5 / np.sqrt(50_000)


def test_nonbinary_values_are_uniform_and_never_zero():
    batch = whole(simulate.nonbinary(seed=1), 5000)
    assert 0 < batch.values.min() < 1e-4
    assert 0.9999 < batch.values.max() <= 1
    assert stats.kstest(batch.values, "uniform").pvalue > SURPRISE


def test_binary_generators_have_values_of_one():
    for make in (SMALL["random"], SMALL["categorical"], SMALL["longtail"], SMALL["groups"]):
        assert (whole(make(), 100).values == 1).all()


def test_longtail_is_the_papers():
    simulation = simulate.longtail(n_categories=12, seed=6)
    n = 100_000
    batch = whole(simulation, n)
    picked = batch.indices.reshape(n, 12).astype(np.int64)
    offset = 0
    for j in range(1, 13):
        within = picked[:, j - 1] - offset
        chances = np.arange(1, 2**j + 1) ** -1.75
        assert within.min() >= 0
        assert_frequencies(np.bincount(within, minlength=2**j), n * chances / chances.sum())
        offset += 2**j
    assert offset == simulation.n_features


def test_the_full_longtail_has_eight_million_features_and_reaches_far_into_the_tail():
    simulation = simulate.longtail()
    assert simulation.n_features == 8_388_606
    assert simulation.weights.std() == pytest.approx(2, rel=0.01)
    batch = whole(simulation, 200_000)
    last = batch.indices.reshape(-1, 22)[:, -1].astype(np.int64) - (2**22 - 2)
    chances = np.arange(1, 2**22 + 1) ** -1.75
    edges = np.append(2 ** np.arange(0, 18) - 1, 2**22)
    cumulated = np.append(0, np.cumsum(chances))
    expected = np.diff(cumulated[edges]) / cumulated[-1] * len(last)
    assert_frequencies(np.histogram(last, edges)[0], expected)


@pytest.mark.parametrize("decay", [None, 5.0])
def test_categories_are_picked_from_without_replacement(decay):
    """Chances of sets drawn one after another, from all orders in which a set can come."""
    size, picked, n = 6, 3, 60_000
    batch = whole(simulate.categorical(2, size, picked, decay, seed=8), n)
    rows = batch.indices.reshape(n, 2, picked).astype(np.int64) - np.array([0, size])[:, None]
    assert rows.min() >= 0
    assert rows.max() < size
    chances = np.ones(size) if decay is None else np.exp(-np.arange(size) / decay)
    expected = np.zeros(1 << size)
    for a in range(size):
        for b in set(range(size)) - {a}:
            for c in set(range(size)) - {a, b}:
                left = chances.sum() - np.array([0, chances[a], chances[a] + chances[b]])
                expected[1 << a | 1 << b | 1 << c] += np.prod(chances[[a, b, c]] / left)
    for category in range(2):
        sets = (1 << rows[:, category]).sum(axis=1)
        assert_frequencies(np.bincount(sets, minlength=1 << size), n * expected)


def test_everything_can_be_picked_even_what_is_never_drawn():
    """exp(-n / 0.01) is 0 for all but the first few: they are picked when nothing else is left."""
    for decay in (0.01, 1.0, None):
        batch = whole(simulate.categorical(2, 30, 30, decay), 50)
        np.testing.assert_array_equal(batch.indices.reshape(50, 60), np.arange(60)[None].repeat(50, axis=0))
    batch = whole(simulate.categorical(1, 30, 29, decay=1.0), 500)
    assert batch.nonzeros == 500 * 29


@pytest.mark.parametrize("weights", ["normal", "uniform"])
def test_true_weights_have_the_spread_asked_for(weights):
    simulation = simulate.random(n_features=200_000, active=1e-4, weight_std=3.0, weights=weights, seed=1)
    law = stats.norm(0, 3) if weights == "normal" else stats.uniform(-np.sqrt(27), 2 * np.sqrt(27))
    assert simulation.weights.std() == pytest.approx(3, rel=0.01)
    assert stats.kstest(simulation.weights, law.cdf).pvalue > SURPRISE
    assert simulation.prior_variance == 9
    assert simulation.weights.dtype == np.float64


def test_each_group_has_its_own_spread():
    simulation = simulate.groups([(50_000, 0.5), (30_000, 2.0)], active=1e-4, weights="uniform")
    assert simulation.weights[:50_000].std() == pytest.approx(0.5, rel=0.01)
    assert simulation.weights[50_000:].std() == pytest.approx(2.0, rel=0.01)
    np.testing.assert_array_equal(simulation.prior_variance, np.repeat([0.25, 4.0], [50_000, 30_000]))


def test_generators_are_found_by_name():
    for name, make in simulate.GENERATORS.items():
        few = {"n_categories": 3} if name == "longtail" else {}
        assert make(**few, seed=1).name == name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simulate.random(n_features=0), "n_features is 0; it must be a whole number from 1"),
        (lambda: simulate.random(n_features=2.5), "n_features is 2.5"),
        (lambda: simulate.random(n_features=2**32), "n_features is 4294967296"),
        (lambda: simulate.random(active=0), "active is 0; it must be a share of the features, > 0 and <= 1"),
        (lambda: simulate.random(active=float("nan")), "active is nan"),
        (lambda: simulate.nonbinary(active=1.5), "active is 1.5"),
        (lambda: simulate.random(weight_std=-1), "weight_std is -1; it must be a number > 0"),
        (lambda: simulate.random(weight_std="2"), "weight_std is '2'"),
        (
            lambda: simulate.categorical(weight_std=1e308),
            r"1e\+308; it must be a number > 0 and at most 1e\+100",
        ),
        (lambda: simulate.random(weights="cauchy"), "weights is 'cauchy'; it must be one of 'normal', 'uniform'"),
        (lambda: simulate.random(link="log"), "link is 'log'; it must be one of 'logistic', 'probit'"),
        (lambda: simulate.random(seed=-1), "seed is -1"),
        (
            lambda: simulate.categorical(picked=201),
            "picked is 201; it must be a whole number from 1 to 200",
        ),
        (lambda: simulate.categorical(decay=0), "decay is 0"),
        (lambda: simulate.longtail(n_categories=40), "n_categories is 40"),
        (lambda: simulate.groups([]), "groups is .*; it must list pairs"),
        (lambda: simulate.groups([(3, 1.0, 2.0)]), "groups is .*; it must list pairs"),
        (lambda: simulate.groups([(0, 1.0)]), "the count of a group is 0"),
        (lambda: simulate.random().batches(-1), "n_examples is -1"),
        (lambda: simulate.random().batches(10, batch_size=0), "batch_size is 0"),
        (lambda: simulate.random().batches(10, start=-5), "start is -5"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_answered_by_a_sentence(make, message):
    with pytest.raises(BadInput, match=message):
        make()
