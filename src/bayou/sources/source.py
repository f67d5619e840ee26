"""Source: batches from files or tables, in order, with what was skipped counted and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import one_of, whole_number
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.recipe import Recipe
from bayou.sources.labels import LabelRule
from bayou.sources.reading.parsed import DESCRIBED, Bad, Piece, nothing
from bayou.sources.reading.readahead import Block, Files, InOrder

ON_ERROR = {"raise": False, "skip": True}


@dataclass
class _Ready:
    """A block, parsed, with as much done as does not depend on the blocks before it."""

    file: str
    first: bool
    labels: np.ndarray  # as the rule read them, with negatives as they were written
    strange: np.ndarray  # labels as written that say nothing to the rule
    piece: Piece
    batch: Batch | None  # None if its features have no numbers yet


class Source:
    """Batches from one reading of the data after another: each iteration is a pass.

    Attributes:
        extras: what a model needs to read such data again: the recipe (a table's is fitted by the time the first
            batch is out), the names met so far, the numbering. For a new model: `learner.extras = source.extras`.
        rows: examples given so far in this pass; lines: lines (or rows of a table) read; skipped: bad ones among them.
        bad: the first few of those as sentences, "file:line:column: what was expected".
        folded: indices that were too wide for the table of weights and were folded into it.
        bytes_done, bytes_total: how far, if that can be known.
    """

    def __init__(
        self,
        reader: Any,
        extras: Extras,
        *,
        on_error: str = "raise",
        labels: bool = True,
        threads: int = 1,
    ) -> None:
        self.extras = extras
        self._reader = reader
        self.skips = one_of("on_error", on_error, ON_ERROR)
        self._labels_needed = labels
        self._rule = LabelRule(extras.required_recipe)
        self._threads = whole_number("threads", threads, 0, 64)
        self._passes = 0
        self._ahead: InOrder | None = None
        self._forget()

    @property
    def recipe(self) -> Recipe:
        return self.extras.required_recipe

    @property
    def again(self) -> bool:
        """Whether the data can be read more than once."""
        return self._reader.again

    def _forget(self) -> None:
        self.rows = self.lines = self.skipped = self.folded = 0
        self.bad: list[str] = []
        self._line = 0  # lines of the present file before the present block

    @property
    def bytes_done(self) -> int:
        return self._reader.bytes_done

    @property
    def bytes_total(self) -> int | None:
        return self._reader.bytes_total

    def __iter__(self) -> Iterator[Batch]:
        if self._passes and not self._reader.again:
            raise BadInput("a pipe can be read only once; save the data to a file to make several passes.")
        self._passes += 1
        self._forget()
        self._reader.start()
        # Somebody else must wait at a pipe, so that this thread can hear of an interrupt.
        threads = max(self._threads, 1) if self._reader.waits else self._threads
        ahead = InOrder(self._reader.tasks(), self._work, threads, help=not self._reader.waits)
        self._ahead = ahead
        try:
            for ready in ahead:
                batch = self._finish(ready)
                if len(batch):
                    self.rows += len(batch)
                    yield batch
        finally:
            ahead.close()

    def taste(self) -> Batch:
        """The first few rows, which will come again: something to try a learner on before time is measured."""
        piece = self._work(self._reader.taste()).piece
        if piece.indices.dtype == np.uint64:
            piece.indices = piece.indices % np.uint64(self.recipe.n_features)
        return _batch(piece)

    def check_learned(self, refused: Sequence[str], n_refused: int) -> None:
        """After a pass: say it if there was nothing to learn from, but for rows that a learner refused."""
        if self.rows > n_refused:
            return
        bad = [*self.bad, *refused]
        if not bad:
            raise BadInput(f"{self._reader.what} has no examples to learn from; check that it is the right file.")
        raise BadInput(
            f"none of the {self.lines:,} lines could be learned from; the first: {bad[0]} They were read as "
            f"{self.recipe.kind} data; if they are not, say so with --format."
        )

    def stop(self) -> None:
        """End the present pass after the batch that is out. A signal handler may call this."""
        if self._ahead is not None:
            self._ahead.stop()

    # --- in any thread ----------------------------------------------------------------------------------------------

    def _work(self, task: Any) -> _Ready:
        piece = self._reader.parse(task)
        labels = self._rule.read(piece.labels)
        strange = piece.labels[np.isnan(labels) & ~np.isnan(piece.labels)]
        if self._labels_needed and np.isnan(labels).any():
            bad = np.isnan(labels)
            _drop(piece, bad, [self._rule.what(label) for label in piece.labels[bad][:DESCRIBED]])
            labels = labels[~bad]
        raw, piece.labels = labels, np.where(labels == 0, -1.0, labels) if self._rule.classes else labels
        batch = None if self._unnumbered(piece) else _batch(piece)
        return _Ready(task.file, task.first, raw, strange, piece, batch)

    def _unnumbered(self, piece: Piece) -> bool:
        return self.extras.numbering is not None and piece.indices.dtype == np.uint64

    # --- in order ---------------------------------------------------------------------------------------------------

    def _finish(self, ready: _Ready) -> Batch:
        piece, batch, names = ready.piece, ready.batch, self.extras.names
        mixed = self._rule.mixed(ready.labels) if self._labels_needed else None
        if mixed is not None:
            _drop(piece, mixed, [self._rule.what(label, mixed=True) for label in ready.labels[mixed][:DESCRIBED]])
            batch = None
        if not self.lines and self._labels_needed and len(ready.strange) > len(ready.labels):
            # Not a bad line here and there: what is positive was never said.
            raise BadInput(f"{ready.file}: most labels say nothing: {self._rule.what(ready.strange[0])}.")
        if ready.first:
            self._line = 0
        self._note(ready.file, piece)
        if self.extras.numbering is not None and self._unnumbered(piece):
            self.extras.numbering.number(piece)
        if names is not None and piece.found is not None:
            names.add(piece.found)
        batch = _batch(piece) if batch is None else batch
        batch.positions = piece.positions + (self._line + 1)
        self._line += piece.lines
        return batch

    def _note(self, file: str, piece: Piece) -> None:
        self.lines += piece.lines
        self.skipped += piece.skipped
        self.folded += piece.folded
        for bad in piece.bad:
            place = f"{file}:{self._line + bad.line + 1}" if bad.line >= 0 else file
            said = f"{place}:{bad.column}: {bad.what}." if bad.column else f"{place}: {bad.what}."
            if not self.skips:
                raise BadInput(said)
            if len(self.bad) < DESCRIBED:
                self.bad.append(said)


def _batch(piece: Piece) -> Batch:
    if piece.facts is not None and piece.facts.canonical:
        facts = piece.facts
        return Batch.trusted(
            piece.indptr,
            piece.indices,
            piece.values,
            piece.labels,
            piece.weights,
            tags=piece.tags,
            longest=facts.longest,
            largest=facts.largest,
            ones=facts.ones,
            max_index=facts.max_index,
        )
    batch = Batch.from_arrays(
        piece.indptr,
        piece.indices,
        piece.values,
        piece.labels,
        piece.weights,
        tags=piece.tags,
        positions=piece.positions,
    )
    piece.folded += batch.folded
    return batch


def _drop(piece: Piece, rows: np.ndarray, whats: Iterable[str]) -> None:
    """Take rows out of a piece: they turned out bad, for these reasons (of the first few)."""
    described = [Bad(int(line), 1, what) for line, what in zip(piece.positions[rows], whats, strict=False)]
    piece.bad = sorted([*piece.bad, *described])[:DESCRIBED]
    piece.skipped += int(rows.sum())
    piece.facts = None
    keep = ~rows
    lengths = np.diff(piece.indptr)
    nonzeros = np.repeat(keep, lengths)
    piece.indptr = np.concatenate([[0], np.cumsum(lengths[keep])])
    piece.indices, piece.values = piece.indices[nonzeros], piece.values[nonzeros]
    piece.labels, piece.positions = piece.labels[keep], piece.positions[keep]
    piece.weights = None if piece.weights is None else piece.weights[keep]
    piece.tags = None if piece.tags is None else [tag for tag, kept in zip(piece.tags, keep, strict=True) if kept]
    if piece.found is not None:
        met = np.isin(piece.found.indices, piece.indices)
        piece.found = piece.found._replace(indices=piece.found.indices[met], spans=piece.found.spans[met])


class TextReader:
    """Blocks of text and the parser they go through."""

    what = "the data"  # is read: its file

    def __init__(self, files: Files, parser: Any) -> None:
        self._files, self._parser = files, parser
        files.cut = parser.cut
        self.again = not files.waits

    @property
    def waits(self) -> bool:
        return self._files.waits

    @property
    def bytes_done(self) -> int:
        return self._files.bytes_done

    @property
    def bytes_total(self) -> int | None:
        return self._files.bytes_total

    def start(self) -> None:
        """Nothing has to be known before the first block."""

    def taste(self) -> Block:
        return self._files.first_lines()

    def tasks(self) -> Iterable[Block]:
        return self._files

    def parse(self, block: Block) -> Piece:
        if block.trouble is not None:
            return nothing(block)
        return self._parser.parse(block)
