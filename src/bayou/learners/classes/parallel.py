"""Running a stack over rows, in threads if that pays; results do not depend on threads, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bayou.core.threads import run_all
from bayou.learners.classes.stack_inputs import StackInputs, StackOutputs, StackState, fill_stacker_inputs, share
from bayou.learners.classes.stacker import stack as step

# Minimum of rows times classes for which threads pay.
MIN_THREADED_CELLS = 1024


class StackedRows(NamedTuple):
    """Rows for a stack: the learners' outputs, the labels to learn, and the outputs of the stack."""

    inputs: StackInputs
    numbers: np.ndarray  # class indices of the rows
    weights: np.ndarray
    outputs: StackOutputs


class StackRunner:
    """Predicts and learns rows with a stack.

    Args:
        stack: its learned state.
        certain: whether the learners give no variances.
        follows: whether shares are updated by fixed share; else by Bayes' rule.
    """

    def __init__(self, stack: StackState, certain: bool, follows: bool = True) -> None:
        self.stack, self._certain, self._follows = stack, certain, follows

    def run(self, rows: StackedRows, n_classes: int, examples: int, first: int, last: int) -> None:
        """Run rows in [first, last), with `n_classes` classes so far, after `examples` examples."""
        if not n_classes or first == last:
            return
        stack, (inputs, numbers, weights, outputs) = self.stack, rows
        middle, apart = (first + last) // 2, (last - first) * n_classes >= MIN_THREADED_CELLS
        halves = ((first, middle), (middle, last))
        run_all([partial(fill_stacker_inputs, inputs, n_classes, *half) for half in halves], apart)
        labels = numbers, weights.astype(np.float64)
        each = zip(range(len(stack.mean)), outputs.probabilities, outputs.score_variances, strict=True)
        own = n_classes, first, last
        run_all([partial(step, inputs.inputs, *labels, stack, j, *own, *results) for j, *results in each], apart)
        follows = float(self._follows)
        share(inputs.inputs, *labels, stack, outputs, n_classes, examples, follows, self._certain, first, last)
