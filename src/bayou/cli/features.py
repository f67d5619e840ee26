"""`bayou features`: a model's largest weights, by name, or its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage
from bayou.core.printable import printable

if TYPE_CHECKING:
    import numpy as np

    from bayou.core.extras import Extras
    from bayou.core.learner import Learner
    from bayou.outputs.shown_weights import ShownWeights

INTERCEPT = "(intercept)"
ORDERS = {
    "mean": "the largest weights, whatever their sign",
    "z": "the surest not to be 0, mean over sd",
    "inclusion": "the most probably needed",
    "column": "columns by how much of the score they carry, each with its most telling values",
}
# How many values of a column are named on its line.
SHOWN = 3
VIEWS = {
    "model": "the weights that predict",
    "associated": "of a bank, what went with the labels so far, whether or not that is trusted to go on",
}


def features(
    model: Annotated[Path, typer.Argument(help="The model.")],
    top: Annotated[int, typer.Option(min=0, help="How many to show.")] = 50,
    by: Annotated[str, typer.Option(help=f"In which order: {'; '.join(map(': '.join, ORDERS.items()))}.")] = "mean",
    view: Annotated[str, typer.Option(help=f"{'; '.join(map(': '.join, VIEWS.items()))}.")] = "model",
    selected: Annotated[
        bool, typer.Option(help="All that the model selected (spike-slab, ftrl), and no others.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(help="A .csv file to write; - is CSV on standard output; .json, with --selected, a plain model."),
    ] = None,
) -> None:
    """Show a model's largest weights, by name.

    Of each weight the mean, the standard deviation, and how probable it is to matter. What was never seen in the data
    is not shown. Weights are changes of the log-odds (of a number: of its mean). Those of a column that every row has a
    value of are centred: 0 is the mean over the rows. The intercept is the score of the mean row.

    Example:

        bayou features m.bayou --top 20

        bayou features m.bayou --by column
    """
    options.check_choice("--by", by, ORDERS)
    options.check_choice("--view", view, VIEWS)
    plain = selected and out is not None and out.endswith(".json")
    if out is not None and out != "-" and not out.endswith(".csv") and not plain:
        raise BadUsage(f"--out is {out}; its name must end in .csv, or with --selected in .json.")
    options.check_outputs({"--out": out}, model)

    import numpy as np

    from bayou.core.extras import Extras
    from bayou.core.storage import load

    learner = load(model)
    extras = Extras.of(learner)
    touched = learner.touched
    if selected and not hasattr(learner, "selected"):
        raise BadUsage(f"{learner.name} models select no features; spike-slab and ftrl do.")
    if plain and out is not None:
        from bayou.outputs.plain_model import write_plain

        name_of = None if extras.names is None else extras.names.name_of
        write_plain(out, learner, name_of)
        output.say(f"{len(learner.selected):,} features are in {out}")  # type: ignore[attr-defined]
        return
    from bayou.core.uses import Uses
    from bayou.outputs.shown_weights import shown_weights

    # What was selected is a model of its own, and adds up as it is.
    shown = shown_weights(learner, view=view, uses=Uses() if selected else None)
    if by == "column":
        _columns(learner, shown, top, out)
    else:
        which = np.isin(touched, learner.selected) if selected else np.full(len(touched), True)  # type: ignore[attr-defined]
        top = int(which.sum()) if selected else top
        chosen, columns = _largest(learner, shown, np.flatnonzero(which), top, by)
        names = [shown.name(place) for place in chosen.tolist()]
        columns = _with_intercept(learner, shown, names, columns)
        rows = [[name, *(float(column[k]) for column in columns.values())] for k, name in enumerate(names)]
        _put(out, ["feature", *columns], rows)
    for sentence in _notes(learner, extras, shown, min(top, len(touched)), by, out):
        output.say(sentence)


def _columns(learner: Learner, shown: ShownWeights, top: int, out: str | None) -> None:
    """Columns, and beside each its most telling values: a few on a line for people, one on a line in a file."""
    columns = shown.columns()[:top]
    if not columns:
        why = (
            "its data have no columns"
            if shown.uses is not None
            else "it does not know how often features came: an earlier version wrote it, or it was trained from Python"
        )
        raise BadUsage(f"--by column needs a model trained from a table; of this one, {why}.")
    if out is None:
        rows = [
            [column.name, column.spread, column.features, ", ".join(
                f"{_value(shown.name(i), column.name)} {shown.mean[i]:+.2f}" for i in column.telling[:SHOWN].tolist()
            )]
            for column in columns
        ]  # fmt: skip
        _put(out, ["column", "spread", "values", "most telling"], rows)
        return
    rows = []
    for column in columns:
        for i in column.telling.tolist() or [None]:
            told = ["", "", "", ""] if i is None or shown.uses is None else [
                shown.name(i), float(shown.mean[i]), "" if shown.sd is None else float(shown.sd[i]),
                float(shown.uses.seen[i]),
            ]  # fmt: skip
            rows.append([column.name, column.spread, column.features, *told])
    _put(out, ["column", "spread", "values", "feature", "mean", "sd", "seen"], rows)


def _largest(
    learner: Learner, shown: ShownWeights, places: np.ndarray, top: int, by: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The places of features that come first in the order wanted, and their columns."""
    import numpy as np

    columns = {"mean": shown.mean} if shown.sd is None else {"mean": shown.mean, "sd": shown.sd}
    inclusion = getattr(learner, "inclusion", None)
    if inclusion is not None:
        columns["inclusion"] = np.asarray(inclusion, np.float64)[shown.features]
    needed = {"mean": "mean", "z": "sd", "inclusion": "inclusion"}[by]
    if needed not in columns:
        raise BadUsage(f"--by is {by}, but {learner.name} models have no {needed}; use --by mean.")
    key = columns["inclusion"] if by == "inclusion" else np.abs(columns["mean"])
    if by == "z":
        key = key / columns["sd"]
    first = places[np.argsort(-key[places], kind="stable")[:top]]
    return first, {name: column[first] for name, column in columns.items()}


def _with_intercept(
    learner: Learner, shown: ShownWeights, names: list[str], columns: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The intercept in a row of its own before all others, and corrected for negatives that were left out."""
    import numpy as np

    if not learner.parameters["intercept"]:
        return columns
    mean = shown.intercept + learner.score_rule.shift(learner.negative_rate)
    row = {"mean": mean, "sd": shown.intercept_sd, "inclusion": 1.0}
    names.insert(0, INTERCEPT)
    return {name: np.append(row[name], column) for name, column in columns.items()}


def _put(out: str | None, header: list[str], rows: list[list[Any]]) -> None:
    """A table for people, or CSV."""
    if out is not None:
        _write(out, header, rows)
        return
    names = [printable(str(row[0])) for row in [header, *rows]]
    width = max(map(len, names))
    told = bool(rows) and isinstance(rows[0][-1], str)  # the last column is words
    for name, (_, *cells) in zip(names, [header, *rows], strict=True):
        words = f"  {cells.pop()}" if told else ""
        output.tell(name.ljust(width) + "".join(f"{_cell(cell):>12}" for cell in cells) + words)


def _value(name: str, column: str) -> str:
    """A feature's name without that of its column."""
    if name == column:
        return "(slope)"
    return name.removeprefix(column).lstrip(" ^").removeprefix("=") or "(missing)"


def _cell(cell: Any) -> str:
    return f"{cell:.5f}" if isinstance(cell, float) else f"{cell}"


def _write(out: str, header: list[str], rows: list[list[Any]]) -> None:
    import csv
    import io

    from bayou.outputs.text import output as opened

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row])
    with opened(out) as file:
        file.write(text.getvalue().encode())


def _notes(learner: Learner, extras: Extras, shown: ShownWeights, top: int, by: str, out: str | None) -> list[str]:
    """How weights are to be read, how much of the model is not in the table, and how far names can be trusted."""
    import numpy as np

    from bayou.core.names import collision_rate

    touched = shown.features
    said = [f"{len(touched):,} of {learner.n_features:,} weights were touched"]
    if by == "column":
        said.append("spread: how far a column moves the score from row to row, as a standard deviation")
    else:
        said[0] += f"; {top:,} are shown"
    if shown.uses is not None and learner.parameters["intercept"] and by != "column":
        said.append(f"{INTERCEPT} is the score of the mean row{shown.centred_in_words}")
    if extras.names is not None:
        share = extras.names.share(np.abs(shown.mean), touched)
        said.append(f"{len(extras.names):,} features have a name; they hold {share:.1%} of the weight mass")
    if extras.required_recipe.kind != "svmlight" and not extras.required_recipe.exact:
        rate = collision_rate(len(touched), learner.n_features)
        said.append(f"about {rate:.2%} of the features share their weight with another; more --bits make that rarer")
    if out is not None and out != "-":
        said.append(f"they are in {out}")
    return said
