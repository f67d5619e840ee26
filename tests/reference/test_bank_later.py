"""The reference of the bank's later combination against what Bayes' rule says of whole streams."""

import numpy as np
import pytest
import scipy.sparse as sp

from bayou.learners.bank import Lane
from tests.reference.bank import BankReference
from tests.reference.bank_later import LaterReference, learn_both, predict_later
from tests.reference.common import active_features, log_sigmoid

LANES = [Lane(0.5, scale=True), Lane(4.0, temper=(0.3, 0.1), second=0.3), Lane(1.0, memory=0.1), Lane(rate=0.5)]


def stream(rows=150, width=6, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(rows, width, 0.5, format="csr", random_state=seed)
    X.data = rng.normal(size=X.nnz).round(2)
    y = np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-X @ rng.normal(size=width))), 1, -1)
    return X, y


def test_lanes_with_memory_have_no_say():
    later = LaterReference(BankReference(6, LANES))
    assert later.outputs.tolist() == [0, 1, 3, 4]


def test_mixing_by_evidence_is_the_average_of_whole_streams():
    """prod_t P_t(y) = mean_k prod_t p_k(y), which no running average of probabilities satisfies by chance."""
    X, y = stream()
    bank = BankReference(6, LANES)
    later = LaterReference(bank)
    mixture = final = 0.0
    streams, finals = np.zeros(4), np.zeros(2)
    for row in range(len(y)):
        i, x = active_features(X, row, 6, True)
        look = bank.look(i, x)
        z, _, _, q = later.levels(look)
        mixture += float(log_sigmoid(y[row] * q[0]))
        final += float(log_sigmoid(y[row] * later.logit(look)))
        streams += log_sigmoid(y[row] * z)
        finals += log_sigmoid(y[row] * q)
        later.learn(look, y[row], 1.0)
        bank.learn_example(i, x, y[row], 1.0)
    assert mixture == pytest.approx(np.log(np.mean(np.exp(streams - streams.max()))) + streams.max(), abs=1e-9)
    assert final == pytest.approx(np.log(np.mean(np.exp(finals - finals.max()))) + finals.max(), abs=1e-9)


def test_rows_one_by_one_have_no_delay_and_blocks_do():
    X, y = stream()
    weights = np.ones(len(y))
    at_once, bank = {}, {}
    for name, size in {"whole": len(y), "single": 1}.items():
        bank[name] = BankReference(6, LANES)
        later = at_once[name] = LaterReference(bank[name])
        for row in range(0, len(y), size):
            rows = slice(row, row + size)
            learn_both(bank[name], later, X[rows], y[rows], weights[rows], lambda t: True)
    assert at_once["whole"].learned == at_once["single"].learned == len(y)
    assert at_once["whole"].loss != at_once["single"].loss
    assert np.array_equal(bank["whole"].shares, bank["single"].shares)  # the live combination knows of none of it


def test_predicting_is_pure_and_gives_the_probability_back():
    X, y = stream()
    bank = BankReference(6, LANES)
    later = LaterReference(bank)
    learn_both(bank, later, X, y, np.ones(len(y)), lambda t: t % 3 > 0)
    probability, mean, variance = predict_later(bank, later, X)
    assert np.array_equal(probability, predict_later(bank, later, X)[0])
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-mean / np.sqrt(1.0 + np.pi / 8.0 * variance))), probability)
