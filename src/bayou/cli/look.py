"""`bayou look`: the command. bayou.runs.look does the work, terminal.columns shows it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output

_Recipe = Annotated[options.Group, options.recipe_without("bits", "exact", "hash_all", "negative_rate")]


def look(
    data: options.Data,
    *,
    recipe: _Recipe,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Show how the columns of a table are read, without learning.

    From the first 10,000 rows: what each column is, the features it gives, its share of missing values, and some of
    its values; then anything that deserves a second look. Options of train that name columns override this.

    Example:

        bayou look clicks.csv --label clicked

    Args:
        as_json: Print it as one JSON object.
    """
    options.check_choice("--format", recipe["format"], options.FORMATS)
    with output.preparing():
        from bayou.cli.terminal import columns
        from bayou.runs.look import look as run

        columns_found = run(data, **recipe)
    if as_json:
        output.print_result(json.dumps(columns_found.as_dict()))
        return
    for line in columns.table(columns_found.columns):
        output.print_result(line)
    output.print_result(f"{columns_found.features:.1f} features a row")
    for sentence in columns_found.warnings:
        output.print_note(sentence)
