"""The reference of the lanes of pairs answers to finite differences and to a lane that has the pairs as features."""

import numpy as np

from bayou.learners.bank import Lane
from tests.reference.bank import GaussianLane
from tests.reference.pairs import CrossesReference, FactorsReference


def test_factors_slopes_are_derivatives_of_the_score():
    rng = np.random.default_rng(5)
    signs = rng.choice([-1.0, 1.0], (4, 4, 3))
    signs = np.where(np.arange(4)[:, None, None] <= np.arange(4)[None, :, None], signs, signs.swapaxes(0, 1))
    lane = FactorsReference(lambda i: np.array([1.0, -1.0, 1.0]) * (-1) ** i, signs, 0.1, alone=False)
    i, x, groups = np.array([2, 5, 7, 9, 11]), rng.normal(size=5), np.array([0, 1, 1, 3, 0])
    for _ in range(5):
        lane.learn_example(i, x, groups, rng.choice([-1.0, 1.0]))
    m, _, (a, _, slopes, products) = lane.score(i, x, groups)
    for k, feature in enumerate(i.tolist()):
        for f in range(3):
            moved = a[k].copy()
            moved[f] += 1e-6
            kept, lane.a[feature] = lane.a[feature], moved
            assert abs((lane.score(i, x, groups)[0] - m) / 1e-6 - slopes[k][f]) < 1e-6
            lane.a[feature] = kept
    lane.ratio[0, 1] += 1e-6
    assert abs((lane.score(i, x, groups)[0] - m) / 1e-6 - products[0, 1]) < 1e-6


def test_crosses_are_a_plain_lane_over_products_where_scales_stay():
    """With its scales held, X is a Gaussian lane of prior variance .1 over the features and their products."""
    rng = np.random.default_rng(6)
    lane = CrossesReference()
    plain = GaussianLane(Lane(0.1), 4 + 6, 3.0)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    for _ in range(40):
        x, y = rng.normal(size=4), rng.choice([-1.0, 1.0])
        lane.log_lengths = [0.0] * 2000  # the unit is 1
        lane.log_scale[:], lane.scale_gained[:] = 0.0, 1e30
        m, s = lane.learn_example(np.arange(4), x, np.zeros(4, int), y)
        values = np.concatenate([x, [x[a] * x[b] for a, b in pairs], [1.0]])
        seen = plain.see(np.arange(11), values, 1.0, np.ones(11))
        plain.learn(np.arange(11), seen, y, 1.0)
        np.testing.assert_allclose([m, s], [seen.m, seen.s], rtol=1e-12)
