"""svmlight text, parsed slowly and obviously: what the kernel answers to."""

import re
from decimal import Decimal
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np

from tests.sources import slow_vw

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
BLANKS = b" \t\r"


class Row(NamedTuple):
    line: int
    label: float  # NaN if there is none
    features: list[tuple[int, float]]


class BadLine(NamedTuple):
    line: int
    column: int


class _Bad(Exception):
    def __init__(self, at: int) -> None:
        self.at = at


def number(text: bytes) -> float:
    """As Python reads it, digits after the 19th significant one taken for zeros."""
    sign, digits, exponent = Decimal(text.decode()).as_tuple()
    kept = digits[:19]
    return float(Decimal((sign, kept, int(exponent) + len(digits) - len(kept))))


def parse(text: bytes, n_features: int, exact: bool = False) -> tuple[list[Row], list[BadLine]]:
    rows, bad = [], []
    for line, content in enumerate(text.removesuffix(b"\n").split(b"\n")):
        try:
            row = _line(content, n_features, exact)
        except _Bad as error:
            bad.append(BadLine(line, error.at + 1))
        else:
            if row is not None:
                rows.append(Row(line, *row))
    return rows, bad


def _line(content: bytes, n_features: int, exact: bool) -> tuple[float, list[tuple[int, float]]] | None:
    content = content.partition(b"#")[0]
    at = len(content) - len(content.lstrip(BLANKS))
    if at == len(content):
        return None
    label = float("nan")
    found = NUMBER.match(content, at)
    if not found:
        raise _Bad(at)
    if content[found.end() : found.end() + 1] != b":":
        _expect_blank(content, found.end())
        label = _small(found, at)
        at = found.end()
    features = []
    while True:
        while at < len(content) and content[at] in BLANKS:
            at += 1
        if at == len(content):
            return label, features
        if content.startswith(b"qid:", at):
            while at < len(content) and content[at] > 32:
                at += 1
            continue
        index = re.compile(rb"\d+").match(content, at)
        if not index:
            raise _Bad(at)
        if int(index[0]) >= 2**64:
            raise _Bad(at)
        if content[index.end() : index.end() + 1] != b":":
            raise _Bad(index.end())
        feature = int(index[0])
        if feature >= n_features:
            if exact:
                raise _Bad(at)
            feature = (feature ^ (feature >> 32)) & (n_features - 1)
        at = index.end() + 1
        value = NUMBER.match(content, at)
        if not value:
            raise _Bad(at)
        _expect_blank(content, value.end())
        features.append((feature, _small(value, at)))
        at = value.end()


def _expect_blank(content: bytes, at: int) -> None:
    if at < len(content) and content[at] > 32:
        raise _Bad(at)


def _small(found: re.Match, at: int) -> float:
    value = number(found[0])
    if not abs(value) <= 1e12:
        raise _Bad(at)
    return value


def arrays(rows: list[Row]) -> tuple[np.ndarray, ...]:
    """(indptr, indices, float32 values, labels, lines) of rows."""
    indptr = np.cumsum([0] + [len(row.features) for row in rows])
    flat = [pair for row in rows for pair in row.features]
    return (
        indptr,
        np.array([i for i, _ in flat], np.uint32),
        np.array([v for _, v in flat], np.float64).astype(np.float32),
        np.array([row.label for row in rows], np.float64),
        np.array([row.line for row in rows], np.int64),
    )


def crossed(features: list[tuple[int, float]], ranges, cross=(), interactions=()) -> list[tuple[int, float]]:
    """What crosses of ranges give a row, before hashes are cut to the size of the table."""
    spaces = [next((k for k, (_, low, high) in enumerate(ranges, 1) if low <= i <= high), 0) for i, _ in features]
    names = [" ", *(name for name, _, _ in ranges)]
    found = []

    def put(chosen) -> None:
        index, value = features[chosen[0]]
        for k in chosen[1:]:
            index, value = (index * 16777619 % 2**32) ^ features[k][0], value * features[k][1]
        if value != 0:
            found.append((index, value))

    def fits(rule, some) -> bool:
        return all(name in ("*", names[space]) for name, space in zip(rule, some, strict=True))

    for i, j in combinations(range(len(features)), 2):
        x, y = spaces[i], spaces[j]
        for rule in (rule for rule in cross if len(rule) == 2):
            if x == y:
                if rule == (names[x], names[x]):
                    if features[i][0] != features[j][0]:
                        put(sorted((i, j), key=lambda k: features[k][0]))
                    break
            elif rule == ("*", "*"):
                put(sorted((i, j), key=lambda k: spaces[k]))
                break
            elif fits(rule, (x, y)) or fits(rule, (y, x)):
                put((i, j) if fits(rule, (x, y)) else (j, i))
                break
    for three in combinations(sorted(set(spaces)), 3):
        orders = [some for rule in cross if len(rule) == 3 for some in permutations(three) if fits(rule, some)]
        for some in orders[:1]:
            for chosen in product(*([k for k, space in enumerate(spaces) if space == one] for one in some)):
                put(chosen)
    for term in slow_vw.written_out(tuple(interactions), {names[space][0] for space in spaces}):
        groups = [[k for k, space in enumerate(spaces) if names[space][0] == letter] for letter in term]
        for chosen in product(*groups):
            neighbours = zip(chosen, chosen[1:], term, term[1:], strict=False)
            if all(k <= following for k, following, letter, other in neighbours if letter == other):
                put(chosen)
    return found
