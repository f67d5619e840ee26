"""How messages spell options: as flags for who typed the command, as keywords for everyone else.

A sentence that names an option says `option("label_above")`: it is read as `--label-above` in a terminal and as
`label_above=` in Python. What is right depends on how the process was entered, not on the thread that finds something
wrong, so that it is a matter of the process: the command says `as_flags` for as long as it runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# What the command calls otherwise.
_FLAGS = {"settings": "set", "learners": "learner"}
_as_flags = False


@contextmanager
def as_flags(flags: bool = True) -> Iterator[None]:
    """Spell options as the command does while this lasts."""
    global _as_flags
    before, _as_flags = _as_flags, flags
    try:
        yield
    finally:
        _as_flags = before


def flags_are_spoken() -> bool:
    """Return whether options are spelled as flags: what a process that works for this one has to know."""
    return _as_flags


def option(name: str, value: Any = None) -> str:
    """Spell an option, alone or with a value (a list: several), as whoever reads the message would write it.

    >>> option("resume"), option("task", "regression"), option("bits", 12), option("positive", "NAME")
    ('resume=', "task='regression'", 'bits=12', 'positive=NAME')
    >>> with as_flags():
    ...     option("label_above"), option("task", "regression"), option("positive", "not yet")
    ('--label-above', '--task regression', "--positive 'not yet'")
    """
    if _as_flags:
        flag = "--" + _FLAGS.get(name, name).replace("_", "-")
        values = value if isinstance(value, list) else [value]
        return flag if value is None else " ".join(f"{flag} {shlex.quote(str(one))}" for one in values)
    stands_for_any = isinstance(value, str) and value.isupper() and value.isalpha()
    return f"{name}=" if value is None else f"{name}={value if stands_for_any else repr(value)}"


def setting(name: str, value: Any) -> str:
    """Spell a parameter of a learner that is set: `--set name=value`, or `settings={'name': value}`."""
    return option("settings", f"{name}={value}" if _as_flags else {name: value})
