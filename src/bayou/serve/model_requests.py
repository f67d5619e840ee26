"""Requests to a model, on their way from the network to the owner thread and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayou.serve.label_joins import KIND_ROW
from bayou.serve.label_joins import LABEL as LABEL_ENTRY
from bayou.serve.label_joins import LEARN as LEARN_ENTRY
from bayou.serve.log import JSON, PendingEntry
from bayou.serve.row_reader import ParsedRows

PREDICT, LEARN_REQUEST, LABEL_REQUEST = range(3)


class ModelRequest:
    """Request to a model.

    Attributes:
        lines: its rows, as they were sent; an Arrow stream is one line. Labels are each JSON with a weight.
        single: whether it is a single row and not a list.
        key: for rows to learn, the request's id; row_ids: the ids that some of the rows have.
        ids: the ids under which rows are stored, or to which labels belong.
        level: the level of intervals.
        read: the parsed rows of a long request, which another thread has read.
        answer: the response, if it is known before it can be sent.
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


@dataclass(slots=True, eq=False)
class LearningUnit:
    """Requests that are logged and learned as one batch: labeled rows, or late labels and rows to remember.

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
        if plain:
            text = b"\n".join([line for work in plain for line in work.lines])
            item = PendingEntry(
                LEARN_ENTRY,
                plain[0].body_format,
                None,
                text,
                labeled_ids=[key for work in plain for key in work.row_ids],
            )
            unit.items.append(item)
            unit.requests += [(work, (item,)) for work in plain]
        for work in requests[len(plain) :]:
            text = b"\n".join(work.lines)
            unit._add(work, [PendingEntry(LEARN_ENTRY, work.body_format, work.key, text, labeled_ids=work.row_ids)])
        return unit

    @classmethod
    def of_labels(cls, requests: Iterable[ModelRequest]) -> LearningUnit:
        """Return the unit of late labels, which may join rows."""
        unit = cls([], [])
        for work in requests:
            pairs = zip(work.ids or (), work.response, strict=True)
            unit._add(work, [PendingEntry(LABEL_ENTRY, JSON, key, label) for key, label in pairs])
        return unit

    @classmethod
    def to_remember(cls, requests: Iterable[ModelRequest]) -> LearningUnit:
        """Return the unit of rows that were predicted under an id; their labels may have come already."""
        unit = cls([], [])
        for work in requests:
            pairs = zip(work.ids or (), work.lines, strict=True)
            unit._add(
                work, [PendingEntry(KIND_ROW, work.body_format, key, line) for key, line in pairs if key is not None]
            )
        return unit

    def _add(self, work: ModelRequest, items: list[PendingEntry]) -> None:
        self.items += items
        self.requests.append((work, items))


def in_order(requests: Sequence[ModelRequest]) -> list[ModelRequest]:
    """Return requests in the order that `LearningUnit.to_learn` needs: those without an id first."""
    return sorted(requests, key=lambda work: work.key is not None)
