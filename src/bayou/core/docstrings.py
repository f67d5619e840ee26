"""Entries of the lists in docstrings, such as `Args:`, from which help texts and longer lists are made."""

from __future__ import annotations

import inspect
import re
from typing import Any

# An entry of a list: names, and the more indented lines below.
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): .*(?:\n {5,}.*)*", re.MULTILINE)


def entries(text: str) -> dict[str, str]:
    """Return the entries of a docstring's lists, keyed by name. If an entry has several names, the first gets the text.

    >>> entries("Args:\\n    a, b: two of\\n        them.\\n    c: one.")
    {'a': '    a, b: two of\\n        them.', 'b': '', 'c': '    c: one.'}
    """
    described: dict[str, str] = {}
    for match in _ENTRY.finditer(text):
        first, *others = match[1].split(", ")
        described |= {first: match[0], **dict.fromkeys(others, "")}
    return described


def descriptions(described: Any) -> dict[str, str]:
    """Return the description of each entry in the docstring of a function or class, as one line."""
    listed = entries(inspect.getdoc(described) or "")
    return {name: " ".join(entry.partition(": ")[2].split()) for name, entry in listed.items()}
