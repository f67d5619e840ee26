"""Learning in rounds with other processes: the same model every time, nearly the one of one process, nothing lost."""

import gzip
import os
import signal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou import BadInput, rounds
from bayou.rounds import processes
from bayou.sources.reading import blocks

pytestmark = pytest.mark.long  # every test starts processes that load all of bayou
ROWS = 24_000


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """A table with names, numbers, and three bad lines."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    site, ad, size = rng.integers(0, 40, ROWS), rng.integers(0, 300, ROWS), rng.normal(size=ROWS)
    weights, sizes = rng.normal(size=40), rng.normal(size=300)
    clicked = rng.random(ROWS) < 1 / (1 + np.exp(-(weights[site] + sizes[ad] + size)))
    lines = [f"s{s},a{a},{x:.3f},{y:d}" for s, a, x, y in zip(site, ad, size, clicked, strict=True)]
    lines[1_000] = "broken"
    lines[9_000] = lines[9_001] = "s1,a1,0.5"
    path.write_text("\n".join(["site,ad,size,clicked", *lines]) + "\n")
    return path


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """What is decided by numbers of rows, for few of them; all of it is decided in this process."""
    monkeypatch.setattr(processes, "MIN_PROCESS_ROWS", 5_000)
    monkeypatch.setattr(processes.rounds, "shard_count", partial(rounds.shard_count, least=500))
    monkeypatch.setattr(processes, "BASE_FRACTION_MIN_MAX", rounds.Amount(0.01, 1_500, 2_000))
    monkeypatch.setattr(processes.rounds, "HOLDOUT_FRACTION_MIN_MAX", rounds.Amount(0.02, 2_400, 3_000))
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 13)


def train(path, **options):
    return bayou.train(path, label="clicked", bits=12, **options)


def test_two_processes_learn_nearly_what_one_does_and_the_same_every_time(clicks, tmp_path, monkeypatch):
    said, begun, begin = [], [], processes.own_python
    monkeypatch.setattr(processes, "own_python", lambda *code, **more: begun.append(1) or begin(*code, **more))
    run = train(clicks, processes=2, model=tmp_path / "two", on_note=lambda note: said.append(note.text))
    again = train(clicks, processes=2, model=tmp_path / "again")
    one = train(clicks)
    assert (tmp_path / "two").read_bytes() == (tmp_path / "again").read_bytes()
    assert run.evaluation.log_loss == again.evaluation.log_loss
    assert any("rows in 2 processes" in text for text in said)
    assert len(begun) == 2  # one in each run: this process learns a shard, too
    assert any(f"of the last {run.evaluation.examples:,} rows" in text for text in said)
    # every row was learned once, and bad lines are told by their places
    assert run.learner.examples == one.learner.examples == ROWS - 3
    assert run.skipped == one.skipped == 3
    assert sorted(run.bad_lines) == sorted(one.bad_lines)
    assert sum(count for count, _ in run.error_counts) == 3
    assert 2_000 <= run.evaluation.examples <= 3_000
    # names met by others are known here
    mine, theirs = run.learner.extras.names, one.learner.extras.names
    assert mine.name_of(np.arange(1 << 12)) == theirs.name_of(np.arange(1 << 12))
    test = list(bayou.sources.open(str(clicks), extras=one.learner.extras, on_error="skip"))
    losses = []
    for learner in (run.learner, one.learner):
        p = np.concatenate([learner.predict(batch, horizon="later").probability for batch in test])
        labels = np.concatenate([batch.labels for batch in test]) > 0
        losses.append(-np.log(np.where(labels, p, 1 - p)).mean())
    assert losses[0] < 1.01 * losses[1]


@pytest.mark.parametrize("kind", ["compressed", "without a last newline"])
def test_every_row_of_any_file_is_learned(clicks, tmp_path, kind):
    text = clicks.read_bytes()
    path = tmp_path / ("clicks.csv.gz" if kind == "compressed" else "clicks.csv")
    path.write_bytes(gzip.compress(text) if kind == "compressed" else text.rstrip(b"\n"))
    run = train(path, processes=2)
    assert run.learner.examples == ROWS - 3
    assert run.skipped == 3
    assert run.evaluation.log_loss < 0.65


@pytest.mark.parametrize("learner", ["bank", "marginal"])
@pytest.mark.parametrize("size", [1 << 15, 1 << 16, 1 << 17])
def test_rows_are_held_out_however_long_blocks_are(clicks, monkeypatch, learner, size):
    monkeypatch.setattr(blocks, "FIRST_BYTES", 1 << 13)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
    run = train(clicks, processes=2, learner=learner, passes=1 + (size == 1 << 16))
    assert 2_200 < run.evaluation.examples < 2_600
    assert run.evaluation.log_loss < 0.65
    further = (ROWS - 3 - run.evaluation.examples) * (run.passes - 1)
    assert run.learner.examples == ROWS - 3 + further


def test_further_passes_and_going_on(clicks, tmp_path):
    two = train(clicks, processes=2, passes=2, model=tmp_path / "two")
    assert two.passes == 2
    assert two.learner.examples > 1.8 * ROWS
    run = bayou.train(clicks, resume=tmp_path / "two", processes=2)
    assert run.learner.examples > two.learner.examples + 0.99 * ROWS
    assert run.evaluation.log_loss < 0.65


def test_any_learner_whose_parts_add_up(clicks):
    run = train(clicks, processes=2, learner="marginal")
    assert run.learner.examples == ROWS - 3
    assert run.evaluation.log_loss < 0.65
    with pytest.raises(bayou.BadModel, match="ftrl cannot learn in shards"):
        train(clicks, processes=2, learner="ftrl")


def test_too_few_rows_and_what_is_no_text_are_learned_by_one(clicks, monkeypatch):
    monkeypatch.setattr(processes, "MIN_PROCESS_ROWS", 10**6)
    run = train(clicks, processes=2)
    assert any("one process learns alone: of about 2" in note for note in run.notes)
    assert run.evaluation.examples == ROWS - 3
    table = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    run = train(table, processes=2)
    assert any("one process learns alone: other processes take blocks of text" in note for note in run.notes)


def test_a_bad_line_ends_it_where_that_was_asked_for(clicks, tmp_path):
    later = tmp_path / "clicks.csv"
    later.write_text(clicks.read_text().replace("broken\n", "s1,a1,0.5,1\n"))
    with pytest.raises(BadInput, match=r"clicks.csv:9002:.* expected 4 cells, found 3"):
        train(later, processes=2, on_error="raise")


@pytest.mark.parametrize("name", ["holdout", "delay", "checkpoint", "report"])
def test_what_follows_rows_in_order_is_refused(clicks, tmp_path, name):
    value = {"holdout": 0.1, "delay": 3, "checkpoint": 100, "report": tmp_path / "r.html"}[name]
    with pytest.raises(BadInput, match=f"{name}= follows rows"):
        train(clicks, processes=2, model=tmp_path / "m", **{name: value})


def test_an_interrupted_run_keeps_what_was_learned(clicks, tmp_path):
    blocks_seen = []

    def interrupt(progress):
        blocks_seen.append(progress.bytes_done)
        if len(blocks_seen) == 20:
            os.kill(os.getpid(), signal.SIGINT)

    run = train(clicks, processes=2, model=tmp_path / "m", on_progress=interrupt)
    assert run.signal == signal.SIGINT
    assert 1_000 < run.learner.examples < ROWS - 3_000
    assert run.evaluation.examples >= 2_400
    assert bayou.load(tmp_path / "m").examples == run.learner.examples
    rest = train(clicks, processes=2, resume=tmp_path / "m")
    assert rest.learner.examples == ROWS - 3
    assert any("one process learns alone: the rest of an interrupted run" in note for note in rest.notes)


def test_a_worker_that_dies_is_told_of(clicks, monkeypatch):
    born = processes.own_python

    def short_lived(*arguments, **options):
        return born("import sys, os; sys.stdin.buffer.read(100); os._exit(9)", **options)

    monkeypatch.setattr(processes, "own_python", short_lived)
    with pytest.raises(BadInput, match=r"exited with code 9; use fewer processes="):
        train(clicks, processes=2)
