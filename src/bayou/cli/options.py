"""Options that commands share, and checks of them. Those that come in groups are declared once: `with_groups`."""

from __future__ import annotations

import functools
import inspect
import re
from collections import abc
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from bayou.cli.usage import BadUsage, usage
from bayou.core import spelling
from bayou.runs.options import recipe_options
from bayou.sources.formats.registry import FORMATS

ON_ERROR = ("raise", "skip")
# As in bayou.core.prediction.
HORIZONS = ("next", "later")

# Options that commands share, which learn from data.
Data = Annotated[
    list[str], typer.Argument(help="Files, globs, or - for standard input; .gz and .zst are decompressed.")
]
Format = Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")]
Threads = Annotated[int | None, typer.Option(min=0, help="Threads that read ahead; all cores if not given.")]
Report = Annotated[
    Path | None, typer.Option(help="Write what was learned, with plots, into this .html file; it opens offline.")
]
Delay = Annotated[int, typer.Option(min=0, help="How many examples late labels come; all are learned in the end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No running table.")]
# Placeholder for a group of options in a command's signature (`with_groups`). The command gets a dict of them.
Group = dict[str, Any]

# Further flags of options, besides their names.
_MORE_FLAGS = {"interactions": ["--cubic", "--quadratic", "-q"], "ranges": ["--groups"]}
# Options whose values may name several columns.
_COLUMNS = ("ignore", "numeric", "category", "text", "date")
_OPTIONS = recipe_options()


def of_recipe(name: str) -> Any:
    """Return the Typer option for an option of the recipe."""
    said = _OPTIONS[name][1]
    with spelling.as_flags():
        text = re.sub(r"{(\w+)}", lambda other: spelling.option(other[1]), said.text)
    text += " Several are separated by commas." if name in _COLUMNS else ""
    flags = [f"--{name.replace('_', '-')}", *_MORE_FLAGS.get(name, [])]
    return typer.Option(*flags, min=said.low, max=said.high, help=text)


def _typed(name: str) -> Any:
    """Return the annotated type of an option of the recipe; any sequence in Python is a list of strings here."""
    kind = _OPTIONS[name][0]
    kind = list[str] | None if get_origin(get_args(kind)[0]) is abc.Sequence else kind
    return Annotated[kind, of_recipe(name)]


_RECIPE = {name: _typed(name) for name in _OPTIONS}


_READING: dict[str, Any] = {
    "on_error": Annotated[str, typer.Option(help="skip: count and show bad lines. raise: stop there.")],
    "threads": Threads,
}
_GROUPS = {"recipe": _RECIPE, "reading": _READING}
_DEFAULTS = {"on_error": "skip"}


def with_groups(*leave_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Expand the parameters `recipe` and `reading` of a command, both `options.Group`, to their options."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        groups = {name: [option for option in group if option not in leave_out] for name, group in _GROUPS.items()}

        @functools.wraps(command)
        def called(**given: Any) -> None:
            recipe, reading = ({option: given.pop(option) for option in group} for group in groups.values())
            command(**given, recipe=_recipe(**recipe), reading=reading)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            for option in groups.get(parameter.name, ()):
                annotation, default = _GROUPS[parameter.name][option], _DEFAULTS.get(option)
                parameters.append(inspect.Parameter(option, parameter.kind, default=default, annotation=annotation))
            if parameter.name not in groups:
                parameters.append(parameter)
        # Typer reads these instead of the command's own.
        called.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _recipe(**given: Any) -> dict[str, Any]:
    """Return the given options of the recipe by name, converted to what a recipe takes."""
    for name in _COLUMNS:
        given[name] = columns(given[name])
    if given["decimal"] is not None:
        check_choice("--decimal", given["decimal"], ("point", "comma"))
    given["cross"] = _crosses(given["cross"])
    given["ranges"] = _ranges(given["ranges"])
    return {name: value for name, value in given.items() if value is not None}


def columns(options: list[str] | None) -> list[str] | None:
    """Return names that were given one by one or separated by commas."""
    if options is None:
        return None
    return [name.strip() for option in options for name in option.split(",") if name.strip()]


def _crosses(options: list[str] | None) -> list[tuple[str, ...]] | None:
    if options is None:
        return None
    pairs = []
    for option in options:
        names = [name.strip() for name in option.split(",")]
        if names in (["*"], ["auto"]):
            names = ["*", "*"]
        if len(names) not in (2, 3) or not all(names):
            raise BadUsage(f"--cross is {option!r}; expected two or three columns or namespaces, such as user,ad.")
        pairs.append(tuple(names))
    return pairs


def _ranges(options: list[str] | None) -> list[tuple[str, int, int]] | None:
    if options is None:
        return None
    found = []
    for part in columns(options) or ():
        match = re.fullmatch(r"(?:(.+)=)?(\d{1,10})-(\d{1,10})", part, re.ASCII)
        if match is None:
            raise BadUsage(f"--ranges has {part!r}; expected a name, a first and a last feature, such as a=1-10.")
        found.append((match[1] or part, int(match[2]), int(match[3])))
    return found


def check_choice(option: str, value: str, choices: Collection[str]) -> None:
    """Raise BadUsage if the value of an option is not one of its choices."""
    if value not in choices:
        from bayou.core.checks import suggest

        raise BadUsage(f"{option} is {value!r}; it must be one of {', '.join(choices)}.{suggest(value, choices)}")


def check_outputs(outputs: Mapping[str, str | Path | None], *inputs: Any) -> None:
    """Raise BadUsage if an output cannot be written, or would overwrite an input or another output."""
    from bayou.runs import output_paths

    with usage():
        output_paths.check_outputs(outputs, *inputs)


def check_ending(option: str, path: str | Path | None, endings: Collection[str]) -> None:
    """Raise BadUsage if a path does not end in one of the endings, which decide the format."""
    if path is not None and not str(path).lower().endswith(tuple(endings)):
        which = "in" if len(endings) == 1 else "in one of"
        raise BadUsage(f"{option} is {path}; its name must end {which} {', '.join(endings)}.")
