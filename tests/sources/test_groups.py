"""Groups: each non-zero of a batch says which column or namespace it is of, whatever it was read from."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from bayou import Batch, sources
from bayou.core.extras import Extras
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.rows.encoder import RowEncoder
from bayou.sources.rows.json_rows import JsonRowParser, block_of

# Their names differ in their first letters: that of a feature's name tells its column. An ignored one is not counted.
COLUMNS = (
    Column("city", "category"),
    Column("junk", "ignored"),
    Column("y", "label"),
    Column("x", "bins", edges=(-1.0, 0.0, 2.5), knots=(-2.0, 0.0, 1.5, 40.0), levels=(0.0, 0.25, 0.75, 1.0)),
    Column("age", "whole", edges=(18.0, 30.0)),
    Column("size", "numeric", centre=10.0, scale=4.0),
    Column("text", "text"),
    Column("day", "date", parts=("weekday", "month")),
    Column("value", "values"),
)
GROUPS = {"c": 1, "x": 2, "a": 3, "s": 4, "t": 5, "d": 6, "v": 7}
TABLES = ("csv", "tsv", "parquet", "jsonl", "pandas")


def table() -> pd.DataFrame:
    random = np.random.default_rng(1)
    pick = random.choice
    n = 60
    return pd.DataFrame(
        {
            "y": pick([0, 1], n),
            "text": pick(["a bee sees", "bee", "", "sea a a"], n),
            "size": pick(["10", "3.5", "", "8"], n),
            "age": pick(["17", "40", "", "29"], n),
            "junk": pick(["?", "!"], n),
            "x": pick(["-3", "0.5", "", "99"], n),
            "day": pick(["2024-01-01", "2025-12-31", ""], n),
            "value": pick(["1", "2", ""], n),
            "city": pick(["oslo", "rome", ""], n),
        }
    )


def written(path, format, frame):
    if format == "pandas":
        return frame
    name = path / f"t.{format}"
    if format == "parquet":
        pq.write_table(pa.Table.from_pandas(frame), name)
    elif format == "jsonl":
        name.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")))
    else:
        frame.to_csv(name, index=False, sep="," if format == "csv" else "\t")
    return name


def read(data, groups=True, **options):
    source = sources.open(data, groups=groups, on_error="skip", threads=0, **options)
    batches = list(source)
    return Batch.concatenate(batches), source


def names_of(batch, source):
    found = source.extras.names.name_of(batch.indices)
    assert None not in found
    return found


@pytest.mark.parametrize("cross", [(), (("city", "x"), ("age", "text", "day"))])
def test_features_of_a_table_are_of_their_column_in_every_format(tmp_path, cross):
    frame, recipe = table(), Recipe("table", bits=24, columns=COLUMNS, cross=cross)
    found = []
    for format in TABLES:
        data = written(tmp_path, format, frame)
        batch, source = read(data, recipe=recipe)
        names = names_of(batch, source)
        assert batch.groups.tolist() == [0 if " & " in name else GROUPS[name[0]] for name in names]
        assert set(batch.groups.tolist()) == {*GROUPS.values(), *([0] if cross else [])}
        plain, _ = read(data, groups=False, recipe=recipe)
        assert plain.groups is None
        assert plain.indices.tolist() == batch.indices.tolist()
        found.append(batch.groups.tolist())
    assert all(groups == found[0] for groups in found)


def test_columns_in_which_every_cell_is_a_feature(tmp_path):
    """Those have a way of their own, without values."""
    data = written(tmp_path, "csv", table()[["y", "city", "junk"]])
    batch, source = read(data, recipe={"label": "y", "category": ["city", "junk"]})
    assert batch.is_all_ones
    assert batch.groups.tolist() == [{"c": 1, "j": 2}[name[0]] for name in names_of(batch, source)]


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_bad_or_unknown_takes_its_groups_with_it(tmp_path, exact):
    """Bad cells, rows and labels; in the exact mode also features that a model does not know."""
    lines = ["y,city,text", "1,oslo,a b", "0,rome", "2,rome,a c", "0,bern,c", "1,,b b a", "0,oslo,d"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    recipe = {"label": "y", "text": ["text"], "category": ["city"], "exact": exact, "task": "binary", "bits": 20}
    batch, source = read(path, recipe=recipe)
    assert (source.skipped, len(batch)) == (2, 4)
    assert batch.groups.tolist() == [{"c": 1, "t": 2}[name[0]] for name in names_of(batch, source)]
    path.write_text("y,city,text\n1,paris,b x c\n0,bern,x a\n")
    again, _ = read(path, extras=source.extras, labels=False)
    names = source.extras.names.name_of(again.indices)
    assert again.nonzeros == (4 if exact else 7)
    assert [1 + (name[0] == "t") for name in names if name] == [
        group for group, name in zip(again.groups.tolist(), names, strict=True) if name
    ]


# --- names ------------------------------------------------------------------------------------------------------------


def mixed(key: int) -> int:
    """splitmix64 of a key, in whole numbers."""
    state = (key + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def group(name, named=()) -> int:
    """By scikit-learn's murmur3, which we did not write."""
    if name in named:
        return named.index(name) + 1
    folded = isinstance(name, int)
    key = name % 2**64 if folded else murmurhash3_32(str(name).encode("utf-8", "surrogatepass"), 0, positive=True)
    key = (key ^ key >> 32) % 2**32 if folded else key
    key = 0 if name == "" else key
    return 1 + len(named) + ((mixed(key) >> 32) * (255 - len(named)) >> 32)


VW = """1 |user ann old:2 |ad shoes 7 size:0.5 |user ann
-1 | free 3 12 |ad shoes|hour:2 9 late
what is this
1 | 1 2 3 4 5 6 7 8 9:2 10
-1 |hour 9 |ad:0 gone |user site:a.com bob\n1 |5 x:y |007 a:b c
"""


@pytest.mark.parametrize("more", [{}, {"hash_all": True}, {"ignore": ["h"]}])
@pytest.mark.parametrize("cross", [(), (("hour", "*"), ("ad", "hour"))])
def test_features_of_vw_text_are_of_their_namespace(tmp_path, cross, more):
    (tmp_path / "t.vw").write_text(VW)
    batch, source = read(tmp_path / "t.vw", recipe={"bits": 24, "cross": cross, **more})
    named = ("hour", "ad") if cross else ()
    names = [name or "" for name in source.extras.names.name_of(batch.indices)]  # what is called by its number has none
    spaces = [name.split("^")[0] if "^" in name else "" for name in names]
    if "hash_all" not in more:
        spaces = [int(space) if space.isdigit() else space for space in spaces]
    assert batch.groups.tolist() == [
        0 if " & " in name else group(space, named) for name, space in zip(names, spaces, strict=True)
    ]
    assert source.skipped == 1
    assert read(tmp_path / "t.vw", groups=False, recipe={"bits": 24, "cross": cross, **more})[0].groups is None


def test_exact_namespaces_are_told_apart(tmp_path):
    (tmp_path / "t.vw").write_text(VW)
    batch, source = read(tmp_path / "t.vw", recipe={"bits": 10, "exact": True, "cross": [("ad", "user")]})
    of_space: dict[str, set[int]] = {}
    for name, found in zip(names_of(batch, source), batch.groups.tolist(), strict=True):
        of_space.setdefault("&" if "&" in name else name.split("^")[0] if "^" in name else "", set()).add(found)
    assert (of_space["&"], of_space["ad"], of_space["user"]) == ({0}, {1}, {2})
    assert [len(found) for found in of_space.values()] == [1] * 7
    assert min(of_space[""] | of_space["hour"]) > 2


values = st.floats(-1e6, 1e6, width=32) | st.booleans() | st.none() | st.text(max_size=5)
names = st.text(max_size=9) | st.integers(-(2**63), 2**63 - 1)


def expected_groups(rows: RowEncoder, x, named=()) -> dict[int, int]:
    """The group of each feature, by a reader that knows one name at a time; those that two names share are left out."""
    found: dict[int, set[int]] = {}
    for name, value in x.items():
        for feature in rows.encode_row({name: value})[0].batch().indices.tolist():
            found.setdefault(feature, set()).add(group(name, named))
    return {feature: one.pop() for feature, one in found.items() if len(one) == 1}


@given(x=st.dictionaries(names, values, max_size=12))
def test_features_of_dictionaries_are_of_their_name(x):
    rows = RowEncoder(24, groups=True)
    want = expected_groups(RowEncoder(24), x)
    for batch in (rows.encode_row(x)[0].batch(), rows.encode_rows([x])[0], rows.encode_rows([x, x])[0][1:]):
        found = dict(zip(batch.indices.tolist(), batch.groups.tolist(), strict=True))
        assert found.keys() >= want.keys()
        assert {feature: found[feature] for feature in want} == want
    if all(isinstance(name, str) for name in x):
        parser = JsonRowParser(Recipe(kind="rows", bits=24, label="no such name", weight="nor this"), groups=True)
        parsed = parser.parse(block_of(json.dumps(x).encode()))
        if "id" not in x and not parsed.bad_lines:
            batch = rows.encode_row(x)[0].batch()
            assert parsed.groups.tolist() == batch.groups.tolist()
            assert parsed.batch().groups.tolist() == batch.groups.tolist()


@pytest.mark.parametrize("hashing", [True, False])
def test_tables_and_rows_within_python_agree(hashing):
    frame = pd.DataFrame({"n": [1.0, 0.0, np.nan], "site": ["a", None, "b"], "m": [3, 2, 0], "z": ["a", "b", "a"]})
    dicts = [{k: v for k, v in row.items() if v == v and v is not None} for row in frame.to_dict("records")]
    rows = RowEncoder(16, hashing, groups=True)
    want = sorted(group(name) for row in dicts for name, value in row.items() if value)
    for data in (frame, pa.Table.from_pandas(frame), dicts):
        batch, new = rows.encode_rows(data, learn=True)
        rows.store_names(new)
        assert sorted(batch.groups.tolist()) == want
    ones = [rows.encode_row(row)[0] for row in dicts]
    assert [row.batch().groups.tolist() for row in ones] == [
        batch[k : k + 1].groups.tolist() for k in range(len(dicts))
    ]
    usual = {"n": 1.5, "m": 2.0}  # numbers alone have a short way
    assert sorted(rows.encode_row(usual)[0].groups.tolist()) == sorted(map(group, usual))
    matrix = sp.csr_matrix(np.array([[0, 2.0, 0.0, 1.0]]))
    assert sorted(rows.encode_rows(matrix)[0].groups.tolist()) == sorted([group(1), group(3)])
    assert RowEncoder(16, hashing).encode_rows(frame)[0].groups is None
    assert RowEncoder(16, hashing).encode_row(usual)[0].groups is None


def test_long_rows_and_crossed_ones():
    long = {f"x{k}": 1.0 for k in range(300)}
    row = RowEncoder(26, groups=True).encode_row(long)[0]
    assert sorted(row.groups.tolist()) == sorted(group(name) for name in long)
    rows = RowEncoder(22, cross=[("ad", "*"), ("user", "ad")])
    rows.groups = True
    x = {"user": "ann", "n": 2.0, "ad": "shoes"}
    found = rows.encode_row(x)[0].batch()
    assert sorted(found.groups.tolist()) == sorted([0, 0, *(group(name, ("ad", "user")) for name in x)])
    assert rows.encode_rows([x])[0].groups.tolist() == found.groups.tolist()


def test_lines_that_python_reads_have_the_type_and_groups_of_the_others(tmp_path):
    """Escapes are for Python; also where it was said later what to read as."""
    (tmp_path / "t.jsonl").write_text('{"a": 0.1, "b": "c", "label": 1}\n{"a": 0.1, "b": "\\u0063", "label": 0}\n')
    source = sources.open(tmp_path / "t.jsonl", extras=Extras.new(Recipe(kind="rows", bits=20)))
    source.read_as("float64", groups=True)
    (batch,) = source
    assert batch.values[:2].tolist() == batch.values[2:].tolist() == [0.1, 1.0]
    assert batch.groups.tolist() == [group("a"), group("b")] * 2


# --- ranges -----------------------------------------------------------------------------------------------------------

SVMLIGHT = "1 1:1 5:2 11:1 300:1\n-1 2:1 600:1 0:1\n1 x\n-1 20:2 5:1 5:3 20:-2 7:1\n"


@pytest.mark.parametrize("cross", [(), (("a", "b"),)])
def test_features_of_svmlight_data_are_of_their_range(tmp_path, cross):
    (tmp_path / "t.svm").write_text(SVMLIGHT)
    ranges = [("b", 11, 500), ("a", 1, 10)]
    batch, _ = read(tmp_path / "t.svm", recipe={"ranges": ranges, "cross": cross, "bits": 20})
    made = [np.flatnonzero(part.groups == 0).size for part in (batch[0:1], batch[1:2], batch[2:])]
    assert [part.groups[part.groups > 0].tolist() for part in (batch[0:1], batch[1:2], batch[2:])] == [
        [1, 1, 2, 2],
        [1],
        [1, 1],  # feature 20 has come to nothing
    ]
    assert made == ([4, 2, 0] if cross else [0, 2, 0])
    assert read(tmp_path / "t.svm", recipe={"bits": 20})[0].groups is None
    assert read(tmp_path / "t.svm", recipe={"ranges": ranges, "bits": 20}, groups=False)[0].groups is None


def test_many_ranges_in_any_order(tmp_path):
    features = np.random.default_rng(2).permutation(3000)[:500]
    (tmp_path / "t.svm").write_text("1 " + " ".join(f"{k}:1" for k in features) + "\n-1 1:1\n")
    ranges = [(str(k), 10 * k, 10 * k + 6) for k in range(300)]
    batch, _ = read(tmp_path / "t.svm", recipe={"ranges": ranges, "bits": 20})
    want = np.where(features % 10 < 7, 1 + features // 10 % 255, 0)
    assert batch[:1].groups.tolist() == want.tolist()
