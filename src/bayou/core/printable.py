"""Text of users as it may be shown to people: names, labels, paths and cells can hold anything."""

from __future__ import annotations

import re

# What moves the cursor, gives a terminal orders, ends a line, turns the direction of what follows, or is no character:
# C0, DEL and C1, the bidirectional controls, the line separators, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


# Characters of a name that are shown; files have all of them.
MAX_SHOWN_CHARACTERS = 300


def shorten(name: str) -> str:
    """Return a name as it is shown: whoever sends rows names features, and a name can be of any length.

    >>> shorten("site=a.com"), len(shorten("a" * 100_000))
    ('site=a.com', 301)
    """
    return name if len(name) <= MAX_SHOWN_CHARACTERS else name[:MAX_SHOWN_CHARACTERS] + "…"


def printable(text: str) -> str:
    r"""The text with whatever does more than show itself written out, as Python would write it.

    >>> print(printable("red\x1b[31m \u202etxt.exe\n"))
    red\x1b[31m \u202etxt.exe\n
    """
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)
