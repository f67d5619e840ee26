"""`bayou info`: what is in a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli.terminal import output

if TYPE_CHECKING:
    from bayou.core.learner import Learner
    from bayou.core.recipe import Column, Recipe


def info(
    model: Annotated[Path, typer.Argument(help="The model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Show what is in a model file.

    The learner and its parameters, how it reads data, what it has seen, how large it is.

    Example:

        bayou info m.bayou
    """
    from bayou.core.extras import Extras
    from bayou.core.learner import load

    learner = load(model)
    Extras.of(learner)  # refuses a recipe that does not fit the weights
    with output.standard_output():
        if as_json:
            typer.echo(json.dumps(_plain(model, learner)))
        else:
            _show(_lines(model, learner))


def _plain(path: Path, learner: Learner) -> dict[str, Any]:
    """Everything, as JSON can say it."""
    import numpy as np

    parameters, extras = learner.parameters, learner.extras
    attached = extras.to_json()
    return {
        "file": str(path),
        "learner": learner.name,
        "parameters": {k: "array" if isinstance(v, np.ndarray) else v for k, v in parameters.items()},
        "examples": learner.examples,
        "negative_label": learner.negative_label,
        "touched": len(learner.touched),
        "intercept": _intercept(learner),
        "parts": learner.parts(),
        "recipe": attached.get("recipe"),
        "counters": attached.get("counters"),
        "unfinished": attached.get("unfinished"),
        "names": None if extras.names is None else len(extras.names),
        "merge": learner.record.merge,
        "bytes": path.stat().st_size,
        "memory": learner.nbytes,
    }


def _intercept(learner: Learner) -> dict[str, float] | None:
    if not learner.parameters["intercept"]:
        return None
    mean, variance = learner.intercept
    return {"mean": mean, "sd": variance**0.5} if learner.record.posterior else {"mean": mean}


def _lines(path: Path, learner: Learner) -> list[tuple[str, str]]:
    """The same in words: (what, how it is)."""
    from bayou.runs.memory import bytes_in_words

    plain = _plain(path, learner)
    size, memory = (bytes_in_words(plain[name]) for name in ("bytes", "memory"))
    lines = [
        ("model", f"{path}, {size}; up to {memory} in memory"),
        ("learner", f"{learner.name}: {learner.record.summary}"),
        ("weights", f"{learner.n_features:,}, of which {plain['touched']:,} were touched"),
    ]
    if plain["intercept"]:
        lines.append(("intercept", ", ".join(f"{name} {value:.5g}" for name, value in plain["intercept"].items())))
    shown = {name: value for name, value in plain["parameters"].items() if name not in ("n_features", "intercept")}
    lines += _titled("parameters", [f"{name} = {_value(value)}" for name, value in shown.items()])
    lines += _titled("seen", _counters(plain))
    lines += _titled("parts", [_part(part) for part in plain["parts"]])
    recipe = learner.extras.recipe
    if recipe is None:
        lines.append(("recipe", "none: the model was trained from Python; it can predict svmlight data"))
    else:
        lines += _titled("recipe", _recipe(recipe))
        lines += _titled("columns", [_column(column) for column in recipe.columns or ()])
    if plain["names"] is not None:
        lines.append(("names", f"{plain['names']:,} features have one"))
    return lines


def _titled(title: str, texts: list[str]) -> list[tuple[str, str]]:
    return [(title if k == 0 else "", text) for k, text in enumerate(texts)]


def _part(part: dict[str, Any]) -> str:
    """A name, then numbers in columns."""
    numbers = (f"{name} {value:8.5f}" for name, value in part.items() if name != "name")
    return f"{part['name']:<26}" + "  ".join(numbers)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counters(plain: dict[str, Any]) -> list[str]:
    said = [f"{plain['examples']:,} examples learned from"]
    counters = plain["counters"] or {}
    if counters.get("nonzeros") and counters.get("examples"):
        said.append(f"{counters['nonzeros'] / counters['examples']:.1f} features per example")
    for loss in ("log_loss", "squared_loss"):
        if counters.get(loss) is not None:
            told = f"{loss.replace('_', ' ')} {counters[loss]:.5f}"
            said.append(f"{told}, each example predicted before it was learned from")
    if counters.get("skipped"):
        said.append(f"{counters['skipped']:,} bad lines skipped")
    if counters.get("runs", 1) > 1:
        said.append(f"in {counters['runs']} runs")
    if plain["unfinished"]:
        said.append("the last run was interrupted; --resume goes on with it")
    return said


def _recipe(recipe: Recipe) -> list[str]:
    if recipe.kind == "svmlight":
        way = "indices are taken as they are, below" if recipe.exact else "features as numbered into"
    else:
        way = "features numbered as they came into" if recipe.exact else "features hashed into"
    said = [f"{recipe.kind} data, {way} 2^{recipe.bits} = {recipe.n_features:,}", _label(recipe)]
    if recipe.hash_all:
        said.append("names that are numbers are hashed, too")
    if recipe.weight is not None:
        said.append(f"weights from column {recipe.weight!r}")
    if recipe.cross:
        said.append("crosses of " + "; ".join(" and ".join(pair) for pair in recipe.cross))
    if recipe.negative_rate != 1.0:
        said.append(f"a share of {recipe.negative_rate:g} of the negatives was kept; predictions allow for that")
    return said


def _label(recipe: Recipe) -> str:
    where = "label" if recipe.label is None else f"label from column {recipe.label!r}"
    if recipe.numbers:
        return f"{where}, a number to be predicted"
    if recipe.positive is not None:
        return f"{where}, positive if it is {recipe.positive!r}"
    if recipe.label_above is not None:
        return f"{where}, positive above {recipe.label_above:g}"
    return f"{where}, 1 positive, -1 or 0 negative"


def _column(column: Column) -> str:
    text = f"{column.name}: {column.role}"
    if column.edges:
        text += f", {len(column.edges) + 1} bins cut from {column.edges[0]:g} to {column.edges[-1]:g}"
    if column.role == "numeric":
        text += f", (x - {column.centre:g}) / {column.scale:g}"
    return text


def _show(lines: list[tuple[str, str]]) -> None:
    width = max(len(what) for what, _ in lines) + 2
    for what, how in lines:
        typer.echo(what.ljust(width) + how)
