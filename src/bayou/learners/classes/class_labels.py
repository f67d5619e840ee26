"""Multiclass labels: any whole numbers. Classes are indexed in the order in which they were first seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.checks import check_int, check_iterable, shortened_repr
from bayou.core.errors import BadInput

# Larger whole numbers are not distinct in float64.
LARGEST = 2**53
MAX_CLASSES = 2**16


def own_classes(classes: Any, max_classes: int) -> list[float]:
    """Return the labels of the classes given at the start, as a list of them or as a number, labeled from 0."""
    if classes is None:
        return []
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        classes = range(check_int("classes", classes, 1, max_classes))
    wanted = "a number of classes, or a list of different whole numbers"
    given = check_iterable("classes", classes, wanted)
    labels = [float(label) if isinstance(label, int | float | np.number) else np.nan for label in given]
    if not all(_whole(np.array(labels))) or len(set(labels)) < len(labels):
        raise BadInput(f"classes is {shortened_repr(classes)}; it must be {wanted}.")
    if len(labels) > max_classes:
        raise BadInput(f"classes has {len(labels)} labels, but max_classes is {max_classes}.")
    return labels


def _whole(labels: np.ndarray) -> np.ndarray:
    return (np.abs(labels) <= LARGEST) & (labels == np.rint(labels))


def numbers_of(labels: np.ndarray, weights: np.ndarray, labels_so_far: np.ndarray, max_classes: int) -> np.ndarray:
    """Return the class index of each row; new classes get the next ones, but in rows of weight 0 they have -1."""
    if not (fine := _whole(labels)).all():
        row = int(fine.argmin())
        raise BadInput(
            f"row {row}: the label is {labels[row]:g}; labels of several classes are whole numbers, one for each class."
        )
    order = np.argsort(labels_so_far, kind="stable")
    numbers = np.full(len(labels), -1)
    if len(labels_so_far):
        places = order[np.minimum(np.searchsorted(labels_so_far[order], labels), len(labels_so_far) - 1)]
        numbers = np.where(labels_so_far[places] == labels, places, -1)
    new = (numbers < 0) & (weights > 0)
    if not new.any():
        return numbers
    met, first, which = np.unique(labels[new], return_index=True, return_inverse=True)
    if len(labels_so_far) + len(met) > max_classes:
        row = int(np.flatnonzero(new)[np.sort(first)[max_classes - len(labels_so_far)]])
        raise BadInput(
            f"row {row}: the label {labels[row]:g} is a new class, but max_classes={max_classes} allows no more; "
            f"known are {_listed(labels_so_far)}."
        )
    numbers[new] = len(labels_so_far) + np.argsort(np.argsort(first))[which]
    return numbers


def _listed(labels_so_far: np.ndarray) -> str:
    shown_ = [f"{label:g}" for label in labels_so_far[:10].tolist()]
    return ", ".join(shown_ or ["none"]) + (f" and {len(labels_so_far) - 10} more" if len(labels_so_far) > 10 else "")
