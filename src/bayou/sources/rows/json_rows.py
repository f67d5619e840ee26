"""JSON lines without columns: each line is an object with arbitrary names, hashed as `encoder` hashes dictionaries.

This is for models that start without data to fit a recipe to (`Recipe(kind="rows")`). A number or boolean is the
feature's value, a text a category, null is missing. The names of nested objects are joined by dots. Three names are not
features: the recipe's label and weight (by default "label" and "weight"), and "id".

The result is bit for bit that of `RowEncoder`. Plain lines (no escapes, no nested objects, no repeated names, at most
`SHORT` names) are read in place by a kernel, in a microsecond; any other line is read by Python.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayou.core.canonical import CsrStats
from bayou.core.errors import BadInput
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
from bayou.sources.reading.parsed_block import MAX_DESCRIBED_LINES, BadLine, ParsedBlock, kind_of
from bayou.sources.rows.encoder import RowEncoder
from bayou.sources.rows.hashes import hashes_of
from bayou.sources.rows.json_objects import ID, read_object
from bayou.sources.rows.json_scan import ABSENT, NUMBER, OTHER, TEXT, TRUTH, WIDTH, is_utf8, scan_line
from bayou.sources.rows.kernels import tidy
from bayou.sources.table.typed_values import text_of

if TYPE_CHECKING:
    from bayou.core.extras import Extras

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
    told: np.ndarray  # (rows, 2): their numbers
    places: np.ndarray  # (rows, 4): start and stop of their texts
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
        known = known_features(self._names, None, exact=False)
        room = _RowBuffers.of(block.size, self._dtype, len(known) > 0, self._groups)
        state = np.zeros(5, np.int64)  # offset, line, rows, features, new names
        room.ends[0] = 0
        plain = is_utf8(block)
        bad_lines, extra = list[BadLine](), bytearray()
        config = plain, self._special, self._named, self._mask, known
        ends: np.ndarray | None = None
        while _read_lines(block.data, block.size, *config, state, room) == _SLOW:
            if ends is None:
                ends = np.flatnonzero(block.data[: block.size] == ord("\n"))
            stop = int(ends[np.searchsorted(ends, state[0])])
            bad_line = self._parse_in_python(block, state, room, known, extra, stop)
            bad_lines += [] if bad_line is None else [bad_line]
        lines, rows, features, new = state[1:].tolist()
        data = block.data if not extra else np.concatenate([block.data, np.frombuffer(bytes(extra), np.uint8)])
        parsed = ParsedBlock(
            indptr=room.ends[: rows + 1],
            indices=room.indices[:features],
            values=room.values[:features],
            labels=np.full(rows, np.nan),
            weights=None,
            positions=room.lines[:rows],
            lines=lines,
            bounds=CsrStats(int(room.bounds[0]), self._last, float(room.bounds[1]), not room.bounds[2]),
            with_ids=bool(room.bounds[3]),
            new_names=NewNames(room.new[:new], room.spans[:new], data, data, b"=") if new else None,
            groups=room.groups[:features] if self._groups else None,
        )
        if bad_lines:
            parsed.note(bad_lines, Counter(kind_of(line.reason) for line in bad_lines))
        if self._learns:
            self._label(data, room, rows, parsed)
            self._weigh(room, rows, parsed)
            if len(parsed.labels) == rows:
                self._refuse(data, room, rows, parsed)
        return parsed

    # --- lines for Python ---------------------------------------------------------------------------------------------

    def _parse_in_python(
        self, block: TextBlock, state: np.ndarray, room: _RowBuffers, known: np.ndarray, extra: bytearray, stop: int
    ) -> BadLine | None:
        """Read the line at which the kernel stopped, up to `stop`; return a BadLine if it is bad, else None."""
        start, line, row, first, _ = state.tolist()
        state[0], state[1] = stop + 1, line + 1
        whole = read_object(block.data[start:stop].tobytes(), line)
        if not isinstance(whole, dict):
            return whole
        found: dict[Any, Any] = {name: value for name, value in whole.items() if name not in self._apart}
        try:
            read, _ = RowEncoder(self._bits, dtype=self._dtype, groups=self._groups).encode_row(found)
        except BadInput as error:
            return BadLine(line, 0, str(error).rstrip("."))
        after = first + read.size
        room.indices[first:after], room.values[first:after] = read.indices[: read.size], read.values[: read.size]
        if read.groups is not None:
            room.groups[first:after] = read.groups[: read.size]
        room.ends[row + 1], room.lines[row] = after, line
        with_id = whole.get(ID) is not None
        room.bounds[:] = np.maximum(room.bounds, (read.size, read.max_abs_value, not read.is_all_ones, with_id))
        for k, name in enumerate((self.label, self.weight)):
            kind, value = _kind_of(whole.get(name))
            room.kinds[row, k] = kind
            if kind >= TEXT:
                room.places[row, 2 * k : 2 * k + 2] = _kept(text_of(value), block, extra)
            else:
                room.told[row, k] = value
        state[2], state[3] = row + 1, after
        if known.size:
            self._new_names(found, block, state, room, known, extra)
        return None

    def _new_names(
        self,
        found: dict[Any, Any],
        block: TextBlock,
        state: np.ndarray,
        room: _RowBuffers,
        known: np.ndarray,
        extra: bytearray,
    ) -> None:
        """Report the features of a row that have no name, as the kernel does."""
        for name, value in found.items():
            seed = hashes_of([name])
            is_text = isinstance(value, str)
            if value is None or not (is_text or value):
                continue
            feature = int((hashes_of([value], seed) if is_text else seed)[0] & self._mask)
            if known[feature >> 3] >> (feature & 7) & 1:
                continue
            at = state[4]
            room.new[at] = feature
            key = _kept(str(name).encode("utf-8", "surrogatepass"), block, extra)
            text = _kept(value.encode("utf-8", "surrogatepass"), block, extra) if is_text else (-1, -1)
            room.spans[at] = (*key, *text) if is_text else (-1, -1, *key)
            state[4] = at + 1

    # --- labels and weights -------------------------------------------------------------------------------------------

    def _label(self, data: np.ndarray, room: _RowBuffers, rows: int, parsed: ParsedBlock) -> None:
        """Set the labels as numbers; for multiclass, text and boolean labels become keys of their names."""
        kinds = room.kinds[:rows, 0]
        parsed.labels = np.where((kinds == NUMBER) | (kinds == TRUTH), room.told[:rows, 0], np.nan)
        if self._several:
            for row in np.flatnonzero((kinds == TRUTH) | (kinds == TEXT)).tolist():
                name = self._text(data, room, row).decode("utf-8", "replace")
                parsed.labels[row] = key = key_of(name) if name.strip(" \t") else np.nan
                parsed.texts |= {key: name} if is_text(key) else {}

    def _text(self, data: np.ndarray, room: _RowBuffers, row: int) -> bytes:
        """Return a label as text."""
        kind = room.kinds[row, 0]
        if kind >= TEXT:
            start, stop = room.places[row, :2].tolist()
            return data[start:stop].tobytes()
        value = float(room.told[row, 0])
        return text_of(bool(value) if kind == TRUTH else value)

    def _refuse(self, data: np.ndarray, room: _RowBuffers, rows: int, parsed: ParsedBlock) -> None:
        """Drop rows that have a label which is not recognized."""
        strange = (room.kinds[:rows, 0] != ABSENT) & np.isnan(parsed.labels)
        if not strange.any():
            return
        expected = f"{'a text, ' if self._several else ''}a number, true or false"
        texts = [self._text(data, room, row) for row in np.flatnonzero(strange)[:MAX_DESCRIBED_LINES].tolist()]
        shown = [text.decode("utf-8", "replace")[:40] for text in texts]
        parsed.drop(strange, [f"expected a label, {expected}, under {self.label!r}, not {text!r}" for text in shown])

    def _weigh(self, room: _RowBuffers, rows: int, parsed: ParsedBlock) -> None:
        kinds, weights = room.kinds[:rows, 1], room.told[:rows, 1]
        if not kinds.any():
            return
        parsed.weights = np.where(kinds == ABSENT, 1.0, weights)
        wrong = (kinds > NUMBER) | ~((parsed.weights >= 0) & (parsed.weights <= LARGEST_WEIGHT))
        if wrong.any():
            why = f"expected a weight from 0 to {LARGEST_WEIGHT:g} under {self.weight!r}"
            parsed.drop(wrong, [why] * MAX_DESCRIBED_LINES)


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
def _read_lines(data, size, plain, special, named, mask, known, state, room):
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
    ends, indices, values, lines = room.ends, room.indices, room.values, room.lines
    kinds, told, places, new_ids, spans = room.kinds, room.told, room.places, room.new, room.spans
    bounds, groups = room.bounds, room.groups
    line, row, first, new = state[1], state[2], state[3], state[4]
    at, last = base + state[0], base + size
    slow = False
    while at < last and not slow:
        # Phase 1: cut the line into cells.
        n, behind = scan_line(at, plain, SHORT, cells, numbers)
        if n == 0 and behind < 0:  # a blank line
            at, line = -behind, line + 1
            continue
        kinds[row, 0] = kinds[row, 1] = ABSENT
        n_numbers = n_texts = 0
        more = new
        slow = n < 0
        # Phase 2: hash the names, separate label and weight, and sort the features into the two runs.
        for k in range(max(n, 0)):
            key, key_end, kind = cells[WIDTH * k], cells[WIDTH * k + 1], cells[WIDTH * k + 2]
            name = murmur3(key, key_end - key, np.uint32(0))
            # Names in order, so that repeated ones are found.
            place = k
            while place > 0 and order[place - 1] > name:
                order[place] = order[place - 1]
                place -= 1
            slow |= place > 0 and order[place - 1] == name
            order[place] = name
            apart = -1
            for s in range(special.size):
                if special[s] == name:
                    apart = s
            text, text_end, value = cells[WIDTH * k + 3], cells[WIDTH * k + 4], numbers[SHORT + k]
            feature = name
            if apart >= 0:
                if apart < 2:
                    kinds[row, apart], told[row, apart] = kind, value
                    places[row, 2 * apart], places[row, 2 * apart + 1] = text - base, text_end - base
                bounds[3] += apart == 2
                continue
            if kind == TEXT:
                feature = murmur3(text, text_end - text, name)
                place = n_texts
                while place > 0 and seeds[place - 1] > name:
                    seeds[place], ids[SHORT + place] = seeds[place - 1], ids[SHORT + place - 1]
                    place -= 1
                seeds[place], ids[SHORT + place] = name, feature
                n_texts += 1
            elif kind != ABSENT:
                ids[n_numbers], numbers[n_numbers] = name, value
                n_numbers += 1
            index = feature & mask
            there = kind == TEXT or (kind != ABSENT and value != 0.0)
            if known.size and there and is_new(address_of(known), known.size, False, np.uint64(index)):
                new_ids[more] = index
                spans[more, 0] = key - base if kind == TEXT else -1
                spans[more, 1] = key_end - base if kind == TEXT else -1
                spans[more, 2] = (text if kind == TEXT else key) - base
                spans[more, 3] = (text_end if kind == TEXT else key_end) - base
                more += 1
        if slow:
            break
        # Phase 3: join the runs, and write the row.
        count = n_numbers + n_texts
        for k in range(n_texts):
            ids[n_numbers + k], numbers[n_numbers + k] = ids[SHORT + k], 1.0
        whole = ids[:count], numbers[:count], n_numbers, mask, indices[first:], values[first:]
        if groups.size:
            for k in range(count):
                groups[first + k] = group_of(ids[k] if k < n_numbers else seeds[k - n_numbers], named)
            read, largest, ones = tidy(*whole, groups[first:])
        else:
            read, largest, ones = tidy(*whole, None)
        slow = not largest < np.inf
        # Phase 4: commit the row; only now the line counts as read.
        if not slow:
            bounds[0], bounds[1] = max(bounds[0], read), max(bounds[1], largest)
            bounds[2] += not ones
            first += read
            ends[row + 1], lines[row] = first, line
            at, line, row, new = behind, line + 1, row + 1, more
    state[0], state[1], state[2], state[3], state[4] = at - base, line, row, first, new
    return _SLOW if slow else _READ
