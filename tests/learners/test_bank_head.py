"""The head of the bank beside its reference in NumPy, and its properties."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit, logit
from scipy.stats import norm

import bayou
from bayou import Batch, rounds
from bayou.core.state import contents_of, restore
from bayou.kernels.row_layout import batch_arrays
from bayou.learners import Bank, Classes
from bayou.learners.bank import dropping
from bayou.learners.bank import head as heads
from bayou.learners.bank.combination import combine
from bayou.learners.bank.head import Head, new_state
from bayou.learners.bank.head_kernels import (
    EXCESS,
    FADING,
    FIRST,
    FOLDED,
    GAIN,
    MARK,
    NONZEROS,
    RETRY,
    ROWS,
    SCALE,
    SQUARE,
    USES,
)
from bayou.learners.bank.sampling import lanes_to_draw
from tests.reference import head as reference

NO_GROUPS = np.zeros(0, np.uint8)


def columns(rows, active, seed, values=None, std=1.0):
    """Rows of independent columns that are active with these chances, and labels from a linear truth."""
    random = np.random.default_rng(seed)
    X = (random.random((rows, len(active))) < active) * 1.0
    if values is not None:
        X = X * values(random, X.shape)
    truth = random.normal(0, std, len(active))
    score = np.clip(X @ truth, -30, 30)
    return X, np.where(random.random(rows) < 1 / (1 + np.exp(-score)), 1.0, -1.0)


def batch_of(X, y):
    return Batch.from_csr(csr_matrix(X), y)


def run(head, X, y, weights=None, groups=None, cuts=()):
    """Learn rows in pieces; return means and variances of both answers."""
    outputs, batch = np.zeros((len(X), 2, 2)), batch_of(X, y)
    numbers = NO_GROUPS if groups is None else groups[batch.indices].astype(np.uint8)
    weights = np.ones(len(X)) if weights is None else weights
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        for task in head.tasks(batch_arrays(batch, y, weights), numbers, start, stop, outputs):
            task()
    return outputs


def tens(random, shape):
    return random.normal(3, 1, shape) * 10.0 ** random.integers(-3, 3, shape[1])


def check_against_reference(X, y, n_slots, weights=None, groups=None, intercept=True, **options):
    head = Head(X.shape[1], n_slots, intercept)
    expected = reference.Head(X.shape[1], n_slots, group=groups, intercept=intercept)
    weights = np.ones(len(X)) if weights is None else weights
    told = []
    for x, label, weight in zip(X, y, weights, strict=True):
        told.append(np.transpose(expected.predict(x)))
        expected.learn(x, label, weight)
    np.testing.assert_allclose(run(head, X, y, weights, groups), told, rtol=1e-6, atol=1e-7)
    assert head.state.features[1 : head.taken].tolist() == expected.features[1:]
    assert head.state.stream[SCALE] + head.state.stream[FOLDED] == pytest.approx(expected.scale + expected.scale_total)
    mean, variance = expected.settled().weights()
    shown = head.weights_at(np.arange(X.shape[1]))
    seen = expected.columns.uses > 0
    np.testing.assert_allclose(np.asarray(shown.mean)[seen], mean[1:][seen], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.asarray(shown.variance)[seen], variance[1:][seen], rtol=1e-6)
    np.testing.assert_allclose(head.intercept(), (mean[0], variance[0]), rtol=1e-6, atol=1e-9)
    return head


@pytest.mark.parametrize("intercept", [True, False])
def test_it_does_what_the_reference_does_while_its_features_change(intercept):
    """Rare columns come first, so that the head is full of them; later it exchanges them."""
    active = np.linspace(0.4, 0.02, 30)[::-1] ** 1.5
    X, y = columns(1200, active, seed=1, std=2.0)
    X[:40, 15:] = 0.0
    head = check_against_reference(X, y, 10, groups=np.arange(30) // 4, intercept=intercept)
    assert head.state.stream[FADING] == 1.0
    assert min(head.state.features[1:11]) > 10


VALUES = {
    "normal": (0.5, lambda random, shape: random.normal(0, 1, shape), 1.0),
    "far from 0": (1.0, lambda random, shape: random.normal(20, 1, shape), 0.3),
    "any unit": (0.5, tens, 0.1),
    "one value": (0.4, lambda random, shape: np.full(shape, 0.1), 3.0),
    "signs": (0.4, lambda random, shape: random.choice([-1.0, 1.0], shape), 1.0),
    "any size": (0.3, lambda random, shape: np.exp(random.normal(0, 6, shape)), 0.01),
}


@pytest.mark.parametrize("kind", VALUES)
def test_it_does_what_the_reference_does_with_any_values(kind):
    active, values, std = VALUES[kind]
    X, y = columns(700, np.full(9, active), 2, values, std)
    check_against_reference(X, y, 6)


def test_it_does_what_the_reference_does_with_any_weights():
    X, y = columns(800, np.full(20, 0.15), seed=3)
    weights = np.random.default_rng(3).choice([0.0, 0.3, 1.0, 2.0, 40.0], len(X))
    check_against_reference(X, y, 8, weights=weights)


def test_it_does_what_the_reference_does_with_one_kind_of_label_and_then_the_other():
    X, y = columns(600, np.full(10, 0.3), seed=4)
    y[:300], y[300:] = 1.0, -1.0
    check_against_reference(X, y, 10)


def test_it_does_what_the_reference_does_with_a_column_that_appears_late_in_every_row():
    X, y = columns(900, np.full(10, 0.3), seed=5)
    X[:, 8:] = 0.0
    X[450:600, 8] = 1.0
    X[600:, 9] = 1.0
    y[450:] = np.where(np.random.default_rng(5).random(450) < 0.9, 1.0, -1.0)
    head = check_against_reference(X, y, 10)
    assert head.state.stream[EXCESS] >= 0.0


def test_a_list_of_candidates_that_is_full_changes_nothing():
    X, y = columns(600, np.linspace(0.3, 0.02, 60)[::-1], seed=6)
    expected = run(Head(60, 5, True), X, y)
    head = Head(60, 5, True)
    head.state = new_state(60, 5, True, max_candidates=2)
    outputs = run(head, X[:7], y[:7])
    assert head.state.n_candidates[0] > 2
    assert (np.concatenate([outputs, run(head, X[7:], y[7:])]) == expected).all()


def restored(head):
    twin = Head(len(head.state.table), 8, head.state.has_intercept)
    for name, array in head.arrays().items():
        twin.arrays()[name][:] = array
    twin.restore()
    return twin


def test_batches_and_files_change_no_bit():
    X, y = columns(900, np.linspace(0.5, 0.02, 40)[::-1], seed=7)
    whole, pieces = Head(40, 8, True), Head(40, 8, True)
    expected = run(whole, X, y)
    outputs = run(pieces, X[:1], y[:1])
    for start, stop in ((1, 2), (2, 7), (7, 300), (300, 301), (301, 900)):
        pieces = restored(pieces)
        outputs = np.concatenate([outputs, run(pieces, X[start:stop], y[start:stop])])
    assert (outputs == expected).all()
    for name, array in whole.arrays().items():
        assert (array == pieces.arrays()[name]).all(), name


def test_predicting_changes_nothing_and_says_what_learning_says():
    X, y = columns(300, np.linspace(0.5, 0.02, 20), seed=8)
    head = Head(20, 8, True)
    told = run(head, X[:200], y[:200])
    before = {name: array.copy() for name, array in head.arrays().items()}
    for row in range(200, 300):
        predicted = run(head, X[row : row + 1], y[row : row + 1], np.zeros(1))
        assert all((array == before[name]).all() for name, array in head.arrays().items())
        told = run(head, X[row : row + 1], y[row : row + 1])
        assert (predicted == told).all()
        before = {name: array.copy() for name, array in head.arrays().items()}


def test_looking_at_weights_changes_nothing():
    X, y = columns(300, np.full(10, 0.3), seed=9)
    head, other = Head(10, 8, True), Head(10, 8, True)
    run(head, X[:123], y[:123])
    run(other, X[:123], y[:123])
    joint = head.covariance_at(np.arange(10))
    np.testing.assert_allclose(np.diag(joint), head.weights_at(np.arange(10)).variance)
    assert (np.linalg.eigvalsh(joint) > 0).all()
    assert (run(head, X[123:], y[123:]) == run(other, X[123:], y[123:])).all()


def test_a_matrix_without_factors_leaves_the_head_as_it_is_until_there_are_some():
    X, y = columns(300, np.full(6, 0.4), seed=10)
    head = Head(6, 6, True)
    run(head, X[:31], y[:31])
    place = 2 * head.width + 2
    own, head.state.precision[place] = head.state.precision[place], -50.0
    run(head, X[31:32], y[31:32])  # a refresh is due after 32 rows
    assert head.state.stream[RETRY] > 32
    head.state.precision[place] = own
    outputs = run(head, X[32:], y[32:])
    assert np.isfinite(outputs).all()
    assert (outputs[:, 1] > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_any_numbers_leave_everything_finite(seed):
    random = np.random.default_rng(seed)
    X = (random.random((400, 12)) < 0.4) * random.standard_cauchy((400, 12)) * 10.0 ** random.integers(-12, 12, 12)
    y = random.choice([-1.0, 1.0], 400)
    head = Head(12, 6, True)
    outputs = run(head, X, y, random.choice([0.0, 1e-9, 1.0, 1e6], 400))
    assert np.isfinite(outputs).all()
    assert all(np.isfinite(array).all() for array in head.arrays().values())


# --- in the bank ----------------------------------------------------------------------------------------------------


def learned(bank, X, y, cuts=(), resumes=False):
    told = []
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        told.append(bank.learn(batch_of(X[start:stop], y[start:stop])))
        if resumes:
            bank = saved_and_loaded(bank)
    return bank, np.concatenate(told)


def saved_and_loaded(bank):
    return pickle.loads(pickle.dumps(bank))


@pytest.mark.parametrize("head", [16, "auto"])
def test_a_bank_with_a_head_is_the_same_in_any_batches_and_after_any_resumption(head):
    X, y = columns(9000, np.linspace(0.3, 0.05, 30), seed=11)
    whole, expected = learned(Bank(n_features=30, head=head), X, y)
    cuts = (1, 2, 100, 7000, 8191, 8192, 8193)
    pieces, probabilities = learned(Bank(n_features=30, head=head), X, y, cuts, resumes=True)
    assert (probabilities == expected).all()
    apart = ("later", "tally", "delayed")  # they depend on the rows at hand
    for name, array in whole._arrays().items():
        if not name.startswith(apart):
            assert (array == pieces._arrays()[name]).all(), name


def test_a_head_that_pays_is_kept_and_one_that_does_not_is_dropped(monkeypatch):
    random = np.random.default_rng(12)
    X = (random.random((9000, 40)) < 0.2) * 1.0
    X[:, 20:] = (X[:, 20:] + X[:, :20]) > 0  # columns that go together
    truth = random.normal(0, 1, 40)
    y = np.where(random.random(9000) < 1 / (1 + np.exp(-(X @ truth))), 1.0, -1.0)
    kept, _ = learned(Bank(n_features=40, head="auto"), X, y)
    assert kept.lanes[-2].kept
    monkeypatch.setattr(heads, "WORTH", 10.0)
    dropped, _ = learned(Bank(n_features=40, head="auto"), X, y)
    assert not dropped.lanes[-1].kept
    assert len(dropped.to_bytes()) < len(kept.to_bytes())
    told, again = dropped.learn(batch_of(X, y)), saved_and_loaded(dropped)
    assert all((array == again._arrays()[name]).all() for name, array in dropped._arrays().items())
    assert np.isfinite(told).all()
    assert (again.predict(batch_of(X, y)).probability == dropped.predict(batch_of(X, y)).probability).all()
    assert np.isfinite(dropped.weights_at(np.arange(40)).variance).all()


@pytest.mark.parametrize("pairs", [None, "auto", "factors"])
def test_a_bank_without_its_dropped_head_shows_the_weights_of_its_lanes(monkeypatch, pairs):
    monkeypatch.setattr(heads, "FIRST_LOOK", 64)
    monkeypatch.setattr(heads, "WORTH", 1e9)
    bank = Bank(n_features=8, head="auto", pairs=pairs, pair_bits=9)
    bank.learn(Batch.from_rows([{0: 1.0, 1: 2.0}] * 64, labels=[1, 1, 0, 1] * 16))
    assert not bank.lanes[-1].kept
    view = bank.weight_view(bank.touched)
    assert view.joint is None
    score = bank.predict(Batch.from_rows([{0: 1.0, 1: 2.0}])).mean[0]
    assert bank.intercept[0] + bank.mean[:2] @ [1.0, 2.0] == pytest.approx(score, abs=0.5)
    assert 0 < bank.intercept[1] < 1
    assert (bank.variance[:2] > 0).all()


def test_what_is_measured_without_the_head_is_a_bank_that_has_none():
    X, y = columns(5000, np.linspace(0.3, 0.05, 30), seed=15)
    bank, probability = learned(Bank(n_features=30, head="auto"), X, y)
    plain, expected = learned(Bank(n_features=30, head=0), X, y)
    twin, own = bank._dropping.twin, plain._combination.slots
    for without, other in ((twin.live, plain._combination), (twin.later, plain._later_combination)):
        slots = slice(0, other.slots.stop)
        np.testing.assert_allclose(without.stacker_mean[:, slots], other.stacker_mean[:, slots], atol=1e-9)
        np.testing.assert_allclose(without.shares[slots], other.shares[slots], atol=1e-9)
        assert not without.is_kept[other.slots.stop :].any()
    with_head, without = (-np.log(np.where(y > 0, p, 1 - p)) for p in (probability, expected))
    gaps = without - with_head
    assert own.stop < bank._combination.slots.stop
    np.testing.assert_allclose(twin.progress, [1.0, gaps.sum(), (gaps**2).sum(), with_head.sum()], rtol=1e-6)


@pytest.mark.parametrize("worth", [-10.0, 10.0])
def test_later_rows_are_predicted_with_the_head_only_if_that_pays(monkeypatch, worth):
    monkeypatch.setattr(heads, "FIRST_LOOK", 2048)
    monkeypatch.setattr(dropping, "WORTH_LATER", worth)
    X, y = columns(2048, np.linspace(0.3, 0.05, 30), seed=16)
    bank, _ = learned(Bank(n_features=30, head="auto"), X, y)
    plain, _ = learned(Bank(n_features=30, head=0), X, y)
    later, expected = (each.predict(batch_of(X, y), horizon="later").probability for each in (bank, plain))
    assert np.allclose(later, expected, atol=1e-6) == (worth > 0)
    again = saved_and_loaded(bank)
    assert (again.predict(batch_of(X, y), horizon="later").probability == later).all()
    bank._dropping.drop_auto_head()
    assert not bank._head.live
    later = bank.predict(batch_of(X, y), horizon="later").probability
    np.testing.assert_allclose(later, expected, atol=1e-6)


def drifting(rows, seed, change=1.0):
    """Rows of independent columns, labels, and true scores; after 60% of the rows a share of the weights changes."""
    random = np.random.default_rng(seed)
    X, first = (random.random((rows, 40)) < 0.2) * 1.0, random.normal(0, 1, 40)
    second = np.where(random.random(40) < change, random.normal(0, 1, 40), first)
    score = np.where(np.arange(rows) < 0.6 * rows, X @ first, X @ second)
    return X, np.where(random.random(rows) < 1 / (1 + np.exp(-score)), 1.0, -1.0), score


def held(prediction, score):
    return np.mean(np.abs(prediction.mean - score) <= 1.6449 * np.sqrt(prediction.variance))


@pytest.mark.parametrize("change", [0.0, 1.0])
def test_intervals_of_later_rows_are_those_of_a_head_that_fits(change):
    X, y, score = drifting(16_000, seed=18, change=change)
    bank, _ = learned(Bank(n_features=40, head=40), X[:12_000], y[:12_000], range(1000, 12_000, 1000))
    rows = batch_of(X[12_000:], y[12_000:])
    later, coverage = bank.predict(rows, horizon="later"), held(bank.predict(rows, horizon="later"), score[12_000:])
    outputs = bank._lane_runner.predict(rows.astype("float32"), 12_000)[:, :, bank._head.column]
    assert bank._head.fits == (change == 0.0)
    assert (later.variance == outputs[:, 1]).all() == (change == 0.0)
    assert (later.mean == outputs[:, 0]).all() == (change == 0.0)
    if change:  # the head alone is far from the truth, and the combination is not
        own = np.abs(outputs[:, 0] - score[12_000:]) <= 1.6449 * np.sqrt(outputs[:, 1])
        assert own.mean() < 0.3 < 0.6 < coverage
    else:
        assert 0.85 < coverage < 0.95


@pytest.mark.parametrize("change", [0.0, 1.0])
def test_intervals_of_later_rows_change_no_probability_and_contain_it(change):
    X, y, _ = drifting(6000, seed=19, change=change)
    bank, _ = learned(Bank(n_features=40, head=40), X, y, range(500, 6000, 500))
    rows = batch_of(X[:500], y[:500])
    later = bank.predict(rows, horizon="later")
    combined = np.empty((3, 500))
    none = np.zeros(500, np.float32)
    outputs = bank._lane_runner.predict(rows.astype("float32"), 6000)
    combine(outputs, none, none, bank._used_later, 0, 500, 6000, *combined)
    assert (later.probability == combined[0]).all()
    np.testing.assert_allclose(expit(later.log_odds), later.probability, rtol=1e-9)
    for level in (0.01, 0.5, 0.9, 0.999):
        low, high = later.interval(level)
        assert ((low <= later.probability) & (later.probability <= high)).all()
        np.testing.assert_allclose(np.exp(later.log_interval(level)), (low, high), rtol=1e-6)
        ends = norm.cdf((logit(np.array([low, high])) - later.mean) / np.sqrt(later.variance))
        np.testing.assert_allclose(ends[1] - ends[0], level, atol=2e-3)
    half = later.with_sampling_correction(0.5)
    np.testing.assert_allclose(half.log_odds, later.log_odds + np.log(0.5))
    assert ((half.interval(0.9)[0] <= half.probability) & (half.probability <= half.interval(0.9)[1])).all()
    part = later.take(np.array([3, 7]))
    assert (part.log_odds == later.log_odds[[3, 7]]).all()


def test_a_head_has_to_show_that_it_fits():
    X, y, _ = drifting(300, seed=20, change=0.0)
    bank, _ = learned(Bank(n_features=40, head=40), X, y, range(1, 300))
    assert not bank._head.fits  # rows that come one at a time have no delay
    rows = batch_of(X[:50], y[:50])
    apart = bank.predict(rows, horizon="later")
    bank._head.later_gaps[:] = -1.0, 0.0, 1.0
    assert bank._head.fits
    assert (apart.variance >= bank.predict(rows, horizon="later").variance).mean() > 0.5
    assert saved_and_loaded(bank)._head.fits
    bank._head.clear()
    assert not bank._head.fits


def test_draws_for_intervals_are_from_a_head_that_fits():
    X, y, _ = drifting(4000, seed=21, change=0.0)
    bank, _ = learned(Bank(n_features=40, head=40), X, y, range(500, 4000, 500))
    assert bank._head.fits
    bank._combination.losses[0, :2] = 0.0
    lanes, _ = lanes_to_draw(bank._lanes, bank._combination, bank._head, "interval")
    assert lanes.tolist() == [bank._head.column]
    assert len(lanes_to_draw(bank._lanes, bank._combination, bank._head)[0]) > 1
    scores = logit(bank.sample(batch_of(X[:20], y[:20]), 4000, purpose="interval"))
    later = bank.predict(batch_of(X[:20], y[:20]), horizon="later")
    np.testing.assert_allclose(scores.mean(axis=0), later.mean, atol=0.05)
    np.testing.assert_allclose(scores.var(axis=0), later.variance, rtol=0.15)
    chosen = logit(bank.sample(batch_of(X[:20], y[:20]), 4000, purpose="choose"))
    np.testing.assert_allclose(chosen.var(axis=0), later.variance / 2, rtol=0.15)


def test_weights_outside_the_head_are_shown_with_wider_intervals_up_to_the_prior():
    X, y = columns(4000, np.linspace(0.5, 0.02, 40), seed=22)
    X[:, 39] = 0.0
    X[5, 39] = 1.0  # seen once: nearly the prior
    bank, _ = learned(Bank(n_features=41, head=10), np.c_[X, np.zeros(4000)], y)
    head, every = bank._head.settled(), np.arange(41)
    inside = head.state.slots[:41] > 0
    mean, own, scale_variance = head.weights_given_scale(every)
    factor = (bank.variance - scale_variance * mean**2) / own
    np.testing.assert_allclose(factor[inside], 1.0, rtol=1e-4)
    np.testing.assert_allclose(factor[~inside][:-2], 1.1**2, rtol=1e-3)
    assert 1.0 < factor[39] < 1.1
    assert factor[40] == pytest.approx(1.0, rel=1e-4)
    np.testing.assert_allclose(np.diag(bank.covariance(every)), bank.variance, rtol=1e-5)
    view = bank.weight_view(every)
    np.testing.assert_allclose(view.parts[0].weights.variance, bank.variance, rtol=1e-5)
    outside = np.flatnonzero(~inside)[:2]
    variance = 1.21 * own[outside].sum() + scale_variance * (mean[outside] @ [1.0, -1.0]) ** 2
    assert bank.contrast(outside, [1.0, -1.0]).sd == pytest.approx(np.sqrt(variance), rel=1e-4)


# --- in shards ------------------------------------------------------------------------------------------------------


def in_rounds(bank, X, y, first, shards):
    """Learn the first rows in sequence, and then as many again in each round."""
    rounds.learn_mergeable(bank, batch_of(X[:first], y[:first]))
    while first < len(X):
        parts = [slice(first + k, 2 * first, shards) for k in range(shards)]
        gains = [rounds.learn_shard(bank, [batch_of(X[part], y[part])], shards, k) for k, part in enumerate(parts)]
        rounds.apply(bank, rounds.add(gains), shards)
        first *= 2
    return bank


@pytest.mark.parametrize("slots", [40, 12])
def test_a_head_that_learned_in_shards_knows_what_one_in_sequence_does(slots):
    X, y = columns(32_000, np.linspace(0.5, 0.02, 24), seed=17)
    shared = in_rounds(Bank(n_features=24, head=slots), X, y, 4000, 4)
    one, _ = learned(Bank(n_features=24, head=slots), X, y)
    assert shared._head.taken == one._head.taken == 1 + min(slots, 24)
    assert (shared._head.state.slots > 0).tolist() == (one._head.state.slots > 0).tolist()
    assert shared._head.state.stream[MARK] == one._head.state.stream[MARK] == 2**15
    for counter in (ROWS, NONZEROS):
        assert shared._head.state.stream[counter] == one._head.state.stream[counter]
    sd = np.sqrt(np.diag(one.covariance(np.arange(24))))
    assert (np.abs(shared.mean - one.mean) < 0.25 * sd).all()
    np.testing.assert_allclose(np.sqrt(shared.variance), sd, rtol=0.02)
    np.testing.assert_allclose(
        shared.covariance(np.arange(24)) / np.outer(sd, sd), one.covariance(np.arange(24)) / np.outer(sd, sd), atol=0.05
    )


def table_at_prior(state):
    table = state.table.copy()
    table[:, GAIN] = 0.0
    return table


def test_columns_of_one_value_stay_so_whoever_sees_them_first():
    """Columns 4 to 7 occur in shards only, columns 6 and 7 with other values in each of them, or in each row."""
    random = np.random.default_rng(18)
    X = np.ones((4000, 8)) * [1.0, -0.3, 0.1, 1.0, 0.1, 1.0, 0.7, 3.0] * (random.random((4000, 8)) < 0.4)
    X[:, 3] *= random.normal(1e4, 1.0, 4000)
    X[:, 6] *= 1.0 + np.arange(4000) % 4
    X[:, 7] *= random.normal(size=4000)
    X, y = X.astype(np.float32).astype(float), np.where(random.random(4000) < 0.3, 1.0, -1.0)
    X[:2000, 4:] = 0.0
    for slots in (2, 8):
        shared = in_rounds(Bank(n_features=8, head=slots), X, y, 2000, 4)
        one, _ = learned(Bank(n_features=8, head=slots), X, y)
        table, expected = shared._head.state.table, one._head.state.table
        assert (table[:, SQUARE] == 0).tolist() == [True, True, True, False, True, True, False, False]
        assert (table[:6, FIRST] == expected[:6, FIRST]).all()
        assert (table[:, USES] == expected[:, USES]).all()
        priors = []
        for each in (shared, one):
            state = each._head.settled().state
            alone = state._replace(
                slots=np.zeros_like(state.slots), group_variance=np.ones(256), table=table_at_prior(state)
            )
            priors.append(each._head.weights_given_scale(np.arange(8), alone)[1])
        np.testing.assert_allclose(*priors, rtol=1e-4)


def test_gains_of_a_head_that_chose_other_features_are_those_of_its_marginals():
    X, y = columns(6000, np.linspace(0.05, 0.5, 24), seed=19)
    base, _ = learned(Bank(n_features=24, head=8), X[:400, ::-1], y[:400])
    grown = saved_and_loaded(base)
    grown.learn(batch_of(X, y))
    inside = base._head.state.features[1 : base._head.taken]
    assert not np.isin(inside, grown._head.state.features[1 : grown._head.taken]).all()
    base._head.state.stream[MARK] = 1e6
    rounds.apply(base, rounds.add([rounds.gain(grown, base)]), 1.0)
    assert (base._head.state.features[1 : base._head.taken] == inside).all()
    mean, variance, _ = base._head.settled().weights_given_scale(np.arange(24))  # as learned, without the widening
    expected, variances, _ = grown._head.settled().weights_given_scale(np.arange(24))
    np.testing.assert_allclose(variance, variances, rtol=0.01)
    assert (np.abs(mean - expected) < 0.2 * np.sqrt(variances)).all()
    fresh = Bank(n_features=24, head=8)
    rounds.apply(fresh, rounds.add([rounds.gain(grown, fresh)]), 1.0)
    most_used = np.argsort(-grown._head.state.table[:, USES], kind="stable")[:8]
    assert sorted(fresh._head.state.features[1:9]) == sorted(most_used)


def test_going_back_restores_a_head_and_discounting_halves_what_it_knows():
    X, y = columns(3000, np.linspace(0.3, 0.05, 30), seed=20)
    base, _ = learned(Bank(n_features=30, head=12), X[:2000], y[:2000])
    before, nothing = base.to_bytes(), rounds.add([rounds.learn_shard(base, [], 4.0)])
    shard = rounds.Shard(saved_and_loaded(base))
    shard.learn(batch_of(X[2000:], y[2000:]), 4.0)
    assert shard.part._head.state.features[1:13].tolist() == base._head.state.features[1:13].tolist()
    shard.part.sharding.go_back(shard._base, shard._changed)
    assert shard.part.to_bytes() == before
    rounds.apply(base, nothing, 4.0)
    known, alone = np.diag(base._head.state.precision.reshape(base._head.width, -1)).copy(), base.variance
    shift, gained = base._head.state.shift.copy(), base._head.state.table[:, GAIN].copy()
    rounds.discount(base, 0.5)
    np.testing.assert_allclose(np.diag(base._head.state.precision.reshape(base._head.width, -1)), known / 2)
    np.testing.assert_allclose(base._head.state.shift, shift / 2)
    np.testing.assert_allclose(base._head.state.table[:, GAIN], gained / 2)
    assert (base.variance > alone).all()


@pytest.mark.parametrize("worth", [-1.0, 10.0])
def test_rows_to_recombine_decide_on_an_automatic_head(monkeypatch, worth):
    monkeypatch.setattr(heads, "WORTH", worth)
    X, y = columns(6000, np.linspace(0.3, 0.05, 30), seed=21)
    bank, plain = (in_rounds(Bank(n_features=30, head=head), X[:4000], y[:4000], 1000, 4) for head in ("auto", 0))
    assert bank.live_head is not None
    held, gaps = batch_of(X[4000:], y[4000:]), []
    for each in (bank, plain):
        each.recombine(
            [held[:700], held[700:]], lambda batch, p: gaps.append(-np.log(np.where(batch.labels > 0, p, 1 - p)))
        )
    assert (bank.live_head is not None) == (worth < 0)
    without, with_head = np.concatenate(gaps[2:]), np.concatenate(gaps[:2])
    if worth < 0:
        expected = [0.0, (without - with_head).sum(), ((without - with_head) ** 2).sum(), with_head.sum()]
        np.testing.assert_allclose(bank._twin.progress, expected, rtol=1e-6)
        assert bank.lanes[-2].stacking != 0
    else:
        told, expected = (each.predict(held, horizon="later").probability for each in (bank, plain))
        np.testing.assert_allclose(told, expected, atol=1e-6)


def test_a_bank_with_a_head_shows_the_joint_posterior_and_draws_from_it():
    X, y = columns(3000, np.full(12, 0.4), seed=13)
    bank, _ = learned(Bank(n_features=12, head=12), X, y)
    shown = bank.weights_at(np.arange(12))
    expected = bank._head.weights_at(np.arange(12))
    np.testing.assert_allclose(shown.mean, expected.mean, rtol=1e-6)
    scores = np.zeros((4000, 6))
    rows = batch_of(X[:6], y[:6]).astype("float32")
    bank._head.draw(rows, np.uint64(5), 1.0, np.arange(4000), scores)
    joint = bank._head.covariance_at(np.arange(12))
    np.testing.assert_allclose(scores.mean(0), X[:6] @ expected.mean + bank.intercept[0], atol=0.05)
    state = bank._head.settled().state
    width = len(state.prior)
    slots = state.slots[np.arange(12)]
    between = state.covariance[: width * width].reshape(width, -1)[0, slots]
    variance = np.einsum("ri,ij,rj->r", X[:6], joint, X[:6]) + state.covariance[0] + 2 * X[:6] @ between
    np.testing.assert_allclose(scores.var(0), variance, rtol=0.15)


def test_a_file_from_before_there_was_a_head_has_none():
    X, y = columns(50, np.full(5, 0.4), seed=14)
    bank, _ = learned(Bank(n_features=5, head=0), X, y)
    header, arrays = contents_of(bank)
    assert "head" not in header["parameters"]
    again = restore(Bank, header, {name: bayou.core.model_file.packed(array) for name, array in arrays.items()})
    assert again.parameters["head"] == 0
    assert (again.predict(batch_of(X, y)).probability == bank.predict(batch_of(X, y)).probability).all()


@pytest.mark.parametrize("wrong", [-1, 1.5, "all", 10**6, None])
def test_a_head_that_is_no_size_is_refused(wrong):
    with pytest.raises(bayou.BadInput, match="head"):
        Bank(n_features=5, head=wrong)


def test_several_classes_have_no_head():
    assert "head" not in Classes(20, head=0).parameters
    with pytest.raises(bayou.BadInput, match="a head is for two classes"):
        Classes(20, head=8)
