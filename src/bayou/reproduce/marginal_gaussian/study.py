"""Common steps of experiments on simulated streams: learn, choose the best settings, write, draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayou.reproduce.experiment import Report, in_words
from bayou.reproduce.jobs import run_all
from bayou.reproduce.marginal_gaussian import results
from bayou.reproduce.marginal_gaussian.methods import RIVALS, figure_methods
from bayou.reproduce.marginal_gaussian.streams import Method, Panel, PanelDraw, Trace

Draw = Callable[[Report, Sequence[Panel], Sequence[results.Score]], Any]


def random_panel(
    name: str,
    title: str,
    *,
    active: int,
    std: float,
    examples: tuple[int, int],
    n_features: int = 200,
    methods: tuple[Method, ...] | None = None,
    generator: str = "random",
    paper: Any = None,
    **settings: Any,
) -> Panel:
    """Return a panel on a stream of random features that are equally often active, with true weights of sd `std`.

    Args:
        active: the mean number of features of an example; methods: by default those of the figures.
    """
    settings = {"n_features": n_features, "active": active / n_features, "weight_std": float(std), **settings}
    methods = figure_methods(std) if methods is None else methods
    return Panel(name, title, generator, settings, n_features, methods, active, examples, paper or {})


def run(
    report: Report,
    title: str,
    panels: Sequence[Panel],
    draw: Draw,
    *,
    draws: tuple[int, int],
    share: float = 1.0,
    more: Sequence[Trace] = (),
    more_shown: Sequence[Trace] = (),
) -> None:
    """Learn all panels in all draws, and report a table, two CSV files and a picture.

    Args:
        draws: the numbers of draws of the quick and of the full run.
        share: the fraction of the usual time that these panels take.
        more: further curves of the figure, from elsewhere; more_shown: those of them that are shown.
    """
    options = report.options
    seeds = options.seeds(*draws)
    jobs = [
        PanelDraw(panel, seed, panel.n_examples(options.quick, options.examples)) for panel in panels for seed in seeds
    ]
    n_learners = sum(max(1, len(method.values)) for method in panels[0].methods)
    sizes = sorted({job.examples for job in jobs})
    report.say(
        f"{_count(panels, 'stream')}, {_count(seeds, 'draw')} of {' or '.join(f'{size:,}' for size in sizes)} "
        f"examples, {n_learners} learners on each; {in_words(share * _estimate(report, panels, jobs, draws))}"
    )
    traces = run_all(jobs, options.jobs, options.watch)
    scores = [score for panel in panels for score in results.scores(panel, traces)]
    shown_traces = [trace for score in scores for trace in score.traces]
    report.csv(results.CURVE_COLUMNS, results.curve_rows([*traces, *more], [*shown_traces, *more_shown]))
    report.csv(results.SUMMARY_COLUMNS, results.summary_rows(scores), suffix="-summary")
    draw(report, panels, scores)
    title = f"{title}; {_count(seeds, 'draw')}, T = {' and '.join(f'{size:,}' for size in sizes)}"
    report.table(title, *results.as_table(scores))
    report.notes += results.notes(scores, RIVALS)


def _estimate(report: Report, panels: Sequence[Panel], jobs: Sequence[PanelDraw], draws: tuple[int, int]) -> float:
    """Estimate the run time in minutes, scaled from that of the usual size with two processes."""
    options, index = report.options, 0 if report.options.quick else 1
    usual = sum(panel.n_examples(options.quick, None) * panel.active for panel in panels) * draws[index]
    requested = sum(job.examples * job.panel.active for job in jobs)
    at_once = min(2, len(panels) * draws[index]) / min(options.jobs, len(jobs))
    return report.minutes[index] * requested / usual * at_once


def _count(items: Sequence[Any], noun: str) -> str:
    return f"{len(items)} {noun}{'s' * (len(items) != 1)}"
