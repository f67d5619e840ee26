"""Delimited text into cells: the fast tokeniser against the slow obvious one, and blocks against the whole."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayou.core.errors import BadInput
from bayou.sources.formats.delimited.split import CRITEO, QUOTED_BYTES, layout_of, split, whole_rows_size
from tests.sources import slow_table
from tests.sources.mutate import mutated
from tests.sources.tables import block_of

# Text made of what a tokeniser stumbles over.
PIECES = st.sampled_from(
    [b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b"bc", b" ", b"1.5", b"\x00", b"\xff", b"\xc3\xa9"]
)
TEXTS = st.lists(PIECES, max_size=60).map(b"".join)
LONG_TEXTS = st.tuples(TEXTS, st.integers(0, 200), TEXTS).map(lambda t: t[0] + b"x" * t[1] + t[2])


def fast(text: bytes, width: int, delimiter: int = 44):
    block = block_of(text)
    found = split(block.data, 0, block.size, delimiter, width)
    rows = [
        (
            int(found.lines[r]),
            [
                found.data[found.starts[k] : found.stops[k]].tobytes()
                for k in range(r * width, (r + 1) * width)
            ],
        )
        for r in range(found.rows)
    ]  # fmt: skip
    return rows, found


def assert_same(text: bytes, width: int) -> None:
    text = text if text.endswith(b"\n") or not text else text + b"\n"
    rows, found = fast(text, width)
    expected, bad = slow_table.split(text, b",", width)
    assert rows == expected
    assert found.skipped == bad
    assert found.n_lines == text.count(b"\n")


@settings(max_examples=500)
@given(LONG_TEXTS, st.integers(1, 4))
@example(b'"a""\nb""\n"\n"c', 1)
def test_cells_are_those_of_the_slow_parser(text: bytes, width: int) -> None:
    assert_same(text, width)


@given(st.binary(max_size=300), st.integers(1, 4))
def test_any_bytes_have_the_cells_of_the_slow_parser(text: bytes, width: int) -> None:
    assert_same(text, width)
    assert_same(text.replace(b'"', b""), width)


@settings(max_examples=200)
@given(LONG_TEXTS, st.integers(1, 3), st.integers(0, 300))
def test_blocks_cut_anywhere_hold_the_rows_of_the_whole(text: bytes, width: int, size: int) -> None:
    text += b"\n"
    whole, _ = fast(text, width)
    pieces, left, lines, taken = [], b"", 0, 0
    while taken < len(text):
        more = text[taken : taken + max(size, 1)]
        taken += len(more)
        left += more
        # What stands behind the text that was read so far is not known; whatever it is must not matter.
        for padding in (b"\n", b'"', b"x"):
            data = np.frombuffer(left + padding * 64, np.uint8)
            end = whole_rows_size(data, len(left), 44, width)
            assert end <= len(left)
        if taken == len(text):
            end = len(left)
        if end:
            rows, found = fast(left[:end], width)
            pieces += [(line + lines, cells) for line, cells in rows]
            lines += found.n_lines
            left = left[end:]
    assert pieces == whole


def test_ten_thousand_mutated_lines() -> None:
    lines = [b'1,"a ""b"" c",2.5,,x', b"0,plain,-1,,y z", b'1,"two, cells",3,"",\xc3\xa9']
    text = mutated(lines, 10_000, seed=5)
    assert_same(text, 5)
    plain = text.replace(b'"', b"'")
    assert_same(plain, 5)
    assert fast(text, 5)[1].skipped > 1000


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (b"a,b", [b"a", b"b"]),
        (b"a,b\r", [b"a", b"b"]),
        (b",", [b"", b""]),
        (b'"a,b",c', [b"a,b", b"c"]),
        (b'"a\nb","c\r\nd"', [b"a\nb", b"c\r\nd"]),
        (b'"a""b",""', [b'a"b', b""]),
        (b'"""",x', [b'"', b"x"]),
        (b'a"b",c"', [b'a"b"', b'c"']),
        (b' "a",b', [b' "a"', b"b"]),
        (b'x,"y"\r', [b"x", b"y"]),
        (b"a\rb,\r", [b"a\rb", b""]),
    ],
)
def test_rows_by_rfc_4180(row: bytes, cells: list[bytes]) -> None:
    rows, found = fast(row, 2)
    assert rows == [(0, cells)]
    assert found.skipped == 0


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (b"a\nb,c", 0, "FEW"),
        (b"a,b,c\nb,c", 0, "MANY"),
        (b'b,c\n"a"x,b\n', 1, "AFTER"),
        (b'b,c\na,"b\nc,d\n', 1, "OPEN"),
    ],
)
def test_a_bad_row_costs_one_line(text: bytes, line: int, what: str) -> None:
    rows, found = fast(text, 2)
    assert found.skipped == 1
    assert found.bad_lines[0, 0] == line
    assert len(rows) == text.strip(b"\n").count(b"\n")


def test_a_quote_that_is_not_closed_in_time_was_a_stray_one() -> None:
    inside = b"x" * (QUOTED_BYTES - 1)
    assert fast(b'1,"' + inside + b'"\n2,b\n', 2)[1].skipped == 0
    rows, found = fast(b'1,"' + inside + b'y"\n2,b\n', 2)
    assert (len(rows), found.skipped) == (1, 1)
    assert_same(b'1,"' + inside + b'y"\n2,b\n', 2)


def test_a_stray_quote_does_not_hold_blocks_up_for_ever() -> None:
    text = b'1,"open\n' + b"2,b\n" * (QUOTED_BYTES // 4)
    data = np.frombuffer(text + b"?" * 64, np.uint8)
    assert whole_rows_size(data, QUOTED_BYTES // 2, 44, 2) == 0
    assert whole_rows_size(data, len(text), 44, 2) == len(text)


def test_quotes_that_chain_row_to_row_do_not_take_for_ever() -> None:
    # Read from any line on, each of these rows would go on to the end of the text.
    text = b'z",x,"\n' * 50_000
    rows, found = fast(text, 3)
    assert (len(rows), found.skipped) == (0, 50_000)


# --- headers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "delimiter"), [(b"a,b,c", b","), (b"a;b;c", b";"), (b"a|b|c", b"|"), (b"a\tb\tc", b"\t")]
)
def test_the_delimiter_is_told_by_the_header(header: bytes, delimiter: bytes) -> None:
    for format in ("csv", "tsv"):
        layout = layout_of(block_of(header + b"\r\n1\n"), format)
        assert bytes([layout.delimiter]) == delimiter
        assert layout.names == ("a", "b", "c")
        assert (layout.size, layout.lines) == (7, 1)


def test_a_quoted_header_may_hold_delimiters_and_newlines() -> None:
    layout = layout_of(block_of(b'\n"a;x;y;z;",b,"e\nf",\n1,2,3,4\n'), "csv")
    assert layout.names == ("a;x;y;z;", "b", "e\nf", "column 4")
    assert layout.lines == 3


def test_criteo_files_have_no_header() -> None:
    layout = layout_of(block_of(b"1\t2\n"), "criteo")
    assert layout.names == CRITEO
    assert (layout.size, layout.lines, layout.width) == (0, 0, 40)


@pytest.mark.parametrize(
    ("text", "words"), [(b"a,b,a\n", "two columns 'a'"), (b"1,2,3.5\n", "holds numbers"), (b"\n\n", "no header")]
)
def test_headers_that_cannot_be(text: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        layout_of(block_of(text), "csv")
