"""Decorator of estimators: makes a dataclass with keyword parameters and completes its docstring.

A class describes what is specific to it. Other parameters are taken from the nearest base class that describes a
parameter of that name: `OnlineEstimator` describes those that several learners have, such as the prior. So `help()`
and the site show a complete list, and each text is written in one place.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

# An entry of a list: names, and the more indented lines below.
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): .*(?:\n {5,}.*)*", re.MULTILINE)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Make an estimator class a dataclass, and complete the list of parameters in its docstring."""
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        texts |= entries(inspect.cleandoc(base.__doc__ or ""))
    parameters = [one.name for one in fields(cls) if one.init]  # type: ignore[arg-type]
    own = [name for name in cls.__annotations__ if name in parameters]
    listed = [texts[name] for name in dict.fromkeys(own + parameters) if texts.get(name)]
    head, mark, rest = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")
    if mark:
        cls.__doc__ = "\n\n".join([head + mark + "\n".join(listed), *rest.split("\n\n", 1)[1:]])
    return cls


def entries(text: str) -> dict[str, str]:
    """Return the entries of the lists in a docstring by name; if an entry has several names, the first has the text.

    >>> entries("Args:\\n    a, b: two of\\n        them.\\n    c: one.")
    {'a': '    a, b: two of\\n        them.', 'b': '', 'c': '    c: one.'}
    """
    found: dict[str, str] = {}
    for match in _ENTRY.finditer(text):
        first, *others = match[1].split(", ")
        found |= {first: match[0], **dict.fromkeys(others, "")}
    return found
