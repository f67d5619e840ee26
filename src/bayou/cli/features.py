"""`bayou features`: a model's largest weights, by name, or its columns. `outputs.feature_table` makes the table."""

from __future__ import annotations

from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage, usage
from bayou.core.printable import printable, shorten

if TYPE_CHECKING:
    import numpy as np

    from bayou.core.extras import Extras
    from bayou.core.learner import Learner
    from bayou.outputs.feature_table import FeatureTable

ORDERS = {
    "mean": "the largest weights, whatever their sign",
    "z": "the largest mean / sd",
    "inclusion": "the most probable to be needed",
    "column": "columns by how much of the score they carry, each with its most telling values",
}
# Number of values of a column named on its line.
MAX_SHOWN_VALUES = 3
SPREAD = "spread: how far a column moves the score from row to row, as a standard deviation"
VIEWS = {
    "model": "the weights that predict",
    "associated": "for a bank, what went with the labels so far, whether or not that is expected to last",
}


def features(
    model: Path,
    *,
    top: Annotated[int | None, typer.Option(min=0)] = None,
    by: Annotated[str, typer.Option(help=f"In which order: {'; '.join(map(': '.join, ORDERS.items()))}.")] = "mean",
    view: Annotated[str, typer.Option(help=f"{'; '.join(map(': '.join, VIEWS.items()))}.")] = "model",
    class_: Annotated[str | None, typer.Option("--class")] = None,
    selected: bool = False,
    pairs: Annotated[bool, typer.Option("--pairs")] = False,
    index: Annotated[bool, typer.Option("--index")] = False,
    out: str | None = None,
    posterior: str | None = None,
) -> None:
    """Show a model's largest weights, by name.

    For each weight: the mean, the standard deviation, and the probability that it matters. Features never seen in the
    data are not shown. Weights are changes of the log-odds (for a number: of its mean). Those of a column in which
    every row has a value are centred: 0 is the mean over the rows. The intercept is the score of the mean row. With
    several classes, each has its own weights: what sets it apart from the average class.

    Example:

        bayou features m.bayou --top 20

        bayou features m.bayou --by column

        bayou features wines.bayou --class riesling

        bayou features clicks.bayou --pairs

        bayou features m.bayou --posterior p.parquet

    Args:
        model: The model.
        top: Number to show; by default 50, or 5 for each of several classes.
        class_: With several classes, the one to show.
        selected: Show all that the model selected (spike-slab, ftrl), and no others.
        pairs: For a bank with pairs: show the pairs of features with the largest weights.
        index: Also show the number that each feature was hashed to, as Vowpal Wabbit does.
        out: A .csv or .json file to write; - is CSV on standard output. With --selected .json is a plain model.
        posterior: A .parquet file to write: names, means and covariance of the weights in a bank's head.
    """
    options.check_choice("--by", by, ORDERS)
    options.check_choice("--view", view, VIEWS)
    if out is not None and out != "-" and not out.endswith((".csv", ".json")):
        raise BadUsage(f"--out is {out}; its name must end in .csv or .json.")
    options.check_ending("--posterior", posterior, [".parquet", ".pq"])
    options.check_outputs({"--out": out, "--posterior": posterior}, model)
    if index and by == "column":
        raise BadUsage("--index is about features, and --by column shows columns; use one of them.")

    from bayou.core.extras import Extras
    from bayou.core.storage import load
    from bayou.outputs import feature_table as tables

    learner = load(model)
    extras = Extras.of(learner)  # refuses a recipe that does not fit the weights
    if posterior is not None:
        from bayou.runs.posterior import write_posterior

        with usage():
            n_weights = write_posterior(posterior, learner)
    if selected and out is not None and out.endswith(".json"):
        sentences = [_write_plain_model(learner, out)]
    else:
        with usage():
            table = tables.feature_table(
                learner,
                top=tables.MAX_FEATURES if top is None else top,
                by=by,
                view=view,
                per_class=tables.MAX_FEATURES_PER_CLASS if top is None else top,
                class_name=class_,
                max_classes=tables.MAX_CLASSES if out is None else None,
                selected=selected,
                pairs=pairs,
                index=index,
            )
        if out is None:
            _show(table)
        else:
            _write(out, table)
        sentences = [*_notes(learner, extras, table, by), *([] if out in (None, "-") else [f"they are in {out}"])]
    if posterior is not None:
        sentences.append(f"the joint posterior of {n_weights:,} weights is in {posterior}")
    for sentence in sentences:
        output.print_note(sentence)


def _write_plain_model(learner: Learner, out: str) -> str:
    """Write the selected features as a plain model."""
    from bayou.outputs.plain_model import selected_features, write_plain

    with usage():
        n_selected = len(selected_features(learner))
    names = learner.extras.names
    write_plain(out, learner, None if names is None else names.name_of)
    return f"{n_selected:,} features are in {out}"


def _show(table: FeatureTable) -> None:
    """Print a table as text: names to the left, then numbers, and for a column its strongest values."""
    header, rows = _one_line_per_column(table) if "column" in table.header else (table.header, table.rows)
    n_texts = min(2 if header[0] == "class" else 1, len(header))  # columns of names that come first
    lines = [[*(_display(f"{cell}") for cell in row[:n_texts]), *row[n_texts:]] for row in [header, *rows]]
    widths = [max(len(line[k]) for line in lines) for k in range(n_texts)]
    is_last_text = bool(rows) and isinstance(rows[0][-1], str)
    for line in lines:
        last = f"  {line.pop()}" if is_last_text else ""
        names = "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=False))
        output.print_result(names + "".join(f"{_cell(cell):>12}" for cell in line[n_texts:]) + last)


def _one_line_per_column(table: FeatureTable) -> tuple[list[str], list[list[Any]]]:
    """Return a row for each column, with its strongest values in the last cell."""
    name = table.header.index("column")
    feature, rows = name + 3, []
    for head, rows_of_column in groupby(table.rows, key=lambda row: row[:feature]):
        values = [
            f"{_display(_value(row[feature], head[name]))} {row[feature + 1]:+.2f}"
            for row in islice(rows_of_column, MAX_SHOWN_VALUES)
            if row[feature] is not None
        ]
        rows.append([*head, ", ".join(values)])
    return [*table.header[:feature], "most telling"], rows


def _display(name: str) -> str:
    return printable(shorten(name))


def _value(name: str, column: str) -> str:
    """Return a feature's name without that of its column."""
    if name == column:
        return "(slope)"
    return name.removeprefix(column).lstrip(" ^").removeprefix("=") or "(missing)"


def _cell(cell: Any) -> str:
    return "" if cell is None else f"{cell:.5f}" if isinstance(cell, float) else f"{cell}"


def _write(out: str, table: FeatureTable) -> None:
    """Write a table as JSON or CSV, numbers with nine digits; None is null or an empty cell."""
    from bayou.outputs.text import write_csv, write_json

    if out.endswith(".json"):
        write_json(out, [dict(zip(table.header, map(_json_cell, row), strict=True)) for row in table.rows])
    else:
        nine_digits = ([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in table.rows)
        write_csv(out, table.header, nine_digits)


def _json_cell(cell: Any) -> Any:
    """Return a number with nine digits; None for NaN, which JSON cannot express, and for an empty name."""
    if cell == "" or cell != cell:
        return None
    return float(f"{cell:.9g}") if isinstance(cell, float) else cell


def _notes(learner: Learner, extras: Extras, table: FeatureTable, by: str) -> list[str]:
    """Return notes on how to read the table, how much of the model it shows, and how reliable its names are."""
    from bayou.outputs.plain_model import INTERCEPT

    listed = f"{table.n_listed:,} are shown"
    if "pair" in table.header:
        return [f"{table.n_seen:,} pairs were met; {listed}"]
    strengths, spread = table.strengths, [SPREAD] * (by == "column")
    centred = "" if strengths is None else _centred(strengths.centred_columns)
    if not table.n_classes:
        assert strengths is not None
        touched, *names = _trust(learner, extras, table.n_seen, (strengths.features, strengths.mean))
        if spread:
            return [touched, *spread, *names]
        mean_row = strengths.moments is not None and learner.parameters["intercept"]
        score = [f"{INTERCEPT} is the score of the mean row{centred}"] * bool(mean_row)
        return [f"{touched}; {listed}", *score, *names]
    notes = [f"weights say what sets a class apart from the average one{centred}"] * (strengths is not None)
    if 1 < table.n_listed_classes < table.n_classes:
        notes.append(
            f"the commonest {table.n_listed_classes} of {table.n_classes:,} classes are shown; --class NAME shows "
            "another, --out all"
        )
    return [*notes, *spread, *_trust(learner, extras, table.n_seen)]


def _centred(columns: list[str]) -> str:
    """Return which columns are centred, as the end of a sentence."""
    if not columns:
        return ""
    subject = f"{len(columns)} columns are" if len(columns) > 1 else f"{columns[0]} are"
    return f"; weights of {subject} centred: 0 is their mean over the rows"


def _trust(
    learner: Learner, extras: Extras, n_touched: int, weights: tuple[np.ndarray, np.ndarray] | None = None
) -> list[str]:
    """Return how many weights there are, how many have a name, and how many share their weight."""
    from bayou.recipe.feature_names import collision_rate

    notes = [f"{n_touched:,} of {learner.n_features:,} weights were touched"]
    if extras.names is not None:
        named_share = ""
        if weights is not None:
            features, mean = weights
            named_share = f"; they hold {extras.names.named_fraction(abs(mean), features):.1%} of the weight mass"
        notes.append(f"{len(extras.names):,} features have a name{named_share}")
    if extras.required_recipe.kind != "svmlight" and not extras.required_recipe.exact:
        rate = collision_rate(n_touched, learner.n_features)
        notes.append(f"about {rate:.2%} of the features share their weight with another; more --bits make that rarer")
    return notes
