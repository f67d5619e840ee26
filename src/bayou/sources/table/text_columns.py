"""Words of a text: lower-case runs of letters, digits and underscores, as Python's `\\w+` finds them."""

from __future__ import annotations

import re

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_byte
from bayou.kernels.parse_text import PADDING, address_of, load_uint8
from bayou.recipe.hashing import hash_text
from bayou.sources.table import cells

_WORDS = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case.

    >>> words_of("Free entry: WIN 2 tickets_now, Ärger!")
    ['free', 'entry', 'win', '2', 'tickets_now', 'ärger']
    """
    return _WORDS.findall(text.lower())


def plain_words(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, first: int, stride: int, n: int) -> np.ndarray:
    """Return a copy of the text in which a column is ready for kernels, which treat any non-ASCII byte as a letter.

    ASCII cells are lower-cased in place. Other cells are replaced by their words, separated by blanks and appended to
    the text, and their starts and stops (of the cells first, first + stride, ...) are updated.
    """
    data = data.copy()
    odd = np.empty(n, np.bool_)
    _lower(data, starts, stops, first, stride, n, odd)
    if not odd.any():
        return data
    texts, at = [data.tobytes()], len(data)
    for place in first + stride * np.flatnonzero(odd):
        text = data[starts[place] : stops[place]].tobytes().decode("utf-8", "replace")
        texts.append(" ".join(words_of(text)).encode() + b"\n")
        starts[place], stops[place] = at, at + len(texts[-1]) - 1
        at += len(texts[-1])
    return np.frombuffer(bytearray(b"".join(texts) + b"\n" * PADDING), np.uint8)


@kernel
def _lower(data, starts, stops, offset, stride, n, odd):
    """Lower-case the ASCII letters of a column's cells in place; set odd[row] where a cell has other characters."""
    base = address_of(data)
    for row in range(n):
        at = base + np.int64(starts[offset + row * stride])
        end = base + np.int64(stops[offset + row * stride])
        every = 0
        for place in range(at, end):
            byte = load_uint8(place)
            every |= byte
            if 65 <= byte <= 90:
                put_byte(place, byte + 32)
        odd[row] = every >= 128


@kernel
def fill_words(columns, plan, rows, lists, slots, seen, stamps, wrong):
    """Fill in the words of the slots with several features, each word of a cell once.

    `seen` and `stamps` are scratch for a hash table of the words of one cell. Rows with too many words become bad.
    """
    exact, roles, seeds, first_slots = plan.exact, plan.roles, plan.seeds, plan.first_slots
    words, word_rows, word_ends, word_places = slots.words, slots.word_rows, slots.word_ends, slots.word_places
    n_words = 0
    stamp = 0
    last = seen.size - 1
    spare = empty(cells.CELL_PADDING_BYTES, np.uint8)
    manner = address_of(plan.manner)
    for c in range(roles.size):
        s = first_slots[c]
        if s < 0 or word_rows[s] < 0:
            continue
        t = word_rows[s]
        word_ends[t, 0] = n_words
        text = cells.column_text(columns[c])
        for i in range(rows.size):
            at, end = cells.cell_at(text, rows[i])
            first = n_words
            stamp += 1
            while at < end or (lists[c] and n_words == first):
                if lists[c]:
                    start = at
                    while at < end and load_uint8(at) != cells.PART:
                        at += 1
                    start, stop = cells.value_text(roles[c], start, at, address_of(spare), manner)
                else:
                    while at < end and not cells.is_word(load_uint8(at)):
                        at += 1
                    if at == end:
                        break
                    start = at
                    while at < end and cells.is_word(load_uint8(at)):
                        at += 1
                    stop = at
                place = at
                key = hash_text(exact, start, stop - start, seeds[c])
                at += lists[c]
                k = np.int64(key & np.uint64(last))
                while stamps[k] == stamp and seen[k] != key:
                    k = (k + 1) & last
                if stamps[k] == stamp:
                    continue
                stamps[k] = stamp
                seen[k] = key
                words[n_words] = key
                word_places[n_words] = place - columns[c, cells.CELL_TEXT]
                n_words += 1
                if n_words - first > cells.MAX_ROW_FEATURES:
                    wrong[rows[i]] = 16 * c + cells.TOO_MANY_FEATURES
                    n_words = first
                    break
            word_ends[t, i + 1] = n_words


@kernel
def room_for_words(columns, c, n, parts):
    """Return upper bounds on the words in all cells of a column and in one cell; with `parts` the cells are lists."""
    text = cells.column_text(columns[c])
    total = 0
    longest = 0
    for row in range(n):
        at, end = cells.cell_at(text, row)
        size = end - at
        most = size + 1 if parts else (size + 1) >> 1
        total += most
        longest = max(longest, most)
    return total, longest
