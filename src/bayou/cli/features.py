"""`bayou features`: a model's largest weights, by name, or its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage
from bayou.core.printable import printable, shorten

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
# How many weights are shown, and of several classes of each, of so many at most.
TOP, TOP_OF_EACH, CLASSES = 50, 5, 20
# How many values of a column are named on its line.
SHOWN = 3
SPREAD = "spread: how far a column moves the score from row to row, as a standard deviation"
VIEWS = {
    "model": "the weights that predict",
    "associated": "of a bank, what went with the labels so far, whether or not that is trusted to go on",
}


def features(
    model: Annotated[Path, typer.Argument(help="The model.")],
    top: Annotated[
        int | None,
        typer.Option(min=0, help=f"How many to show; {TOP} if not given, of several classes {TOP_OF_EACH} each."),
    ] = None,
    by: Annotated[str, typer.Option(help=f"In which order: {'; '.join(map(': '.join, ORDERS.items()))}.")] = "mean",
    view: Annotated[str, typer.Option(help=f"{'; '.join(map(': '.join, VIEWS.items()))}.")] = "model",
    class_: Annotated[str | None, typer.Option("--class", help="Of several classes, one to show.")] = None,
    selected: Annotated[
        bool, typer.Option(help="All that the model selected (spike-slab, ftrl), and no others.")
    ] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Of a bank with pairs: the pairs of features with the largest weights.")
    ] = False,
    index: Annotated[
        bool, typer.Option("--index", help="Also the number that each feature was hashed to, as Vowpal Wabbit has it.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            help="A .csv or .json file to write; - is CSV on standard output. With --selected .json is a plain model."
        ),
    ] = None,
) -> None:
    """Show a model's largest weights, by name.

    Of each weight the mean, the standard deviation, and how probable it is to matter. What was never seen in the data
    is not shown. Weights are changes of the log-odds (of a number: of its mean). Those of a column that every row has a
    value of are centred: 0 is the mean over the rows. The intercept is the score of the mean row. Of several classes,
    each has its own weights: what sets it apart from the average class.

    Example:

        bayou features m.bayou --top 20

        bayou features m.bayou --by column

        bayou features wines.bayou --class riesling

        bayou features clicks.bayou --pairs
    """
    options.check_choice("--by", by, ORDERS)
    options.check_choice("--view", view, VIEWS)
    plain = selected and out is not None and out.endswith(".json")
    if out is not None and out != "-" and not out.endswith((".csv", ".json")):
        raise BadUsage(f"--out is {out}; its name must end in .csv or .json.")
    options.check_outputs({"--out": out}, model)
    if index and by == "column":
        raise BadUsage("--index is about features, and --by column shows columns; use one of them.")

    from bayou.core.extras import Extras
    from bayou.core.storage import load

    learner = load(model)
    extras = Extras.of(learner)
    if selected and not hasattr(learner, "selected"):
        raise BadUsage(f"{learner.name} models select no features; spike-slab and ftrl do.")
    if plain and out is not None:
        from bayou.outputs.plain_model import write_plain

        name_of = None if extras.names is None else extras.names.name_of
        write_plain(out, learner, name_of)
        output.say(f"{len(learner.selected):,} features are in {out}")  # type: ignore[attr-defined]
        return
    if pairs:
        notes = _pairs(learner, by, TOP if top is None else top, out)
    elif learner.record.task == "multiclass":
        notes = _classes(learner, extras, view, by, top, class_, index, out)
    else:
        notes = _one(learner, extras, view, by, top, class_, selected, index, out)
    for sentence in notes:
        output.say(sentence)


def _one(
    learner: Learner,
    extras: Extras,
    view: str,
    by: str,
    top: int | None,
    class_: str | None,
    selected: bool,
    index: bool,
    out: str | None,
) -> list[str]:
    """The weights of a learner that has one of each feature; what there is to say of them."""
    from bayou.outputs.shown_weights import shown_weights
    from bayou.recipe.feature_counts import Uses

    if class_ is not None:
        raise BadUsage(f"--class is {class_}, but this is a {learner.name} model, which does not tell several apart.")
    # What was selected is a model of its own, and adds up as it is.
    shown = shown_weights(learner, view=view, uses=Uses() if selected else None)
    chosen = learner.selected if selected else None  # type: ignore[attr-defined]
    top = TOP if top is None else top
    header, rows = _table(learner, shown, by, None if selected else top, out, chosen, index)
    _put(out, header, rows)
    return _notes(learner, extras, shown, by, len(rows) - bool(learner.parameters["intercept"]), out)


def _pairs(learner: Learner, by: str, top: int, out: str | None) -> list[str]:
    """The weights of pairs; what there is to say of them."""
    from bayou.outputs.shown_pairs import has_pairs, shown_pairs

    if by not in ("mean", "z"):
        raise BadUsage(f"--by is {by}, but pairs have a mean and an sd; use --by mean or --by z.")
    if not has_pairs(learner):
        dropped = learner.parameters.get("pairs") is not None
        why = "its lane did not pay and was dropped" if dropped else "--pairs and --cross of bayou train make some"
        raise BadUsage(f"the model has no pairs to show: {why}.")
    shown = shown_pairs(learner)
    rows = [[shown.name(k), float(shown.mean[k]), float(shown.sd[k])] for k in shown.largest(top, by)]
    _put(out, ["pair", "mean", "sd"], rows)
    said = [f"{len(shown.mean):,} pairs were met; {len(rows):,} are shown"]
    return said if out in (None, "-") else [*said, f"they are in {out}"]


def _classes(
    learner: Any,
    extras: Extras,
    view: str,
    by: str,
    top: int | None,
    class_: str | None,
    index: bool,
    out: str | None,
) -> list[str]:
    """The weights of several classes, one after another; what there is to say of them."""
    from bayou.outputs.shown_classes import ShownClasses

    names, counts = learner.class_names, learner.counts
    if class_ is not None and class_ not in names:
        from bayou.core.checks import did_you_mean

        some = ", ".join(map(_shown, sorted(names, key=_in_order)[:CLASSES])) + " and more" * (len(names) > CLASSES)
        raise BadUsage(f"--class is {class_}, but the model's classes are {some}.{did_you_mean(class_, names)}")
    numbers = list(range(len(names))) if class_ is None else [names.index(class_)]
    if len(numbers) > CLASSES and out is None:
        numbers = sorted(numbers, key=lambda k: -counts[k])[:CLASSES]
    if top is None:
        top = TOP if class_ is not None else TOP_OF_EACH
    shown, header, rows = ShownClasses(learner, view=view), ["class"], []
    for k in sorted(numbers, key=lambda k: _in_order(names[k])):
        one = shown.of(k)
        columns, own = _table(learner, one, by, top, out, None, index)
        header = ["class", *columns]
        rows += [[names[k], *row] for row in own]
    _put(out, header, rows)
    said = [f"weights say what sets a class apart from the average one{one.centred_in_words}"] if numbers else []
    if len(numbers) < len(names) and class_ is None:
        said.append(
            f"the commonest {len(numbers)} of {len(names):,} classes are shown; --class NAME shows another, --out all"
        )
    if by == "column":
        said.append(SPREAD)
    return [*said, *_kept(learner, extras, shown.features, out)]


def _in_order(name: str) -> tuple[float, str]:
    """Numbers by size, before all else."""
    try:
        return float(name), name
    except ValueError:
        return float("inf"), name


def _table(
    learner: Learner, shown: ShownWeights, by: str, top: int | None, out: str | None, chosen: Any, index: bool
) -> tuple[list[str], list[list[Any]]]:
    """A header, and the rows that come first in the order wanted; all of those `chosen` where top is None."""
    import numpy as np

    if by == "column":
        return _columns(shown, top, out)
    places = np.arange(len(shown.features)) if chosen is None else np.flatnonzero(np.isin(shown.features, chosen))
    largest, columns = _largest(learner, shown, places, len(places) if top is None else top, by)
    names = [shown.name(place) for place in largest.tolist()]
    columns = _with_intercept(learner, shown, names, columns)
    rows = [[name, *(float(column[k]) for column in columns.values())] for k, name in enumerate(names)]
    if not index:
        return ["feature", *columns], rows
    numbers = ["" for _ in range(len(names) - len(largest))] + shown.features[largest].tolist()
    return ["feature", "index", *columns], [
        [name, number, *others] for number, (name, *others) in zip(numbers, rows, strict=True)
    ]


def _columns(shown: ShownWeights, top: int | None, out: str | None) -> tuple[list[str], list[list[Any]]]:
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
                f"{_shown(_value(shown.name(i), column.name))} {shown.mean[i]:+.2f}"
                for i in column.telling[:SHOWN].tolist()
            )]
            for column in columns
        ]  # fmt: skip
        return ["column", "spread", "values", "most telling"], rows
    rows = []
    for column in columns:
        for i in column.telling.tolist() or [None]:
            told = ["", "", "", ""] if i is None or shown.uses is None else [
                shown.name(i), float(shown.mean[i]), "" if shown.sd is None else float(shown.sd[i]),
                float(shown.uses.seen[i]),
            ]  # fmt: skip
            rows.append([column.name, column.spread, column.features, *told])
    return ["column", "spread", "values", "feature", "mean", "sd", "seen"], rows


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
    first = places[_highest(key[places], top)]
    return first, {name: column[first] for name, column in columns.items()}


def _highest(key: np.ndarray, top: int) -> np.ndarray:
    """Where the highest stand, in order, the first of equal ones first: only those in question are sorted."""
    import numpy as np

    last, key = len(key) - top, np.where(np.isnan(key), -np.inf, key)
    some = np.flatnonzero(key >= np.partition(key, last)[last]) if 0 < last < len(key) else np.arange(len(key))
    return some[np.argsort(-key[some], kind="stable")[:top]]


def _with_intercept(
    learner: Learner, shown: ShownWeights, names: list[str], columns: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The intercept in a row of its own before all others, and corrected for negatives that were left out."""
    import numpy as np

    if not learner.parameters["intercept"]:
        return columns
    mean = shown.intercept
    if learner.record.task != "multiclass":
        mean += learner.score_rule.shift(learner.negative_rate)
    row = {"mean": mean, "sd": shown.intercept_sd, "inclusion": 1.0}
    names.insert(0, INTERCEPT)
    return {name: np.append(row[name], column) for name, column in columns.items()}


def _put(out: str | None, header: list[str], rows: list[list[Any]]) -> None:
    """A table for people, or CSV, or JSON."""
    if out is not None:
        _write(out, header, rows)
        return
    texts = 2 if header[0] == "class" else 1  # columns of words that come first
    lines: list[list[Any]] = [
        [
            *(_shown(f"{cell}") for cell in row[:texts]),
            *(cell if isinstance(cell, float) else f"{cell}" for cell in row[texts:]),
        ]
        for row in [header, *rows]
    ]
    widths = [max(len(str(line[k])) for line in lines) for k in range(texts)]
    told = bool(rows) and isinstance(rows[0][-1], str)  # the last column is words
    for line in lines:
        words = f"  {line.pop()}" if told else ""
        first = "  ".join(str(text).ljust(width) for text, width in zip(line, widths, strict=False))
        output.tell(first + "".join(f"{_cell(cell):>12}" for cell in line[texts:]) + words)


def _shown(name: str) -> str:
    return printable(shorten(name))


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
    import json

    from bayou.outputs.text import output as opened

    cells = [[float(f"{cell:.9g}") if isinstance(cell, float) else cell for cell in row] for row in rows]
    text = io.StringIO()
    if out.endswith(".json"):
        objects = [dict(zip(header, map(_or_null, row), strict=True)) for row in cells]
        json.dump(objects, text, indent=1, ensure_ascii=False)
        text.write("\n")
    else:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        for row in cells:
            writer.writerow([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row])
    with opened(out) as file:
        file.write(text.getvalue().encode())


def _or_null(cell: Any) -> Any:
    """What JSON has no word for, and cells without anything, as null."""
    return None if cell == "" or cell != cell else cell


def _notes(learner: Learner, extras: Extras, shown: ShownWeights, by: str, listed: int, out: str | None) -> list[str]:
    """How weights are to be read, how much of the model is not in the table, and how far names can be trusted."""
    said, *more = _kept(learner, extras, shown.features, out, shown.mean)
    if by == "column":
        return [said, SPREAD, *more]
    said += f"; {listed:,} are shown"
    if shown.uses is not None and learner.parameters["intercept"]:
        more.insert(0, f"{INTERCEPT} is the score of the mean row{shown.centred_in_words}")
    return [said, *more]


def _kept(learner: Learner, extras: Extras, touched: np.ndarray, out: str | None, mean: Any = None) -> list[str]:
    """How many weights there are, how far names can be trusted, and where the table is."""
    import numpy as np

    from bayou.recipe.feature_names import collision_rate

    said = [f"{len(touched):,} of {learner.n_features:,} weights were touched"]
    if extras.names is not None:
        share = (
            "" if mean is None else f"; they hold {extras.names.share(np.abs(mean), touched):.1%} of the weight mass"
        )
        said.append(f"{len(extras.names):,} features have a name{share}")
    if extras.required_recipe.kind != "svmlight" and not extras.required_recipe.exact:
        rate = collision_rate(len(touched), learner.n_features)
        said.append(f"about {rate:.2%} of the features share their weight with another; more --bits make that rarer")
    if out is not None and out != "-":
        said.append(f"they are in {out}")
    return said
