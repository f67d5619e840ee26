"""Rows that come to a server are read as the model's own were."""

import io
import time

import numpy as np
import pyarrow as pa

import bayou
from bayou.serve.log import ARROW, JSON, SVMLIGHT, VW
from bayou.serve.row_reader import RowReader
from bayou.serve.service import new_learner


def test_crosses_of_numbered_features_are_read_and_named(tmp_path):
    path = tmp_path / "d.svm"
    path.write_text("1 1:1 11:1\n-1 2:1 11:2\n")
    how = {"learner": "marginal", "bits": 12, "ranges": [("a", 1, 10), ("b", 11, 20)], "interactions": ["ab"]}
    learner = bayou.train(path, **how).learner
    read = RowReader(learner).read(SVMLIGHT, [b"1 3:1 12:4"], learns=True)
    assert read.batch.values.tolist() == [1, 4, 4]
    (new,) = read.names
    learner.extras.names.add(new)
    assert "a^3 & b^12" in learner.extras.names.name_of(read.batch.indices)


def test_interactions_of_vw_text_are_read(tmp_path):
    path = tmp_path / "d.vw"
    path.write_text("1 |user u |ad a\n-1 |user v |ad a\n")
    learner = bayou.train(path, learner="marginal", bits=12, interactions=["ua"], ignore=["s"]).learner
    read = RowReader(learner).read(VW, [b"|user u |ad a |site x"], learns=False)
    assert set(learner.extras.names.name_of(read.batch.indices)) == {"user^u", "ad^a", "user^u & ad^a"}


def test_new_classes_of_arrow_rows_are_named(tmp_path):
    path, stream = tmp_path / "d.csv", io.BytesIO()
    path.write_text("kind,size\n" + "".join(f"{'abc'[k % 3]},{k}\n" for k in range(30)))
    learner = bayou.train(path, label="kind", bits=6).learner
    tables = [pa.table({"kind": kinds, "size": [1.0, 2.0]}) for kinds in (["d", "a"], ["e", "d"])]
    with pa.ipc.new_stream(stream, tables[0].schema) as out:
        for table in tables:
            out.write_table(table)
    reading = RowReader(learner)
    read = reading.read(ARROW, [stream.getvalue()], learns=True)
    assert (read.n, read.bad_rows, read.classes) == (4, {}, ["d", "e"])
    assert np.asarray(reading.with_classes(read).labels).tolist() == [3, 0, 4, 3]
    assert learner.extras.classes == ["a", "b", "c", "d", "e"]


def test_many_rows_for_the_slow_reader_take_time_in_proportion():
    """Numbers with an exponent are read by Python; a body full of them must not occupy the server for minutes."""
    reading = RowReader(new_learner("marginal", [], 12, {}))

    def seconds(n):
        rows = [b'{"a": 1e-05, "text": "%s"}' % (b"x" * 200)] * n
        started = time.process_time()
        assert len(reading.read(JSON, rows, False).batch) == n
        return time.process_time() - started

    seconds(100)
    few, many = seconds(2000), seconds(32_000)
    assert many < 40 * few + 0.5
