"""Values that have types (of JSON, of Arrow) as the cells that a CSV file would have.

Numbers that are whole are written without a point, so that 7.0 is 7 everywhere; truths as true and false.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayou.kernels.scan import PADDING
from bayou.recipe.recipe import Recipe
from bayou.sources.table.cells import PART
from bayou.sources.table.summary import ColumnSummary, Looked

_PART = bytes([PART])
# Up to here each whole number is a float64 of its own.
EXACT = 2**53


def text_of(value: Any) -> bytes:
    """A value as a cell; nothing for None and NaN.

    >>> [text_of(value) for value in (7, 7.0, 0.5, True, None, "so")]
    [b'7', b'7', b'0.5', b'true', b'', b'so']
    """
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        if math.isnan(value):
            return b""
        return b"%d" % value if value.is_integer() and abs(value) < EXACT else repr(value).encode()
    return json.dumps(value, default=str).encode()


def list_as_cell(values: Sequence[Any], role: str, positive: str | None) -> tuple[bytes, bool]:
    """A list as a cell, and whether it is one of several parts. A label is positive if it holds the positive value."""
    if role in ("category", "flag", "code"):
        return _PART.join(part for part in map(text_of, values) if part), True
    if role == "text":
        return b" ".join(map(text_of, values)), False
    if role == "label" and positive is not None:
        return positive.encode() if positive.encode() in map(text_of, values) else b"[]", False
    return text_of(list(values)), False


def column_as_cells(values: Sequence[Any], role: str, positive: str | None) -> tuple[list[bytes], bool]:
    """A column as cells, and whether there are some of several parts among them."""
    texts, several = [], False
    for value in values:
        if isinstance(value, list):
            text, parts = list_as_cell(value, role, positive)
            several |= parts
            texts.append(text)
        else:
            texts.append(text_of(value))
    return texts, several


def places_of(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells as one text, a newline behind each, and where they start and stop."""
    data = np.frombuffer(b"\n".join(texts) + b"\n" * PADDING, np.uint8)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    stops = np.cumsum(sizes + 1) - 1
    return data, (stops - sizes).astype(np.uint32), stops.astype(np.uint32)


def summary_of(column: Sequence[Any], recipe: Recipe) -> ColumnSummary:
    """What a column that has types shows: a text is not a number or a truth, whatever it says."""
    texts, several = column_as_cells(column, "category", None)
    if several:  # the parts of a list are no words of a text
        texts = [
            text.replace(b" ", b"_") if isinstance(value, list) else text
            for text, value in zip(texts, column, strict=True)
        ]
    typed = np.fromiter((not isinstance(value, int | float) for value in column), np.bool_, len(column))
    looked = Looked(recipe)
    data, starts, stops = places_of(texts)
    looked.add(one_column(data, starts, stops), len(texts), typed)
    return replace(looked.summary(lambda row: _shown(column[row])), lists=several)


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def one_column(data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """A column of cells as kernels see it (`cells`)."""
    return np.array([[data.ctypes.data, starts.ctypes.data, stops.ctypes.data, 1, 0, 0, 0, 0]], np.int64)
