"""Units of the log: requests that are logged and learned together, as one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayou.serve.log import JSON, LABEL, LEARN, ROW, Item
from bayou.serve.reading import Read
from bayou.serve.work import Unit, Work


def of_rows_to_learn(works: Sequence[Work], read: Read) -> Unit:
    """Rows with labels. Requests without an id stand first, and are one item: a log of few long entries is quick."""
    unit = Unit([], [], read)
    plain = [work for work in works if work.key is None]
    if plain:
        text = b"\n".join([line for work in plain for line in work.lines])
        item = Item(LEARN, plain[0].form, None, text, settles=[key for work in plain for key in work.known])
        unit.items.append(item)
        unit.works += [(work, (item,)) for work in plain]
    for work in works[len(plain) :]:
        _add(unit, work, [Item(LEARN, work.form, work.key, b"\n".join(work.lines), settles=work.known)])
    return unit


def of_labels(works: Iterable[Work]) -> Unit:
    """Labels, which may join rows."""
    unit = Unit([], [])
    for work in works:
        pairs = zip(work.ids or (), work.answer, strict=True)
        _add(unit, work, [Item(LABEL, JSON, key, told) for key, told in pairs])
    return unit


def of_rows_to_remember(works: Iterable[Work]) -> Unit:
    """Rows that were predicted under an id, whose labels may be there already."""
    unit = Unit([], [])
    for work in works:
        pairs = zip(work.ids or (), work.lines, strict=True)
        _add(unit, work, [Item(ROW, work.form, key, line) for key, line in pairs if key is not None])
    return unit


def in_order(works: Sequence[Work]) -> list[Work]:
    """As `of_rows_to_learn` wants them."""
    return sorted(works, key=lambda work: work.key is not None)


def _add(unit: Unit, work: Work, items: list[Item]) -> None:
    unit.items += items
    unit.works.append((work, items))
