"""A grid in one pass: every learner does exactly what it would have done alone."""

from dataclasses import replace

import numpy as np
import pytest

from bayou import evaluate, simulate
from bayou.learners import AdaGrad, Marginal
from bayou.outputs.text import write_csv
from bayou.reproduce.marginal_gaussian import figure1, results
from bayou.reproduce.marginal_gaussian.streams import PRIOR, Method, Panel, PanelDraw, Trace, one_pass

GRID = (
    Method("Marginal", "Marginal", {}, PRIOR, (0.5, 1.0, 4.0)),
    Method("AdaGrad", "AdaGrad", {}, "learning_rate", (0.1, 0.4)),
    Method("Bank", "Bank"),
)


def panel(methods=GRID, **more):
    settings = {"n_features": 50, "active": 0.2, "weight_std": 2.0}
    return Panel("tiny", "tiny", "random", settings, 50, methods, 10, (20_000, 3_000), **more)


def test_one_pass_gives_the_very_regret_of_separate_runs():
    traces = {(t.method, t.setting): t for t in PanelDraw(panel(), 3, 20_000).run()}
    stream = simulate.random(n_features=50, active=0.2, weight_std=2.0, seed=3)
    alone = {("Marginal", f"prior {v:g}"): Marginal(50, prior_variance=v, intercept=False) for v in (2.0, 4.0, 16.0)}
    alone |= {("AdaGrad", f"learning rate {v:g}"): AdaGrad(50, learning_rate=v, intercept=False) for v in (0.1, 0.4)}
    assert set(alone) | {("Bank", "")} == set(traces)
    for who, learner in alone.items():
        result = evaluate.progressive(learner, stream.batches(20_000), truth=stream.weights)
        assert traces[who].regret.tobytes() == result.curve["regret"].tobytes()
        assert traces[who].loss.tobytes() == result.curve["cumulative_loss"].tobytes()
        assert traces[who].normalized[-1] == result.normalized_regret


def test_the_stream_is_drawn_once(monkeypatch):
    drawn = []

    def counted(batches):
        for batch in batches:
            drawn.append(len(batch))
            yield batch

    stream = simulate.random(n_features=50)
    contestants = [one for method in GRID for one in method.contestants(50, 1.0, intercept=False)]
    one_pass(contestants, counted(stream.batches(1000, batch_size=100)), panel="", truth=stream.weights)
    assert drawn == [100] * 10


def test_priors_of_groups_are_multiplied_feature_by_feature():
    contestants = GRID[0].contestants(3, np.array([1.0, 4.0, 9.0]), intercept=False)
    assert [one.setting for one in contestants] == ["prior x 0.5", "prior x 1", "prior x 4"]
    np.testing.assert_allclose(contestants[2].learner.variance, [4.0, 16.0, 36.0], rtol=1e-6)


def test_progress_adds_up_to_the_work():
    done = []
    job = PanelDraw(panel(), 0, 20_000)
    job.run(done.append)
    assert len(done) == 3  # batches
    assert sum(done) == pytest.approx(job.work)


def trace(method, setting, draw, r):
    example = np.array([1, 10, 100])
    return Trace("tiny", method, setting, draw, example, example * 0.5, np.log(example) * r, 1.5)


def test_the_best_setting_has_the_least_mean_over_draws():
    # By its best draw it would be 0.5, by its mean it is 1.
    heights = {("prior 0.5", 0): 10.0, ("prior 0.5", 1): 90.0, ("prior 1", 0): 30.0, ("prior 1", 1): 40.0}
    heights |= {("prior 4", 0): 50.0, ("prior 4", 1): 60.0}
    traces = [trace("Marginal", setting, draw, r) for (setting, draw), r in heights.items()]
    traces += [trace("AdaGrad", "learning rate 0.1", draw, r) for draw, r in ((0, 60.0), (1, 40.0))]
    traces += [trace("AdaGrad", "learning rate 0.4", draw, 70.0) for draw in (0, 1)]
    marginal, adagrad = results.scores(panel(GRID[:2]), traces)
    assert (marginal.setting, adagrad.setting) == ("prior 1", "learning rate 0.1")
    assert (marginal.at_edge, adagrad.at_edge) == (False, True)
    assert (marginal.r, marginal.r_std) == (pytest.approx(35.0), pytest.approx(5.0))
    assert (adagrad.ratio, adagrad.ratio_std) == (pytest.approx(1.5), pytest.approx(0.5))  # of 2 and 1
    (said,) = results.notes([marginal, adagrad], ["AdaGrad"])
    assert said == "tiny: Marginal has less regret than AdaGrad (50.0)."


def test_the_paper_is_quoted_at_the_nearest_size():
    twenty = figure1.panels()[0]
    assert results.paper_number(twenty, "Joint", 1_000_000) == (1_000_000, 78.02, 9)
    assert results.paper_number(twenty, "Joint", 10_000_000) == (10_000_000, 82.54, 61)
    assert results.paper_number(twenty, "Joint", 300) == (1_000_000, 78.02, 9)
    assert results.paper_number(twenty, "Bank", 300) is None


def test_every_panel_says_how_many_features_it_has():
    from bayou.reproduce.marginal_gaussian import figure2, figure4, figure5, figure6, groups

    for module in (figure1, figure2, figure4, figure5, figure6, groups):
        for one in module.panels():
            stream = one.stream(0)
            assert stream.n_features == one.n_features
            per_example = sum(batch.nonzeros for batch in stream.batches(500)) / 500
            assert per_example == pytest.approx(one.active, rel=0.1)


def test_a_file_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
    one = trace("Marginal", "prior 1", 0, 3.0)
    broken = replace(one, loss=np.array(["x", "y", "z"]))
    with pytest.raises(TypeError):
        write_csv(tmp_path / "curves.csv", results.CURVE_COLUMNS, results.curve_rows([one, broken], [one]))
    assert list(tmp_path.iterdir()) == []
