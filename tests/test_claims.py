"""What we say of our learners in public: regret as the paper's, honest about what they do not know, nothing to tune."""

import numpy as np
import pytest
from scipy.sparse import vstack
from scipy.stats import norm
from sklearn.datasets import load_svmlight_files

from bayou import Batch, evaluate, simulate
from bayou.learners import Bank, Marginal
from tests.reference.marginal import MarginalReference

D = 200


class Reference:
    """The plain NumPy rule as a learner."""

    def __init__(self):
        self.rule = MarginalReference(D, intercept=False)

    def learn(self, batch):
        return self.rule.learn(batch.to_csr(D), batch.labels)


def normalized_regret(learner, stream, examples):
    return evaluate.progressive(learner, stream.batches(examples), truth=stream.weights).normalized_regret


@pytest.mark.parametrize(("active", "low", "high"), [(20, 66, 91), pytest.param(40, 74, 108, marks=pytest.mark.long)])
def test_regret_on_the_table_1_set_is_the_papers(active, low, high):
    """The paper prints 77.66 and 91.5 for one draw; draws differ by about 8 per cent."""
    streams = [simulate.random(n_features=D, active=active / D, seed=seed) for seed in range(5)]
    r = [normalized_regret(Marginal(D, intercept=False), stream, 1_000_000) for stream in streams]
    assert low < np.mean(r) < high


@pytest.mark.parametrize("seed", [0, 1])
def test_the_kernels_regret_is_the_references(seed):
    stream = simulate.random(n_features=D, active=0.1, seed=seed)
    kernel = Marginal(D, intercept=False, dtype="float64")
    expected = normalized_regret(Reference(), stream, 2000)
    assert normalized_regret(kernel, stream, 2000) == pytest.approx(expected, rel=1e-10)


def test_float32_regret_is_float64s_to_four_digits():
    stream = simulate.random(n_features=D, active=0.1, seed=0)
    narrow, wide = (
        normalized_regret(Marginal(D, intercept=False, dtype=dtype), stream, 1_000_000)
        for dtype in ("float32", "float64")
    )
    assert narrow == pytest.approx(wide, rel=1e-4)


@pytest.mark.parametrize(("features", "active", "examples"), [(200, 5, 100_000), (2000, 20, 300_000)])
def test_with_the_true_prior_and_sparse_rows_it_knows_what_it_does_not_know(features, active, examples):
    covered, errors = [], []
    for seed in range(5):
        stream = simulate.random(n_features=features, active=active / features, seed=seed)
        learner = Marginal(features, intercept=False)
        errors.append(evaluate.progressive(learner, stream.batches(examples)).calibration_error)
        miss = np.abs(learner.mean - stream.weights) / np.sqrt(learner.variance)
        covered.append(np.mean(miss < norm.ppf(0.95)))
    assert 0.85 < np.mean(covered) < 0.95
    assert np.mean(errors) < 0.01


def test_where_features_keep_meeting_intervals_are_too_narrow_but_probabilities_stay_calibrated():
    """A limit we state; whoever lifts it may delete this test and the sentences in the README."""
    stream = simulate.random(n_features=D, active=0.2, weight_std=2.0, seed=0)
    learner = Marginal(D, prior_variance=4.0, intercept=False)
    result = evaluate.progressive(learner, stream.batches(300_000))
    miss = np.abs(learner.mean - stream.weights) / np.sqrt(learner.variance)
    assert np.mean(miss < norm.ppf(0.95)) < 0.8
    assert result.calibration_error < 0.01


# --- the bank -------------------------------------------------------------------------------------------------------


def rows_of(folder, *names, positive=1):
    parts = load_svmlight_files([str(folder / f"{name}.svm.gz") for name in names], zero_based=False)
    return vstack(parts[::2]).tocsr(), np.concatenate(parts[1::2]) == positive


def bank_loss(X, y, **parameters):
    p = Bank(X.shape[1], **parameters).learn(Batch.from_csr(X, y))
    return -np.mean(np.log(np.where(y, p, 1.0 - p)))


# Progressive log loss, one pass: of the bank as specified, and of the best of many settings of tuned peers.
FIGURES = {
    ("a9a.train", "a9a.test"): (0.3291, 0.3299),
    ("criteo.train10k", "criteo.test10k"): (0.4759, 0.4779),
    ("frappe.train58k", "frappe.test29k"): (0.3170, 0.3285),
    ("ipinyou.train", "ipinyou.test"): (0.0376, 0.0376),
    ("rcv1.train1k", "rcv1.test500"): (0.3146, 0.3261),
    ("w8a.train",): (0.0536, 0.0613),
    ("mushrooms.train",): (0.0098, 0.0119),
}


@pytest.mark.parametrize("names", FIGURES, ids=lambda names: names[0])
def test_the_bank_reaches_its_figures(data_directory, names):
    ours, peers = FIGURES[names]
    loss = bank_loss(*rows_of(data_directory, *names))
    assert loss < 1.005 * ours
    assert loss < 1.01 * peers


def test_the_bank_wins_where_features_come_in_their_own_units(data_directory):
    assert bank_loss(*rows_of(data_directory, "covtype.sample20k", positive=2)) < 0.9 * 0.2612


@pytest.mark.parametrize("names", [("a9a.train", "a9a.test"), ("w8a.train",)], ids=lambda names: names[0])
def test_the_unit_of_all_features_hardly_matters(data_directory, names):
    X, y = rows_of(data_directory, *names)
    loss = bank_loss(X, y)
    for unit in (0.01, 30.0):
        assert bank_loss(X * unit, y) == pytest.approx(loss, rel=0.02)


@pytest.mark.parametrize(("active", "std"), [(5, 1.0), (20, 2.0), (40, 3.0)])
def test_untold_the_bank_has_hardly_more_regret_than_marginal_told_the_prior(active, std):
    stream = simulate.random(n_features=D, active=active / D, weight_std=std, seed=0)
    told = Marginal(D, prior_variance=std**2, intercept=False)
    r = [normalized_regret(learner, stream, 200_000) for learner in (Bank(D, intercept=False), told)]
    assert r[0] < 1.1 * r[1]
