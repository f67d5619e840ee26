"""`bayou features`: a model's largest weights, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage
from bayou.core.printable import printable

if TYPE_CHECKING:
    import numpy as np

    from bayou.core.extras import Extras
    from bayou.core.learner import Learner

INTERCEPT = "(intercept)"
ORDERS = {
    "mean": "the largest weights, whatever their sign",
    "z": "the surest not to be 0, mean over sd",
    "inclusion": "the most probably needed",
}


def features(
    model: Annotated[Path, typer.Argument(help="The model.")],
    top: Annotated[int, typer.Option(min=0, help="How many to show.")] = 50,
    by: Annotated[str, typer.Option(help=f"In which order: {'; '.join(map(': '.join, ORDERS.items()))}.")] = "mean",
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
    is not shown.

    Example:

        bayou features m.bayou --top 20
    """
    options.check_choice("--by", by, ORDERS)
    plain = selected and out is not None and out.endswith(".json")
    if out is not None and out != "-" and not out.endswith(".csv") and not plain:
        raise BadUsage(f"--out is {out}; its name must end in .csv, or with --selected in .json.")
    options.check_outputs({"--out": out}, model)

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
        write_plain(out, learner, name_of, extras.required_recipe.negative_rate)
        output.say(f"{len(learner.selected):,} features are in {out}")  # type: ignore[attr-defined]
        return
    shown = learner.selected if selected else touched  # type: ignore[attr-defined]
    top = len(shown) if selected else top
    chosen, columns = _largest(learner, shown, top, by)
    known = extras.names.name_of(chosen) if extras.names is not None else [None] * len(chosen)
    names = [str(index) if name is None else name for index, name in zip(chosen.tolist(), known, strict=True)]
    columns = _with_intercept(learner, extras.required_recipe.negative_rate, names, columns)
    if out is None:
        _show([printable(name) for name in names], columns)
    else:
        _write(out, names, columns)
    for sentence in _notes(learner, extras, touched, top, out):
        output.say(sentence)


def _largest(learner: Learner, touched: np.ndarray, top: int, by: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The features that come first in the order wanted, and their columns."""
    import numpy as np

    weights = learner.weights_at(touched)
    columns = {"mean": weights.mean} if weights.sd is None else {"mean": weights.mean, "sd": weights.sd}
    inclusion = getattr(learner, "inclusion", None)
    if inclusion is not None:
        columns["inclusion"] = np.asarray(inclusion, np.float64)[touched]
    needed = {"mean": "mean", "z": "sd", "inclusion": "inclusion"}[by]
    if needed not in columns:
        raise BadUsage(f"--by is {by}, but {learner.name} models have no {needed}; use --by mean.")
    key = columns["inclusion"] if by == "inclusion" else np.abs(columns["mean"])
    if by == "z":
        key = key / columns["sd"]
    first = np.argsort(-key, kind="stable")[:top]
    return touched[first], {name: column[first] for name, column in columns.items()}


def _with_intercept(
    learner: Learner, negative_rate: float, names: list[str], columns: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The intercept in a row of its own before all others, and corrected for negatives that were left out."""
    import math

    import numpy as np

    if not learner.parameters["intercept"]:
        return columns
    mean, variance = learner.intercept
    mean += learner.score_rule.shift(negative_rate)
    row = {"mean": mean, "sd": math.sqrt(variance) if learner.record.posterior else math.nan, "inclusion": 1.0}
    names.insert(0, INTERCEPT)
    return {name: np.append(row[name], column) for name, column in columns.items()}


def _show(names: list[str], columns: dict[str, np.ndarray]) -> None:
    width = max(map(len, [*names, "feature"]))
    output.tell("feature".ljust(width) + "".join(f"{name:>12}" for name in columns))
    for row, name in enumerate(names):
        output.tell(name.ljust(width) + "".join(f"{column[row]:>12.5f}" for column in columns.values()))


def _write(out: str, names: list[str], columns: dict[str, np.ndarray]) -> None:
    import csv
    import io

    from bayou.outputs.text import output as opened

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["feature", *columns])
    for row, name in enumerate(names):
        writer.writerow([name, *(f"{column[row]:.9g}" for column in columns.values())])
    with opened(out) as file:
        file.write(text.getvalue().encode())


def _notes(learner: Learner, extras: Extras, touched: np.ndarray, top: int, out: str | None) -> list[str]:
    """How much of the model is not in the table, and how far names can be trusted."""
    import numpy as np

    from bayou.core.names import collision_rate

    said = [f"{len(touched):,} of {learner.n_features:,} weights were touched; {min(top, len(touched)):,} are shown"]
    if extras.names is not None:
        share = extras.names.share(np.abs(learner.weights_at(touched).mean), touched)
        said.append(f"{len(extras.names):,} features have a name; they hold {share:.1%} of the weight mass")
    if extras.required_recipe.kind != "svmlight" and not extras.required_recipe.exact:
        rate = collision_rate(len(touched), learner.n_features)
        said.append(f"about {rate:.2%} of the features share their weight with another; more --bits make that rarer")
    if out is not None and out != "-":
        said.append(f"they are in {out}")
    return said
