"""`bayou predict`: the command. bayou.runs.predict does the work, outputs.prediction_files writes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli import options
from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage

if TYPE_CHECKING:
    from bayou.runs.predict import Predictions

_Reading = Annotated[
    options.Group, [options.parameter("on_error", str, "raise"), options.parameter("threads", options.Threads)]
]
CSV, PARQUET = (".csv", ".csv.gz", ".csv.zst"), (".parquet", ".pq")


def predict(
    data: options.Data,
    *,
    model: Path,
    out: str = "-",
    format: Annotated[str, typer.Option(help=f"Of the data: {', '.join(options.FORMATS)}.")] = "auto",
    reading: _Reading,
    tags: Annotated[bool | None, typer.Option("--tags/--no-tags")] = None,
    keep: list[str] | None = None,
    level: float = 0.95,
    quantiles: str | None = None,
    explain: Annotated[int, typer.Option(min=0, max=100)] = 0,
    horizon: str = "later",
    quiet: Annotated[bool, typer.Option("--quiet")] = False,
) -> None:
    """Predict examples, with the uncertainty of each prediction.

    Each example gives one row: its probability, the mean and variance of its score, and bounds that hold the
    probability with 95% certainty (--level). For several classes: the most probable one, its probability with bounds,
    and the probabilities of all. For a number: its mean, the variance of that mean, and bounds for the number. If the
    examples have labels, the quality of the predictions is reported at the end.

    --explain 3 shows why: the three columns of a table, or features, that moved the score furthest from that of the
    average row, by how much (why1, by1 and so on), and the effect of all others (others).

    Example:

        bayou predict new.csv --model m.bayou --keep id --out predictions.csv

    Args:
        model: The model.
        out: A .csv, .csv.gz, .csv.zst or .parquet file; - is standard output.
        on_error: raise: stop at a bad line. skip: write no row for it.
        tags: Write the tags; by default, if the first rows have any.
        keep: Columns of the data to write beside the predictions, separated by commas.
        level: Certainty that what is predicted lies between low and high.
        quantiles: For a number: the quantiles to write, such as .1,.5,.9.
        explain: Number of features to show that moved each row's score most, compared with the average row.
        horizon: later: rows after the training. next: rows that arrive while the model keeps learning.
        quiet: Show no progress line.
    """
    if out != "-":
        options.check_ending("--out", out, CSV + PARQUET)
    options.check_outputs({"--out": out}, data, model)
    options.check_choice("--format", format, options.FORMATS)
    options.check_choice("--on-error", reading["on_error"], options.ON_ERROR)
    options.check_choice("--horizon", horizon, options.HORIZONS)
    columns = options.columns(keep) or []
    with output.preparing():
        from bayou.outputs import prediction_files, text
        from bayou.runs import predict as run

        predictions = run.predict(
            data,
            model=model,
            keep=columns,
            level=level,
            quantiles=_shares(quantiles),
            explain=explain,
            horizon=horizon,
            tags=tags,
            format=format,
            on_note=output.say_note,
            **reading,
        )
    source, kind = (
        predictions.source,
        prediction_files.ParquetPredictionWriter if out.endswith(PARQUET) else prediction_files.CsvPredictionWriter,
    )
    show_progress = not quiet and (out != "-" or not sys.stdout.isatty())
    with (
        output.progress(source.bytes_total, "bytes", is_shown=show_progress) as show,
        text.output(out) as file,
        kind(file, predictions.columns, tags, columns) as table,
    ):
        for chunk in predictions.parts():
            table.write(chunk)
            show(source.bytes_done)
            if out == "-" and output.had_enough():
                return
        table.end()
        if out == "-" and output.had_enough():
            return
    for sentence in [*_summary(predictions), *table.summary(out)]:
        output.print_note(sentence)


def _shares(text: str | None) -> list[float]:
    try:
        return [float(entry) for entry in (text or "").split(",") if entry.strip()]
    except ValueError:
        raise BadUsage(f"--quantiles is {text!r}; expected probabilities such as .1,.5,.9.") from None


def _summary(predictions: Predictions) -> list[str]:
    """Return notes on skipped lines, the scores of the predictions, and how to read them."""
    sentences = [*output.skipped_in_words(predictions.error_counts), *predictions.source.warnings]
    if predictions.skipped:
        sentences.append(f"{predictions.skipped:,} bad lines were skipped; there is no row for them")
    result = predictions.evaluation
    if result is not None:
        scores = ", ".join(f"{name} {value:.5f}" for name, value in result.headline().items() if value is not None)
        sentences.append(f"of {result.examples:,} examples with a label: {scores}")
    if predictions.average is not None:
        quantity = {"mean": "mean", "log_odds": "the log-odds of the probability"}[str(predictions.explains)]
        sentences.append(f"by1 to others add up to {quantity} less {predictions.average:.6g}, that of the average row")
    rate = predictions.source.recipe.negative_rate
    if rate != 1.0:
        sentences.append(
            f"probabilities are those of the full stream: a share of {rate:g} of its negatives was learned from"
        )
    return sentences
