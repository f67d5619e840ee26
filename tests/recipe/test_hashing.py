import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from sklearn.utils import murmurhash3_32

from bayou.kernels.parse_text import address_of
from bayou.recipe.hashing import cross, cross64, hash_bytes, id_bytes, murmur3

# Published results of MurmurHash3_x86_32: (bytes, seed, hash).
PUBLISHED = [
    (b"", 0, 0),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"\x21\x43\x65\x87", 0, 0xF55B516B),
    (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    (b"\x21\x43\x65", 0, 0x7E4A8634),
    (b"\x21\x43", 0, 0xA0F7B07A),
    (b"\x21", 0, 0x72661CF4),
    (b"\0\0\0\0", 0, 0x2362F9DE),
    (b"\0\0\0", 0, 0x85F0B427),
    (b"\0\0", 0, 0x30F4C306),
    (b"\0", 0, 0x514E28B7),
    (b"aaaa", 0x9747B28C, 0x5A97808A),
    (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
]


@pytest.mark.parametrize(("text", "seed", "expected"), PUBLISHED)
def test_murmur3_gives_the_published_results(text, seed, expected):
    assert hash_bytes(text, seed) == expected


@given(st.binary(max_size=70), st.integers(0, 2**32 - 1))
def test_murmur3_is_that_of_scikit_learn(text, seed):
    assert hash_bytes(text, seed) == murmurhash3_32(text, seed=seed, positive=True)


@njit
def _hash_at(data, start, length):
    return murmur3(address_of(data) + start, length, np.uint32(7))


@pytest.mark.parametrize("start", range(9))
@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 11])
def test_only_the_bytes_asked_for_count_wherever_they_lie(start, length):
    text = bytes(range(200, 232))
    expected = murmurhash3_32(text[start : start + length], seed=7, positive=True)
    assert _hash_at(np.frombuffer(text, np.uint8).copy(), start, length) == expected


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_cross_is_vowpal_wabbits(a, b):
    assert cross(np.uint32(a), np.uint32(b)) == (a * 16777619 % 2**32) ^ b


def test_ids_of_many_alike_names_all_differ_and_so_do_their_halves_as_far_as_32_bits_can():
    names = [b"column%d=%d" % (a, b) for a in range(300) for b in range(1000)]
    ids = np.array([id_bytes(name) for name in names], np.uint64)
    assert len(np.unique(ids)) == len(names)
    # Among n numbers of 32 bits about n^2 / 2^33 pairs are equal: here 10.
    for half in (ids >> np.uint64(32), ids & np.uint64(2**32 - 1)):
        assert len(names) - len(np.unique(half)) < 40


@given(st.binary(max_size=30), st.integers(1, 2**64 - 1))
def test_an_id_depends_on_every_byte_the_length_and_the_seed(text, seed):
    found = id_bytes(text)
    assert found != 0
    assert found == id_bytes(text)
    others = [text + b"\0", text + b"a", b"\0" + text]
    others += [text[:k] + bytes([text[k] ^ 1]) + text[k + 1 :] for k in range(len(text))]
    assert found not in [id_bytes(other) for other in others]
    assert found != id_bytes(text, seed)


def test_crossed_ids_tell_the_first_from_the_second():
    a, b = np.uint64(id_bytes(b"a")), np.uint64(id_bytes(b"b"))
    assert len({int(cross64(x, y)) for x in (a, b) for y in (a, b)}) == 4
