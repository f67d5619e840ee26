"""Hashing of names to feature indices.

MurmurHash3 (x86, 32 bit) by Austin Appleby, the one that Vowpal Wabbit and scikit-learn use. The jitted functions take
ADDRESSES (integers) and lengths, so that names are hashed inside a block of text, without a copy.
A feature's index is its hash modulo the size of the table: `hash & (2**bits - 1)`. Hashes are uint32 throughout.

    namespace = murmur3(p, length, 0)
    feature = murmur3(q, other_length, namespace)
    both = cross(feature, other_feature)

In exact mode (`Recipe.exact`) features have 64-bit ids instead, from `id64` and `cross64` in place of `murmur3` and
`cross`, which `Numbering` then turns into consecutive indices.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import address_of, load_uint32, load_uint64
from bayou.kernels.random import GOLDEN, mix, rotated

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
# The prime of the 32-bit FNV hash, with which Vowpal Wabbit combines two hashes.
_FNV_PRIME = np.uint32(16777619)


# Numba computes with at least 64 bits; each step is cast back to 32, which LLVM optimizes away.


@kernel
def _scramble(k):
    return np.uint32(rotated(np.uint32(k * _C1), 15) * _C2)


@kernel
def mix_word(h, k):
    """Return the state h after four more bytes, k."""
    h = rotated(np.uint32(h ^ _scramble(k)), 13)
    return np.uint32(h * np.uint32(5) + np.uint32(0xE6546B64))


@kernel
def mix_end(h, k, length):
    """Return the hash from the state h, the last 0 to 3 bytes k (zero-padded) and the total length."""
    h = np.uint32(h ^ _scramble(k)) ^ np.uint32(length)  # k = 0 changes nothing
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@kernel
def murmur3(p, length, seed):
    """Return MurmurHash3_x86_32 of the bytes at address p. Up to 4 bytes after them are read, but not used."""
    h = np.uint32(seed)
    end = p + (length & ~3)
    while p < end:
        h = mix_word(h, load_uint32(p))
        p += 4
    rest = np.uint32((np.uint64(1) << np.uint64((length & 3) * 8)) - np.uint64(1))
    return mix_end(h, np.uint32(load_uint32(p) & rest), length)


@kernel
def cross(a, b):
    """Return the hash of the cross of two features from their hashes (the order matters)."""
    return np.uint32(np.uint32(a * _FNV_PRIME) ^ b)


# Exact mode: ids of 64 bits, wide enough that different names have different ids (among a million names, any two share
# one with a probability of 3 in 10^8). Two murmur3 with different seeds would not do: names that collide with one seed
# are far more likely than others to collide with the next. Each step of this hash spreads every bit over all 64.


@kernel
def id64(p, length, seed):
    """Return a 64-bit hash of the bytes at address p, never 0. Up to 8 bytes after them are read, but not used."""
    h = mix(np.uint64(seed) ^ (np.uint64(length) * GOLDEN))
    end = p + (length & ~7)
    while p < end:
        h = mix((h ^ load_uint64(p)) + GOLDEN)
        p += 8
    rest = (np.uint64(1) << np.uint64((length & 7) * 8)) - np.uint64(1)
    return max(mix((h ^ (load_uint64(p) & rest)) + GOLDEN), np.uint64(1))


@kernel
def cross64(a, b):
    """Return the id of the cross of two features from their ids (the order matters), never 0."""
    return max(mix((mix(a + GOLDEN) ^ b) + GOLDEN), np.uint64(1))


@kernel
def cross_keys(a, b, exact):
    """Return the key of the cross of two features, as a uint64, from their ids if `exact`, else from their hashes."""
    if exact:
        return cross64(a, b)
    return np.uint64(cross(np.uint32(a), np.uint32(b)))


def cross_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return the hash of each cross as `cross` computes it; each row of `hashes` has those of its features."""
    crossed = hashes[:, 0]
    for k in range(1, hashes.shape[1]):
        crossed = (crossed * _FNV_PRIME) ^ hashes[:, k]
    return crossed


@kernel(forceinline=True)
def hash_text(exact, p, length, seed):
    """Return the key of the bytes at address p, as a uint64: their id if `exact`, else their hash."""
    if exact:
        return id64(p, length, seed)
    return np.uint64(murmur3(p, length, np.uint32(seed)))


@kernel
def _hash_array(exact, data, length, seed):
    return hash_text(exact, address_of(data), length, seed)


def hash_bytes(text: bytes, seed: int = 0) -> int:
    """Return `murmur3` of some bytes, for use from Python.

    >>> hash_bytes(b"hello")
    613153351
    """
    return int(_hash_array(False, _padded(text), len(text), np.uint64(seed)))


def id_bytes(text: bytes, seed: int = 0) -> int:
    """Return `id64` of some bytes, for use from Python."""
    return int(_hash_array(True, _padded(text), len(text), np.uint64(seed)))


def _padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + bytes(8), np.uint8)
