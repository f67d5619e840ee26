"""Decorator of estimators: makes a dataclass with keyword parameters and completes its docstring.

A class describes what is specific to it. Other parameters are taken from the nearest base class that describes a
parameter of that name: `OnlineEstimator` describes those that several learners have, such as the prior. So `help()`
and the site show a complete list, and each text is written in one place.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from typing import TypeVar, dataclass_transform

from bayou.core.docstrings import entries

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Make an estimator class a dataclass, and complete the list of parameters in its docstring."""
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    entries_by_name: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        entries_by_name |= entries(inspect.cleandoc(base.__doc__ or ""))
    parameters = [parameter.name for parameter in fields(cls) if parameter.init]  # type: ignore[arg-type]
    own_names = [name for name in cls.__annotations__ if name in parameters]
    listed = [entries_by_name[name] for name in dict.fromkeys(own_names + parameters) if entries_by_name.get(name)]
    head, mark, remainder = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")
    if mark:
        cls.__doc__ = "\n\n".join([head + mark + "\n".join(listed), *remainder.split("\n\n", 1)[1:]])
    return cls
