"""`bayou train`: the command. training has the run, watch what a person sees of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from bayou.cli import options, settings
from bayou.cli.usage import BadUsage, usage
from bayou.core.errors import BadModel

DEFAULT_LEARNER = "bank"


def train(
    data: options.Data,
    learner: Annotated[str | None, typer.Option(help=f"Which learner; {DEFAULT_LEARNER} if not given.")] = None,
    bits: options.Bits = None,
    model: Annotated[Path | None, typer.Option(help="Where to write what was learned.")] = None,
    resume: Annotated[Path | None, typer.Option(help="A model to go on from, in weights and recipe.")] = None,
    like: Annotated[Path | None, typer.Option(help="A model to be like in all but the weights.")] = None,
    passes: Annotated[int, typer.Option(min=1, help="How often to go through the data.")] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value: any parameter of the learner.")] = None,
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
    holdout: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Share of examples to test on and not learn.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Save after every so many examples (1000000), or minutes (10min).")
    ] = None,
    on_error: options.OnError = "skip",
    threads: options.Threads = None,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn from data, predicting each example before learning from it.

    Example:

        bayou train clicks.csv --label clicked --model m.bayou
    """
    if resume and like:
        raise BadUsage("--resume goes on with a model and --like starts anew; use one of them.")
    if checkpoint and not model:
        raise BadUsage("--checkpoint needs --model: where to save.")
    every = _every(checkpoint)
    options.check_folder("--model", model)
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
    from bayou.cli import training, watch
    from bayou.cli.startup import without_blas
    from bayou.core import registry
    from bayou.core.learner import load
    from bayou.sources import Carried

    with usage(), without_blas(), watch.compiling():
        old_path = resume or like
        old = load(old_path) if old_path else None
        if old is not None:
            _refuse_other(old, old_path, learner, given)
        record = old.record if old is not None else registry.find(learner or DEFAULT_LEARNER)
        if record.task == "regress":
            _refuse_classes(record.name, given)
            given["numbers"] = True
        kind = record.load()
        chosen = settings.parse(set_ or [], kind, taken=("n_features",))
        if resume:
            _refuse_changes(old, chosen)
        # A small one first: what is wrong with the parameters is wrong whatever the data.
        small = kind(n_features=1, **chosen)
        model_parameters = old.parameters if old is not None else {}
        dtype = {**small.parameters, **model_parameters, **chosen}["dtype"]
        source = sources.open(
            data,
            recipe=None if old else given,
            carried=Carried.of(old) if old else None,
            format=format,
            on_error=on_error,
            threads=threads,
            dtype=str(dtype),
        )
        if passes > 1 and record.passes == "single" and not quiet:
            note = "takes every pass for new evidence and grows too sure; --holdout 0.1 shows what that is worth"
            typer.echo(f"{record.name} {note}", err=True)
        if passes > 1 and not source.again:
            raise BadUsage("--passes needs data that can be read more than once; save what the pipe gives to a file.")
        n_features = source.recipe.n_features if old is None else old.n_features
        watch.check_memory(small if old is None else old, n_features)
        new = old
        if new is None or like:
            new = kind(**{**model_parameters, **chosen, "n_features": n_features})
        training.warm_up(new, source)
    recorder = None
    if report is not None:
        from bayou.report import Recorder

        recorder = Recorder(new)
    run = training.Training(
        new,
        source,
        data=[os.path.abspath(name) if name != "-" else name for name in data],
        passes=passes,
        holdout=holdout,
        path=model,
        every=every,
        watch=watch.Watch(source, new, quiet=quiet),
        resumed=resume is not None,
        recorder=recorder,
    )
    outcome = run.run()
    with options.standard_output():
        if as_json:
            typer.echo(json.dumps(outcome.as_dict()))
        else:
            watch.summarise(outcome, model)
    if report is not None and recorder is not None:
        training.write_report(report, recorder, outcome, source, data)
    if outcome.unsaved:
        raise outcome.unsaved
    if outcome.signal:
        raise typer.Exit(128 + outcome.signal)


def _refuse_other(old: Any, path: Path | None, learner: str | None, given: dict[str, Any]) -> None:
    """A model that exists has its learner and its recipe; options may repeat them, not change them."""
    if learner is not None and learner != old.name:
        raise BadModel(
            f"{path} is a {old.name} model; it cannot go on as {learner}. Leave --learner out, or start a new model."
        )
    recipe = old.attached.get("recipe") or {}
    for name, value in given.items():
        there = recipe.get(name)
        if json.loads(json.dumps(value)) != there:
            raise BadModel(
                f"--{name.replace('_', '-')} is {value}, but the recipe of {path} has "
                f"{'none' if there is None else there}; leave the option out."
            )


def _refuse_classes(learner: str, given: dict[str, Any]) -> None:
    for name in ("positive", "label_above", "negative_rate"):
        if name in given:
            option = name.replace("_", "-")
            raise BadUsage(f"--{option} is about classes, but {learner} predicts numbers; leave the option out.")


def _refuse_changes(old: Any, chosen: dict[str, Any]) -> None:
    for name, value in chosen.items():
        if value != old.parameters[name]:
            raise BadUsage(
                f"--set {name}={value}, but the resumed model has {old.parameters[name]} and keeps it; leave it out."
            )


def _every(checkpoint: str | None) -> tuple[int | None, float | None]:
    """(examples, seconds) between checkpoints."""
    if checkpoint is None:
        return None, None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(m|min|minutes)?", checkpoint.replace("_", "").replace(",", ""))
    if not found or float(found[1]) <= 0:
        raise BadUsage(f"--checkpoint is {checkpoint!r}; expected a number of examples, or of minutes such as 10min.")
    return (None, 60 * float(found[1])) if found[2] else (int(float(found[1])), None)
