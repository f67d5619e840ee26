"""CSV, TSV and Criteo files: the kernels against the slow obvious parser, the rules one by one, and real files."""

import datetime
import gzip
import io
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou import sources
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.learners import Marginal
from bayou.recipe.crosses import MAX_ROW_CROSSES, column_crosses
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.hashing import hash_bytes
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.formats.delimited.reader import DelimitedReader
from bayou.sources.formats.delimited.split import CRITEO
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.source import Source
from tests.sources import slow_table
from tests.sources.mutate import mutated
from tests.sources.tables import COLUMNS, NAMES, NEWER_COLUMNS, RECIPE, parse, rows_of, slow_rows

HEADER = ",".join(NAMES).encode() + b"\n"


def assert_same(text: bytes, recipe: Recipe = RECIPE) -> None:
    """The kernels make the same examples of a text (without header), bit for bit, as the slow parser."""
    text = text if text.endswith(b"\n") or not text else text + b"\n"
    piece, _ = parse(HEADER + text, recipe)
    names = [column.name for column in recipe.columns]
    pairs = [tuple(names[c] for c in chosen) for chosen in column_crosses(recipe)]
    rows, bad = slow_table.parse(recipe, NAMES, text, pairs=pairs)
    # The header takes a line, and a value that is exactly 0 is no feature.
    got = [
        ([(i, v) for i, v in features if v != 0], label, weight, line - 1)
        for features, label, weight, line in rows_of(piece)
    ]
    assert got == slow_rows(rows)
    assert piece.skipped == bad
    assert piece.lines == text.count(b"\n") + 1


NUMBERS = st.one_of(
    st.integers(-100, 100).map(str),
    st.integers(-(10**18), 10**18).map(str),
    st.floats(-1e6, 1e6).map(repr),
    st.sampled_from(
        ["", " ", "NA", "?", "007", "+7", "-0", "-007", "7.0", "7.", ".5", "1e3", "1e-3", " 5 ", "1e400", "x"]
    ),
    st.sampled_from(["7.5.1", "0x1", "nan", "inf", "-", "1e", "9007199254740993.0", "12345678901234567890123", "1,5"]),
)
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["Paris", "paris", "São Paulo", "true", "FALSE", "True", "", "two words", "ÄRGER, Ärger!", "a_b-c", "İ"]
    ),
)
LABELS = st.sampled_from(["1", "0", "-1", "true", "FALSE", "1.0", "", "x", "2", "1e13", " 1 "])
WEIGHTS = st.sampled_from(["1", "0", "2.5", "1e6", "1e7", "-1", "", "x", "NA"])
ROWS = st.tuples(LABELS, WEIGHTS, WORDS, WORDS, st.one_of(NUMBERS, WORDS), NUMBERS, NUMBERS, NUMBERS, WORDS, WORDS)


def written(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in ',"\n\r') else cell


@settings(max_examples=200)
@given(st.lists(ROWS, max_size=8))
def test_random_tables_give_the_rows_of_the_slow_parser(rows: list[tuple[str, ...]]) -> None:
    text = "".join(",".join(map(written, row)) + "\n" for row in rows).encode("utf-8", "replace")
    assert_same(text)


@given(st.lists(ROWS, max_size=5))
def test_crosses_are_those_of_the_slow_parser(rows: list[tuple[str, ...]]) -> None:
    text = "".join(",".join(map(written, row)) + "\n" for row in rows).encode("utf-8", "replace")
    for cross in ([("city", "age")], [("said", "size"), ("id", "*")], [("*", "*")], [("said", "*", "age")]):
        assert_same(text, Recipe(kind="table", bits=22, columns=COLUMNS, cross=cross))
    for letters in (["ac", "scx"], ["s:"], [":::", "asci"]):
        assert_same(text, Recipe(kind="table", bits=22, columns=COLUMNS, interactions=letters))


DATES = st.one_of(
    st.datetimes(min_value=datetime.datetime(1, 1, 1)).map(str),
    st.datetimes(min_value=datetime.datetime(1900, 1, 1)).map(lambda when: f"{when:%Y-%m-%dT%H:%M}Z"),
    st.dates().map(str),
    st.integers(0, 4 * 10**9).map(str),
    st.integers(19000101, 20301231).map(str),
    st.sampled_from(["", "unknown", "2013-02-29", "2012-02-29", "2013-1-1", "1360000000.7", "1360000000123", "x"]),
    st.sampled_from(["2013-01-01 10:30+01:00", "2013-01-01 10:30:60", "2013/12/31", "-5", "1e300", "2013-01-01 9:30"]),
)
SIGNED = st.one_of(
    NUMBERS,
    st.from_regex(r"\A[-+]?[$%]? ?[0-9]{1,4}([,.' ][0-9]{2,3}){0,2}([eE][0-9])?( ?[%$])?\Z"),
    st.sampled_from(
        ["Unknown", "UNKNOWN", "nA", "-", "none", "NONE", "1,400 mi", "€ 5", "12 %", "-999", "-999.0", "n.a."]
    ),
)
NEWER_ROWS = st.tuples(LABELS, WEIGHTS, WORDS, WORDS, st.one_of(SIGNED, WORDS), SIGNED, SIGNED, SIGNED, DATES, DATES)


@settings(max_examples=100)
@given(st.lists(NEWER_ROWS, max_size=6))
def test_dates_slopes_and_signed_numbers_are_those_of_the_slow_parser(rows: list[tuple[str, ...]]) -> None:
    text = "".join(",".join(map(written, row)) + "\n" for row in rows).encode("utf-8", "replace")
    for more in ({}, {"decimal": "point"}, {"decimal": "comma"}, {"missing": ["n.a.", "-999"]}, {"missing": [""]}):
        assert_same(text, Recipe(kind="table", bits=20, columns=NEWER_COLUMNS, **more))
    assert_same(text, Recipe(kind="table", bits=22, columns=NEWER_COLUMNS, cross=[("said", "size"), ("x", "city")]))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_skipped(text: bytes) -> None:
    assert_same(text)


def test_ten_thousand_mutated_lines() -> None:
    lines = [
        b"1,1,Paris,true,17,0.5,44,12.5,Free entry in 2 a wkly comp,zz",
        b'-1,0.5,"New York, NY",False,-3,,19,NA,"he said ""no""",',
        b"0,2,,,,1e-3,007,8,\xc3\x84rger \xe2\x82\xac,x",
        b"true,1,a b,maybe,x7,-7,7.0,?,,y",
    ]
    text = mutated(lines, 10_000, seed=3)
    assert_same(text)
    piece, _ = parse(HEADER + text, RECIPE)
    assert 1000 < piece.skipped < 9000
    assert 20 <= len(piece.bad_lines) < 40
    assert piece.error_counts.total() == piece.skipped


def test_label_rules() -> None:
    def labels(recipe: Recipe, *cells: str) -> list[float]:
        piece, _ = parse(b"y,x\n" + "".join(f"{cell},1\n" for cell in cells).encode(), recipe)
        return piece.labels.tolist()

    columns = (Column("y", "label"), Column("x", "category"))
    assert labels(Recipe(kind="table", columns=columns), "1", "0", "-1", "true", "False", "7", "x", "") == [
        1, 0, -1, 1, 0, 7,
    ]  # fmt: skip
    assert labels(Recipe(kind="table", columns=columns, positive=">50K"), ">50K", "<=50K", " >50K ", "") == [1, -1, 1]
    assert labels(Recipe(kind="table", columns=columns, positive="2"), "2", "2.0", "1", "x") == [1, 1, -1, -1]
    assert labels(Recipe(kind="table", columns=columns, label_above=15), "15", "16.5", "-3", "true", "") == [
        15,
        16.5,
        -3,
    ]


def test_without_labels_a_row_is_fine_whatever_its_label() -> None:
    columns = (Column("y", "label"), Column("x", "category"))
    recipe = Recipe(kind="table", columns=columns)
    piece, _ = parse(b"y,x\n1,a\n,b\nzz,c\n", recipe, labels=False)
    assert piece.skipped == 0
    assert piece.labels[0] == 1
    assert np.isnan(piece.labels[1:]).all()
    piece, _ = parse(b"x\na\nb\n", recipe, labels=False)
    assert np.isnan(piece.labels).all()
    assert len(piece.labels) == 2


@pytest.mark.parametrize(
    ("row", "place", "words"),
    [
        (b",1,Paris,true,1,1,1,1,so,z", 1, "expected a label in column y"),
        (b"maybe,1,Paris,true,1,1,1,1,so,z", 1, "a label, 1, 0, -1, true or false, in column y, not 'maybe'"),
        (b"1e13,1,Paris,true,1,1,1,1,so,z", 1, "at most 1e+12 in size in column y"),
        (b"1,-1,Paris,true,1,1,1,1,so,z", 3, "a weight from 0 to 1e+06 in column w, not '-1'"),
        (b"1,1,Paris", 1, "expected 10 cells, found 3"),
        (b"1,1,Paris,true,1,1,1,1,so,z,", 1, "expected 10 cells, found more"),
        (b'1,1,"Paris"x,true,1,1,1,1,so,z', 12, "a delimiter after the closing quote"),
        (b'1,1,"Paris,true,1,1,1,1,so,z', 5, "a closing quote"),
    ],
)
def test_bad_rows_say_where_and_what(row: bytes, place: int, words: str) -> None:
    good = b"1,1,Paris,true,1,1,1,1,so,z\n"
    piece, _ = parse(HEADER + good + row + b"\n" + good, RECIPE)
    assert len(piece.labels) == 2
    assert piece.skipped == 1
    assert (piece.bad_lines[0].line, piece.bad_lines[0].column) == (2, place)
    assert words in piece.bad_lines[0].reason


def test_what_is_no_number_is_missing_and_is_shown() -> None:
    recipe = Recipe(kind="table", bits=20, columns=NEWER_COLUMNS)
    rows = [b"1,1,a,b,1,12 mi,1,1,x,2013-01-01", b"0,1,a,b,1,1,1e999,-,,", b"1,1,a,b,1,??,1,1,unknown,"]
    piece, _ = parse(HEADER + b"\n".join(rows), recipe)
    assert (len(piece.labels), piece.skipped) == (3, 0)
    found = {
        name: (count, [(bad.line, bad.column, bad.reason) for bad in some])
        for name, (count, some) in piece.odd_cells.items()
    }
    assert found == {
        "x": (2, [(1, 11, "'12 mi'"), (3, 11, "'??'")]),
        "age": (1, [(2, 13, "'1e999'")]),
        "said": (1, [(1, 21, "'x'")]),
    }
    missing, _ = parse(HEADER + b"1,1,a,b,1,,1,1,,2013-01-01\n0,1,a,b,1,1,,,,\n1,1,a,b,1,,1,1,,", recipe)
    assert rows_of(missing) == rows_of(piece)


@pytest.mark.parametrize(("ngrams", "characters"), [(2, 0), (3, 2), (1, 4), (2, 1), (8, 8)])
def test_runs_of_words_and_characters_are_features(ngrams: int, characters: int) -> None:
    columns = (Column("y", "label"), Column("a", "text"), Column("b", "category"))
    recipe = Recipe(kind="table", columns=columns, ngrams=ngrams, char_ngrams=characters)
    texts = ["free entry: WIN win", "Ärger im Büro", "", "a", "日本 語x", "__ _", "x" * 40, "no no no no", "!!"]
    text = "".join(f'{k % 2},"{said}",c\n' for k, said in enumerate(texts)).encode()
    piece, _ = parse(b"y,a,b\n" + text, recipe)
    rows, _ = slow_table.parse(recipe, ["y", "a", "b"], text, pairs=[])
    assert [features for features, *_ in rows_of(piece)] == [features for features, *_ in slow_rows(rows)]


def test_a_row_cannot_have_features_without_end() -> None:
    columns = (Column("y", "label"), Column("a", "text"), Column("b", "text"))
    recipe = Recipe(kind="table", columns=columns, cross=[("a", "b")])
    many, more = (" ".join(f"w{k}" for k in range(n)).encode() for n in (256, 257))
    text = b"y,a,b\n1,so,so\n1,%b,%b\n0,%b,%b\n0,no,no\n" % (many, more, many, many)
    piece, _ = parse(text, recipe)
    assert piece.labels.tolist() == [1, 0, 0]
    assert np.diff(piece.indptr).tolist() == [3, MAX_ROW_CROSSES + 512, 3]
    assert [bad.line for bad in piece.bad_lines] == [2]
    assert "at most 1048576 features, and 65536 pairs of them" in piece.bad_lines[0].reason


def test_a_row_may_have_more_words_than_pairs() -> None:
    columns = (Column("y", "label"), Column("a", "text"), Column("b", "text"))
    words = " ".join(f"w{k}" for k in range(70_000)).encode()
    piece, _ = parse(b"y,a,b\n1,%b,\n" % words, Recipe(kind="table", columns=columns, cross=[("a", "b")]))
    assert len(piece.indices) == 70_000


# --- columns by name ------------------------------------------------------------------------------------------------


def test_columns_are_found_by_name_in_any_order() -> None:
    one, recipe = parse(b"y,a,n\n1,u,3\n0,v,4\n", Recipe(kind="table"))
    other, _ = parse(b"n,extra,a,y\n3,?,u,1\n4,?,v,0\n", recipe)
    assert rows_of(one) == rows_of(other)


def test_a_column_that_is_needed_must_be_there() -> None:
    _, recipe = parse(b"y,a,n\n1,u,3\n", Recipe(kind="table"))
    with pytest.raises(BadInput, match=r"no column 'n' \(values\).*the columns are y, a"):
        parse(b"y,a\n1,u\n", recipe)
    with pytest.raises(BadInput, match="no column 'y'"):
        parse(b"a,n\nu,3\n", recipe)


def test_names_are_reported_once_and_in_words() -> None:
    names = FeatureNames(2**20)
    recipe = Recipe(kind="table", bits=20, columns=COLUMNS, cross=[("city", "age")])
    row = b'1,1,Paris,TRUE,007,0.5,44,12,Win 2 win,x\n-1,1,,no,,,,,"a ""b""",x\n'
    piece, _ = parse(HEADER + row, recipe, names=names)
    names.add(piece.new_names)
    assert names.name_of(piece.indices[piece.indptr[0] : piece.indptr[1]]) == [
        "city=Paris", "on=true", "id=7", "x in [0,2.5)", "age in [30,65)", "age=44", "size",
        "said=win", "said=2", "city=Paris & age in [30,65)", "city=Paris & age=44",
    ]  # fmt: skip
    assert names.name_of(piece.indices[piece.indptr[1] :]) == [
        "city=", "on=no", "id=", "x=", "age=", "size=", "said=a", "said=b", "city= & age=",
    ]  # fmt: skip
    again, _ = parse(HEADER + row, recipe, names=names)
    assert again.new_names is None


def test_names_of_dates_slopes_and_signed_numbers() -> None:
    names = FeatureNames(2**20)
    recipe = Recipe(kind="table", bits=20, columns=NEWER_COLUMNS, decimal="point", cross=[("said", "size")])
    row = b'1,1,Paris,x,7,0.5,"1,400",0.50,2013-01-05 17:30,2013-01-05\n-1,1,,,,,,,,\n'
    piece, _ = parse(HEADER + row, recipe, names=names)
    names.add(piece.new_names)
    first, second = (names.name_of(piece.indices[piece.indptr[k] : piece.indptr[k + 1]]) for k in range(2))
    assert first[:-8] == [
        "city=Paris", "id=7", "x in [0,2.5)", "x", "age>=65", "age=1400", "age (raw)", "size=0.5", "size",
        "said hour=17", "said weekday=Sat", "said month=Jan", "said weekend hour=17", "junk weekday=Sat",
    ]  # fmt: skip
    assert first[-8:-5] == ["said hour=17 & size=0.5", "said hour=17 & size", "said weekday=Sat & size=0.5"]
    assert second[:9] == [
        "city=", "id=", "x=", "age=", "size=", "said hour=", "said weekday=", "said month=", "said weekend hour=",
    ]  # fmt: skip


def test_names_of_bad_rows_are_not_reported() -> None:
    names = FeatureNames(2**20)
    piece, _ = parse(HEADER + b"1,-1,Rome,true,1,7,1,1,so,z\n", RECIPE, names=names)
    assert piece.skipped == 1
    assert piece.new_names is None


def test_features_are_hashed_as_documented() -> None:
    piece, _ = parse(HEADER + b"1,1,Paris,true,17,0.5,44,12,hi,x\n", Recipe(kind="table", bits=31, columns=COLUMNS))

    def of(column: str, value: str) -> int:
        return hash_bytes(value.encode(), hash_bytes(column.encode())) % 2**31

    assert piece.indices.tolist() == [
        of("city", "Paris"), of("on", "true"), of("id", "17"), of("x", "\x00bin2"), of("age", "\x00bin2"),
        of("age", "44"), hash_bytes(b"size") % 2**31, of("said", "hi"),
    ]  # fmt: skip
    assert piece.values.tolist() == [1, 1, 1, 1, 1, 1, 0.5, 1]


# --- files ----------------------------------------------------------------------------------------------------------


def source_of(paths, recipe: Recipe, format: str = "csv", threads: int = 0, on_error: str = "skip", **more) -> Source:
    extras = Extras.new(recipe)
    reader = DelimitedReader(BlockReader([str(path) for path in paths]), extras, format=format, **more)
    return Source(reader, extras, on_error=on_error, threads=threads, labels=more.get("labels", True))


def table_text(rows: int, seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)
    lines = [b"y,city,n,said"]
    for k in range(rows):
        city = (b"Paris", b"New York", b'"Rome, old"', b"")[rng.integers(4)]
        said = b'"line one\nline ""two"" %d"' % k if k % 7 == 0 else b"short"
        lines.append(b"%d,%b,%d,%b" % (rng.integers(2), city, rng.integers(1000), said))
    return b"\n".join(lines) + b"\n"


def test_blocks_and_threads_change_nothing(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(table_text(40_000))
    # So few bits that many features share a number: whose name it gets must not depend on blocks either.
    fitted = source_of([path], Recipe(kind="table", text=["said"], bits=10, cross=[("city", "n")]))
    whole = list(fitted)
    names = {key: array.tobytes() for key, array in fitted.extras.names.arrays().items()}
    rows = sum(len(batch) for batch in whole)
    assert (rows, fitted.skipped) == (40_000, 0)
    for block_bytes, threads in ((10_000, 0), (1 << 18, 2)):
        source = source_of([path], fitted.recipe, threads=threads)
        for files in source._reader._files:
            files._block_bytes = block_bytes
        parts = list(source)
        assert len(parts) > 1
        for name in ("indices", "values", "labels", "positions"):
            mine = np.concatenate([getattr(batch, name) for batch in parts])
            assert mine.tobytes() == np.concatenate([getattr(batch, name) for batch in whole]).tobytes()
        assert {key: array.tobytes() for key, array in source.extras.names.arrays().items()} == names


def test_the_fit_does_not_depend_on_blocks_and_sees_ten_thousand_rows(tmp_path) -> None:
    path, first = tmp_path / "t.csv", tmp_path / "first.csv"
    text = table_text(12_000)
    path.write_bytes(text)
    columns = []
    for block_bytes in (5_000, 1 << 19):
        source = source_of([path], Recipe(kind="table"))
        source._reader._files[0]._block_bytes = block_bytes
        next(iter(source))
        columns.append(source.recipe.columns)
    found = next(iter(source_of([path], Recipe(kind="table"))))
    assert found.positions[0] == 2
    assert columns[0] == columns[1]
    rows, _ = slow_table.split(text[text.index(b"\n") + 1 :], b",", 4)
    first.write_bytes(b"y,city,n,said\n" + b"".join(b"%b,,%b,\n" % (cells[0], cells[2]) for _, cells in rows[:10_000]))
    short = source_of([first], Recipe(kind="table"))
    next(iter(short))
    assert short.recipe.columns[2] == columns[0][2]


def test_several_files_each_with_its_own_header(tmp_path) -> None:
    one, two = tmp_path / "1.csv", tmp_path / "2.csv.gz"
    one.write_bytes(b"y,city,n\n1,a,1\n0,b,2\n")
    two.write_bytes(gzip.compress(b"n;more;city;y\n1;x;a;1\n2;x;b;oops\n2;x;b;0\n"))
    source = source_of([one, two], Recipe(kind="table"))
    first, second = source
    assert first.indices.tobytes() == second.indices.tobytes()
    assert first.labels.tolist() == second.labels.tolist()
    assert second.positions.tolist() == [2, 4]
    assert source.bad_lines == [f"{two}:3:7: expected a label, 1, 0, -1, true or false, in column y, not 'oops'."]
    assert source.bytes_done == source.bytes_total
    # and again
    assert [len(batch) for batch in source] == [2, 2]


def test_rows_of_a_file_without_the_label_say_nothing_of_other_columns(tmp_path) -> None:
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_bytes(b"y,age,city\n" + b"".join(b"%d,%d,oslo\n" % (k % 2, k // 2) for k in range(60)))
    two.write_bytes(b"age,grade\n" + b"".join(b"%d,a\n" % (k // 2) for k in range(60, 120)))
    source = source_of([one, two], Recipe(kind="table"))
    with pytest.raises(BadInput, match=r"2\.csv: there is no column 'y'"):
        list(source)
    label, age, city = source.recipe.columns
    assert (label.missing, age.missing, city.missing) == (0.5, 0.0, 0.5)
    assert age.role == "bins"
    assert "60 different" in age.why


def test_a_file_without_the_columns_is_refused_by_name(tmp_path) -> None:
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_bytes(b"y,city\n1,a\n")
    two.write_bytes(b"y,town\n1,a\n")
    with pytest.raises(BadInput, match=r"2\.csv: there is no column 'city'"):
        list(source_of([one, two], Recipe(kind="table")))


@pytest.mark.parametrize(("text", "words"), [(b"", "no rows"), (b"y,a\n", "no rows"), (b"\n", "no header line")])
def test_tables_of_nothing(tmp_path, text: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    with pytest.raises(BadInput, match=words):
        list(source_of([path], Recipe(kind="table")))


def test_a_table_can_be_peeked_at_before_it_is_read(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(table_text(100))
    source = source_of([path], Recipe(kind="table"))
    peek = source.peek()
    (batch,) = source
    assert peek.indices.tobytes() == batch.indices.tobytes()


def test_a_file_of_nothing_can_be_peeked_at_with_a_fitted_recipe(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"")
    source = source_of([path], Recipe(kind="table", columns=(Column("y", "label"), Column("a", "category"))))
    assert len(source.peek()) == 0
    assert list(source) == []


def test_carriage_returns_bom_and_no_last_newline(tmp_path) -> None:
    plain, odd = tmp_path / "plain.csv", tmp_path / "odd.csv"
    plain.write_bytes(b"y,city\n1,a\n0,b\n")
    odd.write_bytes(b"\xef\xbb\xbfy,city\r\n1,a\r\n0,b")
    one, other = (
        np.concatenate([batch.indices for batch in source_of([path], Recipe(kind="table"))]) for path in (plain, odd)
    )
    assert len(one) == 2
    assert one.tobytes() == other.tobytes()


def test_the_exact_mode_numbers_features_as_they_come(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"y,city,n\n1,a,7\n0,b,7\n1,a,8\n")
    source = source_of([path], Recipe(kind="table", exact=True, bits=8, category=["n"]))
    (batch,) = source
    assert batch.indices.tolist() == [0, 1, 2, 1, 0, 3]
    assert source.extras.names.name_of(np.arange(4)) == ["city=a", "n=7", "city=b", "n=8"]


# --- real files -----------------------------------------------------------------------------------------------------


def log_loss(source: Source) -> tuple[float, float]:
    """(of the predictions made before learning, of always predicting the share of positives)."""
    learner = Marginal(n_features=source.recipe.n_features)
    losses, labels = [], []
    for batch in source:
        p = learner.learn(batch)
        losses.append(-np.log(np.where(batch.labels > 0, p, 1 - p)))
        labels.append(batch.labels > 0)
    share = float(np.concatenate(labels).mean())
    base = -share * math.log(share) - (1 - share) * math.log(1 - share)
    return float(np.concatenate(losses).mean()), base


@pytest.mark.parametrize(
    ("name", "format", "options", "rows", "most"),
    [
        ("adult.csv.gz", "csv", {"label": "income", "positive": ">50K", "ignore": ["split"]}, 48_842, 0.30),
        ("criteo.raw8k.tsv.gz", "criteo", {}, 8_000, 0.50),
        (
            "nycflights13.csv.gz",
            "csv",
            {
                "label": "arr_delay",
                "label_above": 15,
                "ignore": ["dep_time", "dep_delay", "arr_time", "air_time"],
                "category": ["time_hour"],  # in a stream the hour itself tells of the day's weather
            },
            327_346,
            0.50,
        ),
        (
            "talkingdata.sample100k.csv.gz",
            "csv",
            {"label": "is_attributed", "ignore": ["attributed_time", "click_time"]},
            100_000,
            0.010,
        ),
        ("bank_marketing.csv.gz", "csv", {"positive": "yes", "ignore": ["duration"]}, 45_211, 0.31),
    ],
)
def test_real_files_are_learned_as_they_are(data_directory, name, format, options, rows, most) -> None:
    source = source_of([data_directory / name], Recipe(kind="table", **options), format)
    loss, base = log_loss(source)
    assert source.rows == rows
    assert loss < min(most, 0.95 * base)


def test_criteo_columns_are_counts_and_categories(data_directory) -> None:
    source = source_of([data_directory / "criteo.raw8k.tsv.gz"], Recipe(kind="table"), "criteo")
    batch = next(iter(source))
    assert [column.role for column in source.recipe.columns] == ["label", *["bins"] * 13, *["category"] * 26]
    assert [column.name for column in source.recipe.columns] == list(CRITEO)
    assert (np.diff(batch.indptr) == 39).mean() > 0.99


def wide(n: int) -> bytes:
    rows = [["y", *(f"c{k}" for k in range(n))]]
    rows += [[str(row % 2), *(str((k + row) % 5) for k in range(n))] for row in range(6)]
    return "".join(",".join(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_tables_that_are_too_wide_are_refused_with_the_limit(tmp_path, monkeypatch, name) -> None:
    monkeypatch.setattr("bayou.sources.table.cell_columns.MAX_COLUMNS", 50)
    table = pd.read_csv(io.BytesIO(wide(50)))
    writers = {
        "x.csv": lambda table, path: table.to_csv(path, index=False),
        "x.jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
        "x.parquet": lambda table, path: table.to_parquet(path),
    }
    writers[name](table, tmp_path / name)
    with pytest.raises(BadInput, match=r"there are 51 columns; at most 50 can be read.*svmlight"):
        list(sources.open(tmp_path / name, recipe={"bits": 8}))
    writers[name](table.iloc[:, :50], tmp_path / name)
    assert sum(map(len, sources.open(tmp_path / name, recipe={"bits": 8}))) == 6


@pytest.mark.long
def test_a_very_wide_table_is_read(tmp_path) -> None:
    """Where anything is done for each pair of columns, this takes minutes."""
    (tmp_path / "x.csv").write_bytes(wide(16_000))
    assert sum(map(len, sources.open(tmp_path / "x.csv", recipe={"bits": 8}, threads=0))) == 6


@pytest.mark.parametrize("cell", [b"NA\x00", b"?\x00", b"na\x00\x00"])
def test_a_word_for_a_missing_number_with_a_nul_behind_it_is_no_such_word(cell) -> None:
    columns = (Column("y", "label"), Column("x", "bins"))
    text = b"y,x\n1,NA\n0," + cell + b"\n"
    piece, _ = parse(text, Recipe(kind="table", columns=columns))
    assert (len(piece.labels), piece.odd_cells["x"][0]) == (2, 1)


def test_long_whole_numbers_are_one_code_however_they_are_written() -> None:
    columns = (Column("y", "label"), Column("x", "code"))
    cells = (b"-99999999999999999999999", b"-0099999999999999999999999", b" -099999999999999999999999 ")
    text = b"y,x\n" + b"".join(b"1,%s\n" % cell for cell in cells)
    piece, _ = parse(text, Recipe(kind="table", columns=columns))
    assert len(set(piece.indices.tolist())) == 1
