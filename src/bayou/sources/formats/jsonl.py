"""JSON lines: one object per line.

What a CSV file has in columns stands here under keys; those of nested objects are joined by dots: {"user": {"age": 7}}
has the column `user.age`. A key that a line lacks, or has as null, is an empty cell. A list gives one indicator
`column=value` for each of its values; a label that is a list is positive if it holds the positive value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bayou.core.recipe import FIT_ROWS, Recipe
from bayou.sources.reading.blocks import Block, Files
from bayou.sources.reading.parsed import BadLine, ParsedBlock, in_short, kind_of
from bayou.sources.table import cells
from bayou.sources.table.column_types import fit
from bayou.sources.table.columns import Columns, check_width
from bayou.sources.table.fitting import FittingReader
from bayou.sources.table.grams import text_of_words
from bayou.sources.table.plan import Plan
from bayou.sources.table.summary import ColumnSummary
from bayou.sources.table.typed_values import column_as_cells, places_of, summary_of

if TYPE_CHECKING:
    from bayou.core.extras import Extras


class JsonLines:
    """Parses blocks of JSON lines."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names = [column.name for column in plan.columns]
        self._roles = [column.role for column in plan.columns]
        self._texts = [c for c, role in enumerate(self._roles) if role == "text"]

    def parse(self, block: Block) -> ParsedBlock:
        return self._plan.parse(self._columns(block))

    def _columns(self, block: Block) -> Columns:
        lines, objects, bad, skipped, n_lines = read_lines(block)
        width, n, lists = len(self._names), len(objects), np.zeros(len(self._names), np.uint8)
        texts: list[bytes] = []
        for c, (name, role) in enumerate(zip(self._names, self._roles, strict=True)):
            column, several = column_as_cells([found.get(name) for found in objects], role, self._plan.positive)
            lists[c] = several
            texts += column
        data, starts, stops = places_of(texts)
        for c in self._texts:
            data = text_of_words(data, starts, stops, c * n, 1, n, self._plan.recipe)
        table = np.zeros((width, 8), np.int64)
        table[:, cells.BASE], table[:, cells.STRIDE] = data.ctypes.data, 1
        table[:, cells.STARTS] = starts.ctypes.data + 4 * n * np.arange(width)
        table[:, cells.STOPS] = stops.ctypes.data + 4 * n * np.arange(width)
        return Columns(
            rows=n,
            table=table,
            alive=[data, starts, stops],
            lines=lines,
            n_lines=n_lines,
            lists=lists if lists.any() else None,
            bad=in_short(bad),
            skipped=skipped,
            kinds=Counter(kind_of(line.what) for line in bad),
        )


def read_lines(block: Block) -> tuple[np.ndarray, list[dict[str, Any]], list[BadLine], int, int]:
    """(line of each object, flat objects, bad lines, how many, lines in all)."""
    lines, objects, skipped, number = [], [], 0, -1
    bad: list[BadLine] = []
    for number, text in enumerate(block.data[: block.size - 1].tobytes().split(b"\n")):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
            if not isinstance(found, dict):
                raise TypeError
            flat = _flat(found)
            if b"\\u" in text:  # only where characters are written by their numbers can there be half a pair
                "".join(flat).encode()
            objects.append(flat)
            lines.append(number)
            continue
        except json.JSONDecodeError as error:
            place, what = error.pos + 1, f"expected a JSON object: {error.msg.lower()}"
        except UnicodeDecodeError as error:
            place, what = error.start + 1, "expected text in UTF-8"
        except UnicodeEncodeError:
            place, what = 1, "expected a JSON object with names of whole characters, not half a surrogate pair"
        except _SameName as error:
            place, what = 1, f"expected one value for {error}, not one under a key with a dot and one inside an object"
        except RecursionError:
            place, what = 1, "expected an object that is nested less deeply"
        except (TypeError, ValueError):
            place, what = 1, 'expected a JSON object such as {"label": 1, "age": 7}'
        skipped += 1
        bad.append(BadLine(number, place, what))
    return np.array(lines, np.int64), objects, bad, skipped, number + 1


def _flat(found: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Without objects inside: their keys joined by dots."""
    if not prefix and not any(isinstance(value, dict) for value in found.values()):
        return found
    flat: dict[str, Any] = {}
    for key, value in found.items():
        parts = _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        for name, part in parts.items():
            if name in flat:
                raise _SameName(repr(name))
            flat[name] = part
    return flat


class _SameName(ValueError):
    """Two values of one name."""


def summaries_of(objects: list[dict[str, Any]], recipe: Recipe) -> dict[str, ColumnSummary]:
    """What flat objects show of their keys, in the order in which those first come."""
    names = dict.fromkeys(key for found in objects for key in found)
    check_width(len(names), "the first rows")
    return {name: summary_of([found.get(name) for found in objects], recipe) for name in names}


class JsonReader(FittingReader):
    """The rows of JSON lines, for a `Source`."""

    def __init__(self, files: Files, extras: Extras, *, labels: bool = True, dtype: str = "float32") -> None:
        super().__init__(extras, labels, dtype)
        self._lines = files
        self._read_from(files)

    def _pass(self) -> Iterator[Block]:
        return iter(self._lines)

    def _sample(self, block: Block) -> tuple[list[dict[str, Any]], int]:
        if block.trouble is not None:
            return [], 0
        _, objects, bad, _, _ = read_lines(block)
        if bad:
            self._why_empty = f"{block.file}:{bad[0].line + 1}:{bad[0].column}: {bad[0].what}; one stands in each line."
        return objects, len(objects)

    def _fitted(self, samples: list[list[dict[str, Any]]]) -> Recipe:
        objects = [found for sample in samples for found in sample][:FIT_ROWS]
        recipe = self._extras.required_recipe
        return fit(recipe, summaries_of(objects, recipe), labels=self._labels, tell=self.tell)

    def _parse(self, block: Block) -> ParsedBlock:
        if block.trouble is not None:
            return ParsedBlock.unreadable(block)
        return JsonLines(self.plan).parse(block)
