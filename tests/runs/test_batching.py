"""Rows that are held out, and rows that a learner refuses: one rule for every run."""

import numpy as np
import pytest

from bayou import Batch
from bayou.core.errors import BadInput
from bayou.learners import Marginal
from bayou.runs.batching import evenly_spaced_mask
from bayou.sources.rejected_rows import RejectedRows


class Some:
    lines_before_block = 0

    def __init__(self, skips):
        self.skips = skips


BATCH = Batch.from_rows([{k: 1.0} for k in (1, 999, 2, 3, 998, 4)], labels=[1] * 6, positions=range(1, 7))


@pytest.mark.parametrize("way", ["predict", "observe", "check"])
def test_a_batch_of_rows_that_cannot_be_used_is_cut_until_they_are_found(way):
    """The learner refuses a batch whole, before its first row."""
    learner = Marginal(n_features=10)
    refused = RejectedRows(Some(skips=True))
    parts = list(refused.accepted(BATCH, getattr(learner, way)))
    assert [(first, len(part)) for first, part, _ in parts] == [(0, 1), (2, 1), (3, 1), (5, 1)]
    assert refused.count == 2
    assert [sentence.partition(":")[0] for sentence in refused.sentences] == ["line 2", "line 5"]
    assert learner.examples == (4 if way == "observe" else 0)


def test_a_row_that_is_not_skipped_is_an_error():
    with pytest.raises(BadInput, match=r"^line 2: row 0: feature 999"):
        list(RejectedRows(Some(skips=False)).accepted(BATCH, Marginal(n_features=10).predict))


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.9])
def test_held_out_rows_do_not_depend_on_how_the_stream_is_cut(share):
    whole = evenly_spaced_mask(0, 1000, share)
    assert abs(whole.sum() - 1000 * share) < 1
    assert (np.concatenate([evenly_spaced_mask(k, 50, share) for k in range(0, 1000, 50)]) == whole).all()
