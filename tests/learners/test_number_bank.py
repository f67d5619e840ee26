"""The bank for numbers: its kernels against the reference, its traps, units, intervals and later rows."""

import numpy as np
import pytest
import scipy.sparse as sp

import bayou
from bayou import BadModel, Batch
from bayou.kernels.vector import LANES
from bayou.learners import NumberBank
from bayou.learners.number_bank import head as heads
from bayou.learners.number_bank.combination import combine
from bayou.learners.number_bank.lanes import PRECISION_PER_VARIANCE, column_variance, scratch_for
from bayou.learners.number_bank.learner import empty_scores
from tests.reference import number_bank as reference


def sparse_stream(seed, rows=150, width=9):
    """Rare, dense, constant and far-away columns; weights of all kinds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, width)) * (rng.random((rows, width)) < rng.uniform(0.05, 0.9, width))
    X *= 10.0 ** rng.uniform(-3, 3, width)
    X[:, 0], X[:, 1] = 1.0, rng.normal(100.0, 1.0, rows)
    X[rows // 2 :, 2] += rng.random(rows - rows // 2) < 0.5
    X[rng.random(rows) < 0.1] = 0.0
    y = X @ (rng.normal(size=width) / (1e-9 + np.abs(X).max(0))) + rng.standard_t(3, rows)
    return X, y, rng.choice([0.0, 0.3, 1.0, 1.0, 1.0, 6.0], rows)


def agrees(X, y, weights, intercept=True, head=128, close=1e-6):
    learner = NumberBank(X.shape[1], intercept=intercept, head=head)
    slow = reference.NumberBank(X.shape[1], head, intercept)
    told = learner.observe(Batch.from_csr(X, y, weights))
    expected = [slow.learn(*row) for row in zip(X, y, weights, strict=True)]
    scale = np.std(y) or 1.0
    np.testing.assert_allclose(told.mean / scale, np.array([e[0] for e in expected]) / scale, rtol=1e-9, atol=close)
    tails = np.array([[e[3], e[2]] for e in expected])
    np.testing.assert_allclose(told._scores.student_t_mixture[:, 0], tails[:, 0], rtol=1e-3, atol=close)
    np.testing.assert_allclose(told._scores.student_t_mixture[:, 1] / scale, tails[:, 1] / scale, rtol=1e-4, atol=close)
    return learner, slow


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("intercept", [True, False])
def test_the_kernels_equal_the_reference(seed, intercept):
    agrees(*sparse_stream(seed), intercept)


@pytest.mark.parametrize("seed", range(3))
def test_a_head_that_changes_equals_the_reference(seed):
    learner, slow = agrees(*sparse_stream(seed), head=4)
    head = learner._lanes.head
    assert head.columns[: int(head.counts[0])].tolist() == slow.lanes[0].head
    assert set(slow.lanes[0].head) != set(np.arange(4))


NASTY = {
    "labels of 1e12 with a spread of 1": lambda X, y: (X, 1e12 + np.round(y, 3)),
    "labels that are all the same": lambda X, y: (X, np.full(len(y), -7.5)),
    "two equal labels first": lambda X, y: (X, np.where(np.arange(len(y)) < 2, 300_000.0, 300_000.0 + 1e5 * y)),
    "empty rows": lambda X, y: (X * 0.0, y),
    "constant columns": lambda X, y: (np.ones_like(X) * [1, -3, 1e5, 1e-5, 0, 7, 1, 1, 1], y),
    "huge values": lambda X, y: (np.where(X == X.max(), 1e9, X), y),
    "an outlier": lambda X, y: (X, np.where(np.arange(len(y)) == 60, 1e9, y)),
}


@pytest.mark.parametrize("change", NASTY.values(), ids=NASTY)
def test_nasty_streams_equal_the_reference(change):
    X, y, weights = sparse_stream(7)
    agrees(*change(X, y), weights, close=1e-4)


def test_labels_far_away_are_learned_as_if_they_were_near():
    X, y, _ = sparse_stream(8)
    near = NumberBank(9).learn(Batch.from_csr(X, np.round(y, 2)))
    far = NumberBank(9).learn(Batch.from_csr(X, 1e12 + np.round(y, 2)))
    np.testing.assert_allclose(far[1:] - 1e12, near[1:], atol=1e-2)


def test_labels_that_are_all_the_same_are_predicted_to_the_bit():
    X, _, _ = sparse_stream(9)
    learner = NumberBank(9)
    assert (learner.learn(Batch.from_csr(X, np.full(150, 0.1)))[1:] == 0.1).all()
    assert np.isfinite(learner.predict(Batch.from_csr(X)).interval(0.9)).all()


# --- traps --------------------------------------------------------------------------------------------------------


def test_equal_uses_do_not_churn_the_head():
    """Who is in stays unless another is used a quarter more: columns that take turns must not change places."""
    rng = np.random.default_rng(0)
    learner, before = NumberBank(8, head=4), None
    for _ in range(5):
        X = np.array([np.isin(np.arange(8), rng.permutation(8)[:5]) for _ in range(64)], float)
        learner.learn(Batch.from_csr(X, rng.normal(size=64)))
        now = learner._lanes.head.columns.tolist()
        assert before is None or now == before
        before = now


def test_weights_outside_the_head_shrink_when_their_spread_grows():
    """A column that was tiny, then is large: its weight, learned under the wider prior, must not explode."""
    X = np.zeros((60, 3))
    X[:, 0] = 1.0  # takes the only place
    X[:, 1] = np.where(np.arange(60) < 40, 1e-3, 1.0) * np.where(np.arange(60) % 2, 1.0, -1.0)
    y = np.random.default_rng(0).normal(size=60)
    learner = NumberBank(3, head=1)
    learner.learn(Batch.from_csr(X[:40], y[:40]))
    before = learner._lanes.state[1, 0]
    learner.learn(Batch.from_csr(X[40:41], y[40:41]))
    assert 0.0 < abs(learner._lanes.state[1, 0]) < 0.2 * abs(before)


def test_a_column_that_was_constant_has_no_huge_prior():
    """S2/n^2 in the spread, not S2/n^3."""
    assert column_variance(100.0, 100.0, 100.0, 100.0) == pytest.approx(0.01)
    rng = np.random.default_rng(1)
    X = np.ones((400, 30))
    X[200:] += 0.5 * (rng.random((200, 30)) < 0.05)
    y = rng.normal(size=400)
    errors = y - NumberBank(30).learn(Batch.from_csr(X, y))
    assert np.mean(errors[200:] ** 2) < 1.25 * y[200:].var()


def test_priors_of_walking_weights_become_narrower_but_not_wider():
    X, y, _ = sparse_stream(3)
    learner = NumberBank(9)
    learner.learn(Batch.from_csr(X, y))
    head = learner._lanes.head
    here = scratch_for(learner._lanes, 9)
    heads.apply_pending_updates(head, here.steps)
    before = head.covariance.copy()
    walking = np.tile(head.walk > 0, before.shape[1] // heads.N_HEAD_LANES)
    heads.renew_priors(head, 0.5 * head.prior, head.prior_factors.copy(), here.cov_x, here.across, here.steps)
    assert (head.covariance[:, walking] == before[:, walking]).all()
    assert (head.variances[4:40][~walking[4:40]] > 0).all()
    wider = head.covariance[1, ~walking].copy()
    heads.renew_priors(head, 4.0 * head.prior, head.prior_factors.copy(), here.cov_x, here.across, here.steps)
    assert not (head.covariance[:, walking] == before[:, walking]).all()
    assert head.covariance[1, ~walking][3] < wider[3]


@pytest.mark.parametrize("unit", [1e5, 1e-5])
def test_stackers_know_the_unit_of_labels_from_their_first_row(unit):
    """With a noise of 1, labels in the hundred thousands would end the stream."""
    X, y, _ = sparse_stream(4, rows=200)
    errors = unit * y - NumberBank(9).learn(Batch.from_csr(X, unit * y))
    assert np.mean(errors[20:] ** 2) < 1.3 * (unit * y)[20:].var()


def test_indicators_that_wander_do_no_harm():
    """Walking weights of one-hot columns wander where nothing holds them; the mixture bears it."""
    rng = np.random.default_rng(5)
    codes = np.column_stack([rng.integers(0, 6, 3000) + 6 * k for k in range(6)])
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, 6)), shape=(3000, 36))
    y = X @ rng.normal(size=36) + 3.0 * rng.normal(size=3000)
    learner = NumberBank(36)
    errors = y - learner.learn(Batch.from_csr(X, y))
    assert np.mean(errors[300:] ** 2) < 9.0 * 1.07
    assert learner.lanes[1][1] < 0.01  # the walking block lane's share


def test_outputs_are_cut_at_four_deviations_and_no_nearer():
    """A lane that is right where the mixture is far off must not be held back: here cuts happen at 4 deviations."""
    rng = np.random.default_rng(6)
    level = np.repeat(rng.normal(size=8) * 30.0, 40)
    X, y = rng.normal(size=(320, 3)), level + rng.normal(size=320)
    learner, slow = agrees(X, y, np.ones(320))
    assert learner._combination.final_shares[1:].sum() > 0.0
    far = 4.0 * np.sqrt(slow.combination.last_noise[0])
    assert np.abs(slow.combination.stackers[0].f[2:]).max() <= far


@pytest.mark.parametrize("strength", [0.0, 1.0, 6.0])
def test_the_first_lane_learns_how_strong_all_weights_are(strength, tmp_path):
    """Eight indicators a row, weights of this variance times the noise: S is eight times that, less means."""
    rng = np.random.default_rng(21)
    codes = np.column_stack([rng.integers(0, 12, 4000) + 12 * k for k in range(8)])
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, 8)), shape=(4000, 96))
    y = X @ rng.normal(size=96) * np.sqrt(strength) + rng.normal(size=4000)
    learner = NumberBank(96)
    learner.learn(Batch.from_csr(X, y))
    signal = 1.0 / learner._lanes.head.prior_factors
    expected = (16.0 + 8.0 * strength * 96) / (16.0 + 96)
    assert 0.6 * expected < signal[0] < max(1.2 * expected, 0.35)
    assert (signal[1:] == 1.0).all()
    learner.save(tmp_path / "m.bayou")
    again = bayou.load(tmp_path / "m.bayou")
    assert (again._lanes.settings == learner._lanes.settings).all()  # also outside of the head


def test_a_mean_beyond_the_labels_does_not_teach_another_error():
    """The weight of 1 says 50, which is cut to 1.25; the label is 60. The error is 10, not 59."""
    x = np.append(np.random.default_rng(0).random(200), 50.0)
    learner = NumberBank(1)
    learner.learn(Batch.from_csr(x[:, None], np.append(x[:200], 60.0)))
    head = learner._lanes.head
    unit = learner._lanes.columns[0, 0]
    weight = head.weights[heads.N_HEAD_LANES : heads.N_HEAD_LANES + 1] * unit
    assert weight[0] == pytest.approx(1.2, abs=0.01)


def test_a_wide_head_learns_few_rows_of_many_columns():
    """Columns that move together and all count: without their correlations nothing is told apart."""
    rng = np.random.default_rng(22)
    X = rng.normal(size=(250, 30)) @ rng.normal(size=(30, 200)) + 0.3 * rng.normal(size=(250, 200))
    y = X @ rng.normal(size=200) / 15.0 + rng.normal(size=250)
    losses = []
    for head in (128, 200):
        errors = y - NumberBank(200, head=head).learn(Batch.from_csr(X, y))
        losses.append(np.mean(errors[50:] ** 2))
    assert losses[1] < 0.9 * losses[0]


# --- units, intervals, later rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_x", "of_y", "shift"), [(1.0, 1000.0, 0.0), (1.0, 1e-4, 0.0), (1000.0, 1.0, 0.0), (1e-3, 1.0, 0.0), (1, 1, 1e3)]
)
def test_units_do_not_matter(of_x, of_y, shift):
    X, y, weights = sparse_stream(11, rows=300)
    plain, other = NumberBank(9), NumberBank(9)
    m = plain.learn(Batch.from_csr(X, y, weights))[20:]
    changed = other.learn(Batch.from_csr(of_x * X, of_y * y + shift, weights))[20:]
    assert np.abs((changed - shift) / of_y - m).max() < 1e-3 * y.std()
    columns = 10.0 ** np.random.default_rng(0).uniform(-2, 2, 9)
    each = NumberBank(9).learn(Batch.from_csr(X * columns, y, weights))[20:]
    loss, loss_each = (np.mean(weights[20:] * (y[20:] - said) ** 2) for said in (m, each))
    assert loss_each < 1.1 * loss  # raw lanes go by the units that columns come in


@pytest.mark.parametrize("offset", [100.0, 1000.0])
def test_columns_far_from_zero_are_learned(offset):
    """Years, coordinates: what is far from 0 next to its deviation is not counted as spread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=400)
    near, far = (y - NumberBank(3).learn(Batch.from_csr(X + shift, y)) for shift in (0.0, offset))
    assert np.mean(far[200:] ** 2) < 1.3 * np.mean(near[200:] ** 2) < 0.4 * y.var()


@pytest.mark.parametrize("noise", ["normal", "heavy", "bursts"])
def test_intervals_hold_what_they_say(noise):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(3000, 4))
    e = {
        "normal": rng.normal(size=3000),
        "heavy": rng.standard_t(2, 3000),
        "bursts": rng.normal(size=3000) * np.repeat(10.0 ** rng.uniform(-1, 1, 60), 50),
    }[noise]
    y = X @ [1.0, -2.0, 0.0, 3.0] + e
    nearer = NumberBank(4).observe(Batch.from_csr(X, y)).central_probability(y)[50:]
    assert np.mean(nearer <= 0.9) == pytest.approx(0.9, abs=0.01)
    for level in (0.5, 0.8, 0.95):
        assert np.mean(nearer <= level) == pytest.approx(level, abs=0.09 if noise == "bursts" else 0.05)


def neighbours_alike(rows=4000, seed=13):
    """The level jumps every hundred rows: the last labels tell the next one, and nothing of later ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 5))
    return X, X @ [1.0, 2.0, 0.0, -1.0, 0.5] + 3.0 * np.repeat(rng.normal(size=rows // 100), 100) + rng.normal(
        size=rows
    )


def test_later_rows_are_not_predicted_by_the_last_level():
    X, y = neighbours_alike()
    learner = NumberBank(5)
    learner.learn(Batch.from_csr(X[:2850], y[:2850]))
    later = Batch.from_csr(X[2850:])
    loss = {horizon: np.mean((y[2850:] - learner.predict(later, horizon).mean) ** 2) for horizon in ("next", "later")}
    assert loss["later"] < 0.95 * loss["next"]
    told = learner.predict(later, "later")
    assert 0.85 < np.mean(told.central_probability(y[2850:]) <= 0.9) < 0.97
    expected = learner.later_loss()
    assert expected.differs
    assert expected.expected == pytest.approx(loss["later"], rel=0.3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("intercept", [True, False])
def test_the_combination_for_later_rows_equals_the_reference(seed, intercept):
    rng = np.random.default_rng(seed)
    y, weights = 100.0 + 5.0 * rng.standard_t(4, 300), rng.choice([0.0, 0.4, 1.0, 3.0], 300)
    weights[0] = 1.0
    signal = 0.8 * (y - 100.0) + (100.0 - y[0] if intercept else 100.0)  # with an intercept less the first label
    said = signal[:, None] + rng.uniform(1, 20, LANES) * rng.normal(size=(300, LANES))
    said[0] = 0.0  # nothing is known before the first label
    outputs = np.stack([said, rng.exponential(size=(300, LANES))], 1)
    combination, slow = NumberBank(1, intercept=intercept)._later_combination, reference.later_combination(intercept)
    scores = empty_scores(300)
    combine(outputs, y, weights, combination, scores)
    for k, (row, label, c) in enumerate(zip(outputs, y, weights, strict=True)):
        mean, q = slow.predict(row[0], row[1])
        assert scores.mean[k] == pytest.approx(mean + slow.labels.origin, rel=1e-8)
        np.testing.assert_allclose(scores.student_t_mixture[k, 1], slow.shapes.scales(q), rtol=1e-8)
        if c:
            slow.labels.origin = label if slow.labels.rows == 0 and intercept else slow.labels.origin
            slow.learn(label - slow.labels.origin, c)
    np.testing.assert_allclose(combination.final_shares, slow.last.shares, atol=1e-9)
    assert combination.shares[[1, 4, 5, 7]].max() < 1e-200  # the mixture and its intervals have no lane that walks
    assert (combination.stacker_mean[:, 2 + 7] != 0).all()
    assert (combination.stacker_mean[:, 2 + 4] == 0).all()


def test_later_rows_are_predicted_by_means_and_not_by_medians():
    """Most labels are small and a few are large: a robust combination of the same lanes would say too little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = np.exp(1.2 * rng.normal(size=6000)) * (1.0 + (X[:, 0] > 0))
    learner = NumberBank(3)
    learner.learn(Batch.from_csr(X[:4000], y[:4000]))
    later = Batch.from_csr(X[4000:])
    mean = {horizon: learner.predict(later, horizon).mean.mean() for horizon in ("next", "later")}
    assert mean["later"] == pytest.approx(y[4000:].mean(), rel=0.05)


def test_without_neighbours_that_are_alike_both_horizons_say_the_same():
    X, y = neighbours_alike()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    learner = NumberBank(5)
    learner.learn(Batch.from_csr(X[:3000], y[:3000]))
    later = Batch.from_csr(X[3000:])
    loss = [np.mean((y[3000:] - learner.predict(later, horizon).mean) ** 2) for horizon in ("next", "later")]
    assert loss[1] == pytest.approx(loss[0], rel=0.02)
    assert not learner.later_loss().differs


def test_what_comes_again_tells_nothing_of_later_rows():
    X, y = neighbours_alike(500)
    learner = NumberBank(5)
    learner.learn(Batch.from_csr(X, y))
    learner.end_pass()
    before = learner._later_combination.shares.copy()
    learner.learn(Batch.from_csr(X, y))
    assert (learner._later_combination.shares == before).all()
    learner.new_stream()
    learner.learn(Batch.from_csr(X, y))
    assert not (learner._later_combination.shares == before).all()


# --- weights and files ----------------------------------------------------------------------------------------------


def test_weights_and_intercept_are_those_that_predict_later_rows():
    X, y = neighbours_alike(seed=14)
    learner = NumberBank(5)
    learner.learn(Batch.from_csr(X, y))
    said = learner.predict(Batch.from_csr(X), "later").mean
    linear = X @ learner.mean + learner.intercept[0]
    inside = (said > y.min()) & (said < y.max())
    assert np.abs(linear - said)[inside].mean() < 0.02 * said.std()
    np.testing.assert_allclose(learner.mean, [1.0, 2.0, 0.0, -1.0, 0.5], atol=0.3)
    assert (learner.variance > 0).all()
    assert learner.weights_at([0]).sd[0] < 1.0


def test_draws_keep_correlations():
    """Two columns that are always the same: their weights are unsure, their sum is not."""
    rng = np.random.default_rng(15)
    x = rng.normal(50.0, 1.0, 400)
    y = 2.0 * x + rng.normal(size=400)
    learner = NumberBank(2)
    learner.learn(Batch.from_csr(np.column_stack([x, x]), y))
    drawn = learner.sample(Batch.from_rows([{0: 50.0, 1: 50.0}, {0: 50.0}]), 500, seed=1)
    assert drawn[:, 0].std() < 0.5
    assert drawn[:, 1].std() > 5.0


def test_a_head_that_lost_its_sign_keeps_its_variances():
    X, y, _ = sparse_stream(16)
    learner = NumberBank(9)
    learner.learn(Batch.from_csr(X, y))
    head = learner._lanes.head
    heads.apply_pending_updates(head, scratch_for(learner._lanes, 9).steps)
    head.covariance[1, 2 * heads.N_HEAD_LANES] = head.covariance[2, heads.N_HEAD_LANES] = (
        -10.0 * head.variances[4:12].max()
    )
    learner.learn(Batch.from_csr(X, y))
    assert all(np.isfinite(array).all() for array in learner._arrays().values())
    assert np.abs(learner.predict(Batch.from_csr(X)).mean).max() <= np.abs(y).max()


def test_a_model_file_with_a_wrong_head_is_refused(tmp_path):
    learner = NumberBank(4)
    learner.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[1.0, 2.0]))
    for array, value in ((learner._lanes.head.counts, 5.0), (learner._lanes.head.columns, 4)):
        before = array[0]
        array[0] = value
        learner.save(tmp_path / "wrong.bayou")
        with pytest.raises(BadModel, match="the model's head has"):
            bayou.load(tmp_path / "wrong.bayou")
        array[0] = before


def test_merging_is_refused():
    learner = NumberBank(4)
    with pytest.raises(BadModel, match="number-bank models cannot be merged"):
        learner.merge(NumberBank(4))


def test_a_long_stream_keeps_its_covariances():
    """60,000 rows of indicators: every variance is still positive, and no surer than the rows can tell."""
    rng = np.random.default_rng(17)
    codes = np.column_stack([rng.integers(0, 8, 60_000) + 8 * k for k in range(8)])
    X = sp.csr_matrix((np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, 8)), shape=(60_000, 64))
    y = X @ rng.normal(size=64) + rng.normal(size=60_000)
    learner = NumberBank(64)
    errors = y - learner.learn(Batch.from_csr(X, y))
    head, settings = learner._lanes.head, learner._lanes.settings
    assert (settings[PRECISION_PER_VARIANCE, 1 : heads.N_HEAD_LANES] == 1.0).all()  # the others learn no prior
    assert (head.variances[: 65 * heads.N_HEAD_LANES] > 1e-6).all()
    assert np.mean(errors[-20_000:] ** 2) < 1.02
