"""Arrow and Parquet: the same table gives the same features, bit for bit, whatever it is stored in."""

import datetime
import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou import sources
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.formats.arrow.cells import flat_columns
from bayou.sources.formats.arrow.parquet import ParquetReader
from bayou.sources.formats.arrow.reader import ArrowReader, fit_arrow
from bayou.sources.formats.arrow.table import ArrowTable
from bayou.sources.formats.jsonl import JsonLinesParser
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.source import Source
from bayou.sources.table.encoding_plan import EncodingPlan
from tests.sources.formats.test_csv import written
from tests.sources.tables import COLUMNS, RECIPE, block_of, parse, rows_of

TEXT = st.text(st.characters(exclude_characters="\x00\r", exclude_categories=["Cs"]), max_size=10)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "y": st.sampled_from([0, 1]),
            "w": st.sampled_from([0.5, 1.0, 3.0]),
            "city": st.none() | TEXT | st.sampled_from(["Paris", "NA", "7", "true"]),
            "on": st.none() | st.booleans(),
            "id": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(-1e9, 1e9),
            "age": st.none() | st.integers(-(2**40), 2**40),
            "size": st.none() | st.floats(-1e3, 1e3),
            "said": st.none() | TEXT | st.sampled_from(["Win a WIN", "ÄRGER, ärger"]),
            "junk": st.just("z"),
        }
    ),
    min_size=1,
    max_size=12,
)
SCHEMA = pa.schema(
    [
        ("y", pa.int8()),
        ("w", pa.float32()),
        ("city", pa.string()),
        ("on", pa.bool_()),
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("age", pa.int64()),
        ("size", pa.float64()),
        ("said", pa.large_string()),
        ("junk", pa.string()),
    ]
)


def converted(table, recipe: Recipe = RECIPE, names: FeatureNames | None = None):
    """The piece of an Arrow table of one chunk."""
    (batch,) = pa.table(table).combine_chunks().to_batches()
    columns = [name for name, _ in flat_columns(batch.schema)]
    return ArrowTable(EncodingPlan(recipe, names=names), columns).convert(batch)


def without_lines(piece) -> list[tuple]:
    return [row[:3] for row in rows_of(piece)]


def as_csv(rows: list[dict], delimiter: str) -> bytes:
    def cell(value) -> str:
        if value is None:
            return ""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return written(text) if delimiter == "," else '"' + text.replace('"', '""') + '"'

    header = delimiter.join(SCHEMA.names)
    return "\n".join([header, *(delimiter.join(cell(row[name]) for name in SCHEMA.names) for row in rows)]).encode()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("cross", [(), (("city", "age"), ("said", "on"))])
@given(ROWS)
def test_csv_json_arrow_and_dictionaries_agree(cross, exact, rows: list[dict]) -> None:
    recipe = Recipe(kind="table", bits=20, columns=COLUMNS, cross=cross, exact=exact)
    expected = without_lines(parse(as_csv(rows, ","), recipe)[0])
    assert len(expected) == len(rows)
    assert without_lines(parse(as_csv(rows, "\t"), recipe, "tsv")[0]) == expected
    text = "\n".join(json.dumps(row) for row in rows).encode()
    assert without_lines(JsonLinesParser(EncodingPlan(recipe)).parse(block_of(text))) == expected
    table = pa.Table.from_pylist(rows, SCHEMA)
    assert without_lines(converted(table, recipe)) == expected
    encoded = [column.combine_chunks().dictionary_encode() for column in table.columns]
    assert without_lines(converted(pa.table(encoded, names=SCHEMA.names), recipe)) == expected
    strings = [column.cast(pa.string()) for column in table.columns]
    strings[SCHEMA.get_field_index("x")] = pa.array([None if row["x"] is None else repr(row["x"]) for row in rows])
    strings[SCHEMA.get_field_index("size")] = pa.array(
        [None if row["size"] is None else repr(row["size"]) for row in rows]
    )
    assert without_lines(converted(pa.table(strings, names=SCHEMA.names), recipe)) == expected


@given(ROWS)
def test_names_agree(rows: list[dict]) -> None:
    known = []
    table = pa.Table.from_pylist(rows, SCHEMA)
    encoded = pa.table([column.combine_chunks().dictionary_encode() for column in table.columns], names=SCHEMA.names)
    recipe = Recipe(kind="table", bits=20, columns=COLUMNS, cross=(("city", "age"),))
    for given_table in (None, table, encoded):
        names = FeatureNames(2**20)
        if given_table is None:
            piece, _ = parse(as_csv(rows, ","), recipe, names=names)
        else:
            piece = converted(given_table, recipe, names)
        names.add(piece.new_names)
        known.append({name: array.tobytes() for name, array in names.arrays().items()})
    assert known[0] == known[1] == known[2]


def test_what_is_not_there_or_not_finite_is_missing() -> None:
    columns = (Column("y", "label"), Column("x", "bins", edges=(0.0,)), Column("n", "whole", edges=(3.0,)))
    recipe = Recipe(kind="table", columns=columns)
    table = {"y": [1.0, 0, 1, 0], "x": [np.nan, None, np.inf, 1.0], "n": [5.0, 2.5, 1.0, np.nan]}
    piece, csv = converted(table, recipe), parse(b"y,x,n\n1,,5\n0,NA,2.5\n1,-,1\n0,1,\n", recipe)[0]
    assert without_lines(piece) == without_lines(csv)
    assert (piece.skipped, piece.odd_cells["x"][0], piece.odd_cells["x"][1][0].line) == (0, 1, 2)


def test_a_text_where_a_number_should_be_is_missing() -> None:
    columns = (Column("y", "label"), Column("x", "bins", edges=(0.0,)))
    # Cells stand side by side in Arrow's memory: 1 and e5 are not 1e5, and "5." is not "5.7".
    piece = converted({"y": [1, 1, 1, 1], "x": ["1", "e5", "5.", "7"]}, Recipe(kind="table", columns=columns))
    assert (piece.skipped, piece.odd_cells["x"][0]) == (0, 1)
    assert [bad.reason for bad in piece.odd_cells["x"][1]] == ["'e5'"]


def test_times_are_iso_text() -> None:
    moment = datetime.datetime(2013, 1, 1, 10, 30)
    columns = (Column("y", "label"), Column("t", "category"))
    recipe = Recipe(kind="table", columns=columns)
    for values, text in [
        (pa.array([moment], pa.timestamp("us")), b"2013-01-01T10:30:00"),
        (pa.array([moment], pa.timestamp("s")), b"2013-01-01T10:30:00"),
        (pa.array([moment.replace(microsecond=120000)], pa.timestamp("ns")), b"2013-01-01T10:30:00.12"),
        (pa.array([moment], pa.timestamp("ms", "UTC")), b"2013-01-01T10:30:00Z"),
        (pa.array([moment.date()]), b"2013-01-01"),
        (pa.array([1 << 63], pa.uint64()), b"9223372036854775808"),
        (pa.array([2**63 - 1]), b"9223372036854775807"),
        (pa.array([-(2**63)]), b"-9223372036854775808"),
        (pa.array([10**16]), b"10000000000000000"),
        (pa.array([0.1]), b"0.1"),
        (pa.array([None], pa.null()), b""),
        (pa.array(["a"], pa.string_view()), b"a"),
        (pa.array([b"a\xff"], pa.binary()), b"a\xff"),
    ]:
        expected, _ = parse(b"y,t\n1," + text + b"\n", recipe)
        assert without_lines(converted({"y": [1], "t": values}, recipe)) == without_lines(expected)


def test_structs_and_lists_are_those_of_json() -> None:
    rows = [
        {"y": 1, "user": {"age": 7, "tags": ["a", "b"]}, "ids": [3, 4]},
        {"y": 0, "user": {"age": None, "tags": []}, "ids": None},
        {"y": 0, "user": None, "ids": [5]},
    ]
    columns = tuple(
        Column(*pair) for pair in [("y", "label"), ("user.age", "code"), ("user.tags", "category"), ("ids", "code")]
    )
    recipe = Recipe(kind="table", columns=columns)
    text = "\n".join(json.dumps(row) for row in rows).encode()
    expected = without_lines(JsonLinesParser(EncodingPlan(recipe)).parse(block_of(text)))
    assert without_lines(converted(pa.Table.from_pylist(rows), recipe)) == expected
    assert [len(features) for features, *_ in expected] == [5, 3, 3]


def test_slices_read_their_own_rows() -> None:
    table = pa.table({"y": [0, 1] * 50, "city": [f"c{k % 7}" for k in range(100)], "n": list(range(100))})
    encoded = table.set_column(1, "city", table["city"].combine_chunks().dictionary_encode())
    columns = (Column("y", "label"), Column("city", "category"), Column("n", "whole", edges=(30.0, 60.0)))
    recipe = Recipe(kind="table", columns=columns)
    for whole in (table, encoded):
        (batch,) = whole.to_batches()
        every = without_lines(converted(whole, recipe))
        maker = ArrowTable(EncodingPlan(recipe), whole.column_names)
        assert without_lines(maker.convert(batch.slice(13, 50))) == every[13:63]
        prepared = maker.prepare(batch.slice(3))
        assert without_lines(maker.parse(prepared, 10, 40)) == every[13:43]


def test_nulls_within_dictionaries_and_codes() -> None:
    codes = pa.array([0, None, 1, 2, 0], pa.int8())
    city = pa.DictionaryArray.from_arrays(codes, pa.array(["u", None, "v"]))
    columns = (Column("y", "label"), Column("city", "category"))
    piece = converted({"y": [1] * 5, "city": city}, Recipe(kind="table", columns=columns))
    csv, _ = parse(b"y,city\n1,u\n1,\n1,\n1,v\n1,u\n", Recipe(kind="table", columns=columns))
    assert without_lines(piece) == without_lines(csv)


# --- fit ------------------------------------------------------------------------------------------------------------


def test_types_decide_what_columns_are() -> None:
    table = pa.table(
        {
            "label": [True, False],
            "digits": ["17", "18"],
            "n": [17, None],
            "whole": [17.0, None],
            "share": [0.5, np.nan],
            "ok": [True, None],
            "when": [datetime.date(2013, 1, 1), None],
            "none": pa.array([None, None], pa.null()),
            "said": ["this is a long text of many words", None],
            "dictionary": pa.array(["u", "v"]).dictionary_encode(),
            "tags": [["a"], []],
        }
    )
    recipe = fit_arrow(Recipe(kind="table"), table.to_batches())
    assert {column.name: column.role for column in recipe.columns} == {
        "label": "label",
        "digits": "category",
        "n": "values",
        "whole": "values",
        "share": "values",
        "ok": "flag",
        "when": "date",
        "none": "category",
        "said": "text",
        "dictionary": "category",
        "tags": "category",
    }


def test_dates_are_the_same_from_text_and_from_types() -> None:
    rng = np.random.default_rng(2)
    moments = [datetime.datetime(2013, 1, 1) + datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 10**8, 300)]
    moments[7] = None
    labels = [k % 2 for k in range(300)]
    days = [None if moment is None else moment.date() for moment in moments]
    texts = ["" if moment is None else str(moment) for moment in moments]
    unix = [None if m is None else int((m - datetime.datetime(1970, 1, 1)).total_seconds()) for m in moments]
    csv = "y,when,day,unix\n" + "".join(
        f"{y},{text},{'' if day is None else day},{'' if u is None else u}\n"
        for y, text, day, u in zip(labels, texts, days, unix, strict=True)
    )
    expected, recipe = parse(csv.encode(), Recipe(kind="table"))
    every = ("hour", "weekday", "month", "weekend hour")
    assert [column.parts for column in recipe.columns[1:]] == [every, ("weekday", "month"), every]
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    in_zone = [None if moment is None else moment.replace(tzinfo=zone) for moment in moments]
    for when in (
        pa.array(moments, pa.timestamp("s")),
        pa.array(moments, pa.timestamp("ns")),
        pa.array(in_zone, pa.timestamp("us", "America/Bogota")),
        pa.array([text or None for text in texts]),
        pa.array(texts).dictionary_encode(),
    ):
        table = pa.table({"y": labels, "when": when, "day": pa.array(days, pa.date32()), "unix": unix})
        found = fit_arrow(Recipe(kind="table"), table.to_batches())
        assert found.columns == recipe.columns
        assert without_lines(converted(table, found)) == without_lines(expected)
    lines = "\n".join(
        json.dumps({"y": y, "when": text or None, "day": None if day is None else str(day), "unix": u})
        for y, text, day, u in zip(labels, texts, days, unix, strict=True)
    )
    assert without_lines(JsonLinesParser(EncodingPlan(recipe)).parse(block_of(lines.encode()))) == without_lines(
        expected
    )


# --- reading --------------------------------------------------------------------------------------------------------


def frame(rows: int = 30_000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "city": pd.Categorical(rng.choice(["Paris", "Rome", "New York, NY"], rows)),
            "n": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(0, 500, rows)),
            "share": rng.normal(size=rows),
            "id": [f"id{k % 5000}" for k in range(rows)],
            "y": rng.integers(0, 2, rows),
        }
    )


def arrays_of(source: Source) -> dict[str, bytes]:
    batches = list(source)
    names = ("indices", "values", "labels", "positions")
    return {name: np.concatenate([getattr(batch, name) for batch in batches]).tobytes() for name in names}


def test_frames_tables_streams_and_parquet_files_agree(tmp_path) -> None:
    data = frame()
    table = pa.Table.from_pandas(data)
    paths = [str(tmp_path / f"{k}.parquet") for k in range(3)]
    pq.write_table(table, paths[0], row_group_size=7_000)
    pq.write_table(table, paths[1], use_dictionary=False, compression="zstd")
    plain = [table[name].cast(pa.string()) if name == "city" else table[name] for name in table.column_names]
    pq.write_table(pa.table(plain, names=table.column_names), paths[2])
    expected = None
    for threads in (0, 1):
        for make in (
            lambda c: ArrowReader(data, c),
            lambda c: ArrowReader(table, c),
            lambda c: ArrowReader(table.to_reader(1_000), c),
            *(lambda c, path=path: ParquetReader(BlockReader([path]), c) for path in paths),
        ):
            extras = Extras.new(Recipe(kind="table"))
            found = arrays_of(Source(make(extras), extras, threads=threads))
            names = {key: array.tobytes() for key, array in extras.names.arrays().items()}
            expected = expected or (found, names, extras.recipe)
            assert found == expected[0]
            assert names == expected[1]
            assert extras.recipe == expected[2]


def test_a_recipe_fitted_to_csv_reads_parquet(tmp_path) -> None:
    data = frame(2_000)
    data["n"] = data["n"].fillna(7).astype(int)
    piece, recipe = parse(data.to_csv(index=False).encode(), Recipe(kind="table"))
    path = tmp_path / "t.parquet"
    data[["y", "id", "n", "city", "share"]].to_parquet(path)
    extras = Extras.new(recipe)
    (batch,) = Source(ParquetReader(BlockReader([str(path)]), extras), extras)
    assert batch.indices.tobytes() == piece.indices.tobytes()
    assert batch.labels.tolist() == np.where(piece.labels == 0, -1, piece.labels).tolist()


def test_only_a_stream_is_used_up() -> None:
    table = pa.Table.from_pandas(frame(100))
    extras = Extras.new(Recipe(kind="table"))
    source = Source(ArrowReader(table, extras), extras)
    assert [len(batch) for batch in source] == [len(batch) for batch in source] == [100]
    extras = Extras.new(Recipe(kind="table"))
    source = Source(ArrowReader(table.to_reader(), extras), extras)
    assert source.peek().nonzeros > 0
    assert [len(batch) for batch in source] == [100]
    with pytest.raises(BadInput, match="once"):
        list(source)


def test_columns_that_are_not_needed_are_not_read(tmp_path) -> None:
    path = tmp_path / "t.parquet"
    data = frame(50)
    data["junk"] = [{"deep": [1, 2]}] * 50
    data.to_parquet(path)
    extras = Extras.new(Recipe(kind="table", ignore=["junk.deep"]))
    reader = ParquetReader(BlockReader([str(path)]), extras)
    (batch,) = Source(reader, extras)
    assert len(batch) == 50
    assert reader.bytes_done == reader.bytes_total
    task = next(iter(reader._pass()))
    assert "junk" not in task.shared.batch.schema.names


def test_files_that_cannot_be_read_are_named(tmp_path) -> None:
    broken, other = tmp_path / "broken.parquet", tmp_path / "other.parquet"
    broken.write_bytes(b"PAR1 this is none")
    frame(10).to_parquet(tmp_path / "t.parquet")
    frame(10).drop(columns="id").to_parquet(other)
    extras = Extras.new(Recipe(kind="table"))
    with pytest.raises(BadInput, match=r"broken\.parquet: the Parquet file cannot be read"):
        list(Source(ParquetReader(BlockReader([str(broken)]), extras), extras))
    with pytest.raises(BadInput, match=r"other\.parquet: there is no column 'id'"):
        list(Source(ParquetReader(BlockReader([str(tmp_path / "t.parquet"), str(other)]), extras), extras))
    with pytest.raises(BadInput, match="standard input"):
        ParquetReader(BlockReader(["-"]), extras)


def test_a_damaged_file_is_a_sentence_wherever_it_is_damaged(tmp_path) -> None:
    """Also in its pages, which are read for the fit and again for learning."""
    rows = 300
    table = {"a": [k / 7 for k in range(rows)], "s": [f"v{k % 17}" for k in range(rows)], "y": [0, 1] * (rows // 2)}
    table["l"] = [[f"w{k % 3}", "é"] for k in range(rows)]
    pq.write_table(pa.table(table), tmp_path / "t.parquet", compression="none", use_dictionary=False)
    good, path = (tmp_path / "t.parquet").read_bytes(), tmp_path / "broken.parquet"
    fitted = Extras.new(Recipe(kind="table"))
    list(Source(ParquetReader(BlockReader([str(tmp_path / "t.parquet")]), fitted), fitted))
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(60):
        text = np.frombuffer(good, np.uint8).copy()
        text[rng.integers(len(text), size=3)] = rng.integers(256, size=3)
        path.write_bytes(text.tobytes())
        for extras in (Extras.new(Recipe(kind="table")), fitted):
            try:
                list(Source(ParquetReader(BlockReader([str(path)]), extras), extras))
            except BadInput as error:
                refused.append(str(error))
    assert len(refused) > 20
    assert all(sentence[-1] in ".?" for sentence in refused)


def test_two_columns_of_one_name_are_refused(tmp_path) -> None:
    twice = pa.Table.from_arrays([pa.array([1, 0]), pa.array(["u", "v"]), pa.array([0, 1])], names=["a", "a", "y"])
    nested = pa.table({"u": [{"a": 1}, {"a": 2}], "u.a": [1, 2], "y": [0, 1]})
    for table, name in ((twice, "a"), (nested, r"u\.a")):
        pq.write_table(table, tmp_path / "t.parquet")
        for make in (
            lambda e: ParquetReader(BlockReader([str(tmp_path / "t.parquet")]), e),
            lambda e, t=table: ArrowReader(t, e),
        ):
            extras = Extras.new(Recipe(kind="table"))
            with pytest.raises(BadInput, match=f"two columns '{name}'; each column needs a unique name"):
                list(Source(make(extras), extras))


@pytest.mark.parametrize("parquet", [False, True])
def test_a_column_with_a_dot_beside_a_struct_is_not_dropped(tmp_path, parquet) -> None:
    table = pa.table({"y": [1, 0], "a.b": [1, 2], "a": pa.array([{"b": 3}, {"b": 4}])})
    data = table
    if parquet:
        data = tmp_path / "x.parquet"
        pq.write_table(table, data)
    with pytest.raises(BadInput, match=r"two columns 'a\.b'; each"):
        list(sources.open(data, recipe={"bits": 8}))
    with pytest.raises(BadInput, match=r"two columns 'x'"):
        list(sources.open(pa.table([[1, 0], [1, 2], [3, 4]], names=["y", "x", "x"]), recipe={"bits": 8}))


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX alone")
def test_a_file_whose_name_is_no_text_is_read(tmp_path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    frame(10).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").rename(path)
    extras = Extras.new(Recipe(kind="table"))
    assert sum(map(len, Source(ParquetReader(BlockReader([path]), extras), extras))) == 10
