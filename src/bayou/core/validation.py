"""Validation of batches for a learner: feature range, values that would overflow its state, and invalid labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayou.core.arrays import as_array
from bayou.core.batch import Batch, check_is_batch
from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel

# Upper bound of weight^2 * value^2 * variance summed over a row: far enough from overflow for every kernel.
LIMIT = {"float32": 1e30, "float64": 1e150}
# Largest absolute label of a regressor: its square, a noise variance, times a prior variance must not overflow in the
# state.
LARGEST_TARGET = {"float32": 1e10, "float64": 1e75}


def check_batch(batch: Batch, n_features: int, dtype: str, widest: float, learn: bool) -> None:
    """Raise BadInput if a batch does not fit a learner; `widest` is its largest variance, at least 1."""
    check_is_batch(batch)
    if batch.max_index >= n_features and (wrong := batch.indices >= n_features).any():
        k = int(wrong.argmax())
        raise BadInput(
            f"row {batch.row_of_nonzero(k)}: feature {batch.indices[k]} is out of range; the learner has "
            f"n_features={n_features}, numbered from 0."
        )
    heaviest = batch.weights.max(initial=1.0) if learn and batch.weights is not None else 1.0
    largest = math.sqrt(LIMIT[dtype] / (widest * (1 + batch.max_row_length))) / heaviest
    if largest < 1.0 or batch.max_abs_value > largest:
        _check_sizes(batch, dtype, widest, learn)


def _check_sizes(batch: Batch, dtype: str, widest: float, learn: bool) -> None:
    """Raise BadInput if values or weights are too large, judging each row by its own length and weight.

    Whether a row is rejected must not depend on other rows, or on how a stream is cut into batches.
    """
    lengths = np.diff(batch.indptr)
    heavy = np.maximum(batch.weights, 1.0) if learn and batch.weights is not None else np.ones(len(batch))
    most = np.sqrt(LIMIT[dtype] / (widest * (1 + lengths))) / heavy
    if (wrong := most < 1.0).any():
        row = int(wrong.argmax())
        raise BadInput(f"row {row}: a weight of {heavy[row]:g} is too large for {dtype} state with this prior.")
    if (wrong := np.abs(batch.values) > np.repeat(most, lengths)).any():
        k = int(wrong.argmax())
        row = batch.row_of_nonzero(k)
        raise BadInput(
            f"row {row}, feature {batch.indices[k]}: the value {batch.values[k]:g} is too large; with "
            f"{dtype} state, this prior and this row's weight it may reach {most[row]:.2g}. Scale the feature"
            + _or_wider(dtype)
        )


def numbers_of(labels: np.ndarray, dtype: str) -> np.ndarray:
    """Return the labels for regression; raise BadInput if one is not finite or too large."""
    most = LARGEST_TARGET[dtype]
    if not (fine := np.abs(labels) <= most).all():
        row = int(fine.argmin())
        raise BadInput(
            f"row {row}: the label is {labels[row]:g}; it must be a finite number."
            if not np.isfinite(labels[row])
            else f"row {row}: the label {labels[row]:g} is too large; with {dtype} state it may reach {most:g}. "
            "Scale the labels" + _or_wider(dtype)
        )
    return labels


def signs_of(
    labels: np.ndarray, weights: np.ndarray, dtype: str, negative: int | None
) -> tuple[np.ndarray, int | None]:
    """Return labels as +1 and -1, and the stream's negative label, which rows of weight 0 do not determine.

    `negative` is the stream's negative label so far. Raises BadInput for other labels, and for two negative ones.
    """
    signs = np.empty(len(labels), dtype)
    zeros, minus, bad = _read_labels(labels, weights, signs)
    if bad >= 0:
        raise BadInput(f"row {bad}: the label is {labels[bad]:g}; labels are 1 for positive and -1 or 0 for negative.")
    now = 0 if zeros else -1 if minus else negative
    if (zeros and minus) or (now is not None and negative not in (None, now)):
        raise BadInput("negative labels are written both -1 and 0 in this stream; use one of them.")
    return signs, now


def _or_wider(dtype: str) -> str:
    return ", or use dtype='float64'." if dtype == "float32" else "."


@kernel
def _read_labels(labels, weights, signs):
    """Fill `signs`; return (any 0, any -1, the first row with another label or -1). Branch-free, for speed."""
    n_valid = 0
    zeros = 0
    minus = 0
    for row in range(labels.size):
        label = labels[row]
        counts = weights[row] > 0
        signs[row] = 2.0 * (label == 1.0) - 1.0
        n_valid += (label == 1.0) | (label == 0.0) | (label == -1.0)
        zeros += (label == 0.0) & counts
        minus += (label == -1.0) & counts
    bad = -1
    if n_valid < labels.size:
        for row in range(labels.size - 1, -1, -1):
            if not (labels[row] == 1.0 or labels[row] == 0.0 or labels[row] == -1.0):
                bad = row
    return zeros > 0, minus > 0, bad


def feature_numbers(features: Any, n_features: int) -> np.ndarray:
    """Return requested feature indices as an array; raise BadInput if one is out of range."""
    numbers = as_array(features, "features")
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise BadInput("give the numbers of some features, as in [3, 7].")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < n_features:
        wrong = numbers[(numbers < 0) | (numbers >= n_features)][0]
        raise BadInput(f"there is no feature {wrong}: the learner has {n_features}, numbered from 0.")
    return numbers
