"""Tables begin with cache lines, and have huge pages only where a stream is about to fill them."""

import copy
import itertools
import sys

import numpy as np
import pytest

import bayou
from bayou import Batch
from bayou.core.state import resized
from bayou.kernels import huge_pages
from bayou.kernels.huge_pages import (
    HUGE_PAGE_DENSITY,
    MIN_ADVISED_BYTES,
    PATIENCE,
    SMALL_PAGE_BYTES,
    HugePageAdvisor,
    aligned_zeros,
)
from bayou.learners import Bank, Marginal


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 2), (MIN_ADVISED_BYTES // 64 + 1, 16)])
def test_zeros_begin_with_a_cache_line(rows, columns, dtype):
    found = aligned_zeros(rows, columns, dtype)
    assert (found.shape, found.dtype, found.any(), found.flags.c_contiguous) == ((rows, columns), dtype, False, True)
    assert found.ctypes.data % 64 == 0


def test_a_feature_of_the_bank_is_one_cache_line_whatever_became_of_the_bank(tmp_path):
    bank = Bank(1000)
    bank.learn(Batch.from_rows([{3: 1.0}, {999: 2.0}], [1, 0]))
    bank.save(tmp_path / "m.bayou")
    others = [bayou.load(tmp_path / "m.bayou"), copy.copy(bank), resized(bank, 1001)]
    for each in [bank, *others]:
        assert (each._lanes.state.strides[0], each._lanes.state.ctypes.data % 64) == (64, 0)
        assert each.touched.tolist() == [3, 999]


@pytest.fixture
def asked(monkeypatch):
    """What the system is told of which array, by its length."""
    told = []
    monkeypatch.setattr(huge_pages, "_advise", lambda array, advice: told.append((len(array), advice)))
    return told


SIZE = 4 * MIN_ADVISED_BYTES // SMALL_PAGE_BYTES  # rows of a page each


def test_huge_pages_are_asked_for_once_rows_touch_enough_of_the_small_ones(asked):
    held = HugePageAdvisor(
        [np.zeros((SIZE, SMALL_PAGE_BYTES), np.uint8), np.zeros((SIZE, 1), np.uint8)]
    )  # the second is small anyway
    few = np.arange(SIZE // HUGE_PAGE_DENSITY, dtype=np.uint32)
    held.note_touched(few)
    held.note_touched(few)  # no more than before
    assert (asked, held.is_undecided) == ([], True)
    held.note_touched(few + 1)
    assert (asked, held.is_undecided) == ([(SIZE, "MADV_HUGEPAGE")], False)


def test_a_stream_that_stays_sparse_is_not_looked_at_for_ever(asked):
    held = HugePageAdvisor([np.zeros((SIZE, SMALL_PAGE_BYTES), np.uint8)])
    for _ in range(PATIENCE):
        assert held.is_undecided
        held.note_touched(np.zeros(SIZE, np.uint32))
    assert (asked, held.is_undecided) == ([], False)


def test_learning_and_loading_tell_which_rows_they_touch(asked, tmp_path):
    n = 2 * MIN_ADVISED_BYTES // 8
    rows = Batch.from_arrays([0, n // 512], np.arange(0, n, 512), np.ones(n // 512), [1])
    learner = Marginal(n)
    assert [advice for _, advice in asked] == ["MADV_NOHUGEPAGE"]
    learner.learn(rows[:0])
    assert len(asked) == 1
    learner.learn(rows)
    assert [advice for _, advice in asked] == ["MADV_NOHUGEPAGE", "MADV_HUGEPAGE"]
    learner.save(tmp_path / "m.bayou")
    bayou.load(tmp_path / "m.bayou")
    assert [advice for _, advice in asked] == ["MADV_NOHUGEPAGE", "MADV_HUGEPAGE"] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is the system's own business")
def test_a_few_rows_do_not_take_a_whole_table():
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * SMALL_PAGE_BYTES

    features = np.random.default_rng(0).integers(0, 2**24, (100, 10))
    rows = Batch.from_rows([dict.fromkeys(row, 1.0) for row in features.tolist()], [1] * 100)
    Marginal(2**10).learn(Batch.from_rows([{1: 1.0}], [1]))
    learner, before = Marginal(2**24), resident()
    learner.learn(rows)
    assert resident() - before < 32 << 20  # of the 134 MB


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is the system's own business")
def test_huge_pages_that_rows_are_about_to_touch_are_in_memory_soon(monkeypatch):
    asked = []
    monkeypatch.setattr(huge_pages, "_madvise", lambda start, end, advice: asked.append((start, end, advice)))
    monkeypatch.setattr(huge_pages.threading, "Thread", lambda target, args, daemon: _AtOnce(target, args))
    wide, narrow = aligned_zeros(SIZE, SMALL_PAGE_BYTES, "uint8"), aligned_zeros(SIZE, SMALL_PAGE_BYTES // 2, "uint8")
    held, start = HugePageAdvisor([narrow, wide]), wide.ctypes.data
    asked.clear()
    held.note_touched(np.arange(SIZE // HUGE_PAGE_DENSITY + 1, dtype=np.uint32))  # in the first eighth of the table
    filled = [(first, last) for first, last, advice in asked if advice == huge_pages._POPULATE_WRITE]
    assert filled[0][0] == start
    assert (
        start + SIZE // HUGE_PAGE_DENSITY * SMALL_PAGE_BYTES
        < filled[-1][1]
        <= start + SIZE // HUGE_PAGE_DENSITY * SMALL_PAGE_BYTES + 2 * huge_pages.HUGE_PAGE_BYTES
    )
    assert all(last == following for (_, last), (following, _) in itertools.pairwise(filled))


class _AtOnce:
    """In the place of a thread."""

    def __init__(self, target, args):
        self.start = lambda: target(*args)
