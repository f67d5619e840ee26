"""`bayou.spark.transform` predicts what `bayou predict` does, to the bit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou import BadInput
from bayou import spark as face
from bayou.cli import app

pytestmark = pytest.mark.long
OTHERS = {"clicked": ["kind", "spent"], "kind": ["clicked", "spent"], "spent": ["clicked", "kind"]}


@pytest.mark.parametrize("label", OTHERS)
def test_the_bits_of_bayou_predict(spark, files, tmp_path, label):
    first, last = (str(files / f"part-{k}.parquet") for k in (0, 3))
    learner = "gaussian" if label == "spent" else "marginal"
    model, out = tmp_path / "m.bayou", tmp_path / "out.parquet"
    bayou.train(first, label=label, learner=learner, bits=12, ignore=["id", *OTHERS[label]], model=model)
    options = {"--model": model, "--keep": "id", "--level": 0.9, "--out": out}
    said = CliRunner().invoke(app, ["predict", last, *(str(word) for pair in options.items() for word in pair)])
    assert said.exit_code == 0, said.output
    expected = pq.read_table(out)
    frame = spark.read.parquet(f"file://{last}").repartition(3)
    found = face.transform(frame, model).toArrow().sort_by("id")
    assert found.column_names == [*frame.columns, *expected.column_names[1:]]
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    assert found.slice(0, 9)["seen"].to_pylist() == pq.read_table(last)["seen"].to_pylist()[:9]
    kept = face.transform(frame.limit(5), bayou.load(model), level=0.5, keep=["site"])
    assert kept.columns == ["site", *expected.column_names[1:]]


def test_nothing_and_bad_rows(spark, tmp_path):
    rows = pa.table({"a": [1.0, 2.0, 3.0, 4.0] * 20, "y": [0, 1] * 40})
    learner = bayou.train(rows, label="y", learner="marginal", bits=8).learner
    empty = spark.createDataFrame([], "a double, y int")
    assert face.transform(empty, learner).collect() == []
    some = face.transform(spark.createDataFrame([(1.0, None), (None, 1)], "a double, y int"), learner)
    assert np.isfinite([row.probability for row in some.collect()]).all()
    with pytest.raises(BadInput, match="DataFrame of Spark"):
        face.transform(rows, learner)
    frame = spark.createDataFrame([(1.0, 0.5)], "a double, mean double")
    with pytest.raises(BadInput, match="'mean' would be there twice"):
        face.transform(frame, learner)
    with pytest.raises(BadInput, match="keep names 'b'; the columns are a, mean"):
        face.transform(frame, learner, keep=["b"])
    with pytest.raises(BadInput, match="level"):
        face.transform(frame, learner, keep=["a"], level=2.0)
