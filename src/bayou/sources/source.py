"""Source: batches from files or tables, in order, with bad lines counted and described.

The parser of a format finds bad lines, `ParsedBlock.note` counts those of a block by kind, and `Source._note` those of
a pass. Rows that only the learner rejects are counted by `rejected_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_choice, check_int
from bayou.core.errors import BadInput, NothingToLearn
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.recipe.labels import FEW, SHARE, LabelCounts, LabelRule, NegativeForms, choose_task, taken_for_one
from bayou.recipe.recipe import Recipe
from bayou.sources.reading.blocks import BlockLoader, TextBlock
from bayou.sources.reading.parallel_map import ParallelMap
from bayou.sources.reading.parsed_block import MAX_DESCRIBED_LINES, BadLine, ParsedBlock, kind_of
from bayou.sources.reading.reader import Reader, ReadTask

ON_ERROR = {"raise": False, "skip": True}
# The numbers that sources of one pass add up.
_SUMMED = ("rows", "lines", "skipped", "n_wrapped")


@dataclass
class _ParsedTask:
    """A parsed block, processed as far as possible without the blocks before it."""

    file: str
    first: bool
    labels: np.ndarray  # as the rule read them, with negatives as given
    negatives: NegativeForms  # how negatives are written in the data
    strange: np.ndarray  # unrecognized labels, as given
    parsed: ParsedBlock
    batch: Batch | None  # None if its features, or its classes, are not numbered yet
    done: float | None  # the fraction of the data before its end


class UnparsedBlock(NamedTuple):
    """A block of text that another source can read (`Source.read`)."""

    block: TextBlock
    line: int | None  # number of lines before it in its file; None if not counted yet
    done: float  # the fraction of the data before its end

    def with_text(self, text: np.ndarray) -> UnparsedBlock:
        """Return the block with `text` as its bytes, which must be followed by PADDING newlines."""
        return self._replace(block=replace(self.block, data=text))


def _lines_in(block: TextBlock) -> int:
    """Return the number of lines in a block, counted in small pieces, as new memory for all of it is expensive."""
    cuts = range(0, block.size, 65_536)
    return sum(block.data[start : min(start + 65_536, block.size)].tobytes().count(b"\n") for start in cuts)


class Source:
    """Iterable of batches over the data: each iteration is a pass.

    Attributes:
        extras: what a model needs to read such data again: the recipe (for a table, fitted before the first batch is
            yielded), the names seen so far, the numbering. For a new model: `learner.extras = source.extras`.
        rows: number of examples yielded in this pass; lines: of lines (or rows of a table) read; skipped: of bad lines.
        bad_lines: descriptions of the first bad lines, "file:line:column: what was expected".
        error_counts: for each kind of error, the number of bad lines and the description of the first.
        progress_span: begin and end of the current batch in the data, as fractions by bytes or rows; None where the
            amount of data is unknown.
        n_wrapped: number of indices that were too large for the table of weights and wrapped around.
        decided: how the labels were interpreted, as a sentence, after `fit_recipe`; n_classes: the number of classes
            among the first rows.
        odd_cells: by column, the number of odd cells, which are not valid numbers or dates and count as missing, and
            where the first few are.
        bytes_done, bytes_total: bytes read so far, and size of the data, if known.

    >>> import pyarrow as pa
    >>> from bayou import sources
    >>> source = sources.open(pa.table({"n": [1.5, 2.5], "y": [0, 1]}), recipe={"label": "y", "bits": 10})
    >>> sum(len(batch) for batch in source), source.skipped, source.is_rereadable
    (2, 0, True)
    """

    def __init__(
        self,
        reader: Reader,
        extras: Extras,
        *,
        on_error: str = "raise",
        labels: bool = True,
        threads: int = 1,
    ) -> None:
        self.extras = extras
        self._reader = reader
        self.skips = check_choice("on_error", on_error, ON_ERROR)
        self._labels_needed = labels
        self._settled: LabelRule | None = None
        self._negative = -1.0
        self._threads = check_int("threads", threads, 0, 64)
        self._passes = 0
        self._ahead: ParallelMap | None = None
        self.decided, self.n_classes = "", 0
        self._both = False  # whether negatives are written both as 0 and as -1
        self._texts = BlockLoader()
        self.reset_counts()

    @property
    def recipe(self) -> Recipe:
        return self.extras.required_recipe

    @property
    def _rule(self) -> LabelRule:
        """Rule that interprets labels, created on first use from the first rows."""
        if self._settled is None:
            self._reader.start()
            if self._labels_needed and self.recipe.task == "auto" and self.recipe.kind != "table":
                self.extras.recipe = choose_task(
                    self.recipe, LabelCounts(self._reader.labels()), self._reader.set_labels
                )
            self.decided, self.n_classes = self._reader.decided
            self._settled = LabelRule(self.recipe, self.extras.classes)
        return self._settled

    def fit_recipe(self) -> Recipe:
        """Examine the first rows if necessary, and return the recipe with nothing left to infer."""
        self._rule  # noqa: B018
        return self.recipe

    def read_as(self, dtype: str, groups: bool) -> None:
        """Set the type of features' values, and whether batches have groups (`Batch.groups`)."""
        self.extras.groups = groups
        self._reader.read_as(dtype, groups)

    def label_for(self, learner: Learner) -> None:
        """Set the negative binary label to that of the learner's stream, or to -1 if the stream has not begun."""
        self._negative = 0.0 if learner.negative_label == 0 else -1.0

    def leave_pairs(self) -> None:
        """Leave pairwise crosses to the learner; call `read_as` afterwards."""
        self.extras.recipe = self.fit_recipe().with_pairs_apart()

    @property
    def is_rereadable(self) -> bool:
        """True if the data can be read more than once."""
        return self._reader.is_rereadable

    def reset_counts(self) -> None:
        """Reset all counts, as at the beginning of a pass."""
        self.rows = self.lines = self.skipped = self.n_wrapped = 0
        self.bad_lines: list[str] = []
        self.error_counts: dict[str, tuple[int, str]] = {}
        self.odd_cells: dict[str, tuple[int, list[str]]] = {}
        self._line = 0  # lines of the current file before the current block
        self._uncounted: TextBlock | None = None  # that block, if these lines are not counted yet
        self.progress_span: tuple[float, float] | None = None if self._reader.fraction_done is None else (0.0, 0.0)

    @property
    def bytes_done(self) -> int:
        return self._reader.bytes_done

    @property
    def bytes_total(self) -> int | None:
        return self._reader.bytes_total

    def __iter__(self) -> Iterator[Batch]:
        if self._passes and not self._reader.is_rereadable:
            raise BadInput("a pipe can be read only once; save the data to a file to make several passes.")
        self._passes += 1
        self.reset_counts()
        self.fit_recipe()
        # Another thread must wait for a pipe, so that this one can receive an interrupt.
        threads = max(self._threads, 1) if self._reader.waits else self._threads
        ahead = ParallelMap(self._reader.tasks(), self._work, threads, help=not self._reader.waits)
        self._ahead = ahead
        try:
            for ready in ahead:
                batch = self._finish(ready)
                if ready.done is not None and self.progress_span is not None:
                    self.progress_span = (self.progress_span[1], max(ready.done, self.progress_span[1]))
                if len(batch):
                    self.rows += len(batch)
                    yield batch
        finally:
            ahead.close()

    @property
    def in_blocks(self) -> bool:
        """True if the data are text in regular files, which can be cut into blocks."""
        self.fit_recipe()
        return self.is_rereadable and self.bytes_total is not None and isinstance(self._reader.peek().task, TextBlock)

    def blocks(self) -> Iterator[UnparsedBlock]:
        """Yield the blocks of one pass over text (`in_blocks`); sources with the same recipe can `read` them."""
        self._passes += 1
        self.reset_counts()
        self.fit_recipe()
        line = 0
        for placed in self._reader.unread_tasks():
            block = placed.task
            if isinstance(block, TextBlock):
                line = 0 if block.first else line
                yield UnparsedBlock(block, None if block.unread else line, placed.done or 0.0)
                line += 0 if block.unread else _lines_in(block)

    def read(self, cut: UnparsedBlock) -> Batch:
        """Return the rows of a block that this source, or one of the same data, has cut (`blocks`)."""
        self._line, self._uncounted = cut.line or 0, cut.block if cut.line is None else None
        if cut.block.unread:
            cut = cut.with_text(self._texts.of(cut.block))
        batch = self._finish(self._work(ReadTask(cut.block)))
        self.rows += len(batch)
        return batch

    @property
    def lines_before_block(self) -> int:
        """Number of lines before the last block `read`, if the positions of its rows do not include them; else 0."""
        return 0 if self._uncounted is None else self._texts.lines_before(self._uncounted)

    def pass_counts(self) -> dict[str, Any]:
        """Return the counts and bad lines of this pass, for `add_counts` of the source that has cut the blocks."""
        return {name: getattr(self, name) for name in (*_SUMMED, "bad_lines", "error_counts", "odd_cells")}

    def add_counts(self, pass_counts: Mapping[str, Any]) -> None:
        """Add the counts and bad lines of another source that has read some of this one's blocks."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + pass_counts[name])
        self.bad_lines = [*self.bad_lines, *pass_counts["bad_lines"]][:MAX_DESCRIBED_LINES]
        for attribute in ("error_counts", "odd_cells"):
            counts = getattr(self, attribute)
            for name, (count, first) in pass_counts[attribute].items():
                previous, examples = counts.get(name, (0, first))
                counts[name] = previous + count, examples

    def peek(self) -> Batch:
        """Return the first rows as a batch, to warm up a learner; the next pass will yield them again."""
        self.fit_recipe()
        parsed = self._work(self._reader.peek()).parsed
        if self._rule.several:
            parsed.labels = np.zeros(len(parsed.labels))
        if parsed.indices.dtype == np.uint64:
            parsed.indices = (parsed.indices % np.uint64(self.recipe.n_features)).astype(np.uint32)
        return parsed.batch()

    def check_learned(self, refused: Sequence[str], n_refused: int) -> None:
        """Raise NothingToLearn if a pass had no examples except those that the learner rejected."""
        if self.rows > n_refused:
            return
        bad_lines = [*self.bad_lines, *refused]
        if not bad_lines:
            raise NothingToLearn(f"{self._reader.what} has no examples to learn from; check that it is the right file.")
        raise NothingToLearn(
            f"none of the {self.lines:,} lines could be learned from; the first: {bad_lines[0]} They were read as "
            f"{self.recipe.kind} data; if they are not, specify {option('format')}.",
            first=bad_lines[0],
        )

    def stop(self) -> None:
        """End the current pass after the current batch. A signal handler may call this."""
        if self._ahead is not None:
            self._ahead.stop()

    # --- in any thread ----------------------------------------------------------------------------------------------

    def _work(self, placed: ReadTask) -> _ParsedTask:
        task = placed.task
        parsed, rule = self._reader.parse(task), self._rule
        labels, strange = parsed.settle_labels(rule, self._negative, needed=self._labels_needed)
        batch = None if self._unnumbered(parsed) or rule.several else parsed.batch()
        return _ParsedTask(task.file, task.first, labels, rule.negatives(labels), strange, parsed, batch, placed.done)

    def _unnumbered(self, parsed: ParsedBlock) -> bool:
        return self.extras.numbering is not None and parsed.indices.dtype == np.uint64

    # --- in order ---------------------------------------------------------------------------------------------------

    def _finish(self, ready: _ParsedTask) -> Batch:
        parsed, batch, names = ready.parsed, ready.batch, self.extras.names
        mixed = self._rule.mixed_negatives(ready.labels, ready.negatives) if self._labels_needed else None
        if mixed is not None and self.skips:
            self._both = True
        elif mixed is not None:
            labels = ready.labels[mixed][:MAX_DESCRIBED_LINES]
            parsed.drop(mixed, [self._rule.label_error(label, mixed_negatives=True) for label in labels])
            batch = None
        if not self.lines and self._labels_needed and self._labels_look_wrong(ready):
            what = self._rule.label_error(ready.strange[0], parsed.texts)
            raise BadInput(f"{ready.file}: too many labels are unusable: {what}.")
        if ready.first:
            self._line = 0
        if parsed.fatal_error is not None:  # not a bad line that could be skipped: an unknown amount is missing
            raise BadInput(f"{ready.file}: {parsed.fatal_error}, after line {self._line + self.lines_before_block:,}.")
        self._note(ready.file, parsed)
        if self.extras.numbering is not None and self._unnumbered(parsed):
            self.extras.numbering.replace_ids(parsed)
        if self._rule.several:
            parsed.labels = self._rule.number(parsed.labels, parsed.texts, add_classes=self._labels_needed)
        if names is not None and parsed.new_names is not None:
            names.add(parsed.new_names)
        batch = parsed.batch() if batch is None else batch
        batch = batch.with_positions(parsed.positions + (self._line + 1))
        self._line += parsed.lines
        return batch

    def _labels_look_wrong(self, first: _ParsedTask) -> bool:
        """Return whether too many labels are unrecognized, which suggests that the positive label was not given.

        Too many means more than the recognized ones or, if these are all equal, more than a small fraction of all.
        """
        strange, labels = len(first.strange), first.labels
        alike = not len(labels) or bool((labels == labels[0]).all())
        return strange > (min(len(labels), max(FEW, SHARE * (strange + len(labels)))) if alike else len(labels))

    def _note(self, file: str, parsed: ParsedBlock) -> None:
        self.lines += parsed.lines
        self.skipped += parsed.skipped
        self.n_wrapped += parsed.n_wrapped
        for line in parsed.bad_lines:
            sentence, kind = f"{self._placed(file, line)}.", kind_of(line.reason)
            if not self.skips:
                raise BadInput(sentence)
            if len(self.bad_lines) < MAX_DESCRIBED_LINES:
                self.bad_lines.append(sentence)
            count, first = self.error_counts.get(kind, (0, sentence))
            self.error_counts[kind] = count + parsed.error_counts.pop(kind, 0), first
        for name, (more, cells) in parsed.odd_cells.items():
            before, places = self.odd_cells.get(name, (0, []))
            self.odd_cells[name] = (before + more, places or [self._placed(file, cell) for cell in cells])

    def _placed(self, file: str, bad: BadLine) -> str:
        place = f"{file}:{self._line + self.lines_before_block + bad.line + 1}"
        return f"{place}:{bad.column}: {bad.reason}" if bad.column else f"{place}: {bad.reason}"

    @property
    def warnings(self) -> list[str]:
        """Warnings about the data, as sentences."""
        sentences = [taken_for_one()] if self._both else []
        dates = {column.name for column in self.recipe.columns or () if column.role == "date"}
        for name, (count, first) in list(self.odd_cells.items())[:MAX_DESCRIBED_LINES]:
            what = f"{count:,} cells" if count > 1 else "a cell"
            some = "; ".join(first) + "; ..." * (count > len(first))
            kind = "date" if name in dates else "number"
            wrong = f"are not {kind}s" if count > 1 else f"is not a {kind}"
            sentences.append(f"{what} in column {name!r} {wrong}, treated as missing: {some}")
        return sentences
