"""`bayou select`: the features that matter, for several sizes of a model, from one reading of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bayou.cli import options, settings
from bayou.cli.usage import BadUsage, usage


def select(
    data: options.Data,
    sizes: Annotated[str, typer.Option(help="How many features a model may have; several, with commas.")] = (
        "30,100,300,1000"
    ),
    bits: options.Bits = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value: any parameter of spike-slab.")] = None,
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
    holdout: Annotated[float, typer.Option(min=0.001, max=0.9, help="Share of examples to test on.")] = 0.1,
    on_error: options.OnError = "skip",
    threads: options.Threads = None,
    out: Annotated[str | None, typer.Option(help="A .csv file for the features of every size; - is stdout.")] = None,
    picture: Annotated[Path | None, typer.Option(help="A .png file for the path: sizes, AUC, log loss.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Select the features that matter, for models of several sizes.

    Spike-and-slab learners that expect ever fewer features go over one reading of the data side by side. For each size
    the one that selected so many or a few more is cut to its most probable features, and tested on examples held out.

    Example:

        bayou select clicks.csv --label clicked --sizes 10,30 --out features.csv
    """
    wanted = _sizes(sizes)
    if out is not None and out != "-" and not out.endswith(".csv"):
        raise BadUsage(f"--out is {out}; its name must end in .csv.")
    if picture is not None and picture.suffix != ".png":
        raise BadUsage(f"--picture is {picture}; its name must end in .png.")
    if as_json and out == "-":
        raise BadUsage("--json and --out - both write to standard output; use one of them.")
    options.check_folder("--out", out)
    options.check_folder("--picture", picture)
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
    )

    from bayou import sources
    from bayou.cli import watch
    from bayou.cli.selecting import Selecting, as_dict, show, write_features
    from bayou.cli.startup import without_blas
    from bayou.learners import SpikeSlab

    with usage(), without_blas(), watch.compiling():
        chosen = settings.parse(set_ or [], SpikeSlab, taken=("n_features", "inclusion_prior", "predictive"))
        small = SpikeSlab(n_features=1, **{"dtype": "float32", **chosen})
        source = sources.open(
            data, recipe=given, format=format, on_error=on_error, threads=threads, dtype=small.parameters["dtype"]
        )
        run = Selecting(source, wanted, holdout, small.parameters)
        watch.check_memory(small, source.recipe.n_features * len(run.learners))
    with options.progress(source.bytes_total, "bytes", shown=not quiet) as progress:
        found = run.run(progress)
    with options.standard_output():
        if as_json:
            typer.echo(json.dumps(as_dict(found)))
        elif out != "-":
            show(found)
        if out is not None:
            write_features(found, out)
    if picture is not None:
        from bayou.cli.select_picture import draw

        draw(found, picture)
    for sentence in found.notes:
        typer.echo(sentence, err=True)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise BadUsage(f"--sizes is {text!r}; expected whole numbers from 1 on with commas, such as 30,100,300.")
    return sorted(set(sizes))
