"""`runs.compare`: several learners over one reading of the data, from Python."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou.runs.compare import ComparisonRun, compare
from bayou.runs.learner_specs import COMPARED


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """2,000 examples of 30 features as svmlight text."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "x.svm"
    rows = ([(-1) ** int(rng.random() < 0.4), *sorted(rng.choice(30, 4, replace=False))] for _ in range(2000))
    path.write_text("".join(f"{y} " + " ".join(f"{k}:1" for k in features) + "\n" for y, *features in rows))
    return path


def test_each_learner_is_scored_and_ranked(data):
    seen = []
    comparison = compare(data, ["marginal", "ftrl:alpha=.1"], bits=6, on_progress=lambda: seen.append(1))
    assert seen
    assert [entrant.meter.examples for entrant in comparison.entrants] == [2000, 2000]
    losses = [entrant.meter.log_loss for entrant in comparison.ranked]
    assert losses == sorted(losses)
    alone = bayou.train(data, learner="marginal", bits=6).evaluation.log_loss
    assert comparison.entrants[0].meter.log_loss == alone


def test_learners_of_numbers_are_compared_by_squared_loss(tmp_path):
    rng = np.random.default_rng(1)
    X, noise = rng.normal(size=(200, 2)), rng.normal(size=200)
    rows = (f"{2 * a - b + 0.1 * e:.3f} 1:{a:.3f} 2:{b:.3f}\n" for (a, b), e in zip(X, noise, strict=True))
    (tmp_path / "x.svm").write_text("".join(rows))
    comparison = compare(tmp_path / "x.svm", ["gaussian", "shrinkage"], bits=4)
    assert all(entrant.meter.result().r2 > 0.5 for entrant in comparison.entrants)
    assert comparison.as_dict()["learners"][0]["squared_loss"] == comparison.entrants[0].meter.loss
    with pytest.raises(bayou.BadInput, match="marginal predicts classes; use learner='bank' or one of gaussian"):
        compare(tmp_path / "x.svm", ["gaussian", "marginal"], bits=4)


def test_an_interrupt_keeps_what_there_is(data):
    comparing = ComparisonRun([str(data)] * 3, ["marginal", "adagrad"], bits=8)
    before = signal.getsignal(signal.SIGINT)
    comparison = comparing.run(lambda: os.kill(os.getpid(), signal.SIGINT))
    assert comparison.signal == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before
    assert {entrant.meter.examples for entrant in comparison.entrants} == {1}  # one batch
    assert comparison.as_dict()["interrupted"] is True


def test_what_one_learner_refuses_none_learns(tmp_path):
    good = [f"{(-1) ** k} {k % 9}:1" for k in range(20)]
    (tmp_path / "a.svm").write_text("\n".join([*good[:7], "1 1:9e11", *good[7:]]))
    (tmp_path / "b.svm").write_text("\n".join(good))
    learners = ["marginal:prior_variance=1e8", "marginal:prior_variance=1"]
    with_bad, without = (compare(tmp_path / name, learners, bits=4) for name in ("a.svm", "b.svm"))
    assert (with_bad.skipped, without.skipped) == (1, 0)
    assert "line 8: marginal:prior_variance=1e8: " in with_bad.bad_lines[0]
    for one, other in zip(with_bad.entrants, without.entrants, strict=True):
        assert one.learner.mean.tobytes() == other.learner.mean.tobytes()
        assert one.meter.log_loss == other.meter.log_loss
    with pytest.raises(bayou.BadInput, match="line 8: marginal"):
        compare(tmp_path / "a.svm", learners, bits=4, on_error="raise")


@pytest.mark.parametrize(("task", "labels"), [("binary", [0, 1]), ("multiclass", ["x", "y", "z"])])
def test_who_is_compared_if_none_is_named(task, labels):
    rows = pa.table({"a": [k % 4 for k in range(60)], "y": [labels[k % len(labels)] for k in range(60)]})
    entrants = ComparisonRun(rows, label="y", bits=4).entrants
    assert [entrant.spec for entrant in entrants] == list(COMPARED[task]) == ["bank", "marginal", "adagrad"]


@pytest.fixture(scope="module")
def prices():
    rng = np.random.default_rng(2)
    a = rng.normal(size=100).round(3)
    return pa.table({"a": a, "price": (3 * a + rng.normal(size=100)).round(3)})


def test_numbers_are_compared_at_the_defaults(prices, monkeypatch):
    """None of them keeps a matrix: 2^22 weights of each take less than a gigabyte."""
    monkeypatch.setattr("bayou.runs.memory.free_memory", lambda: 10**9)
    comparison = compare(prices, label="price")
    assert [entrant.spec for entrant in comparison.entrants] == list(COMPARED["regression"]) == ["bank", "gaussian"]
    assert all(entrant.meter.result().r2 > 0.5 for entrant in comparison.entrants)


def test_a_learner_that_needs_a_square_is_named(prices, monkeypatch):
    learners = ["bank", "shrinkage:penalty=2"]
    for free, bits in ((10**9, 12), (10**8, 11), (10**3, 1)):
        monkeypatch.setattr("bayou.runs.memory.free_memory", lambda free=free: free)
        with pytest.raises(bayou.BadInput) as error:
            compare(prices, learners, label="price")
        assert str(error.value).startswith(
            "shrinkage:penalty=2 needs the square of 4,194,304 weights, 281 TB of memory; "
        )
        assert str(error.value).endswith(f" are free. Omit it, or use bits={bits}.")
    with pytest.raises(bayou.BadInput, match=r"4,194,304 weights for each of 2 learners take .* Use a smaller bits="):
        compare(prices, ["bank", "gaussian"], label="price")


def test_the_memory_of_several_classes_is_said_by_features_and_classes():
    rows = pa.table({"a": [k % 4 for k in range(60)], "y": ["xyz"[k % 3] for k in range(60)]})
    notes = []
    ComparisonRun(rows, label="y", on_note=notes.append)
    each = 73 + 8 + 8
    said = f"bank, marginal, adagrad for each class, together {each} bytes of memory for every feature of it"
    assert said in [note.text for note in notes]
    alone = bayou.train(rows, label="y", bits=4).notes
    assert "bank for each class, 73 bytes of memory for every feature of it" in alone


def test_the_guide_names_who_is_compared():
    page = Path(__file__).parents[2] / "docs" / "howto" / "compare.md"
    guide = " ".join(page.read_text(encoding="utf-8").split())
    assert "compares `bank`, `marginal` and `adagrad` for two classes; the same for several classes" in guide
    assert " and ".join(f"`{name}`" for name in COMPARED["regression"]) + " for numbers." in guide
