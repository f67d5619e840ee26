"""Independent readers of every format: what bayou makes of a file is held against them, line by line.

A reader gives {line: row} of the lines that hold an example, counted from 1, where a row is (label, weight, features)
with features as {index: value}. Each says by what rule bayou is stricter, or more lenient, than the program that reads.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.datasets import load_svmlight_file

from tests.sources import slow_table

Row = tuple[float, float, dict[int, float]]
LARGEST = 1e12
WIDTH = 2**31

# --- svmlight: scikit-learn ---------------------------------------------------------------------------------------

_INDEX = re.compile(rb"\d+")
_PLAIN = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def svmlight_rows(lines: Sequence[bytes]) -> Iterator[tuple[float, dict[int, float]] | None]:
    """What scikit-learn makes of each line; None where it refuses it, or finds no example in it.

    It reads many lines at once, and where it refuses them, halves of them.
    """
    if not lines:
        return
    if len(lines) == 1 and not lines[0].partition(b"#")[0].split():
        yield None
        return
    try:
        with config_context(skip_parameter_validation=True):
            X, y = load_svmlight_file(io.BytesIO(b"\n".join(lines)), n_features=WIDTH, zero_based=True)
    except (ValueError, OverflowError, TypeError):
        X = None
    if X is not None and X.shape[0] == len(lines):
        for k, label in enumerate(y.tolist()):
            part = slice(X.indptr[k], X.indptr[k + 1])
            found = zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)
            yield label, {index: value for index, value in found if value != 0}
    elif len(lines) == 1:
        yield None
    else:
        yield from svmlight_rows(lines[: len(lines) // 2])
        yield from svmlight_rows(lines[len(lines) // 2 :])


def as_scikit_learn_takes_it(line: bytes) -> bytes:
    """bayou is more lenient in two ways: a line may have no label, and features may come in any order, also twice.

    Such a line is put in order here: a label in front of it, and what is said twice summed.
    """
    words = line.partition(b"#")[0].split()
    label = [b"0"] if words and b":" in words[0] else [words.pop(0)]
    places: dict[int, bytes] = {}
    for word in words:
        index, _, value = word.partition(b":")
        if index != b"qid":
            k = int(index)
            places[k] = value if k not in places else repr(float(places[k]) + float(value)).encode()
    return b" ".join(label + [b"%d:%s" % (k, places[k]) for k in sorted(places)])


def svmlight_is_strict_about(line: bytes) -> str:
    """By what rule bayou may refuse a line that scikit-learn takes; nothing: by none."""
    text = line.partition(b"#")[0]
    if re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", text):
        return "control characters are no blanks"
    words = text.split()
    for place, word in enumerate(words):
        index, colon, value = word.partition(b":")
        if not colon and place == 0:
            index, value = b"0", word
        if index.startswith(b"qid"):
            if index != b"qid":
                return "a query is said by qid: and nothing else"
            if place == 0:
                return "a line begins with a label or a feature"
            continue
        if not _INDEX.fullmatch(index):
            return "an index is digits alone, without sign or underscore"
        if int(index) >= WIDTH:
            return "an index is below the number of features"
        if not _PLAIN.fullmatch(value) or abs(float(value)) > LARGEST:
            return "a number has digits, and is at most 1e12 in size; nan, inf and 1_0 are none"
    return ""


# --- Vowpal Wabbit ------------------------------------------------------------------------------------------------


class Wabbit:
    """Vowpal Wabbit itself. bayou refuses much that it reads by accident; what bayou takes, VW must read alike."""

    def __init__(self, bits: int) -> None:
        import vowpalwabbit

        self._bits, self._vw = bits, vowpalwabbit.Workspace(f"-b {bits} --noconstant --quiet --hash strings")

    def row(self, line: bytes) -> Row | None:
        """None where the line cannot be handed over, for VW's face takes texts, and where VW reads numbers with less
        care: those of so many digits that they overflow its sums, and those with exponents beyond those of float32.
        """
        if re.search(rb"[\d.]{18}|[eE][+-]?\d{3}|[eE][+-]?[3-9]\d", line):
            return None
        try:
            found = self._vw.parse(line.decode().removesuffix("\r"))
        except UnicodeDecodeError:
            return None
        label, features = found.get_simplelabel_label(), dict[int, float]()
        for number in range(found.num_namespaces()):
            space = found.get_ns(number)
            for k in range(found.num_features_in(space)):
                index = found.feature(space, k) % 2**self._bits
                features[index] = features.get(index, 0.0) + found.feature_weight(space, k)
        row = math.nan if label > 3e38 else label, found.get_simplelabel_weight(), features
        self._vw.finish_example(found)
        return row

    def close(self) -> None:
        self._vw.finish()


# --- tables: Python's csv and json ----------------------------------------------------------------------------------

_LONE, _ENDS = "\ue000", "\ue001"  # a carriage return within a line, and one that ends it: both end a row to Python


def csv_rows(text: bytes, delimiter: str, width: int) -> Iterator[tuple[int, list[bytes]]]:
    """(line, cells) of the rows that Python's csv reads, strictly, behind a header of one line.

    bayou's rule for a row that cannot be: its first line alone is skipped, and reading goes on with the next.
    A carriage return is text unless it ends a row.
    """
    lines = [line.replace("\r", _LONE) for line in text.decode("latin-1").removesuffix("\n").split("\n")]
    lines = [f"{line[:-1]}{_ENDS}\n" if line.endswith(_LONE) else f"{line}\n" for line in lines]
    at = 1
    while at < len(lines):
        cells, used = _csv_row(lines[at:], delimiter)
        if len(cells) == width:
            yield at + 1, [cell.replace(_LONE, "\r").replace(_ENDS, "\r").encode("latin-1") for cell in cells]
        at += used if len(cells) == width else 1


def _csv_row(lines: list[str], delimiter: str) -> tuple[list[str], int]:
    """(cells, lines used) of the first row; no cells if it cannot be."""
    while True:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            cells = next(reader)
        except csv.Error:
            last = reader.line_num - 1
            if not lines[last].endswith(f"{_ENDS}\n"):
                return [], 1
            lines[last] = lines[last].replace(_ENDS, "")  # behind a quote the row has ended; within one this is text
            continue
        if cells and cells[-1].endswith(_ENDS):
            cells[-1] = cells[-1][:-1]
        return ([] if cells == [""] else cells), reader.line_num


class Unsure(Exception):
    """The other program cannot tell: it has thrown away what it would have to know."""


@functools.lru_cache(1 << 16)
def _hashes(column: Any, cell: bytes, recipe: Any) -> list[tuple[int, float]]:
    return slow_table.hashes(column, cell, recipe)


def example(recipe: Any, names: Sequence[str], cells: Sequence[bytes]) -> Row | None:
    """A row of cells as an example, by the slow rules; None if a cell is not what it must be."""
    by_name = dict(zip(names, cells, strict=True))
    label, weight, features = math.nan, 1.0, dict[int, float]()
    try:
        for column in recipe.columns:
            cell = by_name.get(column.name, b"")
            if column.role == "label":
                if cell.strip(b" \t").lower() in (b"true", b"false"):
                    return None  # where labels are numbers, truths are none
                label = slow_table.label_of(recipe, cell)
            elif column.role == "weight":
                weight = slow_table.number(cell, recipe)
                if weight is None or not 0 <= weight <= 1e6:
                    return None
            elif column.role not in ("ignored", "id"):
                for key, value in _hashes(column, cell, recipe):
                    index = key % recipe.n_features
                    features[index] = features.get(index, 0.0) + value
    except slow_table.BadCell:
        return None
    return label, weight, {index: value for index, value in features.items() if value != 0}


def json_cells(line: bytes, names: Sequence[str]) -> list[bytes] | None:
    """The cells of a line as Python's json reads it; None if it is no object, or too deep an object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    flat: dict[str, Any] = {}

    def add(prefix: str, some: dict[str, Any]) -> None:
        for key, value in some.items():
            if isinstance(value, dict):
                add(f"{prefix}{key}.", value)
            else:
                flat[prefix + key] = value

    add("", found)
    return [cell_of(flat.get(name)) for name in names]


def cell_of(value: Any) -> bytes:
    """A value as it would stand in a CSV file: whole numbers without a point, truths in words, nothing for NaN."""
    if isinstance(value, list):
        raise Unsure  # what a list means is bayou's own affair
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return b""
    if isinstance(value, bool):
        return str(value).lower().encode()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return b"%d" % int(value)
    return str(value).encode("utf-8", "replace")


def same(mine: Row, theirs: Row, exact: bool) -> bool:
    """Whether two rows say the same; exactly, or to the float32 that the other program keeps."""
    numbers = [*zip(mine[:2], theirs[:2], strict=True)]
    if mine[2].keys() != theirs[2].keys():
        return False
    numbers += [(value, theirs[2][index]) for index, value in mine[2].items()]
    if exact:
        return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in numbers)
    mine_, theirs_ = np.array(numbers).T
    return bool(np.isclose(mine_, theirs_, rtol=1e-5, atol=1e-37, equal_nan=True).all())
