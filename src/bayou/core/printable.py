"""Text of users as it may be shown to people: names, labels, paths and cells can hold anything."""

from __future__ import annotations

import re

# What moves the cursor, gives a terminal orders, ends a line, turns the direction of what follows, or is no character:
# C0, DEL and C1, the bidirectional controls, the line separators, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with whatever does more than show itself written out, as Python would write it.

    >>> print(printable("red\x1b[31m \u202etxt.exe\n"))
    red\x1b[31m \u202etxt.exe\n
    """
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)
