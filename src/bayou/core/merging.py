"""Merging states that add up: what learners with a location and a strength per weight share."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.errors import BadModel


def merge_pairs(
    mine: np.ndarray, other: np.ndarray, base: np.ndarray | None, prior: Any = 0.0, fading: bool = False
) -> None:
    """Merge states whose rows are (location, strength), into `mine`.

    Strengths add, beyond what `base` had; locations are averaged, weighted by prior + strength. For a Gaussian,
    location and strength are what mean and precision have gained over the prior, `prior` is the prior's precision, and
    this is the sum of natural parameters. With `fading` memory both may know less than base did.
    """
    prior = np.atleast_1d(np.asarray(prior, np.float64))
    block = 1 << 20  # rows at a time, to bound the float64 copies
    for start in range(0, len(mine), block):
        part = slice(start, start + block)
        held = prior if len(prior) == 1 else prior[part]
        states = [(mine[part], 1.0), (other[part], 1.0)] + ([] if base is None else [(base[part], -1.0)])
        strength, moved = np.zeros((2, len(mine[part])))
        for rows, sign in states:
            strength += sign * rows[:, 1].astype(np.float64)
            moved += sign * (held + rows[:, 1].astype(np.float64)) * rows[:, 0]
        # In float32 a strength may have been rounded down by a last place or two.
        if not fading and base is not None and (strength < -1e-6 * base[part, 1]).any():
            raise BadModel("base knows more than the models grown from it; give a common ancestor.")
        strength = np.maximum(strength, 0.0)
        whole = np.broadcast_to(strength + held, strength.shape)
        mine[part, 0] = np.divide(moved, whole, out=np.zeros_like(moved), where=whole > 0)
        mine[part, 1] = strength
