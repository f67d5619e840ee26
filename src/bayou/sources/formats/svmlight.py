"""svmlight (libsvm) text: `label index:value index:value ... # comment`, one example per line.

    line    = [label] {token} ["#" anything]
    token   = index ":" value | "qid:" anything, which is ignored
    label   = a number; a line that begins with a feature has none, and can only be predicted
    index   = an integer >= 0 (0 is legal); one beyond the table of weights is folded into it
    value   = a number of at most 1e12 in size

Blanks are spaces, tabs and carriage returns. Blank lines and comments are ignored. Any other line is bad: it is
skipped and described, and has no effect.

`recipe.ranges` turns ranges of features into namespaces, which can be crossed like those of VW text (`vw.reader`): a
feature's hash is its index, and features outside all ranges are in the namespace without a name. The namespaces are
also the groups of features (`recipe.groups`); without ranges there are no groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.canonical import CsrStats
from bayou.core.extras import Extras
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_VALUE, address_of, digits, load_uint8, load_uint32, parse_number
from bayou.kernels.text_indicators import NUMBERS, read_indicators
from bayou.recipe.feature_names import AND, FeatureNames, NewNames
from bayou.recipe.groups import sequential_groups
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.vw.crosses import VWCrosser
from bayou.sources.reading.blocks import TextBlock
from bayou.sources.reading.buffers import ThreadBuffers
from bayou.sources.reading.parsed_block import ParsedBlock, all_ones

# Error messages, by the kernel's codes.
_WHAT = {
    1: "expected a label, a number, at the start of the line",
    2: "expected a blank after the label",
    3: "expected a feature's index, a whole number >= 0",
    4: "expected ':' and a value after the index",
    5: "expected a number after ':'",
    6: "expected a blank after the value",
    7: f"expected a number of at most {LARGEST_VALUE:g} in size",
    8: "expected an index below 2^64",
    9: "expected an index below the number of features; without hashing nothing is folded",
}
_NEWLINE, _RETURN, _TAB, _BLANK, _COMMENT, _COLON = 10, 13, 9, 32, 35, 58
_QUERY = np.uint64(int.from_bytes(b"qid:", "little"))
_TENTH = np.uint64(2**64 // 10)


def new_parser(extras: Extras, *, dtype: str, groups: bool = False, **_: Any) -> SvmlightParser:
    """Return the parser for a recipe; see `formats.registry`."""
    return SvmlightParser(extras.required_recipe, dtype, extras.names, groups)


class SvmlightParser:
    """Parser of blocks of svmlight text. With `names`, crosses that have no name yet are reported."""

    def __init__(
        self, recipe: Recipe, dtype: str = "float32", names: FeatureNames | None = None, groups: bool = False
    ) -> None:
        self._last = np.uint64(recipe.n_features - 1)
        self._exact = recipe.exact
        self._names, self._ranges = names, recipe.ranges
        self._first = np.array([first for _, first, _ in recipe.ranges], np.int64)
        self._behind = np.array([last + 1 for _, _, last in recipe.ranges], np.int64)
        keys = {name: key for key, (name, _, _) in enumerate(recipe.ranges, 1)} | {" ": 0}
        self._crossing = VWCrosser(recipe, keys.__getitem__, self._last) if recipe.crossed else None
        self._dtype, self._groups = np.dtype(dtype), groups
        self._scratch = ThreadBuffers()

    def parse(self, block: TextBlock) -> ParsedBlock:
        # The shortest feature, "1:1 ", takes four bytes, and the shortest row, "1" and a newline, two.
        capacity = block.size // 4 + 1 + NUMBERS  # NUMBERS are written at a time, needed or not
        features = indices, values = np.empty(capacity, np.uint32), np.empty(capacity, self._dtype)
        max_rows = block.size // 2 + 2
        indptr, positions = (self._scratch.take(name, max_rows, np.int64) for name in ("indptr", "positions"))
        labels = self._scratch.take("labels", max_rows, np.float64)
        ends = self._scratch.take("ends", block.size // 3 + 2 + NUMBERS, np.int32)  # a feature has ":1 " at least
        bad = np.empty((max_rows, 3), np.int64)  # pages are allocated only as bad lines are written
        given = block.data, block.size, ends, self._last, self._exact
        rows, nonzeros, lines, skipped, folded, bounds, canonical = _parse(
            *given, (indptr, labels, positions), features, bad
        )
        if bounds[3] and self._crossing is not None:
            values[:nonzeros] = 1.0
        parsed = ParsedBlock(
            indptr=indptr[: rows + 1].copy(),
            indices=indices[:nonzeros],
            values=all_ones(nonzeros, self._dtype) if bounds[3] and self._crossing is None else values[:nonzeros],
            labels=labels[:rows].copy(),
            positions=positions[:rows].copy(),
            lines=lines,
            n_wrapped=folded,
            bounds=CsrStats(*bounds) if canonical and self._crossing is None else None,
        )
        parsed.note_codes(bad[:skipped], _WHAT)
        if self._groups and self._ranges:
            parsed.groups = self._by_range(parsed.indices, np.append(np.uint8(0), sequential_groups(len(self._ranges))))
        if self._crossing is not None:
            self._cross(parsed, self._crossing)
        return parsed

    def _by_range(self, indices: np.ndarray, of_range: np.ndarray) -> np.ndarray:
        """Return of_range[r + 1] for each feature in range r, and of_range[0] for features outside all ranges."""
        by_feature = np.empty(len(indices), of_range.dtype)
        _look_up(indices, self._first, self._behind, of_range, by_feature)
        return by_feature

    def _cross(self, parsed: ParsedBlock, crossing: VWCrosser) -> None:
        """Append the crosses of each row, and report those that have no name yet."""
        own_indices = parsed.indices
        keys = self._by_range(own_indices, np.arange(1 + len(self._ranges), dtype=np.uint64))
        letters = np.frombuffer(b" " + bytes(name.encode()[0] for name, _, _ in self._ranges), np.uint8)[keys]
        origins, _ = crossing.add(parsed, keys, letters)
        if self._names is None or self._names.full:
            return
        made = np.flatnonzero(origins[:, 1] >= 0)
        indices, first = np.unique(parsed.indices[made], return_index=True)
        new = ~self._names.is_named(indices)
        if not new.any():
            return
        order = np.sort(first[new])  # in the order of the stream
        prefixes = [b"", *(f"{name}^".encode() for name, _, _ in self._ranges)]
        names = [
            AND.join(b"%s%d" % (prefixes[keys[k]], own_indices[k]) for k in features if k >= 0)
            for features in origins[made[order]].tolist()
        ]
        ends, data = np.cumsum([0, *map(len, names)]), np.frombuffer(b"".join(names), np.uint8)
        spans = np.full((len(names), 4), -1)
        spans[:, 2], spans[:, 3] = ends[:-1], ends[1:]
        parsed.new_names = NewNames(parsed.indices[made[order]], spans, data, data, b"")


@kernel
def _look_up(indices, first, stops, of_range, by_feature):
    r, low, high = 0, first[0], stops[0]
    for k in range(indices.size):
        index = np.int64(indices[k])
        if not low <= index < high:
            # Usually it is in the next range. A predictable branch is faster than a search.
            if index >= high and r + 1 < first.size and index < stops[r + 1]:
                r += 1
            else:
                r, end = 0, first.size
                while end - r > 1:
                    middle = (r + end) // 2
                    if first[middle] <= index:
                        r = middle
                    else:
                        end = middle
            low, high = first[r], stops[r]
        by_feature[k] = of_range[r + 1 if low <= index < high else 0]


# These functions are inlined into `_parse`, so that their results stay in registers.


@kernel(forceinline=True)
def _ends_word(address):
    return load_uint8(address) <= _BLANK or load_uint8(address) == _COMMENT


@kernel(forceinline=True)
def _read_label(address):
    """Return (label, address after it, error code); if the line begins with a feature, return (NaN, at, 0)."""
    label, end = parse_number(address)
    if end == address:
        return label, address, 1
    if load_uint8(end) == _COLON:
        return np.nan, address, 0
    if not _ends_word(end):
        return label, end, 2
    if not abs(label) <= LARGEST_VALUE:
        return label, address, 7
    return label, end + (load_uint8(end) == _BLANK), 0


@kernel(forceinline=True)
def _pass_over(address):
    """Skip a blank, comment or qid; return (next address, whether the line ends there, error code)."""
    byte = load_uint8(address)
    if byte in (_BLANK, _TAB, _RETURN):
        return address + 1, False, 0
    if byte in (_NEWLINE, _COMMENT):
        return address, True, 0
    if load_uint32(address) == _QUERY:
        while not _ends_word(address):
            address += 1
        return address, False, 0
    return address, False, 3


@kernel(forceinline=True)
def _read_more_digits(index, address):
    """Read the rest of an index after its first eight digits, and return (index, address after it, error code)."""
    while 48 <= load_uint8(address) <= 57:
        digit = np.uint64(load_uint8(address) - 48)
        if index > _TENTH or (index == _TENTH and digit > np.uint64(5)):
            return index, address, 8
        index = index * np.uint64(10) + digit
        address += 1
    return index, address, 0


@kernel(forceinline=True)
def _read_value(address):
    """Return (value, address after it or of the error, error code)."""
    value, end = parse_number(address)
    if end == address:
        return value, address, 5
    if not _ends_word(end):
        return value, end, 6
    if not abs(value) <= LARGEST_VALUE:
        return value, address, 7
    return value, end, 0


@kernel
def _parse(data, size, ends, last, exact, rows, features, bad):
    """Parse data[:size], which ends in a newline.

    Return (rows, nonzeros, lines, bad lines, folded indices, first fields of `CsrStats`, whether rows are canonical).

    `ends` is scratch for the ends of features. Values are written only if not all of them are 1. The bounds may include
    lines that turned out bad; then they are too wide, which does no harm.

        data                label index:value index:value ... # comment, on each line
        rows                indptr, as in CSR: row r has indices[indptr[r] : indptr[r + 1]]; labels, and lines, of rows
        features            indices and values
        bad                 (line, column, error code) of the first bad lines
        row, k, line        where the next row, entry and line go; a bad line resets k to where its row began
    """
    indptr, labels, positions = rows
    indices, values = features
    address = base = address_of(data)
    end, ends_at, index_of = address + size, address_of(ends), address_of(indices)
    row = k = line = skipped = folded = max_row_length = 0
    max_index = -1
    max_abs = smallest = 1.0
    is_all_ones = ascending = True
    indptr[0] = 0
    while address < end:
        # Phase 1: skip blanks, empty lines and comments.
        start = address
        while load_uint8(address) in (_BLANK, _TAB, _RETURN):
            address += 1
        if load_uint8(address) in (_NEWLINE, _COMMENT):
            while load_uint8(address) != _NEWLINE:
                address += 1
            address += 1
            line += 1
            continue
        # Phase 2: the label, and a run of features `index:1`, which are read in vectors.
        label, address, error = _read_label(address)
        folded_before = folded
        previous = -1
        if error == 0 and address - base >= 2:
            count, next_address, final, up = read_indicators(base, address, ends_at, index_of + 4 * k, np.int64(last))
            if count > 0:
                if not is_all_ones:
                    values[k : k + count] = 1.0
                k, address, ascending = k + count, next_address, ascending & up
                max_index = max(max_index, final)
        # Phase 3: the other features, one by one.
        while error == 0:
            index, count = digits(address)
            if count == 0:
                address, ends, error = _pass_over(address)
                if ends:
                    break
                continue
            digits_end = address + count
            if count == 8:
                index, digits_end, error = _read_more_digits(index, digits_end)
                if error:
                    break
            if load_uint8(digits_end) != _COLON:
                error = 4
                address = digits_end
                break
            if index > last:
                if exact:
                    error = 9
                    break
                folded += 1
                index = (index ^ (index >> np.uint64(32))) & last
            value, address, error = _read_value(digits_end + 1)
            if error:
                break
            ascending &= np.int64(index) > previous
            previous = np.int64(index)
            max_index = max(max_index, previous)
            indices[k] = index
            if is_all_ones and value != 1.0:  # values did not have to be written up to here
                is_all_ones = False
                values[:k] = 1.0
            if not is_all_ones:
                values[k] = value
                magnitude = abs(values[k])
                max_abs = max(max_abs, magnitude)
                smallest = min(smallest, magnitude)
            k += 1
            address += load_uint8(address) == _BLANK
        # Phase 4: keep the row, or undo it; continue after the end of the line.
        if error:
            bad[skipped, 0], bad[skipped, 1], bad[skipped, 2] = line, address - start + 1, error
            skipped += 1
            k = indptr[row]
            folded = folded_before
        else:
            labels[row] = label
            positions[row] = line
            max_row_length = max(max_row_length, k - indptr[row])
            row += 1
            indptr[row] = k
        while load_uint8(address) != _NEWLINE:
            address += 1
        address += 1
        line += 1
    bounds = max_row_length, max_index, max_abs, is_all_ones
    return row, k, line, skipped, folded, bounds, ascending and smallest > 0.0
