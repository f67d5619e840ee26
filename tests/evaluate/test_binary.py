"""Scores of predictions against scikit-learn and plain sums."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics

from bayou.core.errors import BadInput
from bayou.evaluate.binary import Meter


def predictions_and_labels(n=20_000, seed=0, spread=2.0, base=-1.0):
    generator = np.random.default_rng(seed)
    score = base + spread * generator.standard_normal(n)
    p = special.expit(score + 0.3 * generator.standard_normal(n))
    return p, (generator.random(n) < special.expit(score)).astype(float)


def result_of(p, y, weights=None):
    meter = Meter()
    meter.add(p, y, weights)
    return meter.result()


# ----------------------------------------------------------------------------------------------------
# Metrics
# ----------------------------------------------------------------------------------------------------


def test_minus_zero_is_zero():
    assert result_of([-0.0, 0.5], [0, 1]).auc == result_of([0.0, 0.5], [0, 1]).auc == 1.0
    assert result_of([-0.0, 0.5], [0, 1]).reliability["probability"].tolist() == [0.0, 0.5]


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
    for p in (1e-300, 1e-17, 1e-5, *np.geomspace(1e-12, 0.999, 100)):
        positive, negative = Meter(), Meter()
        positive.add([p], [1])
        negative.add([p], [0])
        assert positive.log_loss == pytest.approx(-np.log(p), rel=1e-15)
        assert negative.log_loss == pytest.approx(-np.log1p(-p), rel=1e-15)
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
        ([0.5, np.nan], [1, 0], None, "prediction 1 is nan; a probability must be between 0 and 1"),
        ([0.5, 1.5], [1, 0], None, "prediction 1 is 1.5"),
        ([0.5, 0.5], [1, 2], None, "a label is 2.0; 1 is positive, and -1 or 0 is negative"),
        ([0.5, 0.5], [1, np.nan], None, "a label is nan"),
        ([0.5, 0.5], [-1, 0], None, "the stream has labels -1 and 0"),
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
    assert before[0] < 3_000_000
