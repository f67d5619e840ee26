"""Progressive evaluation against scikit-learn, plain loops and the papers' definitions."""

import numpy as np
import pytest
from scipy import special
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from bayou import Batch, simulate
from bayou.core.errors import BadInput
from bayou.core.links import LINKS
from bayou.evaluate import Meter, best_fixed_weights, hindsight, progressive


class Rates:
    """A tiny learner: the rate of positives seen with each feature, averaged over an example's features."""

    def __init__(self, n_features):
        self.positive, self.total = np.ones(n_features), np.full(n_features, 2.0)

    def predict_row(self, features):
        return float(np.mean(self.positive[features] / self.total[features])) if len(features) else 0.5

    def learn_example(self, features, label, weight):
        self.positive[features] += weight * (label > 0)
        self.total[features] += weight

    def learn(self, batch):
        weights = np.ones(len(batch)) if batch.weights is None else batch.weights
        predictions = np.empty(len(batch))
        for row, features in enumerate(features_of(batch)):
            predictions[row] = self.predict_row(features)
            self.learn_example(features, batch.labels[row], weights[row])
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


def weighted_stream(n=300, d=30, seed=1, batch_size=37):
    """Batches with weights, some of them 0."""
    generator = np.random.default_rng(seed)
    for batch in simulate.random(n_features=d, active=0.1, seed=seed).batches(n, batch_size=batch_size):
        yield batch.with_labels(batch.labels, generator.integers(0, 3, len(batch)).astype(float))


# ----------------------------------------------------------------------------------------------------
# Predict, then learn
# ----------------------------------------------------------------------------------------------------


def test_progressive_scores_predictions_made_before_learning():
    learner, expected, labels, weights = Rates(30), [], [], []
    for batch in weighted_stream():
        for row, features in enumerate(features_of(batch)):
            expected.append(learner.predict_row(features))
            learner.learn_example(features, batch.labels[row], batch.weights[row])
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
            plain.learn_example(*rows[t - delay])
    for row in rows[max(0, len(rows) - delay) :]:
        plain.learn_example(*row)

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
    with pytest.raises(BadInput, match="a learner needs a method `learn`, which list does not have"):
        progressive([], Batch.from_rows([{}], labels=[1]), delay=1)
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
