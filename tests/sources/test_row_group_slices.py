"""Parts of Parquet files give the rows that stand there, as reading the whole does."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou import BadInput, Batch, sources
from bayou.sources.row_group_slices import RowGroupSlice, RowGroupSlices

RECIPE = {"label": "y", "bits": 8}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """100 rows in two files of row groups of 20, and their batches."""
    folder = tmp_path_factory.mktemp("parts")
    table = pa.table(
        {"a": [f"v{k % 7}" for k in range(100)], "n": np.arange(100) / 9, "y": [k % 3 == 0 for k in range(100)]}
    )
    names = [str(folder / f"{k}.parquet") for k in range(2)]
    for k, name in enumerate(names):
        pq.write_table(table.slice(50 * k, 50), name, row_group_size=20)
    source = sources.open(names, recipe=RECIPE)
    return names, Batch.concatenate(list(source)), source.extras


def same(one: Batch, other: Batch) -> bool:
    return all((getattr(one, name) == getattr(other, name)).all() for name in ("indptr", "indices", "values", "labels"))


def test_parts_are_the_rows_that_stand_there(rows):
    (first, second), whole, extras = rows
    parts = RowGroupSlices(
        [
            RowGroupSlice(second, 1, 3, 9),
            RowGroupSlice(second, 1, 11, 20),
            RowGroupSlice(first, 2, 0, 10),
            RowGroupSlice(first, 0, 19, 20),
        ]
    )
    assert parts.rows == 26
    assert [len(found) for _, _, found in parts.scans()] == [2, 1, 1]
    expected = whole.take([*range(73, 79), *range(81, 90), *range(40, 50), 19])
    for threads in (0, 2):
        assert same(Batch.concatenate(list(sources.open(parts, extras=extras, threads=threads))), expected)


def test_all_parts_are_the_whole_and_fit_the_same_recipe(rows):
    names, whole, extras = rows
    parts = RowGroupSlices([RowGroupSlice(name, group, 0, n) for name in names for group, n in enumerate((20, 20, 10))])
    source = sources.open(RowGroupSlices(parts.cut(0, 100)), recipe=RECIPE)
    assert same(Batch.concatenate(list(source)), whole)
    assert source.recipe == extras.recipe
    again = [parts.cut(first, first + 7) for first in range(0, 100, 7)]
    assert sum(part.rows for cut in again for part in cut) == 100
    assert parts.cut(100, 107) == parts.cut(5, 5) == []


def test_an_address_is_a_file(rows):
    (first, _), whole, extras = rows
    assert same(
        Batch.concatenate(
            list(sources.open(RowGroupSlices([RowGroupSlice(f"file://{first}", 0, 0, 20)]), extras=extras))
        ),
        whole[:20],
    )
    with pytest.raises(BadInput, match="nowhere: the Parquet file cannot be read"):
        list(sources.open(RowGroupSlices([RowGroupSlice(f"file://{first}/nowhere", 0, 0, 20)]), extras=extras))
