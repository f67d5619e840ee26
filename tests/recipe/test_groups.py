"""Groups: the numbers of columns, ranges and names."""

import numpy as np
import pytest

from bayou.recipe.groups import LAST, group_keys, group_of, groups_by_column, groups_of, sequential_groups
from bayou.recipe.recipe import Column, Recipe


def test_columns_that_give_features_are_numbered_and_begin_again():
    columns = [Column("y", "label"), Column("i", "ignored"), Column("w", "weight")]
    columns += [Column(f"c{k}", "category") for k in range(300)]
    found = groups_by_column(Recipe("table", columns=columns))
    assert list(found) == [f"c{k}" for k in range(300)]
    assert list(found.values()) == [*range(1, 256), *range(1, 46)] == sequential_groups(300).tolist()


def test_names_that_are_crossed_have_numbers_of_their_own_in_order_of_mention():
    keys = {"a": 70, "b": 7, "c": 1 << 40}
    named = group_keys([("b", "*"), ("c", "b", "a")], keys.__getitem__)
    assert named.tolist() == [7, 1 << 40, 70]
    assert [group_of(np.uint64(key), named) for key in named] == [1, 2, 3]
    others = np.arange(100, 3000, dtype=np.uint64)
    groups = np.empty(len(others), np.uint8)
    groups_of(others, named, groups)
    assert set(groups.tolist()) == set(range(4, 256))


def test_hashes_that_differ_in_high_bits_alone_are_told_apart():
    """Features of one table have hashes with the same low bits where they share a weight; names should not."""
    counts = np.bincount([group_of(np.uint64(k << 24), np.zeros(0, np.uint64)) for k in range(2550)], minlength=256)
    assert counts[0] == 0
    assert counts[1:].max() < 40  # 10 each, on average


@pytest.mark.parametrize("n", [1, 253, 254, 255, 1000])
def test_any_number_of_names_leaves_one_for_the_others(n):
    named = group_keys([(str(k), "*") for k in range(n)], int)
    found = [int(group_of(np.uint64(k), named)) for k in range(n + 50)]
    own = min(n, LAST - 1)
    assert found[:own] == list(range(1, own + 1))
    assert own < min(found[own:]) <= max(found[own:]) <= LAST
