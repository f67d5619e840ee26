"""Options that commands share, and checks of them. Those that come in groups are declared once: `with_groups`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bayou.cli.usage import BadUsage, usage
from bayou.sources.formats.registry import FORMATS

ON_ERROR = ("raise", "skip")
# As bayou.core.prediction has them.
HORIZONS = ("next", "later")

# Options that commands share, which learn from data.
Data = Annotated[
    list[str], typer.Argument(help="Files, globs, or - for standard input; .gz and .zst are decompressed.")
]
Bits = Annotated[int | None, typer.Option(min=1, max=31, help="2^bits weights; 22 if not given.")]
Format = Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")]
Threads = Annotated[int | None, typer.Option(min=0, help="Threads that read ahead; all cores if not given.")]
Report = Annotated[
    Path | None, typer.Option(help="Write what was learned, with plots, into this .html file; it opens offline.")
]
Delay = Annotated[int, typer.Option(min=0, help="How many examples late labels come; all are learned in the end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No running table.")]
# In a command's signature: where a group of options stands (`with_groups`). The command gets those that were given.
Group = dict[str, Any]

_RECIPE: dict[str, Any] = {
    "label": Annotated[str | None, typer.Option(help="The column to predict.")],
    "task": Annotated[
        str | None,
        typer.Option(help="binary, multiclass or regression; if not given, the labels decide, and it is said how."),
    ],
    "positive": Annotated[str | None, typer.Option(help="The label that counts as positive; all others are not.")],
    "label_above": Annotated[float | None, typer.Option(help="Labels above this number are positive.")],
    "weight": Annotated[str | None, typer.Option(help="The column with the examples' weights.")],
    "ignore": Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to leave out, separated by commas; of VW text, first letters of namespaces to leave out."
        ),
    ],
    "numeric": Annotated[list[str] | None, typer.Option(help="Columns to take as numbers, scaled.")],
    "category": Annotated[list[str] | None, typer.Option(help="Columns to take as names, numbers too.")],
    "date": Annotated[
        list[str] | None, typer.Option(help="Columns of dates, points in time, or seconds since 1970.")
    ],
    "text": Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to split into words, each word a feature. For titles, queries, reviews; cells of more than "
            "five words are split anyway."
        ),
    ],
    "ngrams": Annotated[
        int | None, typer.Option(min=1, max=8, help="Texts also give runs of up to so many words, such as free_entry.")
    ],
    "char_ngrams": Annotated[
        int | None,
        typer.Option(min=1, max=8, help="Texts also give runs of so many characters of each word; for names."),
    ],
    "bins": Annotated[int | None, typer.Option(min=0, help="Quantile bins for numbers; 20 if not given.")],
    "missing": Annotated[
        list[str] | None,
        typer.Option(
            help="What else says that a value is not there, such as -999, besides NA, n/a, NaN, null, none, -, ? and "
            'unknown; again for another; "" clears the usual ones.'
        ),
    ],
    "decimal": Annotated[
        str | None, typer.Option(help="point: numbers such as 1,400.5, $12 or 7%. comma: 1.400,5 or 12 €.")
    ],
    "cross": Annotated[
        list[str] | None,
        typer.Option(
            help="A,B: a weight for each pair of values of two columns or namespaces. For what matters only together, "
            "such as user,ad; A,* crosses A with all others, auto all with all; A,B,C crosses three."
        ),
    ],
    "interactions": Annotated[
        list[str] | None,
        typer.Option(
            "--interactions",
            "--cubic",
            "--quadratic",
            "-q",
            help="As Vowpal Wabbit has them: ab crosses all namespaces or columns whose names begin with a and with b; "
            "a colon is any letter.",
        ),
    ],
    "ranges": Annotated[
        list[str] | None,
        typer.Option(
            "--ranges",
            "--groups",
            help="svmlight: a=1-10,b=11-500 makes namespaces of features, for --cross, --pairs and -q; names may be "
            "left out.",
        ),
    ],
    "exact": Annotated[
        bool | None,
        typer.Option(
            "--exact",
            help="Number features as they come instead of hashing them, so that no two share a weight. For data with "
            "at most 2^bits features; more are refused.",
        ),
    ],
    "hash_all": Annotated[
        bool | None, typer.Option("--hash-all", help="VW: hash names that are numbers, too.")
    ],
    "negative_rate": Annotated[
        float | None,
        typer.Option(
            help="The share of negatives that was kept when the data were made, such as 0.1. Use it if most of them "
            "were thrown away: predictions are then those of the full data."
        ),
    ],
}  # fmt: skip


_READING: dict[str, Any] = {
    "on_error": Annotated[str, typer.Option(help="skip: count and show bad lines. raise: stop there.")],
    "threads": Threads,
}
_GROUPS = {"recipe": _RECIPE, "reading": _READING}
_DEFAULTS = {"on_error": "skip"}


def with_groups(*leave_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Have groups of options stand where a command's signature says `recipe: options.Group`, or `reading`."""

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
        # What typer looks at instead of the command itself.
        called.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _recipe(**given: Any) -> dict[str, Any]:
    """The parts of a recipe that were given, by the names of their options, as a recipe wants them."""
    for name in ("ignore", "numeric", "category", "text", "date"):
        given[name] = columns(given[name])
    if given["decimal"] is not None:
        check_choice("--decimal", given["decimal"], ("point", "comma"))
    given["cross"] = _crosses(given["cross"])
    given["ranges"] = _ranges(given["ranges"])
    return {name: value for name, value in given.items() if value is not None}


def columns(options: list[str] | None) -> list[str] | None:
    """Names given one by one, or separated by commas."""
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
    """One of some words."""
    if value not in choices:
        from bayou.core.checks import did_you_mean

        raise BadUsage(f"{option} is {value!r}; it must be one of {', '.join(choices)}.{did_you_mean(value, choices)}")


def check_outputs(outputs: Mapping[str, str | Path | None], *inputs: Any) -> None:
    """Say it before the work if a file can have no place, or would take that of another."""
    from bayou.runs import places

    with usage():
        places.check_outputs(outputs, *inputs)


def check_ending(option: str, path: str | Path | None, endings: Collection[str]) -> None:
    """A file's name says what is written into it."""
    if path is not None and not str(path).lower().endswith(tuple(endings)):
        which = "in" if len(endings) == 1 else "in one of"
        raise BadUsage(f"{option} is {path}; its name must end {which} {', '.join(endings)}.")
