"""Conversion of requested rows to examples of a model, by the parsers of files, with a sentence for each bad row."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bayou.core.arrow import pa
from bayou.core.batch import Batch
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.recipe.feature_names import NewNames
from bayou.recipe.labels import LabelRule, name_of
from bayou.serve.log import ARROW, JSON, VW
from bayou.serve.request_bodies import as_json
from bayou.sources.formats.registry import with_bodies
from bayou.sources.reading.parsed_block import ParsedBlock
from bayou.sources.rejected_rows import bisect_rejected
from bayou.sources.rows.json_objects import ID
from bayou.sources.rows.json_rows import LABEL, WEIGHT, block_of

# Provisional labels of new classes, from here on; they get numbers when they are learned, in the order of the log.
FIRST_NEW_CLASS = 1 << 40
# Maximum number of bad rows of a request that are described.
MAX_DESCRIBED_ROWS = 100


@dataclass
class ParsedRows:
    """Parsed rows of one or more requests.

    Attributes:
        batch: the valid rows, with labels if they are to be learned.
        n: the number of rows; bad: the errors of the others, by row number.
        names: features that have no name yet.
        with_ids: whether a row has an id; None if unknown.
        refused: whether the learner in its current state rejects rows.
        classes: the names of new classes; their labels count up from FIRST_NEW_CLASS.
    """

    batch: Batch
    n: int
    bad_rows: dict[int, str] = field(default_factory=dict)
    names: list[NewNames] = field(default_factory=list)
    with_ids: bool | None = None
    classes: Sequence[str] = ()
    refused: bool = False


class RowReader:
    """Reader of request bodies for a model. Thread-safe: it does not change the model.

    Attributes:
        forms: the formats of rows that the model accepts.
        samples: rows for warming up a parser, in the first of these formats.
        label: the name of the label in a JSON row.
        has_id: whether the field name for ids is one of the table's own columns.
    """

    def __init__(self, learner: Learner) -> None:
        extras = Extras.of(learner)
        recipe = extras.required_recipe
        if extras.numbering is not None:
            raise BadModel("the model numbers its features as they arrive (exactly); a server needs hashed names.")
        if not recipe.fitted:
            raise BadModel("the model's recipe was never fitted to data; train it on some rows first.")
        self._several = learner.record.task == "multiclass"
        self._may_join = extras is learner.extras  # otherwise classes have numbers, and no names
        rule = replace(recipe, task="multiclass") if self._several else recipe
        self._learner, self._recipe, self._rule = learner, recipe, LabelRule(rule, extras.classes)
        bodies, self.kind = with_bodies(recipe.kind), recipe.kind
        self.forms = tuple(body.code for body in bodies)
        self.samples = next(iter(bodies)).samples[recipe.kind]
        self.label = recipe.label or LABEL
        self._weight = recipe.weight or (WEIGHT if recipe.kind == "rows" else None)
        self._classes = extras.classes
        read = [column for column in recipe.columns or () if column.role not in ("ignored", "id")]
        self.has_id = any(column.name == ID for column in read)
        extras.groups = learner.wants_groups
        options = {"dtype": str(learner.parameters["dtype"]), "groups": extras.groups}
        self._parsers = {
            (body.code, learns): record.new_parser(
                replace(extras, recipe=rule, names=extras.names if learns else None), labels=learns, **options
            )
            for body, record in bodies.items()
            for learns in (True, False)
            if not body.binary
        }

    # --- reading ------------------------------------------------------------------------------------------------------

    def check_form(self, body_format: int) -> None:
        """Raise BadInput if the model cannot read a format."""
        if body_format not in self.forms:
            descriptions = {body.code: body.description for body in with_bodies()}
            readable = " or ".join(descriptions[form] for form in self.forms)
            raise BadInput(f"this model reads {readable}, not {descriptions[body_format]}.")

    def read(self, body_format: int, lines: Sequence[bytes], learns: bool) -> ParsedRows:
        """Parse rows, one per line; an Arrow stream is one line."""
        if body_format == ARROW:
            return self._arrow(lines[0], learns)
        read = self._read(body_format, lines, learns)
        if len(read.batch) + len(read.bad_rows) < read.n:
            self._describe(body_format, lines, learns, read)
        return read

    def _read(self, body_format: int, lines: Sequence[bytes], learns: bool) -> ParsedRows:
        parsed = self._parsers[body_format, learns].parse(block_of(b"\n".join(lines)))
        return self._finished(parsed, parsed.lines, learns)

    def _describe(self, body_format: int, lines: Sequence[bytes], learns: bool, read: ParsedRows) -> None:
        """Describe every bad row; parsers describe the first few."""
        for row in _undescribed(read):
            is_full = len(read.bad_rows) >= MAX_DESCRIBED_ROWS
            errors = {} if is_full else self._read(body_format, [lines[row]], learns).bad_rows
            read.bad_rows[row] = errors.get(0, "expected a row; this one is bad, too. Send it alone to see why.")

    def _finished(self, parsed: ParsedBlock, n: int, learns: bool) -> ParsedRows:
        classes = self._settle_labels(parsed) if learns else ()
        batch = parsed.batch()
        if parsed.skipped or len(batch) != n:
            batch = batch.with_positions(parsed.positions)
        if not learns:
            batch = batch.replace(labels=None, weights=None)
        bad_rows = {line.line: f"{line.reason}." for line in parsed.bad_lines}
        read = ParsedRows(
            batch, n, bad_rows, [] if parsed.new_names is None else [parsed.new_names], parsed.with_ids, classes
        )
        return self._checked(read, learns)

    def _settle_labels(self, parsed: ParsedBlock) -> list[str]:
        """Convert labels to the learner's; return the names of new classes. Rows without a label are bad."""
        parsed.settle_labels(self._rule, 0.0 if self._learner.negative_label == 0 else -1.0, advice=False)
        if not self._several:
            return []
        labels = self._rule.number(parsed.labels, parsed.texts, add_classes=False)
        new, first = np.unique(parsed.labels[labels < 0], return_index=True)
        new = new[np.argsort(first)] if self._may_join else new[:0]
        names = [parsed.texts.get(label) or name_of(label) for label in new.tolist()]
        for index, label in enumerate(new):
            labels[parsed.labels == label] = FIRST_NEW_CLASS + index
        unknown = labels < 0
        if unknown.any():
            classes = ", ".join(self._classes[:20])
            parsed.drop(
                unknown,
                [
                    f"expected one of the classes that the model has learned, {classes}, not "
                    f"{parsed.texts.get(label, f'{label:g}')}"
                    for label in parsed.labels[unknown].tolist()
                ],
            )
        parsed.labels = labels[~unknown]
        return names

    def with_classes(self, read: ParsedRows) -> Batch:
        """Return the batch to learn, in log order; new classes are added now, unless the learner rejects them."""
        if not read.classes:
            return read.batch
        class_indices, labels = self._rule.with_new_classes(read.classes), np.array(read.batch.labels)
        new = labels >= FIRST_NEW_CLASS
        labels[new] = np.array(class_indices, np.float64)[labels[new].astype(np.int64) - FIRST_NEW_CLASS]
        batch = read.batch.with_labels(labels, read.batch.weights)
        self._learner.check(batch)
        self._rule.add_classes(read.classes)
        return batch

    def _checked(self, read: ParsedRows, learns: bool) -> ParsedRows:
        """Move rows that the learner would reject to the bad ones."""
        learner = self._learner
        look = partial(learner.check, learn=learns)
        try:
            look(read.batch)
        except BadInput:
            read.refused = not read.bad_rows
            accepted, all_rows = [], read.batch if read.batch.positions is not None else _numbered(read.batch)
            for _, chunk, answer in bisect_rejected(all_rows, look):
                if isinstance(answer, BadInput):
                    read.bad_rows[int(np.asarray(chunk.positions)[0])] = str(answer)
                else:
                    accepted.append(chunk)
            read.batch = Batch.concatenate(accepted) if accepted else all_rows[:0]
        return read

    def _arrow(self, stream: bytes, learns: bool) -> ParsedRows:
        try:
            with pa.ipc.open_stream(io.BytesIO(stream)) as opened:
                batches = [batch for batch in opened if batch.num_rows]
                for batch in batches:
                    batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadInput(f"the body is not a valid Arrow stream: {str(error).splitlines()[0].rstrip('.')}.") from None
        if self.kind == "rows":
            rows = [row for batch in batches for row in batch.to_pylist()]
            return self.read(JSON, [as_json(row) for row in rows], learns)
        from bayou.sources.formats.arrow.cells import names_of
        from bayou.sources.formats.arrow.table import ArrowTable

        combined = pa.Table.from_batches(batches, opened.schema).combine_chunks().to_batches()
        if not combined:
            return self._read(JSON, [], learns)
        table = ArrowTable(self._parsers[JSON, learns].plan, names_of(opened.schema), "the table")
        read = self._finished(table.convert(combined[0]), combined[0].num_rows, learns)
        read.bad_rows |= dict.fromkeys(_undescribed(read), "expected a row; this one is bad, too.")
        return read

    # --- labels that come later ---------------------------------------------------------------------------------------

    def attach_label(self, body_format: int, row: bytes, label: Any, weight: float = 1.0) -> bytes:
        """Return a row with its label and weight replaced, as if it had been sent with the new ones."""
        if body_format == VW:
            value = float(label) if isinstance(label, bool) else label
            return b"%s %r %s" % (str(value).encode(), weight, row[row.index(b"|") :])
        extra = [(self.label, label)]
        if self._weight is not None and (weight != 1.0 or json.dumps(self._weight).encode() in row or b"\\" in row):
            extra.append((self._weight, weight))
        inner = row.strip()[:-1].rstrip()
        comma = b"" if inner.endswith(b"{") else b","
        return b"%s%s%s}" % (inner, comma, json.dumps(dict(extra), ensure_ascii=False)[1:-1].encode("utf-8", "replace"))

    def check_labels(self, labels: Sequence[bytes]) -> dict[int, str]:
        """Return why labels are rejected, by their number; each is a JSON object that may have a weight."""
        row = b"|" if VW in self.forms else b"{}"
        return self.rows_with_labels([(self.forms[0], row, label) for label in labels]).bad_rows

    def check_rows(self, body_format: int, rows: Sequence[bytes]) -> dict[int, str]:
        """Return why rows would be rejected if they had a label, by their number."""
        sample: Any = (
            self._classes[0] if self._classes else 1 if self._recipe.positive is None else self._recipe.positive
        )
        label = json.dumps({"label": sample}).encode()
        return self.rows_with_labels([(body_format, row, label) for row in rows]).bad_rows

    def rows_with_labels(self, rows: Sequence[tuple[int, bytes, bytes]]) -> ParsedRows:
        """Parse rows with their late labels: (form, row, label with a weight), in order."""
        labels = [json.loads(about) for _, _, about in rows]
        pairs = [(about["label"], float(about.get("weight", 1.0))) for about in labels]
        lines = [
            self.attach_label(body_format, row, *pair) for (body_format, row, _), pair in zip(rows, pairs, strict=True)
        ]
        read = self.read(self.forms[0], lines, learns=True)
        if self.kind == "table" and self._weight is None:
            weights = np.array([weight for _, weight in pairs])[_numbered(read.batch).positions]
            read.batch = read.batch.with_labels(read.batch.labels, weights)
        return read


def _undescribed(read: ParsedRows) -> list[int]:
    """Return the numbers of bad rows that have no description yet, ascending."""
    valid = set(np.asarray(_numbered(read.batch).positions).tolist())
    return [row for row in range(read.n) if row not in valid and row not in read.bad_rows]


def _numbered(batch: Batch) -> Batch:
    """Return the batch with row positions: its own, or 0, 1, 2, ... if no row was bad."""
    return batch if batch.positions is not None else batch.with_positions(np.arange(len(batch)))
