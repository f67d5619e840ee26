"""Word and character n-grams, appended to the words of a text as if they were words themselves.

    ngrams=2         free entry win      ->  free entry win free_entry entry_win
    char_ngrams=3    win                 ->  win ·_wi ·win ·in_

N-grams of 2 to `ngrams` words are joined by _. Character n-grams mark the ends of a word by _, which counts as a
character, and begin with ·, so that they never equal a word. Both are then hashed like words, each once per row.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_byte
from bayou.kernels.parse_text import PADDING, address_of, load_uint8
from bayou.recipe.recipe import Recipe
from bayou.sources.table.cells import is_word
from bayou.sources.table.text_columns import plain_words

_UNDERSCORE, _NEWLINE, _BLANK = b"_\n "
_DOT = "·".encode()


def text_of_words(
    data: np.ndarray, starts: np.ndarray, stops: np.ndarray, first: int, stride: int, n: int, recipe: Recipe
) -> np.ndarray:
    """Return the text of `plain_words` with the recipe's n-grams appended to each cell.

    If there are n-grams, `starts` and `stops` are updated in place to the cells of the returned text.
    """
    data = plain_words(data, starts, stops, first, stride, n)
    if recipe.ngrams == 1 and not recipe.char_ngrams:
        return data
    ways = (recipe.ngrams, recipe.char_ngrams)
    size = len(data) + _expand(data, starts, stops, first, stride, n, ways, np.empty(0, np.uint8))
    out = np.empty(size + PADDING, np.uint8)
    out[: len(data)], out[size:] = data, _NEWLINE
    _expand(out[: len(data)], starts, stops, first, stride, n, ways, out[len(data) :])
    return out


@kernel
def _expand(data, starts, stops, offset, stride, n, ways, out):
    """Return the number of bytes that the expanded texts of a column take.

    Unless `out` is empty, write them to it and point `starts` and `stops` at them, as offsets after `data`.
    """
    base, to = address_of(data), address_of(out)
    longest = np.int64(0)
    for row in range(n):
        longest = max(longest, np.int64(stops[offset + row * stride]) - np.int64(starts[offset + row * stride]))
    begins, ends = empty(longest // 2 + 1, np.int64), empty(longest // 2 + 1, np.int64)
    write = out.size > 0
    size = np.int64(0)
    for row in range(n):
        cell = offset + row * stride
        words = _words(base, np.int64(starts[cell]), np.int64(stops[cell]), begins, ends)
        begun = size
        for run in range(1, ways[0] + 1):
            for w in range(words - run + 1):
                for k in range(run):
                    size = _put(to, size, write, base, begins[w + k], ends[w + k])
                    size = _put_one(to, size, write, _UNDERSCORE if k < run - 1 else _BLANK)
        if ways[1]:
            for w in range(words):
                size = _characters(to, size, write, base, begins[w], ends[w], ways[1])
        size = _put_one(to, size, write, _NEWLINE)
        if write:
            starts[cell], stops[cell] = data.size + begun, data.size + size - 1
    return size


@kernel
def _words(base, at, end, begins, ends):
    """Write the offsets at which the words of a text begin and end, and return the number of words."""
    words = 0
    while at < end:
        while at < end and not is_word(load_uint8(base + at)):
            at += 1
        if at == end:
            break
        begins[words] = at
        while at < end and is_word(load_uint8(base + at)):
            at += 1
        ends[words] = at
        words += 1
    return words


@kernel
def _characters(to, size, write, base, begin, end, run):
    """Write the character n-grams of a word and return the next offset.

    A character is a byte that is not a UTF-8 continuation byte, with the continuation bytes after it.
    """
    at = begin - 1  # where the n-gram begins; begin - 1 stands for the mark before the word
    while True:
        behind, count = at, 0
        while count < run and behind <= end:
            behind = begin if behind < begin else behind + 1
            while begin < behind < end and (load_uint8(base + behind) & 0xC0) == 0x80:
                behind += 1
            count += 1
        if count < run or behind > end + 1:
            return size
        size = _put_one(to, size, write, _DOT[0])
        size = _put_one(to, size, write, _DOT[1])
        if at < begin:
            size = _put_one(to, size, write, _UNDERSCORE)
        size = _put(to, size, write, base, max(at, begin), min(behind, end))
        if behind == end + 1:
            size = _put_one(to, size, write, _UNDERSCORE)
        size = _put_one(to, size, write, _BLANK)
        at = begin if at < begin else at + 1
        while begin < at < end and (load_uint8(base + at) & 0xC0) == 0x80:
            at += 1


@kernel(forceinline=True)
def _put(to, size, write, base, begin, end):
    if write:
        for place in range(begin, end):
            put_byte(to + size + place - begin, load_uint8(base + place))
    return size + end - begin


@kernel(forceinline=True)
def _put_one(to, size, write, byte):
    if write:
        put_byte(to + size, byte)
    return size + 1
