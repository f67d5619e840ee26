"""The joint posterior of a bank's head, as a table and as a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou import Batch
from bayou.cli import app
from bayou.learners import FTRL, Bank, Marginal
from bayou.learners.bank import head
from tests.outputs.test_features import OPTIONS, table


@pytest.fixture(scope="module")
def learner():
    return bayou.train(table(), settings={"head": 20}, **OPTIONS).learner


@pytest.fixture
def model(learner, tmp_path):
    learner.save(tmp_path / "m.bayou")
    return tmp_path / "m.bayou"


def features(*arguments):
    return CliRunner().invoke(app, ["features", *map(str, arguments)])


def covariance_of(joint: pa.Table) -> np.ndarray:
    return np.array(joint["covariance"].to_pylist())


def test_the_table_agrees_with_the_learner(learner):
    joint = bayou.posterior(learner)
    assert joint.column_names == ["feature", "index", "mean", "covariance"]
    assert joint.num_rows == 21
    index = joint["index"].to_pylist()
    assert (joint["feature"][0].as_py(), index[0]) == ("(intercept)", None)
    listed = bayou.features(learner, top=None, index=True)
    names = dict(zip(listed["index"].to_pylist(), listed["feature"].to_pylist(), strict=True))
    assert [names[k] for k in index] == joint["feature"].to_pylist()
    covariance = covariance_of(joint)
    np.testing.assert_allclose(covariance[1:, 1:], learner.covariance(index[1:]), rtol=1e-12)
    np.testing.assert_allclose(joint["mean"].to_numpy()[1:], learner.weights_at(index[1:]).mean, rtol=1e-6)
    assert (joint["mean"][0].as_py(), covariance[0, 0]) == pytest.approx(learner.intercept)
    np.testing.assert_array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.abs(np.corrcoef(np.linalg.cholesky(covariance)))[0, 1:].max() > 0.3


def test_means_and_variances_of_scores_follow_from_the_table(learner):
    """Rows within the head have the scores and the variances that the model's weights give them."""
    joint = bayou.posterior(learner)
    rows, index = np.random.default_rng(0).integers(0, 2, (4, 21)).astype(float), joint["index"].to_pylist()[1:]
    rows[:, 0] = 0.0
    expected = [learner.contrast(index, row[1:]) for row in rows]
    np.testing.assert_allclose(rows @ joint["mean"].to_numpy(), [one.mean for one in expected], rtol=1e-5)
    variance = np.einsum("ri,ij,rj->r", rows, covariance_of(joint), rows)
    np.testing.assert_allclose(np.sqrt(variance), [one.sd for one in expected])


def test_the_command_writes_the_same_table(model, tmp_path):
    file = tmp_path / "p.parquet"
    done = features(model, "--posterior", file, "--top", 3)
    assert done.exit_code == 0
    assert "the joint posterior of 21 weights is in" in done.stderr
    assert "site=" in done.stdout
    assert pq.read_table(file).equals(bayou.posterior(model))
    both = features(model, "--posterior", file, "--out", tmp_path / "f.csv")
    assert (both.exit_code, (tmp_path / "f.csv").exists()) == (0, True)


def test_without_an_intercept_there_is_no_row_for_it():
    learner = Bank(8, head=4, intercept=False)
    learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}, {1: 1.0}] * 20, labels=[1, 0] * 20))
    joint = bayou.posterior(learner)
    assert joint["feature"].to_pylist() == ["0", "1"]
    np.testing.assert_allclose(covariance_of(joint), learner.covariance([0, 1]))


def test_the_intercept_is_that_of_the_full_stream():
    whole, kept = (
        bayou.posterior(bayou.train(table(), settings={"head": 20}, **OPTIONS, **rate).learner)
        for rate in ({}, {"negative_rate": 0.1})
    )
    assert kept["mean"][0].as_py() - whole["mean"][0].as_py() == pytest.approx(np.log(0.1))
    assert kept["mean"][1:].equals(whole["mean"][1:])


@pytest.mark.parametrize("new", [Marginal, FTRL, lambda n: Bank(n, head=0)])
def test_a_model_without_a_head_says_so_and_leaves_the_file(new, tmp_path):
    learner, file = new(8), tmp_path / "p.parquet"
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    with pytest.raises(bayou.BadInput, match=r"no joint posterior: .* with settings=\{'head': 256\}"):
        bayou.posterior(learner)
    bayou.train(table(), learner="marginal", **OPTIONS).learner.save(tmp_path / "m.bayou")
    file.write_bytes(b"before")
    done = features(tmp_path / "m.bayou", "--posterior", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "with --set head=256" in done.stderr
    assert file.read_bytes() == b"before"


def test_a_head_that_was_dropped_is_named(monkeypatch):
    monkeypatch.setattr(head, "FIRST_LOOK", 64)
    monkeypatch.setattr(head, "WORTH", 1e9)
    learner = Bank(8, head="auto")
    learner.learn(Batch.from_rows([{0: 1.0}] * 64, labels=[1, 0] * 32))
    with pytest.raises(bayou.BadInput, match="its head was dropped"):
        bayou.posterior(learner)


def test_several_classes_have_no_joint_posterior():
    rows = pa.table({"x": ["a", "b", "c"] * 20, "y": ["u", "v", "w"] * 20})
    with pytest.raises(bayou.BadInput, match="two classes"):
        bayou.posterior(bayou.train(rows, label="y", bits=8).learner)


def test_the_file_must_be_parquet_and_of_its_own(model, tmp_path):
    assert "must end in one of .parquet, .pq" in features(model, "--posterior", "p.csv").stderr
    assert "no folder" in features(model, "--posterior", tmp_path / "none" / "p.parquet").stderr
    full = features(model, "--posterior", "/dev/full")
    assert full.exit_code == 2
