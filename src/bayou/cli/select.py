"""`bayou select`: the command. bayou.runs.select does the work, plots.select draws it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage

if TYPE_CHECKING:
    from bayou.runs.select import Selection

_Recipe = Annotated[options.Group, options.recipe_without("hash_all", "negative_rate")]


def select(
    data: options.Data,
    *,
    sizes: str = "30,100,300,1000",
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    recipe: _Recipe,
    holdout: Annotated[float, typer.Option(min=0.001, max=0.9)] = 0.1,
    reading: options.Reading,
    out: str | None = None,
    picture: Path | None = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Select the features that matter, for models of several sizes.

    Spike-and-slab learners that expect ever fewer features learn side by side in a single pass. For each size, the one
    that selected that many features or a few more is cut to its most probable ones and tested on held-out examples.

    Example:

        bayou select clicks.csv --label clicked --sizes 10,30 --out features.csv

    Args:
        sizes: Numbers of features that a model may have, separated by commas.
        set_: Parameter of spike-slab, as name=value.
        holdout: Share of the examples to test on.
        out: A .csv file for the features of every size; - is standard output.
        picture: A .png file for the path: sizes, AUC, log loss.
    """
    requested_sizes = _sizes(sizes)
    if out != "-":
        options.check_ending("--out", out, [".csv"])
    options.check_ending("--picture", picture, [".png"])
    if as_json and out == "-":
        raise BadUsage("--json and --out - both write to standard output; use one of them.")
    options.check_outputs({"--out": out, "--picture": picture}, data)
    with output.preparing():
        from bayou.runs.select import SelectionRun

        selecting = SelectionRun(
            data,
            requested_sizes,
            settings=set_ or [],
            holdout=holdout,
            on_note=output.say_note,
            **recipe,
            **reading,
        )
    with output.progress(selecting.source.bytes_total, "bytes", is_shown=not quiet) as progress:
        selection = selecting.run(progress)
    if as_json:
        output.print_result(json.dumps(selection.as_dict()))
    elif out != "-":
        _show(selection)
    if out is not None:
        _write_features(selection, out)
    if picture is not None:
        from bayou.cli.plots.select import draw

        draw(selection, picture)
    for sentence in selection.notes:
        output.print_note(sentence)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(entry) for entry in text.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise BadUsage(f"--sizes is {text!r}; expected whole numbers from 1 on with commas, such as 30,100,300.")
    return sorted(set(sizes))


def _show(selection: Selection) -> None:
    output.print_result(f"{'size':>8}{'log loss':>12}{'AUC':>10}{'inclusion prior':>18}")
    for point in selection.sizes:
        loss = "-" if point.log_loss is None else f"{point.log_loss:.5f}"
        auc = "-" if point.auc is None else f"{point.auc:.4f}"
        output.print_result(f"{point.size:>8,}{loss:>12}{auc:>10}{point.inclusion_prior:>18g}")
    output.print_note(f"{selection.examples:,} examples read, {selection.held_out:,} of them held out")


def _write_features(selection: Selection, out: str) -> None:
    """Write one row per size and feature: size, feature, weight, inclusion."""
    import numpy as np

    from bayou.outputs.plain_model import INTERCEPT
    from bayou.outputs.text import write_csv

    rows: list[tuple[Any, ...]] = []
    for point in selection.sizes:
        rows.append((point.size, INTERCEPT, f"{point.intercept:.9g}", "1"))
        for k in np.argsort(-np.abs(point.weights), kind="stable"):
            feature = selection.names[int(point.features[k])]
            rows.append((point.size, feature, f"{point.weights[k]:.9g}", f"{point.inclusion[k]:.9g}"))
    write_csv(out, ["size", "feature", "weight", "inclusion"], rows)
