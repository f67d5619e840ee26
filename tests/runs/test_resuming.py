"""Resuming: a run goes on in the file that it was interrupted in, and in no other; what was learned before is said."""

import json
import os
import signal

import numpy as np
import pytest
from safetensors import safe_open

import bayou
from bayou.core import model_file
from bayou.core.file_fingerprints import FileFingerprint

OPTIONS = {"learner": "marginal", "bits": 8}
WORD = "going on after"


def lines(n, seed=0):
    rng = np.random.default_rng(seed)
    return "".join(f"{rng.choice([1, -1])} {k}:1 {50 + k}:1\n" for k in rng.integers(0, 50, n))


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A file and a model whose run was interrupted in it, after about half of it."""
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4000)
    path, model = tmp_path / "x.svm", tmp_path / "m.bayou"
    path.write_text(lines(12_000))
    assert path.stat().st_size > 2 * (1 << 16)

    def stop(progress):
        if progress.meter.examples > 5000:
            os.kill(os.getpid(), signal.SIGINT)

    run = bayou.train(path, **OPTIONS, model=model, on_progress=stop)
    assert run.signal == signal.SIGINT
    assert 5000 < run.learner.examples < 7000
    return path, model


def test_the_same_file_is_gone_on_with(interrupted):
    path, model = interrupted
    run = bayou.train(path, resume=model, model=model)
    assert run.learner.examples == 12_000
    (said,) = [note for note in run.notes if WORD in note]
    assert "since" not in said
    assert run.learner.extras.unfinished is None
    assert [mark.path for mark in run.learner.extras.finished] == [str(path)]


def test_a_file_that_has_grown_is_gone_on_with(interrupted):
    path, model = interrupted
    with open(path, "a") as file:
        file.write(lines(100, seed=1))
    run = bayou.train(path, resume=model)
    assert run.learner.examples == 12_100
    assert any(WORD in note and "has grown since, but its earlier content is unchanged" in note for note in run.notes)


def test_files_that_came_behind_are_learned_too(interrupted):
    path, model = interrupted
    more = path.with_name("y.svm")
    more.write_text(lines(100, seed=1))
    assert bayou.train([path, more], resume=model).learner.examples == 12_100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: lines(12_000, seed=2), "its content has changed"),  # replaced
        (lambda text: text[:-8] + "1 9:1 9\n", "its content has changed"),  # by one of the same size and beginning
        (lambda text: "1 3:1\n" + text, "its content has changed"),
        (lambda text: text[:100_000], r"it has 100,000 bytes and had \d"),
        (lambda text: "", "it has 0 bytes and had"),
    ],
)
def test_a_file_that_was_replaced_is_refused(interrupted, change, said):
    path, model = interrupted
    path.write_text(change(path.read_text()))
    before = model.read_bytes()
    with pytest.raises(bayou.BadModel, match=rf"^{path} is no longer the file .* in: {said}.* another name"):
        bayou.train(path, resume=model, model=model)
    assert model.read_bytes() == before


def test_what_the_sentence_advises_works(interrupted):
    path, model = interrupted
    learned = bayou.load(model).examples
    path.write_text(lines(100, seed=2))
    os.link(path, path.with_name("new.svm"))
    run = bayou.train(path.with_name("new.svm"), resume=model)
    assert run.learner.examples == learned + 100
    assert any("is not continued: these are other data" in note for note in run.notes)


def test_a_glob_means_its_files(interrupted):
    path, model = interrupted
    (path.parent / "a.svm").write_text(lines(100, seed=1))  # before x.svm: not the files of the run any more
    run = bayou.train(str(path.parent / "*.svm"), resume=model)
    assert not any(WORD in note for note in run.notes)
    assert run.evaluation.examples == 12_100


def test_a_finished_run_is_not_taken_up_and_learning_the_same_again_is_said(tmp_path):
    path, other = tmp_path / "x.svm", tmp_path / "y.svm"
    path.write_text(lines(200))
    other.write_text(lines(200, seed=1))
    first = bayou.train(path, **OPTIONS)
    again = bayou.train(path, resume=first.learner)
    assert again.learner.examples == 400
    assert f"this model has already learned all of {path}; learning it again" in again.notes
    assert not any("already" in note for note in bayou.train(other, resume=first.learner).notes)
    assert not any("already" in note for note in bayou.train(path, like=first.learner).notes)
    assert bayou.train(other, like=first.learner).learner.extras.finished == [FileFingerprint.of(str(other))]
    path.rename(tmp_path / "z.svm")
    assert any("learned all of" in note for note in bayou.train(tmp_path / "z.svm", resume=first.learner).notes)
    path.write_text(lines(200) + lines(10, seed=3))
    grown = bayou.train(path, resume=first.learner)
    assert any(f"already learned the beginning of {path}, which has grown" in note for note in grown.notes)
    merged = first.learner.merge(bayou.train(other, like=first.learner).learner)
    assert [mark.path for mark in merged.extras.finished] == [str(path), str(other)]


def header_of(model):
    with safe_open(model, "numpy") as file:
        return file.metadata()["header"]


@pytest.mark.parametrize("finished", [False, True])
def test_a_model_file_does_not_tell_where_it_was_trained(interrupted, finished):
    path, model = interrupted
    if finished:
        bayou.train(path, resume=model, model=model)
    attached = json.loads(header_of(model))["attached"]
    (file,) = attached["finished"] if finished else attached["unfinished"]["files"]
    assert file.keys() == {"path", "size", "begin", "end"}
    assert file["path"] == "x.svm"
    assert str(path.parent) not in header_of(model)
    assert path.parent.name not in header_of(model)


def with_paths(model, folder):
    """Have a model file say what earlier versions said: whole paths, and times."""
    header, arrays = model_file.read(model)
    attached = header["attached"]
    marks = [*attached.get("finished", []), *attached.get("unfinished", {}).get("files", [])]
    for mark in marks:
        mark |= {"path": folder + mark["path"], "time": 1_700_000_000_000_000_000}
    if "unfinished" in attached:
        attached["unfinished"]["data"] = [folder + name for name in attached["unfinished"]["data"]]
    model_file.write(model, header, arrays)
    assert marks


@pytest.mark.parametrize("folder", ["/home/somebody/data/", "C:\\Users\\somebody\\", ""])
def test_a_file_with_paths_is_gone_on_with_and_loses_them(interrupted, folder):
    path, model = interrupted
    with_paths(model, folder)
    again = bayou.load(model)
    again.save(model)
    assert "somebody" not in header_of(model)
    run = bayou.train(path, resume=again, model=model)
    assert run.learner.examples == 12_000
    assert any(WORD in note for note in run.notes)
    with_paths(model, folder)
    again = bayou.load(model)
    assert any("learned all of" in note for note in bayou.train(path, resume=again).notes)
    again.save(model)
    assert "somebody" not in header_of(model)
    assert [mark.path for mark in bayou.load(model).extras.finished] == ["x.svm"]


def test_a_file_that_was_moved_is_gone_on_with(interrupted):
    path, model = interrupted
    (path.parent / "elsewhere").mkdir()
    path = path.rename(path.parent / "elsewhere" / path.name)
    assert bayou.train(path, resume=model).learner.examples == 12_000


def test_a_file_that_was_learned_twice_is_kept_once(tmp_path):
    path, model = tmp_path / "x.svm", tmp_path / "m.bayou"
    path.write_text(lines(200))
    bayou.train(path, **OPTIONS, model=model)
    run = bayou.train(path, resume=model, model=model)
    assert len(run.learner.extras.finished) == len(bayou.load(model).extras.finished) == 1


@pytest.mark.parametrize(
    "plain",
    [3, {}, {"path": 3}, {"path": "/a", "size": "x"}, {"path": "/a", "begin": 7}, []],
)
def test_marks_that_say_nothing_are_refused(plain):
    with pytest.raises(bayou.BadModel):
        FileFingerprint.from_json(plain)
