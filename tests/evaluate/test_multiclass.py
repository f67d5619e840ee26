"""The meter of several classes against scikit-learn and plain loops; and driven by a learner of several classes."""

import numpy as np
import pytest
from sklearn import metrics

from bayou import Batch
from bayou.core.class_prediction import ClassPrediction, ClassScores
from bayou.core.errors import BadInput
from bayou.evaluate import ClassMeter, Meter, RegressionMeter, predict_then_learn, progressive
from bayou.evaluate.later import LabelOrder, LaterEvaluator
from bayou.evaluate.multiclass import DETAILED, SHOWN
from bayou.learners import Classes, Gaussian, Marginal


def said(rows=600, n_classes=4, seed=0, sharpness=2.0):
    """Probabilities and labels that are somewhat alike, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.standard_normal((rows, n_classes)) - np.arange(n_classes) / 2
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=n_classes - 1)
    return chances, labels.astype(float), rng.integers(0, 3, rows).astype(float)


def metered(chances, labels, weights=None, cuts=(), **more):
    meter = ClassMeter()
    for part in np.split(np.arange(len(labels)), cuts):
        own = {name: values[part] if name == "unseen" else values for name, values in more.items()}
        meter.add(chances[part], labels[part], None if weights is None else weights[part], **own)
    return meter.result()


def expected_calibration_error(chances, labels, weights):
    """By its definition, group after group."""
    top, right = chances.max(axis=1), chances.argmax(axis=1) == labels
    group = np.minimum((top * 15).astype(int), 14)
    gaps = [abs(np.sum(weights[group == g] * (right - top)[group == g])) for g in range(15)]
    return sum(gaps) / weights.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_scikit_learn(weighted):
    chances, labels, weights = said()
    weights = weights if weighted else np.ones(len(labels))
    found = metered(chances, labels, weights)
    one_hot = np.eye(4)[labels.astype(int)]
    assert found.examples == np.count_nonzero(weights)
    assert found.log_loss == pytest.approx(metrics.log_loss(labels, chances, sample_weight=weights), rel=1e-12)
    best = chances.argmax(axis=1)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(labels, best, sample_weight=weights))
    assert found.brier == pytest.approx(np.average(((chances - one_hot) ** 2).sum(axis=1), weights=weights))
    assert found.calibration_error == pytest.approx(expected_calibration_error(chances, labels, weights))
    order = found.classes["label"].astype(int)
    aucs = [metrics.roc_auc_score(labels == k, chances[:, k], sample_weight=weights) for k in order]
    np.testing.assert_allclose(found.classes["auc"], aucs, atol=1e-3)
    assert found.auc == pytest.approx(
        metrics.roc_auc_score(labels, chances, multi_class="ovr", sample_weight=weights), abs=1e-3
    )
    table = metrics.confusion_matrix(labels, best, sample_weight=weights, labels=order)
    np.testing.assert_allclose(found.confusion, table)
    precision, recall, _, _ = metrics.precision_recall_fscore_support(
        labels, best, sample_weight=weights, labels=order, zero_division=np.nan
    )
    np.testing.assert_allclose(found.classes["precision"], precision)
    np.testing.assert_allclose(found.classes["recall"], recall)
    assert (np.diff(found.classes["mass"]) <= 0).all()
    assert found.headline()["log loss"] == found.log_loss == found.as_dict()["log_loss"]


def test_two_classes_are_scored_as_by_their_own_meter():
    chances, labels, weights = said(n_classes=2)
    two, meter = metered(chances, labels, weights), Meter()
    meter.add(chances[:, 1], labels, weights)
    one = meter.result()
    assert two.log_loss == pytest.approx(one.log_loss, rel=1e-12)
    assert two.accuracy == one.accuracy
    assert two.brier == pytest.approx(2.0 * one.brier)  # over both classes
    assert two.auc == pytest.approx(one.auc, abs=1e-3)
    np.testing.assert_allclose(two.curve["log_loss"], one.curve["log_loss"])


def test_reliability_of_a_class_is_that_of_its_probabilities():
    chances, labels, _ = said(rows=20_000)
    found = metered(chances, labels)
    for k, label in enumerate(found.classes["label"].astype(int)):
        curve = found.class_reliability[k]
        assert curve["mass"].sum() == len(labels)
        assert curve["probability"] @ curve["mass"] == pytest.approx(chances[:, label].sum())
        assert np.average(np.abs(curve["rate"] - curve["probability"]), weights=curve["mass"]) < 0.02
    assert found.calibration_error < 0.02
    assert np.average(found.reliability["rate"], weights=found.reliability["mass"]) == pytest.approx(found.accuracy)


def growing(rows=300, n_classes=6, seed=3):
    """Predictions of a learner whose classes join as they come, with fractional weights."""
    chances, labels, _ = said(rows, n_classes, seed)
    met, first = np.unique(labels, return_index=True)
    order = met[np.argsort(first)]
    known = np.searchsorted(np.sort(first), np.arange(rows), side="left")  # before each row
    chances = np.where(np.arange(n_classes) < known[:, None], chances[:, order.astype(int)], 0.0)
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1e-300)
    unseen = 1.0 / (1.0 + np.arange(rows))
    return chances, labels, np.random.default_rng(seed).random(rows), {"classes": order, "unseen": unseen}


def same(one, two):
    """All of two evaluations, to the bit, but the seconds."""
    for name in one.__dataclass_fields__.keys() - {"seconds"}:
        np.testing.assert_equal(getattr(one, name), getattr(two, name), err_msg=name)


def test_results_do_not_depend_on_how_the_rows_are_cut():
    chances, labels, weights, more = growing()
    same(metered(chances, labels, weights, **more), metered(chances, labels, weights, range(1, 300, 7), **more))
    meter = ClassMeter()  # columns that appear with their class, as a learner's do
    for row in range(len(labels)):
        n = np.count_nonzero(chances[row]) or 0
        part = slice(row, row + 1)
        meter.add(
            chances[part, :n], labels[part], weights[part], classes=more["classes"][:n], unseen=more["unseen"][part]
        )
    same(meter.result(), metered(chances, labels, weights, **more))


def test_a_label_that_was_not_known_costs_what_was_reserved():
    meter = ClassMeter()
    meter.add(np.zeros((1, 0)), [5.0], unseen=[1.0])
    meter.add([[1.0]], [7.0], classes=[5.0], unseen=[0.25])
    meter.add([[1.0]], [5.0], classes=[5.0], unseen=[0.25])
    found = meter.result()
    assert found.log_loss == pytest.approx(-(np.log(1.0) + np.log(0.25) + np.log(0.75)) / 3)
    assert found.accuracy == pytest.approx(1 / 3)
    assert found.brier == pytest.approx((0.0 + 2 * 0.75**2 + 2 * 0.25**2) / 3)
    # of 7 no row was told from others; of 5 one row had more than the two others, one the same
    assert dict(zip(found.classes["label"], found.classes["auc"], strict=True)) == {5.0: 0.25, 7.0: 0.5}
    np.testing.assert_array_equal(found.confusion, [[1, 0], [1, 0]])


def test_rows_of_weight_0_bring_no_class():
    meter = ClassMeter()
    meter.add([[0.5, 0.5]] * 2, [0, 9], [1, 0])
    assert meter.result().classes["label"].tolist() == [0, 1]
    empty = ClassMeter().result()
    assert (empty.log_loss, empty.auc, empty.accuracy, empty.confusion.shape) == (None, None, None, (0, 0))


def test_the_commonest_of_many_classes_are_shown():
    rng = np.random.default_rng(0)
    labels = np.minimum(rng.geometric(0.01, 4000), 200).astype(float)
    chances = np.full((4000, 201), 0.5 / 200)
    chances[np.arange(4000), labels.astype(int)] = 0.5
    found = metered(chances, labels)
    assert found.confusion.shape == (SHOWN + 1, SHOWN + 1)
    assert found.confusion.sum() == 4000
    np.testing.assert_array_equal(np.diagonal(found.confusion)[:-1], found.classes["mass"][:SHOWN])
    assert len(found.class_reliability) == SHOWN
    assert found.auc == 1.0


def test_more_classes_than_have_a_place_are_scored_all_the_same():
    n = DETAILED + 100
    chances, labels = np.full((n, n), 0.5 / (n - 1)), np.arange(n, dtype=float)
    np.fill_diagonal(chances, 0.5)
    meter = ClassMeter()
    meter.add(chances, labels)
    found = meter.result()
    assert found.accuracy == 1.0
    assert found.log_loss == pytest.approx(np.log(2))
    assert len(found.classes["label"]) == DETAILED
    assert found.confusion[-1, -1] == n - SHOWN
    assert meter._bins.nbytes + meter._confusion.nbytes < 32e6


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"predictions": [0.5, 0.5]}, "a row for each example"),
        ({"predictions": [[0.5, 0.6]]}, "add up to 1"),
        ({"predictions": [[0.5, np.nan]]}, "row 0"),
        ({"labels": [np.nan]}, "the label is nan"),
        ({"weights": [-1.0]}, "its weight -1"),
        ({"classes": [3, 3]}, "distinct finite"),
        ({"classes": [3]}, "classes have shape"),
        ({"unseen": [1.5]}, "unseen"),
        ({"comparator_losses": [1.0]}, "regret=True"),
    ],
)
def test_what_cannot_be_scored_changes_nothing(wrong, sentence):
    meter = ClassMeter()
    with pytest.raises(BadInput, match=sentence):
        meter.add(**{"predictions": [[0.5, 0.5]], "labels": [0.0], **wrong})
    assert meter.examples == 0
    assert not meter.result().classes["label"].size


# --- with a learner -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream():
    """Rows of three classes, the third of which comes late, with weights, some of them 0."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 8)) < 0.4).astype(float)
    y = np.where(X[:, 0] > 0, 4.0, 2.0)
    y[200:][X[200:, 1] > 0] = 9.0
    return Batch.from_csr(X, y, rng.integers(0, 3, 400).astype(float))


def learner():
    return Classes(n_features=8, learner="marginal")


def in_pieces(batch, size):
    return [batch[k : k + size] for k in range(0, len(batch), size)]


@pytest.mark.parametrize("delay", [0, 5])
def test_progressive_scores_what_was_said_before_each_row(stream, delay):
    found = progressive(learner(), in_pieces(stream, 64), delay=delay)
    one_by_one, losses, waiting = learner(), [], []
    for row in in_pieces(stream, 1):
        prediction = one_by_one.predict(row)
        losses.append(-np.log(prediction.label_probability(row.labels)[0]))
        waiting.append(row)
        if len(waiting) > delay:
            one_by_one.learn(waiting.pop(0))
    assert found.log_loss == pytest.approx(np.average(losses, weights=stream.weights), rel=1e-9)
    assert found.examples == np.count_nonzero(stream.weights)
    assert found.nonzeros == stream.counted_nonzeros
    assert sorted(found.classes["label"]) == [2, 4, 9]
    same(found, progressive(learner(), in_pieces(stream, 7), delay=delay))


def test_a_learner_that_only_learns_has_its_classes_numbered_from_0():
    chances, labels, _ = said(rows=50, n_classes=3)

    class Fixed:
        def learn(self, batch):
            return chances

    found = progressive(Fixed(), Batch.from_rows([{}] * 50, labels=labels), task="multiclass")
    assert found.log_loss == pytest.approx(metrics.log_loss(labels, chances))
    with pytest.raises(BadInput, match="each of several classes has its own"):
        progressive(learner(), Batch.from_rows([{}], labels=[1]), truth=np.zeros(8))


def test_one_way_to_score_predictions_of_any_kind(stream):
    """Rows whose label is not known are left out."""
    labels, weights = np.where(np.arange(400) % 3 == 0, np.nan, stream.labels), stream.weights
    known = ~np.isnan(labels)
    for meter, model in ((ClassMeter(), learner()), (RegressionMeter(), Gaussian(n_features=8))):
        model.learn(stream)
        meter.add_prediction(model.predict(stream), labels, weights)
        other = type(meter)()
        other.add_prediction(model.predict(stream).take(known), labels[known], weights[known])
        same(meter.result(), other.result())
        assert 0 < meter.examples < np.count_nonzero(weights)
        meter.add_prediction(model.predict(stream), np.full(400, np.nan), weights)
        assert meter.examples == other.examples
    meter = Meter()
    meter.add_prediction(Marginal(n_features=8).predict(stream), np.where(known, 1.0, np.nan))
    assert meter.examples == known.sum()


def test_a_step_says_all_that_was_said(stream):
    told = predict_then_learn(learner(), stream)
    assert isinstance(told.prediction, ClassPrediction)
    assert told.expected.shape == (400, 3)
    assert Meter().examples == 0


def test_later_rows_of_several_classes_cost_more_where_neighbours_are_alike():
    rows = np.arange(4000)
    batch = Batch.from_csr(np.ones((4000, 1)), (rows // 100 % 3).astype(float))
    model, ahead = Classes(n_features=1, learner="marginal", memory=0.1), LaterEvaluator()
    for block, kept in ahead.blocks(batch):
        later = model.predict(block.take(kept), "later")
        ahead.add(block, kept, later, model.observe(block))
    found = ahead.loss()
    assert found.learned < 0.7 < 1.0 < found.expected


def test_losses_of_later_rows_are_bounded():
    scores = ClassScores(np.array([[1.0, 0.0]]), np.zeros((1, 2)), None, np.zeros(1))
    ahead, block = LaterEvaluator(), Batch.from_rows([{}], labels=[1])
    prediction = ClassPrediction(np.array([0.0, 1.0]), scores, "marginal")
    ahead.add(block, np.array([0]), prediction, prediction)
    assert ahead.loss().learned == pytest.approx(14 * np.log(10))


def test_chance_of_several_classes_is_that_of_shuffled_rows():
    rng = np.random.default_rng(1)
    labels = rng.choice(4, 500, p=[0.5, 0.3, 0.15, 0.05])
    orders = []
    for _ in range(2000):
        orders.append(LabelOrder())
        orders[-1].add(rng.permutation(labels))
    runs, deviations = np.array([order.runs for order in orders]), np.array([order.deviation for order in orders])
    assert runs.mean() == pytest.approx(orders[0].expected_runs, abs=4 * runs.std() / np.sqrt(2000))
    assert deviations.std() == pytest.approx(1.0, abs=0.06)
    ordered = LabelOrder()
    ordered.add(np.sort(labels))
    assert ordered.runs == 4
    assert "sorted by their labels" in ordered.warning()
