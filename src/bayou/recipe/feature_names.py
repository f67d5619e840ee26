"""Names of the features of a hashed table, up to a limit.

Parsers hash names and drop them. For display they also report each feature that has no name yet (`NewNames`), and
`FeatureNames` keeps the first name of every feature, in the order of the stream, until its limits are reached. A
bitmap of the named features lets parsers in other threads skip them by testing a single bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayou.core.errors import BadModel
from bayou.core.spelling import option
from bayou.kernels.compiling import kernel

# Enough for the features that matter in most models, at a cost of some tens of megabytes.
MAX_NAMES = 1_000_000
MAX_NAME_BYTES = 1 << 26

# Up to this many names are searched one by one; for more, all features are sorted.
MAX_LINEAR_LOOKUPS = 32

# Separator of the features in the name of a cross.
AND = b" & "


class NewNames(NamedTuple):
    """Features without a name when they were parsed, in the order of the stream, possibly repeated, with their names.

    A name is given as offsets into arrays of bytes (the parsed block): start and stop of its prefix (a namespace, a
    column) and of the name itself, and likewise for each other feature of a cross. Absent parts are -1, -1.
    """

    indices: np.ndarray  # uint32; in the exact mode uint64 ids, which `Numbering.lookup` turns into indices
    spans: np.ndarray  # integers, (n, 4): prefix start, stop, name start, stop; (n, 4 k) for crosses of k
    data: np.ndarray  # uint8, the bytes that spans of names refer to
    prefix_data: np.ndarray  # uint8, the bytes that spans of prefixes refer to
    separator: bytes  # between prefix and name if both are present: b"^", b"="


class FeatureNames:
    """The names of some features of a table.

    Attributes:
        n_features: the size of the table.
        known: bit i & 7 of byte i >> 3 is set if feature i has a name. Parsers read it while names are added; one
            that misses the latest names reports them once more, which is harmless.
        full: whether a limit was reached; from then on no name is added, and parsers need not report any.

    >>> names = FeatureNames(n_features=1024)
    >>> text = np.frombuffer(b"|user alice bob", np.uint8)
    >>> spans = np.full((2, 8), -1)
    >>> spans[:, :4] = [1, 5, 6, 11], [1, 5, 12, 15]
    >>> names.add(NewNames(np.uint32([7, 9]), spans, text, text, separator=b"^"))
    >>> len(names), names.name_of([9, 8, 7])
    (2, ['user^bob', None, 'user^alice'])
    """

    def __init__(self, n_features: int, limit: int = MAX_NAMES, byte_limit: int = MAX_NAME_BYTES) -> None:
        self.n_features = n_features
        self.known = np.zeros((n_features + 7) // 8, np.uint8)
        self.full = False
        self._limit = min(limit, n_features)
        self._byte_limit = byte_limit
        # name k, of feature _indices[k], is _text[_ends[k] : _ends[k + 1]]
        self._count = 0
        self._indices = np.empty(0, np.uint32)
        self._ends = np.zeros(1, np.int64)
        self._text = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return self._count

    def add(self, new_names: NewNames) -> None:
        """Add the names of features that have none yet, up to the limits."""
        if self.full or not len(new_names.indices):
            return
        starts, stops = new_names.spans[:, 0::2], new_names.spans[:, 1::2]
        most = int((stops - starts).sum()) + starts.size * (len(new_names.separator) + len(AND))
        self._make_room(len(starts), most)
        indices = new_names.indices.astype(np.uint32, copy=False)
        separators = np.frombuffer(new_names.separator, np.uint8), np.frombuffer(AND, np.uint8)
        texts = new_names.data, new_names.prefix_data, *separators
        stored = self.known, self._indices, self._ends, self._text
        limits = self.n_features, self._limit, self._byte_limit
        self._count, self.full = _add(indices, new_names.spans, texts, stored, self._count, limits)

    def _make_room(self, names: int, size: int) -> None:
        """Grow the arrays for `names` more names of `size` bytes in all, at least twofold, up to the limits."""
        names = min(self._count + names, self._limit)
        if names > len(self._indices):
            room = min(max(names, 2 * len(self._indices)), self._limit)
            self._indices = _grown(self._indices, self._count, room)
            self._ends = _grown(self._ends, self._count + 1, room + 1)
        used = int(self._ends[self._count])
        size = min(used + size, self._byte_limit)
        if size > len(self._text):
            self._text = _grown(self._text, used, min(max(size, 2 * len(self._text)), self._byte_limit))

    def is_named(self, indices: np.ndarray) -> np.ndarray:
        """Return a boolean for each of these features: whether it has a name."""
        return in_bitmap(self.known, np.asarray(indices))

    def name_of(self, indices: np.ndarray) -> list[str | None]:
        """Return the name of each of these features, or None. Invalid UTF-8 becomes replacement characters."""
        return [None if name is None else str(name, "utf-8", "replace") for name in self.bytes_of(indices)]

    def bytes_of(self, indices: np.ndarray) -> list[bytes | None]:
        """Return the name of each of these features as bytes, or None."""
        indices = np.asarray(indices, np.int64)
        own = self._indices[: self._count]
        is_named = self.is_named(indices)
        if len(indices) <= MAX_LINEAR_LOOKUPS:
            places = iter([int(np.argmax(own == index)) for index in indices[is_named].tolist()])
        else:
            order = np.argsort(own)
            places = iter(order[np.searchsorted(own, indices[is_named], sorter=order)].tolist())
        ends, text = self._ends, self._text.data
        return [bytes(text[ends[k := next(places)] : ends[k + 1]]) if yes else None for yes in is_named]

    def named_fraction(self, mass: np.ndarray, indices: np.ndarray | None = None) -> float:
        """Return the fraction of some mass (of weights, say) on named features; mass[k] belongs to feature indices[k].

        Without indices, mass[i] belongs to feature i.
        """
        total = float(np.sum(mass))
        if indices is None:
            indices = self._indices[: self._count]
            is_named = np.asarray(mass)[indices]
        else:
            is_named = np.asarray(mass)[self.is_named(indices)]
        return float(np.sum(is_named)) / total if total else 1.0

    def add_missing(self, indices: np.ndarray, names: list[bytes]) -> None:
        """Add these names, one per index, for features that have none yet."""
        ends = np.concatenate([[0], np.cumsum([len(name) for name in names])])
        self._put(indices.astype(np.uint32), ends, np.frombuffer(b"".join(names), np.uint8))

    def merge(self, other: FeatureNames) -> None:
        """Add the names of `other` for features that have none here."""
        if other.n_features != self.n_features:
            raise BadModel(
                f"names of {self.n_features} and of {other.n_features} features cannot be merged; use the same "
                f"{option('bits')}."
            )
        n = len(other)
        self._put(other._indices[:n], other._ends[: n + 1], other._text)

    def _put(self, indices: np.ndarray, ends: np.ndarray, text: np.ndarray) -> None:
        spans = np.full((len(indices), 4), -1, np.int32)
        spans[:, 2], spans[:, 3] = ends[:-1], ends[1:]
        self.add(NewNames(indices, spans, text, text, b""))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the names as arrays for a file. They stay valid: later names are appended after them."""
        n = self._count
        return {
            "indices": self._indices[:n],
            "ends": self._ends[: n + 1],
            "text": self._text[: self._ends[n]],
            "full": np.array([self.full], np.uint8),
        }

    @classmethod
    def from_arrays(
        cls,
        n_features: int,
        arrays: Mapping[str, np.ndarray],
        limit: int = MAX_NAMES,
        byte_limit: int = MAX_NAME_BYTES,
    ) -> FeatureNames:
        """Return the names from the result of `arrays`."""
        self = cls(n_features, limit, byte_limit)
        try:
            indices = np.ascontiguousarray(arrays["indices"], np.uint32)
            ends = np.ascontiguousarray(arrays["ends"], np.int64)
            text = np.ascontiguousarray(arrays["text"], np.uint8)
            full = bool(arrays["full"][0])
        except (KeyError, IndexError, TypeError, ValueError):
            raise BadModel("the feature names are incomplete; the file is damaged.") from None
        fits = len(ends) == len(indices) + 1 and ends[0] == 0 and (np.diff(ends) >= 0).all() and ends[-1] == len(text)
        fits = fits and len(indices) <= self._limit and len(np.unique(indices)) == len(indices)
        if not fits or (len(indices) and indices.max() >= n_features):
            raise BadModel("the feature names do not fit the model; the file is damaged.")
        self._count, self._indices, self._ends, self._text = len(indices), indices, ends, text
        np.bitwise_or.at(self.known, indices >> 3, np.uint8(1) << (indices & 7).astype(np.uint8))
        self.full = full
        return self


def in_bitmap(bitmap: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return a boolean for each of these features: whether its bit in the bitmap `FeatureNames.known` is set."""
    return np.asarray((bitmap[indices >> 3] >> (indices & 7).astype(np.uint8)) & 1 != 0)


def collision_rate(touched: int, n_features: int) -> float:
    """Return the estimated probability that a feature shares its index in a hashed table with another one.

    Hashes are uniform, so this is the fraction of the table that the other features take.
    """
    return max(touched - 1, 0) / n_features


def _grown(array: np.ndarray, used: int, room: int) -> np.ndarray:
    larger = np.empty(room, array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def _add(features, spans, texts, stored, count, limits):
    """Append the names of some features; return (number of names, whether a limit was reached)."""
    data, prefix_data, separator, between = texts
    bitmap, indices, ends, text = stored
    n_features, limit, byte_limit = limits
    for k in range(features.size):
        index = np.int64(features[k])
        bit = np.uint8(1 << (index & 7))
        if index >= n_features or bitmap[index >> 3] & bit:
            continue
        size = 0
        for part in range(0, spans.shape[1], 4):
            has_prefix, has_name = spans[k, part] >= 0, spans[k, part + 2] >= 0
            size += between.size * (part > 0 and (has_prefix or has_name)) + separator.size * (has_prefix and has_name)
            size += spans[k, part + 1] - spans[k, part] + spans[k, part + 3] - spans[k, part + 2]
        if count >= limit or ends[count] + size > byte_limit:
            return count, True
        at = ends[count]
        for part in range(0, spans.shape[1], 4):
            has_prefix, has_name = spans[k, part] >= 0, spans[k, part + 2] >= 0
            if part > 0 and (has_prefix or has_name):
                for byte in between:
                    text[at] = byte
                    at += 1
            for place in range(spans[k, part], spans[k, part + 1]):
                text[at] = prefix_data[place]
                at += 1
            if has_prefix and has_name:
                for byte in separator:
                    text[at] = byte
                    at += 1
            for place in range(spans[k, part + 2], spans[k, part + 3]):
                text[at] = data[place]
                at += 1
        bitmap[index >> 3] |= bit
        indices[count] = index
        count += 1
        ends[count] = at
    return count, False
