"""The bank's answer for later rows: the kernel against its reference, what it leaves alone, and what it is for."""

import copy
import itertools
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import bayou
from bayou import Batch
from bayou.core.errors import BadInput
from bayou.core.threads import SerialExecutor
from bayou.learners import Bank, Marginal
from bayou.learners.bank import Lane
from bayou.learners.bank.combination import reset_shares
from bayou.learners.bank.linearization import weights_of
from bayou.learners.ensembles.delayed import MAX_SAMPLED, LaterLoss, next_delay_block
from tests.reference.bank import BankReference
from tests.reference.bank_later import LaterReference, learn_both, predict_later

LANES = {
    "slim": None,
    "own": [
        Lane(0.5, scale=True),
        Lane(4.0, temper=(0.3, 0.1), second=0.3),
        Lane(1.0, memory=0.1),
        Lane(rate=0.5),
    ],
    "memory alone": [Lane(1.0, memory=0.1), Lane(10.0, memory=0.01)],
}


def stream(rows=400, width=20, seed=0, ones=False):
    rng = np.random.default_rng(seed)
    X = sp.random(rows, width, 0.3, format="csr", random_state=seed)
    X.data = np.ones(X.nnz) if ones else rng.normal(size=X.nnz) * 10.0 ** rng.integers(-3, 3, X.nnz)
    y = np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-np.clip(X @ rng.normal(size=width), -9, 9))), 1, -1)
    return X, y, rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], size=rows)


def alternating(rows=4000, width=5, seed=0):
    """Labels 1, 0, 1, 0, whatever the features: who follows them closely is fooled."""
    rng = np.random.default_rng(seed)
    X = sp.csr_matrix((rng.random((rows, width)) < 0.5).astype(float))
    return X, np.arange(rows) % 2


@pytest.mark.parametrize("lanes", LANES.values(), ids=LANES)
@pytest.mark.parametrize("combine", ["stack", "share"])
def test_as_the_reference_says(lanes, combine):
    X, y, weights = stream()
    bank = Bank(20, lanes=lanes, combine=combine, dtype="float64", head=0)
    reference = BankReference(20, lanes or "slim", combine)
    later, row = LaterReference(reference), 0
    for size in (1, 2, 130, 7, 260):
        rows = slice(row, row + size)
        bank.learn(Batch.from_csr(X[rows], y[rows], weights[rows]))
        learn_both(reference, later, X[rows], y[rows], weights[rows], lambda t: True)
        row += size
    said = bank.predict(Batch.from_csr(X), horizon="later")
    probability, mean, variance = predict_later(reference, later, X)
    np.testing.assert_allclose(said.probability, probability, atol=1e-9)
    np.testing.assert_allclose(said.mean, mean, atol=1e-8)
    np.testing.assert_allclose(said.variance, variance, atol=1e-8)
    mean, variance = later.weights()
    size = np.sqrt(variance)
    np.testing.assert_allclose((bank.mean - mean[:-1]) / size[:-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(bank.variance, variance[:-1], rtol=1e-9)
    np.testing.assert_allclose((bank.intercept[0] - mean[-1]) / size[-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(bank.intercept[1], variance[-1], rtol=1e-9)


def test_what_to_expect_is_the_mean_gap_of_the_last_half():
    X, y, _ = stream(rows=1000, seed=1, ones=True)
    weights = np.ones(len(y))
    bank, reference = Bank(20, dtype="float64", head=0), BankReference(20)
    live = bank.learn(Batch.from_csr(X, y))
    delayed = learn_both(reference, LaterReference(reference), X, y, weights, lambda t: True)
    live = -np.log(np.where(y > 0, live, 1.0 - live))
    found = bank.later_loss()
    rows = slice(1000 - int(found.rows), 1000)
    assert 500 <= found.rows <= 640  # a half, to the whole bucket
    gap = (delayed - live)[rows]
    assert found.learned == pytest.approx(live[rows].mean(), rel=1e-9)
    assert found.expected == pytest.approx(live[rows].mean() + gap.mean(), rel=1e-9)
    assert found.error == pytest.approx(gap.std() / np.sqrt(len(gap)), rel=1e-6)
    assert [learner.later_loss() for learner in (Bank(20, head=0), Marginal(20))] == [None, None]


def test_rows_one_by_one_tell_nothing_of_later_ones():
    X, y, _ = stream(rows=50, seed=1, ones=True)
    bank = Bank(20, head=0)
    for row in range(50):
        bank.learn(Batch.from_csr(X[row], y[row : row + 1]))
    assert bank.supports_later
    assert bank.later_loss() is None


def test_a_difference_counts_when_it_is_large_and_sure():
    assert LaterLoss(0.4, 0.42, 0.001, 1000).differs
    assert not LaterLoss(0.4, 0.405, 0.001, 1000).differs  # 1.25%
    assert not LaterLoss(0.4, 0.42, 0.01, 1000).differs  # two standard errors


def test_sampling_goes_by_the_examples_number():
    weights = np.ones(40_000, np.float32)

    def kept(examples, first, last):
        found, row = [], first
        while row < last:
            row, _, some = next_delay_block(weights[:last], row, examples + np.count_nonzero(weights[first:row]), -1)
            found.append(some)
        return np.concatenate(found)

    assert np.array_equal(kept(0, 0, 40_000)[:MAX_SAMPLED], np.arange(MAX_SAMPLED))
    far = kept(10**6, 0, 40_000)
    assert len(far) == pytest.approx(40_000 * MAX_SAMPLED / (10**6 + 20_000), rel=0.15)
    weights[::2] = 0.0
    assert not np.any(kept(0, 0, 40_000) % 2 == 0)
    both = np.concatenate([kept(50_000, 0, 1000), kept(50_500, 1000, 3000)])
    assert np.array_equal(both, kept(50_000, 0, 3000))


def test_a_block_is_an_eighth_of_what_was_learned_and_ends_where_it_must():
    weights = np.ones(20_000, np.float32)
    assert [next_delay_block(weights, 0, t, -1)[0] for t in (0, 15, 16, 800, 10**6)] == [1, 1, 2, 100, 8192]
    assert next_delay_block(weights, 19_990, 800, -1)[0] == 20_000
    assert next_delay_block(weights, 0, 800, 850)[0] == 50
    weights[::2] = 0.0
    assert next_delay_block(weights, 0, 800, -1)[0] == 200


def test_labels_that_alternate_do_not_fool_it():
    X, y = alternating()
    bank = Bank(5, head=0)
    live = bank.learn(Batch.from_csr(X[:3000], y[:3000]))
    rest = Batch.from_csr(X[3000:], y[3000:])

    def loss(p, labels):
        return -np.mean(np.log(np.where(labels > 0, p, 1.0 - p)))

    assert loss(live[1500:], y[1500:3000]) < 0.65
    assert loss(bank.predict(rest).probability, y[3000:]) > 0.7
    assert loss(bank.predict(rest, horizon="later").probability, y[3000:]) < 0.694
    assert bank.later_loss().differs


def test_variances_stay_those_of_gaussian_lanes_where_adagrad_is_far_ahead():
    """By 800 nats: as shares, the evidence of all others is 0."""
    X, y, _ = stream(seed=2)
    bank, reference = (make(20, lanes=LANES["own"]) for make in (partial(Bank, dtype="float64", head=0), BankReference))
    bank.learn(Batch.from_csr(X, y))
    later = LaterReference(reference)
    learn_both(reference, later, X, y, np.ones(len(y)), lambda t: True)
    adagrad = [bank._outputs[o][0] == 3 for o in np.flatnonzero(bank._static)]
    bank._later_combination.losses[0][bank._later_combination.slots] += np.where(adagrad, 0.0, 800.0)
    reset_shares(bank._later_combination)
    later.log_evidence -= np.where(adagrad, 0.0, 800.0)
    np.testing.assert_allclose(bank.variance, later.weights()[1][:-1], rtol=1e-9)
    assert bank.variance.min() > 1e-9
    variance = bank.predict(Batch.from_csr(X), horizon="later").variance
    np.testing.assert_allclose(variance, predict_later(reference, later, X)[2], rtol=1e-9)


@pytest.mark.parametrize("horizon", ["next", "later"])
def test_many_rows_are_predicted_as_few_are(horizon):
    """Of many rows the combination follows the lanes in another thread, in longer strides."""
    X, y, _ = stream(rows=40_000, ones=True)
    X.data[::400] = 2.0  # few rows hold other values than 1
    batch = Batch.from_csr(X, y)
    bank = Bank(X.shape[1], head=0)
    bank.learn(batch[:9000])
    whole = bank.predict(batch, horizon=horizon)
    for start, stop in ((0, 1), (1, 700), (700, 8892), (8892, 40_000)):
        part = bank.predict(batch[start:stop], horizon=horizon)
        for name in ("probability", "mean", "variance"):
            assert getattr(part, name).tobytes() == getattr(whole, name)[start:stop].tobytes()


def test_predicting_later_changes_nothing_and_files_keep_it(tmp_path):
    X, y, weights = stream(seed=3)
    bank = Bank(20, head=0)
    bank.learn(Batch.from_csr(X, y, weights))
    rows = Batch.from_csr(X)
    said = bank.predict(rows, horizon="later").probability
    assert np.array_equal(bank.predict(rows, horizon="later").probability, said)
    bank.save(tmp_path / "m.bayou")
    again = bayou.load(tmp_path / "m.bayou")
    twin = copy.copy(bank)
    for each in again, twin, bank.snapshot():
        assert np.array_equal(each.predict(rows, horizon="later").probability, said)
    for each in bank, again, twin:
        each.learn(Batch.from_csr(X, y, weights))
    said = bank.predict(rows, horizon="later").probability
    assert np.array_equal(again.predict(rows, horizon="later").probability, said)
    assert again.later_loss() == twin.later_loss() == bank.later_loss()


def test_a_model_that_never_learned_it_answers_for_the_next_row():
    """Its lanes alone have learned."""
    X, y, weights = stream(seed=4)
    bank = Bank(20, head=0)
    bank.learn(Batch.from_csr(X, y, weights), combine=False)
    rows = Batch.from_csr(X)
    assert (bank.supports_later, bank.later_loss()) == (False, None)
    with pytest.warns(UserWarning, match="retrain it"):
        said = bank.predict(rows, horizon="later").probability
    assert np.array_equal(said, bank.predict(rows).probability)
    np.testing.assert_array_equal(bank.mean, weights_of(bank._lanes, bank._combination, np.arange(20))[0])
    bank.learn(Batch.from_csr(sp.vstack([X] * 4), np.tile(y, 4), np.tile(weights, 4)))
    assert bank.supports_later


def test_a_second_pass_tells_nothing_of_rows_never_seen():
    X, y, weights = stream(seed=5)
    bank = Bank(20, head=0)
    batch = Batch.from_csr(X, y, weights)
    bank.learn(batch)
    bank.end_pass()
    expected = bank.later_loss()
    combinations = [bank._later_combination, bank._combination]
    before = [{name: array.copy() for name, array in one.arrays().items()} for one in combinations]
    lanes = bank._lanes.state.copy()
    bank.learn(batch)
    assert bank.later_loss() == expected
    for one, arrays in zip(combinations, before, strict=True):
        for name, array in arrays.items():
            np.testing.assert_array_equal(one.arrays()[name], array, err_msg=name)
    assert (bank._lanes.state != lanes).any()
    bank.new_stream()
    bank.learn(batch)
    assert bank.later_loss() != expected
    assert all(
        (one.arrays()["shares"] != arrays["shares"]).any() for one, arrays in zip(combinations, before, strict=True)
    )


def test_merging_averages_evidence_and_adds_what_to_expect():
    X, y, _ = stream(rows=600, seed=6, ones=True)
    halves = []
    for rows in slice(0, 300), slice(300, 600):
        bank = Bank(20, dtype="float64", head=0)
        bank.learn(Batch.from_csr(X[rows], y[rows]))
        halves.append(bank)
    merged = halves[0].merge(halves[1])
    slots = merged._later_combination.slots
    mean = sum(half._later_combination.losses[0][slots] for half in halves) / 2
    np.testing.assert_allclose(merged._later_combination.losses[0][slots], mean)
    shares = np.exp(mean.min() - mean)
    np.testing.assert_allclose(merged._later_combination.shares[slots], shares / shares.sum())
    assert merged.supports_later
    expected = merged.later_loss()
    sides = sorted(half.later_loss().learned for half in halves)
    assert sides[0] <= expected.learned <= sides[1]
    grown = copy.copy(halves[0])
    grown.learn(Batch.from_csr(X[300:], y[300:]))
    again = grown.merge(halves[0], base=halves[0])
    np.testing.assert_allclose(again._later_combination.losses[0], grown._later_combination.losses[0])


def test_narrowing_drops_its_outputs_too():
    X, y, _ = stream(rows=5000, seed=7, ones=True)
    bank = Bank(20, preset="wide", narrowing=True, head=0)
    bank.learn(Batch.from_csr(X, y))
    kept = bank._combination.is_kept[bank._combination.slots][bank._static]
    assert 0 < kept.sum() < kept.size
    assert np.array_equal(bank._later_combination.is_kept[bank._later_combination.slots], kept)
    assert np.array_equal(bank._later_combination.shares[bank._later_combination.slots] > 0, kept > 0)
    assert np.isfinite(bank.predict(Batch.from_csr(X), horizon="later").probability).all()


def test_other_learners_see_no_difference_and_a_wrong_word_is_refused():
    X, y, weights = stream(seed=8)
    learner = Marginal(20)
    learner.learn(Batch.from_csr(X, y, weights))
    rows = Batch.from_csr(X)
    assert np.array_equal(learner.predict(rows, horizon="later").mean, learner.predict(rows).mean)
    with pytest.raises(BadInput, match="horizon is 'soon'; it must be one of 'next', 'later'"):
        learner.predict(rows, horizon="soon")


@pytest.mark.parametrize("more", [{}, {"narrowing": True}, {"pairs": "auto", "cross": "all", "pair_bits": 10}])
def test_what_is_left_behind_the_lanes_changes_no_bit(more):
    """Nor does what is asked of the bank meanwhile: it waits."""
    X, y, weights = stream(rows=16000, seed=3)
    batch = Batch.from_csr(X, y, weights)
    cuts = [0, 1, 700, 2500, 2501, 5100, 14900, 16000]  # more than AT_ONCE among them
    plain, ahead = Bank(20, **more, head=0), Bank(20, **more, head=0)
    told = []
    with SerialExecutor("test", max_pending=2) as turn:
        for start, stop in itertools.pairwise(cuts):
            part = batch[start:stop]
            said, expected = ahead.observe(part, behind=turn), plain.observe(part)
            turn.submit(
                lambda said=said, expected=expected: told.append(np.array_equal(said.expected, expected.expected))
            )
            if start == 2501:
                assert np.array_equal(ahead.predict(batch).probability, plain.predict(batch).probability)
    assert told == [True] * 7
    assert ahead.later_loss() == plain.later_loss()
    assert all(np.array_equal(own, plain._arrays()[name]) for name, own in ahead._arrays().items())
