"""`bayou merge`: models of one kind become one; others are refused with a sentence."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

import bayou
from bayou import Batch, simulate
from bayou.cli import app
from bayou.core.extras import Counters, Extras
from bayou.learners import AdaGrad, Marginal
from bayou.recipe.feature_names import NewNames
from bayou.sources import Recipe


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def batch(part: int) -> Batch:
    (rows,) = simulate.random(n_features=16, active=0.3).batches(500, start=500 * part)
    return rows


def saved(path, part: int, learner=None, name: str | None = None, **recipe):
    learner = learner or Marginal(n_features=16, dtype="float64")
    learner.learn(batch(part))
    extras = Extras.new(Recipe(**{"kind": "vw", "task": "binary", "bits": 4, **recipe}))
    if name is not None:
        data = np.frombuffer(name.encode(), np.uint8)
        spans = np.array([[-1, -1, 0, len(name), -1, -1, -1, -1]])
        extras.names.add(NewNames(np.array([part], np.uint32), spans, data, data, b"^"))
    extras.counters = Counters(examples=500, nonzeros=10, skipped=part, weight=500.0, loss=50.0 * part, runs=1)
    learner.extras = extras
    learner.save(path)
    return path


def test_two_models_become_one(run, tmp_path):
    a, b = saved(tmp_path / "a", 1, name="one"), saved(tmp_path / "b", 2, name="two")
    done = run("merge", a, b, "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output
    assert "examples  1,000" in done.stdout
    assert "approximate" in done.stdout
    assert "the model is in" in done.stderr
    merged, expected = bayou.load(tmp_path / "c"), bayou.load(a).merge(bayou.load(b))
    assert merged.mean.tobytes() == expected.mean.tobytes()
    assert merged.variance.tobytes() == expected.variance.tobytes()
    assert merged.examples == 1000
    assert merged.extras.names.name_of([1, 2, 3]) == ["one", "two", None]
    counters = merged.extras.counters
    assert (counters.examples, counters.skipped, counters.runs) == (1000, 3, 2)
    assert (counters.weight, counters.mean_loss) == (1000.0, pytest.approx(0.15))


def test_weights_of_a_learned_scale_do_not_merge(run, tmp_path):
    a, b = (saved(tmp_path / f"{k}", k, Marginal(16, scale="learned")) for k in (1, 2))
    done = run("merge", a, b, "--out", tmp_path / "c")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot be combined" in done.stderr
    assert not (tmp_path / "c").exists()


def test_three_models_and_the_order_does_not_matter(run, tmp_path):
    paths = [saved(tmp_path / f"m{k}", k) for k in range(3)]
    assert run("merge", *paths, "--out", tmp_path / "x").exit_code == 0
    assert run("merge", *reversed(paths), "--out", tmp_path / "y").exit_code == 0
    x, y = bayou.load(tmp_path / "x"), bayou.load(tmp_path / "y")
    assert x.examples == y.examples == 1500
    np.testing.assert_allclose(x.mean, y.mean, rtol=1e-9)


def test_what_a_common_base_knew_is_counted_once(run, tmp_path):
    base = saved(tmp_path / "base", 0)
    parts = [saved(tmp_path / f"m{k}", k, learner=bayou.load(base)) for k in (1, 2, 3)]
    done = run("merge", *parts, "--base", base, "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output
    merged = bayou.load(tmp_path / "c")
    assert merged.examples == 2000
    gains = [1 / bayou.load(path).variance - 1 / bayou.load(base).variance for path in parts]
    np.testing.assert_allclose(1 / merged.variance, 1 / bayou.load(base).variance + sum(gains), rtol=1e-9)
    twice = run("merge", *parts, "--out", tmp_path / "d")
    assert "3,000" in twice.stdout


def test_models_from_python_have_no_recipe_and_merge_too(run, tmp_path):
    for part in (1, 2):
        learner = Marginal(n_features=20)
        learner.learn(batch(part))
        learner.save(tmp_path / f"m{part}")
    assert run("merge", tmp_path / "m1", tmp_path / "m2", "--out", tmp_path / "c").exit_code == 0
    merged = bayou.load(tmp_path / "c")
    assert merged.extras.recipe is None
    assert merged.examples == 1000


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"negative_rate": 0.5}, "different recipes: negative_rate is 1.0 in one and 0.5 in the other"),
        ({"learner": AdaGrad(n_features=16)}, "a marginal model and a adagrad model cannot be merged"),
        ({"learner": Marginal(n_features=16, dtype="float64", memory=0.5)}, "differ in memory: 0.0 and 0.5"),
    ],
)
def test_models_of_different_kinds_are_refused(run, tmp_path, other, said):
    a, b = saved(tmp_path / "a", 1), saved(tmp_path / "b", 2, **other)
    done = run("merge", a, b, "--out", tmp_path / "c")
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert str(b) in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_base_that_is_no_ancestor_is_refused(run, tmp_path):
    a, b, base = saved(tmp_path / "a", 1), saved(tmp_path / "b", 2), tmp_path / "base"
    learner = Marginal(n_features=16, dtype="float64")
    learner.learn(batch(5))
    saved(base, 6, learner=learner)
    done = run("merge", a, b, "--base", base, "--out", tmp_path / "c")
    assert done.exit_code == 1
    assert "common ancestor" in done.stderr


def test_no_model_is_overwritten_by_the_one_it_went_into(run, tmp_path):
    a, b = saved(tmp_path / "a", 1), saved(tmp_path / "b", 2)
    before = a.read_bytes()
    (tmp_path / "link").symlink_to(a)
    for out in (a, tmp_path / "link"):
        done = run("merge", a, b, "--out", out)
        assert done.exit_code == 2
        assert "which is also read" in done.stderr
    assert run("merge", b, b, "--base", a, "--out", a).exit_code == 2
    assert a.read_bytes() == before


def test_wrong_usage_exits_2(run, tmp_path):
    a = saved(tmp_path / "a", 1)
    assert run("merge", a, "--out", tmp_path / "c").exit_code == 2
    assert run("merge", a, a).exit_code == 2
    assert run("merge", a, a, "--out", tmp_path / "no" / "c").exit_code == 2
    assert run("merge", a, a, "--out", tmp_path).exit_code == 2


def test_what_is_no_model_exits_1(run, tmp_path):
    a = saved(tmp_path / "a", 1)
    done = run("merge", a, tmp_path / "none", "--out", tmp_path / "c")
    assert done.exit_code == 1
    assert "there is no such model file" in done.stderr


@pytest.mark.long
def test_counters_of_merged_and_resumed_models_are_those_of_the_whole_stream(run, tmp_path):
    """Through the commands: base, two that go on from it, the merged one, which goes on itself."""

    def told(name):
        return json.loads(run("info", tmp_path / name, "--json").stdout)["counters"]

    def trained(name, part, *options):
        lines = [f"{2 * (k % 3 == 0) - 1} {1 + k % 2} | x{k % 5} y{(k + part) % 7}" for k in range(200 + 100 * part)]
        (tmp_path / f"{part}.vw").write_text("\n".join([*lines, "no example"]) + "\n")
        done = run("train", tmp_path / f"{part}.vw", *options, "--model", tmp_path / name, "--json", "--quiet")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    runs = [trained("base", 0, "--bits", 8, "--learner", "marginal")]
    runs += [trained(name, part, "--resume", tmp_path / "base") for name, part in (("a", 1), ("b", 2))]
    done = run("merge", tmp_path / "a", tmp_path / "b", "--base", tmp_path / "base", "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output
    merged = told("c")
    assert (merged["examples"], merged["skipped"], merged["runs"]) == (900, 3, 3)
    weights = [sum(1 + k % 2 for k in range(200 + 100 * part)) for part in range(3)]
    assert merged["weight"] == sum(weights)
    losses = [of["log_loss"] for of in runs]
    assert merged["log_loss"] == pytest.approx(np.average(losses, weights=weights))
    runs.append(trained("d", 3, "--resume", tmp_path / "c"))
    resumed = told("d")
    weights.append(sum(1 + k % 2 for k in range(500)))
    assert (resumed["examples"], resumed["runs"], resumed["weight"]) == (1400, 4, sum(weights))
    assert resumed["log_loss"] == pytest.approx(np.average([of["log_loss"] for of in runs], weights=weights))
    assert f"log loss {resumed['log_loss']:.5f}" in run("info", tmp_path / "d").stdout


def rows_file(path, part: int, rows: int = 3000):
    """svmlight text of a stream whose parts are alike."""
    stream = simulate.random(n_features=60, active=0.2, seed=3)
    lines = []
    for batch in stream.batches(rows, start=rows * part):
        csr = batch.to_csr(60)
        for k, label in enumerate(batch.labels):
            cells = " ".join(f"{j}:1" for j in csr.indices[csr.indptr[k] : csr.indptr[k + 1]])
            lines.append(f"{int(label)} {cells}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_eight_parts_of_a_base_and_how_their_lanes_are_combined(run, tmp_path):
    """Never worse than a part alone; with rows to learn the combination from, as good as one that learned them all."""
    base = bayou.train(str(rows_file(tmp_path / "base.svm", 0)), bits=6, model=tmp_path / "base")
    paths = []
    for part in range(1, 9):
        data = rows_file(tmp_path / f"{part}.svm", part)
        paths.append(tmp_path / f"{part}")
        bayou.train(str(data), resume=tmp_path / "base", model=paths[-1])
    held, test = rows_file(tmp_path / "held.svm", 9), rows_file(tmp_path / "test.svm", 10)
    done = run("merge", *paths, "--base", tmp_path / "base", "--out", tmp_path / "guess")
    assert done.exit_code == 0, done.output
    assert "combined  by a guess; --recombine DATA" in done.stdout
    done = run("merge", *paths, "--base", tmp_path / "base", "--recombine", held, "--out", tmp_path / "all")
    assert done.exit_code == 0, done.output
    assert "combined  by 3,000 rows, log loss 0." in done.stdout
    known = run("merge", *paths, "--recombine", tmp_path / "3.svm", "--out", tmp_path / "known")
    assert known.exit_code == 1
    assert f"3.svm: {tmp_path / '3'} has learned these rows" in " ".join(known.stderr.split())

    def loss(name: str) -> float:
        learner = bayou.load(tmp_path / name)
        (batch,) = bayou.sources.open(str(test), extras=learner.extras)
        p = learner.predict(batch, horizon="later").probability
        return float(-np.log(np.where(batch.labels > 0, p, 1 - p)).mean())

    parts = [loss(path.name) for path in paths]
    assert loss("guess") < np.mean(parts) < loss("base")
    assert loss("all") < 1.003 * loss("guess")
    merged = bayou.load(tmp_path / "all")
    assert merged.examples == 9 * 3000
    assert merged.extras.counters.runs == base.learner.extras.counters.runs + 8


def test_shards_that_learned_with_weights(run, tmp_path):
    learner = Marginal(n_features=16, dtype="float64")
    base = saved(tmp_path / "base", 0, learner)
    for part in (1, 2):
        shard = bayou.load(base)
        rows = batch(part)
        shard.learn(rows.with_labels(rows.labels, np.full(len(rows), 2.0)))
        shard.save(tmp_path / str(part))
    done = run("merge", tmp_path / "1", tmp_path / "2", "--base", base, "--weight", 2, "--out", tmp_path / "both")
    assert done.exit_code == 0, done.output
    both, shards = bayou.load(tmp_path / "both"), [bayou.load(tmp_path / name) for name in ("1", "2")]
    before = 1 / bayou.load(base).variance
    expected = before + sum(1 / shard.variance - before for shard in shards) / 2
    np.testing.assert_allclose(1 / both.variance, expected)
    assert both.examples == 1500


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--weight", "2"], "--weight is for shards of one base"),
        (["--recombine", "rows.svm"], "--recombine is for how a bank combines its lanes; marginal has none"),
        (["--weight", "-1", "--base", "base"], "weight is -1"),
    ],
)
def test_what_merge_cannot_use_gets_a_sentence(run, tmp_path, monkeypatch, options, sentence):
    monkeypatch.chdir(tmp_path)
    for name, part in (("a", 1), ("b", 2), ("base", 0)):
        saved(tmp_path / name, part)
    rows_file(tmp_path / "rows.svm", 0, 10)
    done = run("merge", "a", "b", "--out", "c", *options)
    assert done.exit_code != 0
    assert sentence in done.stderr.replace("\n", " ")
    assert not (tmp_path / "c").exists()
