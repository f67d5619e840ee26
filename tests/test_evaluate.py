"""Progressive evaluation against scikit-learn, plain loops and the papers' definitions."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from bayou import Batch, hindsight, simulate
from bayou.errors import BadInput
from bayou.evaluate import Meter, best_fixed_weights, progressive
from bayou.links import LINKS


class Rates:
    """A tiny learner: the rate of positives seen with each feature, averaged over an example's features."""

    def __init__(self, n_features):
        self.positive, self.total = np.ones(n_features), np.full(n_features, 2.0)

    def predict_row(self, features):
        return float(np.mean(self.positive[features] / self.total[features])) if len(features) else 0.5

    def learn_row(self, features, label, weight):
        self.positive[features] += weight * (label > 0)
        self.total[features] += weight

    def learn(self, batch):
        weights = np.ones(len(batch)) if batch.weights is None else batch.weights
        predictions = np.empty(len(batch))
        for row, features in enumerate(features_of(batch)):
            predictions[row] = self.predict_row(features)
            self.learn_row(features, batch.labels[row], weights[row])
        return predictions


def features_of(batch):
    return np.split(batch.indices.astype(np.int64), batch.indptr[1:-1])


class Fixed:
    """Says what it was told to say."""

    def __init__(self, predictions):
        self.predictions, self.at = predictions, 0

    def learn(self, batch):
        self.at += len(batch)
        return self.predictions[self.at - len(batch) : self.at]


def predictions_and_labels(n=20_000, seed=0, spread=2.0, base=-1.0):
    generator = np.random.default_rng(seed)
    score = base + spread * generator.standard_normal(n)
    p = special.expit(score + 0.3 * generator.standard_normal(n))
    return p, (generator.random(n) < special.expit(score)).astype(float)


def weighted_stream(n=300, d=30, seed=1, batch_size=37):
    """Batches with weights, some of them 0."""
    generator = np.random.default_rng(seed)
    for batch in simulate.random(n_features=d, active=0.1, seed=seed).batches(n, batch_size=batch_size):
        yield batch.with_labels(batch.labels, generator.integers(0, 3, len(batch)).astype(float))


def result_of(p, y, weights=None):
    meter = Meter()
    meter.add(p, y, weights)
    return meter.result()


# ----------------------------------------------------------------------------------------------------
# Metrics
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("negative", [0, -1])
def test_metrics_equal_scikit_learns(weighted, negative):
    p, y = predictions_and_labels()
    weights = np.random.default_rng(3).integers(0, 4, len(p)) / 2 if weighted else None
    result = result_of(p, np.where(y > 0, 1, negative), weights)
    assert result.log_loss == pytest.approx(metrics.log_loss(y, p, sample_weight=weights), rel=1e-12)
    assert result.brier == pytest.approx(metrics.brier_score_loss(y, p, sample_weight=weights), rel=1e-12)
    assert result.accuracy == pytest.approx(metrics.accuracy_score(y, p > 0.5, sample_weight=weights))
    assert result.auc == pytest.approx(metrics.roc_auc_score(y, p, sample_weight=weights), abs=2e-6)
    assert result.auc_error < 1e-4
    assert result.examples == (len(p) if weights is None else np.count_nonzero(weights))


@pytest.mark.parametrize(("spread", "base"), [(0.05, 0.0), (0.3, -7.0), (8.0, 0.0), (1.0, 3.0)])
def test_auc_is_right_for_predictions_near_and_far(spread, base):
    p, y = predictions_and_labels(spread=spread, base=base)
    result = result_of(p, y)
    exact = metrics.roc_auc_score(y, p)
    assert abs(result.auc - exact) <= result.auc_error + 1e-12
    assert result.auc == pytest.approx(exact, abs=1e-4)


def test_ties_count_one_half():
    p, y = predictions_and_labels(2000)
    p = np.round(p, 1)
    assert result_of(p, y).auc == pytest.approx(metrics.roc_auc_score(y, p), abs=1e-12)


def test_a_row_of_weight_zero_does_not_count():
    p, y = predictions_and_labels(1000)
    keep = np.random.default_rng(1).random(1000) < 0.5
    some, all_of_them = result_of(p[keep], y[keep]), result_of(p, y, keep.astype(float))
    for name in ("examples", "log_loss", "auc", "accuracy", "brier", "calibration_error"):
        assert getattr(some, name) == getattr(all_of_them, name)
    for name, column in some.curve.items():
        np.testing.assert_array_equal(column, all_of_them.curve[name])


def test_log_loss_stays_exact_next_to_zero_and_one():
    for p in (1e-300, 1e-17, 1e-5):
        assert result_of([p], [1]).log_loss == pytest.approx(-np.log(p), rel=1e-15)
        assert result_of([p], [0]).log_loss == pytest.approx(-np.log1p(-p), rel=1e-15)
    near = 1 - 2.0**-53
    assert result_of([near], [0]).log_loss == pytest.approx(53 * np.log(2), rel=1e-15)
    assert result_of([1.0], [1]).log_loss == 0
    assert result_of([0.0], [0]).log_loss == 0
    assert result_of([1.0], [0]).log_loss == pytest.approx(54 * np.log(2))  # half a step below 1
    assert result_of(np.ones(1, np.float32), [0]).log_loss == pytest.approx(25 * np.log(2))
    assert np.isfinite(result_of([0.0], [1]).log_loss)


def test_calibration_error_groups_by_mass_not_by_width():
    """All predictions lie below 0.02: groups of equal width would see one group, and no error at all."""
    generator = np.random.default_rng(0)
    p = generator.uniform(0.0, 0.02, 400_000)
    honest, reversed_ = (generator.random(p.size) < q for q in (p, 0.02 - p))
    assert result_of(p, honest.astype(float)).calibration_error < 0.001
    assert result_of(p, reversed_.astype(float)).calibration_error == pytest.approx(0.01, rel=0.05)


def test_reliability_is_that_of_sorted_predictions_cut_into_twenty():
    p, y = predictions_and_labels()
    result = result_of(p, y)
    order = np.argsort(p)
    groups = np.array_split(order, 20)
    expected = sum(len(g) * abs(y[g].mean() - p[g].mean()) for g in groups) / len(p)
    assert result.calibration_error == pytest.approx(expected, rel=0.02)
    assert len(result.reliability["mass"]) == 20
    np.testing.assert_allclose(result.reliability["probability"], [p[g].mean() for g in groups], rtol=5e-3)
    np.testing.assert_allclose(result.reliability["rate"], [y[g].mean() for g in groups], atol=3e-3)
    assert result.reliability["mass"].sum() == len(p)


def test_one_prediction_for_all_is_one_group():
    result = result_of(np.full(100, 0.3), np.arange(100) < 40)
    assert result.calibration_error == pytest.approx(0.1)
    assert result.reliability["mass"].tolist() == [100]
    assert (result.auc, result.auc_error) == (0.5, 0.5)


def test_what_is_unknown_is_none_and_the_rest_is_json():
    nothing = Meter().result().as_dict()
    assert nothing["log_loss"] is nothing["auc"] is nothing["calibration_error"] is None
    assert "regret" not in nothing
    one_class = result_of([0.5, 0.6], [1, 1])
    assert one_class.auc is None
    keys = {"examples", "nonzeros", "skipped", "log_loss", "auc", "accuracy", "brier"}
    keys |= {"calibration_error", "seconds"}
    assert set(json.loads(json.dumps(one_class.as_dict()))) == keys


@pytest.mark.parametrize(
    ("p", "y", "weights", "message"),
    [
        ([0.5, np.nan], [1, 0], None, "prediction 1 is nan; a probability lies between 0 and 1"),
        ([0.5, 1.5], [1, 0], None, "prediction 1 is 1.5"),
        ([0.5, 0.5], [1, 2], None, "a label is 2.0; 1 is positive, and -1 or 0 is negative"),
        ([0.5, 0.5], [1, np.nan], None, "a label is nan"),
        ([0.5, 0.5], [-1, 0], None, "labels -1 and 0 come in one stream"),
        ([0.5, 0.5], [0, 1], [1, -1], "weight 1 is -1.0"),
        ([0.5, 0.5], [0], None, r"labels have shape \(1,\), but there are 2 predictions"),
        ([0.5, 0.5], ["no", "yes"], None, "labels must be numbers"),
    ],
)
def test_what_cannot_be_scored_is_refused_whole(p, y, weights, message):
    meter = Meter()
    with pytest.raises(BadInput, match=message):
        meter.add(p, y, weights)
    assert meter.examples == 0
    assert meter.result().log_loss is None


def test_labels_of_a_stream_must_agree_across_batches():
    meter = Meter()
    meter.add([0.5], [-1])
    with pytest.raises(BadInput, match="labels -1 and 0"):
        meter.add([0.5], [0])
    meter.add([0.5], [1])
    assert meter.examples == 2


# ----------------------------------------------------------------------------------------------------
# Curves and memory
# ----------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 700), max_size=8))
def test_nothing_depends_on_how_a_stream_is_cut(cuts):
    p, y = predictions_and_labels(700)
    weights = np.random.default_rng(3).integers(0, 3, 700).astype(float)
    at_once, pieces = Meter(), Meter()
    at_once.add(p, y, weights)
    edges = [0, *sorted(cuts), 700]
    for start, stop in itertools.pairwise(edges):
        pieces.add(p[start:stop], y[start:stop], weights[start:stop])
    one, other = at_once.result(), pieces.result()
    assert {**one.as_dict(), "seconds": 0} == {**other.as_dict(), "seconds": 0}
    for name in one.curve:
        np.testing.assert_array_equal(one.curve[name], other.curve[name])


def test_the_curve_is_the_running_loss_at_geometric_points():
    p, y = predictions_and_labels(12_345)
    curve = result_of(p, y).curve
    losses = -np.where(y > 0, np.log(p), np.log1p(-p))
    at = curve["example"]
    assert at[0] == 1
    assert at[-1] == 12_345  # where the stream ends
    assert {10, 100, 1000, 10_000} <= set(at.tolist())
    assert np.count_nonzero((at > 1000) & (at <= 10_000)) == 20
    np.testing.assert_allclose(curve["cumulative_loss"], np.cumsum(losses)[at - 1], rtol=1e-12)
    np.testing.assert_allclose(curve["log_loss"], np.cumsum(losses)[at - 1] / at, rtol=1e-12)
    windows = [losses[a:b].mean() for a, b in zip([0, *at[:-1]], at, strict=True)]
    np.testing.assert_allclose(curve["window_loss"], windows, rtol=1e-12)
    assert "regret" not in curve


def test_points_of_the_curve_can_be_fewer():
    meter = Meter(curve_points=1)
    meter.add(np.full(1234, 0.5), np.ones(1234))
    assert meter.result().curve["example"].tolist() == [1, 10, 100, 1000, 1234]
    with pytest.raises(BadInput, match="curve_points is 0"):
        Meter(curve_points=0)


def test_a_meter_does_not_grow():
    def size(meter):
        return sum(getattr(value, "nbytes", 0) for value in vars(meter).values())

    meter = Meter()
    before = size(meter), sorted(vars(meter))
    for _ in range(50):
        meter.add(np.full(1000, 0.5), np.ones(1000))
    assert (size(meter), sorted(vars(meter))) == before
    assert before[0] < 2_000_000


# ----------------------------------------------------------------------------------------------------
# Predict, then learn
# ----------------------------------------------------------------------------------------------------


def test_progressive_scores_predictions_made_before_learning():
    learner, expected, labels, weights = Rates(30), [], [], []
    for batch in weighted_stream():
        for row, features in enumerate(features_of(batch)):
            expected.append(learner.predict_row(features))
            learner.learn_row(features, batch.labels[row], batch.weights[row])
        labels.extend(batch.labels > 0)
        weights.extend(batch.weights)
    seen = []
    result = progressive(Rates(30), weighted_stream(), on_progress=lambda meter: seen.append(meter.examples))
    assert result.log_loss == pytest.approx(metrics.log_loss(labels, expected, sample_weight=weights), rel=1e-12)
    assert result.examples == np.count_nonzero(weights) == seen[-1]
    assert len(seen) == 9
    lengths = np.concatenate([np.diff(batch.indptr) for batch in weighted_stream()])
    assert result.nonzeros == lengths[np.array(weights) > 0].sum()
    assert result.seconds > 0


@pytest.mark.parametrize("batch_size", [1, 5, 37, 300])
@pytest.mark.parametrize("delay", [1, 4, 37, 100, 299, 300, 1000])
def test_delayed_labels_are_exactly_that_late(delay, batch_size):
    rows = [
        (features, batch.labels[row], batch.weights[row])
        for batch in weighted_stream()
        for row, features in enumerate(features_of(batch))
    ]
    plain, expected = Rates(30), Meter()
    for t, (features, label, weight) in enumerate(rows):
        expected.add([plain.predict_row(features)], [label], [weight])
        if t - delay >= 0:
            plain.learn_row(*rows[t - delay])
    for row in rows[max(0, len(rows) - delay) :]:
        plain.learn_row(*row)

    (whole,) = weighted_stream(batch_size=300)
    whole = whole.with_labels(whole.labels, np.array([weight for _, _, weight in rows]))
    learner = Rates(30)
    batches = (whole[start : start + batch_size] for start in range(0, 300, batch_size))
    result = progressive(learner, batches, delay=delay)
    assert result.log_loss == expected.result().log_loss
    np.testing.assert_array_equal(result.curve["window_loss"], expected.result().curve["window_loss"])
    np.testing.assert_array_equal(learner.positive, plain.positive)
    np.testing.assert_array_equal(learner.total, plain.total)


def test_delay_takes_empty_batches_and_mixed_precision():
    empty = Batch.from_rows([], labels=[])
    narrow = Batch.from_arrays([0, 1], [0], np.array([0.5], np.float32), [1])
    wide = Batch.from_arrays([0, 1], [0], np.array([0.1]), [-1])
    seen = []

    class Recorder:
        def learn(self, batch):
            weights = [1] * len(batch) if batch.weights is None else batch.weights
            seen.extend(zip(batch.values.tolist(), batch.labels, weights, strict=True))
            return np.full(len(batch), 0.5)

    progressive(Recorder(), [empty, narrow, wide, empty, narrow], delay=1)
    assert seen == [(0.5, 1, 0), (0.1, -1, 0), (0.5, 1, 1), (0.5, 1, 0), (0.1, -1, 1), (0.5, 1, 1)]


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_regret_is_loss_above_that_of_the_true_weights(link):
    stream = simulate.random(n_features=40, active=0.2, link=link, seed=2)
    n = 5000
    (batch,) = stream.batches(n, batch_size=n)
    score = batch.to_csr(40).astype(float) @ stream.weights + 0.3
    log_cdf = special.log_expit if link == "logistic" else special.log_ndtr
    weights = np.random.default_rng(0).integers(0, 3, n).astype(float)
    p = np.random.default_rng(1).uniform(0.2, 0.8, n)
    positive = batch.labels > 0
    excess = weights * (log_cdf(batch.labels * score) - np.log(np.where(positive, p, 1 - p)))
    result = progressive(Fixed(p), [batch.with_labels(batch.labels, weights)], truth=(stream.weights, 0.3), link=link)
    assert result.regret == pytest.approx(excess.sum(), rel=1e-10)
    assert result.normalized_regret == result.regret / np.log(result.examples)
    assert result.curve["regret"][-1] == result.regret
    rows = np.flatnonzero(weights)[result.curve["example"] - 1]
    np.testing.assert_allclose(result.curve["regret"], np.cumsum(excess)[rows], rtol=1e-8, atol=1e-10)
    assert {"regret", "normalized_regret"} <= set(result.as_dict())


def test_the_truth_itself_has_no_regret():
    stream = simulate.random(n_features=40, active=0.2, seed=2)

    class Oracle:
        def learn(self, batch):
            return special.expit(batch.to_csr(40).astype(float) @ stream.weights)

    result = progressive(Oracle(), stream.batches(100_000), truth=stream.weights)
    assert abs(result.regret) < 1e-8
    assert result.calibration_error < 0.01


def test_bad_arguments_are_answered_by_a_sentence():
    stream = simulate.random(n_features=10, active=0.5)
    with pytest.raises(BadInput, match="truth has weights only for features below 3"):
        progressive(Rates(10), stream.batches(100), truth=np.zeros(3))
    with pytest.raises(BadInput, match="truth must be a finite array"):
        progressive(Rates(10), stream.batches(100), truth=np.full(10, np.nan))
    with pytest.raises(BadInput, match="delay is -1"):
        progressive(Rates(10), stream.batches(100), delay=-1)
    with pytest.raises(BadInput, match="a batch has no labels"):
        progressive(Rates(10), [Batch.from_rows([{1: 1.0}])])
    with pytest.raises(BadInput, match="link is 'log'"):
        progressive(Rates(10), stream.batches(100), link="log")
    with pytest.raises(BadInput, match="comparator_losses"):
        Meter(regret=True).add([0.5], [1])


# ----------------------------------------------------------------------------------------------------
# The best fixed weights in hindsight
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_best_logistic_weights_equal_scikit_learns(intercept):
    batches = list(weighted_stream(2000, d=20, seed=4, batch_size=300))
    best = best_fixed_weights(batches, 20, l2=0.1, intercept=intercept)
    X = np.vstack([batch.to_csr(20).toarray() for batch in batches]).astype(float)
    y, weights = (np.concatenate([getattr(b, part) for b in batches]) for part in ("labels", "weights"))
    model = LogisticRegression(C=10.0, fit_intercept=intercept, solver="newton-cholesky", tol=1e-10)
    model.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(best.weights, model.coef_[0], atol=2e-5)
    assert best.intercept == pytest.approx(model.intercept_[0] if intercept else 0.0, abs=2e-5)
    losses = -special.log_expit(y * (X @ best.weights + best.intercept))
    assert best.loss == pytest.approx(weights @ losses, rel=1e-12)


def test_the_gradient_is_that_of_the_loss():
    (batch,) = weighted_stream(200, d=8, batch_size=200)
    point = np.random.default_rng(0).normal(size=9)
    for link in (0, 1):
        _, gradient = hindsight._loss_and_gradient([batch], point, link, True)
        for k in range(9):
            step = 1e-6 * np.eye(9)[k]
            high, _ = hindsight._loss_and_gradient([batch], point + step, link, True)
            low, _ = hindsight._loss_and_gradient([batch], point - step, link, True)
            assert gradient[k] == pytest.approx((high - low) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_nothing_fixed_does_better_than_the_best_in_hindsight(link):
    stream = simulate.random(n_features=20, active=0.3, link=link, seed=3)
    best = best_fixed_weights(lambda: stream.batches(5000, batch_size=1000), 20, link=link, l2=0.0)
    against_truth, against_best = (
        progressive(Rates(20), stream.batches(5000), truth=truth, link=link) for truth in (stream.weights, best)
    )
    assert against_best.regret > against_truth.regret
    assert against_best.regret - against_truth.regret < 20
    generator = np.random.default_rng(0)
    for _ in range(5):
        elsewhere = np.append(best.weights + 0.01 * generator.normal(size=20), 0.0)
        loss, _ = hindsight._loss_and_gradient(stream.batches(5000), elsewhere, LINKS[link], False)
        assert loss > best.loss


def test_a_feature_with_one_label_only_stays_finite_by_the_penalty():
    batches = [Batch.from_rows([{0: 1.0}, {1: 1.0}, {1: 1.0}], labels=[1, 1, 0])]
    best = best_fixed_weights(batches, 3)
    assert 3 < best.weights[0] < 10
    assert best.weights[1:] == pytest.approx(0, abs=1e-6)


def test_the_best_weights_need_data_that_can_be_read_again():
    stream = simulate.random(n_features=10, active=0.5)
    with pytest.raises(BadInput, match="can be read only once"):
        best_fixed_weights(stream.batches(100), 10)
    with pytest.raises(BadInput, match="there are weights only for features below 5"):
        best_fixed_weights(list(stream.batches(100)), 5)
    with pytest.raises(BadInput, match="l2 is -1"):
        best_fixed_weights(list(stream.batches(100)), 10, l2=-1)
    assert best_fixed_weights([], 2).loss == 0
