from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou import sources
from bayou.core.errors import BadInput, BadModel
from bayou.recipe.feature_names import FeatureNames, NewNames
from bayou.recipe.numbering import UNKNOWN, Numbering, holds
from bayou.recipe.recipe import Recipe
from bayou.sources.reading import blocks
from bayou.sources.reading.parsed_block import ParsedBlock

some_ids = st.lists(st.integers(1, 30) | st.integers(1, 2**64 - 1), max_size=30)


@given(st.lists(some_ids, max_size=4))
def test_numbers_are_given_in_the_order_of_first_appearance(batches):
    numbering, expected = Numbering(1000), {}
    for batch in batches:
        numbers = numbering.add(np.array(batch, np.uint64))
        assert numbers.tolist() == [expected.setdefault(i, len(expected)) for i in batch]
    assert len(numbering) == len(expected)
    again = Numbering.from_arrays(1000, numbering.arrays())
    ids = np.array([*expected, 77], np.uint64)
    assert again.lookup(ids).tolist() == [expected.get(int(i), UNKNOWN) for i in ids]
    assert again.add(np.uint64([78])).tolist() == [len(expected)]


def test_it_grows_and_ids_that_fall_on_one_place_keep_apart():
    # Multiplied by what spreads ids over the table these are 1, 2, 3, ..., of which the upper half is 0.
    ids = np.arange(1, 20_001, dtype=np.uint64) * np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))
    numbering = Numbering(2**20)
    assert (numbering.add(ids) == np.arange(20_000)).all()
    assert (numbering.lookup(ids[::-1]) == np.arange(20_000)[::-1]).all()
    assert numbering.lookup(ids + np.uint64(1)).tolist() == [UNKNOWN] * 20_000


def test_ids_in_a_row_do_not_stand_in_the_way_of_those_that_come_round_again():
    """As of columns numbered by how frequent they are: the first thousands all, and some of millions."""
    rng = np.random.default_rng(0)
    ids = np.append(np.arange(1, 10_001), rng.integers(10_001, 2**22, 5000)).astype(np.uint64)
    numbering = Numbering(2**20)
    numbering.add(ids)
    free = np.flatnonzero(np.append(numbering.table, 0) == 0)
    assert np.diff(free).max() < 100  # places in a row that are taken


def test_parsers_find_ids_in_its_table():
    numbering = Numbering(100)
    numbering.add(np.uint64([5, 2**63]))
    table = numbering.table
    last = len(table) - 1
    found = [holds(table.ctypes.data, last, np.uint64(i)) for i in (5, 2**63, 6)]
    assert found == [True, True, False]


@pytest.mark.parametrize("limit", [3, 5000])
def test_more_features_than_the_table_holds_are_refused_with_a_sentence(limit):
    numbering = Numbering(limit)
    numbering.add(np.arange(1, limit + 1, dtype=np.uint64))
    with pytest.raises(BadInput, match=f"more than {limit} different features; use a larger table \\(bits=\\)"):
        numbering.add(np.uint64([1, limit + 1]))
    assert numbering.add(np.uint64([limit])).tolist() == [limit - 1]


def block(*named: int) -> ParsedBlock:
    ids = np.array(named or (9, 8), np.uint64)
    spans = np.arange(len(ids))[:, None] * np.ones(8, np.int64)
    found = NewNames(ids, spans, np.empty(0, np.uint8), np.empty(0, np.uint8), b"^")
    return ParsedBlock(
        indptr=np.array([0, 2, 3, 3]),
        indices=np.uint64([7, 9, 8]),
        values=np.float32([1, 2, 3]),
        labels=np.ones(3),
        weights=None,
        positions=np.arange(3),
        lines=3,
        new_names=found,
    )


def test_a_piece_gets_numbers_in_place_of_ids():
    numbered, numbering = block(), Numbering(10)
    numbering.replace_ids(numbered)
    assert numbered.indices.dtype == np.uint32
    assert numbered.indices.tolist() == [0, 1, 2]
    assert numbered.new_names is not None
    assert numbered.new_names.indices.tolist() == [1, 2]


def test_names_come_in_the_order_of_numbers_and_only_for_what_has_one():
    """A parser reports what it has not seen lately, and rows may be dropped after that."""
    numbered, numbering = block(8, 55, 9, 7, 8), Numbering(10)
    numbering.replace_ids(numbered)
    assert numbered.new_names is not None
    assert numbered.new_names.indices.tolist() == [0, 1, 2, 2]
    assert numbered.new_names.spans[:, 0].tolist() == [3, 2, 0, 4]


@pytest.mark.parametrize("kind", ["vw", "table"])
def test_names_do_not_depend_on_how_the_data_are_cut_into_blocks(kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    words = rng.integers(0, 3000, (2000, 3))
    labels = rng.choice(["1", "-1", "oops", "7"], 2000)
    if kind == "vw":
        lines = [f"{y} |a x{i} x{j} |b y{k}" for y, (i, j, k) in zip(labels, words, strict=True)]
    else:
        lines = ["y,a,b,c", *(f"{y},x{i},x{j},y{k}" for y, (i, j, k) in zip(labels, words, strict=True))]
    path = tmp_path / f"data.{'vw' if kind == 'vw' else 'csv'}"
    path.write_text("\n".join(lines) + "\n")
    stored = []
    for size in (1 << 20, 5000):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
        limited = partial(FeatureNames, limit=1500)
        monkeypatch.setattr("bayou.recipe.feature_names.FeatureNames", limited)
        recipe = Recipe(kind=kind, bits=14, exact=True, cross=[("a", "b")], label=None if kind == "vw" else "y")
        source = sources.open(path, recipe=recipe, on_error="skip", threads=0)
        assert sum(1 for _ in source) > (1 if size == 5000 else 0)
        stored.append({key: array.tolist() for key, array in source.extras.names.arrays().items()})
    assert stored[0] == stored[1]
    assert len(stored[0]["indices"]) == 1500


def test_where_nothing_is_learned_unknown_features_are_left_out():
    seen = Numbering(10)
    seen.add(np.uint64([8, 7]))
    numbered, numbering = block(), Numbering.from_arrays(10, seen.arrays(), growing=False)
    numbering.replace_ids(numbered)
    assert numbered.indptr.tolist() == [0, 1, 2, 2]
    assert numbered.indices.tolist() == [1, 0]
    assert numbered.values.tolist() == [1, 3]
    assert len(numbering) == 2


def test_two_numberings_agree_if_one_continues_the_other():
    one, two, three = Numbering(10), Numbering(10), Numbering(10)
    one.add(np.uint64([5, 6]))
    two.add(np.uint64([5, 6, 7]))
    three.add(np.uint64([5, 7, 6]))
    assert one.is_compatible(two)
    assert two.is_compatible(one)
    assert not two.is_compatible(three)


@pytest.mark.parametrize("arrays", [{}, {"ids": np.uint64([1, 1])}, {"ids": np.uint64([0])}, {"ids": np.arange(1, 9)}])
def test_damaged_arrays_are_refused(arrays):
    with pytest.raises(BadModel, match="the file is damaged"):
        Numbering.from_arrays(4, arrays)
