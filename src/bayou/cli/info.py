"""`bayou info`: what is in a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli.terminal import output

if TYPE_CHECKING:
    from bayou.core.learner import Learner


def info(
    model: Path,
    *,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Show what is in a model file.

    The learner and its parameters, how it reads data, what it has seen, how large it is.

    Example:

        bayou info m.bayou

    Args:
        model: The model.
        as_json: Print it as one JSON object.
    """
    from bayou.core.extras import Extras
    from bayou.core.storage import load

    learner = load(model)
    Extras.of(learner)  # refuses a recipe that does not fit the weights
    if as_json:
        output.print_result(json.dumps(_plain(model, learner)))
    else:
        _show(_lines(model, learner))


def _plain(path: Path, learner: Learner) -> dict[str, Any]:
    """Return everything there is to show, as a JSON object."""
    import numpy as np

    from bayou.outputs.group_priors import group_priors

    parameters, extras = learner.parameters, learner.extras
    attached, later_loss = extras.to_json(), learner.later_loss()
    return {
        "file": str(path),
        "learner": learner.name,
        "parameters": {k: "array" if isinstance(v, np.ndarray) else v for k, v in parameters.items()},
        "examples": learner.examples,
        "negative_label": learner.negative_label,
        "touched": len(learner.touched),
        "intercept": _intercept(learner),
        "classes": _classes(learner),
        "parts": learner.parts(),
        "priors": [prior._asdict() for prior in group_priors(learner)],
        "later_loss": None if later_loss is None else later_loss.as_dict(),
        "recipe": attached.get("recipe"),
        "counters": attached.get("counters"),
        "unfinished": attached.get("unfinished"),
        "names": None if extras.names is None else len(extras.names),
        "merge": learner.record.merge,
        "bytes": path.stat().st_size,
        "memory": learner.nbytes,
    }


def _intercept(learner: Learner) -> dict[str, float] | None:
    if not learner.parameters["intercept"] or learner.record.task == "multiclass":  # each class has its own
        return None
    mean, variance = learner.intercept
    return {"mean": mean, "sd": variance**0.5} if learner.record.posterior else {"mean": mean}


def _classes(learner: Any) -> list[dict[str, Any]] | None:
    """Return the classes with their numbers of examples, the commonest first; None unless multiclass."""
    if learner.record.task != "multiclass":
        return None
    counts = zip(learner.class_names, learner.counts.tolist(), strict=True)
    return [{"class": name, "examples": examples} for name, examples in sorted(counts, key=lambda pair: -pair[1])]


def _lines(path: Path, learner: Learner) -> list[tuple[str, str]]:
    """Return everything there is to show in words, as (name, description)."""
    from bayou.cli.terminal import model as words
    from bayou.core.memory import bytes_in_words
    from bayou.outputs.group_priors import GroupPrior

    plain = _plain(path, learner)
    size, memory = (bytes_in_words(plain[name]) for name in ("bytes", "memory"))
    lines = [
        ("model", f"{path}, {size}; up to {memory} in memory"),
        ("learner", f"{learner.name}: {learner.record.summary}"),
        ("weights", f"{learner.n_features:,}, of which {plain['touched']:,} were touched"),
    ]
    if plain["classes"] is not None:
        lines[-1] = ("weights", f"{lines[-1][1]}, in each of {len(plain['classes']):,} classes")
        lines += _titled("classes", words.classes(plain["classes"]))
    if plain["intercept"]:
        lines.append(("intercept", ", ".join(f"{name} {value:.5g}" for name, value in plain["intercept"].items())))
    parameters = {name: value for name, value in plain["parameters"].items() if name not in ("n_features", "intercept")}
    lines += _titled("parameters", [f"{name} = {words.value_in_words(value)}" for name, value in parameters.items()])
    lines += _titled("seen", words.seen(plain))
    lines += _titled("parts", words.parts_in_words(plain["parts"]))
    lines += _titled("priors", words.priors_in_words([GroupPrior(**prior) for prior in plain["priors"]]))
    recipe = learner.extras.recipe
    if recipe is None:
        lines.append(("recipe", "none: the model was trained from Python; it can predict svmlight data"))
    else:
        lines += _titled("recipe", words.reading(recipe))
        lines += _titled("columns", [words.column_in_words(column) for column in recipe.columns or ()])
    if plain["names"] is not None:
        lines.append(("names", f"{plain['names']:,} features have one"))
    return lines


def _titled(title: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(title if k == 0 else "", text) for k, text in enumerate(lines)]


def _show(lines: list[tuple[str, str]]) -> None:
    width = max(len(title) for title, _ in lines) + 2
    for title, text in lines:
        output.print_result(title.ljust(width) + text)
