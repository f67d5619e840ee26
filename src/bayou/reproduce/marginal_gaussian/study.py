"""The common course of the experiments on simulated streams: learn, choose the best settings, write, draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bayou.core.files import whole_file
from bayou.reproduce.experiment import Experiment, Findings, Options, in_words
from bayou.reproduce.jobs import run_all
from bayou.reproduce.marginal_gaussian import PAPER, picture, results
from bayou.reproduce.marginal_gaussian.methods import RIVALS
from bayou.reproduce.marginal_gaussian.streams import Panel, PanelDraw, Trace

Draw = Callable[[Path, Sequence[Panel], Sequence[results.Score]], Any]


def simulated(
    name: str,
    title: str,
    panels: Callable[[], Sequence[Panel]],
    *,
    grid: tuple[int, int],
    draws: tuple[int, int],
    minutes: tuple[float, float],
    what: str,
) -> Experiment:
    """The record of an experiment whose panels are drawn in a grid of (rows, columns)."""

    def go(options: Options) -> Findings:
        return run(name, title, panels(), options, picture.curves(*grid), draws=draws, minutes=minutes)

    return Experiment(name, PAPER, what, minutes, go)


def run(
    name: str,
    title: str,
    panels: Sequence[Panel],
    options: Options,
    draw: Draw,
    *,
    draws: tuple[int, int],
    minutes: tuple[float, float],
    more: Sequence[Trace] = (),
    more_shown: Sequence[Trace] = (),
) -> Findings:
    """All panels over all draws; a table, two CSV files and a picture.

    Args:
        draws: the numbers of draws of the quick and of the full run; minutes: how long these take.
        more: curves of the same figure that come from elsewhere; more_shown: those of them that are shown.
    """
    seeds = options.seeds(*draws)
    jobs = [
        PanelDraw(panel, seed, panel.n_examples(options.quick, options.examples)) for panel in panels for seed in seeds
    ]
    estimate = _estimate(panels, jobs, options, draws, minutes)
    n_learners = sum(max(1, len(method.values)) for method in panels[0].methods)
    sizes = sorted({job.examples for job in jobs})
    options.say(
        f"{name}: {_count(panels, 'stream')}, {_count(seeds, 'draw')} of {' or '.join(f'{size:,}' for size in sizes)} "
        f"examples, {n_learners} learners on each; {in_words(estimate)}"
    )
    traces = run_all(jobs, options.jobs, options.watch)
    found = [score for panel in panels for score in results.scores(panel, traces)]
    shown = [trace for score in found for trace in score.traces]
    files = [results.write_curves(options.out, name, [*traces, *more], [*shown, *more_shown])]
    files.append(results.write_summary(options.out, name, found))
    with whole_file(options.out / f"{name}.png") as path:
        draw(path, panels, found)
    files.append(options.out / f"{name}.png")
    title = f"{title}; {_count(seeds, 'draw')}"
    table = results.as_table(f"{title}, T = {' and '.join(f'{size:,}' for size in sizes)}", found)
    return Findings((table,), tuple(results.notes(found, RIVALS)), tuple(files))


def _estimate(
    panels: Sequence[Panel],
    jobs: Sequence[PanelDraw],
    options: Options,
    draws: tuple[int, int],
    minutes: tuple[float, float],
) -> float:
    """Minutes, from those that the usual size takes with two processes."""
    which = 0 if options.quick else 1
    usual = sum(panel.n_examples(options.quick, None) * panel.active for panel in panels) * draws[which]
    asked = sum(job.examples * job.panel.active for job in jobs)
    at_once = min(2, len(panels) * draws[which]) / min(options.jobs, len(jobs))
    return minutes[which] * asked / usual * at_once


def _count(some: Sequence[Any], what: str) -> str:
    return f"{len(some)} {what}{'s' * (len(some) != 1)}"
