"""Requests to a model, on their way from the network to the owner thread and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayou.serve.log import JSON, ROW, Item
from bayou.serve.log import LABEL as LABEL_ENTRY
from bayou.serve.log import LEARN as LEARN_ENTRY
from bayou.serve.reading import Read

PREDICT, LEARN, LABEL = range(3)


class Work:
    """One request to a model.

    Attributes:
        lines: its rows, as they were sent; of an Arrow stream one line. Of labels, each as JSON with its weight.
        single: whether it is a row by itself, and no list of them.
        key: of rows to learn, the request's id; known: the ids that some of them have.
        ids: under which rows are remembered, or whose labels these are.
        level: of intervals.
        read: the rows, where another thread has read them: of a long request.
        answer: what will be said, where that is known before it can be.
        submitted: when it was handed to the owner, by `time.perf_counter`.
    """

    submitted = 0.0
    # Most requests say none of these, and there are many.
    key: str | None = None
    known: Sequence[str] = ()
    ids: Sequence[str | None] | None = None
    level: float = 0.95
    read: Read | None = None
    answer: Any = None

    def __init__(
        self, kind: int, form: int, lines: Sequence[bytes], single: bool, future: asyncio.Future[bytes]
    ) -> None:
        self.kind, self.form, self.lines, self.single, self.future = kind, form, lines, single, future


@dataclass(slots=True, eq=False)
class Unit:
    """Requests that are logged and learned as one batch: labeled rows, or late labels and rows to remember.

    Attributes:
        items: what is to be logged, in order; of several requests without an id rows to learn are one item.
        works: each with its items.
        read: the rows to learn, where they are known before.
        failed: why nothing of it was logged.
        queued: when the log's thread was given it, by `time.perf_counter`.
    """

    items: list[Item]
    works: list[tuple[Work, Sequence[Item]]]
    read: Read | None = None
    failed: str | None = None
    queued: float = 0.0
    told: list[Any] = field(default_factory=list)

    @classmethod
    def to_learn(cls, works: Sequence[Work], read: Read) -> Unit:
        """Return the unit of labeled rows. Requests without an id are first, as one item: few long entries are fast."""
        unit = cls([], [], read)
        plain = [work for work in works if work.key is None]
        if plain:
            text = b"\n".join([line for work in plain for line in work.lines])
            item = Item(LEARN_ENTRY, plain[0].form, None, text, settles=[key for work in plain for key in work.known])
            unit.items.append(item)
            unit.works += [(work, (item,)) for work in plain]
        for work in works[len(plain) :]:
            text = b"\n".join(work.lines)
            unit._add(work, [Item(LEARN_ENTRY, work.form, work.key, text, settles=work.known)])
        return unit

    @classmethod
    def of_labels(cls, works: Iterable[Work]) -> Unit:
        """Return the unit of late labels, which may join rows."""
        unit = cls([], [])
        for work in works:
            pairs = zip(work.ids or (), work.answer, strict=True)
            unit._add(work, [Item(LABEL_ENTRY, JSON, key, label) for key, label in pairs])
        return unit

    @classmethod
    def to_remember(cls, works: Iterable[Work]) -> Unit:
        """Return the unit of rows that were predicted under an id; their labels may have come already."""
        unit = cls([], [])
        for work in works:
            pairs = zip(work.ids or (), work.lines, strict=True)
            unit._add(work, [Item(ROW, work.form, key, line) for key, line in pairs if key is not None])
        return unit

    def _add(self, work: Work, items: list[Item]) -> None:
        self.items += items
        self.works.append((work, items))


def in_order(works: Sequence[Work]) -> list[Work]:
    """Return requests in the order that `Unit.to_learn` needs: those without an id first."""
    return sorted(works, key=lambda work: work.key is not None)
