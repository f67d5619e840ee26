"""Tables of the demo, with explanations."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from bayou.cli.demo.study import N_CATEGORIES, SHOWN, DemoRun, LearnedWeights, Study, category, feature_name

# Ranges of feature counts: from, to.
OFTEN = [(1, 1), (2, 9), (10, 99), (100, 999), (1_000, 9_999), (10_000, None)]

COLUMNS = [
    ("log loss", "surprise per example when the label is shown; lower is better"),
    ("AUC", "how often a click is ranked above a non-click; 0.5 is guessing"),
    ("accuracy", "share of labels on the predicted side of 50%"),
    ("calibration", "mean gap between predicted and true rates; 0 is best"),
    ("regret", "log loss above that of the true weights, summed; 0 is best"),
    ("examples/s", "predicted and learned per second on one core"),
]


def show(study: Study, console: Console) -> None:
    weights = study.knowledge
    _say_what(study, console)
    console.print(_scores([study.bank, study.marginal, study.adagrad, study.truth]))
    for name, meaning in COLUMNS:
        console.print(f"  [dim]{name:<12} {meaning}[/dim]")
    _say_who_won(study, console)
    _say_how_to_read(console)
    console.print(_features("surest", weights, weights.surest(SHOWN // 2)))
    console.print(_features("least sure, of those seen", weights, weights.least_sure(SHOWN // 2)))
    console.print(_coverage(weights))
    _say_how_honest(weights, console)


def _say_what(study: Study, console: Console) -> None:
    examples, features = study.truth.result.examples, study.stream.n_features
    seen = np.count_nonzero(study.knowledge.seen)
    console.print(
        f"A simulated stream of {examples:,} ad views, clicked or not. Each has one feature from each "
        f"of {N_CATEGORIES} categories (site, device, ad, ...). There are {features:,} features: a few "
        f"come all the time, most hardly ever, {seen:,} came at all. Three learners go through it once: "
        "they predict each example, and only then are told its label."
    )


def _say_who_won(study: Study, console: Console) -> None:
    of_marginal, of_adagrad = (
        (study.bank.result.regret or 0.0) / (rival.result.regret or 1.0) for rival in (study.marginal, study.adagrad)
    )
    console.print(
        f"\nNot knowing the true weights cost the Bank {of_adagrad:.0%} of what it cost AdaGrad, whose learning rate "
        f"was tuned for this kind of stream, and {of_marginal:.0%} of what it cost Marginal, which was told the "
        "true spread of the weights. The Bank was told nothing and has nothing to tune."
    )


def _say_how_to_read(console: Console) -> None:
    console.print(
        "\n[bold]What the model knows[/bold]\n"
        "For each weight the Bank has a mean and a standard deviation (sd). Only differences within a "
        "category can be learned, so weights are shown less the average of their category.\n"
    )


def _say_how_honest(weights: LearnedWeights, console: Console) -> None:
    covered = weights.inside[weights.seen > 0].mean()
    explanation = (
        f"The Bank learns the {weights.n_joint:,} most frequent features jointly, with the correlations between their "
        "weights, and each of the others on its own."
        if weights.n_joint
        else "A lane's own intervals get too narrow where features keep meeting, as it keeps no correlations between "
        "weights; how far the lanes lie apart makes up for some of that."
    )
    console.print(f"In all, {covered:.0%} of the true weights lie inside their 90% intervals. {explanation}")


def _table(title: str | None, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for k, name in enumerate(columns):
        table.add_column(name, justify="left" if k == 0 else "right", no_wrap=True)
    return table


def _scores(runs: list[DemoRun]) -> Table:
    table = _table(None, "", *(name for name, _ in COLUMNS))
    for run in runs:
        result = run.result
        is_truth = run.name == "true weights"
        table.add_row(
            run.name,
            f"{result.log_loss:.4f}",
            f"{result.auc:.4f}",
            f"{result.accuracy:.1%}",
            f"{result.calibration_error:.4f}",
            f"{round(result.regret or 0.0):,}",
            "" if is_truth else f"{result.examples / run.seconds:,.0f}",
            style="dim" if is_truth else None,
        )
    return table


def _features(title: str, weights: LearnedWeights, features: np.ndarray) -> Table:
    table = _table(title, "feature", "learned", "90% interval", "true", "times seen")
    for i, group in zip(features, category(features), strict=True):
        low, high = weights.interval(i)
        table.add_row(
            feature_name(i, group),
            f"{weights.mean[i]:+.2f}",
            f"{low:+.2f} to {high:+.2f}",
            f"{weights.truth[i]:+.2f}",
            f"{weights.seen[i]:,}",
        )
    return table


def _coverage(weights: LearnedWeights) -> Table:
    table = _table("all that were seen", "times seen", "features", "typical sd", "truth inside 90% interval")
    for low, high in OFTEN:
        in_range = (weights.seen >= low) & (weights.seen <= (high or np.inf))
        if in_range.any():
            span = f"{low:,} or more" if high is None else f"{low:,}" if low == high else f"{low:,} to {high:,}"
            typical = np.median(weights.sd[in_range])
            table.add_row(span, f"{in_range.sum():,}", f"{typical:.2f}", f"{weights.inside[in_range].mean():.0%}")
    return table
