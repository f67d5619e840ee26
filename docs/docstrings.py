"""Docstrings as the site shows them: examples as code, and names that share a line each on a line of their own.

Examples stand in docstrings as doctest wants them, and the site needs a fence around them. An entry such as
`low, high: the bounds` of an Args or Attributes section would be taken for one name with a type.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

_SHARED = re.compile(r"^(\s+)(\w+)((?:, \w+)+): (.*)$")


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = obj.docstring.value
            # Its list of parameters is completed when it is imported.
            if "{recipe}" in text or (obj.is_class and obj.module.path.startswith("bayou.estimators")):
                text = inspect.getdoc(getattr(importlib.import_module(obj.module.path), obj.name)) or text
            obj.docstring.value = fenced(parted(text))


def fenced(text: str) -> str:
    """With a fence around each example: from a line that begins with >>> to the next empty line."""
    lines, inside = [], False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            lines += ["", "```pycon"] if lines and lines[-1].strip() else ["```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


def parted(text: str) -> str:
    """With an entry of its own for each of several names: the first has the text."""
    lines = []
    waiting: list[str] = []  # entries that come once the text of the first is over
    indent = 0
    for line in text.splitlines():
        if waiting and (not line.strip() or len(line) - len(line.lstrip()) <= indent):
            lines += waiting
            waiting = []
        found = _SHARED.match(line)
        if found:
            indent = len(found[1])
            lines.append(f"{found[1]}{found[2]}: {found[4]}")
            waiting = [f"{found[1]}{name}: see `{found[2]}`." for name in found[3].split(", ")[1:]]
        else:
            lines.append(line)
    return "\n".join(lines + waiting)
