"""`bayou merge`: one model that knows what several know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage

if TYPE_CHECKING:
    from bayou.core.learner import Learner

HOW = {
    "exact": "exact: as if one model had seen all the data",
    "approximate": "approximate: a sound model of all the data, but not the one that learning them in a row would give",
}


def merge(
    models: Annotated[list[Path], typer.Argument(help="Two models or more, of one learner and recipe.")],
    out: Annotated[Path, typer.Option(help="Where to write the merged model.")],
    base: Annotated[
        Path | None, typer.Option(help="The model that all of them were resumed from; what it knew is counted once.")
    ] = None,
) -> None:
    """Merge models into one that knows what all know.

    Models that were resumed from another need that one as --base, or what it knew would be counted several times.

    Example:

        bayou merge monday.bayou tuesday.bayou --out both.bayou
    """
    if len(models) < 2:
        raise BadUsage("merge needs at least two models; name one more.")
    # Not in place of one of them, although all are read first: merged once more, it would count twice.
    options.check_outputs({"--out": out}, models, base)
    for k, path in enumerate(models):
        if os.path.exists(path) and any(os.path.exists(other) and path.samefile(other) for other in models[:k]):
            raise BadUsage(f"{path} is named twice; what it knows would count twice. Name each model once.")

    from bayou.kernels.startup import without_blas

    with without_blas():
        from bayou.runs.merge import merge as merge_models

        merged = merge_models(models, base)
    merged.save(out)
    _tell(merged, len(models))
    output.say(f"the model is in {out}")


def _tell(merged: Learner, n_models: int) -> None:
    lines = [
        ("models", f"{n_models}"),
        ("examples", f"{merged.examples:,}"),
        ("weights", f"{len(merged.touched):,} of {merged.n_features:,} touched"),
        ("merge", HOW[merged.record.merge]),
    ]
    for what, how in lines:
        output.tell(f"{what:<10}{how}")
