"""`bayou train`: the command. bayou.runs.train does the work, terminal.progress_table shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.core import registry


def train(
    data: options.Data,
    *,
    learner: Annotated[str | None, typer.Option(help=f"Which learner; {registry.DEFAULT} if not given.")] = None,
    model: Path | None = None,
    resume: Path | None = None,
    like: Path | None = None,
    passes: Annotated[int, typer.Option(min=1)] = 1,
    processes: Annotated[int, typer.Option(min=1, max=256)] = 1,
    pairs: str | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    recipe: options.Recipe,
    holdout: str | None = None,
    delay: options.Delay = 0,
    checkpoint: str | None = None,
    reading: options.Reading,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn from data, predicting each example before learning from it.

    Example:

        bayou train clicks.csv --label clicked --model m.bayou

    Args:
        model: File for the trained model.
        resume: Model to continue, with its weights and recipe.
        like: Model to copy in everything but the weights.
        passes: Number of passes over the data.
        processes: Number of processes that learn text at the same time, in rounds.
        pairs: Lanes of pairs of features for the bank: crosses, factors (those, and factorisation machines), or auto
            and auto,factors, which drop what does not pay.
        set_: Parameter of the learner, as name=value.
        holdout: Share of examples to hold out and test the finished model on: 0.1 is the last tenth, random:0.1 a
            tenth spread evenly.
        checkpoint: Save every N examples (1000000), or at times: 90s, 10min, 2h.
    """
    with output.preparing():
        from bayou.cli.terminal import progress_table
        from bayou.runs.train import Training

        training = Training(
            data,
            learner=learner,
            model=model,
            resume=resume,
            like=like,
            passes=passes,
            processes=processes,
            settings=[*(set_ or []), *([] if pairs is None else [f"pairs={pairs}"])],
            holdout=holdout,
            delay=delay,
            checkpoint=checkpoint,
            report=report,
            on_note=progress_table.without_details if quiet else output.say_note,
            **recipe,
            **reading,
        )
    if training.fitted is not None and not quiet:
        progress_table.show_columns(training.fitted, training.source.recipe.task)
    with progress_table.ProgressTable(training.source, quiet=quiet) as display:
        training.on_note = display.say
        run = training.run(display.update)
    training.on_note = output.say_note
    if as_json:
        output.print_result(json.dumps(run.as_dict()))
    else:
        progress_table.summarise(run, model)
    training.write_report(run)
    if run.save_error:
        raise run.save_error
    if run.signal:
        raise typer.Exit(128 + run.signal)
