"""Merging banks: natural parameters add lane by lane and stacker by stacker, and the logarithms of shares.

What a base held is subtracted. All functions write into the first of the learners' arrays.
"""

from __future__ import annotations

import numpy as np

from bayou.core.errors import BadModel
from bayou.core.model_file import nonzero_rows
from bayou.kernels.compiling import kernel
from bayou.kernels.vector import LANES
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.lanes import (
    BIAS_PRIOR,
    KEEP,
    LEAST_SQUARE,
    LOG_LENGTH,
    OTHER,
    PER_SQUARE,
    PRIOR,
    RATE,
    ROWS,
    WEIGHT,
    Lanes,
)
from bayou.learners.bank.steps import LIMIT_32, LIMIT_64, SCALE_PRECISION


def merge_lanes(parts: list[Lanes], signs: np.ndarray) -> None:
    """Into the first of `parts`; a sign of -1 is that of their base."""
    mine = parts[0]
    factors = [lanes.factors() for lanes in parts]
    streams = np.stack([lanes.stream for lanes in parts])
    rows, weight = np.maximum(signs @ streams[:, [ROWS, WEIGHT]], 0.0)
    length = (signs * streams[:, ROWS]) @ streams[:, LOG_LENGTH] / rows if rows else 0.0
    mine.stream[[ROWS, LOG_LENGTH, OTHER, WEIGHT]] = rows, length, streams[:, OTHER].max(), weight
    mine.scale[:] = _natural_sum([lanes.scale for lanes in parts], signs, np.full(mine.width, SCALE_PRECISION))
    held = np.where(mine.settings[RATE] > 0, 0.0, mine.settings[BIAS_PRIOR])
    mine.intercept[:] = _natural_sum([lanes.intercept for lanes in parts], signs, held)
    # Always three: without a base, the other counts once more with the sign 0.
    three = [*parts, parts[1]][:3]
    short = _merge_weights(
        tuple(lanes.state for lanes in three),
        tuple(lanes.squares for lanes in three),
        np.array([*signs, 0.0][:3]),
        np.array([*factors, factors[1]][:3]),
        mine.settings,
        mine.factors(),
    )
    if short:
        raise BadModel("base knows more than the models grown from it; give a common ancestor.")


def merge_combinations(parts: list[Combination], signs: np.ndarray, rows: np.ndarray) -> None:
    """Into the first of `parts`; `rows` says of how many rows each has measured how far its outputs are damped."""
    mine = parts[0]
    dampings, measured = np.stack([part.damping for part in parts]), max(float(signs @ rows), 0.0)
    damping = (signs * rows) @ dampings / measured if measured else np.zeros_like(mine.damping)
    mine.damping[:] = np.clip(damping, dampings.min(axis=0), dampings.max(axis=0))
    for j in range(len(mine.stacker_mean)):
        _merge_stackers(j, parts, signs)
    mine.shares[:] = _merged_shares([part.shares for part in parts], signs)
    mine.final_shares[:] = _merged_shares([part.final_shares for part in parts], signs)
    summed = signs @ [part.losses[0] - np.log(part.losses[1]) for part in parts]
    mine.losses[0], mine.losses[1] = np.maximum(summed, 0.0), 1.0


def mirror_lanes(lanes: Lanes) -> None:
    """What lanes would believe of the opposite labels: all means are the opposite."""
    lanes.intercept[0] = 0.0 - lanes.intercept[0]  # which leaves no -0.0: zero bytes mean the prior
    rows = nonzero_rows(lanes.state)
    for at in range(0, lanes.state.shape[1], 2 * LANES):
        lanes.state[rows, at : at + LANES] = 0.0 - lanes.state[rows, at : at + LANES]


def mirror_combination(combination: Combination) -> None:
    """Of lanes that say the opposite; the stackers' b is the opposite, and all else as it was."""
    combination.stacker_mean[:, 0] *= -1.0
    combination.stacker_covariance[:, 0, 1:] *= -1.0
    combination.stacker_covariance[:, 1:, 0] *= -1.0


def _merge_stackers(j: int, parts: list[Combination], signs: np.ndarray) -> None:
    """The j-th ones: precisions, and precisions times means, add beyond the prior's."""
    mine = parts[0]
    live = np.flatnonzero(mine.stacker_prior > 0)
    own_prior = mine.stacker_prior[live]
    prior = np.diag(1.0 / own_prior)
    gained, moved = np.zeros_like(prior), np.zeros(len(live))
    for part, sign in zip(parts, signs, strict=True):
        # Where an output was dropped there is nothing to invert: it counts as never learned.
        there = part.stacker_prior[live] > 0
        covariance = part.stacker_covariance[j][np.ix_(live, live)]
        covariance = np.where(np.outer(there, there), covariance, np.diag(own_prior))
        precision = np.linalg.inv(covariance)
        gained += sign * (precision - prior)
        moved += sign * precision @ part.stacker_mean[j][live]
    # With memory, or a base, less may be known than the prior says in some direction; that much is known.
    root = np.sqrt(own_prior)
    values, vectors = np.linalg.eigh(root[:, None] * (gained + gained.T) / 2.0 * root)
    half = root[:, None] * vectors
    covariance = half / (1.0 + np.maximum(values, 0.0)) @ half.T
    mine.stacker_covariance[j][np.ix_(live, live)] = (covariance + covariance.T) / 2.0
    mine.stacker_mean[j][live] = covariance @ moved


def _merged_shares(shares: list[np.ndarray], signs: np.ndarray) -> np.ndarray:
    """Evidence adds: the shares' logarithms do. A share of 0 stays one."""
    there = np.all([each > 0 for each in shares], axis=0)
    logs = signs @ [np.log(np.where(there, each, 1.0)) for each in shares]
    merged = np.where(there, np.exp(logs - np.max(logs[there])), 0.0)
    return merged / merged.sum()


def _natural_sum(states: list[np.ndarray], signs: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Rows (mean, precision gained) merged: natural parameters add beyond the prior's precision."""
    means, gains = np.stack(states, axis=1)
    gained = np.maximum(signs @ gains, 0.0)
    moved, whole = signs @ ((prior + gains) * means), prior + gained
    return np.stack([np.divide(moved, whole, out=np.zeros_like(moved), where=whole > 0), gained])


@kernel
def _merge_weights(states, squares, signs, factors, settings, merged_factors):
    """Merge the lanes of up to three banks into the first: natural parameters add, in the units of the features.

    True if the third, which is subtracted, knows more of some feature than the others do.
    """
    mine = states[0]
    most = LIMIT_32 if mine.itemsize == 4 else LIMIT_64
    short = False
    for i in range(mine.shape[0]):
        touched = False
        for part in range(3):
            for place in range(mine.shape[1]):
                touched |= states[part][i, place] != 0
        if not touched:  # its memory stays untouched, too
            continue
        uses = square = 0.0
        each = np.ones(3)
        for part in range(3):
            if squares[part][i, 1] > 0:
                each[part] = squares[part][i, 0]
                uses += signs[part] * squares[part][i, 1]
                square += signs[part] * squares[part][i, 1] * squares[part][i, 0]
        merged_square = min(max(square / uses, LEAST_SQUARE), most) if uses > 0.0 else 1.0
        for k in range(settings.shape[1]):
            place = k // LANES * 2 * LANES + k % LANES
            gained = moved = raw = 0.0
            for part in range(3):
                if signs[part] != 0.0:
                    gain, factor = np.float64(states[part][i, place + LANES]), factors[part, k]
                    held = settings[PRIOR, k] + settings[PER_SQUARE, k] * each[part]
                    if settings[RATE, k] > 0.0:
                        held = 0.0
                    gained += signs[part] * gain / (factor * factor)
                    moved += signs[part] * (held + gain) * states[part][i, place] / factor
                    raw += signs[part] * gain
            if signs[2] < 0.0 and settings[KEEP, k] == 1.0 and raw < -1e-6 * states[2][i, place + LANES]:
                short = True
            factor = merged_factors[k]
            held = settings[PRIOR, k] + settings[PER_SQUARE, k] * merged_square
            if settings[RATE, k] > 0.0:
                held = 0.0
            gain = max(gained, 0.0) * factor * factor
            mine[i, place] = moved * factor / (held + gain) if held + gain > 0.0 else 0.0
            mine[i, place + LANES] = min(gain, most)
        if uses > 0.0:
            squares[0][i, 0] = merged_square
            squares[0][i, 1] = uses
    return short
