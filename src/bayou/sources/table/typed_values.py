"""Conversion of typed values (JSON, Arrow) to the cells that a CSV file would have.

Integers are written without a decimal point, so that 7.0 is 7 everywhere; booleans as true and false.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayou.kernels.parse_text import PADDING
from bayou.recipe.recipe import Recipe
from bayou.sources.table.cells import PART
from bayou.sources.table.column_summary import ColumnScanner, ColumnSummary

_PART = bytes([PART])
# Integers up to here are exact in float64.
EXACT = 2**53


def text_of(value: Any) -> bytes:
    """Return a value as a cell, which is empty for None and NaN.

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
    """Return a list as a cell, and whether it is a list cell of several items.

    A label is positive if the list contains the positive value.
    """
    if role in ("category", "flag", "code"):
        return _PART.join(part for part in map(text_of, values) if part), True
    if role == "text":
        return b" ".join(map(text_of, values)), False
    if role == "label" and positive is not None:
        return positive.encode() if positive.encode() in map(text_of, values) else b"[]", False
    return text_of(list(values)), False


def column_as_cells(values: Sequence[Any], role: str, positive: str | None) -> tuple[list[bytes], bool]:
    """Return a column as cells, and whether any of them is a list cell."""
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
    """Return cells joined to one text, with a newline after each, and their start and stop offsets."""
    data = np.frombuffer(b"\n".join(texts) + b"\n" * PADDING, np.uint8)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    stops = np.cumsum(sizes + 1) - 1
    return data, (stops - sizes).astype(np.uint32), stops.astype(np.uint32)


def summary_of(column: Sequence[Any], recipe: Recipe) -> ColumnSummary:
    """Return the summary of a typed column, in which a text never counts as a number or a boolean."""
    texts, several = column_as_cells(column, "category", None)
    if several:  # the items of a list are not words of a text
        texts = [
            text.replace(b" ", b"_") if isinstance(value, list) else text
            for text, value in zip(texts, column, strict=True)
        ]
    typed = np.fromiter((not isinstance(value, int | float) for value in column), np.bool_, len(column))
    scanner = ColumnScanner(recipe)
    data, starts, stops = places_of(texts)
    scanner.add(one_column(data, starts, stops), len(texts), typed)
    return replace(scanner.summary(lambda row: _shown(column[row])), lists=several)


def _shown(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def one_column(data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Return a column of cells in the form that kernels read (`cells`)."""
    return np.array([[data.ctypes.data, starts.ctypes.data, stops.ctypes.data, 1, 0, 0, 0, 0]], np.int64)
