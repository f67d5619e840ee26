"""What a stack makes of rows, in threads where that is worth it; no bit depends on them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from bayou.core.threads import all_done
from bayou.learners.classes.stack import StackInputs, StackOutputs, StackState, look, share
from bayou.learners.classes.stacker import stack as step

# Threads of their own are worth it for at least so many rows times classes.
WORTH_THREADS = 1024


class StackedRows(NamedTuple):
    """Rows under a stack: what learners said of them, what is to be learned, and what the stack says."""

    inputs: StackInputs
    numbers: np.ndarray  # of the rows' classes
    weights: np.ndarray
    outputs: StackOutputs


class StackRunner:
    """Predicts and learns rows with a stack.

    Args:
        stack: what was learned so far.
        certain: whether the learners know nothing of their variances.
        follows: whether shares are fixed shares, which follow; else they are Bayes'.
    """

    def __init__(self, stack: StackState, certain: bool, follows: bool = True) -> None:
        self.stack, self._certain, self._follows = stack, certain, follows

    def run(self, rows: StackedRows, n_classes: int, examples: int, first: int, last: int) -> None:
        """Run rows `first` to `last`, at which so many classes are known, after so many examples."""
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
