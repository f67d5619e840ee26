"""Crosses of dictionaries, against a slow, obvious reference."""

from itertools import product

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

CROSSES = [[("a", "b")], [("b", "*"), ("a", "b")], [("*", "*")], [("c", "a", "*")], [("*", "*", "*"), ("a", "c")]]


def slow(x: dict, cross, bits: int) -> dict[int, float]:
    def hashed(text: str, seed: int = 0) -> int:
        return murmurhash3_32(text.encode(), seed, positive=True)

    there = {name: value for name, value in x.items() if value is not None and value == value}
    of = {name: hashed(v, hashed(name)) if isinstance(v, str) else hashed(name) for name, v in there.items()}
    size = {name: 1.0 if isinstance(v, str) else float(v) for name, v in there.items()}
    found: dict[int, float] = {}

    def put(names: tuple[str, ...]) -> None:
        index, value = of[names[0]], size[names[0]]
        for name in names[1:]:
            index, value = (index * 16777619 % 2**32) ^ of[name], value * size[name]
        found[index % 2**bits] = found.get(index % 2**bits, 0.0) + value

    for name in there:
        put((name,))
    done = set()
    for rule in cross:
        by_hash = sorted(there, key=hashed)
        for names in product(*(by_hash if wanted == "*" else [wanted] for wanted in rule)):
            if set(names) <= set(there) and len(set(names)) == len(rule) and frozenset(names) not in done:
                done.add(frozenset(names))
                put(names)
    return {index: value for index, value in found.items() if value != 0}


def features(rows: RowEncoder, x: dict) -> dict[int, float]:
    row = rows.encode_row(x)[0]
    return dict(zip(row.indices[: row.size].tolist(), row.values[: row.size].tolist(), strict=True))


values = st.integers(-8, 8) | st.booleans() | st.text("uvw", max_size=2) | st.none() | st.just(float("nan"))


@given(st.dictionaries(st.text("abcd", min_size=1, max_size=2), values, max_size=7), st.sampled_from(CROSSES))
def test_crosses_are_those_of_the_slow_reference(x, cross):
    assert features(RowEncoder(22, cross=cross), x) == slow(x, cross, 22)


@pytest.mark.parametrize("cross", CROSSES)
def test_the_order_of_names_does_not_matter_and_many_are_a_loop_of_one(cross):
    x = {"a": "u", "b": 2.5, "c": "v", "d": -0.3, "e": "u"}
    rows, frame = RowEncoder(10, dtype="float64", cross=cross), pd.DataFrame([x, x])
    one = rows.encode_row(x)[0]
    again = rows.encode_row(dict(reversed(x.items())))[0]
    assert one.indices.tolist() == again.indices.tolist()
    assert one.values.tobytes() == again.values.tobytes()
    for table in (frame, pa.Table.from_pandas(frame), [x, x]):
        batch = rows.encode_rows(table)[0]
        assert batch.indices.tolist() == one.indices[: one.size].tolist() * 2
        assert batch.values.tobytes() == one.values[: one.size].tobytes() * 2


def test_columns_of_a_matrix_are_crossed_by_their_numbers():
    batch = RowEncoder(8, cross=[("*", "*")]).encode_rows(
        sp.csr_matrix(np.array([[0, 1.0, 0.0, 3.0], [0, 0.0, 2.0, 0.0]]))
    )[0]
    assert np.diff(batch.indptr).tolist() == [3, 1]
    assert sorted(batch.values.tolist()) == [1.0, 2.0, 3.0, 3.0]


def test_numbered_crosses_have_the_names_of_their_parts():
    rows = RowEncoder(6, hashing=False, cross=[("user", "ad", "n")])
    new = rows.encode_row({"n": 2.0, "user": "ann", "ad": "shoes"}, learn=True)[1]
    assert set(new) == {"n", "user=ann", "ad=shoes", "user=ann & ad=shoes & n"}


def test_what_cannot_be_crossed_gets_a_sentence():
    with pytest.raises(BadInput, match="pairs 'a' with itself"):
        RowEncoder(8, cross=[("a", "a")])
    with pytest.raises(BadInput, match="a pair or triple of names"):
        RowEncoder(8, cross=["ab"])
    with pytest.raises(BadInput, match="row of 80 names more than 65,536 features"):
        RowEncoder(8, cross=[("*", "*", "*")]).encode_row({f"x{k}": 1.0 for k in range(80)})
    with pytest.raises(BadInput, match="product of two features"):
        RowEncoder(8, cross=[("a", "b")]).encode_row({"a": 1e30, "b": 1e30})
