"""`bayou compare`: the command. comparing has the run, compare_board and compare_picture what a person sees of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayou.cli import options, settings
from bayou.cli.usage import BadUsage, usage

if TYPE_CHECKING:
    from bayou.cli.comparing import Entrant

DEFAULT_LEARNERS = ("bank", "marginal", "adagrad")


def compare(
    data: options.Data,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A learner, with parameters as in marginal:prior_variance=.1,memory=1e-4; may be given several "
            f"times. If not given: {', '.join(DEFAULT_LEARNERS)}."
        ),
    ] = None,
    bits: options.Bits = None,
    out: Annotated[Path | None, typer.Option(help="Draw the learning curves into this file: .png, .svg, .pdf.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the learning curves into this file.")] = None,
    format: options.Format = "auto",
    label: options.Label = None,
    positive: options.Positive = None,
    label_above: options.LabelAbove = None,
    weight: options.Weight = None,
    ignore: options.Ignore = None,
    numeric: options.Numeric = None,
    category: options.Category = None,
    text: options.Text = None,
    bins: options.Bins = None,
    cross: options.Cross = None,
    exact: options.Exact = None,
    hash_all: options.HashAll = None,
    negative_rate: options.NegativeRate = None,
    on_error: options.OnError = "skip",
    threads: options.Threads = None,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare learners over one reading of the data.

    Each predicts every example before it learns from it.

    Example:

        bayou compare clicks.csv --label clicked --learner bank --learner ftrl
    """
    for option, path in (("--out", out), ("--csv", csv)):
        options.check_folder(option, path)
    options.check_report(report)
    given = options.recipe(
        bits=bits,
        label=label,
        positive=positive,
        label_above=label_above,
        weight=weight,
        ignore=ignore,
        numeric=numeric,
        category=category,
        text=text,
        bins=bins,
        cross=cross,
        exact=exact,
        hash_all=hash_all,
        negative_rate=negative_rate,
    )

    from bayou import sources
    from bayou.cli import compare_board, comparing, watch
    from bayou.cli.startup import without_blas

    with usage(), without_blas(), watch.compiling():
        if out is not None:
            from bayou.cli import compare_picture

            compare_picture.check_kind(out)
        entrants = entrants_of(learner or DEFAULT_LEARNERS)
        source = sources.open(
            data,
            recipe=given,
            format=format,
            on_error=on_error,
            threads=threads,
            dtype=comparing.widest([entrant.learner for entrant in entrants]),
        )
        comparing.grow(entrants, source)
    board = compare_board.Board(entrants, source, quiet=quiet)
    if report is not None:
        comparing.record(entrants)
    outcome = comparing.compare(entrants, source, board)
    with options.standard_output():
        if as_json:
            typer.echo(json.dumps(outcome.as_dict()))
        else:
            compare_board.summarise(outcome)
    if csv is not None:
        compare_board.write_curves(csv, outcome)
    if out is not None:
        compare_picture.draw(out, outcome)
    if report is not None:
        comparing.write_report(report, outcome, source, data)
    if outcome.signal:
        raise typer.Exit(128 + outcome.signal)


def entrants_of(specs: Any) -> list[Entrant]:
    """The learners that were named, with one weight each for now: what is wrong with them is so whatever the data."""
    from bayou.cli.comparing import Entrant
    from bayou.core import registry

    entrants: list[Entrant] = []
    for spec in specs:
        name, _, rest = spec.strip().partition(":")
        record = registry.find(name)
        if record.task != "classify":
            raise BadUsage(
                f"--learner {spec}: {name} predicts numbers; compare is for learners that tell classes apart."
            )
        kind = record.load()
        # A value may have commas in it, as in temper=.3,.1; a new parameter starts where a name and = follow.
        parts = [part for part in re.split(r",(?=\s*[\w-]+\s*=)", rest) if part.strip()]
        try:
            chosen = settings.parse(parts, kind, taken=("n_features",))
            entrants.append(Entrant(spec.strip(), kind(n_features=1, **chosen), chosen))
        except ValueError as error:
            raise BadUsage(f"--learner {spec}: {str(error).removeprefix('--set ')}") from None
    twice = {entrant.spec for entrant in entrants if [other.spec for other in entrants].count(entrant.spec) > 1}
    if twice:
        raise BadUsage(f"--learner {sorted(twice)[0]} is given twice; let them differ in a parameter.")
    return entrants
