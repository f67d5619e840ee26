"""`bayou info`: what is in a model file, for people and for programs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bayou import Batch, load
from bayou.cli import app
from bayou.core.extras import Counters, Extras, ResumePoint
from bayou.learners import AdaGrad, Classes, Marginal
from bayou.recipe.recipe import Column
from bayou.sources import Recipe
from tests.outputs import wines


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def saved(path, learner, recipe=None, **more):
    learner.learn(Batch.from_rows([{3: 1.0}, {5: 1.0}, {3: 1.0}], labels=[1, 0, 1]))
    if recipe is not None:
        learner.extras = replace(Extras.new(recipe), **more)
    learner.save(path)
    return path


COUNTERS = Counters(examples=3, nonzeros=12, skipped=1234, weight=3.0, loss=3 * 0.61234, runs=2)


def test_everything_as_json(run, tmp_path):
    learner = Marginal(n_features=16, prior_variance=np.ones(16), memory=0.1)
    recipe = Recipe(kind="vw", bits=4, cross=[("a", "b")])
    path = saved(tmp_path / "m.bayou", learner, recipe, counters=COUNTERS)
    done = run("info", path, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["learner"] == "marginal"
    assert told["parameters"]["memory"] == 0.1
    assert told["parameters"]["prior_variance"] == "array"
    assert (told["examples"], told["negative_label"], told["touched"], told["names"]) == (3, 0, 2, 0)
    assert told["counters"] == COUNTERS.to_json()
    assert Recipe.from_json(told["recipe"]) == recipe
    assert told["bytes"] == path.stat().st_size
    assert told["memory"] == learner.nbytes
    assert told["intercept"] == {"mean": learner.intercept[0], "sd": learner.intercept[1] ** 0.5}


def test_everything_in_words(run, tmp_path):
    columns = (
        Column("age", "bins", edges=(20.0, 30.5, 40.0)),
        Column("income", "numeric", centre=1000.0, scale=250.0),
        Column("city", "category"),
        Column("bought", "label"),
    )
    recipe = Recipe(
        kind="table",
        bits=4,
        label="bought",
        positive="yes",
        weight="w",
        cross=[("age", "city")],
        negative_rate=0.25,
        columns=columns,
    )
    path = saved(
        tmp_path / "m.bayou", Marginal(n_features=16), recipe, counters=COUNTERS, unfinished=ResumePoint(rows=3)
    )
    done = run("info", path)
    assert done.exit_code == 0, done.output
    for words in (
        "m.bayou",
        "marginal: Gaussian weights",
        "16, of which 2 were touched",
        "link = logistic",
        "temper = 1, 1",
        "3 examples learned from",
        "4.0 features per example",
        "log loss 0.61234",
        "1,234 bad lines skipped",
        "in 2 runs",
        "interrupted",
        "table data, features hashed into 2^4 = 16",
        "label from column 'bought', positive if it is 'yes'",
        "weights from column 'w'",
        "crosses of age and city",
        "a share of 0.25 of the negatives",
        "age: bins, 4 bins cut from 20 to 40",
        "income: numeric, (x - 1000) / 250",
        "city: category",
        "0 features have one",
    ):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(bits=4), "svmlight data, features as numbered into 2^4 = 16"),
        (Recipe(bits=4, exact=True), "svmlight data, indices are taken as they are, below 2^4 = 16"),
        (Recipe(kind="vw", bits=4), "vw data, features hashed into 2^4 = 16"),
        (Recipe(kind="vw", bits=4, exact=True, hash_all=True), "vw data, features numbered as they came"),
        (Recipe(kind="vw", bits=4, hash_all=True), "names that are numbers are hashed, too"),
        (Recipe(bits=4, label_above=2.5), "label, positive above 2.5"),
        (Recipe(bits=4), "label, 1 positive, -1 or 0 negative"),
        (None, "none: the model was trained from Python"),
    ],
)
def test_a_recipe_in_words(run, tmp_path, recipe, words):
    path = saved(tmp_path / "m.bayou", AdaGrad(n_features=16, intercept=False), recipe)
    done = run("info", path)
    assert done.exit_code == 0, done.output
    assert words in done.stdout
    assert "intercept" not in done.stdout


def test_what_is_no_model_exits_1(run, tmp_path):
    (tmp_path / "m.bayou").write_text("1 3:1\n")
    done = run("info", tmp_path / "m.bayou")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not a bayou model" in done.stderr


def test_classes_are_told_with_their_examples_and_the_stack_with_its_shares(run, tmp_path):
    path, model = tmp_path / "m.bayou", wines.trained()
    model.save(path)
    lines = run("info", path).stdout.splitlines()
    counts = dict(zip(model.class_names, model.counts, strict=True))
    commonest = max(counts, key=counts.get)
    assert f"classes     {commonest}: {counts[commonest]} examples" in lines
    assert "            learner = marginal" in lines
    assert any(line.startswith("parts       normalised") for line in lines)
    plain = json.loads(run("info", path, "--json").stdout)
    assert plain["classes"][0] == {"class": commonest, "examples": counts[commonest]}
    assert sum(part["share"] for part in plain["parts"]) == pytest.approx(1.0)
    assert (
        json.loads(run("info", saved(tmp_path / "two.bayou", Marginal(n_features=16)), "--json").stdout)["classes"]
        is None
    )


def test_a_model_of_several_classes_made_in_python_goes_on(run, tmp_path):
    path = saved(tmp_path / "m.bayou", Classes(n_features=16, learner="marginal"))
    done = run("info", path)
    assert done.exit_code == 0, done.output
    assert "under a shared softmax" in done.stdout
    (tmp_path / "rows.svm").write_text("1 1:1\n0 2:1\n7 1:1\n")
    done = run("train", tmp_path / "rows.svm", "--resume", path, "--model", path)
    assert done.exit_code == 0, done.output
    model = load(path)
    assert model.extras.classes == ["0", "1", "7"]
    assert model.labels.tolist() == [1, 0, 2]  # in which order it met them


def test_the_bank_tells_how_large_the_weights_of_each_column_are(run, tmp_path):
    table = tmp_path / "t.csv"
    rows = [f"{'ab'[k % 2]},{'xyz'[k % 3]},{k % 2}" for k in range(120)]
    table.write_text("\n".join(["large,small,y", *rows]) + "\n")
    done = run("train", table, "--label", "y", "--quiet", "--model", tmp_path / "m.bayou")
    assert done.exit_code == 0, done.output
    large, small = json.loads(run("info", tmp_path / "m.bayou", "--json").stdout)["priors"]
    assert [prior["column"] for prior in (large, small)] == ["large", "small"]
    assert large["sd"] > 2 * small["sd"]
    assert "weights of about" in run("info", tmp_path / "m.bayou").stdout
