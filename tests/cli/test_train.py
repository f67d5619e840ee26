"""`bayou train`: the command as people run it."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.core.file_fingerprints import FileFingerprint
from bayou.learners import Bank, Marginal
from bayou.runs.train import Training


def run(*arguments, code: int = 0):
    said = CliRunner().invoke(app, ["train", *map(str, arguments)])
    assert said.exit_code == code, said.output
    return said


def results(*arguments) -> dict:
    return json.loads(run(*arguments, "--json", "--quiet").stdout)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """3,000 examples of 50 features as svmlight text."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=50)
    lines = []
    for _ in range(3000):
        features = np.sort(rng.choice(50, 6, replace=False))
        positive = rng.random() < 1 / (1 + np.exp(-weights[features].sum()))
        lines.append(("1" if positive else "-1") + "".join(f" {k}:1" for k in features))
    path = tmp_path_factory.mktemp("data") / "x.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


def same(one, other, but=()) -> bool:
    """To the last bit."""
    mine, theirs = (bayou.load(path)._arrays() for path in (one, other))
    return all(mine[name].tobytes() == theirs[name].tobytes() for name in mine if name not in but)


def test_it_learns_and_says_how_well(data, tmp_path) -> None:
    said = run(data, "--bits", "8", "--model", tmp_path / "m.bayou")
    assert "log loss" in said.stdout
    assert "256 weights" in said.stderr
    assert "examples/s" in said.stderr
    assert f"the model is in {tmp_path / 'm.bayou'}" in said.stderr
    learner = bayou.load(tmp_path / "m.bayou")
    assert learner.examples == 3000
    assert learner.extras.recipe.kind == "svmlight"
    assert learner.extras.counters.examples == 3000


def test_json_has_what_was_promised(data) -> None:
    found = results(data, "--bits", "8")
    promised = "examples nonzeros skipped log_loss auc accuracy brier calibration_error seconds"
    assert set(promised.split()) <= set(found)
    assert (found["examples"], found["nonzeros"], found["skipped"]) == (3000, 18000, 0)
    assert found["log_loss"] < 0.6 < found["auc"]
    assert found["seconds"] > 0


def test_the_model_is_what_python_would_have_learned(data, tmp_path) -> None:
    from sklearn.datasets import load_svmlight_file

    run(data, "--bits", "8", "--set", "preset=wide", "--model", tmp_path / "m.bayou")
    X, y = load_svmlight_file(str(data), n_features=256, zero_based=True)
    learner = Bank(256, preset="wide")
    learner.learn(bayou.Batch.from_csr(X, y))
    assert np.array_equal(bayou.load(tmp_path / "m.bayou").mean, learner.mean)


def test_two_halves_are_the_whole(data, tmp_path) -> None:
    lines = data.read_text().splitlines(keepends=True)
    (tmp_path / "1.svm").write_text("".join(lines[:1234]))
    (tmp_path / "2.svm").write_text("".join(lines[1234:]))
    run(tmp_path / "?.svm", "--bits", "8", "--model", tmp_path / "glob.bayou")
    run(tmp_path / "1.svm", "--bits", "8", "--model", tmp_path / "half.bayou")
    run(tmp_path / "2.svm", "--resume", tmp_path / "half.bayou", "--model", tmp_path / "both.bayou")
    run(data, "--bits", "8", "--model", tmp_path / "whole.bayou")
    looked_ahead = Bank(8)._by_rows_at_hand  # to the end of a file, and no farther
    assert same(tmp_path / "whole.bayou", tmp_path / "both.bayou", looked_ahead)
    assert same(tmp_path / "whole.bayou", tmp_path / "glob.bayou")
    assert not same(tmp_path / "whole.bayou", tmp_path / "half.bayou")
    assert bayou.load(tmp_path / "both.bayou").extras.counters.examples == 3000


def test_a_setting_of_the_learner_is_kept_by_a_resumed_model(data, tmp_path) -> None:
    lines = data.read_text().splitlines(keepends=True)
    (tmp_path / "1.svm").write_text("".join(lines[:1234]))
    (tmp_path / "2.svm").write_text("".join(lines[1234:]))
    how = "--bits", "8", "--learner", "marginal", "--set", "scale=learned"
    run(tmp_path / "1.svm", *how, "--model", tmp_path / "half.bayou")
    run(tmp_path / "2.svm", "--resume", tmp_path / "half.bayou", "--model", tmp_path / "both.bayou")
    run(data, *how, "--model", tmp_path / "whole.bayou")
    assert bayou.load(tmp_path / "both.bayou").parameters["scale"] == "learned"
    assert "scale" in bayou.load(tmp_path / "both.bayou")._arrays()
    assert same(tmp_path / "whole.bayou", tmp_path / "both.bayou")


def test_like_takes_the_recipe_and_the_learner_but_no_weights(data, tmp_path) -> None:
    run(data, "--bits", "8", "--set", "combine=share", "--model", tmp_path / "a.bayou")
    run(data, "--like", tmp_path / "a.bayou", "--model", tmp_path / "b.bayou")
    assert same(tmp_path / "a.bayou", tmp_path / "b.bayou")
    assert bayou.load(tmp_path / "b.bayou").parameters["combine"] == "share"


def test_passes_and_holdout(data) -> None:
    once, thrice = results(data, "--holdout", "0.1"), results(data, "--holdout", "0.1", "--passes", "3")
    assert once["examples"] == thrice["examples"] == 2700
    assert once["holdout"]["examples"] == thrice["holdout"]["examples"] == 300
    assert once["nonzeros"] == 2700 * 6
    assert thrice["passes"] == 3
    assert thrice["holdout"]["log_loss"] != once["holdout"]["log_loss"]
    assert thrice["log_loss"] == once["log_loss"]  # of predictions made before an example was ever learned from


def test_standard_input_and_compression(data, tmp_path) -> None:
    run(data, "--bits", "8", "--model", tmp_path / "a.bayou")
    (tmp_path / "x.gz").write_bytes(gzip.compress(data.read_bytes()))
    run(tmp_path / "x.gz", "--bits", "8", "--model", tmp_path / "b.bayou")
    command = [sys.executable, "-m", "bayou", "train", "-", "--bits", "8", "--model", str(tmp_path / "c.bayou")]
    subprocess.run(command, input=data.read_bytes(), check=True, capture_output=True)
    assert same(tmp_path / "a.bayou", tmp_path / "b.bayou")
    assert same(tmp_path / "a.bayou", tmp_path / "c.bayou")
    twice = subprocess.run([*command, "--passes", "2"], input=data.read_bytes(), capture_output=True, text=False)
    assert twice.returncode == 2
    assert b"--passes needs data that can be read more than once" in twice.stderr


def test_bad_lines_are_skipped_counted_and_shown(data, tmp_path) -> None:
    lines = data.read_text().splitlines()
    (tmp_path / "x.svm").write_text("\n".join([lines[0], "1 2:oops", *lines[1:], "hello"]) + "\n")
    said = run(tmp_path / "x.svm", "--bits", "8", "--model", tmp_path / "a.bayou")
    assert "x.svm:2:5: expected a number after ':'" in said.stderr
    assert "2 bad lines were skipped" in said.stderr
    run(data, "--bits", "8", "--model", tmp_path / "b.bayou")
    assert same(tmp_path / "a.bayou", tmp_path / "b.bayou")
    said = run(tmp_path / "x.svm", "--on-error", "raise", "--model", tmp_path / "c.bayou", code=1)
    assert "x.svm:2:5:" in said.stderr
    assert not (tmp_path / "c.bayou").exists()


def test_rows_the_learner_refuses_are_skipped_alone(tmp_path) -> None:
    good = ["1 1:1", "-1 2:1", "1 3:1"]
    (tmp_path / "a.svm").write_text("\n".join([*good[:2], "1 1:9e11", good[2]]))
    (tmp_path / "b.svm").write_text("\n".join(good))
    wide = ["--bits", "4", "--learner", "marginal", "--set", "prior_variance=1e8"]
    said = run(tmp_path / "a.svm", *wide, "--model", tmp_path / "a.bayou")
    run(tmp_path / "b.svm", *wide, "--model", tmp_path / "b.bayou")
    assert same(tmp_path / "a.bayou", tmp_path / "b.bayou")
    assert "line 3: " in said.stderr
    assert "too large" in said.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--learner", "nosuch"], 2, "marginal"),
        (["--set", "prior=1"], 2, "preset"),
        (["--set", "preset"], 2, "name=value"),
        (["--set", "preset=fat"], 2, "preset"),
        (["--set", "dtype=foo"], 2, "float32"),
        (["--checkpoint", "soon", "--model", "x.bayou"], 2, "10min"),
        (["--checkpoint", "5"], 2, "--model"),
        (["--cross", "a"], 2, "user,ad"),
        (["--label", "y"], 2, "no columns"),
        (["--on-error", "maybe"], 2, "skip"),
        (["--format", "xml"], 2, "svmlight"),
        (["--model", "nosuch/m.bayou"], 2, "no folder"),
        (["--resume", "nosuch.bayou"], 1, "no such model"),
        (["--positive", "1", "--label-above", "2"], 2, "cannot be combined"),
    ],
)
def test_wrong_usage_gets_a_sentence(data, arguments, code, sentence) -> None:
    said = run(data, *arguments, code=code)
    assert sentence in said.stderr
    assert "Traceback" not in said.stderr


def test_no_data() -> None:
    assert "no such file" in run("nosuch.svm", code=2).stderr


def test_nothing_but_garbage_is_an_error(tmp_path) -> None:
    (tmp_path / "x.svm").write_text("this is\nnot data\n")
    said = run(tmp_path / "x.svm", "--model", tmp_path / "m.bayou", code=1)
    assert "none of the 2 lines" in said.stderr
    assert not (tmp_path / "m.bayou").exists()


def test_a_resumed_model_keeps_its_recipe(data, tmp_path) -> None:
    run(data, "--bits", "8", "--model", tmp_path / "m.bayou")
    for wrong, word in ((["--bits", "9"], "bits"), (["--learner", "adagrad"], "adagrad")):
        assert word in run(data, "--resume", tmp_path / "m.bayou", *wrong, code=1).stderr
    run(data, "--resume", tmp_path / "m.bayou", "--bits", "8", "--learner", "bank")


def test_a_model_saved_from_python_can_go_on(data, tmp_path) -> None:
    learner = Marginal(50)
    learner.learn(bayou.Batch.from_rows([{1: 1.0}, {2: 1.0}], labels=[1, 0]))  # negatives as 0
    learner.save(tmp_path / "python.bayou")
    run(data, "--resume", tmp_path / "python.bayou", "--model", tmp_path / "m.bayou")
    assert bayou.load(tmp_path / "m.bayou").examples == 3002


def test_too_many_weights_are_refused_before_they_are_taken(data, monkeypatch) -> None:
    monkeypatch.setattr("bayou.runs.memory.free_memory", lambda: 10**9)
    said = run(data, "--bits", "31", code=2)
    assert "262 GB" in said.stderr
    assert "smaller --bits" in said.stderr


def test_checkpoints(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4000)
    said = run(data, "--bits", "8", "--model", tmp_path / "m.bayou", "--checkpoint", "1000")
    assert said.stderr.count("checkpoint after") >= 2
    assert bayou.load(tmp_path / "m.bayou").extras.unfinished is None


def test_checkpoints_by_time(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4000)
    said = run(data, "--bits", "8", "--model", tmp_path / "m.bayou", "--checkpoint", "0.00001s")
    assert said.stderr.count("checkpoint after") >= 2
    assert (
        "checkpoint after" not in run(data, "--bits", "8", "--model", tmp_path / "m.bayou", "--checkpoint", "1h").stderr
    )


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_training_is_kept_and_goes_on_exactly(data, tmp_path, kind) -> None:
    """A slow pipe, interrupted half way; then the same data once more, from where it stopped."""
    text = data.read_bytes()
    fifo, model = tmp_path / "x.svm", tmp_path / "m.bayou"
    os.mkfifo(fifo)
    bad = b"1 this is no example\n"
    text = bad + text
    command = [
        sys.executable,
        "-m",
        "bayou",
        "train",
        str(fifo),
        "--task",
        "binary",
        "--bits",
        "8",
        "--model",
        str(model),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    with open(fifo, "wb", buffering=0) as pipe:
        pipe.write(text[: len(text) // 2])
        shown = b""
        while b"\n         1," not in shown and b"\n         " not in shown:  # a row of the running table
            shown += os.read(process.stderr.fileno(), 1 << 16)
        time.sleep(0.2)
        process.send_signal(kind)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 128 + kind
    assert b"interrupted: what was learned so far was kept" in rest
    half = bayou.load(model)
    assert 1000 < half.examples < 3000
    fifo.unlink()
    fifo.write_bytes(text)
    said = run(fifo, "--resume", model, "--model", model)
    assert f"going on after {half.examples:,} examples" in said.stderr
    run(data, "--bits", "8", "--model", tmp_path / "whole.bayou")
    assert same(model, tmp_path / "whole.bayou")


def interrupted(data, model, batches: int, *more, monkeypatch) -> None:
    """A run that is sent a signal after some batches."""
    learn, count = Training._learn, 0

    def and_then_stop(self, *arguments):
        nonlocal count
        learn(self, *arguments)
        count += 1
        if count == batches:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "_learn", and_then_stop)
        run(data, "--bits", "8", "--model", model, *more, code=130)


@pytest.mark.parametrize(
    ("batches", "holdout"), [(1, "0.1"), (4, "random:0.1"), (7, "0.1"), (10, "random:0.1"), (10, "0.1"), (14, "0.1")]
)
def test_interrupted_anywhere_goes_on_exactly(data, tmp_path, monkeypatch, batches, holdout) -> None:
    """Also in a later pass, with examples held out and bad lines: weights and counters are those of one run."""
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 10_000)
    monkeypatch.setattr("bayou.runs.batching.LEARN_CHUNK_ROWS", 256)
    lines = data.read_text().splitlines()
    (tmp_path / "x.svm").write_text("\n".join(["hello", *lines[:2000], "1 1:x", *lines[2000:]]))
    options = ["--passes", "2", "--holdout", holdout, "--json"]
    straight = run(tmp_path / "x.svm", "--bits", "8", "--model", tmp_path / "whole.bayou", *options)
    interrupted(tmp_path / "x.svm", tmp_path / "m.bayou", batches, *options, monkeypatch=monkeypatch)
    assert not same(tmp_path / "m.bayou", tmp_path / "whole.bayou")
    # what was asked for at first is remembered
    told = run(tmp_path / "x.svm", "--resume", tmp_path / "m.bayou", "--holdout", "0.2", code=1).stderr
    assert f"had {holdout}." in told
    again = run(tmp_path / "x.svm", "--resume", tmp_path / "m.bayou", "--model", tmp_path / "m.bayou", "--json")
    assert json.loads(again.stdout)["holdout"]["examples"] == json.loads(straight.stdout)["holdout"]["examples"] > 290
    assert same(tmp_path / "m.bayou", tmp_path / "whole.bayou")
    one, two = (bayou.load(tmp_path / f"{name}.bayou").extras.counters.to_json() for name in ("m", "whole"))
    assert one.pop("runs") == 2
    assert two.pop("runs") == 1
    assert one == pytest.approx(two)
    assert two["skipped"] == 2


def test_what_was_learned_before_an_error_is_kept(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4000)
    monkeypatch.setattr("bayou.runs.batching.LEARN_CHUNK_ROWS", 256)
    (tmp_path / "x.svm").write_text(data.read_text() + "hello\n")
    said = run(tmp_path / "x.svm", "--bits", "8", "--on-error", "raise", "--model", tmp_path / "m.bayou", code=1)
    assert "what was learned before that is in" in said.stderr
    learner = bayou.load(tmp_path / "m.bayou")
    assert 2000 < learner.examples < 3000
    assert learner.extras.unfinished.rows == learner.examples


def test_a_broken_archive_is_an_error_and_what_it_held_is_kept(data, tmp_path) -> None:
    packed = gzip.compress(data.read_bytes())
    path = tmp_path / "x.svm.gz"
    path.write_bytes(packed[: len(packed) // 2])
    options = ["--bits", "8", "--model", tmp_path / "m.bayou"]
    said = run(path, *options, "--on-error", "skip", code=1)
    assert "what was learned before that is in" in said.stderr
    assert f"{path}: the compressed data end too early; the file is incomplete, after line" in said.stderr
    assert "bad line" not in said.stderr
    assert bayou.load(tmp_path / "m.bayou").examples > 500
    path.write_bytes(packed)  # fetched again
    run(path, "--resume", tmp_path / "m.bayou", "--model", tmp_path / "m.bayou")
    run(data, "--bits", "8", "--model", tmp_path / "whole.bayou")
    assert same(tmp_path / "m.bayou", tmp_path / "whole.bayou")


def test_other_data_from_a_pipe_of_the_same_name_are_not_skipped(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4000)
    interrupted(data, tmp_path / "m.bayou", 1, monkeypatch=monkeypatch)
    learner = bayou.load(tmp_path / "m.bayou")
    learner.extras.unfinished = replace(learner.extras.unfinished, files=[FileFingerprint("-")])
    learner.save(tmp_path / "m.bayou")
    command = [sys.executable, "-m", "bayou", "train", "-", "--resume", str(tmp_path / "m.bayou"), "--json", "--quiet"]
    done = subprocess.run(command, input=data.read_bytes(), capture_output=True, check=True)
    assert json.loads(done.stdout)["examples"] == 3000


def test_weights_count_in_what_is_shown(tmp_path) -> None:
    lines = [f"{(-1) ** k} {1 + 9 * (k % 2)} | x{k % 7}" for k in range(5000)]
    (tmp_path / "x.vw").write_text("\n".join(lines))
    said = run(tmp_path / "x.vw", "--bits", "8", "--holdout", "0.1")
    since = [float(line.split()[2]) for line in said.stderr.splitlines() if line.strip()[:1].isdigit()]
    assert since
    assert all(0 < loss < 2 for loss in since)


def test_labels_that_say_nothing_are_not_just_bad_lines(tmp_path) -> None:
    (tmp_path / "x.svm").write_text("".join(f"{k % 7 + 1} {k}:1\n" for k in range(100)))
    said = run(tmp_path / "x.svm", "--task", "binary", code=1)
    assert "too many labels are unusable" in said.stderr
    assert "--positive" in said.stderr
    assert results(tmp_path / "x.svm", "--positive", "2")["examples"] == 100
    assert "all labels were the same" in run(tmp_path / "x.svm", "--positive", "8").stderr


def test_where_no_model_can_be_written_is_said_at_once(data, tmp_path) -> None:
    assert "is a folder" in run(data, "--model", tmp_path, code=2).stderr


def test_a_full_standard_output_gets_a_sentence(data) -> None:
    command = f"{sys.executable} -m bayou train {data} --quiet > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 1
    assert "standard output could not be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_leaves_the_old_model_whole(data, tmp_path) -> None:
    run(data, "--bits", "8", "--model", tmp_path / "m.bayou")
    before = (tmp_path / "m.bayou").read_bytes()
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "from bayou.cli import main; main()"
    )
    command = [sys.executable, "-c", limited, "train", str(data), "--bits", "8", "--model", str(tmp_path / "m.bayou")]
    said = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_CACHING": "0"})
    assert said.returncode == 1, said.stderr
    assert "could not be written" in said.stderr
    assert "Traceback" not in said.stderr
    assert (tmp_path / "m.bayou").read_bytes() == before
    assert os.listdir(tmp_path) == ["m.bayou"]


def test_pipes_that_end_early(tmp_path) -> None:
    """yes | head | bayou: the writer is stopped in the middle, and the reader gets what there was."""
    command = f"yes '1 1:1 3:0.5' | head -n 50000 | {sys.executable} -m bayou train - --quiet --json"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["examples"] == 50_000


def test_a_learner_of_many_passes_shows_its_certificate_fall_and_stops_when_it_is_there(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 12))
    y = X[:, :3] @ [1.0, -1.0, 0.5] + rng.logistic(size=2000) > 0
    rows = (" ".join(f"{j}:{x:.5f}" for j, x in enumerate(row)) for row in X)
    (tmp_path / "x.svm").write_text("".join(f"{int(label)} {row}\n" for label, row in zip(y, rows, strict=True)))
    command = ("--learner", "lasso", "--set", "algorithm=reduced", "--set", "penalty=10", "--passes", "30")
    said = run(tmp_path / "x.svm", "--bits", "5", "--model", tmp_path / "m.bayou", *command)
    falling = [float(part) for part in re.findall(r"KKT violation (\S+) of the penalty", said.stderr)]
    assert 3 < len(falling) < 30
    assert falling[-1] < 1e-6 < falling[0]
    assert said.stderr.count("converged") == 1
    learner = bayou.load(tmp_path / "m.bayou")
    assert 3 <= learner.active_size < 12
    assert learner.kkt_violation < 1e-5
    assert results(tmp_path / "x.svm", "--bits", "5", *command)["converged"] is True
