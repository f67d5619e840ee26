"""What a stack makes of rows, in threads where that is worth it; no bit depends on them."""

from __future__ import annotations

from functools import partial

import numpy as np

from bayou.core.threads import all_done
from bayou.learners.classes.stack import StackInputs, StackOutputs, StackState, look, share
from bayou.learners.classes.stacker import stack

# Threads of their own are worth it for at least so many rows times classes.
WORTH_THREADS = 1024


def combine(
    into: StackState,
    heard: StackInputs,
    numbers: np.ndarray,
    weights: np.ndarray,
    said: StackOutputs,
    n_classes: int,
    examples: int,
    certain: bool,
    first: int,
    last: int,
    follows: bool = True,
) -> None:
    """Rows from `first` to `last`, at which so many classes are known, after so many examples; it learns on its way.

    `follows` is whether shares are fixed shares, which follow; else they are Bayes'. `certain` is whether the learners
    know nothing of their variances.
    """
    if not n_classes or first == last:
        return
    middle, apart = (first + last) // 2, (last - first) * n_classes >= WORTH_THREADS
    halves = ((first, middle), (middle, last))
    all_done([partial(look, heard, n_classes, *half) for half in halves], apart)
    c = weights.astype(np.float64)
    stackers = [
        partial(stack, heard.lines, numbers, c, into, j, n_classes, first, last, said.answers[j], said.spread[j])
        for j in range(len(into.mean))
    ]
    all_done(stackers, apart)
    share(heard.lines, numbers, c, into, said, n_classes, examples, float(follows), certain, first, last)
