"""JSON lines: what lines mean, which are bad, and real files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou import sources
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.formats.jsonl import JsonLinesParser, JsonReader, summaries_of
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.rows.json_objects import read_lines
from bayou.sources.source import Source
from bayou.sources.table.encoding_plan import EncodingPlan
from bayou.sources.table.fit import fit
from tests.sources.formats.test_csv import log_loss
from tests.sources.mutate import mutated
from tests.sources.tables import COLUMNS, NAMES, RECIPE, block_of, parse, rows_of


def lines_of(*objects) -> bytes:
    return b"".join(json.dumps(found).encode() + b"\n" for found in objects)


def parsed(text: bytes, recipe: Recipe, names: FeatureNames | None = None, labels: bool = True):
    block = block_of(text)
    if not recipe.fitted:
        recipe = fit(recipe, summaries_of(read_lines(block)[0], recipe), labels=labels)
    return JsonLinesParser(EncodingPlan(recipe, names=names, labels=labels)).parse(block), recipe


def names_of(text: bytes, recipe: Recipe) -> list[list[str]]:
    names = FeatureNames(recipe.n_features)
    piece, _ = parsed(text, recipe, names)
    if piece.new_names is not None:
        names.add(piece.new_names)
    return [names.name_of(piece.indices[a:b]) for a, b in zip(piece.indptr[:-1], piece.indptr[1:], strict=True)]


def test_values_are_what_a_csv_file_would_say() -> None:
    csv = b",".join(name.encode() for name in NAMES) + b"\n1,2.5,Paris,true,7,0.5,44,12.5,Win a WIN,\n0,1,,,x,,,,,\n"
    rows = lines_of(
        {"y": 1, "w": 2.5, "city": "Paris", "on": True, "id": 7.0, "x": 0.5, "age": 44, "size": 12.5,
         "said": "Win a WIN"},
        {"y": False, "w": 1, "city": None, "id": "x"},
    )  # fmt: skip
    mine, theirs = rows_of(parsed(rows, RECIPE)[0]), rows_of(parse(csv, RECIPE)[0])
    assert [row[:3] for row in mine] == [row[:3] for row in theirs]


def test_nested_objects_and_lists() -> None:
    text = lines_of(
        {"y": 1, "user": {"age": 7, "home": {"city": "Rome"}}, "tags": ["a", "b", "a", ""], "ids": [3, 4.0, True]},
        {"y": 0, "user": {"age": 7}, "tags": [], "ids": 5},
    )
    assert names_of(text, Recipe(kind="table", bins=2)) == [
        ["user.age=7", "user.home.city=Rome", "tags=a", "tags=b", "ids=3", "ids=4", "ids=true"],
        ["user.age=7", "user.home.city=", "tags=", "ids=5"],
    ]


def test_a_list_in_another_line_of_the_block_changes_nothing() -> None:
    recipe = Recipe(kind="table", columns=(Column("y", "label"), Column("a", "code"), Column("b", "category")))
    one, two = lines_of({"y": 1, "a": "007", "b": None}), lines_of({"y": 1, "a": [1, "08"], "b": ["u"]})
    together = rows_of(parsed(one + two, recipe)[0])
    apart = rows_of(parsed(one, recipe)[0]) + rows_of(parsed(two, recipe)[0])
    assert [row[0] for row in together] == [row[0] for row in apart]


def test_a_label_that_is_a_list_is_positive_if_it_holds_the_value() -> None:
    text = lines_of({"label": ["earn", "acq"], "a": "x"}, {"label": [], "a": "x"}, {"label": ["acq"], "a": "x"})
    piece, _ = parsed(text, Recipe(kind="table", positive="earn"))
    assert piece.labels.tolist() == [1, -1, -1]


def test_text_is_never_taken_for_a_number() -> None:
    _, recipe = parsed(lines_of({"y": 1, "a": "7", "b": 7}), Recipe(kind="table"))
    assert {column.name: column.role for column in recipe.columns} == {"y": "label", "a": "category", "b": "values"}


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        (b"{", 2, "expected a JSON object: expecting property name"),
        (b'{"y": 1,}', 9, "expected a JSON object"),
        (b"[1, 2]", 1, "expected a JSON object such as"),
        (b"7", 1, "expected a JSON object such as"),
        (b'{"y": "\xff"}', 8, "UTF-8"),
        (b"[" * 100_000, 1, "nested less deeply"),
        (b'{"y": ' + b"9" * 5000 + b"}", 1, "expected a JSON object such as"),
        (b'{"y": null, "x": 1}', 0, "a label in column y"),
    ],
)
def test_bad_lines_are_skipped_and_described(line: bytes, place: int, words: str) -> None:
    recipe = Recipe(kind="table", columns=(Column("y", "label"), Column("x", "bins", edges=(1.0,))))
    piece, _ = parsed(b'{"y": 1, "x": NaN}\n\n' + line + b'\n  \n{"y": 0}\n', recipe)
    assert piece.labels.tolist() == [1, 0]
    assert piece.positions.tolist() == [0, 4]
    assert (piece.skipped, piece.lines) == (1, 5)
    assert (piece.bad_lines[0].line, piece.bad_lines[0].column) == (2, place)
    assert words in piece.bad_lines[0].reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "z"]), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6), max_size=4))
def test_any_objects_are_read_or_skipped(objects: list[dict]) -> None:
    piece, _ = parsed(lines_of(*objects), RECIPE)
    assert len(piece.labels) + piece.skipped == len(objects)
    assert np.isfinite(piece.values).all()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_skipped(text: bytes) -> None:
    piece, _ = parsed(text, Recipe(kind="table", columns=COLUMNS))
    assert len(piece.labels) + piece.skipped <= text.count(b"\n") + 1


def test_ten_thousand_mutated_lines() -> None:
    lines = lines_of(
        {"y": 1, "w": 1, "city": "Paris", "on": True, "id": 7, "x": 0.5, "age": 44, "size": 1, "said": "Win €"},
        {"y": 0, "w": 0.5, "city": None, "on": "FALSE", "id": [1, 2], "x": None, "age": 19, "said": "é b"},
    ).splitlines()
    text = mutated(lines, 10_000, seed=11)
    piece, _ = parsed(text, RECIPE)

    def accepted(line: bytes) -> bool:
        """Line by line, on its own."""
        alone, _ = parsed(line, RECIPE)
        return len(alone.labels) == 1

    some = text.split(b"\n")[:1500]
    positions = set(piece.positions.tolist())
    assert [k in positions for k in range(1500)] == [accepted(line) for line in some]
    blank = sum(not line.strip() for line in text.split(b"\n")[:-1])
    assert len(piece.labels) + piece.skipped == 10_000 - blank
    assert piece.skipped > 1000


NUMBERS = (
    *("7", "7.0", "7.50", "-3", "-0", "-0.0", "0.0", "0", "1e3", "1E-2", "0.00005", "0.0001", "123456789012345678"),
    *(
        "0.1",
        "0.10",
        "0.123456789012345",
        "0.1234567890123456",
        "0.12345678901234567890",
        "9007199254740993.0",
        "1e400",
    ),
    *("99999999999999.5", "1000000000000000.5", "12345678901234567890", "-12.340", "3.", "01", "+1", ".5", "NaN"),
)
VALUES = st.sampled_from([*NUMBERS, "true", "false", "null", '"7.0"', '"Paris"', '"Win €"', '""', '" a "', '"0.50"'])
LINES = st.lists(st.tuples(st.sampled_from([*NAMES, "z", "cit"]), VALUES, st.sampled_from(["", " ", "\t"])), max_size=9)


SURE = [("y", "1", ""), ("w", "1", "")]  # without which a row is bad


@given(st.lists(LINES, max_size=5))
def test_what_the_kernel_reads_is_what_python_reads(lines) -> None:
    """Lines with an escape in them are for Python; it must not matter."""
    texts = [
        "{" + ",".join(f'"{name}"{blank}:{blank}{value}' for name, value, blank in [*SURE, *line]) + "}\n"
        for line in lines
    ]
    plain = "".join(texts).encode()
    mixed = "".join(text.replace('"y"', '"\\u0079"') if k % 2 else text for k, text in enumerate(texts)).encode()
    escaped = plain.replace(b'"y"', b'"\\u0079"')
    rows, some, slow = (rows_of(parsed(text, RECIPE)[0]) for text in (plain, mixed, escaped))
    assert rows == some == slow


def test_lines_wider_than_the_table_and_names_that_begin_alike() -> None:
    """More names than the kernel has room for are for Python; one that is the beginning of another is another."""
    wide = {"y": 1, "w": 1, "city": "Paris", "cit": "Rome", "citys": "Oslo"} | {f"k{k}": k for k in range(300)}
    narrow = {name: wide[name] for name in ("citys", "city", "cit", "y", "w")}
    first, second = rows_of(parsed(lines_of(wide, narrow), RECIPE)[0])
    assert first[1:3] == second[1:3]


def source_of(path, recipe: Recipe) -> Source:
    extras = Extras.new(recipe)
    return Source(JsonReader(BlockReader([str(path)]), extras), extras, on_error="skip", threads=0)


def test_real_files_are_learned_as_they_are(data_directory) -> None:
    loss, base = log_loss(source_of(data_directory / "sms_spam.jsonl.gz", Recipe(kind="table")))
    assert base > 0.39
    assert loss < 0.09


def test_keys_that_come_after_the_fit_are_left_out(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines_of({"y": 1, "a": "u"}) * 10_000 + lines_of({"y": 0, "a": "u", "late": 3}))
    source = source_of(path, Recipe(kind="table"))
    batches = list(source)
    assert source.rows == 10_001
    assert batches[-1].indptr[-1] - batches[-1].indptr[-2] == 1


def test_a_name_with_half_a_character_is_a_bad_line(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"y": 1, "a": "u"}\n{"y": 0, "\\ud800": 3}\n{"y": 0, "b": {"\\uDFFF": 3}}\n{"y": 0, "\\u00e9": 3}\n'
    )
    source = Source(
        JsonReader(BlockReader([str(path)]), extras := Extras.new(Recipe(kind="table"))), extras, on_error="skip"
    )
    assert sum(map(len, source)) == 2
    assert source.skipped == 2
    assert source.bad_lines[0].endswith(
        "t.jsonl:2:1: expected a JSON object with names that UTF-8 can encode, not half a surrogate pair."
    )
    assert [column.name for column in source.recipe.columns] == ["y", "a", "é"]


@pytest.mark.parametrize(
    "line",
    [
        '{"y": 1, "a.b": 3, "a": {"b": 4}}',
        '{"y": 1, "a": {"b": 4}, "a.b": 3}',
        '{"y": 1, "a": {"b": {"c": 1}, "b.c": 2}}',
    ],
)
def test_a_key_with_a_dot_beside_an_object_is_not_dropped(tmp_path, line) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"y": 0, "a": {"b": 4, "b.c": 2}}\n' + line + "\n")
    with pytest.raises(BadInput, match=r"x\.jsonl:2:1: expected one value for 'a\.b(\.c)?', not one under"):
        list(sources.open(path, recipe={"bits": 8}))
    source = sources.open(path, recipe={"bits": 8}, on_error="skip")
    assert sum(map(len, source)) == source.skipped == 1


@pytest.mark.parametrize(
    "line", ['{"a": 1, "id": 7}', '{"id": "seven", "a": 1}', '{"a": "\\u0061", "id": 7}', '{"id": null}']
)
def test_rows_that_have_an_id_are_noticed(line):
    recipe = Recipe(kind="table", columns=(Column("a", "category"),))
    without = b'{"a": 1, "ix": 2, "xd": 3}\n{"a": {"id": 1}}\n{"a": "id"}\n'
    assert parsed(without, recipe, labels=False)[0].with_ids is False
    assert parsed(without + line.encode() + b"\n", recipe, labels=False)[0].with_ids is True
