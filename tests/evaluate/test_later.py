"""Later rows, for any learner, and labels that come in a pattern."""

import math

import numpy as np
import pytest

from bayou import Batch
from bayou.evaluate.later import LabelOrder, LaterEvaluator
from bayou.learners import Bank, Marginal


def order_of(labels, cuts=()):
    order = LabelOrder()
    for part in np.split(np.asarray(labels), cuts):
        order.add(part)
    return order


def test_runs_are_counted_however_the_stream_is_cut():
    labels = np.random.default_rng(0).random(1000) < 0.3
    whole, cut = order_of(labels), order_of(labels, [0, 1, 2, 500, 501, 1000])
    assert whole.runs == cut.runs == 1 + np.count_nonzero(np.diff(labels.astype(int)))
    assert order_of(np.where(labels, 1, -1)).runs == order_of(labels).runs


def test_chance_is_that_of_wald_and_wolfowitz():
    """By the runs of many shuffled streams."""
    rng = np.random.default_rng(1)
    labels = np.arange(400) % 5 == 0
    shuffled = [order_of(rng.permutation(labels)) for _ in range(2000)]
    runs = np.array([order.runs for order in shuffled])
    assert runs.mean() == pytest.approx(shuffled[0].expected_runs, abs=4 * runs.std() / math.sqrt(2000))
    deviations = np.array([order.deviation for order in shuffled])
    assert deviations.std() == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.arange(4000) % 2, "labels alternate more than by chance (4,000 runs of equal labels, 2,001 by chance)"),
        (np.arange(4000) // 40 % 2, "labels come in longer runs than by chance (100 runs"),
        (np.arange(4000) >= 1000, "rows are sorted by their labels, or nearly (2 runs"),
        (np.random.default_rng(0).random(4000) < 0.5, None),
        (np.random.default_rng(0).random(4000) < 0.001, None),
        (np.ones(4000), None),
        (np.arange(50) % 2, None),  # seven standard deviations: may be chance
        (np.zeros(0), None),
    ],
    ids=["alternating", "runs", "sorted", "shuffled", "rare", "all alike", "few", "none"],
)
def test_a_pattern_of_labels_is_said(labels, said):
    remark = order_of(labels).warning()
    assert (remark or "").startswith(said or "")
    assert (remark is None) == (said is None)
    assert remark is None or "shuffle" in remark


def test_a_slight_pattern_is_not_worth_a_word():
    """Sure of, by many rows, but of 5%."""
    rng = np.random.default_rng(0)
    labels = np.cumsum(rng.random(200_000) < 0.525) % 2
    order = order_of(labels)
    assert order.deviation > 15
    assert order.warning() is None


@pytest.fixture
def alternating():
    rng = np.random.default_rng(0)
    return Batch.from_csr((rng.random((4000, 5)) < 0.5).astype(float), np.arange(4000) % 2)


def ahead_of(learner, batch, pieces):
    ahead = LaterEvaluator()
    for cut in range(0, len(batch), pieces):
        for block, kept in ahead.blocks(batch[cut : cut + pieces]):
            later = learner.predict(block.take(kept), "later").expected
            ahead.add(block, kept, later, learner.learn(block))
    return ahead.loss()


def test_ahead_of_the_bank_is_what_the_bank_itself_expects(alternating):
    bank = Bank(5)
    found, own = ahead_of(bank, alternating, 4000), bank.later_loss()
    assert found.learned == pytest.approx(own.learned, rel=1e-9)
    assert found.expected == pytest.approx(own.expected, rel=0.01)  # it asks row by row, and learns between
    assert found.differs
    assert own.differs


def test_ahead_tells_later_rows_of_any_learner(alternating):
    """One that forgets at once follows what it was told last, which is always wrong here."""
    fickle = ahead_of(Marginal(5, memory=0.5), alternating, 1000)
    steady = ahead_of(Marginal(5), alternating, 1000)
    assert fickle.learned > fickle.expected - 0.05 > 0.68
    assert steady.expected == pytest.approx(math.log(2), abs=0.01)
    assert LaterEvaluator().loss() is None
