"""Reports of several classes, and of numbers of which a few are far out."""

import json
import re

import numpy as np
import pytest
from plotly import graph_objects
from scipy.special import entr

from bayou import Batch, evaluate
from bayou.learners import Classes, Gaussian
from bayou.report import Recorder, ReportedRun, page
from bayou.report.facts import CLASSES, RunFacts
from bayou.report.figures.elements import usual
from bayou.report.recorder import TopClass
from bayou.report.uncertainty import split_classes
from tests.report.runs import NASTY, classes, far_out
from tests.report.test_page import Parsed


@pytest.fixture(scope="module")
def report():
    run, data = classes()
    return Parsed(page.render(run, data)), RunFacts(run, data)


def test_the_table_of_classes_is_that_of_the_meter(report):
    parsed, facts = report
    result = facts.result
    names = facts.class_names(result.classes["label"])
    assert names == [f"{NASTY}{label:.0f}" for label in result.classes["label"]]
    actual, predicted = (view["data"][0] for view in parsed.figures["confusion"])
    rows = result.confusion.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(actual["z"], result.confusion / rows, atol=1e-4)
    np.testing.assert_allclose(predicted["z"], result.confusion / result.confusion.sum(axis=0), atol=1e-4)
    for k in range(3):
        share = f"{100 * result.classes['mass'][k] / result.examples:.0f}%"
        assert f"{names[k]} {share} {result.classes['auc'][k]:.4f}" in parsed.text
    plain = json.loads(re.sub(r'"@\w+(/\d+)?"', '"#123456"', json.dumps(list(parsed.figures.values()))))
    for view in (view for views in plain for view in views):
        graph_objects.Figure(view["data"], view["layout"])


def test_each_class_has_a_plot_of_its_probabilities_and_a_view_of_its_features(report):
    parsed, facts = report
    (view,) = parsed.figures["class-reliability"]
    curves = [trace for trace in view["data"] if "marker" in trace and "customdata" in trace]
    assert [trace["xaxis"] for trace in curves] == ["x", "x2", "x3"]
    for trace, told in zip(curves, facts.result.class_reliability, strict=True):
        np.testing.assert_allclose(trace["y"], told["rate"], rtol=1e-4)
    assert len(view["layout"]["annotations"]) == 3
    views = parsed.figures["features"]
    assert len(views) == 3
    counts = facts.learner.counts
    for view, k in zip(views, np.argsort(-counts, kind="stable"), strict=True):
        strongest = int(np.argmax(view["data"][0]["x"]))
        assert view["data"][0]["customdata"][strongest][0].startswith(f"f{facts.learner.labels[k]:.0f}=")
    assert "What speaks most for a class" in parsed.text


def test_the_summary_says_what_is_taken_for_what(report):
    parsed, facts = report
    result = facts.result
    assert f"The most probable class was the right one {100 * result.accuracy:.0f}% of the time" in parsed.text
    shares = result.classes["mass"] / result.classes["mass"].sum()
    assert facts.base_loss == pytest.approx(entr(shares).sum())
    assert f"Always predicting the shares of the 3 classes would have cost {facts.base_loss:.3f}" in parsed.text
    wrong = result.confusion * (1 - np.eye(3))
    share = wrong.max() / result.classes["mass"][wrong.max(axis=1).argmax()]
    assert f"The commonest mistake: {100 * share:.0f}% of" in parsed.text
    assert "positive" not in parsed.text


def test_nasty_names_of_classes_are_text(report):
    parsed, _ = report
    assert [attributes.get("id") for attributes, _ in parsed.scripts] == ["figures", "library", None]
    assert not [tag for tag, _, _ in parsed.attributes if tag == "img"]
    assert "49" not in re.findall(r"\{\{ (\S+)", parsed.text)
    for text in parsed.figures["confusion"][0]["layout"]["yaxis"]["ticktext"]:
        assert "<" not in text


def test_surprises_are_rows_that_were_taken_for_another_class(report):
    _, facts = report
    surprising = facts.largest_losses
    guess = TopClass.of(surprising.guess)
    assert len(surprising) > 0
    assert (guess.label != surprising.label).all()
    assert (np.diff(surprising.expected) >= 0).all()  # the least expected first
    assert (guess.probability > surprising.expected).all()
    assert (guess.low < guess.probability).all()
    assert (guess.probability < guess.high).all()
    assert all(moved[0][1] > 0 for moved in facts.top_contributions(surprising))  # towards the class predicted


@pytest.mark.parametrize("learner", ["marginal", "ftrl"])
def test_what_is_remembered_of_a_row_is_what_was_said_of_it(learner):
    rng = np.random.default_rng(0)
    batch = Batch.from_csr((rng.random((300, 6)) < 0.5).astype(float), rng.integers(3, 6, 300))
    recorder, other = Recorder(Classes(n_features=6, learner=learner)), Classes(n_features=6, learner=learner)
    for part in recorder.split_at_recordings([batch]):
        recorder.learn(part)
    said, sample = other.observe(batch), recorder.sample()
    kept = sample.row
    guess = TopClass.of(sample.guess)
    np.testing.assert_allclose(sample.expected, said.label_probability(batch.labels)[kept])
    np.testing.assert_array_equal(sample.label, batch.labels[kept])
    assert np.isnan(guess.label[0])  # of the first row no class was known
    np.testing.assert_array_equal(guess.label[1:], said.best[kept][1:])
    np.testing.assert_allclose(guess.probability[1:], said.probability.max(axis=1)[kept][1:])
    assert np.isnan(sample.variance).all() == (learner == "ftrl")
    total = entr(said.probability).sum(axis=1)[kept]
    np.testing.assert_allclose((guess.aleatoric + guess.epistemic)[1:], total[1:], atol=1e-9)
    text = page.render(ReportedRun(recorder, evaluate.progressive(other, batch)))
    assert ("keeps no posterior" in text) == (learner == "ftrl")


def test_of_two_classes_the_split_is_that_of_two():
    mean, variance = np.array([[0.5, -0.5]]), np.array([[1e-12, 1e-12]])
    p = 1 / (1 + np.exp(-mean))
    sure = split_classes(p, mean, variance)
    assert sure.epistemic[0] < 1e-9
    unsure = split_classes(p, mean, np.full((1, 2), 4.0))
    assert 0.05 < unsure.epistemic[0] < unsure.aleatoric[0] + unsure.epistemic[0] <= np.log(2)
    assert split_classes(p, mean, None).epistemic[0] == 0.0


def test_many_classes_are_shown_as_far_as_there_is_room():
    run, data = classes(60, 1200)
    parsed = Parsed(page.render(run, data))
    table = parsed.figures["confusion"][0]["data"][0]
    assert len(table["z"]) == 25
    assert parsed.figures["confusion"][0]["layout"]["yaxis"]["ticktext"][-1] == "all others"
    assert sum(int(cell[2].replace(",", "")) for row in table["customdata"] for cell in row) == 1199
    assert len(parsed.figures["features"]) == CLASSES


# --- numbers --------------------------------------------------------------------------------------------------------


def test_numbers_far_out_are_marked_at_the_edge_and_flatten_nothing():
    run = far_out(learner=Gaussian(4, noise_variance=1.0))
    parsed, facts = Parsed(page.render(run)), RunFacts(run)
    (view,) = parsed.figures["residuals"]
    low, high = view["layout"]["yaxis"]["range"]
    beyond = next(trace for trace in view["data"] if trace["name"] == "beyond the axes")
    far = np.abs(facts.sample.label) > 1000
    assert far.any()
    assert len(beyond["x"]) >= far.sum()
    assert all(low <= y <= high for y in beyond["y"])
    assert set(beyond["marker"]["symbol"]) <= {"triangle-up", "triangle-down"}
    assert f"{len(beyond['x'])} of {len(facts.sample):,} lie beyond the axes" in parsed.text


def test_axes_hold_what_is_usual():
    values = np.random.default_rng(1).normal(size=2000)
    assert usual(values) == (values.min(), values.max())
    low, high = usual(np.append(values, [1e6, -1e9]))
    assert -6.0 < low < -4.0
    assert 4.0 < high < 6.0
    assert usual(np.full(3, 2.0)) == (1.5, 2.5)


def test_coverage_over_time_is_that_of_the_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=3000)
    recorder = Recorder(Gaussian(3))
    result = evaluate.progressive(recorder, recorder.split_at_recordings([Batch.from_csr(X, y)]))
    parsed, facts = Parsed(page.render(ReportedRun(recorder, result))), RunFacts(ReportedRun(recorder, result))
    inside, right = parsed.figures["coverage"][0]["data"]
    assert set(right["y"]) == {0.9}
    late = np.array(inside["x"]) > 300
    assert np.mean(np.array(inside["y"])[late]) == pytest.approx(result.coverage, abs=0.03)
    low, high = facts.interval(facts.sample, 0.9)
    met = (low <= facts.sample.label) & (facts.sample.label <= high)
    assert np.average(met, weights=facts.sample.stream_weight) == pytest.approx(result.coverage, abs=0.02)
