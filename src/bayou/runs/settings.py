"""Parsing of learner (or simulator) parameters: a mapping, or texts of the form name=value, as for `--set`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bayou.core.errors import BadInput
from bayou.core.spelling import option


def parse(
    settings: Mapping[str, Any] | Sequence[str],
    target: Callable[..., Any],
    taken: Sequence[str] = (),
    extra_names: Sequence[str] = (),
    refused: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings as keyword arguments for `target`. Raise BadInput for unknown names.

    `taken` are parameters of `target` that cannot be set, `extra_names` additional valid names, and `refused` maps
    names that only other targets have to an error message.

    >>> parse(["a=1", "b=x,2"], lambda a, b: None)
    {'a': 1, 'b': ['x', 2]}
    """
    from bayou.core.checks import check_str_list, suggest  # which loads NumPy, and `bayou --help` does not

    names = [name for name in inspect.signature(target).parameters if name not in ("self", *taken)]
    names += extra_names
    parsed: dict[str, Any] = {}
    named = isinstance(settings, Mapping)
    for setting in check_str_list("settings", settings, "a mapping of names to values, or texts such as name=value"):
        name, equals, text = (setting, "=", "") if named else setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise BadInput(f"{option('settings', setting)}: expected name=value, such as {name}=1.")
        if refused and name in refused:
            raise BadInput(refused[name])
        if name not in names:
            near = suggest(name, names)
            raise BadInput(f"there is no parameter {name!r}; there are: {', '.join(names)}.{near}")
        parsed[name] = settings[setting] if isinstance(settings, Mapping) else value_of(text.strip())
    return parsed


def value_of(text: str) -> Any:
    """Parse a number, true, false, none, or a comma-separated list of values; return any other text unchanged."""
    if "," in text:
        return [value_of(entry.strip()) for entry in text.split(",")]
    literals = {"true": True, "false": False, "none": None, "yes": True, "no": False}
    if text.lower() in literals:
        return literals[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        try:
            return float(text)  # .5 and inf, which are not JSON
        except ValueError:
            return text
