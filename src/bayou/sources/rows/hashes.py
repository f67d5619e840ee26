"""Hashes of names, for Python code."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from bayou.recipe.hashing import hash_bytes
from bayou.sources.rows.kernels import BEHIND, hash_words

# Separator of names.
BETWEEN = "\0"


def hashes_of(names: Iterable[Hashable], seeds: np.ndarray | None = None) -> np.ndarray:
    """Return the hash of each name, from its own seed if given; an integer is its own hash, folded to 32 bits.

    >>> hashes_of(["hello", "world"]).tolist() == [hash_bytes(b"hello"), hash_bytes(b"world")]
    True
    """
    names = names if isinstance(names, Mapping | Sequence) else list(names)
    n = len(names)
    hashes = np.zeros(n, np.uint32) if seeds is None else seeds.copy()
    try:
        text = BETWEEN.join(names).encode() + BEHIND  # type: ignore[arg-type]
        if hash_words(text, hashes) == max(n, 1):
            return hashes
    except TypeError:
        try:
            return folded(np.frombuffer(struct.pack(f"{n}q", *names), np.int64))
        except struct.error:
            pass
    except UnicodeEncodeError:
        pass
    of = [0] * n if seeds is None else seeds.tolist()
    return np.array([_hash_of(name, seed) for name, seed in zip(names, of, strict=True)], np.uint32)


def _hash_of(name: Hashable, seed: int) -> int:
    if isinstance(name, int | np.integer) and -(2**63) <= name < 2**63:
        return int(folded(np.array([name], np.int64))[0])
    return hash_bytes(str(name).encode("utf-8", "surrogatepass"), seed)


def folded(indices: np.ndarray) -> np.ndarray:
    """Return integers folded to 32 bits, as svmlight's indices are."""
    if indices.dtype == np.int32:
        return indices.view(np.uint32)
    wide = indices.astype(np.int64, copy=False).view(np.uint64)
    return (wide ^ (wide >> np.uint64(32))).astype(np.uint32)
