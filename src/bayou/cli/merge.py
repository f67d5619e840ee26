"""`bayou merge`: one model that knows what several know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options
from bayou.cli.usage import BadUsage
from bayou.core.errors import BadModel

if TYPE_CHECKING:
    from bayou.core.learner import Learner

# So many differences of two recipes are shown.
SHOWN = 5
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
    options.check_folder("--out", out)
    for path in (*models, *([base] if base else [])):
        if out.exists() and path.exists() and out.samefile(path):
            raise BadUsage(f"--out is {out}, which is one of the models to merge; give it another name.")
    for k, path in enumerate(models):
        if path.exists() and any(other.exists() and path.samefile(other) for other in models[:k]):
            raise BadUsage(f"{path} is named twice; what it knows would count twice. Name each model once.")

    from bayou.cli.startup import without_blas

    with without_blas():
        merged = _merged(models, base)
    merged.save(out)
    _tell(merged, len(models))
    typer.echo(f"the model is in {out}", err=True)


def _merged(models: list[Path], base: Path | None) -> Learner:
    from bayou.core.learner import load
    from bayou.evaluate.regression import meter_for
    from bayou.sources import Carried

    common = None if base is None else load(base)
    merged = load(models[0])
    carried, counters = Carried.of(merged), [merged.attached.get("counters")]
    for path in models[1:]:
        other = load(path)
        theirs = Carried.of(other)
        _check_recipes(models[0], carried, path, theirs)
        try:
            carried.merge(theirs)
            merged = merged.merge(other, common)
        except BadModel as error:
            raise BadModel(f"{models[0]} and {path}: {error}") from None
        counters.append(other.attached.get("counters"))
    if merged.attached.get("recipe") is not None:
        carried.attach(merged)
    merged.attached.pop("unfinished", None)
    before = None if common is None else common.attached.get("counters")
    merged.attached["counters"] = _added(counters, before, meter_for(merged.record.task).loss_name)
    return merged


def _check_recipes(first: Path, mine: Any, path: Path, theirs: Any) -> None:
    """In the recipe's own words, which the learner does not know."""
    if differences := mine.recipe.differences(theirs.recipe):
        more = f"; and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise BadModel(
            f"{first} and {path} read data by different recipes: {'; '.join(differences[:SHOWN])}{more}. "
            "Train one of them --like the other."
        )


def _added(counters: Sequence[dict[str, Any] | None], base: dict[str, Any] | None, loss_name: str) -> dict[str, Any]:
    """What all have seen together; what base had seen is in each of them, and counts once."""
    parts = [(1, part) for part in counters if part] + [(1 - len(counters), base or {})]
    names = ("examples", "nonzeros", "skipped", "runs")
    total: dict[str, Any] = {name: sum(sign * part.get(name, 0) for sign, part in parts) for name in names}
    scored = [(sign * part["examples"], part[loss_name]) for sign, part in parts if part.get(loss_name) is not None]
    weight = sum(n for n, _ in scored)
    total[loss_name] = sum(n * loss for n, loss in scored) / weight if weight > 0 else None
    return total


def _tell(merged: Learner, n_models: int) -> None:
    lines = [
        ("models", f"{n_models}"),
        ("examples", f"{merged.examples:,}"),
        ("weights", f"{len(merged.touched):,} of {merged.n_features:,} touched"),
        ("merge", HOW[merged.record.merge]),
    ]
    for what, how in lines:
        typer.echo(f"{what:<10}{how}")
