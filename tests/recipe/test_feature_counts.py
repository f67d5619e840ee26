"""How often features came: the sums, the sample, and what merging and files keep of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from bayou import BadModel, Batch
from bayou.recipe.feature_counts import N_SAMPLED_EXAMPLES, FeatureCounts


def rows(n, seed=0, ones=False):
    rng = np.random.default_rng(seed)
    X = sp.random(n, 30, 0.2, format="csr", random_state=seed)
    X.data = np.ones(X.nnz) if ones else rng.normal(2.0, 1.0, X.nnz)
    return X, rng.integers(0, 2, n)


def counted(X, y, weights=None, cuts=(0,)) -> FeatureCounts:
    uses = FeatureCounts()
    for first, last in zip(cuts, [*cuts[1:], X.shape[0]], strict=True):
        some = slice(first, last)
        uses.count(Batch.from_csr(X[some], y[some], None if weights is None else weights[some]))
    return uses


def test_few_rows_are_counted_one_by_one_and_those_of_weight_0_are_not():
    X, y = rows(500)
    weights = np.where(np.arange(500) % 3, 2.0, 0.0)
    found = counted(X, y, weights).counts_of(np.arange(31))
    dense = np.append(X.toarray(), np.zeros((500, 1)), axis=1)[weights > 0]
    np.testing.assert_allclose(found.seen, (dense != 0).mean(axis=0))
    np.testing.assert_allclose(found.mean, dense.mean(axis=0))
    np.testing.assert_allclose(found.square, (dense**2).mean(axis=0))


def test_many_rows_are_counted_by_a_sample_that_stands_for_them_however_they_are_cut():
    X, y = rows(10 * N_SAMPLED_EXAMPLES, ones=True)
    whole, cut = counted(X, y), counted(X, y, cuts=(0, 1, 700, 9000, 9001))
    assert whole.rows == 10 * N_SAMPLED_EXAMPLES
    assert whole.counted == pytest.approx(whole.rows, rel=0.05)
    np.testing.assert_allclose(whole.counts_of(np.arange(30)).seen, np.asarray(X.mean(axis=0)).ravel(), atol=0.02)
    features = np.arange(30)
    np.testing.assert_allclose(cut.counts_of(features).seen, whole.counts_of(features).seen, rtol=1e-12)


def test_many_features_in_order_have_what_each_of_them_has():
    X, y = rows(400)
    X = sp.csr_matrix((X.data, X.indices * 7, X.indptr), shape=(400, 210))  # most of the numbers between never come
    uses, order = counted(X, y), np.random.default_rng(0).permutation(250)
    for some in (np.arange(250), np.arange(250, dtype=np.uint32), np.arange(3, 60)):
        for found, expected in zip(uses.counts_of(some), uses.counts_of(order), strict=True):
            np.testing.assert_array_equal(found, expected[np.argsort(order)][some])
    assert [len(part) for part in uses.counts_of(np.arange(0))] == [0, 0, 0]
    assert (FeatureCounts().counts_of(np.arange(5)).seen == 0).all()


def test_indicators_before_other_values_and_many_features_are_counted_as_they_are():
    """A table for indicators alone becomes one for all values, and tables grow, within a batch."""
    rng = np.random.default_rng(1)
    X = sp.random(900, 20_000, 0.002, format="csr", random_state=1)
    X.data = np.where(np.repeat(np.arange(900), np.diff(X.indptr)) < 450, 1.0, rng.normal(2.0, 1.0, X.nnz))
    dense = X.toarray()
    uses = counted(X, np.zeros(900))
    assert len(uses) == np.count_nonzero((dense != 0).any(axis=0))
    for some in (np.arange(20_000), rng.permutation(20_000)[:3000]):
        found = uses.counts_of(some)
        np.testing.assert_array_equal(found.seen, (dense[:, some] != 0).sum(axis=0) / 900)
        np.testing.assert_allclose(found.mean, dense[:, some].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.square, (dense[:, some] ** 2).mean(axis=0), rtol=1e-12)
    plain, other = counted(X[:450], np.zeros(450)), counted(X[450:], np.zeros(450))
    for merged in (plain.merge(other), other.merge(plain)):
        np.testing.assert_allclose(merged.counts_of(np.arange(20_000)), uses.counts_of(np.arange(20_000)), rtol=1e-12)


def test_rows_that_stand_for_others_are_added():
    uses = FeatureCounts()
    uses.add(np.array([2, 1]), np.array([5, 3, 5]), np.float32([1.0, 2.0, 3.0]), np.array([1.0, 4.0]))
    found = uses.counts_of(np.array([3, 5]))
    assert (found.seen.tolist(), found.mean.tolist(), found.square.tolist()) == ([0.2, 1.0], [0.4, 2.6], [0.8, 7.4])


def test_merging_adds_and_counts_the_base_once():
    X, y = rows(600)
    base, whole = counted(X[:200], y[:200]), counted(X, y)
    one, other = FeatureCounts.from_arrays(base.arrays()), FeatureCounts.from_arrays(base.arrays())
    one.count(Batch.from_csr(X[200:400], y[200:400]))
    other.count(Batch.from_csr(X[400:], y[400:]))
    merged = one.merge(other, base)
    assert (merged.rows, merged.counted) == (600, 600.0)
    for found, expected in zip(merged.counts_of(np.arange(30)), whole.counts_of(np.arange(30)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("ones", [True, False])
def test_files_keep_them(ones):
    X, y = rows(300, ones=ones)
    uses = counted(X, y)
    arrays = uses.arrays()
    assert len(arrays["sums"]) == (1 if ones else 3)
    again = FeatureCounts.from_arrays(arrays)
    for found, expected in zip(again.counts_of(np.arange(30)), uses.counts_of(np.arange(30)), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(BadModel, match="feature counts are incomplete"):
        FeatureCounts.from_arrays({"features": arrays["features"], "rows": arrays["rows"]})
    with pytest.raises(BadModel, match="feature counts do not fit"):
        FeatureCounts.from_arrays({**arrays, "features": np.zeros_like(arrays["features"])})
