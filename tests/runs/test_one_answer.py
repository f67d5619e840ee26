"""One answer for everybody: a model is a function of the rows, not of what holds them, nor of how it is read."""

import contextlib
import importlib.util
import itertools
import os
import signal
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou import Batch
from bayou.core.learner import LEARN_CHUNK_ROWS
from bayou.learners.ensembles.delayed import block_size
from bayou.runs.batching import MAX_BATCH_NONZEROS, block_sizes, rebatch

N = 12_500  # more rows than fix the recipe


def rows(task, n=N, seed=0):
    """A table whose cells are the same however they are written; `user` holds ids, which the label depends on."""
    rng = np.random.default_rng(seed)
    site, hour, price = rng.integers(0, 40, n), rng.integers(0, 24, n), rng.integers(0, 400, n) / 8 + 1 / 16
    user, day = rng.integers(0, 1500, n), pd.to_datetime("2013-01-01") + pd.to_timedelta(np.arange(n) // 40, "D")
    score = np.sin(site) + (hour - 12) / 8 + np.sqrt(price) / 4 - 1 + 2 * np.sin(user**2) + rng.logistic(size=n) * 0.7
    label = {
        "binary": (score > 0).astype(int),
        "multiclass": np.array(["low", "middle", "high"])[np.digitize(score, [-1, 1])],
        "regression": np.round(score * 64) / 64,
    }[task]
    known = {"site": [f"s{k}" for k in site], "hour": hour, "price": price, "user": user}
    return pd.DataFrame(known | {"day": day.strftime("%Y-%m-%d"), "y": label})


@contextlib.contextmanager
def pipe(path):
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process:
        yield f"/dev/fd/{process.stdout.fileno()}"


def ways(table, folder):
    """(name, a context with data, size of blocks) of each way to have the same rows."""
    csv, json = folder / "t.csv", folder / "t.jsonl"
    table.to_csv(csv, index=False)
    table.to_json(json, orient="records", lines=True)
    frame, arrow = contextlib.nullcontext(table), pa.Table.from_pandas(table)
    yield "CSV, small blocks", contextlib.nullcontext(csv), 3000
    yield "CSV, other blocks", contextlib.nullcontext(csv), 70_001
    for size in (999, 4096, 100_000):
        pq.write_table(arrow, folder / f"{size}.parquet", row_group_size=size)
        yield f"Parquet, {size}", contextlib.nullcontext(folder / f"{size}.parquet"), None
    yield "DataFrame", frame, None
    yield "Arrow", contextlib.nullcontext(arrow), None
    if importlib.util.find_spec("polars"):
        import polars

        yield "polars", contextlib.nullcontext(polars.from_pandas(table)), None
    cuts = [0, 1, 18, 5000, 5001, 12_000, len(table)]
    yield "chunks", contextlib.nullcontext([table[a:b] for a, b in itertools.pairwise(cuts)]), None
    yield "iterator", contextlib.nullcontext(table[k : k + 700] for k in range(0, len(table), 700)), None
    yield "pipe", pipe(csv), 20_000
    yield "JSON lines", contextlib.nullcontext(json), 50_000


def facts(learner, table):
    """All arrays, and frozen predictions, as bytes; and how rows are read."""
    told = bayou.predict(table, model=learner).to_arrow()
    arrays = {name: array.tobytes() for name, array in learner._arrays().items()}
    extras = learner.extras
    names = None if extras.names is None else extras.names.name_of(np.arange(learner.n_features))
    return arrays | {"predictions": told, "recipe": extras.recipe, "classes": extras.classes, "names": names}


def assert_same(one, other, what):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == other[name], (what, name)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_model_depends_on_the_rows_alone(tmp_path, monkeypatch, task):
    table = rows(task)
    table.to_csv(tmp_path / "first.csv", index=False)
    run = bayou.train(tmp_path / "first.csv", label="y", bits=12, threads=0)
    roles = {column.name: column.role for column in run.learner.extras.recipe.columns}
    assert roles | {"user": "whole", "price": "bins", "day": "date"} == roles
    first = facts(run.learner, table[:500])
    for name, data, block_bytes in ways(table, tmp_path):
        with monkeypatch.context() as patched, data as given:
            if block_bytes is not None:
                patched.setattr("bayou.sources.reading.blocks.FIRST_BYTES", min(block_bytes, 1 << 20))
                patched.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", block_bytes)
            run = bayou.train(given, label="y", bits=12, threads=2)
        assert run.evaluation.examples == N
        assert_same(first, facts(run.learner, table[:500]), name)


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    rows("binary").to_csv(path, index=False)
    return path


@pytest.mark.parametrize("more", [{}, {"delay": 300}, {"holdout": "random:0.1"}])
def test_it_depends_neither_on_checkpoints_nor_on_a_report_nor_on_interrupts(csv, tmp_path, more):
    table = rows("binary", 500, seed=1)
    options = {"label": "y", "bits": 12, **more}
    whole = facts(bayou.train(csv, **options).learner, table)
    seen = bayou.train(csv, **options, report=tmp_path / "r.html")
    assert_same(whole, facts(seen.learner, table), "report")
    if "delay" in more:  # whose rows would be lost
        return
    checked = bayou.train(csv, **options, model=tmp_path / "m.bayou", checkpoint=1000)
    assert_same(whole, facts(checked.learner, table), "checkpoint")

    def stop(progress):
        if progress.rows > 4000:
            os.kill(os.getpid(), signal.SIGINT)

    assert bayou.train(csv, **options, model=tmp_path / "m.bayou", on_progress=stop).signal == signal.SIGINT
    again = bayou.train(csv, resume=tmp_path / "m.bayou")
    assert again.learner.examples == whole["classes"] or again.learned > 1000
    assert_same(whole, facts(again.learner, table), "resumed")


def test_checkpoints_change_no_bit_of_numbers(tmp_path):
    table = rows("regression", 3000)
    whole = facts(bayou.train(table, label="y", bits=12).learner, table[:500])
    checked = bayou.train(table, label="y", bits=12, model=tmp_path / "m.bayou", checkpoint=700)
    assert_same(whole, facts(checked.learner, table[:500]), "checkpoint")


def test_a_report_changes_no_bit_of_several_classes(tmp_path):
    table = rows("multiclass", 3000)
    plain, seen = (bayou.train(table, label="y", bits=12, report=report) for report in (None, tmp_path / "r.html"))
    assert_same(facts(plain.learner, table[:100]), facts(seen.learner, table[:100]), "report")


def lengths(sizes, weights=None, learned=0, values=1, refused=(), blocks=block_size):
    """How many rows there are in each batch, of batches of these sizes."""
    total, found = learned, []

    def batches():
        start = 0
        for n in sizes:
            weight = None if weights is None else weights[start : start + n]
            yield Batch.from_arrays(np.arange(n + 1) * values, np.tile(np.arange(values), n), np.ones(n * values),
                                    np.ones(n), weight, positions=np.arange(start, start + n))  # fmt: skip
            start += n

    for batch in rebatch(batches(), lambda: total, "float32", blocks):  # noqa: B023
        found.append(len(batch))
        kept = ~np.isin(batch.positions, refused)
        total += int(np.count_nonzero(batch.weights_or_ones().astype("float32")[kept]))
    assert sum(found) == sum(sizes)
    return found


def test_batches_end_where_a_bank_stops_looking_ahead():
    found = lengths([30_000, 70_000, 1, 0, 99_999])
    assert found[:20] == [1] * 16 + [2] * 4
    total = 0
    for n in found[:-1]:
        assert n == max(1, min(total // 8, 8192))
        total += n
    assert lengths([7] * 10_000 + [130_000]) == found
    assert lengths([30_000], learned=8 * 20_000) == [8192] * 3 + [5424]
    several = lengths([200_000], blocks=block_sizes)
    assert len(several) <= 30
    assert min(several[:-1]) >= 1024
    assert set(np.cumsum(several)) <= set(np.cumsum(found))


def test_rows_of_weight_0_are_not_counted_but_bounded():
    weights = np.tile([1.0, 0.0, 1e-60], 7000)  # what is 0 in float32 is 0
    found = lengths([10_000, 11_000], weights)
    assert found[0] == 1
    assert all(n <= 3 * max(1, 7000 // 8) + 2 for n in found)
    assert lengths([20_000], np.zeros(20_000)) == [LEARN_CHUNK_ROWS, LEARN_CHUNK_ROWS, 20_000 - 2 * LEARN_CHUNK_ROWS]


def test_rows_that_a_learner_refuses_count_in_their_batch_alone():
    found = lengths([1000], refused=range(100, 200))
    assert found == lengths([300] * 3 + [100], refused=range(100, 200))
    total = np.cumsum(found)
    k = int(np.searchsorted(total, 150))
    assert found[k + 1] == max(1, (total[k] - (min(total[k], 200) - 100)) // 8)  # goes on as a resumed run would


def test_very_long_rows_end_a_batch():
    long = MAX_BATCH_NONZEROS // 8
    assert lengths([10, 10, 10], learned=10**6, values=long) == [8, 8, 8, 6]
