"""Hashes of names: how a text becomes a feature's number.

MurmurHash3 (x86, 32 bit) by Austin Appleby, the one that Vowpal Wabbit and scikit-learn use. The jitted functions take
ADDRESSES (whole numbers) and lengths, so that names are hashed where they stand in a block of text, without a copy.
A feature's index is its hash modulo the size of the table: `hash & (2**bits - 1)`. Hashes are uint32 throughout.

    namespace = murmur3(p, length, NO_SEED)
    feature = murmur3(q, other_length, namespace)
    both = cross(feature, other_feature)

Without hashing (`Recipe.exact`) a feature is known by an id of 64 bits instead, `id64` and `cross64` in the places of
`murmur3` and `cross`, which `Numbering` then turns into consecutive numbers.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix, rotated
from bayou.kernels.scan import address_of, half_at, word_at

NO_SEED = np.uint32(0)
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
# The prime of the 32-bit FNV hash: with it Vowpal Wabbit joins two hashes into that of their pair.
_FNV_PRIME = np.uint32(16777619)


# Numba computes with 64 bits at least; each step is cut back to 32 by a cast, which LLVM makes vanish.


@kernel
def _scramble(k):
    return np.uint32(rotated(np.uint32(k * _C1), 15) * _C2)


@kernel
def mix_word(h, k):
    """The state h after four more bytes, k."""
    h = rotated(np.uint32(h ^ _scramble(k)), 13)
    return np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))


@kernel
def mix_end(h, k, length):
    """The hash, from the state h, the last bytes k (0 to 3 of them, zeros above) and the whole length."""
    h = np.uint32(h ^ _scramble(k)) ^ np.uint32(length)  # k = 0 changes nothing
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@kernel
def murmur3(p, length, seed):
    """MurmurHash3_x86_32 of the bytes at address p. Up to 4 bytes behind them are read too (and do not count)."""
    h = np.uint32(seed)
    end = p + (length & ~3)
    while p < end:
        h = mix_word(h, half_at(p))
        p += 4
    rest = np.uint32((np.uint64(1) << np.uint64((length & 3) * 8)) - np.uint64(1))
    return mix_end(h, np.uint32(half_at(p) & rest), length)


@kernel
def cross(a, b):
    """The hash of the pair of two hashed features (the order matters)."""
    return np.uint32(np.uint32(a * _FNV_PRIME) ^ b)


# The exact mode: ids of 64 bits, so wide that different names have different ids (among a million names two share one
# with a chance of 3 in 10^8). Two murmur3 from different seeds would not do: names that collide from one seed are far
# more likely than others to collide from the next. Each step of this hash spreads every bit over all 64.


@kernel
def id64(p, length, seed):
    """A hash of 64 bits of the bytes at address p, never 0. Up to 8 bytes behind are read too (and do not count)."""
    h = mix(np.uint64(seed) ^ (np.uint64(length) * GOLDEN))
    end = p + (length & ~7)
    while p < end:
        h = mix((h ^ word_at(p)) + GOLDEN)
        p += 8
    rest = (np.uint64(1) << np.uint64((length & 7) * 8)) - np.uint64(1)
    return max(mix((h ^ (word_at(p) & rest)) + GOLDEN), np.uint64(1))


@kernel
def cross64(a, b):
    """The id of the pair of two features given by their ids (the order matters), never 0."""
    return max(mix((mix(a + GOLDEN) ^ b) + GOLDEN), np.uint64(1))


@kernel
def cross_keys(a, b, exact):
    """The key of the cross of two features, given by their ids if `exact`, else by their hashes; as a uint64."""
    if exact:
        return cross64(a, b)
    return np.uint64(cross(np.uint32(a), np.uint32(b)))


def cross_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return the hashes of crosses, a row each, from those of the features that they are made of, as `cross` does."""
    crossed = hashes[:, 0]
    for k in range(1, hashes.shape[1]):
        crossed = (crossed * _FNV_PRIME) ^ hashes[:, k]
    return crossed


@kernel
def _murmur3_of(data, length, seed):
    return murmur3(address_of(data), length, seed)


@kernel
def _id64_of(data, length, seed):
    return id64(address_of(data), length, seed)


def hash_bytes(text: bytes, seed: int = 0) -> int:
    """`murmur3` of some bytes, for use from Python.

    >>> hash_bytes(b"hello")
    613153351
    """
    return int(_murmur3_of(_padded(text), len(text), np.uint32(seed)))


def id_bytes(text: bytes, seed: int = 0) -> int:
    """`id64` of some bytes, for use from Python."""
    return int(_id64_of(_padded(text), len(text), np.uint64(seed)))


def _padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + bytes(8), np.uint8)
