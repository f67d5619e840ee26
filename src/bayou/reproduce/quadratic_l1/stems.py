"""Word stems, for the text experiments of quadratic-l1: M. F. Porter, An algorithm for suffix stripping, 1980.

A stem has the form [C](VC)^m[V], C and V being runs of consonants and vowels; m is its measure. A step takes the first
of its endings that a word has, and replaces it if what is left is long enough.

>>> " ".join(stem(word) for word in "acquisitions banker relational hopping sky agreed generalizations".split())
'acquisit banker relat hop sky agre gener'
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def words(text: str) -> list[str]:
    """The stems of a text, in order; runs of letters and digits."""
    return [stem(word) for word in re.findall(r"[a-z0-9]+", text.lower())]


@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """The stem of a word in lower case."""
    if len(word) <= 2 or not word.isalpha():
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, STEP_2, 0)
    word = _replaced(word, STEP_3, 0)
    ending = _ending(word, STEP_4)
    if ending and _measure(rest := word[: -len(ending)]) > 1 and (ending != "ion" or rest.endswith(("s", "t"))):
        word = rest
    if word.endswith("e"):
        m = _measure(word[:-1])
        if m > 1 or (m == 1 and not _short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = _ending(word, ("ed", "ing"))
    if not ending or not _has_vowel(rest := word[: -len(ending)]):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and not _vowels(rest)[-1] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _short(rest) else rest


def _replaced(word: str, step: dict[str, str], least: int) -> str:
    ending = _ending(word, step)
    if ending and _measure(rest := word[: -len(ending)]) > least:
        return rest + step[ending]
    return word


def _ending(word: str, endings: object) -> str:
    """The longest of the endings that the word has."""
    return max((one for one in endings if word.endswith(one)), key=len, default="")  # type: ignore[attr-defined]


def _vowels(word: str) -> list[bool]:
    """Which letters are vowels; y is one behind a consonant."""
    found: list[bool] = []
    for letter in word:
        found.append(letter in "aeiou" or (letter == "y" and bool(found) and not found[-1]))
    return found


def _has_vowel(word: str) -> bool:
    return any(_vowels(word))


def _measure(word: str) -> int:
    found = _vowels(word)
    return sum(before and not after for before, after in pairwise(found))


def _short(word: str) -> bool:
    """Whether it ends consonant, vowel, consonant, the last not w, x or y."""
    return len(word) > 2 and _vowels(word)[-3:] == [False, True, False] and word[-1] not in "wxy"
