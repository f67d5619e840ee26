"""`bayou features`: the weights that matter, with the names they had in the data."""

import csv
import io
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import bayou
from bayou import Batch
from bayou.cli import app
from bayou.core.extras import Extras
from bayou.learners import FTRL, AdaGrad, Classes, Marginal, SpikeSlab
from bayou.recipe.feature_names import NewNames
from bayou.sources import Recipe
from tests.outputs import wines as several


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def learned(kind=Marginal, **parameters):
    """Feature 3 says yes, 7 says no, 5 comes once; the others never come."""
    learner = kind(n_features=16, **parameters)
    rows = [{3: 1.0}] * 40 + [{7: 1.0}] * 20 + [{5: 1.0}]
    learner.learn(Batch.from_rows(rows, labels=[1] * 40 + [-1] * 20 + [1]))
    return learner


def named(learner, names: dict[int, str], **recipe) -> None:
    extras = Extras.new(Recipe(kind="vw", bits=4, **recipe))
    text = "".join(names.values()).encode()
    ends = np.cumsum([0, *(len(name) for name in names.values())])
    spans = np.full((len(names), 8), -1)
    spans[:, 2], spans[:, 3] = ends[:-1], ends[1:]
    data = np.frombuffer(text, np.uint8)
    assert extras.names is not None
    extras.names.add(NewNames(np.array(list(names), np.uint32), spans, data, data, b"^"))
    learner.extras = extras


@pytest.fixture
def model(tmp_path):
    learner = learned()
    named(learner, {3: "user^ann", 7: 'ad^"big", red'})
    learner.save(tmp_path / "m.bayou")
    return tmp_path / "m.bayou"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_the_largest_weights_first_and_the_intercept_before_all(run, model):
    done = run("features", model, "--out", "-")
    assert done.exit_code == 0, done.output
    rows = table(done.stdout)
    learner = learned()
    assert list(rows[0]) == ["feature", "mean", "sd"]
    assert [row["feature"] for row in rows] == ["(intercept)", 'ad^"big", red', "user^ann", "5"]
    expected = [(m, v**0.5) for m, v in [learner.intercept, *zip(learner.mean, learner.variance, strict=True)]]
    expected = [expected[0], *(expected[1 + k] for k in (7, 3, 5))]
    np.testing.assert_allclose([(float(row["mean"]), float(row["sd"])) for row in rows], expected, rtol=1e-6)


def test_the_table_for_people_says_the_same(run, model):
    lines = run("features", model).stdout.splitlines()
    assert lines[0].split() == ["feature", "mean", "sd"]
    assert [line[:13].strip() for line in lines[1:]] == ["(intercept)", 'ad^"big", red', "user^ann", "5"]
    assert lines[3].split()[-2:] == [f"{learned().mean[3]:.5f}", f"{learned().variance[3] ** 0.5:.5f}"]


def test_a_file_holds_what_standard_output_has(run, model, tmp_path):
    text = run("features", model, "--out", "-").stdout
    done = run("features", model, "--out", tmp_path / "f.csv")
    assert done.stdout == ""
    assert (tmp_path / "f.csv").read_text() == text


@pytest.mark.parametrize("top", [0, 1, 2, 1000])
def test_as_many_as_wanted(run, model, top):
    assert len(table(run("features", model, "--top", top, "--out", "-").stdout)) == 1 + min(top, 3)


def test_by_certainty(run, tmp_path):
    learner = learned(prior_variance=np.where(np.arange(16) == 5, 50.0, 1.0), dtype="float64")
    learner.save(tmp_path / "m.bayou")

    def order(by):
        rows = table(run("features", tmp_path / "m.bayou", "--by", by, "--out", "-").stdout)[1:]
        return [int(row["feature"]) for row in rows]

    size, sure = np.abs(learner.mean), np.abs(learner.mean) / np.sqrt(learner.variance)
    assert order("mean") == sorted((3, 5, 7), key=lambda k: -size[k])
    assert order("z") == sorted((3, 5, 7), key=lambda k: -sure[k])
    assert order("mean") != order("z")


def test_what_is_below_the_table(run, model):
    said = run("features", model).stderr
    assert "3 of 16 weights were touched" in said
    mean = np.abs(learned().mean)
    share = mean[[3, 7]].sum() / mean[[3, 5, 7]].sum()
    assert f"2 features have a name; they hold {share:.1%} of the weight mass" in said
    assert f"about {2 / 16:.2%} of the features share their weight" in said


def test_features_that_are_not_hashed_do_not_collide(run, tmp_path):
    learner = learned()
    named(learner, {3: "a"}, exact=True)
    learner.save(tmp_path / "m.bayou")
    assert "share their weight" not in run("features", tmp_path / "m.bayou").stderr


def test_a_model_from_python_has_numbers_for_names(run, tmp_path):
    learned(intercept=False).save(tmp_path / "m.bayou")
    done = run("features", tmp_path / "m.bayou", "--out", "-")
    assert [row["feature"] for row in table(done.stdout)] == ["3", "7", "5"]
    assert "have a name" not in done.stderr


def test_prior_means_of_weights_never_met_are_not_shown(run, tmp_path):
    learned(prior_mean=9.0).save(tmp_path / "m.bayou")
    rows = table(run("features", tmp_path / "m.bayou", "--out", "-").stdout)
    assert sorted(row["feature"] for row in rows) == ["(intercept)", "3", "5", "7"]


def test_without_a_posterior_there_is_no_sd(run, tmp_path):
    learned(AdaGrad).save(tmp_path / "m.bayou")
    rows = table(run("features", tmp_path / "m.bayou", "--out", "-").stdout)
    assert list(rows[0]) == ["feature", "mean"]
    done = run("features", tmp_path / "m.bayou", "--by", "z")
    assert done.exit_code == 2
    assert "adagrad models have no sd" in done.stderr


def test_a_sparse_model_shows_what_it_selected(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 16))
    learner = SpikeSlab(16)
    learner.learn(Batch.from_csr(X, X[:, 3] - X[:, 7] > 0))
    named(learner, {3: "a", 5: "b"})
    learner.save(tmp_path / "m.bayou")
    rows = table(run("features", tmp_path / "m.bayou", "--by", "inclusion", "--out", "-").stdout)
    assert list(rows[0]) == ["feature", "mean", "sd", "inclusion"]
    assert {row["feature"] for row in rows[1:3]} == {"a", "7"}
    assert [float(row["inclusion"]) for row in rows[1:]] == pytest.approx(sorted(learner.inclusion)[::-1], rel=1e-6)
    rows = table(run("features", tmp_path / "m.bayou", "--selected", "--top", 1, "--out", "-").stdout)
    assert {row["feature"] for row in rows} == {"(intercept)", "a", "7"}
    done = run("features", tmp_path / "m.bayou", "--selected", "--out", tmp_path / "m.json")
    assert "2 features are in" in done.stderr
    plain = json.loads((tmp_path / "m.json").read_text())
    weights = {row["feature"]: row["weight"] for row in plain["features"]}
    assert weights == pytest.approx({"a": learner.mean[3], "7": learner.mean[7]}, rel=1e-9)

    dense, sparse = learned(Marginal), learned(FTRL, l1=0.3)
    dense.save(tmp_path / "dense.bayou")
    sparse.save(tmp_path / "sparse.bayou")
    done = run("features", tmp_path / "dense.bayou", "--selected")
    assert done.exit_code == 2
    assert "marginal models select no features" in done.stderr
    rows = table(run("features", tmp_path / "sparse.bayou", "--selected", "--out", "-").stdout)
    assert [int(row["feature"]) for row in rows[1:]] == sorted(sparse.selected, key=lambda k: -abs(sparse.mean[k]))


def test_the_intercept_is_that_of_the_full_stream(run, tmp_path):
    learner = learned()
    named(learner, {3: "a"}, negative_rate=0.1)
    learner.save(tmp_path / "m.bayou")
    row = table(run("features", tmp_path / "m.bayou", "--out", "-").stdout)[0]
    assert float(row["mean"]) == pytest.approx(learner.intercept[0] + np.log(0.1), rel=1e-8)


def test_a_model_that_learned_nothing(run, tmp_path):
    Marginal(n_features=16).save(tmp_path / "m.bayou")
    done = run("features", tmp_path / "m.bayou")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 2


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """A table: late from EWR and by day; the hour tells nothing."""
    rng = np.random.default_rng(0)
    origin, hour = rng.choice(["EWR", "JFK", "LGA"], 800, p=[0.5, 0.3, 0.2]), rng.integers(0, 4, 800)
    late = rng.random(800) < np.where(origin == "EWR", 0.7, 0.3)
    folder = tmp_path_factory.mktemp("flights")
    data = pa.table({"origin": origin, "hour": hour, "late": late.astype(int)})
    for learner in ("marginal", "bank"):
        bayou.train(data, label="late", learner=learner, bits=10, model=folder / f"{learner}.bayou")
    return folder


@pytest.mark.parametrize("view", ["model", "associated"])
def test_a_columns_weights_are_around_their_mean_and_the_intercept_is_the_mean_rows_score(run, flights, view):
    done = run("features", flights / "bank.bayou", "--view", view, "--out", "-")
    assert done.exit_code == 0, done.output
    rows = {row["feature"]: float(row["mean"]) for row in table(done.stdout)}
    origins = [rows[f"origin={name}"] for name in ("EWR", "JFK", "LGA")]
    assert origins[0] > 0 > max(origins[1:])
    assert np.average(origins, weights=[0.5, 0.3, 0.2]) == pytest.approx(0.0, abs=0.05)
    assert -0.4 < rows["(intercept)"] < 0.4  # half of them are late
    assert "(intercept) is the score of the mean row; weights of 2 columns are centred" in done.stderr


def test_by_column(run, flights):
    done = run("features", flights / "marginal.bayou", "--by", "column")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["column", "spread", "values", "most", "telling"]
    assert [line.split()[0] for line in lines[1:]] == ["origin", "hour"]
    assert re.fullmatch(r"origin +0\.[5-9]\d+ +3  EWR \+0\.\d\d, JFK -\d\.\d\d, LGA -\d\.\d\d", lines[1])
    assert "spread: how far a column moves the score" in done.stderr
    rows = table(run("features", flights / "marginal.bayou", "--by", "column", "--top", 1, "--out", "-").stdout)
    assert [row["feature"] for row in rows] == ["origin=EWR", "origin=JFK", "origin=LGA"]
    assert {row["column"] for row in rows} == {"origin"}
    assert [float(row["seen"]) for row in rows] == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    spread = np.sqrt(sum(float(row["seen"]) * float(row["mean"]) ** 2 for row in rows))
    assert float(rows[0]["spread"]) == pytest.approx(spread, rel=1e-6)


def test_views_and_columns_that_are_not_there(run, model, flights):
    done = run("features", flights / "marginal.bayou", "--view", "associated")
    assert done.exit_code == 2
    assert "marginal models have a single view of their weights" in done.stderr
    done = run("features", model, "--by", "column")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "it has no feature counts" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--view", "swamp"], "must be one of model, associated"),
        (["--by", "swamp"], "must be one of mean, z, inclusion"),
        (["--by", "inclusion"], "marginal models have no inclusion"),
        (["--out", "f.txt"], "must end in .csv"),
        (["--out", "no/such/f.csv"], "there is no folder"),
    ],
)
def test_wrong_usage_exits_2(run, model, arguments, said):
    done = run("features", model, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_what_is_no_model_exits_1(run, tmp_path):
    assert run("features", tmp_path / "none.bayou").exit_code == 1


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ([], {}),
        (["--top", 2, "--index"], {"top": 2, "index": True}),
        (["--by", "z"], {"by": "z"}),
        (["--by", "column", "--top", 1], {"by": "column", "top": 1}),
        (["--view", "associated"], {"view": "associated"}),
    ],
)
def test_python_gets_the_table_of_the_file(run, flights, tmp_path, options, arguments):
    written = written_and_returned(run, flights / "bank.bayou", tmp_path, options, arguments)
    assert len(written) > 1
    loaded = bayou.load(flights / "bank.bayou")
    assert bayou.features(loaded, **arguments).equals(bayou.features(str(flights / "bank.bayou"), **arguments))


def written_and_returned(run, model, tmp_path, options, arguments):
    """What the command writes, equal to what `bayou.features` returns."""
    done = run("features", model, *options, "--out", tmp_path / "f.json")
    assert done.exit_code == 0, done.output
    written, returned = json.loads((tmp_path / "f.json").read_text()), bayou.features(model, **arguments)
    assert returned.column_names == list(written[0])
    rounded = [
        {name: float(f"{cell:.9g}") if isinstance(cell, float) else cell for name, cell in row.items()}
        for row in returned.to_pylist()
    ]
    assert rounded == written
    return written


def test_python_is_refused_what_a_model_does_not_have(flights):
    for arguments, said in (
        ({"by": "inclusion"}, "marginal models have no inclusion"),
        ({"by": "swamp"}, "by is 'swamp'; it must be one of 'mean', 'z', 'inclusion', 'column'"),
        ({"pairs": True}, "the model has no pairs"),
        ({"selected": True}, "marginal models select no features"),
        ({"top": -1}, "top"),
    ):
        with pytest.raises(bayou.BadInput, match=said):
            bayou.features(flights / "marginal.bayou", **arguments)


# --- several classes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wines(tmp_path_factory):
    path = tmp_path_factory.mktemp("wines") / "wines.bayou"
    several.trained().save(path)
    return path


def test_of_several_classes_each_has_its_weights(run, wines):
    done = run("features", wines, "--out", "-")
    rows = table(done.stdout)
    assert list(rows[0]) == ["class", "feature", "mean", "sd"]
    assert [row["class"] for row in rows] == ["pinot"] * 4 + ["riesling"] * 4 + ["silvaner"] * 4
    best = {row["class"]: row["feature"] for row in reversed(rows) if row["feature"] != "(intercept)"}
    assert best == {"pinot": "region=baden", "riesling": "region=mosel", "silvaner": "region=pfalz"}
    assert "what sets a class apart from the average one" in done.stderr
    assert [row["feature"] for row in table(run("features", wines, "--top", 1, "--out", "-").stdout)][1::2] == [
        "region=baden", "region=mosel", "region=pfalz"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ([], {}),
        (["--top", 1], {"per_class": 1}),
        (["--class", "pinot", "--top", 2], {"class_name": "pinot", "top": 2}),
        (["--by", "column"], {"by": "column"}),
    ],
)
def test_python_gets_the_table_of_several_classes(run, wines, tmp_path, options, arguments):
    written_and_returned(run, wines, tmp_path, options, arguments)


def test_one_class_and_its_columns(run, wines, tmp_path):
    done = run("features", wines, "--class", "pinot", "--by", "z", "--out", tmp_path / "f.json")
    rows = json.loads((tmp_path / "f.json").read_text())
    assert {row["class"] for row in rows} == {"pinot"}
    assert rows[1]["feature"] == "region=baden"
    assert f"they are in {tmp_path}" in done.stderr
    shown = run("features", wines, "--class", "pinot", "--by", "column").stdout.splitlines()
    assert shown[0].split() == ["class", "column", "spread", "values", "most", "telling"]
    assert shown[1].startswith("pinot  region")
    assert "baden +" in shown[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--class", "pino"], "the model's classes are pinot, riesling, silvaner. Did you mean pinot?"),
        (["--selected"], "classes models select no features"),
        (["--by", "inclusion"], "have no inclusion"),
        (["--out", "f.txt"], "must end in .csv or .json"),
    ],
)
def test_wrong_wishes_of_several_classes_get_a_sentence(run, wines, options, said):
    done = run("features", wines, *options)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_model_of_two_classes_has_no_others(run, model):
    done = run("features", model, "--class", "a")
    assert done.exit_code == 2
    assert "does not predict several classes" in done.stderr


def test_of_many_classes_the_commonest_are_shown(run, tmp_path):
    learner = Classes(n_features=4, learner="marginal")
    labels = np.repeat(np.arange(30), np.arange(30, 0, -1))
    learner.learn(Batch.from_csr(np.eye(4)[labels % 4], labels))
    learner.save(tmp_path / "m.bayou")
    done = run("features", tmp_path / "m.bayou", "--top", 1)
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + 2 * 20
    assert [line.split()[0] for line in lines[1::2]] == [str(k) for k in range(20)]
    assert "the commonest 20 of 30 classes are shown" in done.stderr
    assert len(table(run("features", tmp_path / "m.bayou", "--top", 1, "--out", "-").stdout)) == 60


def test_weights_are_written_as_json_too(run, model, tmp_path):
    run("features", model, "--out", tmp_path / "f.json")
    assert json.loads((tmp_path / "f.json").read_text()) == [
        {"feature": row["feature"], **{name: float(row[name]) for name in ("mean", "sd")}}
        for row in table(run("features", model, "--out", "-").stdout)
    ]


def test_the_slope_of_a_number_is_no_missing_value(run, tmp_path):
    rng = np.random.default_rng(0)
    size = rng.normal(size=600).round(3)
    label = (size + rng.normal(size=600) > 0).astype(int)
    data = pa.table({"size": size, "site": rng.choice(["a", "b"], 600), "y": label})
    bayou.train(data, label="y", learner="marginal", bits=10, model=tmp_path / "m.bayou")
    shown = run("features", tmp_path / "m.bayou", "--by", "column").stdout
    assert "(slope) +" in shown
    assert "(missing)" not in shown
