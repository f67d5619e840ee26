"""Source: batches from files or tables, in order, with what was skipped counted and named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import one_of, whole_number
from bayou.core.errors import BadInput, NothingToLearn
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.recipe.labels import FEW, SHARE, LabelRule, Labels, Negatives, decide, taken_for_one
from bayou.recipe.recipe import Recipe
from bayou.sources.reading.blocks import Block, Texts
from bayou.sources.reading.in_order import InOrder
from bayou.sources.reading.parsed import DESCRIBED, BadLine, ParsedBlock, kind_of
from bayou.sources.reading.reader import Placed, Reader

ON_ERROR = {"raise": False, "skip": True}


@dataclass
class _Ready:
    """A block, parsed, with as much done as does not depend on the blocks before it."""

    file: str
    first: bool
    labels: np.ndarray  # as the rule read them, with negatives as they were written
    negatives: Negatives  # how they were written
    strange: np.ndarray  # labels as written that say nothing to the rule
    parsed: ParsedBlock
    batch: Batch | None  # None if its features have no numbers yet
    done: float | None  # the share of the data that lies before its end


class Cut(NamedTuple):
    """A block of text, not read yet."""

    task: Any  # as its reader has it
    line: int | None  # lines of its file before it, if somebody has counted them
    done: float  # the share of the data that lies before its end

    @property
    def block(self) -> Block:
        return cast(Block, _text_of(self.task))

    def with_text(self, text: np.ndarray) -> Cut:
        """The same with its bytes somewhere else; as many newlines as kernels look ahead stand behind them."""
        block = replace(self.block, data=text)
        return self._replace(task=block if isinstance(self.task, Block) else self.task._replace(block=block))


def _text_of(task: Any) -> Block | None:
    block = getattr(task, "block", task)
    return block if isinstance(block, Block) else None


def _lines_in(block: Block) -> int:
    """Counted some bytes at a time: room for all at once would be new memory each time, which is dear."""
    cuts = range(0, block.size, 65_536)
    return sum(block.data[start : min(start + 65_536, block.size)].tobytes().count(b"\n") for start in cuts)


class Source:
    """Batches from one reading of the data after another: each iteration is a pass.

    Attributes:
        extras: what a model needs to read such data again: the recipe (a table's is fitted by the time the first
            batch is out), the names met so far, the numbering. For a new model: `learner.extras = source.extras`.
        rows: examples given so far in this pass; lines: lines (or rows of a table) read; skipped: bad ones among them.
        bad: the first few of those as sentences, "file:line:column: what was expected"; kinds: by what was expected,
            how many there were, and the first of them.
        span: where in the data the batch that is out begins and ends, as shares of them by bytes or rows; None where
            nobody knows how much there is.
        folded: indices that were too wide for the table of weights and were folded into it.
        decided: what the labels were found to be, as a sentence, once the first rows were looked at (`settle`);
            n_classes: how many there were among them.
        odd: by column, how many cells were not the numbers or dates they must be, and count as missing; and where the
            first few are.
        bytes_done, bytes_total: how far, if that can be known.

    >>> import pyarrow as pa
    >>> from bayou import sources
    >>> source = sources.open(pa.table({"n": [1.5, 2.5], "y": [0, 1]}), recipe={"label": "y", "bits": 10})
    >>> sum(len(batch) for batch in source), source.skipped, source.again
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
        self.skips = one_of("on_error", on_error, ON_ERROR)
        self._labels_needed = labels
        self._settled: LabelRule | None = None
        self._negative = -1.0
        self._threads = whole_number("threads", threads, 0, 64)
        self._passes = 0
        self._ahead: InOrder | None = None
        self.decided, self.n_classes = "", 0
        self._both = False  # negatives are written in both ways
        self._texts = Texts()
        self.forget()

    @property
    def recipe(self) -> Recipe:
        return self.extras.required_recipe

    @property
    def _rule(self) -> LabelRule:
        """What labels say, which is known once the first rows were looked at."""
        if self._settled is None:
            self._reader.start()
            if self._labels_needed and self.recipe.task == "auto" and self.recipe.kind != "table":
                self.extras.recipe = decide(self.recipe, Labels(self._reader.labels()), self._reader.tell)
            self.decided, self.n_classes = self._reader.decided
            self._settled = LabelRule(self.recipe, self.extras.classes)
        return self._settled

    def settle(self) -> Recipe:
        """Look at the first rows; the recipe, with nothing left open."""
        self._rule  # noqa: B018
        return self.recipe

    def read_as(self, dtype: str, groups: bool) -> None:
        """Have features' values of this type, with or without the groups that they are of (`Batch.groups`)."""
        self.extras.groups = groups
        self._reader.read_as(dtype, groups)

    def label_for(self, learner: Learner) -> None:
        """Write the negative label of two classes as the learner's stream does, if it has begun; otherwise as -1."""
        self._negative = 0.0 if learner.negative_label == 0 else -1.0

    def leave_pairs(self) -> None:
        """Leave crosses of two to the learner; to be followed by `read_as`."""
        self.extras.recipe = self.settle().with_pairs_apart()

    @property
    def again(self) -> bool:
        """Whether the data can be read more than once."""
        return self._reader.again

    def forget(self) -> None:
        """Count anew, as at the beginning of a pass."""
        self.rows = self.lines = self.skipped = self.folded = 0
        self.bad: list[str] = []
        self.kinds: dict[str, tuple[int, str]] = {}
        self.odd: dict[str, tuple[int, list[str]]] = {}
        self._line = 0  # lines of the present file before the present block
        self._uncounted: Block | None = None  # that block, where nobody has counted them
        self.span: tuple[float, float] | None = None if self._reader.share_done is None else (0.0, 0.0)

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
        self.forget()
        self.settle()
        # Somebody else must wait at a pipe, so that this thread can hear of an interrupt.
        threads = max(self._threads, 1) if self._reader.waits else self._threads
        ahead = InOrder(self._reader.tasks(), self._work, threads, help=not self._reader.waits)
        self._ahead = ahead
        try:
            for ready in ahead:
                batch = self._finish(ready)
                if ready.done is not None and self.span is not None:
                    self.span = (self.span[1], max(ready.done, self.span[1]))
                if len(batch):
                    self.rows += len(batch)
                    yield batch
        finally:
            ahead.close()

    @property
    def in_blocks(self) -> bool:
        """Whether the data are text in files, which can be cut into blocks."""
        self.settle()
        return self.again and self.bytes_total is not None and _text_of(self._reader.peek().task) is not None

    def blocks(self) -> Iterator[Cut]:
        """One pass over text (`in_blocks`) that is not read yet: other sources of the same recipe can `read` it."""
        self._passes += 1
        self.forget()
        self.settle()
        line = 0
        for placed in self._reader.unread():
            block = _text_of(placed.task)
            if block is not None:
                line = 0 if block.first else line
                yield Cut(placed.task, None if block.unread else line, placed.done or 0.0)
                line += 0 if block.unread else _lines_in(block)

    def read(self, cut: Cut) -> Batch:
        """The rows of a block that this source has cut, or one like it."""
        self._line, self._uncounted = cut.line or 0, cut.block if cut.line is None else None
        if cut.block.unread:
            cut = cut.with_text(self._texts.of(cut.block))
        batch = self._finish(self._work(Placed(cut.task)))
        self.rows += len(batch)
        return batch

    @property
    def uncounted(self) -> int:
        """How many lines of its file stand before the block that was read last, where positions do not count them."""
        return 0 if self._uncounted is None else self._texts.lines_before(self._uncounted)

    def told(self) -> dict[str, Any]:
        """What was counted and found bad in this pass, for the source that has cut the blocks (`hear`)."""
        return {name: getattr(self, name) for name in ("rows", "lines", "skipped", "folded", "bad", "kinds", "odd")}

    def hear(self, told: Mapping[str, Any]) -> None:
        """Count what another source has read of this one's blocks."""
        for name in ("rows", "lines", "skipped", "folded"):
            setattr(self, name, getattr(self, name) + told[name])
        self.bad = [*self.bad, *told["bad"]][:DESCRIBED]
        for kind, (count, first) in told["kinds"].items():
            before, said = self.kinds.get(kind, (0, first))
            self.kinds[kind] = before + count, said
        for name, (count, places) in told["odd"].items():
            before, known = self.odd.get(name, (0, []))
            self.odd[name] = before + count, known or places

    def peek(self) -> Batch:
        """The first few rows, which will come again: something to try a learner on before time is measured."""
        self.settle()
        parsed = self._work(self._reader.peek()).parsed
        if self._rule.several:
            parsed.labels = np.zeros(len(parsed.labels))
        if parsed.indices.dtype == np.uint64:
            parsed.indices = (parsed.indices % np.uint64(self.recipe.n_features)).astype(np.uint32)
        return parsed.batch()

    def check_learned(self, refused: Sequence[str], n_refused: int) -> None:
        """After a pass: say it if there was nothing to learn from, but for rows that a learner refused."""
        if self.rows > n_refused:
            return
        bad = [*self.bad, *refused]
        if not bad:
            raise NothingToLearn(f"{self._reader.what} has no examples to learn from; check that it is the right file.")
        raise NothingToLearn(
            f"none of the {self.lines:,} lines could be learned from; the first: {bad[0]} They were read as "
            f"{self.recipe.kind} data; if they are not, say so with {option('format')}.",
            first=bad[0],
        )

    def stop(self) -> None:
        """End the present pass after the batch that is out. A signal handler may call this."""
        if self._ahead is not None:
            self._ahead.stop()

    # --- in any thread ----------------------------------------------------------------------------------------------

    def _work(self, placed: Placed) -> _Ready:
        task = placed.task
        parsed, rule = self._reader.parse(task), self._rule
        labels, strange = parsed.settle_labels(rule, self._negative, needed=self._labels_needed)
        batch = None if self._unnumbered(parsed) or rule.several else parsed.batch()
        return _Ready(task.file, task.first, labels, rule.negatives(labels), strange, parsed, batch, placed.done)

    def _unnumbered(self, parsed: ParsedBlock) -> bool:
        return self.extras.numbering is not None and parsed.indices.dtype == np.uint64

    # --- in order ---------------------------------------------------------------------------------------------------

    def _finish(self, ready: _Ready) -> Batch:
        parsed, batch, names = ready.parsed, ready.batch, self.extras.names
        mixed = self._rule.mixed(ready.labels, ready.negatives) if self._labels_needed else None
        if mixed is not None and self.skips:
            self._both = True
        elif mixed is not None:
            parsed.drop(mixed, [self._rule.what(label, mixed=True) for label in ready.labels[mixed][:DESCRIBED]])
            batch = None
        if not self.lines and self._labels_needed and self._says_little(ready):
            what = self._rule.what(ready.strange[0], parsed.texts)
            raise BadInput(f"{ready.file}: too many labels say nothing: {what}.")
        if ready.first:
            self._line = 0
        if parsed.broken is not None:  # no bad line that could be skipped: nobody knows how much is missing
            raise BadInput(f"{ready.file}: {parsed.broken}, after line {self._line + self.uncounted:,}.")
        self._note(ready.file, parsed)
        if self.extras.numbering is not None and self._unnumbered(parsed):
            self.extras.numbering.number(parsed)
        if self._rule.several:
            parsed.labels = self._rule.number(parsed.labels, parsed.texts, join=self._labels_needed)
        if names is not None and parsed.new_names is not None:
            names.add(parsed.new_names)
        batch = parsed.batch() if batch is None else batch
        batch = batch.with_positions(parsed.positions + (self._line + 1))
        self._line += parsed.lines
        return batch

    def _says_little(self, first: _Ready) -> bool:
        """Whether what is positive was never said: most labels mean nothing, or the others are of one class."""
        strange, labels = len(first.strange), first.labels
        alike = not len(labels) or bool((labels == labels[0]).all())
        return strange > (min(len(labels), max(FEW, SHARE * (strange + len(labels)))) if alike else len(labels))

    def _note(self, file: str, parsed: ParsedBlock) -> None:
        self.lines += parsed.lines
        self.skipped += parsed.skipped
        self.folded += parsed.folded
        for bad in parsed.bad:
            said, kind = f"{self._placed(file, bad)}.", kind_of(bad.what)
            if not self.skips:
                raise BadInput(said)
            if len(self.bad) < DESCRIBED:
                self.bad.append(said)
            count, first = self.kinds.get(kind, (0, said))
            self.kinds[kind] = count + parsed.kinds.pop(kind, 0), first
        for name, (more, cells) in parsed.odd.items():
            before, places = self.odd.get(name, (0, []))
            self.odd[name] = (before + more, places or [self._placed(file, cell) for cell in cells])

    def _placed(self, file: str, bad: BadLine) -> str:
        place = f"{file}:{self._line + self.uncounted + bad.line + 1}"
        return f"{place}:{bad.column}: {bad.what}" if bad.column else f"{place}: {bad.what}"

    @property
    def remarks(self) -> list[str]:
        """What there is to say of the data that is no error."""
        said = [taken_for_one()] if self._both else []
        dates = {column.name for column in self.recipe.columns or () if column.role == "date"}
        for name, (count, first) in list(self.odd.items())[:DESCRIBED]:
            what = f"{count:,} cells" if count > 1 else "a cell"
            some = "; ".join(first) + "; ..." * (count > len(first))
            kind = "no date" if name in dates else "no number"
            said.append(f"{what} in column {name!r} {'are' if count > 1 else 'is'} {kind}, and missing: {some}")
        return said
