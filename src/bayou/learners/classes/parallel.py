"""Running a stack over rows, in threads if that pays; results do not depend on threads, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bayou.core.threads import all_done
from bayou.learners.classes.stack_inputs import StackInputs, StackOutputs, StackState, look, share
from bayou.learners.classes.stacker import stack as step

# Minimum of rows times classes for which threads pay.
WORTH_THREADS = 1024


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
        middle, apart = (first + last) // 2, (last - first) * n_classes >= WORTH_THREADS
        halves = ((first, middle), (middle, last))
        all_done([partial(look, inputs, n_classes, *half) for half in halves], apart)
        labels = numbers, weights.astype(np.float64)
        each = zip(range(len(stack.mean)), outputs.answers, outputs.spread, strict=True)
        own = n_classes, first, last
        all_done([partial(step, inputs.lines, *labels, stack, j, *own, *said) for j, *said in each], apart)
        follows = float(self._follows)
        share(inputs.lines, *labels, stack, outputs, n_classes, examples, follows, self._certain, first, last)
