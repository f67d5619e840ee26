"""Rounds on Spark: the same bits as in one process, whatever dies on the way."""

import contextlib
import copy
import os
import signal
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou import BadInput, BadModel, load, rounds, sources
from bayou import spark as face
from bayou.core.extras import Extras
from bayou.runs.train import Training
from bayou.sources.row_group_slices import RowGroupSlices

pytestmark = pytest.mark.long
# Small shards, so that few rows make some rounds.
SMALL = {
    "label": "clicked", "shards": 3, "base_rows": 2_000, "least": 100, "seed": 7, "bits": 12,
    "ignore": ["id", "kind", "spent"],
}  # fmt: skip


def bits(learner) -> bytes:
    return rounds.to_bytes(learner)


def same_as(one, other) -> bool:
    """The same model, whatever its extras tell of files."""
    return all(one._arrays()[name].tobytes() == array.tobytes() for name, array in other._arrays().items())


@pytest.fixture(scope="module")
def run(spark, files, tmp_path_factory):
    """A run of two passes without a break, and its model file."""
    place = tmp_path_factory.mktemp("whole") / "m.bayou"
    told = []
    found = face.train(str(files), model=place, passes=2, on_progress=told.append, **SMALL)
    assert found.rounds == told
    return found, place


def test_the_same_bits_as_in_one_process(run, files):
    from bayou.spark.layout import files_of, plan_layout
    from bayou.spark.tasks import held_out

    layout = plan_layout(files_of(files), None, "mixed", SMALL["seed"], SMALL["least"])
    assert layout.learned.rows + layout.held.rows == 12_000
    assert layout.held.rows == 240
    planned = rounds.plan_passes(layout.learned.rows, SMALL["shards"], SMALL["base_rows"], SMALL["least"], 2)
    assert [step.shards for step in planned] == [1, 3, 3, 3, 3]
    first = RowGroupSlices(layout.learned.cut(0, planned[0].last))
    recipe = {name: SMALL[name] for name in ("label", "bits", "ignore")}
    learner = Training(first, **recipe).run().learner
    held, losses = held_out(learner, layout.held.parts, "raise"), []
    losses.append(learner.recombine(held))
    for step in planned[1:]:
        if step.passed:
            rounds.discount(learner, 0.5)
        gains = []
        for task, parts in enumerate(layout.shards(step)):
            shard = rounds.Shard(copy.copy(learner))
            for batch in sources.open(RowGroupSlices(parts), extras=Extras.of(shard.part)):
                shard.learn(batch, step.shards / 2 if step.passed else step.shards)
            gains.append(shard.gain(task))
        rounds.apply(learner, rounds.add(gains), float(step.shards))
        losses.append(learner.recombine(held))
    found, place = run
    assert losses == found.losses
    assert same_as(learner, found.learner)
    assert len(learner.extras.names) == len(found.learner.extras.names) > 300
    assert bits(load(place)) == bits(found.learner)
    assert [(r.rows, r.shards, r.passed) for r in found.rounds] == [
        (step.last - step.first, step.shards, step.passed) for step in planned
    ]
    assert found.learner.examples == 2 * layout.learned.rows
    assert found.losses[-1] < found.losses[0]
    assert found.skipped == 0


def test_killed_workers_change_no_bit(run, files, tmp_path, monkeypatch):
    from bayou.spark import tasks

    learn, add = tasks.learn, tasks.add

    def die(place):
        """Kill the worker that comes first. Within a function, for Spark sends those as they are."""
        with contextlib.suppress(FileExistsError):
            place.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)

    def learn_or_die(held, numbers):
        for batch in numbers:
            yield from learn(held, [batch])  # it has gained something by then
            die(tmp_path / "learn")

    def add_or_die(gains):
        die(tmp_path / "add")
        return add(gains)

    monkeypatch.setattr(tasks, "learn", learn_or_die)
    monkeypatch.setattr(tasks, "add", add_or_die)
    again = face.train(str(files), passes=2, **SMALL)
    assert sorted(os.listdir(tmp_path)) == ["add", "learn"]  # both stages have lost a worker
    assert again.losses == run[0].losses
    assert bits(again.learner) == bits(run[0].learner)


def test_a_driver_that_died_goes_on_with_the_same_bits(run, files, tmp_path):
    class Died(Exception):
        pass

    def die(done):
        if done.number == dies:
            raise Died

    place = tmp_path / "m.bayou"
    for dies in (0, 2):
        with pytest.raises(Died):
            face.train(str(files), model=place, passes=2, on_progress=die, **SMALL)
        assert len(load(place).extras.rounds.losses) == dies + 1
    # One pass more may be asked for in the end.
    assert face.train(str(files), model=place, **SMALL).notes[0] == "resuming after round 2"
    last = face.train(str(files), model=place, passes=2, **SMALL)
    assert [done.number for done in last.rounds] == [4]
    assert last.losses == run[0].losses
    assert place.read_bytes() == run[1].read_bytes()
    # What is finished is told, and not trained again.
    before = place.stat().st_mtime_ns
    again = face.train(str(files), model=place, passes=2, **SMALL)
    assert again.rounds == []
    assert again.notes == [f"{place} is already finished"]
    assert place.stat().st_mtime_ns == before
    for change, words in (
        ({"seed": 8}, "begun with seed=7, and now it is 8"),
        ({"bits": 13}, "bits=13 was given"),
        ({"learner": "marginal"}, "cannot continue as marginal"),
    ):
        with pytest.raises(BadModel, match=words):
            face.train(str(files), model=place, **SMALL | change)
    with pytest.raises(BadModel, match="other data"):
        face.train([str(files / "part-0.parquet")] * 4, model=place, **SMALL)
    assert place.read_bytes() == run[1].read_bytes()


def test_a_frame_is_learned_as_its_files(spark, files, tmp_path):
    options = SMALL | {"learner": "marginal", "order": "given"}
    frame = spark.read.parquet(files.as_uri())
    place, folder = tmp_path / "m.bayou", tmp_path / "rows"
    from_frame = face.train(frame, model=place, folder=folder, **options)
    written = face.train(folder.as_uri(), **options)
    assert from_frame.losses == written.losses
    assert same_as(from_frame.learner, written.learner)
    assert from_frame.learner.examples == 12_000 - 240
    # What was written is gone on with, and nothing else is.
    assert face.train(frame, model=place, folder=folder, **options).rounds == []
    with pytest.raises(BadInput, match="not empty"):
        face.train(frame, folder=folder, **options)


def test_names_that_are_one_to_spark_get_a_sentence(spark, files, tmp_path):
    frame = spark.read.parquet(files.as_uri())
    with pytest.raises(BadInput, match="the columns 'site' and 'site' are the same name"):
        face.train(frame.select("*", "site"), folder=tmp_path / "rows", **SMALL)
    assert os.listdir(tmp_path) == []


def test_labels_that_are_all_the_same_are_warned_of(spark, files, tmp_path):
    rows = pq.read_table(files / "part-0.parquet")
    same = rows.set_column(rows.schema.get_field_index("clicked"), "clicked", pa.array([1] * len(rows)))
    for k in range(2):
        pq.write_table(same, tmp_path / f"{k}.parquet")
    options = SMALL | {"learner": "marginal", "base_rows": 5_700}  # no round is needed to see it
    sentence = "all 200 held-out rows have the same label; check label= and positive="
    assert face.train(str(tmp_path), **options).warnings == [sentence]


def test_a_frame_without_a_folder_leaves_nothing(spark, files, tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place, frame = tmp_path / "m.bayou", spark.read.parquet(files.as_uri())
    found = face.train(frame, model=place, **SMALL | {"learner": "marginal"})
    assert os.listdir(tmp_path) == ["m.bayou"]
    assert found.learner.extras.finished == []
    with pytest.raises(BadModel, match="only a run whose DataFrame was written to folder= can be"):
        face.train(frame, model=place, **SMALL | {"learner": "marginal"})


def test_bad_rows_are_left_out_and_counted(spark, files, tmp_path):
    rows = pq.read_table(files / "part-0.parquet")
    unknown = pa.array([None if k % 100 == 5 else label for k, label in enumerate(rows["clicked"].to_pylist())])
    bad = rows.set_column(rows.schema.get_field_index("clicked"), "clicked", unknown)
    for k in range(4):
        pq.write_table(bad, tmp_path / f"{k}.parquet")
    found = face.train(tmp_path, **SMALL | {"learner": "marginal"})
    assert found.skipped == 12_000 - 240 - found.learner.examples > 100
    assert found.learner.extras.counters.skipped == found.skipped
    assert found.notes[-1].startswith(f"{found.skipped} rows were not learned")
    with pytest.raises(BadInput, match="label"):
        face.train(tmp_path, **SMALL | {"learner": "marginal", "on_error": "raise"})


def test_an_interrupt_in_the_base_ends_the_run(spark, files, tmp_path, monkeypatch):
    whole = Training.run
    monkeypatch.setattr(Training, "run", lambda self: replace(whole(self), signal=signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        face.train(str(files), model=tmp_path / "m.bayou", **SMALL | {"learner": "marginal"})
    assert os.listdir(tmp_path) == []


def test_what_is_small_or_rises_is_warned_of(run):
    found = run[0]
    assert any("rows a shard, and 10,000 are needed: too little" in sentence for sentence in found.warnings)
    rises = sum(after > before for before, after in zip(found.losses, found.losses[1:], strict=False))
    assert sum("held-out loss rose from" in sentence for sentence in found.warnings) == rises


def test_what_cannot_be_learned_gets_a_sentence(spark, files, tmp_path):
    where = str(files)
    for options, words in (
        ({"label": "kind", "ignore": ["id"]}, "^the label is one of several classes, and rounds.*bayou train"),
        ({"label": "kind", "ignore": ["id"], "learner": "marginal"}, "^the label is one of several classes"),
        ({"label": "spent", "ignore": ["id"]}, "^the label is a number, and rounds are for two classes.*bayou train"),
        ({"label": "spent", "ignore": ["id"], "learner": "adagrad"}, "^the label is a number, and rounds are for two"),
        ({"task": "regression", "learner": "ftrl"}, "^the label is a number, and rounds are for two"),
        (
            {"task": "multiclass"},
            "^the label is one of several classes, and rounds are for two.*positive= or label_above=",
        ),
        ({"label": "clikced"}, "clikced"),
        ({"learner": "ftrl"}, "^ftrl cannot learn in rounds; bank, adagrad.* can.*bayou train"),
        ({"learner": "gaussian"}, "^gaussian cannot learn in rounds; bank"),
        ({"learner": "classes"}, "^classes cannot learn in rounds; bank"),
        ({"learner": "number-bank", "label": "spent"}, "^number-bank cannot learn in rounds; bank"),
        ({"least": 10_000}, "12,000 rows.*400,000.*bayou train"),
        ({"exact": True}, "number their features.*without exact="),
        ({"order": "any"}, "order"),
        ({"passes": 0}, "passes"),
        ({"folder": tmp_path}, "^folder= is where.*already files"),
        ({"bitz": 3}, "there is no option 'bitz'"),
    ):
        with pytest.raises(BadInput, match=words):
            face.train(where, **SMALL | options)
    with pytest.raises(BadInput, match=r"data must be Parquet files"):
        face.train(17, **SMALL)
    with pytest.raises(BadInput, match="without any Parquet file"):
        face.train(tmp_path, **SMALL)
    spoiled = tmp_path / "rows"
    spoiled.mkdir()
    for name in sorted(os.listdir(files))[1:]:
        (spoiled / name).write_bytes((files / name).read_bytes())
    (spoiled / "part-4.parquet").write_bytes(b"PAR1 no footer PAR1")
    with pytest.raises(BadInput, match=r"part-4\.parquet: the Parquet file cannot be read"):
        face.train(spoiled, **SMALL)
    (spoiled / "part-4.parquet").unlink()
    # Damaged pages are met by a task, in a round; its sentence is the one that is said.
    for name in os.listdir(spoiled):
        text = bytearray((spoiled / name).read_bytes())
        text[2_000:-4_000] = bytes(len(text) - 6_000)
        if name != "part-0.parquet":
            (spoiled / name).write_bytes(text)
    with pytest.raises(BadInput, match=r"part-\d\.parquet: the Parquet file cannot be read further"):
        face.train(spoiled, **SMALL | {"order": "given", "learner": "marginal"})
    place = tmp_path / "other.bayou"
    Training(str(files / "part-0.parquet"), label="clicked", bits=12, model=place).run()
    with pytest.raises(BadModel, match="not made in rounds"):
        face.train(where, model=place, label="clicked", bits=12)


def test_the_sentence_names_the_learners_that_can():
    from bayou.core.registry import own_records
    from bayou.core.sharding import ShardingLearner

    able = {record.name for record in own_records() if issubclass(record.load(), ShardingLearner)}
    assert set(rounds.shardable_learners().replace(" and ", ", ").split(", ")) == able


def test_a_frame_that_lacks_a_column_is_refused_before_it_is_written(spark, files, tmp_path):
    options = SMALL | {"learner": "marginal", "order": "given"}
    frame = spark.read.parquet(files.as_uri())
    place, folder = tmp_path / "m.bayou", tmp_path / "rows"
    face.train(frame, model=place, folder=folder, **options)
    for name, where in (("site", folder), ("clicked", tmp_path / "new")):
        with pytest.raises(BadInput, match=f"^the table: there is no column '{name}' .*, which the recipe needs"):
            face.train(frame.drop(name), model=place, folder=where, **options)
    assert not (tmp_path / "new").exists()
    assert face.train(frame.drop("id"), model=place, folder=folder, **options).rounds == []
