"""Options of the commands: the parameters of a command, with help texts from its docstring, and checks of options."""

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
from bayou.core.docstrings import descriptions
from bayou.runs.options import recipe_options
from bayou.sources.formats.registry import FORMATS

ON_ERROR = ("raise", "skip")
# As in bayou.core.prediction.
HORIZONS = ("next", "later")

# Parameters that commands share.
Data = Annotated[
    list[str], typer.Argument(help="Files, globs, or - for standard input; .gz and .zst are decompressed.")
]
Threads = Annotated[int | None, typer.Option(min=0, help="Number of threads that read ahead; all cores by default.")]
Report = Annotated[
    Path | None, typer.Option(help="Write what was learned, with plots, to this .html file; it opens offline.")
]
Delay = Annotated[int, typer.Option(min=0, help="Delay of labels, in examples; all are learned in the end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress table.")]
# Type of a parameter that stands for several options, which `Annotated` lists; the command gets a dict of them.
Group = dict[str, Any]

# Further flags of options, besides their names.
_MORE_FLAGS = {"interactions": ["--cubic", "--quadratic", "-q"], "ranges": ["--groups"]}
# Options whose values may name several columns.
_COLUMNS = ("ignore", "numeric", "category", "text", "date")
_OPTIONS = recipe_options()


def of_recipe(name: str) -> Any:
    """Return the Typer option for an option of the recipe."""
    description = _OPTIONS[name][1]
    with spelling.as_flags():
        text = re.sub(r"{(\w+)}", lambda match: spelling.option(match[1]), description.text)
    text += " Separate several with commas." if name in _COLUMNS else ""
    flags = [f"--{name.replace('_', '-')}", *_MORE_FLAGS.get(name, [])]
    return typer.Option(*flags, min=description.low, max=description.high, help=text)


def parameter(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    """Return an option, for a `Group`."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


_FORMAT = parameter("format", Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")], "auto")


def _typed(name: str) -> Any:
    """Return the annotated type of an option of the recipe; any sequence in Python is a list of strings here."""
    kind = _OPTIONS[name][0]
    kind = list[str] | None if get_origin(get_args(kind)[0]) is abc.Sequence else kind
    return Annotated[kind, of_recipe(name)]


def recipe_without(*names: str) -> list[inspect.Parameter]:
    """Return the options of the recipe but these, after the format of the data."""
    return [_FORMAT, *(parameter(name, _typed(name)) for name in _OPTIONS if name not in names)]


Recipe = Annotated[Group, recipe_without()]
OnError = Annotated[str, typer.Option(help="skip: count and show bad lines. raise: stop there.")]
Reading = Annotated[Group, [parameter("on_error", OnError, "skip"), parameter("threads", Threads)]]


def _members(kind: Any) -> list[inspect.Parameter]:
    """Return the options that a parameter of this type stands for; none if it is an option itself."""
    metadata = getattr(kind, "__metadata__", (None,))[0]
    return metadata if isinstance(metadata, list) else []


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function that Typer makes a command of.

    Positional parameters are arguments and keyword-only ones options. Help texts are the entries under `Args:` at the
    end of the docstring. A parameter of a `Group` is expanded to its options.
    """
    help_texts, parameters, groups = descriptions(function), list[inspect.Parameter](), dict[str, list[str]]()
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if members := _members(parameter.annotation):
            groups[parameter.name] = [option.name for option in members]
        parameters += members or [parameter]

    @functools.wraps(function)
    def called(**arguments: Any) -> None:
        arguments |= {name: read(arguments[name]) for name, read in _READ.items() if arguments.get(name) is not None}
        for name, members in groups.items():
            arguments[name] = {option: arguments.pop(option) for option in members}
        function(**arguments)

    parameters = [_with_help(parameter, help_texts.get(parameter.name)) for parameter in parameters]
    called.__doc__ = (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]
    # Typer reads these instead of the function's own.
    called.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _with_help(parameter: inspect.Parameter, text: str | None) -> inspect.Parameter:
    """Return a parameter with Typer's description of it, which has this help if it has none of its own."""
    is_option, kind = parameter.kind is parameter.KEYWORD_ONLY, parameter.annotation
    if not hasattr(kind, "__metadata__"):
        kind = Annotated[kind, typer.Option() if is_option else typer.Argument()]
    (info,) = kind.__metadata__
    info.help = info.help or text
    return parameter.replace(annotation=kind)


# --- reading and checking options -------------------------------------------------------------------------------------


def columns(options: list[str] | None) -> list[str]:
    """Return names that were given one by one or separated by commas."""
    return [name.strip() for option in options or () for name in option.split(",") if name.strip()]


def _choice(option: str, choices: Collection[str], value: str) -> str:
    check_choice(option, value, choices)
    return value


def _crosses(options: list[str]) -> list[tuple[str, ...]]:
    pairs = []
    for option in options:
        names = [name.strip() for name in option.split(",")]
        if names in (["*"], ["auto"]):
            names = ["*", "*"]
        if len(names) not in (2, 3) or not all(names):
            raise BadUsage(f"--cross is {option!r}; expected two or three columns or namespaces, such as user,ad.")
        pairs.append(tuple(names))
    return pairs


def _ranges(options: list[str]) -> list[tuple[str, int, int]]:
    ranges = []
    for entry in columns(options):
        match = re.fullmatch(r"(?:(.+)=)?(\d{1,10})-(\d{1,10})", entry, re.ASCII)
        if match is None:
            raise BadUsage(f"--ranges has {entry!r}; expected a name, a first and a last feature, such as a=1-10.")
        ranges.append((match[1] or entry, int(match[2]), int(match[3])))
    return ranges


# Functions that turn the text of an option into what a recipe takes.
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_COLUMNS, columns),
    "decimal": functools.partial(_choice, "--decimal", ("point", "comma")),
    "slope": functools.partial(_choice, "--slope", ("rank", "raw")),
    "cross": _crosses,
    "ranges": _ranges,
}


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
        preposition = "in" if len(endings) == 1 else "in one of"
        raise BadUsage(f"{option} is {path}; its name must end {preposition} {', '.join(endings)}.")
