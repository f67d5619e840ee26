"""The reference of the forest against scikit-learn's trees, scipy's minimizers and densities, and closed forms."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.stats import t as student
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from bayou.kernels.random import keyed, normal
from tests.reference.common import sigmoid
from tests.reference.forest import (
    CELLS,
    DRAWN_COLUMNS,
    FLAT,
    CategoryMeans,
    Numbers,
    RollingForest,
    Settings,
    SeveralClasses,
    TwoClasses,
    codes_of,
    cuts_of,
    grow,
    indicator_codes,
    leaf_values,
    leaves_of,
    normals,
    random_bits,
    refit_row,
)
from tests.reference.forest_combination import (
    Combination,
    Evidence,
    ForestReference,
    Gain,
    Shares,
    SoftmaxStacker,
    Stacker,
    mark,
    student_log_density,
)
from tests.reference.forest_settling import BoostedForest, BoostSettings, plan, settle, weighted_map

SMALL = Settings(6, 3, rate=0.3, shrink=0.2, need=0.0)
TASKS = {"numbers": Numbers(), "two classes": TwoClasses(), "several classes": SeveralClasses(3)}


def random_codes(rng, rows, columns=4, cells=CELLS):
    return rng.integers(0, cells, (rows, columns)).astype(np.uint8)


def crossed(rows=300, seed=0, task="numbers", columns=4):
    """Codes, and labels that are a product of two columns: nothing that a linear base could tell."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    codes = np.column_stack([codes_of(x, cuts_of(x)) for x in X.T])
    score = 2.0 * X[:, 0] * X[:, 1]
    if task == "numbers":
        return codes, score + 0.3 * rng.normal(size=rows)
    if task == "two classes":
        return codes, (rng.random(rows) < sigmoid(2.0 * score)).astype(float)
    return codes, np.digitize(score, [-0.7, 0.7]).astype(float)


# codes


def test_few_distinct_values_are_cut_half_way_between_them():
    assert cuts_of([3.0, 1.0, np.nan, 1.0, 2.0, np.inf]).tolist() == [1.5, 2.5]
    assert cuts_of([5.0, 5.0]).size == cuts_of([np.nan]).size == 0
    neighbours = np.array([1.0, np.nextafter(1.0, 2.0)])
    assert codes_of(neighbours, cuts_of(neighbours)).tolist() == [1, 2]


def test_many_values_are_cut_at_quantiles():
    x = np.random.default_rng(0).normal(size=3000)
    expected = np.quantile(x, np.arange(1, 64) / 64, method="inverted_cdf")
    np.testing.assert_array_equal(cuts_of(x), expected)
    rows = np.bincount(codes_of(x, cuts_of(x)), minlength=CELLS)
    assert rows[0] == 0
    assert np.all(np.abs(rows[1:] - 3000 / 64) <= 1)


def test_a_heavy_value_leaves_its_cuts_to_the_others():
    rng = np.random.default_rng(1)
    x = np.where(rng.random(3000) < 0.9, 0.0, rng.exponential(size=3000))
    by_quantile = np.unique(np.quantile(x, np.arange(1, 64) / 64, method="inverted_cdf"))
    cuts = cuts_of(x)
    assert len(by_quantile) < 10
    assert 60 <= len(cuts) <= 63
    assert np.isin(by_quantile, cuts).all()
    assert np.isin(cuts, x).all()


def test_codes_are_monotonic_and_0_is_missing():
    cuts = np.array([-1.0, 0.0, 2.5])
    values = [-np.inf, -2.0, -1.0, -0.5, 0.0, 2.4, 2.5, 1e300, np.nan, np.inf]
    assert codes_of(values, cuts).tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 0, 0]


def test_categories_of_few_values_have_a_column_each():
    assert indicator_codes(["b", "a", "c"], ["a", "b", "z"]).tolist() == [[1, 2, 1], [2, 1, 1], [1, 1, 1]]
    assert indicator_codes(["b", "a"], ["a", "b"]).tolist() == [[2], [1]]


def test_a_category_is_the_mean_label_of_its_earlier_rows():
    rng = np.random.default_rng(2)
    categories, y = rng.integers(0, 5, 200), rng.normal(size=200)
    means = CategoryMeans()
    values = [means.learn(*row) for row in zip(categories, y, strict=True)]
    assert math.isnan(values[0])
    for k in (1, 50, 199):
        earlier = y[:k][categories[:k] == categories[k]]
        assert values[k] == pytest.approx((np.sum(earlier) + 10 * np.mean(y[:k])) / (len(earlier) + 10))
    assert means.value("never seen") == pytest.approx(np.mean(y))


# draws


def test_draws_are_those_of_the_kernels():
    items = np.array([0, 3, 1 << 40])
    bits = random_bits(7, 11, items)
    assert bits.tolist() == [int(keyed(np.uint64(7), np.uint64(11), np.uint64(item))) for item in items]
    assert normals(7, 11, 0, items)[1] == pytest.approx(normal(np.uint64(7), np.uint64(11), np.uint64(3)), rel=1e-12)


def test_columns_that_gain_are_drawn_more_often():
    forest = RollingForest(Numbers(), SMALL, 40)
    forest.gains[5] = 1.0
    drawn = []
    for refit in range(200):
        forest.n_refits = refit
        drawn.append(forest.drawn_columns())
    counts = np.bincount(np.concatenate(drawn), minlength=40)
    assert counts.sum() == 200 * DRAWN_COLUMNS
    assert counts[5] == 200
    assert 0 < counts[np.arange(40) != 5].min() < 110


# a tree


@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_tree_of_rate_1_without_shrinkage_is_scikit_learns(depth, weighted):
    """With enough rows for both sides; ours goes level by level, theirs depth first."""
    rng = np.random.default_rng(depth)
    codes = random_codes(rng, 700)
    y, c = rng.normal(size=700), rng.uniform(0.5, 2.0, 700) if weighted else np.ones(700)
    y -= np.sum(c * y) / np.sum(c)
    tree = grow(codes, c * y, c, np.arange(4), depth, lam=0.0, min_side=10.0, need=1e-9)
    L, W = leaf_values(tree.leaves(codes), 2**depth, (c * y)[:, None], c[:, None], 0.0, 1.0)
    peer = DecisionTreeRegressor(max_depth=depth, min_weight_fraction_leaf=(10.0 - 1e-9) / np.sum(c))
    peer.fit(codes, y, sample_weight=c)
    np.testing.assert_allclose(L[tree.leaves(codes), 0], peer.predict(codes), atol=1e-12)
    assert np.sum(W) == pytest.approx(np.sum(c))
    assert len(np.unique(tree.leaves(codes))) == peer.get_n_leaves()


def test_leaves_minimize_their_penalized_loss():
    """L/rate is the Newton step: the least of sum(h v^2/2 - g v) + lambda v^2/2 over the rows of a leaf."""
    rng = np.random.default_rng(3)
    leaves, g, h = rng.integers(0, 4, 60), rng.normal(size=60), rng.uniform(0.1, 0.25, 60)
    L, W = leaf_values(leaves, 4, g[:, None], h[:, None], 0.7, 0.5)
    for leaf in range(4):
        rows = leaves == leaf

        def loss(v, rows=rows):
            return float(np.sum(h[rows] * v[0] ** 2 / 2 - g[rows] * v[0]) + 0.35 * v[0] ** 2)

        assert L[leaf, 0] / 0.5 == pytest.approx(minimize(loss, [0.0]).x[0], abs=1e-4)
        assert W[leaf, 0] == pytest.approx(np.sum(h[rows]) + 0.7)


def test_a_split_is_the_best_of_all_if_it_gains_more_than_it_needs():
    rng = np.random.default_rng(4)
    codes, g, h = random_codes(rng, 80, cells=9), rng.normal(size=80), rng.uniform(0.05, 0.25, 80)
    own, best = np.sum(g) ** 2 / (np.sum(h) + 0.3), {}
    for column in range(4):
        for cell in range(9):
            left = codes[:, column] <= cell
            if min(np.sum(h[left]), np.sum(h[~left])) >= 1.0:
                sides = sum(np.sum(g[side]) ** 2 / (np.sum(h[side]) + 0.3) for side in (left, ~left))
                best[column, cell] = sides - own
    (column, cell), gain = max(best.items(), key=lambda item: item[1])
    tree = grow(codes, g, h, np.arange(4), 1, 0.3, 1.0, gain - 1e-9)
    assert (tree.columns[0], tree.cells[0]) == (column, cell)
    assert tree.gains[column] == pytest.approx(gain)
    unsplit = grow(codes, g, h, np.arange(4), 1, 0.3, 1.0, gain + 1e-9)
    assert unsplit.cells[0] == 255
    assert not unsplit.leaves(codes).any()
    assert not unsplit.gains.any()


def test_weights_are_repeated_rows_in_a_tree():
    rng = np.random.default_rng(5)
    codes, g, h, c = random_codes(rng, 200), rng.normal(size=200), rng.uniform(0.1, 0.25, 200), rng.integers(1, 4, 200)
    weighted = grow(codes, c * g, c * h, np.arange(4), 4, 0.5, 1.0, 0.0)
    r = np.repeat(np.arange(200), c)
    repeated = grow(codes[r], g[r], h[r], np.arange(4), 4, 0.5, 1.0, 0.0)
    np.testing.assert_array_equal(weighted.columns, repeated.columns)
    np.testing.assert_array_equal(weighted.cells, repeated.cells)
    np.testing.assert_allclose(weighted.gains, repeated.gains)


def test_equal_splits_go_to_the_first_column():
    rng = np.random.default_rng(6)
    codes = np.repeat(random_codes(rng, 100, 1), 3, axis=1)
    tree = grow(codes, rng.normal(size=100), np.ones(100), [2, 1, 0], 3, 0.0, 5.0, 0.0)
    assert not tree.columns.any()
    assert tree.gains[0] > 0


# the rolling forest


def test_refits_are_so_many_for_a_doubling_of_the_rows():
    rows = np.array([refit_row(k, 100) for k in range(2000)])
    for start, refits in ((64, 200), (2048, 200), (4096, 100), (32768, 100), (65536, 50), (131072, 50)):
        assert np.sum((rows > start) & (rows <= 2 * start)) == refits
    assert rows[0] == 64
    assert np.all(np.diff(rows) >= 0)


@pytest.mark.parametrize("task", TASKS)
def test_the_rings_f_is_the_sum_of_fitted_leaves(task):
    """However often trees were refitted, rows overwritten, and leaves learned on."""
    codes, y = crossed(500, task=task)
    forest = RollingForest(TASKS[task], SMALL, 4, ring=128)
    for row, label in zip(codes, y, strict=True):
        forest.learn(row, label)
    leaves = leaves_of(forest.codes, forest.columns, forest.cells)
    expected = np.sum(forest.L[np.arange(6), leaves], axis=1)
    np.testing.assert_allclose(forest.f, expected, atol=1e-12)
    assert forest.n_trees == 6
    assert forest.n_refits == 18
    assert not np.allclose(forest.L, forest.L2)
    assert set(map(bytes, forest.codes)) == set(map(bytes, codes[-128:]))


@pytest.mark.parametrize("task", TASKS)
def test_a_forest_learns_what_columns_do_together(task):
    codes, y = crossed(1200, task=task)
    settings = Settings(20, 4, rate=0.3, shrink=0.2, need=0.0)
    forest = RollingForest(TASKS[task], settings, 4)
    live = np.array([forest.learn(row, label) for row, label in zip(codes[:1000], y, strict=False)])
    target, base = TASKS[task].targets(y), TASKS[task].expected(forest.base)
    for p, rows in ((TASKS[task].expected(live)[500:], slice(500, 1000)), (_answers(forest, codes), slice(1000, 1200))):
        assert np.mean((target[rows] - p) ** 2) < 0.75 * np.mean((target[rows] - base) ** 2)
    assert forest.gains[:2].sum() > 3.0 * forest.gains[2:].sum()


def _answers(forest, codes):
    return forest.task.expected(forest.outputs(codes[1000:]))


def test_noise_shrinks_a_forest_to_its_base():
    rng = np.random.default_rng(7)
    codes, y = random_codes(rng, 600), rng.normal(size=600)
    forest = RollingForest(Numbers(), FLAT._replace(shrink=1.0), 4)
    live = np.array([forest.learn(row, label)[0] for row, label in zip(codes, y, strict=True)])
    assert forest.r2() < 0.1
    assert np.std(live[300:]) < 0.25


def test_leaves_learn_on_towards_the_label():
    """By half the rate of a mean: L2 += rate/2 c e/(W + c h)."""
    codes, y = crossed(100)
    forest = RollingForest(Numbers(), SMALL, 4)
    for row, label in zip(codes[:70], y, strict=False):
        forest.learn(row, label)
    n = forest.n_refits
    leaf = leaves_of(codes[70:71], forest.columns, forest.cells)[0, 0]
    L2, W, z = forest.L2[0, leaf, 0], forest.W[0, leaf, 0], forest.outputs(codes[70:71])[0, 0]
    forest.n_refits = 200  # none is due
    assert forest.learn(codes[70], y[70], 3.0)[0] == pytest.approx(z)
    assert forest.W[0, leaf, 0] == pytest.approx(W + 3.0)
    assert n > 0
    assert forest.L2[0, leaf, 0] == pytest.approx(L2 + 0.15 * 3.0 * (y[70] - z) / (W + 3.0))


def test_directions_of_several_classes_are_slope_and_curvature_of_the_log_likelihood():
    task = SeveralClasses(4)
    forest = RollingForest(task, SMALL, 4)
    rng = np.random.default_rng(8)
    z, y = rng.normal(size=(5, 4)), task.targets(rng.integers(0, 4, 5))
    for refit in range(6):
        forest.n_refits = refit
        g, h, u = task.direction(task.expected(z), y, forest)
        assert u.min() == 0.0
        assert u.max() == 1.0

        def log_likelihood(step, row, u=u):
            return float(np.log(task.expected(z[row] + step * u) @ y[row]))

        for row in range(5):
            steps = [log_likelihood(step, row) for step in (-1e-3, 0.0, 1e-3)]
            assert g[row] == pytest.approx((steps[2] - steps[0]) / 2e-3, abs=1e-6)
            assert h[row] == pytest.approx(-(steps[2] - 2 * steps[1] + steps[0]) / 1e-6, abs=1e-5)


def test_labels_that_a_forest_of_two_classes_never_sees_are_no_disaster():
    codes, _ = crossed(200)
    forest = RollingForest(TwoClasses(), SMALL, 4)
    live = np.array([forest.learn(row, 1.0)[0] for row in codes])
    assert np.isfinite(live).all()
    assert live[-1] > 4.0


# live


def test_the_stacker_is_ridge_regression():
    """Without forgetting: prior precisions 1/.01 and 1/.2 about (0, 1, 0)."""
    rng = np.random.default_rng(9)
    Z, c = rng.normal(size=(80, 2)), rng.uniform(0.2, 3.0, 80)
    y = 0.3 + Z @ [0.4, 0.5] + rng.normal(size=80)
    stacker = Stacker(Numbers(), 2, cap=math.inf, memory=1e300)
    for row in range(80):
        stacker.learn(Z[row][:, None], y[row : row + 1], c[row])
    scaled = np.column_stack([np.ones(80), Z]) * np.sqrt([0.01, 0.2, 0.2])
    ridge = Ridge(alpha=1.0, fit_intercept=False).fit(scaled, y - Z[:, 0], sample_weight=c)
    np.testing.assert_allclose(stacker.w, np.array([0, 1, 0]) + ridge.coef_ * np.sqrt([0.01, 0.2, 0.2]), rtol=1e-9)


def _penalized(task, w, prior, P, columns, target, c):
    p = np.clip(task.expected(w @ columns), 1e-300, 1.0)
    likelihood = np.sum(target * np.log(p)) if task.n_outputs > 1 else np.log(p if target else 1.0 - p)[0]
    return float(c * likelihood - (w - prior) @ np.linalg.solve(P, w - prior) / 2.0)


@pytest.mark.parametrize("task", ["two classes", "several classes"])
def test_a_step_of_a_stacker_of_classes_is_newtons(task):
    """From the prior: the step solves (curvature + prior precision) step = slope, derivatives by differences."""
    rng, task = np.random.default_rng(10), TASKS[task]
    K = task.n_outputs
    columns, target = rng.normal(size=(3, K)), task.targets([1.0])[0]
    stacker = (SoftmaxStacker if K > 1 else Stacker)(task, 3)
    prior, P, c = stacker.w.copy(), stacker.P.copy(), 1.7
    features = stacker.features(columns)
    objective = lambda w: _penalized(task, w, prior, P, features, target, c)  # noqa: E731
    slope = approx_fprime(prior, objective, 1e-6)
    curvature = approx_fprime(prior, lambda w: approx_fprime(w, objective, 1e-4), 1e-4)
    stacker.learn(columns, target, c)
    np.testing.assert_allclose(stacker.w - prior, np.linalg.solve(-curvature, slope), rtol=0.02, atol=1e-4)


def test_a_stacker_forgets_but_never_more_than_it_began_with():
    stacker = Stacker(Numbers(), 2)
    for _ in range(300):
        stacker.learn(np.zeros((2, 1)), np.zeros(1), 1.0)
    np.testing.assert_allclose(np.diag(stacker.P)[1:], 0.2)
    assert np.diag(stacker.P)[0] < 0.01


def test_shares_follow_the_likelihood():
    shares = Shares(TwoClasses(), 4)
    assert shares.shares.tolist() == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    shares.n_rows = 10**6
    p = np.array([[0.9], [0.5], [0.2], [0.7]])
    expected = shares.shares * p[:, 0]
    shares.learn(p, np.ones(1), 1.0)
    np.testing.assert_allclose(shares.shares, (1 - 1e-4) * expected / expected.sum() + 1e-4 * shares.first)
    assert shares.mix(p)[0] == pytest.approx(shares.shares @ p[:, 0])


def test_the_density_of_numbers_is_students_t():
    e, s2 = np.linspace(-4, 4, 9), 0.7
    difference = student_log_density(e**2, s2) - student(5, scale=np.sqrt(s2)).logpdf(e)
    np.testing.assert_allclose(difference, difference[0])


# frozen


def test_marks_are_a_third_apart():
    assert [mark(k) for k in range(6)] == [100, 133, 178, 237, 316, 421]


def test_evidence_is_of_all_rows_then_of_every_eighth_and_bounded(monkeypatch):
    monkeypatch.setattr("tests.reference.forest_combination.FEW_ROWS", 200)
    monkeypatch.setattr("tests.reference.forest_combination.MAX_EVIDENCE_ROWS", 120)
    evidence = Evidence()
    for row in range(600):
        if evidence.wants(row):
            evidence.add(row, np.zeros(1), 1.0, None, np.zeros(1), np.zeros(1))
    rows, counts = evidence.column(0), evidence.column(3)
    assert rows[0] == 100
    assert len(rows) < 120
    assert np.all(rows % counts == 0)
    assert set(counts[rows < 200]) == {2}
    assert set(counts[rows >= 200]) == {16}
    assert np.sum(counts) == pytest.approx(500, abs=32)


def test_the_frozen_answer_is_mixed_by_what_copies_predicted():
    task, evidence = TwoClasses(), Evidence()
    p, q = np.array([0.5]), np.array([0.8])
    for row in (100, 104):
        evidence.add(row, np.ones(1), 2.0, None, p, q)
    w = 2.0 * (100 + 104) / 400
    assert evidence.log_odds(task, 400) == pytest.approx(w * np.log(0.8 / 0.5) / 5 - 3)
    assert Evidence().log_odds(task, 1) == -3.0


def _base(task, y):
    """A base that knows nothing but the mean of all labels."""
    task = TASKS[task]
    return np.repeat(task.base(task.targets(y).sum(axis=0), len(y))[None], len(y), axis=0)


@pytest.mark.parametrize("task", TASKS)
def test_forests_over_a_base_predict_better_than_it_where_columns_act_together(task):
    codes, y = crossed(900, task=task)
    base = _base(task, y)
    small = Settings(12, 4, rate=0.3, shrink=0.2, need=0.0)
    forest = ForestReference(TASKS[task], 4, settings=[small] if task == "several classes" else [small, SMALL])
    live = forest.learn(codes[:700], y[:700], base[:700])
    later = forest.later(codes[700:], base[700:])
    target, alone = TASKS[task].targets(y), TASKS[task].expected(base.reshape(900, -1))
    np.testing.assert_array_equal(live[:64], alone[:64])
    for p, rows in ((live[400:], slice(400, 700)), (later, slice(700, 900))):
        assert np.mean((target[rows] - p) ** 2) < 0.8 * np.mean((target[rows] - alone[rows]) ** 2)
    assert forest.combination.share() > 0.9


def test_where_there_is_nothing_to_learn_the_answers_are_the_bases():
    rng = np.random.default_rng(11)
    codes, y = random_codes(rng, 500), rng.normal(size=500)
    forest = ForestReference(Numbers(), 4, settings=[SMALL, SMALL])
    forest.learn(codes, y, np.zeros(500))
    assert forest.combination.share() < 0.3
    assert np.mean(forest.later(codes, np.zeros(500)) ** 2) < 0.01


@pytest.mark.parametrize("task", TASKS)
def test_batches_and_rows_of_weight_0_do_not_matter(task):
    codes, y = crossed(260, task=task)
    base, weights = _base(task, y), np.random.default_rng(12).uniform(0.3, 2.0, 260)
    settings = [SMALL] if task == "several classes" else [SMALL, SMALL]

    def run(cuts, silent=()):
        forest, live = ForestReference(TASKS[task], 4, settings=settings), []
        for start, stop in zip([0, *cuts], [*cuts, 260], strict=True):
            for row in silent:
                forest.learn(codes[row : row + 1], y[:1], base[:1], base[:1] + 1.0, [0.0])
            rows = slice(start, stop)
            live.append(forest.learn(codes[rows], y[rows], base[rows], base[rows] / 2, weights[rows]))
        return np.concatenate(live), forest.later(codes, base)

    for at_once, in_batches in zip(run([]), run([1, 64, 65, 130, 200], silent=(0, 17)), strict=True):
        np.testing.assert_array_equal(at_once, in_batches)


def test_units_of_numbers_do_not_matter():
    codes, y = crossed(300)
    base = 0.5 * y
    answers = {}
    for shift, unit in ((0.0, 1.0), (1000.0, 8.0)):
        forest = ForestReference(Numbers(), 4, settings=[SMALL, SMALL])
        live = forest.learn(codes, shift + unit * y, shift + unit * base)
        answers[unit] = (np.stack([live, forest.later(codes, shift + unit * base)]) - shift) / unit
    np.testing.assert_allclose(answers[8.0], answers[1.0], atol=1e-9)


def test_the_gain_is_judged_at_doublings():
    rng, gain = np.random.default_rng(13), Gain(TwoClasses())
    p, judged = 0.1 + 0.8 * rng.random(4096), []
    for row in range(4096):
        y = np.array([float(rng.random() < p[row])])
        gain.add(p[row : row + 1], p[row : row + 1] * 0.999, y, 1.0)
        if gain.is_due():
            judged.append((row + 1, gain.pays(-1.0)))
    assert judged == [(64 * 2**k, True) for k in range(6)] + [(4096, False)]


def test_a_forest_that_does_not_pay_is_dropped_and_tried_again(monkeypatch):
    monkeypatch.setattr("tests.reference.forest_combination.FEW_ROWS", 128)
    rng = np.random.default_rng(14)
    codes, y = random_codes(rng, 700, cells=3), rng.normal(size=700)
    forest = ForestReference(Numbers(), 4, settings=[SMALL, SMALL])
    monkeypatch.setattr(Gain, "pays", lambda gain, g: gain.n_rows < 128)
    live = forest.learn(codes, y, np.zeros(700))
    assert forest.starts == [512, 4 * 512 + 128]
    np.testing.assert_array_equal(live[128:576], 0.0)
    assert not forest.is_running
    assert np.abs(live[576:640]).max() > 0.0
    np.testing.assert_array_equal(live[640:], 0.0)


# settling


def test_the_plan_of_settling_goes_by_the_rows_of_the_ring():
    assert [plan(m) for m in (200, 8192, 8193, 40_000, 65_536)] == [(3, 200), (3, 200), (2, 200), (2, 200), (2, 120)]


@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_the_settled_stacker_has_the_greatest_posterior(task):
    rng, task = np.random.default_rng(15), TASKS[task]
    Z, w = rng.normal(size=(60, 4)), rng.uniform(0.1, 2.0, 60)
    y = Z @ [0.2, 1.0, -0.5, 0.3] + rng.normal(size=60)
    mean, variance = np.array([0.0, 0.0, 0.5, 0.5]), np.array([0.01, 0.3, 0.3, 0.3])
    if isinstance(task, TwoClasses):
        y = (y > 0).astype(float)
    theta = weighted_map(task, Z, y, w, mean, variance)
    s = np.where(y > 0, 1.0, -1.0)
    noise = np.sum(w * (y - Z @ theta) ** 2) / np.sum(w)

    def objective(v):
        squares, logistic = np.sum(w * (y - Z @ v) ** 2) / noise / 2, np.sum(w * np.logaddexp(0, -s * (Z @ v)))
        return (logistic if isinstance(task, TwoClasses) else squares) + np.sum((v - mean) ** 2 / variance) / 2

    np.testing.assert_allclose(theta, minimize(objective, mean, tol=1e-12).x, atol=0.01)


def test_newtons_steps_are_halved_where_they_would_overshoot():
    Z, y = np.column_stack([np.ones(40), np.full(40, 60.0)]), np.repeat([0.0, 1.0], 20)
    theta = weighted_map(TwoClasses(), Z, y, np.ones(40), np.array([0.0, 1.0]), np.array([0.01, 0.3]))
    assert np.abs(sigmoid(Z @ theta) - 0.5).max() < 0.05


def test_boosting_without_a_prior_approaches_the_labels():
    codes, y = crossed(200)
    forest = BoostedForest(Numbers(), BoostSettings(4, 0.5, 0.0, 1.0, 1.0), codes, y, np.ones(200), 40, 0, 2)
    errors = y[:, None] - forest.outputs(codes)
    assert np.mean(errors[:, 1] ** 2) < 0.05 * np.mean(errors[:, 0] ** 2) < 0.05 * np.var(y)


@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_settling_helps_few_rows_and_leaves_the_rolling_state_alone(task):
    codes, y = crossed(900, task=task)
    base = np.full(900, np.mean(y) if task == "numbers" else 0.0)
    forest = ForestReference(TASKS[task], 4, settings=[SMALL, SMALL])
    forest.learn(codes[:600], y[:600], base[:600])
    before = forest.later(codes[600:], base[600:])
    lanes = tuple(BoostSettings(depth, 0.2, 5.0, 3.0, 0.6) for depth in (4, 3))
    settled = settle(forest.combination, lanes=lanes, n_trees=16)
    standard, original = forest.scale.standard, forest.scale.original
    after = original(settled.later(codes[600:], standard(base[600:, None])))
    np.testing.assert_array_equal(forest.later(codes[600:], base[600:]), before)
    assert settled.share > 0.7
    assert np.mean((y[600:] - after[:, 0]) ** 2) < 0.98 * np.mean((y[600:] - before[:, 0]) ** 2)


def test_there_is_no_settling_of_few_or_many_rows_or_of_several_classes():
    combination = Combination(Numbers(), 4, settings=[SMALL, SMALL])
    assert settle(combination) is None
    combination.n_rows = 131_073
    assert settle(combination) is None
    assert settle(Combination(SeveralClasses(3), 4)) is None
