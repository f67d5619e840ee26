"""JSON lines without columns: each line is an object with arbitrary names, hashed as `encoder` hashes dictionaries.

This is for models that start without data to fit a recipe to (`Recipe(kind="rows")`). A number or boolean is the
feature's value, a text a category, null is missing. The names of nested objects are joined by dots. Three names are not
features: the recipe's label and weight (by default "label" and "weight"), and "id".

The result is bit for bit that of `RowEncoder`. Plain lines (no escapes, no nested objects, no repeated names, at most
`SHORT` names) are read in place by a kernel, in a microsecond; any other line is read by Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.core.canonical import CsrStats
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_WEIGHT, PADDING, address_of
from bayou.recipe.feature_names import FeatureNames, NewNames
from bayou.recipe.groups import NONE, group_keys, group_of
from bayou.recipe.hashing import hash_bytes, murmur3
from bayou.recipe.labels import is_text, key_of
from bayou.recipe.numbering import is_new, known_features
from bayou.recipe.recipe import Recipe
from bayou.sources.reading.blocks import TextBlock
from bayou.sources.reading.parsed_block import MAX_DESCRIBED_LINES, BadLine, ParsedBlock
from bayou.sources.rows.encoder import RowEncoder
from bayou.sources.rows.hashes import hashes_of
from bayou.sources.rows.json_objects import ID, read_object
from bayou.sources.rows.json_scan import ABSENT, NUMBER, OTHER, TEXT, TRUTH, WIDTH, is_utf8, scan_line
from bayou.sources.rows.kernels import tidy
from bayou.sources.table.typed_values import text_of

LABEL, WEIGHT = "label", "weight"
# Longer rows are read by Python.
SHORT = 128
# Results of the kernel:
#     _READ   there are no more lines
#     _SLOW   the next line must be read by Python
_READ, _SLOW = range(2)


class _RowBuffers(NamedTuple):
    """Arrays that the kernel fills."""

    ends: np.ndarray  # as indptr: where each row's features end
    indices: np.ndarray
    values: np.ndarray
    lines: np.ndarray
    kinds: np.ndarray  # (rows, 2): kinds of label and weight
    label_values: np.ndarray  # (rows, 2): their numbers
    text_spans: np.ndarray  # (rows, 4): start and stop of their texts
    new: np.ndarray  # features without a name
    spans: np.ndarray  # (n, 4): start and stop of the parts of their names
    groups: np.ndarray  # groups of features; empty if not requested
    bounds: np.ndarray  # longest row, largest value, nonzero if a value is not 1, nonzero if a row has an id

    @classmethod
    def of(cls, size: int, dtype: np.dtype, names: bool, groups: bool) -> _RowBuffers:
        # The shortest feature is "":1, and the shortest row {} and a newline.
        rows, features = size // 3 + 1, size // 4 + 1
        named = features if names else 0
        return cls(
            np.empty(rows + 1, np.int64),
            np.empty(features, np.uint32),
            np.empty(features, dtype),
            np.empty(rows, np.int64),
            np.empty((rows, 2), np.uint8),
            np.empty((rows, 2)),
            np.empty((rows, 4), np.int32),
            np.empty(named, np.uint32),
            np.empty((named, 4), np.int32),
            np.empty(features, np.uint8) if groups else NONE,
            np.zeros(4),
        )


def new_parser(extras: Extras, *, labels: bool, dtype: str, groups: bool = False, **_: Any) -> JsonRowParser:
    """Return the parser for a recipe; see `formats.registry`."""
    recipe = extras.required_recipe
    several = bool(extras.classes) or recipe.task == "multiclass"
    return JsonRowParser(recipe, extras.names, labels=labels, dtype=dtype, several=several, groups=groups)


class JsonRowParser:
    """Parser of JSON lines into rows of hashed features; with `names`, features that have none are reported.

    >>> from bayou.sources.rows.json_rows import JsonRowParser, block_of
    >>> block = block_of(b'{"age": 37, "site": "a.com", "label": 1}')
    >>> parsed = JsonRowParser(Recipe(kind="rows", bits=18)).parse(block)
    >>> parsed.values.tolist(), parsed.labels.tolist()
    ([37.0, 1.0], [1.0])
    """

    def __init__(
        self,
        recipe: Recipe,
        names: FeatureNames | None = None,
        *,
        labels: bool = True,
        dtype: str = "float32",
        several: bool = False,
        groups: bool = False,
    ) -> None:
        self._bits = recipe.bits
        self._last = recipe.n_features - 1
        self._mask = np.uint32(self._last)
        self._named = group_keys((*recipe.pairs, *recipe.cross), lambda name: hash_bytes(name.encode()))
        self._dtype, self._groups = np.dtype(dtype), groups
        self._names = names
        self.label, self.weight = recipe.label or LABEL, recipe.weight or WEIGHT
        self._learns = labels
        self._several = several
        special = [self.label, self.weight, ID, *recipe.ignore]
        self._special = np.array([hash_bytes(name.encode()) for name in special], np.uint32)
        self._apart = frozenset(special)

    def parse(self, block: TextBlock) -> ParsedBlock:
        bitmap = known_features(self._names, None, exact=False)
        buffers = _RowBuffers.of(block.size, self._dtype, len(bitmap) > 0, self._groups)
        state = np.zeros(5, np.int64)  # offset, line, rows, features, new names
        buffers.ends[0] = 0
        plain = is_utf8(block)
        bad_lines, extra = list[BadLine](), bytearray()
        config = plain, self._special, self._named, self._mask, bitmap
        ends: np.ndarray | None = None
        while _read_lines(block.data, block.size, *config, state, buffers) == _SLOW:
            if ends is None:
                ends = np.flatnonzero(block.data[: block.size] == ord("\n"))
            stop = int(ends[np.searchsorted(ends, state[0])])
            bad_line = self._parse_in_python(block, state, buffers, bitmap, extra, stop)
            bad_lines += [] if bad_line is None else [bad_line]
        lines, rows, features, new = state[1:].tolist()
        data = block.data if not extra else np.concatenate([block.data, np.frombuffer(bytes(extra), np.uint8)])
        parsed = ParsedBlock(
            indptr=buffers.ends[: rows + 1],
            indices=buffers.indices[:features],
            values=buffers.values[:features],
            labels=np.full(rows, np.nan),
            positions=buffers.lines[:rows],
            lines=lines,
            bounds=CsrStats(int(buffers.bounds[0]), self._last, float(buffers.bounds[1]), not buffers.bounds[2]),
            with_ids=bool(buffers.bounds[3]),
            new_names=NewNames(buffers.new[:new], buffers.spans[:new], data, data, b"=") if new else None,
            groups=buffers.groups[:features] if self._groups else None,
        )
        parsed.note(bad_lines)
        if self._learns:
            self._label(data, buffers, rows, parsed)
            self._weigh(buffers, rows, parsed)
            if len(parsed.labels) == rows:
                self._refuse(data, buffers, rows, parsed)
        return parsed

    # --- lines for Python ---------------------------------------------------------------------------------------------

    def _parse_in_python(
        self, block: TextBlock, state: np.ndarray, buffers: _RowBuffers, bitmap: np.ndarray, extra: bytearray, stop: int
    ) -> BadLine | None:
        """Read the line at which the kernel stopped, up to `stop`; return a BadLine if it is bad, else None."""
        start, line, row, first, _ = state.tolist()
        state[0], state[1] = stop + 1, line + 1
        parsed = read_object(block.data[start:stop].tobytes(), line)
        if not isinstance(parsed, dict):
            return parsed
        features: dict[Any, Any] = {name: value for name, value in parsed.items() if name not in self._apart}
        try:
            read, _ = RowEncoder(self._bits, dtype=self._dtype, groups=self._groups).encode_row(features)
        except BadInput as error:
            return BadLine(line, 0, str(error).rstrip("."))
        end = first + read.size
        buffers.indices[first:end], buffers.values[first:end] = read.indices[: read.size], read.values[: read.size]
        if read.groups is not None:
            buffers.groups[first:end] = read.groups[: read.size]
        buffers.ends[row + 1], buffers.lines[row] = end, line
        with_id = parsed.get(ID) is not None
        buffers.bounds[:] = np.maximum(buffers.bounds, (read.size, read.max_abs_value, not read.is_all_ones, with_id))
        for k, name in enumerate((self.label, self.weight)):
            kind, value = _kind_of(parsed.get(name))
            buffers.kinds[row, k] = kind
            if kind >= TEXT:
                buffers.text_spans[row, 2 * k : 2 * k + 2] = _kept(text_of(value), block, extra)
            else:
                buffers.label_values[row, k] = value
        state[2], state[3] = row + 1, end
        if bitmap.size:
            self._new_names(features, block, state, buffers, bitmap, extra)
        return None

    def _new_names(
        self,
        features: dict[Any, Any],
        block: TextBlock,
        state: np.ndarray,
        buffers: _RowBuffers,
        bitmap: np.ndarray,
        extra: bytearray,
    ) -> None:
        """Report the features of a row that have no name, as the kernel does."""
        for name, value in features.items():
            seed = hashes_of([name])
            is_text = isinstance(value, str)
            if value is None or not (is_text or value):
                continue
            feature = int((hashes_of([value], seed) if is_text else seed)[0] & self._mask)
            if bitmap[feature >> 3] >> (feature & 7) & 1:
                continue
            slot = state[4]
            buffers.new[slot] = feature
            key = _kept(str(name).encode("utf-8", "surrogatepass"), block, extra)
            text = _kept(value.encode("utf-8", "surrogatepass"), block, extra) if is_text else (-1, -1)
            buffers.spans[slot] = (*key, *text) if is_text else (-1, -1, *key)
            state[4] = slot + 1

    # --- labels and weights -------------------------------------------------------------------------------------------

    def _label(self, data: np.ndarray, buffers: _RowBuffers, rows: int, parsed: ParsedBlock) -> None:
        """Set the labels as numbers; for multiclass, text and boolean labels become keys of their names."""
        kinds = buffers.kinds[:rows, 0]
        parsed.labels = np.where((kinds == NUMBER) | (kinds == TRUTH), buffers.label_values[:rows, 0], np.nan)
        if self._several:
            for row in np.flatnonzero((kinds == TRUTH) | (kinds == TEXT)).tolist():
                name = self._text(data, buffers, row).decode("utf-8", "replace")
                parsed.labels[row] = key = key_of(name) if name.strip(" \t") else np.nan
                parsed.texts |= {key: name} if is_text(key) else {}

    def _text(self, data: np.ndarray, buffers: _RowBuffers, row: int) -> bytes:
        """Return a label as text."""
        kind = buffers.kinds[row, 0]
        if kind >= TEXT:
            start, stop = buffers.text_spans[row, :2].tolist()
            return data[start:stop].tobytes()
        value = float(buffers.label_values[row, 0])
        return text_of(bool(value) if kind == TRUTH else value)

    def _refuse(self, data: np.ndarray, buffers: _RowBuffers, rows: int, parsed: ParsedBlock) -> None:
        """Drop rows that have a label which is not recognized."""
        invalid = (buffers.kinds[:rows, 0] != ABSENT) & np.isnan(parsed.labels)
        if not invalid.any():
            return
        expected = f"{'a text, ' if self._several else ''}a number, true or false"
        labels = [self._text(data, buffers, row) for row in np.flatnonzero(invalid)[:MAX_DESCRIBED_LINES].tolist()]
        texts = [text.decode("utf-8", "replace")[:40] for text in labels]
        parsed.drop(invalid, [f"expected a label, {expected}, under {self.label!r}, not {text!r}" for text in texts])

    def _weigh(self, buffers: _RowBuffers, rows: int, parsed: ParsedBlock) -> None:
        kinds, weights = buffers.kinds[:rows, 1], buffers.label_values[:rows, 1]
        if not kinds.any():
            return
        parsed.weights = np.where(kinds == ABSENT, 1.0, weights)
        invalid = (kinds > NUMBER) | ~((parsed.weights >= 0) & (parsed.weights <= LARGEST_WEIGHT))
        if invalid.any():
            reason = f"expected a weight from 0 to {LARGEST_WEIGHT:g} under {self.weight!r}"
            parsed.drop(invalid, [reason] * MAX_DESCRIBED_LINES)


def block_of(text: bytes) -> TextBlock:
    """Return lines in memory as a block for a parser; `text` must not end in the last line's newline."""
    return TextBlock(np.frombuffer(text + b"\n" * (PADDING + 1), np.uint8), len(text) + 1, "", first=True)


def _kept(text: bytes, block: TextBlock, extra: bytearray) -> tuple[int, int]:
    """Append a text to `extra`, which follows the block's data, and return its (start, stop) offsets."""
    start = len(block.data) + len(extra)
    extra += text
    return start, start + len(text)


def _kind_of(value: Any) -> tuple[int, Any]:
    """Return the kind of a label or weight, and its value."""
    if value is None or value != value:
        return ABSENT, 0.0
    if isinstance(value, bool):
        return TRUTH, float(value)
    if isinstance(value, int | float):
        return (NUMBER, float(value)) if abs(value) < 1e300 else (TEXT, value)
    return TEXT if isinstance(value, str) else OTHER, value


# --- the kernel -------------------------------------------------------------------------------------------------------


@kernel
def _read_lines(data, size, plain, special, named, mask, bitmap, state, buffers):
    """Read lines from offset state[0] on, until there are no more (_READ) or one is left to Python (_SLOW).

    A line is cut into n cells; then numbers and texts are collected in two runs, which `tidy` joins to a row:

        cells[WIDTH k]   address of name k, its end, the kind of its value, address of the value, its end
        numbers          0 .. SHORT - 1: values of features that are numbers; SHORT + k: the value of cell k
        ids              0 .. SHORT - 1: features that are numbers; from SHORT on those that are texts, by their seeds
        seeds            hashes of the names of those texts, ascending
        order            hashes of all names, ascending, to find repeated names

        state            byte, line, row, entry and new name to continue with
    """
    base = address_of(data)
    cells, numbers = empty(WIDTH * (SHORT + 1), np.int64), empty(2 * SHORT, np.float64)
    ids, seeds, order = empty(2 * SHORT, np.uint32), empty(SHORT, np.uint32), empty(SHORT, np.uint32)
    ends, indices, values, lines = buffers.ends, buffers.indices, buffers.values, buffers.lines
    kinds, label_values, text_spans = buffers.kinds, buffers.label_values, buffers.text_spans
    new_ids, spans, bounds, groups = buffers.new, buffers.spans, buffers.bounds, buffers.groups
    line, row, first, new = state[1], state[2], state[3], state[4]
    address, last = base + state[0], base + size
    slow = False
    while address < last and not slow:
        # Phase 1: cut the line into cells.
        n, next_line = scan_line(address, plain, SHORT, cells, numbers)
        if n == 0 and next_line < 0:  # a blank line
            address, line = -next_line, line + 1
            continue
        kinds[row, 0] = kinds[row, 1] = ABSENT
        n_numbers = n_texts = 0
        n_new = new
        slow = n < 0
        # Phase 2: hash the names, separate label and weight, and sort the features into the two runs.
        for k in range(max(n, 0)):
            key, key_end, kind = cells[WIDTH * k], cells[WIDTH * k + 1], cells[WIDTH * k + 2]
            name = murmur3(key, key_end - key, np.uint32(0))
            # Names in order, so that repeated ones are found.
            slot = k
            while slot > 0 and order[slot - 1] > name:
                order[slot] = order[slot - 1]
                slot -= 1
            slow |= slot > 0 and order[slot - 1] == name
            order[slot] = name
            role = -1
            for s in range(special.size):
                if special[s] == name:
                    role = s
            text, text_end, value = cells[WIDTH * k + 3], cells[WIDTH * k + 4], numbers[SHORT + k]
            feature = name
            if role >= 0:
                if role < 2:
                    kinds[row, role], label_values[row, role] = kind, value
                    text_spans[row, 2 * role], text_spans[row, 2 * role + 1] = text - base, text_end - base
                bounds[3] += role == 2
                continue
            if kind == TEXT:
                feature = murmur3(text, text_end - text, name)
                slot = n_texts
                while slot > 0 and seeds[slot - 1] > name:
                    seeds[slot], ids[SHORT + slot] = seeds[slot - 1], ids[SHORT + slot - 1]
                    slot -= 1
                seeds[slot], ids[SHORT + slot] = name, feature
                n_texts += 1
            elif kind != ABSENT:
                ids[n_numbers], numbers[n_numbers] = name, value
                n_numbers += 1
            index = feature & mask
            is_present = kind == TEXT or (kind != ABSENT and value != 0.0)
            if bitmap.size and is_present and is_new(address_of(bitmap), bitmap.size, False, np.uint64(index)):
                new_ids[n_new] = index
                spans[n_new, 0] = key - base if kind == TEXT else -1
                spans[n_new, 1] = key_end - base if kind == TEXT else -1
                spans[n_new, 2] = (text if kind == TEXT else key) - base
                spans[n_new, 3] = (text_end if kind == TEXT else key_end) - base
                n_new += 1
        if slow:
            break
        # Phase 3: join the runs, and write the row.
        count = n_numbers + n_texts
        for k in range(n_texts):
            ids[n_numbers + k], numbers[n_numbers + k] = ids[SHORT + k], 1.0
        arguments = ids[:count], numbers[:count], n_numbers, mask, indices[first:], values[first:]
        if groups.size:
            for k in range(count):
                groups[first + k] = group_of(ids[k] if k < n_numbers else seeds[k - n_numbers], named)
            read, max_abs, is_all_ones = tidy(*arguments, groups[first:])
        else:
            read, max_abs, is_all_ones = tidy(*arguments, None)
        slow = not max_abs < np.inf
        # Phase 4: commit the row; only now the line counts as read.
        if not slow:
            bounds[0], bounds[1] = max(bounds[0], read), max(bounds[1], max_abs)
            bounds[2] += not is_all_ones
            first += read
            ends[row + 1], lines[row] = first, line
            address, line, row, new = next_line, line + 1, row + 1, n_new
    state[0], state[1], state[2], state[3], state[4] = address - base, line, row, first, new
    return _SLOW if slow else _READ
