"""`bayou.predict`: the command's run, from Python."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    site = rng.choice(["a", "b", "c"], 5000)
    clicked = (rng.random(5000) < np.where(site == "a", 0.8, 0.3)).astype(int)
    return pd.DataFrame(
        {"id": np.arange(5000) + 7, "site": site, "hour": rng.integers(0, 24, 5000), "clicked": clicked}
    )


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.bayou"
    bayou.train(table, label="clicked", ignore=["id"], bits=10, learner="marginal", model=path)
    return path


def test_it_gives_what_the_command_writes(table, model, tmp_path):
    table.to_csv(tmp_path / "c.csv", index=False)
    said = CliRunner().invoke(app, ["predict", str(tmp_path / "c.csv"), "--model", str(model)])
    written = pd.read_csv(io.StringIO(said.stdout))
    for data in (tmp_path / "c.csv", table, pa.Table.from_pandas(table)):
        predictions = bayou.predict(data, model=model)
        mine = predictions.to_pandas()
        assert list(mine) == list(written) == ["probability", "mean", "variance", "low", "high"]
        np.testing.assert_allclose(mine, written, rtol=1e-8)
        assert predictions.evaluation.examples == 5000
        assert f"log loss {predictions.evaluation.log_loss:.5f}" in said.stderr


def test_tables_come_one_after_another(table, model):
    predictions = bayou.predict((table[k : k + 1000] for k in range(0, 5000, 1000)), model=bayou.load(model))
    sizes = [part.num_rows for part in predictions]
    assert sum(sizes) == 5000
    assert len(sizes) == 5


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_a_level_is_that_of_the_interval(table, model, level):
    wide = bayou.predict(table, model=model).to_pandas()
    other = bayou.predict(table, model=model, level=level).to_pandas()
    assert (other["probability"] == wide["probability"]).all()
    assert ((other["high"] - other["low"] < wide["high"] - wide["low"]) == (level < 0.95)).all()
    with pytest.raises(bayou.BadInput, match="level"):
        bayou.predict(table, model=model, level=1.5)


def test_columns_are_kept_beside_the_predictions(table, model, tmp_path):
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "c.parquet", row_group_size=700)
    pq.write_table(pa.Table.from_pandas(table[:100]), tmp_path / "d.parquet")
    table.to_csv(tmp_path / "c.csv", index=False)
    plain = bayou.predict(table, model=model).to_pandas()
    ways = {
        "DataFrame": table,
        "Arrow stream": pa.Table.from_pandas(table).to_reader(max_chunksize=300),
        "chunks": (table[k : k + 777] for k in range(0, 5000, 777)),
        "Parquet": tmp_path / "c.parquet",
        "CSV": tmp_path / "c.csv",
    }
    for name, data in ways.items():
        kept = bayou.predict(data, model=model, keep=["id", "site"]).to_pandas()
        assert list(kept) == ["id", "site", *plain], name
        assert kept["id"].astype(int).tolist() == table["id"].tolist(), name
        assert (kept["site"] == table["site"]).all(), name
        np.testing.assert_array_equal(kept[list(plain)], plain, err_msg=name)
    two = bayou.predict([tmp_path / "c.parquet", tmp_path / "d.parquet"], model=model, keep=["id"]).to_arrow()
    assert two["id"].to_pylist() == [*table["id"], *table["id"][:100]]


def test_rows_that_are_skipped_take_what_is_kept_with_them(tmp_path):
    texts = ["a", "b", "c"] * 20
    table = pd.DataFrame({"x": texts, "z": texts, "y": [1, 0, 1] * 20})
    model = bayou.train(table, label="y", text=["x", "z"], cross=[("x", "z")], bits=4, learner="marginal").learner
    long = " ".join(map(str, range(300)))  # too many pairs of words
    new = pd.DataFrame({"id": range(4), "x": ["a", long, "b", "c"], "z": ["a", long, "b", "c"]})
    predictions = bayou.predict(new, model=model, keep=["id"], on_error="skip")
    assert predictions.to_arrow()["id"].to_pylist() == [0, 2, 3]
    assert predictions.skipped == 1
    assert "at most 1048576 features, and 65536 pairs" in predictions.bad_lines[0]
    with pytest.raises(bayou.BadInput, match="65536 pairs"):
        bayou.predict(new, model=model, keep=["id"]).to_arrow()


def test_what_cannot_be_kept_is_said(table, model, tmp_path):
    with pytest.raises(bayou.BadInput, match=r"'ids', which does not exist; the columns are .*Did you mean id\?"):
        bayou.predict(table, model=model, keep=["ids"]).to_arrow()
    (tmp_path / "x.svm").write_text("1 3:1\n")
    with pytest.raises(bayou.BadInput, match="svmlight"):
        bayou.predict(tmp_path / "x.svm", model=model, keep=["id"])


def test_no_rows_give_an_empty_table(table, model):
    assert bayou.predict(table[:0], model=model).to_arrow().column_names == [
        "probability",
        "mean",
        "variance",
        "low",
        "high",
    ]


def test_predicting_leaves_the_learner_as_it_is(table):
    learner = bayou.train(table, label="clicked", ignore=["id"], bits=10, exact=True, learner="marginal").learner
    known, names = len(learner.extras.numbering), len(learner.extras.names)
    new = table.assign(site="nowhere")
    assert bayou.predict(new, model=learner).to_arrow().num_rows == 5000
    assert (len(learner.extras.numbering), len(learner.extras.names)) == (known, names)
    more = bayou.train(new, resume=learner).learner  # which numbers new features all the same
    assert len(more.extras.numbering) > known
