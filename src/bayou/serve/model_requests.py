"""Requests to a model, on their way from the network to the owner thread and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayou.serve.label_joins import LEARN
from bayou.serve.log import PendingEntry
from bayou.serve.row_reader import ParsedRows

PREDICT, LEARN_REQUEST, LABEL_REQUEST = range(3)


class ModelRequest:
    """Request to a model.

    Attributes:
        lines: its rows, as they were sent; an Arrow stream is one line. Late labels are JSON objects with a weight.
        single: whether it is a single row and not a list.
        key: for rows to learn, the request's id; row_ids: the ids that some of the rows have.
        ids: the ids under which rows are stored, or to which labels belong.
        level: the level of intervals.
        read: the parsed rows of a long request, which another thread has read.
        response: the response, if it is known before it can be sent.
        submitted: when it was submitted to the owner, by `time.perf_counter`.
    """

    submitted = 0.0
    # Class attributes as defaults: most requests set none of these, and there are many requests.
    key: str | None = None
    row_ids: Sequence[str] = ()
    ids: Sequence[str | None] | None = None
    level: float = 0.95
    read: ParsedRows | None = None
    response: Any = None

    def __init__(
        self, kind: int, form: int, lines: Sequence[bytes], single: bool, future: asyncio.Future[bytes]
    ) -> None:
        self.kind, self.body_format, self.lines, self.single, self.future = kind, form, lines, single, future

    @property
    def n_rows(self) -> int:
        return len(self.lines) if self.read is None else self.read.n


@dataclass(slots=True, eq=False)
class LearningUnit:
    """Requests that are logged and learned as one batch: labeled rows, or late labels and rows to store.

    Attributes:
        items: the entries to log, in order; rows to learn of all requests without an id are one item.
        requests: the requests, each with its items.
        read: the rows to learn, if they are known before logging.
        failed: why nothing of it was logged.
        queued: when it was passed to the log's thread, by `time.perf_counter`.
    """

    items: list[PendingEntry]
    requests: list[tuple[ModelRequest, Sequence[PendingEntry]]]
    read: ParsedRows | None = None
    failed: str | None = None
    queued: float = 0.0
    predictions: list[Any] = field(default_factory=list)

    @classmethod
    def to_learn(cls, requests: Sequence[ModelRequest], read: ParsedRows) -> LearningUnit:
        """Return the unit of labeled rows. Requests without an id are first, as one item: few long entries are fast."""
        unit = cls([], [], read)
        plain = [work for work in requests if work.key is None]
        for group in filter(None, [plain, *([work] for work in requests[len(plain) :])]):
            text = b"\n".join([line for work in group for line in work.lines])
            ids = [key for work in group for key in work.row_ids]
            unit._add(group, [PendingEntry(LEARN, group[0].body_format, group[0].key, text, labeled_ids=ids)])
        return unit

    @classmethod
    def of_ids(cls, kind: int, requests: Iterable[ModelRequest]) -> LearningUnit:
        """Return the unit of late labels, or of rows that were predicted under an id; each may join the other."""
        unit = cls([], [])
        for work in requests:
            pairs = zip(work.ids or (), work.lines, strict=True)
            unit._add(
                [work], [PendingEntry(kind, work.body_format, key, line) for key, line in pairs if key is not None]
            )
        return unit

    def _add(self, requests: Sequence[ModelRequest], items: list[PendingEntry]) -> None:
        self.items += items
        self.requests += [(work, items) for work in requests]
