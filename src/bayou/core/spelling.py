"""Spelling of options in messages: flags for users of the command, keyword arguments for all others.

A message that names an option uses `option("label_above")`, which gives `--label-above` in a terminal and
`label_above=` in Python. The spelling depends on how the process was started, not on the thread that finds an error, so
it is global to the process: the command enters `as_flags` while it runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Options that have another name in the command.
_FLAGS = {"settings": "set", "learners": "learner"}
_as_flags = False


@contextmanager
def as_flags(flags: bool = True) -> Iterator[None]:
    """Spell options as flags inside the block (or as keywords, if `flags` is False)."""
    global _as_flags
    before, _as_flags = _as_flags, flags
    try:
        yield
    finally:
        _as_flags = before


def flags_are_spoken() -> bool:
    """Return whether options are spelled as flags, to pass the setting on to worker processes."""
    return _as_flags


def option(name: str, value: Any = None) -> str:
    """Return an option, with its value or values if given, as the reader of the message would write it.

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
    """Return a learner parameter with its value: `--set name=value`, or `settings={'name': value}`."""
    return option("settings", f"{name}={value}" if _as_flags else {name: value})
