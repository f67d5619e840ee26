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
    from bayou.runs.merge import Merged

HOW = {
    "exact": "exact: as if one model had seen all the data",
    "approximate": "approximate: a sound model of all the data, but not the one that learning them in a row would give",
}


def merge(
    models: list[Path],
    *,
    out: Path,
    base: Path | None = None,
    recombine: Annotated[list[str] | None, typer.Option(metavar="DATA")] = None,
    weight: float | None = None,
) -> None:
    """Merge models into one that knows what each has learned.

    Models resumed from another one need it as --base, or what it knew would be counted several times. How to combine
    the merged lanes of a bank is a guess unless --recombine names data to learn it from.

    Example:

        bayou merge monday.bayou tuesday.bayou --out both.bayou

    Args:
        models: Two or more models with the same learner and recipe.
        out: Where to write the merged model.
        base: The model that all of them were resumed from; what it knew is counted once.
        recombine: Data that none of them has learned, from which to learn how to combine a bank's lanes.
        weight: Weight of each model's rows, if they were learned in shards, with weights.
    """
    if len(models) < 2:
        raise BadUsage("merge needs at least two models; name one more.")
    # Not in place of one of them, although all are read first: merged once more, it would count twice.
    options.check_outputs({"--out": out}, models, base, recombine)
    for k, path in enumerate(models):
        if os.path.exists(path) and any(os.path.exists(earlier) and path.samefile(earlier) for earlier in models[:k]):
            raise BadUsage(f"{path} is named twice; what it knows would count twice. Name each model once.")

    from bayou.kernels.numba_private import without_blas

    with without_blas():
        from bayou.runs.merge import merge as merge_models

        merged = merge_models(models, base, weight, recombine)
    merged.learner.save(out)
    _print_summary(merged, len(models))
    output.print_note(f"the model is in {out}")


def _print_summary(merged_model: Merged, n_models: int) -> None:
    merged = merged_model.learner
    lines = [
        ("models", f"{n_models}"),
        ("examples", f"{merged.examples:,}"),
        ("weights", f"{len(merged.touched):,} of {merged.n_features:,} touched"),
        ("merge", HOW[merged.record.merge]),
    ]
    if merged_model.log_loss is not None:
        lines.append(("combined", f"by {merged_model.rows:,} rows, log loss {merged_model.log_loss:.5f}"))
    elif hasattr(merged, "recombine"):
        lines.append(("combined", "by a guess; --recombine DATA learns it from rows that no model has learned"))
    for title, text in lines:
        output.print_result(f"{title:<10}{text}")
