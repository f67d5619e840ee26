"""Contributions of pairs of features to the log-odds of a row: from the lane of crosses and factorization machines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix
from bayou.kernels.row_layout import batch_arrays
from bayou.kernels.top_k import insert
from bayou.kernels.vector import LANES
from bayou.learners.bank import factors
from bayou.learners.bank.crosses import MOST_PAIRS, PAIRS, PRIORS, weight_index
from bayou.learners.bank.linearization import in_log_odds, linearised
from bayou.learners.ensembles.learner import frozen_combination

if TYPE_CHECKING:
    from bayou.learners.bank.learner import Bank

# Code of a pair in an explanation: (the first's position in its row + 1) * PAIR + the other's in the batch.
PAIR = 1 << 40


class PairWeights(NamedTuple):
    """Weights of pairs in units of the log-odds; `features` has shape (n_pairs, 2), ascending."""

    features: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


def has_live_pairs(bank: Bank) -> bool:
    """Return whether a bank has a lane of crosses that the combination still uses."""
    return bank._pairs is not None and bool(bank._pairs.live[0])


def pair_weights(bank: Bank) -> PairWeights | None:
    """Return the pairs that the lane of crosses has seen, with their weights; None for a bank without pairs."""
    if bank._pairs is None:
        return None
    with bank._lock:
        pairs, lane = bank._pairs, bank._pairs.crosses
        slots = np.flatnonzero(lane.features[:, 1])
        features, weights = lane.features[slots].astype(np.int64) - 1, lane.weights[slots].astype(np.float64)
        combination = in_log_odds(frozen_combination(bank))
        size = linearised(bank._lanes, combination).coefficients[pairs.column] * pairs.value_scale(PAIRS)
    order = np.lexsort(features.T[::-1])
    features, weights = features[order], weights[order]
    return PairWeights(features, size * weights[:, 0], abs(size) / np.sqrt(PRIORS[PAIRS] + weights[:, 1]))


def explain_pairs(
    bank: Any, batch: Batch, counts: np.ndarray, called: np.ndarray, by: np.ndarray, which: np.ndarray
) -> None:
    """Insert the pairs that moved each row the most into its ranking, `by` (amounts) and `which` (codes).

    `counts` holds, for each row, the coefficient of each lane's score in the log-odds, lanes of pairs after the others.
    `called` maps each non-zero to the one of its row that represents it: all pairs of two columns count as one.
    """
    pairs = bank._pairs
    groups = bank._groups.of_batch(batch)
    machine, counts = pairs.factors, counts[:, pairs.column : pairs.column + len(pairs.lanes)]
    if machine is None:
        machine = factors.new_factors(1, False, bank._dtype)
        counts = np.hstack([counts, np.zeros((len(batch), 2))])
    x = pairs.crosses
    # Machines measure values in units of a typical row.
    unit = math.exp(-machine.stream[1]) if machine.stream[0] else 1.0
    rows = batch_arrays(batch, np.zeros(0), np.zeros(0))
    _explain_pairs(rows, groups, x, x.bits, pairs.value_scale(PAIRS), machine, unit, counts, called, by, which)


@kernel
def _explain_pairs(rows, groups, crosses, bits, scale, machines, unit, counts, called, by, which):
    indptr, indices, values, longest = rows.indptr, rows.indices, rows.values, rows.max_row_length
    amounts = zeros((longest, longest), np.float64)
    for row in range(indptr.size - 1):
        start, length = indptr[row], indptr[row + 1] - indptr[row]
        left = MOST_PAIRS
        for apart in range(1, length):
            for k in range(length - apart):
                a, b = start + k, start + k + apart
                amount, product = 0.0, np.float64(values[a]) * np.float64(values[b])
                if counts[row, 0] != 0.0 and left > 0 and crosses.crossed[_group(groups, a), _group(groups, b)]:
                    left -= 1
                    place = weight_index(np.int64(indices[a]), np.int64(indices[b]), bits)
                    amount = counts[row, 0] * scale * product * np.float64(crosses.weights[place, 0])
                for machine in range(factors.MACHINES):
                    if counts[row, 1 + machine] != 0.0:
                        strength = _product(indices, groups, a, b, machines, machine)
                        amount += counts[row, 1 + machine] * strength * product * unit * unit
                i, j = called[a] - start, called[b] - start
                if i != j:
                    amounts[min(i, j), max(i, j)] += amount
        for i in range(length):
            for j in range(i + 1, length):
                if amounts[i, j] != 0.0:
                    insert(by, which, row, amounts[i, j], (i + 1) * PAIR + start + j)
                    amounts[i, j] = 0.0


@kernel
def _group(groups, k):
    return np.int64(groups[k]) if groups.size else 0


@kernel
def _product(indices, groups, a, b, machines, machine):
    """Return r_gh sum_f c_ghf a_if a_jf for two features."""
    i, j = np.int64(indices[a]), np.int64(indices[b])
    mine, theirs = mix(np.uint64(i) + GOLDEN), mix(np.uint64(j) + GOLDEN)
    if groups.size:
        g, h = np.int64(groups[a]) % factors.GROUPS, np.int64(groups[b]) % factors.GROUPS
    else:
        g, h = np.int64(mine >> np.uint64(60)), np.int64(theirs >> np.uint64(60))
    column, total = 2 * LANES * machine, 0.0
    for f in range(LANES):
        bit = np.uint64(8 * machine + f)
        one = (1.0 if (mine >> bit) & np.uint64(1) else -1.0) + np.float64(machines.state[i, column + f])
        other = (1.0 if (theirs >> bit) & np.uint64(1) else -1.0) + np.float64(machines.state[j, column + f])
        c = machines.by_pair[((machine * factors.GROUPS + g) * factors.GROUPS + h) * LANES + f]
        total += np.float64(c) * one * other
    return total * (1.0 + machines.pairs[machine, 0, g, h])
