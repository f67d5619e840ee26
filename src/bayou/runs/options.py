"""What runs can be told: the options that make a recipe, and places to write to, checked before the work."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from bayou.core.errors import BadInput

# Data as runs take them: a path or glob, several, "-"; a table (pandas, polars, Arrow, whatever has
# `__arrow_c_stream__`); or an iterable of tables, which are taken for the parts of one.
Data = Any


class RecipeOptions(TypedDict, total=False):
    """How a raw row becomes an example, by the names of `bayou.sources.Recipe`; what is not given has its default."""

    bits: int | None  # 2^bits weights
    label: str | None  # the column to predict
    positive: str | None  # the label that counts as positive
    label_above: float | None  # labels above this number are positive
    weight: str | None  # the column with the examples' weights
    ignore: Sequence[str] | None  # columns to leave out
    numeric: Sequence[str] | None  # columns to take as numbers, scaled
    category: Sequence[str] | None  # columns to take as names, numbers too
    text: Sequence[str] | None  # columns to take as bags of words
    bins: int | None  # quantile bins for numbers
    cross: Sequence[tuple[str, str]] | None  # pairs of columns or namespaces
    exact: bool | None  # number features as they come; hash nothing
    hash_all: bool | None  # VW: hash names that are numbers, too
    negative_rate: float | None  # the share of negatives that were kept in the data


def recipe_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    for name in given:
        if name not in RecipeOptions.__annotations__:
            from bayou.core.checks import did_you_mean

            near = did_you_mean(name, RecipeOptions.__annotations__)
            raise BadInput(f"there is no option {name!r}; see help(bayou.train).{near}")
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Note:
    """Something that a run has to say; a detail is what `--quiet` leaves out."""

    text: str
    detail: bool = False


def check_place(option: str, path: str | os.PathLike[str] | None) -> None:
    """Say it before the work if a file can have no place."""
    if path is None or str(path) == "-":
        return
    here = Path(os.path.realpath(path))  # the file a link points to
    if here.is_dir():
        raise BadInput(f"{option} is {path}, which is a folder; no file can be written there. Name a file in it.")
    if not here.parent.is_dir():
        folder = Path(path).parent
        why = (
            f"{folder} is a file; choose another" if folder.exists() else f"there is no folder {folder}; make it first"
        )
        raise BadInput(f"{option} is {path}, but {why}.")
    if here.exists() and not here.is_file():
        return  # a pipe or a device, which is written to as it is
    try:  # files are written under another name in their folder; what counts is whether that can be made
        tempfile.TemporaryFile(dir=here.parent).close()
    except OSError as error:
        raise BadInput(
            f"{option} is {path}; no file can be written there ({error.strerror}). Choose another folder."
        ) from None


def check_report(path: str | os.PathLike[str] | None) -> None:
    """A report is a page; any other name is rather that of some data."""
    if path is not None and Path(path).suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"--report is {path}; its name must end in .html.")
    check_place("--report", path)


def names_of(data: Data) -> list[str]:
    """The names of files as they were given; none of a table in memory."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and all(isinstance(name, str | os.PathLike) for name in data):
        return [os.fspath(name) for name in data]
    return []
