"""`bayou predict`: the command. predictions has the run, and the tables it writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bayou.cli import options
from bayou.cli.usage import BadUsage, usage

CSV, PARQUET = (".csv", ".csv.gz", ".csv.zst"), (".parquet", ".pq")


def predict(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input; .gz and .zst are undone.")],
    model: Annotated[Path, typer.Option(help="The model.")],
    out: Annotated[str, typer.Option(help="A .csv, .csv.gz, .csv.zst or .parquet file; - is standard output.")] = "-",
    format: Annotated[str, typer.Option(help=f"Of the data: {', '.join(options.FORMATS)}.")] = "auto",
    on_error: Annotated[str, typer.Option(help="raise: stop at a bad line. skip: write no row for it.")] = "raise",
    tags: Annotated[
        bool | None, typer.Option("--tags/--no-tags", help="Write the tags; if not said, when the first rows have any.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=0, help="Threads that read ahead; all cores if not given.")] = None,
) -> None:
    """Predict examples, and say how sure that is.

    Each example gives one row: its probability, mean and variance of its score, and what bounds the probability with
    95 % certainty. Of a number to be predicted: its mean, the variance of that, and what bounds the number with 95 %
    certainty. If the examples have labels, how good the predictions are is told at the end.

    Example:

        bayou predict new.csv --model m.bayou --out predictions.csv
    """
    if out != "-" and not out.endswith(CSV + PARQUET):
        raise BadUsage(f"--out is {out}; its name must end in one of {', '.join(CSV + PARQUET)}.")
    options.check_folder("--out", out)
    options.check_choice("--format", format, options.FORMATS)
    options.check_choice("--on-error", on_error, options.ON_ERROR)

    from bayou import sources
    from bayou.cli import predictions, watch
    from bayou.cli.startup import without_blas
    from bayou.core.learner import load
    from bayou.outputs.text import output

    with usage(), watch.compiling(), without_blas():
        learner = load(model)
        carried = sources.Carried.of(learner)
        carried.names = None  # nobody will ask for them
        source = sources.open(
            data,
            carried=carried,
            format=format,
            on_error=on_error,
            labels=False,
            tags=tags is not False,
            threads=threads,
            dtype=learner.parameters["dtype"],
        )
        predictions.warm_up(learner, source)
    kind = predictions.Parquet if out.endswith(PARQUET) else predictions.Csv
    predictor = predictions.Predictor(learner, source)
    with (
        options.standard_output(),
        options.progress(source.bytes_total, "bytes", shown=out != "-" or not sys.stdout.isatty()) as show,
        output(out) as file,
    ):
        table = kind(file, learner, tags)
        for answers, tags_ in predictor:
            table.write(answers, tags_)
            show(source.bytes_done)
        table.end()
    for sentence in [*predictor.summary(), *table.summary(out)]:
        typer.echo(sentence, err=True)
