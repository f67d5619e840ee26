"""`bayou compare`: the command. bayou.runs.compare does the work, terminal.compare and plots.compare show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.core import registry

# As in bayou.runs.compare, which is too heavy to import for showing help.
PICTURES = (".png", ".svg", ".pdf")


def compare(
    data: options.Data,
    *,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A learner, with parameters as in marginal:prior_variance=.1,memory=1e-4; may be given several "
            f"times. If not given: {', '.join(registry.DEFAULT_COMPARED)}; for numbers "
            f"{', '.join(registry.DEFAULT_COMPARED_REGRESSION)}."
        ),
    ] = None,
    out: Path | None = None,
    csv: Path | None = None,
    delay: options.Delay = 0,
    recipe: options.Recipe,
    reading: options.Reading,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare learners in a single pass over the data.

    Each predicts every example before learning from it. Two losses cover the last half: the one as it learned, and
    the one on later rows, which are predicted before anything near them is learned.

    Example:

        bayou compare clicks.csv --label clicked --learner bank --learner ftrl

    Args:
        out: File for a plot of the learning curves: .png, .svg or .pdf.
        csv: File for the learning curves.
    """
    options.check_ending("--out", out, PICTURES)
    options.check_outputs({"--out": out, "--csv": csv, "--report": report}, data)
    with output.preparing():
        from bayou.cli.terminal import compare as table
        from bayou.runs.compare import ComparisonRun

        comparing = ComparisonRun(
            data,
            learner or None,
            delay=delay,
            report=report,
            on_note=output.say_note,
            **recipe,
            **reading,
        )
    with table.ComparisonTable(comparing.entrants, comparing.source, quiet=quiet) as display:
        comparison = comparing.run(display.update)
    if as_json:
        output.print_result(json.dumps(comparison.as_dict()))
    else:
        table.summarise(comparison)
    if csv is not None:
        table.write_curves(csv, comparison)
    if out is not None:
        from bayou.cli.plots.compare import draw

        draw(out, comparison)
    comparing.write_report(comparison)
    if comparison.signal:
        raise typer.Exit(128 + comparison.signal)
