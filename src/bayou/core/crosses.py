"""Crosses as recipes have them: by names (`cross`), and by first letters, as Vowpal Wabbit has them (`interactions`).

cross           ("user", "ad"), ("user", "*"), ("user", "ad", "hour"): two or three columns or namespaces by their
                names; "*" is every other one
interactions    "ab", "abc", "::": all features whose namespace or column begins with a, times all with b; ":" is
                any letter. Two letters are VW's -q, three its --cubic, any number its --interactions
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Any

from bayou.core.checks import plain_text, several, shown, texts
from bayou.core.errors import BadInput

ANY, ANY_LETTER = "*", ":"
# How many features one is made of at most.
MOST_PARTS, MOST_NAMED = 8, 3


def checked_crosses(value: Any) -> tuple[tuple[str, ...], ...]:
    """Two or three names each, each cross once."""
    found = []
    for cross in several("cross", value, "pairs of names"):
        names = () if isinstance(cross, str) else tuple(several("cross", cross, "pairs of names"))
        if not 2 <= len(names) <= MOST_NAMED or not all(isinstance(name, str) and name for name in names):
            raise BadInput(
                f"cross holds {shown(cross)}; each must be a pair of names such as ('user', 'ad'), or three of them."
            )
        for name in names:
            plain_text("a name in cross", name)
        named = [name for name in names if name != ANY]
        if len(names) > 2 and len(set(named)) < len(named):
            raise BadInput(f"cross holds {shown(cross)}; three names must differ from one another.")
        found.append(names)
    return tuple(dict.fromkeys(found))


def checked_interactions(value: Any) -> tuple[str, ...]:
    """First letters, two to MOST_PARTS at a time."""
    found = texts("interactions", value, "a list of first letters such as 'ab'")
    for letters in found:
        if not 2 <= len(letters) <= MOST_PARTS or not (letters.isascii() and letters.isprintable()):
            raise BadInput(
                f"interactions hold {letters!r}; give the first letters of two to {MOST_PARTS} namespaces or columns, "
                "such as ab."
            )
        if ANY_LETTER in letters and len(letters) > 3:
            raise BadInput(f"interactions hold {letters!r}; more than three letters must be written without a colon.")
    return tuple(dict.fromkeys(found))


def written_out(interactions: Sequence[str], letters: Iterable[str]) -> list[str]:
    """The interactions of data with these first letters, without colons, as Vowpal Wabbit 9 has them.

    Letters of which one comes twice stand in alphabetical order. What says the same in another order is there once, as
    what comes first by alphabet.

    >>> written_out(["ba", "::"], "ab"), written_out(["cb:"], "abc")
    (['aa', 'ab', 'bb'], ['bbc', 'bcc', 'cba'])
    """
    found: dict[str, str] = {}
    alphabet = sorted(letters)
    for interaction in interactions:
        for term in _without_colons(interaction, alphabet):
            same = "".join(sorted(term))
            own = same if len(set(term)) < len(term) else term
            found[same] = min(found.get(same, own), own)
    return sorted(found.values(), key=lambda term: (len(term), term))


def _without_colons(term: str, letters: list[str]) -> list[str]:
    """A colon alone stands where it stands; two come before the other letter; three are in descending order."""
    count = term.count(ANY_LETTER)
    if count == 0:
        return [term]
    if count == 1:
        return [term.replace(ANY_LETTER, letter) for letter in letters]
    rest = term.replace(ANY_LETTER, "")
    combined = ["".join(some) for some in combinations_with_replacement(letters, count)]
    return [some + rest for some in combined] if count == 2 else [some[::-1] for some in combined]
