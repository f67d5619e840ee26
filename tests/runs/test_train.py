"""`bayou.train`: the command's run, from Python."""

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.recipe.recipe import Recipe
from bayou.runs import interrupts
from bayou.runs.options import recipe_options

training = importlib.import_module("bayou.runs.train")


def clicks(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hour, site = rng.integers(0, 24, n), rng.choice(["a", "b", "c", "d"], n)
    clicked = rng.random(n) < np.where(site == "a", 0.8, 0.3)
    return pd.DataFrame({"id": np.arange(n), "site": site, "hour": hour, "clicked": clicked.astype(int)})


OPTIONS = {"label": "clicked", "ignore": ["id"], "bits": 10, "learner": "marginal"}


def same(one, other) -> bool:
    return one.mean.tobytes() == other.mean.tobytes() and one.intercept == other.intercept


def test_it_does_what_the_command_does(tmp_path):
    table = clicks()
    table.to_csv(tmp_path / "c.csv", index=False)
    run = bayou.train(tmp_path / "c.csv", **OPTIONS, holdout=0.1, model=tmp_path / "a.bayou")
    command = [
        "--label",
        "clicked",
        "--ignore",
        "id",
        "--bits",
        "10",
        "--learner",
        "marginal",
        "--holdout",
        "0.1",
        "--json",
        "--quiet",
        "--model",
    ]
    said = CliRunner().invoke(app, ["train", str(tmp_path / "c.csv"), *command, str(tmp_path / "b.bayou")])
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    mine = run.as_dict()
    for changing in ("seconds",):
        del told[changing], mine[changing]
    assert told == json.loads(json.dumps(mine))
    saved, theirs = bayou.load(tmp_path / "a.bayou"), bayou.load(tmp_path / "b.bayou")
    assert same(saved, theirs)
    assert same(saved, run.learner)
    assert saved.extras.counters == theirs.extras.counters
    assert run.evaluation.examples == 2700
    assert run.held_out.examples == 300
    assert run.skipped == 0


def test_a_table_its_chunks_and_its_files_are_the_same_data(tmp_path):
    table = clicks(30_000)
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "c.parquet", row_group_size=7000)
    ways = {
        "DataFrame": table,
        "Arrow": pa.Table.from_pandas(table),
        "chunks": (table[k : k + 4000] for k in range(0, len(table), 4000)),
        "a list of chunks": [table[:11_000], table[11_000:]],
        "record batches": pq.ParquetFile(tmp_path / "c.parquet").iter_batches(5000),
        "Parquet": tmp_path / "c.parquet",
    }
    runs = {name: bayou.train(data, **OPTIONS) for name, data in ways.items()}
    first = runs.pop("DataFrame")
    for name, run in runs.items():
        assert same(run.learner, first.learner), name
        assert run.evaluation.log_loss == first.evaluation.log_loss, name
        assert run.learner.extras.recipe == first.learner.extras.recipe, name


def test_chunks_may_differ_in_type_and_order_but_not_in_columns():
    first, second = clicks(2000), clicks(1000, seed=1)
    second["hour"] = second["hour"].astype(float)
    run = bayou.train([first, second[["clicked", "hour", "id", "site"]]], **OPTIONS)
    assert run.evaluation.examples == 3000
    with pytest.raises(bayou.BadInput, match="no column 'hour', unlike the first part"):
        bayou.train([first, second.drop(columns="hour")], **OPTIONS)


def test_chunks_that_are_used_up_cannot_be_read_twice():
    table = clicks()
    with pytest.raises(bayou.BadInput, match="passes= needs data that can be read more than once"):
        bayou.train(iter([table]), **OPTIONS, passes=2)
    twice = bayou.train([table], **OPTIONS, passes=2, holdout=0.1)
    assert twice.passes == 2


def test_rows_are_repeated_in_later_passes_alone(tmp_path):
    """Then they count less in a bank, even if the run is interrupted; rows after the run are new."""
    table, options = clicks(), {**OPTIONS, "learner": "bank"}
    table.to_csv(tmp_path / "c.csv", index=False)
    whole = bayou.train(tmp_path / "c.csv", **options, passes=3)

    def stop(progress):
        if progress.passed == 1:
            os.kill(os.getpid(), signal.SIGINT)

    parted = bayou.train(tmp_path / "c.csv", **options, passes=3, model=tmp_path / "m.bayou", on_progress=stop)
    assert (parted.signal, parted.passes) == (signal.SIGINT, 1)
    again = bayou.train(tmp_path / "c.csv", resume=tmp_path / "m.bayou")
    assert again.passes == 3
    assert same(again.learner, whole.learner)
    once, thrice = bayou.train(table, **options).learner, bayou.train([table] * 3, **options).learner
    assert again.learner.levels == once.levels != thrice.levels
    assert again.learner.examples == thrice.examples
    assert (again.learner.variance[thrice.touched] > thrice.variance[thrice.touched]).all()
    batch = next(iter(bayou.sources.open(clicks(500, seed=1), extras=again.learner.extras)))
    again.learner.learn(batch)
    assert again.learner.levels != once.levels


def test_resume_and_like_take_a_path_or_a_learner(tmp_path):
    monday, tuesday = clicks(seed=1), clicks(seed=2)
    first = bayou.train(monday, **OPTIONS, model=tmp_path / "m.bayou")
    before = first.learner.mean
    runs = [bayou.train(tuesday, resume=model) for model in (tmp_path / "m.bayou", first.learner)]
    assert same(runs[0].learner, runs[1].learner)
    assert (first.learner.mean == before).all()  # a learner that is resumed stays as it is
    assert runs[0].learner.extras.counters.examples == 6000
    alike = bayou.train(monday, like=first.learner)
    assert same(alike.learner, first.learner)


def test_progress_notes_and_report(tmp_path):
    seen, notes = [], []
    run = bayou.train(
        clicks(),
        **OPTIONS,
        report=tmp_path / "r.html",
        on_progress=lambda progress: seen.append((progress.meter.examples, progress.passed)),
        on_note=notes.append,
    )
    assert seen[-1] == (3000, 0)
    assert run.notes == [note.text for note in notes]
    assert "marginal: 1,024 weights" in run.notes[0]
    assert "the report is in" in run.notes[-1]
    assert "site=a" in (tmp_path / "r.html").read_text()


def test_nothing_is_printed(capfd):
    bayou.train(clicks(), **OPTIONS, passes=2)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_ends_it_with_what_was_learned(tmp_path):
    run = bayou.train(
        (clicks(seed=k) for k in range(5)),
        **OPTIONS,
        model=tmp_path / "m.bayou",
        on_progress=lambda progress: os.kill(os.getpid(), signal.SIGINT),
    )
    assert run.signal == signal.SIGINT
    assert 0 < run.evaluation.examples < 15_000
    assert bayou.load(tmp_path / "m.bayou").extras.unfinished is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lable": "clicked"}, "there is no option 'lable'; there are: learner, .*Did you mean label"),
        ({"settings": {"prior": 1}}, "there is no parameter 'prior'"),
        ({"settings": {"prior_variance": -1}}, "prior_variance is -1"),
        ({"checkpoint": 10}, "checkpoint= needs model="),
        ({"checkpoint": 10**400, "model": "x.bayou"}, "expected a number of examples"),
        ({"passes": 0}, "passes is 0"),
        ({"holdout": 1.5}, "holdout=1.5: it must be"),
        ({"report": "r.txt"}, r"must end in \.html"),
        ({"model": "nosuch/m.bayou"}, "there is no folder nosuch"),
        ({"resume": "a", "like": "b"}, "resume= and like= cannot be combined"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_learned(options, said):
    with pytest.raises(bayou.BadInput, match=said):
        bayou.train(clicks(10), **{**OPTIONS, **options})


def test_data_that_are_no_data_are_refused():
    with pytest.raises(bayou.BadInput, match="give a int; give paths, a table"):
        bayou.train(iter([3]), **OPTIONS)
    with pytest.raises(bayou.BadInput, match="yields no tables"):
        bayou.train(iter([]), **OPTIONS)


def test_a_model_that_could_not_be_written_is_not_lost(tmp_path, monkeypatch):
    def full(self, path):
        raise bayou.BadModel(f"{path} could not be written.")

    monkeypatch.setattr(bayou.learners.Marginal, "save", full)
    with pytest.raises(bayou.BadModel, match="could not be written") as caught:
        bayou.train(clicks(), **OPTIONS, model=tmp_path / "m.bayou")
    assert caught.value.run.learner.examples == 3000


def test_an_interrupt_before_anything_was_learned_leaves_the_model_as_it_was(tmp_path, monkeypatch):
    clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    model = tmp_path / "m.bayou"
    bayou.train(clicks, label="clicked", learner="marginal", bits=8, model=model)
    before = model.read_bytes()

    @contextlib.contextmanager
    def at_once(source):
        interrupt = interrupts.Interrupt()
        interrupt.signal = signal.SIGINT
        yield interrupt

    monkeypatch.setattr(training, "interruptible", at_once)
    monkeypatch.setattr(training.Training, "_one_pass", lambda *unused: None)  # no batch came
    for more in ({}, {"resume": model}):
        run = bayou.train(clicks, model=model, **(more or {"label": "clicked", "learner": "marginal", "bits": 8}))
        assert (run.signal, run.learned) == (signal.SIGINT, 0)
        assert model.read_bytes() == before


def test_a_file_that_is_given_twice_is_told_of(tmp_path):
    file = tmp_path / "x.svm"
    file.write_text("1 0:1\n-1 1:1\n" * 20)
    run = bayou.train([str(file), str(file)], learner="marginal", bits=4)
    assert f"{file} is given 2 times; its rows are learned that many times" in run.notes
    assert run.learned == 80


def test_an_error_outside_the_main_thread_carries_no_other_one_along():
    errors = []

    def learn():
        try:
            bayou.train(clicks(50).assign(clicked=None), **OPTIONS)
        except bayou.BadInput as error:
            errors.append(error)

    thread = threading.Thread(target=learn)
    thread.start()
    thread.join()
    assert "could be learned from" in str(errors[0])
    assert errors[0].__context__ is None


def test_each_option_of_a_recipe_is_described_once_for_help_and_docstring():
    said = CliRunner().invoke(app, ["train", "--help"], terminal_width=500).stdout
    for name, (_, told) in recipe_options().items():
        assert f"--{name.replace('_', '-')}" in said
        assert f"        {name}: " in bayou.train.__doc__
        words = told.text.partition("{")[0].split()
        assert " ".join(words) in " ".join(said.split())
        assert " ".join(words) in " ".join(bayou.train.__doc__.split())
    assert set(recipe_options()) <= {field.name for field in dataclasses.fields(Recipe)}
