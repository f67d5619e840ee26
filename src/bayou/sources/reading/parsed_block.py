"""Results of parsing one block of text or of a table: rows, bad lines and new names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.canonical import CsrStats, canonicalize
from bayou.recipe.feature_names import NewNames
from bayou.recipe.labels import LabelRule
from bayou.sources.reading.blocks import TextBlock

# Number of bad lines that are described per block, besides the first of each kind; all are counted.
MAX_DESCRIBED_LINES = 20


class BadLine(NamedTuple):
    """Description of a bad line."""

    line: int  # within the block, from 0
    column: int  # the byte within the line, from 1; 0 for the line as a whole
    reason: str  # "expected a number after ':'"


def kind_of(reason: str) -> str:
    """Return the kind of an error that many lines may share: its text without the part specific to this line.

    >>> kind_of("expected a number in column age, not 'old'"), kind_of("expected 3 cells, found 2")
    ('expected a number in column age', 'expected 3 cells')
    """
    return re.split(", (?:not|found) ", reason)[0]


def first_of_each(codes: np.ndarray) -> np.ndarray:
    """Return the indices of bad lines to describe, given their kinds: the first few, and the first of each kind."""
    _, first = np.unique(codes, return_index=True)
    described = np.sort(first)[:MAX_DESCRIBED_LINES], np.arange(min(len(codes), MAX_DESCRIBED_LINES))
    return np.unique(np.concatenate(described))


def in_short(bad_lines: Iterable[BadLine]) -> list[BadLine]:
    """Return the first MAX_DESCRIBED_LINES bad lines in order, and the first of each kind."""
    ordered, kinds = sorted(bad_lines), set[str]()
    short = []
    for index, line in enumerate(ordered):
        kind = kind_of(line.reason)
        if index < MAX_DESCRIBED_LINES or kind not in kinds:
            short.append(line)
        kinds.add(kind)
    return short


@dataclass
class ParsedBlock:
    """The rows of one block as CSR arrays, not checked yet (`Batch` does that), with bad lines and new names."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # uint32, or uint64 ids that are not numbered yet
    values: np.ndarray  # float32 or float64
    labels: np.ndarray  # float64, as given; NaN where missing
    positions: np.ndarray  # int64, the line of each row within the block, from 0
    lines: int  # number of lines in the block, including bad and empty ones
    weights: np.ndarray | None = None  # float64
    groups: np.ndarray | None = None  # uint8, the group of each nonzero (`recipe.groups`), if requested
    tags: list[str] | None = None
    bad_lines: list[BadLine] = field(default_factory=list)
    error_counts: Counter[str] = field(default_factory=Counter)  # number of bad lines of each kind
    n_wrapped: int = 0  # number of indices too large for the table, wrapped around
    bounds: CsrStats | None = None  # if the rows are canonical and the parser knows these, which need not be exact
    new_names: NewNames | None = None
    with_ids: bool | None = None  # whether a row has a value under the name reserved for ids; None if not checked
    fatal_error: str | None = None  # why the file could not be read to its end
    texts: dict[float, str] = field(default_factory=dict)  # text labels, by the numbers that stand for them
    # by column, the number of odd cells, which count as missing, and the first few of them
    odd_cells: dict[str, tuple[int, list[BadLine]]] = field(default_factory=dict)

    @classmethod
    def unreadable(cls, block: TextBlock) -> ParsedBlock:
        """Return the result for lines that could not be read: one bad line, or a file that ends too early."""
        nothing = np.empty(0)
        rows = np.zeros(1, np.int64), nothing.astype(np.uint32), nothing.astype(np.float32), nothing
        parsed = cls(*rows, positions=nothing.astype(np.int64), lines=block.lines)
        if block.lines:
            parsed.note([BadLine(0, 0, block.trouble or "")])
        else:
            parsed.fatal_error = block.trouble
        return parsed

    @property
    def skipped(self) -> int:
        """Number of bad lines, described or not."""
        return self.error_counts.total()

    def batch(self) -> Batch:
        """Return the rows as a batch."""
        rows = self.indptr, self.indices, self.values, self.groups
        seen = self.bounds
        if seen is None and self.indices.dtype == np.uint32:
            rows, seen = canonicalize(*rows)
        if seen is None or not seen.largest < np.inf:  # to be wrapped, or rejected
            arrays = self.indptr, self.indices, self.values, self.labels, self.weights
            batch = Batch.from_arrays(*arrays, tags=self.tags, groups=self.groups)
            self.n_wrapped += batch.n_wrapped
        else:
            # Views: `batch` may be called again, and kernels are compiled for writable arrays.
            groups = None if rows[3] is None else rows[3].view()
            views = rows[0].view(), rows[1].view(), rows[2].view(), groups
            batch = Batch.from_trusted(views, seen, self.labels, self.weights, self.tags)
        if self.bounds is None:
            batch.positions = self.positions
        return batch

    def settle_labels(
        self, rule: LabelRule, negative: float, *, needed: bool = True, advice: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Convert the labels from the values given in the data to those that learners take; done nowhere else.

        Args:
            rule: interprets labels. Classes are numbered later, in the order of the stream.
            negative: value of the negative binary label in the learner's stream: -1 or 0.
            needed: whether rows with a missing or unrecognized label are bad.
            advice: whether error messages may advise on options for interpreting labels.

        Returns:
            The labels of the remaining rows as the rule reads them, before `negative` is applied, and the unrecognized
            labels as given.
        """
        labels = rule.read(self.labels)
        unrecognized = self.labels[np.isnan(labels) & ~np.isnan(self.labels)]
        while needed and (bad_lines := np.isnan(labels)).any():
            missing = np.isnan(self.labels)
            bad_lines = missing if missing.any() else bad_lines  # one kind at a time
            described = self.labels[bad_lines][:MAX_DESCRIBED_LINES]
            self.drop(bad_lines, [rule.label_error(label, self.texts, advice=advice) for label in described])
            labels = labels[~bad_lines]
        self.labels = np.where(labels <= 0, negative, labels) if rule.two else labels
        return labels, unrecognized

    def note(self, bad_lines: Sequence[BadLine], error_counts: Mapping[str, int] | None = None) -> None:
        """Keep descriptions of the first few bad lines, and count them by kind; `error_counts` if some are missing."""
        self.bad_lines = in_short([*self.bad_lines, *bad_lines])
        self.error_counts.update(error_counts or Counter(kind_of(line.reason) for line in bad_lines))

    def note_codes(self, bad_lines: np.ndarray, reason: Mapping[int, str]) -> None:
        """Count bad lines given as rows of (line, column, code of the reason), and keep descriptions of some."""
        if not len(bad_lines):  # the usual case, and the calls below would cost as much as parsing some lines
            return
        codes, counts = np.unique(bad_lines[:, 2], return_counts=True)
        some = bad_lines[first_of_each(bad_lines[:, 2])].tolist()
        error_counts = {reason[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}
        self.note([BadLine(line, column, reason[code]) for line, column, code in some], error_counts)

    def keep_rows(self, rows: np.ndarray) -> None:
        """Keep only the labels, weights and positions of these rows; features are not changed."""
        self.labels, self.positions = self.labels[rows], self.positions[rows]
        self.weights = None if self.weights is None else self.weights[rows]

    def drop(self, rows: np.ndarray, reasons: Iterable[str]) -> None:
        """Drop bad rows of one kind, those where `rows` is true; `reasons` describes the first few of them."""
        described = [BadLine(int(line), 1, reason) for line, reason in zip(self.positions[rows], reasons, strict=False)]
        if not described:
            return
        self.note(described, {kind_of(described[0].reason): int(rows.sum())})
        self.bounds = None
        keep = ~rows
        lengths = np.diff(self.indptr)
        nonzeros = np.repeat(keep, lengths)
        self.indptr = np.concatenate([[0], np.cumsum(lengths[keep])])
        self.indices, self.values = self.indices[nonzeros], self.values[nonzeros]
        self.groups = None if self.groups is None else self.groups[nonzeros]
        self.keep_rows(keep)
        self.tags = None if self.tags is None else list(compress(self.tags, keep))
        if self.new_names is not None:
            names = self.new_names
            is_used = np.isin(names.indices, self.indices)
            self.new_names = names._replace(indices=names.indices[is_used], spans=names.spans[is_used])


_ones: dict[np.dtype, np.ndarray] = {}


def all_ones(size: int, dtype: np.dtype) -> np.ndarray:
    """Return a read-only array of ones, shared by all blocks: the values of indicators."""
    ones = _ones.get(dtype)
    if ones is None or len(ones) < size:
        ones = np.ones(max(size, 1 << 17), dtype)
        ones.flags.writeable = False
        _ones[dtype] = ones
    return ones[:size]
