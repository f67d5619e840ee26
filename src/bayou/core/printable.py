"""Safe display of user-supplied text: names, labels, paths and cells can contain anything."""

from __future__ import annotations

import re

# Characters that move the cursor, control a terminal, end a line or change the text direction, and non-characters: C0,
# DEL and C1, the bidirectional controls, the line separators, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


# Names are cut to this length for display; files hold them in full.
MAX_SHOWN_CHARACTERS = 300


def shorten(name: str) -> str:
    """Return a name cut short for display: feature names come from the data and can be of any length.

    >>> shorten("site=a.com"), len(shorten("a" * 100_000))
    ('site=a.com', 301)
    """
    return name if len(name) <= MAX_SHOWN_CHARACTERS else name[:MAX_SHOWN_CHARACTERS] + "…"


def printable(text: str) -> str:
    r"""Return the text with control characters and the like escaped as in a Python string.

    >>> print(printable("red\x1b[31m \u202etxt.exe\n"))
    red\x1b[31m \u202etxt.exe\n
    """
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)
