"""Held-out rows: which they are in every kind of data, how many are kept, and who predicts them."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from typer.testing import CliRunner

import bayou
from bayou import Batch
from bayou.cli import app
from bayou.runs import holdout
from bayou.runs.holdout import HoldoutRows, HoldoutSpec

OPTIONS = {"label": "y", "bits": 8, "learner": "marginal"}


def table(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    site = rng.choice(list("abcd"), rows)
    y = rng.random(rows) < 0.2 + 0.4 * (site == "a")
    return pd.DataFrame({"site": site, "n": rng.integers(0, 9, rows), "y": y.astype(int)})


def frozen_loss(learner, later):
    """Of the last rows, by a model that has not seen them."""
    predictions = bayou.predict(later, model=learner)
    predictions.to_arrow()
    return predictions.evaluation.log_loss


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "two files", "parquet", "frame", "arrow", "chunks"])
@pytest.mark.parametrize("passes", [1, 2])
def test_the_last_rows_are_held_out_and_predicted_by_the_finished_model(kind, passes, tmp_path, monkeypatch):
    if kind != "csv.gz":  # how much of it a block is, is known but roughly
        monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 4000)
    whole = table()
    data = tmp_path / f"d.{kind}"
    if kind == "csv":
        whole.to_csv(data, index=False)
    elif kind == "csv.gz":
        data.write_bytes(gzip.compress(whole.to_csv(index=False).encode()))
    elif kind == "two files":
        data = [tmp_path / "a.csv", tmp_path / "b.csv"]
        whole[:2000].to_csv(data[0], index=False)
        whole[2000:].to_csv(data[1], index=False)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pandas(whole), data, row_group_size=1100)
    else:
        data = {"frame": whole, "arrow": pa.Table.from_pandas(whole), "chunks": [whole[:500], whole[500:]]}[kind]
    run = bayou.train(data, **OPTIONS, passes=passes, holdout=0.1)
    held = run.held_out.examples
    assert run.evaluation.examples == 3000 - held
    assert held == 300 if "csv" not in kind and "files" not in kind else 290 <= held <= 310
    assert run.held_out_rows == f"the last {held / 30:.2g}%"
    assert run.held_out.log_loss == pytest.approx(frozen_loss(run.learner, whole[3000 - held :]), rel=1e-9)
    straight = bayou.train(whole[: 3000 - held], **OPTIONS, passes=passes)
    assert run.learner.mean.tobytes() == straight.learner.mean.tobytes()


def test_spread_rows_are_predicted_by_the_finished_model_too(tmp_path):
    whole = table()
    run = bayou.train(whole, **OPTIONS, holdout="random:0.25")
    rows = np.arange(3000) % 4 == 3
    assert (run.held_out.examples, run.held_out_rows) == (750, "25%, spread evenly")
    assert run.held_out.log_loss == pytest.approx(frozen_loss(run.learner, whole[rows]), rel=1e-9)
    straight = bayou.train(whole[~rows], **OPTIONS)
    assert run.learner.mean.tobytes() == straight.learner.mean.tobytes()


def test_the_bank_answers_for_later_rows():
    """Labels in turns: the progressive loss is below that of a coin, the finished model's is not."""
    whole = table(6000).assign(y=np.arange(6000) % 2)
    run = bayou.train(whole, label="y", bits=8, holdout=0.2)
    assert run.evaluation.log_loss < 0.68
    assert 0.69 < run.held_out.log_loss < 0.70
    assert run.held_out.log_loss == pytest.approx(frozen_loss(run.learner, whole[4800:]), rel=1e-9)
    assert run.later_loss.differs
    assert "labels alternate more" in run.warnings[0]
    shuffled = bayou.train(whole.sample(frac=1, random_state=0), label="y", bits=8)
    assert not shuffled.later_loss.differs
    assert shuffled.warnings == []


@pytest.mark.parametrize("resumed", [False, True])
def test_thinned_negatives_are_scored_as_the_data_are(resumed, tmp_path):
    """As the progressive loss is; `predict` answers for the full stream."""
    whole = table()
    options = OPTIONS | {"negative_rate": 0.1}
    if resumed:
        bayou.train(whole, **options, model=tmp_path / "m.bayou")
        options = {"resume": tmp_path / "m.bayou"}
    run = bayou.train(whole, **options, holdout=0.1)
    assert run.held_out.log_loss == pytest.approx(run.evaluation.log_loss, abs=0.1)
    assert frozen_loss(run.learner, whole[2700:]) > run.held_out.log_loss + 0.2


def test_the_end_of_a_pipe_is_not_known(tmp_path):
    lines = "".join(f"{k % 2} {k % 5}:1\n" for k in range(1000))
    with pytest.raises(bayou.BadInput, match=r"holdout=0\.1 needs to know which rows.*use holdout='random:0\.1'"):
        bayou.train(iter([table()]), **OPTIONS, holdout=0.1)
    words = ["train", "-", "--bits", "8", "--learner", "marginal", "--json", "--quiet", "--holdout"]
    assert CliRunner().invoke(app, [*words, "0.1"], input=lines).exit_code == 2
    run = bayou.train(iter([table()]), **OPTIONS, holdout="random:0.1")
    assert run.held_out.examples == 300


@pytest.mark.parametrize("wrong", ["1.5", "-0.1", "nan", "random", "last:0.1", "random:1"])
def test_what_is_no_share_is_refused(wrong):
    with pytest.raises(bayou.BadInput, match=f"holdout=.*{wrong}.*: it must be a share from 0 to 0.9"):
        bayou.train(table(10), **OPTIONS, holdout=wrong)


def test_memory_is_bounded_by_keeping_every_other_row(monkeypatch):
    monkeypatch.setattr(holdout, "MOST_VALUES", 100)
    held = HoldoutRows(HoldoutSpec(0.1))
    for first in range(0, 1000, 7):
        numbers = np.arange(first, min(first + 7, 1000))
        held._keep(
            Batch.from_rows([{int(k) % 50: 1.0} for k in numbers], labels=np.ones(len(numbers)), weights=numbers)
        )
        assert sum(map(len, held.kept)) <= 50
    kept = np.concatenate([part.weights_or_ones() for part in held.kept])
    np.testing.assert_array_equal(kept, np.arange(0, 1000, 32))
    assert held.seen == 1000


def test_labels_that_come_late_are_all_learned(tmp_path):
    whole = table()
    late = bayou.train(whole, **OPTIONS, delay=500)
    at_once = bayou.train(whole, **OPTIONS)
    assert late.learner.mean.tobytes() == at_once.learner.mean.tobytes()
    assert late.learner.examples == 3000
    assert late.evaluation.log_loss > at_once.evaluation.log_loss
    shown = bayou.train(whole, **OPTIONS, delay=500, report=tmp_path / "r.html")
    assert shown.evaluation.log_loss == late.evaluation.log_loss
    with pytest.raises(bayou.BadInput, match="checkpoint= and delay= cannot be combined"):
        bayou.train(whole, **OPTIONS, delay=5, checkpoint=100, model=tmp_path / "m.bayou")


def test_rows_that_a_learner_refuses_do_not_wait_for_their_label(tmp_path):
    lines = [f"{k % 2} {k % 5}:1" for k in range(300)]
    (tmp_path / "x.svm").write_text("\n".join([*lines[:100], "1 3:1e30", *lines[100:]]))
    (tmp_path / "y.svm").write_text("\n".join(lines))
    late, clean = (
        bayou.train(tmp_path / name, bits=4, learner="marginal", settings={"prior_variance": 1e9}, delay=50)
        for name in ("x.svm", "y.svm")
    )
    assert (late.skipped, late.evaluation.examples) == (1, 300)
    assert late.learner.mean.tobytes() == clean.learner.mean.tobytes()
    assert late.evaluation.log_loss == clean.evaluation.log_loss


def test_the_command_says_which_rows_and_both_losses(tmp_path):
    whole = table(6000).assign(y=np.arange(6000) % 2)
    whole.to_csv(tmp_path / "c.csv", index=False)
    words = ["train", str(tmp_path / "c.csv"), "--label", "y", "--bits", "8", "--quiet", "--holdout", ".2"]
    model = str(tmp_path / "m.bayou")
    said = CliRunner().invoke(app, [*words, "--report", str(tmp_path / "r.html")])
    assert said.exit_code == 0, said.output
    assert "held out (the last 20%), predicted by the finished model" in said.stdout
    assert "log loss, last half" in said.stdout
    assert "expected on later rows" in said.stdout
    assert "once it has stopped learning" in said.stderr
    assert said.stderr.count("labels alternate more than by chance") == 1
    page = (tmp_path / "r.html").read_text()
    assert "the last 20%" in page
    assert "trained and then used unchanged" in page
    told = json.loads(CliRunner().invoke(app, [*words, "--json", "--model", model]).stdout)
    assert told["holdout"]["rows"] == "the last 20%"
    assert told["later_loss"]["differs"] is True
    assert told["later_loss"]["expected"] > told["later_loss"]["learned"] > 0
    shown = CliRunner().invoke(app, ["info", model]).stdout
    assert f"log loss {told['later_loss']['expected']:.5f}" in shown
    assert "is expected on later rows" in shown
    assert json.loads(CliRunner().invoke(app, ["info", model, "--json"]).stdout)["later_loss"] == told["later_loss"]


def test_rows_are_handed_over_in_blocks_that_can_be_looked_ahead_in(tmp_path, monkeypatch):
    monkeypatch.setattr("bayou.sources.reading.blocks.BLOCK_BYTES", 1000)
    table(5000).to_csv(tmp_path / "c.csv", index=False)
    sizes = []
    observe = bayou.learners.Marginal.observe

    def watched(learner, batch, behind=None):
        sizes.append(len(batch))
        return observe(learner, batch, behind)

    monkeypatch.setattr(bayou.learners.Marginal, "observe", watched)
    bayou.train(tmp_path / "c.csv", **OPTIONS)
    assert sum(sizes[1:]) == 5000  # the first is a trial
    assert sizes[1:] == [1045, 3955]


def test_what_is_no_share_is_refused_whatever_it_is():
    damaged = sparse.csr_array(np.eye(3))
    damaged.indices[0] = 7  # scipy cannot even say what it is
    for given in (damaged, "", "random:", "random:x", "half", -0.1, 0.95, np.nan, [0.1]):
        with pytest.raises(bayou.BadInput, match=r"(?s)holdout=.*a share from 0 to 0\.9"):
            HoldoutSpec.of(given)
