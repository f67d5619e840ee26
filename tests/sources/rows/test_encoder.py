"""Rows as dictionaries: what becomes of names and values, one by one and in tables."""

import math
import string
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from bayou import BadInput
from bayou.sources.rows.encoder import RowEncoder
from bayou.sources.rows.hashes import hashes_of


def features(rows: RowEncoder, x: dict, learn: bool = False) -> dict[int, float]:
    row, new = rows.encode_row(x, learn)
    if learn:
        rows.store_names(new)
    indices = row.indices[: row.size].tolist()
    assert len(set(indices)) == row.size
    assert 0 not in row.values[: row.size]
    assert row.max_abs_value == max(np.abs(row.values[: row.size]), default=0.0)
    return dict(zip(indices, row.values[: row.size].tolist(), strict=True))


def expected(x: dict, bits: int) -> dict[int, float]:
    """By scikit-learn's murmur3, which we did not write."""
    found: dict[int, float] = {}
    for name, value in x.items():
        whole = isinstance(name, int)
        hashed = name if whole else murmurhash3_32(str(name).encode("utf-8", "surrogatepass"), 0, positive=True)
        hashed = (hashed % 2**64 ^ (hashed % 2**64 >> 32)) % 2**32
        if isinstance(value, str):
            hashed = murmurhash3_32(value.encode("utf-8", "surrogatepass"), hashed, positive=True)
        value = 1.0 if isinstance(value, str) else float(np.float32(value))
        if value is not None and not math.isnan(value):
            found[hashed % 2**bits] = float(np.float32(found.get(hashed % 2**bits, 0.0) + value))
    return {name: value for name, value in found.items() if value != 0}


texts = st.text(max_size=9)
names = texts | st.integers(-(2**63), 2**63 - 1) | st.tuples(texts, texts)
values = st.floats(-1e6, 1e6, width=32) | st.booleans() | st.integers(-1000, 1000) | texts | st.just(math.nan)


@given(x=st.dictionaries(names, values, max_size=12))
def test_names_are_hashed_as_columns_of_files_are(x):
    assert features(RowEncoder(20), x) == pytest.approx(expected(x, 20), rel=1e-6)


@given(x=st.dictionaries(st.text(string.printable, max_size=6), st.floats(-10, 10, width=32), max_size=300))
def test_rows_of_any_length_with_names_that_meet(x):
    found = features(RowEncoder(5), x)
    want = expected(x, 5)
    # a sum of many float32 can end near zero in one order and at zero in another
    for index in found.keys() | want.keys():
        assert found.get(index, 0.0) == pytest.approx(want.get(index, 0.0), abs=1e-4)


@given(x=st.dictionaries(texts, values, max_size=12), seed=st.randoms(use_true_random=False))
@pytest.mark.parametrize("hashing", [True, False])
def test_the_order_of_names_does_not_matter(hashing, x, seed):
    shuffled = list(x.items())
    seed.shuffle(shuffled)
    rows, (a, _), (b, _) = (
        RowEncoder(6),
        *(RowEncoder(6, hashing).encode_row(dict(items)) for items in (x.items(), shuffled)),
    )
    assert rows.n_features == 64
    for name in ("indices", "values"):
        assert getattr(a, name)[: a.size].tobytes() == getattr(b, name)[: b.size].tobytes()


def test_what_values_may_be():
    x = {"a": True, "b": np.bool_(True), "c": Fraction(1, 4), "d": np.float32(2), "e": np.int64(3), "f": 0, "g": None}
    found = features(RowEncoder(20), x)
    assert [found[hash_ % 2**20] for hash_ in hashes_of(["a", "b", "c", "d", "e"]).tolist()] == [1, 1, 0.25, 2, 3]
    assert len(found) == 5
    assert features(RowEncoder(20), {}) == {}


@pytest.mark.parametrize("hashing", [True, False])
@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({"age": math.inf}, "'age' is inf"),
        ({"age": 1e60}, r"'age' is 1e\+60"),
        ({"age": 10**400}, "'age' is 1000"),
        ({"age": [1, 2]}, r"'age' is \[1, 2\]; a value is a number"),
        ({"site": "a", "age": 1j}, "'age' is 1j"),
        ([("age", 1)], "a row is a dictionary"),
        (None, "a row is a dictionary"),
    ],
)
def test_what_values_may_not_be(hashing, x, said):
    with pytest.raises(BadInput, match=said):
        RowEncoder(20, hashing).encode_row(x)


def test_a_text_that_looks_like_a_number_is_a_category():
    assert features(RowEncoder(20), {"zip": "123"}) == {int(hashes_of(["123"], hashes_of(["zip"]))[0]) % 2**20: 1.0}


def test_a_dictionary_numbers_names_and_knows_them_again():
    rows = RowEncoder(10, hashing=False)
    assert features(rows, {"b": 2.0, "a": 1.0, "site": "x"}, learn=True) == {0: 1.0, 1: 2.0, 2: 1.0}
    assert rows.numbers == {"a": 0, "b": 1, "site=x": 2}
    assert features(rows, {"c": 5.0, "site": "x"}) == {2: 1.0, 3: 5.0}
    assert rows.numbers == {"a": 0, "b": 1, "site=x": 2}
    assert features(rows, {("new", "york"): 1.0, 7: 2.0}, learn=True) == {3: 1.0, 4: 2.0}


def test_a_full_dictionary_says_so_and_still_predicts():
    rows = RowEncoder(1, hashing=False)
    features(rows, {"a": 1.0, "b": 2.0}, learn=True)
    with pytest.raises(BadInput, match="no number is left for the feature 'c': all 2 are taken"):
        rows.encode_row({"a": 1.0, "c": 2.0}, learn=True)
    with pytest.raises(BadInput, match="no number is left for the feature 's=t'"):
        rows.encode_row({"s": "t"}, learn=True)
    assert features(rows, {"a": 3.0, "c": 2.0}) == {0: 3.0}
    assert rows.encode_rows([{"a": 3.0, "c": 2.0}])[0].values.tolist() == [3.0]
    assert rows.encode_rows(pd.DataFrame([{"a": 3.0, "c": 2.0}]))[0].values.tolist() == [3.0]


TABLE = pd.DataFrame(
    {
        "age": [1.5, np.nan, 0.0, -2.0],
        "flag": [True, False, True, True],
        "site": ["a", "ä", None, "a"],
        "kind": pd.Categorical(["x", "y", "x", None]),
        7: [1, 2, 3, 4],
    }
)


def as_rows(table: pd.DataFrame) -> list[dict]:
    rows = table.astype(object).to_dict("records")
    return [{name: None if value is pd.NA else value for name, value in row.items()} for row in rows]


def same(table, rows: list[dict]) -> None:
    reader = RowEncoder(16)
    batch, _ = reader.encode_rows(table)
    assert len(batch) == len(rows)
    for i, x in enumerate(rows):
        row, _ = reader.encode_row(x)
        part = batch[i : i + 1]
        assert part.indices.tobytes() == row.indices[: row.size].tobytes()
        assert part.values.tobytes() == row.values[: row.size].tobytes()


def test_a_table_is_its_rows():
    same(TABLE, as_rows(TABLE))
    same(TABLE.astype({"age": "Float32", "flag": "boolean"}), as_rows(TABLE))
    same(TABLE.astype({"site": object}), as_rows(TABLE))
    same(as_rows(TABLE), as_rows(TABLE))
    texts = TABLE.rename(columns={7: "seven"})
    same(pa.Table.from_pandas(texts), as_rows(texts))
    same(TABLE[:0], [])
    same([], [])
    same(TABLE[[]], [{}] * 4)


def test_texts_and_numbers_in_one_column():
    mixed = pd.DataFrame({"a": ["x", 2.0, None, True], "b": [1.0, 2.0, 3.0, 4.0]})
    same(mixed, as_rows(mixed))


def test_sparse_tables():
    matrix = sp.random_array((20, 300), density=0.1, rng=np.random.default_rng(0), format="csr")
    rows = [{int(c): float(row[c]) for c in np.flatnonzero(row)} for row in matrix.toarray()]
    same(matrix, rows)
    same(matrix.tocoo(), rows)
    frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(matrix), columns=[f"w{c}" for c in range(300)])
    same(frame, [{f"w{c}": value for c, value in row.items()} for row in rows])


def test_a_dictionary_gives_a_table_the_features_of_its_rows():
    by_row, at_once = RowEncoder(8, hashing=False), RowEncoder(8, hashing=False)
    for x in as_rows(TABLE):
        by_row.store_names(by_row.encode_row(x, learn=True)[1])
    batch, new = at_once.encode_rows(TABLE, learn=True)
    assert at_once.numbers == {}
    at_once.store_names(new)
    assert at_once.numbers.keys() == by_row.numbers.keys()
    name_of = {number: name for name, number in at_once.numbers.items()}
    for i, x in enumerate(as_rows(TABLE)):
        part = batch[i : i + 1]
        row, _ = by_row.encode_row(x)
        found = {name_of[k]: v for k, v in zip(part.indices.tolist(), part.values.tolist(), strict=True)}
        names = {number: name for name, number in by_row.numbers.items()}
        indices, values = row.indices[: row.size].tolist(), row.values[: row.size].tolist()
        assert found == {names[k]: v for k, v in zip(indices, values, strict=True)}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), "column 'when' holds timestamp"),
        (pd.DataFrame({"age": [np.inf]}), "finite"),
        ({"age": 1.0}, "list of dictionaries"),
        (5, "expected a DataFrame"),
        ([{"age": [1]}], "'age' is"),
    ],
)
def test_tables_that_cannot_be(table, said):
    with pytest.raises(BadInput, match=said):
        RowEncoder(10).encode_rows(table)
