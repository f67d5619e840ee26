"""The words of a text: lower-cased runs of letters, digits and underscores, as Python's `\\w+` finds them."""

from __future__ import annotations

import re

import numpy as np

from bayou.kernels.scan import PADDING
from bayou.sources.table.cells import lower

_WORDS = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """
    >>> words_of("Free entry: WIN 2 tickets_now, Ärger!")
    ['free', 'entry', 'win', '2', 'tickets_now', 'ärger']
    """
    return _WORDS.findall(text.lower())


def plain_words(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, first: int, stride: int, n: int) -> np.ndarray:
    """A copy of some text in which a column of cells is ready for kernels; they take any byte above ASCII for a letter.

    ASCII is made lower-case in place. Cells with anything else are replaced by their words, blanks between them, behind
    the old text, and their starts and stops (the cells first, first + stride, ...) are changed.
    """
    data = data.copy()
    odd = np.empty(n, np.bool_)
    lower(data, starts, stops, first, stride, n, odd)
    if not odd.any():
        return data
    texts, at = [data.tobytes()], len(data)
    for place in first + stride * np.flatnonzero(odd):
        text = data[starts[place] : stops[place]].tobytes().decode("utf-8", "replace")
        texts.append(" ".join(words_of(text)).encode() + b"\n")
        starts[place], stops[place] = at, at + len(texts[-1]) - 1
        at += len(texts[-1])
    return np.frombuffer(bytearray(b"".join(texts) + b"\n" * PADDING), np.uint8)
