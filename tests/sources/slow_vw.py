"""Vowpal Wabbit's text, read slowly: the grammar of `bayou.sources.formats.vw` in plain Python, written for reading.

The fast parser answers to this one. Hashes are scikit-learn's murmur3, which we did not write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, permutations, product

import numpy as np
from sklearn.utils import murmurhash3_32

WORD = re.compile(rb"[^\x00-\x20|]*")  # before the first '|'
NAME = re.compile(rb"[^\x00-\x20|:]*")
TEXT = re.compile(rb"[^\x00-\x20|]*")
BLANKS = re.compile(rb"[ \t]*")
SPACES = re.compile(rb" *")
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# What is not a number to us, but to VW: "information" is infinity to it, "-" and "e5" are zeros.
VW_NUMBER = re.compile(rb"(?i:[+-]?(?:nan|inf))|-?\.?(?:[eE]-?[0-9]*)?(?=[\x00-\x20]|\Z)")

LARGEST, HEAVIEST = 1e12, 1e6


class Wrong(Exception):
    """A line that cannot be used; `column` is that of the first byte that is not as expected, from 1."""

    def __init__(self, at: int) -> None:
        self.column = at + 1


@dataclass(frozen=True)
class Feature:
    space: bytes  # b"" for the namespace without a name
    name: bytes
    text: bytes | None  # of name:text
    value: float

    @property
    def shown(self) -> str:
        """As people read it."""
        whole = self.name if self.text is None else self.name + b":" + self.text
        return (self.space + b"^" + whole if self.space else whole).decode("utf-8", "replace")


@dataclass
class Example:
    label: float = math.nan
    weight: float = 1.0
    tag: bytes = b""
    features: list[Feature] = field(default_factory=list)


def read_line(line: bytes) -> Example | None:
    """The example of a line (without its newline), or None if there is nothing in it."""
    line = line.removesuffix(b"\r")
    at = BLANKS.match(line).end()
    if at == len(line):
        return None
    if b"\t" in line[:at]:
        raise Wrong(line.index(b"\t"))
    example = Example()
    at = read_head(line, at, example)
    while at < len(line):
        at = read_namespace(line, at, example)
    return example


def read_head(line: bytes, at: int, example: Example) -> int:
    """Label, weight and tag; gives where the first '|' stands."""
    numbers = []
    while line[at : at + 1] != b"|":
        word = WORD.match(line, at)
        behind = SPACES.match(line, word.end()).end()
        touches = behind == word.end()
        if touches and line[behind : behind + 1] != b"|":  # the end of the line, a tab, a control character
            raise Wrong(behind)
        if touches or (word[0].startswith(b"'") and line[behind : behind + 1] == b"|"):
            example.tag = word[0].removeprefix(b"'")
            at = behind
            break
        if len(numbers) == 2 or not NUMBER.fullmatch(word[0]):
            raise Wrong(at)
        numbers.append(float(word[0]))
        if not (abs(numbers[0]) <= LARGEST if len(numbers) == 1 else 0 <= numbers[1] <= HEAVIEST):
            raise Wrong(at)
        at = behind
    if numbers:
        example.label = numbers[0]
    if len(numbers) == 2:
        example.weight = numbers[1]
    return at


def read_namespace(line: bytes, at: int, example: Example) -> int:
    """One '|' and what belongs to it; gives where the next one stands, or the end of the line."""
    name = NAME.match(line, at + 1)
    at, scale = name.end(), 1.0
    if line[at : at + 1] == b":":
        if not name[0]:
            raise Wrong(at)
        scale, at = read_number(line, at + 1)
    while at < len(line) and line[at : at + 1] != b"|":
        if line[at : at + 1] not in (b" ", b"\t"):
            raise Wrong(at)
        at += 1
        feature = NAME.match(line, at)
        if line[feature.end() : feature.end() + 1] == b":":
            if not feature[0]:
                raise Wrong(at)
            text, value, at = read_value(line, feature.end() + 1, scale)
            example.features.append(Feature(name[0], feature[0], text, value))
        elif feature[0]:
            example.features.append(Feature(name[0], feature[0], None, scale))
            at = feature.end()
    return at


def read_number(line: bytes, at: int) -> tuple[float, int]:
    number = NUMBER.match(line, at)
    if number is None:
        raise Wrong(at)
    behind = line[number.end() : number.end() + 1]
    if behind > b" " and behind != b"|":
        raise Wrong(number.end())
    if not abs(float(number[0])) <= LARGEST:
        raise Wrong(at)
    return float(number[0]), number.end()


def read_value(line: bytes, at: int, scale: float) -> tuple[bytes | None, float, int]:
    """(text or None, value, where it ends) of what stands behind a feature's ':'."""
    text = TEXT.match(line, at)
    if NUMBER.match(line, at):
        value, end = read_number(line, at)
        if not abs(value * scale) <= LARGEST:
            raise Wrong(at)
        return None, value * scale, end
    if not text[0] or VW_NUMBER.match(line, at):
        raise Wrong(at)
    if line[text.end() : text.end() + 1] == b"|":
        raise Wrong(text.end())
    return text[0], 1.0, text.end()


# --- features by number ---------------------------------------------------------------------------------------------


def hash_name(name: bytes, seed: int, hash_all: bool) -> int:
    if name.isdigit() and not hash_all:
        return (int(name) + seed) % 2**32
    return murmurhash3_32(name, seed=seed, positive=True)


def hash_space(space: bytes, hash_all: bool) -> int:
    return hash_name(space, 0, hash_all) if space else 0


def hash_feature(feature: Feature, hash_all: bool) -> int:
    found = hash_name(feature.name, hash_space(feature.space, hash_all), hash_all)
    return found if feature.text is None else hash_name(feature.text, found, hash_all)


Rules = tuple[tuple[str, ...], ...]
Kept = tuple[Feature, int, float]  # with its hash, and its value as it is kept


def named(rule: str, space: int, hash_all: bool) -> bool:
    return rule == "*" or hash_space(rule.strip().encode(), hash_all) == space


def order(rules: Rules, x: int, y: int, hash_all: bool) -> int:
    """How two namespaces, given by their hashes, are crossed: 0 not, 1 as they come, 2 the other way round."""

    def fits(rule: str, space: int) -> bool:
        return named(rule, space, hash_all)

    for a, b in (rule for rule in rules if len(rule) == 2):
        if x == y:
            if fits(a, x) and fits(b, x) and "*" not in (a, b):
                return 1
        elif a == b == "*":
            return 1 if x < y else 2
        elif fits(a, x) and fits(b, y):
            return 1
        elif fits(a, y) and fits(b, x):
            return 2
    return 0


def triples(kept: list[Kept], rules: Rules, hash_all: bool) -> Iterator[list[Kept]]:
    """Features of three namespaces each: every set of three once, in the order of the first rule that has it."""
    spaces: dict[int, list[Kept]] = {}
    for one in kept:
        spaces.setdefault(hash_space(one[0].space, hash_all), []).append(one)
    for three in combinations(sorted(spaces), 3):
        fitting = [
            found
            for rule in rules
            if len(rule) == 3
            for found in permutations(three)
            if all(named(name, space, hash_all) for name, space in zip(rule, found, strict=True))
        ]
        if fitting:
            yield from map(list, product(*(spaces[space] for space in fitting[0])))


def first_letter(feature: Feature) -> str:
    return (feature.space or b" ")[:1].decode("latin-1")


def written_out(interactions: tuple[str, ...], letters: set[str]) -> list[str]:
    """VW's terms of first letters, ":" standing for any."""

    def ordered(term: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(term)) if len(set(term)) < len(term) else term

    def smallest(terms: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        same = {tuple(sorted(term)) for term in terms}
        return [min(ordered(term) for term in terms if tuple(sorted(term)) == letters) for letters in same]

    found = []
    for pattern in smallest([tuple(term) for term in interactions]):
        for chosen in product(sorted(letters), repeat=pattern.count(":")):
            if list(chosen) == sorted(chosen, reverse=pattern == (":", ":", ":")):
                rest = list(chosen)
                found.append(tuple(rest.pop(0) if letter == ":" else letter for letter in pattern))
    return sorted(map("".join, smallest(found)), key=lambda term: (len(term), term))


def interacting(kept: list[Kept], interactions: tuple[str, ...]) -> Iterator[list[Kept]]:
    """What VW's -q, --cubic and --interactions make."""
    for term in written_out(interactions, {first_letter(one[0]) for one in kept}):
        groups = [[k for k, one in enumerate(kept) if first_letter(one[0]) == letter] for letter in term]
        for chosen in product(*groups):
            neighbours = zip(chosen, chosen[1:], term, term[1:], strict=False)
            if all(k <= following for k, following, letter, other in neighbours if letter == other):
                yield [kept[k] for k in chosen]


Crossed = tuple[int, float, str]  # hash, value, name


def features_of(
    example: Example,
    hash_all: bool,
    rules: Rules,
    dtype: str = "float32",
    interactions: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
) -> list[Crossed]:
    """Features, then crosses of them. Raises Wrong if the product of a cross is too large."""
    number = np.dtype(dtype).type
    features = [f for f in example.features if first_letter(f) not in ignore]
    kept = [(f, hash_feature(f, hash_all), number(f.value)) for f in features if number(f.value) != 0]
    found = [(h, float(v), f.shown) for f, h, v in kept]
    for i, (f, hash_f, value_f) in enumerate(kept if rules else []):
        for g, hash_g, value_g in kept[i + 1 :]:
            space_f, space_g = hash_space(f.space, hash_all), hash_space(g.space, hash_all)
            how = order(rules, space_f, space_g, hash_all)
            if how == 0 or (space_f == space_g and hash_f == hash_g):
                continue
            if space_f == space_g:
                how = 1 if hash_f < hash_g else 2
            value = float(value_f) * float(value_g)
            if not abs(value) <= LARGEST:
                raise Wrong(-1)
            first, second = ((f, hash_f), (g, hash_g)) if how == 1 else ((g, hash_g), (f, hash_f))
            if number(value) != 0:
                crossed = (first[1] * 16777619 ^ second[1]) % 2**32
                found.append((crossed, float(number(value)), f"{first[0].shown} & {second[0].shown}"))
    for parts in [*triples(kept, rules, hash_all), *interacting(kept, interactions)]:
        crossed, value = parts[0][1], float(parts[0][2])
        for _, hash_f, value_f in parts[1:]:
            crossed, value = (crossed * 16777619 ^ hash_f) % 2**32, value * float(value_f)
            if not abs(value) <= LARGEST:
                raise Wrong(-1)
        if number(value) != 0:
            found.append((crossed, float(number(value)), " & ".join(f.shown for f, _, _ in parts)))
    return found


@dataclass
class Lines:
    """What a text held."""

    examples: list[Example] = field(default_factory=list)
    features: list[list[Crossed]] = field(default_factory=list)  # of each example
    positions: list[int] = field(default_factory=list)
    bad: list[tuple[int, int]] = field(default_factory=list)  # line from 0, column from 1 (0: the whole line)


def read(
    text: bytes,
    hash_all: bool = False,
    rules: Rules = (),
    dtype: str = "float32",
    interactions: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
) -> Lines:
    lines = Lines()
    for position, line in enumerate(text.removesuffix(b"\n").split(b"\n")):
        try:
            example = read_line(line)
            if example is not None:
                lines.features.append(features_of(example, hash_all, rules, dtype, interactions, ignore))
                lines.examples.append(example)
                lines.positions.append(position)
        except Wrong as wrong:
            lines.bad.append((position, wrong.column))
    return lines
