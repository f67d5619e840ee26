"""Validation of the arguments of estimators: matrices, labels and weights, converted for learners.

scikit-learn's validation costs more than learning from a small batch, so `partial_fit` and predictions skip it when it
would return its input unchanged, and use it in every other case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from bayou.core.arrays import as_array, check_not_masked
from bayou.core.batch import Batch
from bayou.core.checks import shortened_repr
from bayou.core.errors import BadInput

MATRIX = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32]}


def matrix(estimator: Any, X: Any) -> Any:
    """Return a validated matrix to predict: finite floats, dense or CSR, with the features of the model."""
    check_not_masked(X, "X")
    return X if _is_ready(estimator, X) else validate_data(estimator, X, reset=False, **MATRIX)


def matrix_and_labels(estimator: Any, X: Any, y: Any, reset: bool, numbers: bool = False) -> tuple[Any, np.ndarray]:
    """Return a validated matrix to learn from and a label for each row; with `numbers`, labels must be numbers."""
    check_not_masked(X, "X")
    check_not_masked(y, "labels")
    if not reset and y is not None and _is_ready(estimator, X):
        labels = as_array(y, "y")
        if labels.shape == (X.shape[0],) and (not numbers or labels.dtype == np.float64):
            return X, labels
    return validate_data(estimator, X, y, reset=reset, y_numeric=numbers, **MATRIX)


def _is_ready(estimator: Any, X: Any) -> bool:
    """Return whether validation would neither change X nor warn or raise."""
    if type(X) is np.ndarray:
        values = X
    elif issparse(X) and X.format == "csr":
        values = X.data
    else:
        return False
    if (
        values.dtype not in (np.float64, np.float32)
        or X.ndim != 2
        or X.shape[0] == 0
        or X.shape[1] != estimator.n_features_in_
        or hasattr(estimator, "feature_names_in_")
    ):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        # If the sum overflows, validation decides.
        return bool(np.isfinite(values.sum()))


def batch(X: Any, labels: Any = None, weights: Any = None) -> Batch:
    """Return the rows of a validated matrix as a batch."""
    if issparse(X):
        return Batch.from_csr(X, labels, weights)
    rows, columns = np.nonzero(X)
    indptr = np.zeros(len(X) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(X)), out=indptr[1:])
    return Batch.from_arrays(indptr, columns, X[rows, columns], labels, weights)


def class_numbers(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the index of each label in the sorted classes; raise BadInput for an unknown label."""
    try:
        indices = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError as error:
        raise BadInput(f"the labels cannot be compared with the classes {classes.tolist()}: {error}.") from None
    is_known = np.asarray(classes[indices] == y)
    if not is_known.all():
        row = int(is_known.argmin())
        raise BadInput(
            f"row {row}: the label {y.tolist()[row]!r} is not one of the classes {classes.tolist()}; "
            "pass all of them as classes= in the first call to partial_fit."
        )
    return indices


def listed(classes: Any) -> Any:
    """Return `classes` unchanged; raise BadInput if it is not a list of labels."""
    if as_array(classes, "classes").ndim != 1:
        raise BadInput(f"classes is {shortened_repr(classes)}; it must be a list of all labels.")
    return classes


def among(old_classes: np.ndarray, classes: Any) -> bool:
    """Return whether all known classes are among `classes`, in any order."""
    try:
        return set(old_classes.tolist()) <= set(as_array(classes, "classes").ravel().tolist())
    except TypeError:  # unhashable entries equal no class
        return False


def with_new_classes(
    old_classes: np.ndarray, indices: np.ndarray, y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and their numbers, extended by new classes of rows with weight, which get the next numbers."""
    y = np.asarray(y)
    if (y.dtype.kind in "biuf") != (old_classes.dtype.kind in "biuf"):
        return old_classes, indices  # of another kind: reported where the labels are read
    if weights is not None:
        y = y[weights != 0]
    try:
        new = np.setdiff1d(y, old_classes)
    except TypeError:
        return old_classes, indices
    if not len(new):
        return old_classes, indices
    check_classification_targets(new)
    both = np.concatenate([old_classes, new])
    order = np.argsort(both, kind="stable")
    return both[order], np.concatenate([indices, indices.max() + 1 + np.arange(len(new))])[order]


def given_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """Return the sample weights of `rows` rows as an array, a single number repeated; None if there are none."""
    if sample_weight is None:
        return None
    check_not_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"sample_weight is {shortened_repr(sample_weight)}; it must be one number per row.") from None
    if weights.ndim == 0:
        weights = np.full(rows, weights)
    if weights.shape != (rows,):
        raise BadInput(f"sample_weight has shape {weights.shape}, but there are {rows} rows; give one weight per row.")
    return weights


def row_weights(sample_weight: Any, class_weight: Any, classes: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """Return the product of each row's weight and its class's weight; None if all are 1."""
    weights = given_weights(sample_weight, len(indices))
    if isinstance(class_weight, str) and class_weight != "balanced":
        raise BadInput(f"class_weight is {class_weight!r}; it must be a dictionary, 'balanced' or None.")
    if class_weight is not None:
        of_class = compute_class_weight(class_weight, classes=classes, y=classes[indices])[indices]
        weights = of_class if weights is None else weights * of_class
    if weights is not None and not (is_valid := np.isfinite(weights) & (weights >= 0)).all():
        row = int(is_valid.argmin())
        raise BadInput(f"row {row}: the weight is {weights[row]:g}; a weight must be a finite number >= 0.")
    return weights
