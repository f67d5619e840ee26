"""`bayou predict`: the rows that the learner itself would give, for every format, tag and label."""

import csv
import io
import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou import simulate, sources
from bayou.cli import app
from bayou.cli.terminal import output
from bayou.core.extras import Extras
from bayou.kernels.compiling import COMPILING
from bayou.learners import AdaGrad, Marginal
from bayou.outputs import prediction_files
from bayou.outputs import text as write
from bayou.outputs.prediction_table import prediction_table
from bayou.recipe.recipe import Column
from bayou.sources import Recipe

N_FEATURES = 256


@pytest.fixture
def run():
    return lambda *arguments, **more: CliRunner().invoke(app, [str(a) for a in arguments], **more)


@pytest.fixture
def data(tmp_path):
    (batch,) = simulate.random(n_features=100, seed=1).batches(400)
    path = tmp_path / "data.svm"
    path.write_bytes(write.svmlight(batch).tobytes())
    return path


def model_of(path, kind=Marginal, recipe=None, **parameters):
    learner = kind(n_features=N_FEATURES, **parameters)
    for batch in simulate.random(n_features=100).batches(2000):
        learner.learn(batch)
    if recipe is not None:
        learner.extras = Extras.new(recipe)
    learner.save(path)
    return learner


@pytest.fixture
def model(tmp_path):
    model_of(tmp_path / "m.bayou", recipe=Recipe(bits=8))
    return tmp_path / "m.bayou"


def rows_of(text: str) -> tuple[list[str], np.ndarray]:
    header, *rows = csv.reader(io.StringIO(text))
    return header, np.array([[float(cell) for cell in row[:5]] for row in rows])


# --- the rows ---------------------------------------------------------------------------------------------------


def test_rows_are_the_learners_answers(run, data, model):
    done = run("predict", data, "--model", model)
    assert done.exit_code == 0, done.output
    header, rows = rows_of(done.stdout)
    assert header == ["probability", "mean", "variance", "low", "high"]
    learner = bayou.load(model)
    (batch,) = sources.open(data, recipe={"bits": 8})
    np.testing.assert_allclose(rows.T, prediction_table(learner, learner.predict(batch)).numbers, rtol=1e-8)


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_shows_no_line_of_progress(run, data, model, tmp_path, monkeypatch, quiet):
    asked, progress = [], output.progress
    monkeypatch.setattr(
        output, "progress", lambda total, unit, is_shown: asked.append(is_shown) or progress(total, unit, is_shown)
    )
    done = run("predict", data, "--model", model, "--out", tmp_path / "p.csv", *["--quiet"] * quiet)
    assert done.exit_code == 0, done.output
    assert asked == [not quiet]
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 401


def test_how_good_they_are_is_told_if_there_are_labels(run, data, model):
    done = run("predict", data, "--model", model)
    (batch,) = sources.open(data, recipe={"bits": 8})
    _, rows = rows_of(done.stdout)
    loss = -np.log(np.where(batch.labels > 0, rows[:, 0], 1 - rows[:, 0])).mean()
    assert f"of 400 examples with a label: log loss {loss:.5f}" in done.stderr


def test_examples_need_no_labels(run, model, tmp_path):
    (tmp_path / "some.svm").write_text("1 3:1\n5:1 7:2\n\n-1 9:1\n")
    done = run("predict", tmp_path / "some.svm", "--model", model)
    assert done.exit_code == 0, done.output
    assert len(rows_of(done.stdout)[1]) == 3
    assert "of 2 examples with a label" in done.stderr
    (tmp_path / "none.svm").write_text("3:1\n5:1 7:2\n")
    done = run("predict", tmp_path / "none.svm", "--model", model)
    assert len(rows_of(done.stdout)[1]) == 2
    assert done.stderr == ""


def test_several_files_and_standard_input(run, data, model):
    twice = run("predict", data, data, "--model", model)
    once = run("predict", data, "--model", model).stdout
    assert twice.stdout == once + once.partition("\n")[2]
    command = [sys.executable, "-m", "bayou", "predict", "-", "--model", model]
    piped = subprocess.run(command, input=data.read_bytes(), capture_output=True, check=True)
    assert piped.stdout.decode() == once


def test_threads_change_nothing(run, data, model):
    texts = {run("predict", data, "--model", model, "--threads", n).stdout for n in (0, 1, 3)}
    assert len(texts) == 1


def test_no_examples_give_a_header(run, model, tmp_path):
    (tmp_path / "empty.svm").write_text("")
    done = run("predict", tmp_path / "empty.svm", "--model", model)
    assert done.exit_code == 0, done.output
    assert done.stdout == "probability,mean,variance,low,high\n"


def test_a_learner_without_a_posterior_gives_two_columns(run, data, tmp_path):
    model_of(tmp_path / "a.bayou", AdaGrad)
    done = run("predict", data, "--model", tmp_path / "a.bayou")
    assert done.exit_code == 0, done.output
    header, rows = rows_of(done.stdout)
    assert header == ["probability", "mean"]
    np.testing.assert_allclose(rows[:, 0], 1 / (1 + np.exp(-rows[:, 1])), rtol=1e-7)


def test_a_model_saved_from_python_predicts_svmlight_with_its_numbers_as_they_are(run, data, model, tmp_path):
    model_of(tmp_path / "p.bayou")
    assert run("predict", data, "--model", tmp_path / "p.bayou").stdout == run("predict", data, "--model", model).stdout
    (tmp_path / "far.svm").write_text("1 3:1\n1 300:1\n1 4:1\n")
    done = run("predict", tmp_path / "far.svm", "--model", tmp_path / "p.bayou")
    assert done.exit_code == 1
    assert "far.svm:2" in done.stderr


def test_features_that_the_learner_has_not_are_skipped_one_by_one(run, tmp_path):
    learner = Marginal(n_features=200)  # no power of 2: numbers from 200 to 255 pass the reader
    learner.save(tmp_path / "m.bayou")
    (tmp_path / "far.svm").write_text("1 3:1\n1 220:1\n1 4:1\n1 201:1\n")
    done = run("predict", tmp_path / "far.svm", "--model", tmp_path / "m.bayou")
    assert done.exit_code == 1
    assert "line 2: row 0: feature 220 is out of range" in done.stderr
    done = run("predict", tmp_path / "far.svm", "--model", tmp_path / "m.bayou", "--on-error", "skip")
    assert done.exit_code == 0
    assert len(rows_of(done.stdout)[1]) == 2
    assert "2 bad lines were skipped" in done.stderr


def test_negatives_that_were_left_out_come_back(run, data, model, tmp_path):
    model_of(tmp_path / "thin.bayou", recipe=Recipe(bits=8, negative_rate=0.2))
    plain = rows_of(run("predict", data, "--model", model).stdout)[1]
    done = run("predict", data, "--model", tmp_path / "thin.bayou")
    full = rows_of(done.stdout)[1]
    np.testing.assert_allclose(full[:, 1], plain[:, 1] + np.log(0.2), atol=1e-6)
    for column in (0, 3, 4):
        p = plain[:, column]
        np.testing.assert_allclose(full[:, column], 0.2 * p / (0.2 * p + 1 - p), rtol=1e-8)
    assert "full stream" in done.stderr


# --- tags -------------------------------------------------------------------------------------------------------


@pytest.fixture
def vw(tmp_path):
    model_of(tmp_path / "vw.bayou", recipe=Recipe(kind="vw", bits=8))
    (tmp_path / "d.vw").write_text("1 one|a x y\n-1 |a z\n'to,go|a x\n|b q\n")
    return tmp_path / "d.vw", tmp_path / "vw.bayou"


def test_tags_are_the_last_column(run, vw):
    done = run("predict", vw[0], "--model", vw[1])
    assert done.exit_code == 0, done.output
    header, *rows = csv.reader(io.StringIO(done.stdout))
    assert header[-1] == "tag"
    assert [row[-1] for row in rows] == ["one", "", "to,go", ""]


def test_tags_can_be_left_out_or_asked_for(run, vw, data, model):
    assert run("predict", vw[0], "--model", vw[1], "--no-tags").stdout.startswith(
        "probability,mean,variance,low,high\n"
    )
    with_tags = run("predict", data, "--model", model, "--tags").stdout.splitlines()
    assert with_tags[0].endswith(",tag")
    assert with_tags[1].endswith(",")


def test_tags_that_come_late_are_told_of(run, vw, tmp_path):
    late = tmp_path / "late.vw"
    late.write_text("|a x\n" * 220_000 + "last|a x\n")  # more than the megabyte of the first block
    done = run("predict", late, "--model", vw[1])
    assert done.stdout.startswith("probability,mean,variance,low,high\n")
    assert "1 examples have a tag" in done.stderr
    done = run("predict", late, "--model", vw[1], "--tags")
    assert done.stdout.endswith(",last\n")


# --- files ------------------------------------------------------------------------------------------------------


def test_csv_and_parquet_files_hold_what_standard_output_has(run, data, model, vw, tmp_path):
    for source, of in ((data, model), vw):
        text = run("predict", source, "--model", of).stdout
        done = run("predict", source, "--model", of, "--out", tmp_path / "p.csv")
        assert done.stdout == ""
        assert "predictions are in" in done.stderr
        assert (tmp_path / "p.csv").read_text() == text
        assert run("predict", source, "--model", of, "--out", tmp_path / "p.parquet").exit_code == 0
        table = pq.read_table(tmp_path / "p.parquet")
        header, rows = rows_of(text)
        assert table.column_names == header
        np.testing.assert_allclose([table[name].to_numpy() for name in header[:5]], rows.T, rtol=1e-8)
        if header[-1] == "tag":
            assert table["tag"].to_pylist() == ["one", "", "to,go", ""]


def test_parquet_is_written_some_rows_at_a_time(run, data, model, tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_files.ParquetPredictionWriter, "ROWS", 150)
    many = tmp_path / "many.svm"
    many.write_bytes(data.read_bytes() * 60)  # several blocks
    assert run("predict", many, "--model", model, "--out", tmp_path / "p.parquet").exit_code == 0
    file = pq.ParquetFile(tmp_path / "p.parquet")
    assert file.num_row_groups > 1
    values = file.read()["probability"].to_numpy().reshape(60, 400)
    assert (values == values[0]).all()


def test_parquet_of_no_examples_has_its_columns(run, model, tmp_path):
    (tmp_path / "empty.svm").write_text("")
    assert run("predict", tmp_path / "empty.svm", "--model", model, "--out", tmp_path / "p.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "p.parquet").shape == (0, 5)


@pytest.mark.parametrize("out", ["p.csv", "p.csv.gz", "p.parquet"])
def test_a_bad_line_stops_and_leaves_the_old_file(run, data, model, tmp_path, out):
    bad = tmp_path / "bad.svm"
    bad.write_bytes(data.read_bytes() + b"1 nonsense\n")
    (tmp_path / out).write_bytes(b"old")
    before = sorted(os.listdir(tmp_path))
    done = run("predict", bad, "--model", model, "--out", tmp_path / out)
    assert done.exit_code == 1
    assert "bad.svm:401:3: expected" in done.stderr
    assert (tmp_path / out).read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == before


def test_bad_lines_can_be_skipped(run, data, model, tmp_path):
    bad = tmp_path / "bad.svm"
    bad.write_bytes(b"1 nonsense\n" + data.read_bytes())
    done = run("predict", bad, "--model", model, "--on-error", "skip")
    assert done.exit_code == 0
    assert done.stdout == run("predict", data, "--model", model).stdout
    assert "bad.svm:1:3: expected" in done.stderr
    assert "1 bad lines were skipped; there is no row for them" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--out", "p.txt"], 2, "must end in one of .csv"),
        (["--out", "no/such/p.csv"], 2, "there is no folder"),
        (["--format", "swamp"], 2, "--format is 'swamp'; it must be one of auto, svmlight, vw"),
        (["--out", "folder.csv"], 2, "no file can be written there"),
        (["--threads", "1000"], 2, "threads"),
        (["nosuch.svm"], 2, "nosuch.svm: there is no such file"),
        (["nosuch*.svm"], 2, "no file matches"),
        (["--format", "vw"], 2, "needs a recipe for vw data"),
        (["--on-error", "swamp"], 2, "--on-error is 'swamp'; it must be one of raise, skip"),
    ],
)
def test_what_cannot_be_done_is_said(run, data, model, tmp_path, monkeypatch, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    done = run("predict", data, "--model", model, *arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_table_without_a_column_that_is_needed_is_wrong_usage(run, tmp_path):
    columns = (Column("y", "label"), Column("city", "category"))
    model_of(tmp_path / "m.bayou", recipe=Recipe(kind="table", bits=8, label="y", columns=columns))
    (tmp_path / "t.csv").write_text("age\n3\n")
    done = run("predict", tmp_path / "t.csv", "--model", tmp_path / "m.bayou")
    assert done.exit_code == 2
    assert "there is no column 'city'" in done.stderr


def test_a_model_that_is_none_is_said(run, data, tmp_path):
    assert run("predict", data, "--model", tmp_path / "none").exit_code == 1
    done = run("predict", data, "--model", data)
    assert done.exit_code == 1
    assert "not a bayou model" in done.stderr


def test_a_pipe_that_closes_early_is_no_error(data, model, tmp_path):
    many = tmp_path / "many.svm"
    many.write_bytes(data.read_bytes() * 300)
    command = f"{sys.executable} -m bayou predict {many} --model {model} | head -n 2"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 2
    # A slow machine may say that it compiles; nobody may complain.
    assert done.stderr.replace(COMPILING, "").strip() == ""


def test_nothing_is_learned(run, data, model):
    before = model.read_bytes()
    run("predict", data, "--model", model)
    assert model.read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_standard_output_that_cannot_be_written_is_said(data, model):
    command = f"{sys.executable} -m bayou predict {data} --model {model} > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 1
    # A slow machine may first say that it compiles.
    assert done.stderr.endswith("standard output could not be written (No space left on device).\n")
    assert "Traceback" not in done.stderr


def test_a_table_is_read_as_it_was_for_training(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.choice(['red', 'blue'])},{rng.normal():.3f},{rng.choice(['yes', 'no'])}" for _ in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["colour,size,bought", *rows]) + "\n")
    options_ = ["--label", "bought", "--positive", "yes", "--bits", "10"]
    assert run("train", tmp_path / "t.csv", *options_, "--model", tmp_path / "m").exit_code == 0
    whole = run("predict", tmp_path / "t.csv", "--model", tmp_path / "m")
    assert whole.exit_code == 0, whole.output
    assert "of 300 examples with a label" in whole.stderr
    unlabelled = [row.rpartition(",")[0] for row in rows]
    (tmp_path / "u.csv").write_text("\n".join(["colour,size", *unlabelled]) + "\n")
    done = run("predict", tmp_path / "u.csv", "--model", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert done.stdout == whole.stdout
    assert done.stderr == ""
