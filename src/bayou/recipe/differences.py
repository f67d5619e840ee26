"""Descriptions of the differences between two recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def column_differences(mine: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """Return the differences between the columns of two recipes, in words."""
    left, right = ({column.name: column for column in columns} for columns in (mine, theirs))
    sentences = [f"column {name!r} is only in one" for name in [*left, *right] if (name in left) != (name in right)]
    for name, column in left.items():
        match = right.get(name, column)
        if match.role != column.role:
            sentences.append(f"column {name!r} is {column.role} in one and {match.role} in the other")
        elif match != column:
            sentences.append(f"column {name!r} is {column.role} in both, fitted to other numbers")
    return sentences or ["the columns are in a different order"]


def in_words(value: Any) -> str:
    """Return the value of a recipe's field in words."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ", ".join(":".join(map(str, x)) if isinstance(x, tuple) else x for x in value) or "nothing"
    return "not given" if value is None else f"{value!r}"
