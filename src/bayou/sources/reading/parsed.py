"""What one block of text, or of a table, held: rows, bad lines, new names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.canonical import tidied

if TYPE_CHECKING:
    from bayou.recipe.feature_names import NewNames
    from bayou.recipe.labels import LabelRule
    from bayou.sources.reading.blocks import Block

# How many of a block's bad lines are described, the first of each kind among them; all are counted.
DESCRIBED = 20


class BadLine(NamedTuple):
    """A line that could not be used."""

    line: int  # within the block, from 0
    column: int  # the byte within the line, from 1; 0 if the line as a whole is meant
    what: str  # "expected a number after ':'"


def kind_of(what: str) -> str:
    """What many lines may have wrong in common: the sentence without what was found in this one.

    >>> kind_of("expected a number in column age, not 'old'"), kind_of("expected 3 cells, found 2")
    ('expected a number in column age', 'expected 3 cells')
    """
    return re.split(", (?:not|found) ", what)[0]


def first_of_each(kinds: np.ndarray) -> np.ndarray:
    """Which lines to describe, of bad ones of these kinds: the first few, and the first one of each kind."""
    _, first = np.unique(kinds, return_index=True)
    return np.unique(np.concatenate([np.sort(first)[:DESCRIBED], np.arange(min(len(kinds), DESCRIBED))]))


def in_short(bad: Iterable[BadLine]) -> list[BadLine]:
    """At most DESCRIBED of them in order, and the first of each kind."""
    ordered, met = sorted(bad), set[str]()
    short = []
    for number, line in enumerate(ordered):
        kind = kind_of(line.what)
        if number < DESCRIBED or kind not in met:
            short.append(line)
        met.add(kind)
    return short


def described(bad: np.ndarray, what: Mapping[int, str]) -> list[BadLine]:
    """Lines, columns and what was wrong by its code, of the lines that are to be described."""
    if not len(bad):  # as a rule, and finding nothing takes as long as parsing some lines
        return []
    return [BadLine(int(line), int(column), what[code]) for line, column, code in bad[first_of_each(bad[:, 2])]]


def counted(bad: np.ndarray, what: Mapping[int, str]) -> Counter[str]:
    """How many bad lines there are of each kind."""
    if not len(bad):
        return Counter()
    codes, often = np.unique(bad[:, 2], return_counts=True)
    return Counter({what[code]: count for code, count in zip(codes.tolist(), often.tolist(), strict=True)})


class Bounds(NamedTuple):
    """What a parser noticed on the way, which `Batch` would otherwise have to look for."""

    longest: int
    largest: float
    max_index: int
    ones: bool
    canonical: bool  # every row ascends, and no value is 0


@dataclass
class ParsedBlock:
    """The rows of one block as CSR arrays, not yet checked (`Batch` does that), and what came with them."""

    indptr: np.ndarray  # int64
    indices: np.ndarray  # uint32, or uint64 ids that are still to be numbered
    values: np.ndarray  # float32 or float64
    labels: np.ndarray  # float64, as written; NaN where there is none
    weights: np.ndarray | None  # float64
    positions: np.ndarray  # int64, the line of each row within the block, from 0
    lines: int  # in the block, bad and empty ones included
    groups: np.ndarray | None = None  # uint8, the column of each non-zero (`recipe.groups`), if somebody asked
    tags: list[str] | None = None
    bad: list[BadLine] = field(default_factory=list)
    skipped: int = 0  # bad lines, described or not
    kinds: Counter[str] = field(default_factory=Counter)  # how many there are of each kind
    folded: int = 0  # indices too wide for the table, folded into it
    bounds: Bounds | None = None
    new_names: NewNames | None = None
    with_ids: bool | None = None  # whether a row has the name that is for ids; None: nobody looked
    broken: str | None = None  # why the file ends here, which is not its end
    texts: dict[float, str] = field(default_factory=dict)  # of labels that are texts, by what stands for them
    # by column, how many cells count as missing because they are no numbers, and the first few of them
    odd: dict[str, tuple[int, list[BadLine]]] = field(default_factory=dict)

    @classmethod
    def unreadable(cls, block: Block) -> ParsedBlock:
        """In place of lines that could not be read: one bad line, or a file that ends where it should not."""
        bad = [BadLine(0, 0, block.trouble or "")] if block.lines else []
        return cls(
            indptr=np.zeros(1, np.int64),
            indices=np.empty(0, np.uint32),
            values=np.empty(0, np.float32),
            labels=np.empty(0),
            weights=None,
            positions=np.empty(0, np.int64),
            lines=block.lines,
            bad=bad,
            skipped=len(bad),
            kinds=Counter(kind_of(line.what) for line in bad),
            broken=None if block.lines else block.trouble,
        )

    def batch(self) -> Batch:
        """The rows as a batch."""
        rows = self.indptr, self.indices, self.values, self.groups
        known = bounds = self.bounds if self.bounds is not None and self.bounds.canonical else None
        if known is None and self.indices.dtype == np.uint32:
            rows, seen = tidied(*rows)
            bounds = Bounds(seen.longest, seen.largest, seen.max_index, seen.ones, canonical=True)
        if bounds is None or not bounds.largest < np.inf:  # to be folded, or refused
            arrays = self.indptr, self.indices, self.values, self.labels, self.weights
            batch = Batch.from_arrays(*arrays, tags=self.tags, groups=self.groups)
            self.folded += batch.folded
        else:
            # Views: a block may be asked again, and kernels are compiled for arrays that can be written to.
            indptr, indices, values = (array.view() for array in rows[:3])
            groups = None if rows[3] is None else rows[3].view()
            batch = Batch.trusted(
                indptr,
                indices,
                values,
                self.labels,
                self.weights,
                tags=self.tags,
                longest=bounds.longest,
                largest=bounds.largest,
                ones=bounds.ones,
                max_index=bounds.max_index,
                groups=groups,
            )
        if known is None:
            batch.positions = self.positions
        return batch

    def settle_labels(
        self, rule: LabelRule, negative: float, *, needed: bool = True, advice: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Make the labels, as written so far, those that a learner takes; the only place where they change.

        Args:
            rule: says what they mean. Classes are numbered later, in the order of the stream.
            negative: how the learner's stream writes the negative label of two classes: -1 or 0.
            needed: whether rows without a label, or with one that means nothing, are bad.
            advice: whether the caller can still say what labels mean.

        Returns:
            The labels of the rows that are left, as they were written, and those that mean nothing to the rule.
        """
        labels = rule.read(self.labels)
        strange = self.labels[np.isnan(labels) & ~np.isnan(self.labels)]
        while needed and (bad := np.isnan(labels)).any():
            missing = np.isnan(self.labels)
            bad = missing if missing.any() else bad  # one kind after the other
            some = self.labels[bad][:DESCRIBED]
            self.drop(bad, [rule.what(label, self.texts, advice=advice) for label in some])
            labels = labels[~bad]
        self.labels = np.where(labels <= 0, negative, labels) if rule.two else labels
        return labels, strange

    def note(self, bad: Iterable[BadLine], kinds: Mapping[str, int]) -> None:
        """Count more bad lines by their kinds, and describe the first few of all."""
        self.bad = in_short([*self.bad, *bad])
        self.skipped += sum(kinds.values())
        self.kinds.update(kinds)

    def keep_rows(self, rows: np.ndarray) -> None:
        """Keep the labels, weights and positions of these rows alone; the others have no features here."""
        self.labels, self.positions = self.labels[rows], self.positions[rows]
        self.weights = None if self.weights is None else self.weights[rows]

    def drop(self, rows: np.ndarray, reasons: Iterable[str]) -> None:
        """Take rows out (where `rows` is true): bad ones of one kind, for these reasons (of the first few)."""
        described = [BadLine(int(line), 1, what) for line, what in zip(self.positions[rows], reasons, strict=False)]
        if not described:
            return
        self.note(described, {kind_of(described[0].what): int(rows.sum())})
        self.bounds = None
        keep = ~rows
        lengths = np.diff(self.indptr)
        nonzeros = np.repeat(keep, lengths)
        self.indptr = np.concatenate([[0], np.cumsum(lengths[keep])])
        self.indices, self.values = self.indices[nonzeros], self.values[nonzeros]
        self.groups = None if self.groups is None else self.groups[nonzeros]
        self.keep_rows(keep)
        self.tags = None if self.tags is None else [tag for tag, kept in zip(self.tags, keep, strict=True) if kept]
        if self.new_names is not None:
            found = self.new_names
            met = np.isin(found.indices, self.indices)
            self.new_names = found._replace(indices=found.indices[met], spans=found.spans[met])


_ones: dict[np.dtype, np.ndarray] = {}


def all_ones(size: int, dtype: np.dtype) -> np.ndarray:
    """An array of ones, which nobody may write to: the values of indicators, shared by all blocks."""
    held = _ones.get(dtype)
    if held is None or len(held) < size:
        held = np.ones(max(size, 1 << 17), dtype)
        held.flags.writeable = False
        _ones[dtype] = held
    return held[:size]
