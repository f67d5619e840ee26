"""Why a score is what it is: against dense NumPy, and it adds up."""

import io

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou import sources
from bayou.cli import app
from bayou.core.extras import Extras
from bayou.core.registry import records
from bayou.learners import Marginal
from bayou.outputs.explanations import Explainer
from tests.outputs.wines import trained

N = 400


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    site, hour, size = (
        rng.choice(["a", "b", 'c, "d"'], n, p=[0.6, 0.3, 0.1]),
        rng.integers(0, 15, n),
        rng.normal(size=n),
    )
    score = (site == "b") * 1.5 - 1.0 + 0.05 * hour + size
    day = pd.date_range("2024-01-01", periods=n, freq="7h")
    columns = {"site": site, "hour": hour, "size": size, "weight": rng.normal(size=n), "day": day}
    number = score + 0.1 * rng.normal(size=n)
    return pd.DataFrame({**columns, "y": (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int), "number": number})


@pytest.fixture(scope="module")
def data():
    return table()


def model_of(data, learner="marginal", label="y", **options):
    ignore = ["number" if label == "y" else "y"]
    return bayou.train(
        data,
        label=label,
        ignore=ignore,
        numeric=["size"],
        cross=[("site", "hour")],
        learner=learner,
        bits=12,
        **options,
    ).learner


@pytest.fixture(scope="module")
def marginal(data):
    return model_of(data)


def batch_of(learner, data):
    (batch,) = sources.open(data, extras=Extras.of(learner).for_predicting(), labels=False)
    return batch


def summed(told, most):
    return sum(told[f"by{k}"] for k in range(1, most + 1)) + told["others"]


LINEAR = [name for name, record in records().items() if record.linear]
QUICK = ("marginal", "ftrl", "gaussian")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in LINEAR]
)
def test_of_linear_learners_all_columns_together_are_the_score_less_the_average(data, name):
    """Nothing is left for `others` once all columns are told, so it holds nothing but columns."""
    learner = model_of(data, name, "number" if records()[name].task == "regression" else "y")
    predictions = bayou.predict(data, model=learner, explain=20)
    told = predictions.to_pandas()
    assert predictions.explains == "mean"
    scale = max(told["mean"].std(), 1e-3)
    cut = told["mean"].isin(told["mean"].agg(["min", "max"])) & (learner.record.task == "regression")  # to the labels
    assert told["others"][~cut].abs().max() < 1e-5 * scale
    np.testing.assert_allclose(summed(told, 20), told["mean"] - predictions.average, atol=1e-9)
    assert predictions.average == pytest.approx(told["mean"].mean(), abs=1e-3 * scale)  # the score of the mean row
    three = bayou.predict(data, model=learner, explain=3).to_pandas()
    np.testing.assert_allclose(summed(three, 3), told["mean"] - predictions.average, atol=1e-9)


def test_they_are_the_largest_columns_by_numpy(data, marginal):
    batch = batch_of(marginal, data)
    X = batch.to_csr(marginal.n_features).toarray()
    parts = (X - X.mean(axis=0)) * marginal.mean.astype(float)  # all rows were counted
    names = np.array([str(name) for name in marginal.extras.names.name_of(np.arange(len(parts[0])))])
    starts = {"site & hour": None, "site": "site=", "hour": "hour", "size": "size", "weight": "weight"}
    starts |= {f"day {part}": f"day {part}" for part in ("hour", "weekday", "month")}
    starts["day weekend hour"] = ("day weekend hour", "day workday hour")
    crossed = np.char.find(names, " & ") >= 0
    columns = {
        name: crossed if start is None else ~crossed & np.array([text.startswith(start) for text in names])
        for name, start in starts.items()
    }
    each = np.stack([parts[:, of].sum(axis=1) for of in columns.values()])
    order = np.argsort(-np.abs(each), axis=0)[:3]
    why, by, others = Explainer(marginal, 3).explain(batch, marginal.predict(batch))
    np.testing.assert_allclose(by, np.take_along_axis(each, order, axis=0), atol=1e-6)
    np.testing.assert_allclose(others, each.sum(axis=0) - by.sum(axis=0), atol=1e-6)
    called = list(starts)
    row = data.iloc[7]
    shown = {
        "site": f"site={row.site}",
        "hour": f"hour={row.hour}",
        "size": f"size={row['size']:.6g}",
        "site & hour": f"site={row.site} & hour={row.hour}",
    }
    for rank in range(3):
        column = called[order[rank, 7]]
        text = why[rank][7]
        if column in shown and column != "size":
            assert text == shown[column]
        elif column == "size":
            assert float(text.removeprefix("size=")) == pytest.approx(row["size"], rel=1e-4)
        else:
            assert text.startswith(starts[column])


def test_a_value_that_was_never_met_and_a_number_as_large_as_the_mean(data, marginal):
    column = next(column for column in marginal.extras.recipe.columns if column.name == "size")
    new = pd.DataFrame({"site": ["z"], "hour": [5], "size": [column.centre], "weight": [0.1], "day": data["day"][:1]})
    told = bayou.predict(new, model=marginal, explain=20).to_pandas().iloc[0]
    texts = [told[f"why{k}"] for k in range(1, 21)]
    assert "site=(new)" in texts
    assert f"size={column.centre:g}" in texts
    assert abs(told["others"]) < 1e-6
    assert texts[-1] == ""
    assert told["by20"] == 0.0


def test_words_and_features_without_columns_stand_for_themselves(tmp_path):
    lines = ["1 3:1 5:0.5", "-1 4:1 5:2", "1 3:1", "-1 4:1"] * 50
    (tmp_path / "d.svm").write_text("\n".join(lines) + "\n")
    learner = bayou.train(tmp_path / "d.svm", learner="marginal", bits=4).learner
    predictions = bayou.predict(tmp_path / "d.svm", model=learner, explain=2)
    told = predictions.to_pandas()
    w = learner.mean.astype(float)
    assert set(told[["why1", "why2"]].iloc[0]) == {"3", "5:0.5"}
    by = dict(zip(told[["why1", "why2"]].iloc[0], told[["by1", "by2"]].iloc[0], strict=True))
    assert by["3"] == pytest.approx(w[3] * 0.5, abs=1e-6)
    assert by["5:0.5"] == pytest.approx(w[5] * (0.5 - 0.625), abs=1e-6)
    assert told["others"][0] == pytest.approx(-w[4] * 0.5, abs=1e-6)  # what it lacks
    (tmp_path / "d.vw").write_text("1 |user alice |w red:2 blue\n-1 |user bob |w blue\n" * 50)
    learner = bayou.train(tmp_path / "d.vw", learner="marginal", bits=8).learner
    told = bayou.predict(tmp_path / "d.vw", model=learner, explain=4).to_pandas()
    assert {"user^alice", "w^red:2"} <= set(told.iloc[0][["why1", "why2", "why3", "why4"]])
    words = pd.DataFrame({"text": ["red wine", "old wine"] * 50, "y": [1, 0] * 50})
    learner = bayou.train(words, label="y", text=["text"], learner="marginal", bits=8).learner
    told = bayou.predict(words, model=learner, explain=3).to_pandas()
    assert list(told.iloc[0][["why1", "why2"]]) == ["text=red", ""]  # all have wine, and what it lacks is with others
    assert told["others"][0] == pytest.approx(told["by1"][1] * -1, rel=0.5)


def test_files_and_tables_say_the_same(data, marginal, tmp_path):
    marginal.save(tmp_path / "m.bayou")
    data.to_csv(tmp_path / "d.csv", index=False)
    mine = bayou.predict(data, model=marginal, explain=2, keep=["site"]).to_pandas()
    columns = ["site", "probability", "mean", "variance", "low", "high", "why1", "by1", "why2", "by2", "others"]
    assert list(mine) == columns
    assert mine["why1"].str.contains(",").any()  # to be quoted in CSV
    command = [
        "predict",
        str(tmp_path / "d.csv"),
        "--model",
        str(tmp_path / "m.bayou"),
        "--explain",
        "2",
        "--keep",
        "site",
    ]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    average = bayou.predict(data, model=marginal, explain=1).average
    assert f"by1 to others add up to mean less {average:.6g}, that of the average row" in said.stderr
    out = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "p.parquet")])
    assert out.exit_code == 0, out.output
    for other in (pd.read_csv(io.StringIO(said.stdout)), pq.read_table(tmp_path / "p.parquet").to_pandas()):
        assert list(other) == columns
        for name in columns:
            if name.startswith(("why", "site")):
                assert (other[name] == mine[name]).all()
            else:
                np.testing.assert_allclose(other[name], mine[name], rtol=1e-8, atol=1e-12)
    assert bayou.predict(data[:0], model=marginal, explain=2).to_arrow().column_names == columns[1:]


def test_thinned_data_are_explained_against_the_average_of_the_full_stream(data):
    learner = model_of(data, negative_rate=0.2)
    predictions = bayou.predict(data, model=learner, explain=20)
    told = predictions.to_pandas()
    assert told["others"].abs().max() < 1e-5
    np.testing.assert_allclose(summed(told, 20), told["mean"] - predictions.average, atol=1e-9)


def test_of_several_classes_the_predicted_one_is_explained():
    learner = trained()
    told = bayou.predict(pd.DataFrame({"region": ["mosel", "baden", "pfalz"]}), model=learner, explain=1).to_pandas()
    assert told["why1"].tolist() == ["region=mosel", "region=baden", "region=pfalz"]
    assert (told["by1"] > 0).all()
    log_odds = np.log(told.filter(like="P(")).to_numpy() - np.log1p(-told.filter(like="P(")).to_numpy()
    best = log_odds.argmax(axis=1)
    less_average = log_odds[np.arange(3), best] - log_odds.mean(axis=1)
    readings = [learner.reading_of(label, learner.touched) for label in learner.labels]
    mean = learner.extras.uses.counts_of(learner.touched).mean
    average = np.array([reading.intercept + reading.mean @ mean for reading in readings])
    np.testing.assert_allclose(told["by1"] + told["others"], less_average - (average - average.mean())[best], atol=1e-6)
    assert Explainer(learner, 1).average is None


@pytest.mark.parametrize("label", ["y", pytest.param("number", marks=pytest.mark.long)])
def test_of_a_bank_what_the_picture_misses_is_with_the_others(data, label):
    learner = model_of(data, "bank", label)
    predictions = bayou.predict(data, model=learner, explain=20)
    told = predictions.to_pandas()
    score = told["mean"] if label == "number" else np.log(told["probability"]) - np.log1p(-told["probability"])
    assert predictions.explains == ("mean" if label == "number" else "log_odds")
    np.testing.assert_allclose(summed(told, 20), score - predictions.average, atol=1e-9)
    assert told["others"].std() < 0.05 * score.std()  # next to nothing


def test_what_cannot_be_explained_is_said(data, tmp_path):
    with pytest.raises(bayou.BadInput, match="does not know the average row"):
        bayou.predict(data, model=Marginal(n_features=16), explain=3)
    for wrong in (-1, 101, 1.5, True):
        with pytest.raises(bayou.BadInput, match="explain is"):
            bayou.predict(data, model=Marginal(n_features=16), explain=wrong)
    model = tmp_path / "m.bayou"
    Marginal(n_features=16).save(model)
    said = CliRunner().invoke(app, ["predict", str(tmp_path / "x.svm"), "--model", str(model), "--explain", "-1"])
    assert said.exit_code == 2
