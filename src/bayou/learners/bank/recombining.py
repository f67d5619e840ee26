"""Learning only a bank's lanes and head, and relearning the combination from rows that the lanes have not learned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from bayou.core.batch import Batch, require_labels
from bayou.core.errors import BadInput
from bayou.core.learner import check_writable, checked_chunks
from bayou.core.state import touch
from bayou.learners.bank.combination import (
    DELAYED_LOSS,
    Combination,
    add_gaps,
    combine,
    drop_outputs,
    learn_sampled_rows,
    new_combinations,
)
from bayou.learners.bank.dropping import GAPS, LOSS
from bayou.learners.bank.running import LabelledRows
from bayou.learners.ensembles.delayed import ENOUGH_ROWS, log_losses

if TYPE_CHECKING:
    from bayou.learners.bank.learner import Bank


def learn_lanes(bank: Bank, batch: Batch, renews: bool = True) -> None:
    """Learn rows with the lanes and the head only; `renews`: whether lanes recompute their priors along the way."""
    check_writable(bank)
    with bank._lock:
        negative, chunks = checked_chunks(bank, batch)
        for chunk in chunks:
            rows = LabelledRows(*chunk)
            touch(bank, rows.batch.indices)
            outputs = bank._lane_runner.discarded_outputs(rows.n_rows)
            bank._lane_runner.run(rows, 0, rows.n_rows, bank._examples, outputs, renews=renews)
            bank._examples += int(np.count_nonzero(rows.weights))
        bank._negative = negative


def recombine(
    bank: Bank, batches: Iterable[Batch], on_told: Callable[[Batch, np.ndarray], object] | None, learn: bool
) -> float:
    """Relearn the combinations from scratch; return the mean log loss of the rows (`Bank.recombine`)."""
    check_writable(bank)
    with bank._lock:
        live, later = _new_combinations(bank)
        twin = bank._dropping.new_twin(*_new_combinations(bank))
        n_counted, total_loss, total_weight, head, gaps = 0, 0.0, 0.0, bank.live_head, np.zeros(3)
        for batch in require_labels(batches):
            negative, chunks = checked_chunks(bank, batch)
            for batch, signs, weights in chunks:
                if learn and weights.any():
                    touch(bank, batch.indices)
                rows = LabelledRows(batch, signs, weights if learn else np.zeros_like(weights))
                outputs = bank._lane_runner.learn(rows, bank._examples)
                bank._examples += int(np.count_nonzero(rows.weights))
                probability, delayed = _learn_combinations(outputs, signs, weights, live, later, n_counted)
                if head is not None:
                    learned = np.flatnonzero(weights)
                    labelled = outputs[learned], signs[learned], weights[learned], delayed[learned]
                    gaps += head.later_gaps_of(*labelled, n_counted)
                if twin is not None:
                    other, _ = _learn_combinations(outputs, signs, weights, twin.live, twin.later, n_counted)
                    add_gaps(signs, weights, probability, other, 0, len(other), twin.progress[GAPS : LOSS + 1])
                losses = log_losses(signs, probability)
                if on_told is not None:
                    on_told(batch, probability)
                n_counted += int(np.count_nonzero(weights))
                total_loss, total_weight = total_loss + float(losses @ weights), total_weight + float(weights.sum())
            bank._negative = negative if learn else bank._negative
        if not n_counted:
            raise BadInput("there are no rows to learn the combination from; give held-out rows.")
        bank._combination.copy_from(live)
        bank._later_combination.copy_from(later)
        bank._delayed.reset(max(n_counted, min(bank._examples, ENOUGH_ROWS)))
        if head is not None:
            head.later_gaps[:] = gaps
        bank._dropping.judge_head(twin)
    return total_loss / total_weight


def _new_combinations(bank: Bank) -> tuple[Combination, Combination]:
    """Return both combinations untrained, without the outputs that were dropped."""
    n_stackers, now = len(bank._combination.stacker_mean), bank._combination
    dropped = np.flatnonzero(now.is_kept[now.slots] == 0) + 2
    live, later = new_combinations(bank._lanes, bank._outputs, bank._static, n_stackers)
    drop_outputs(live, dropped)
    drop_outputs(later, bank._dropping.later_slots(dropped))
    for combination in (live, later):
        combination.stacker_prior[2:] *= combination.is_kept[2:]
    return live, later


def _learn_combinations(
    outputs: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    live: Combination,
    later: Combination,
    n_counted: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(y = 1) of rows, given their lane outputs, and the losses for later rows, before both learn from them."""
    n_rows = len(outputs)
    probability, mean, variance = (np.empty(n_rows) for _ in range(3))
    combine(outputs, signs, weights, live, 0, n_rows, n_counted, probability, mean, variance)
    learned, delayed = np.flatnonzero(weights), np.full((DELAYED_LOSS + 2, n_rows), np.nan)
    learn_sampled_rows(outputs[learned], signs, weights, learned, True, later, float(n_counted), delayed)
    return probability, delayed[DELAYED_LOSS]
