"""What requests ask of a model, on its way from the network to the model's thread and back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bayou.serve.log import Item
from bayou.serve.reading import Read

PREDICT, LEARN, LABEL = range(3)


class Work:
    """One request.

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
    """Requests that are logged and learned as one batch: rows with labels; or labels and rows that may meet.

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
