"""Results from curves: the best setting of every grid, its mean and spread over draws, and rows of tables and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.reproduce.marginal_gaussian.streams import Method, Panel, Trace

CURVE_COLUMNS = (
    "panel", "method", "setting", "shown", "draw", "example", "loss", "regret", "normalized_regret",
)  # fmt: skip
SUMMARY_COLUMNS = (
    "panel", "method", "setting", "examples", "draws", "paper_examples", "paper_r", "r", "r_std", "ratio", "ratio_std",
    "paper_seconds", "seconds",
)  # fmt: skip
# The method that the others are compared with.
REFERENCE = "Marginal"


@dataclass(frozen=True)
class Score:
    """Result of one method on one stream, at its best setting.

    Attributes:
        r, r_std: R_T / ln T, its mean and standard deviation over draws.
        ratio, ratio_std: the same of r divided by that of the reference method, per draw: streams differ a lot.
        at_edge: whether the best setting is the first or last of the grid.
        paper: the paper's numbers, if any: (examples, r, seconds).
        traces: the curves of all draws at the best setting.
    """

    panel: str
    method: str
    setting: str
    examples: int
    r: float
    r_std: float
    ratio: float
    ratio_std: float
    seconds: float
    at_edge: bool
    paper: tuple[int, float, float | None] | None
    traces: tuple[Trace, ...]


@dataclass(frozen=True)
class Best:
    """Best setting of a method, its curves over all draws, and whether the setting is the first or last of the grid."""

    setting: str
    traces: tuple[Trace, ...]
    at_edge: bool


def best(methods: Iterable[Method], traces: Sequence[Trace], height: Callable[[Trace], float]) -> dict[str, Best]:
    """Return the best setting of each method: the one with the smallest mean of `height` over draws."""
    best_by_method = {}
    for method in methods:
        by_setting: dict[str, list[Trace]] = {}
        for trace in traces:
            if trace.method == method.name:
                by_setting.setdefault(trace.setting, []).append(trace)
        means = {setting: np.mean([height(trace) for trace in group]) for setting, group in by_setting.items()}
        best_setting, order = min(means, key=lambda setting: means[setting]), list(means)
        at_edge = len(order) > 1 and best_setting in (order[0], order[-1])
        best_by_method[method.name] = Best(best_setting, tuple(by_setting[best_setting]), at_edge)
    return best_by_method


def scores(panel: Panel, traces: Iterable[Trace]) -> list[Score]:
    """Return the scores of a panel's methods, in order, each at the setting with the smallest mean final regret."""
    best_by_method = best(panel.methods, [trace for trace in traces if trace.panel == panel.name], final_r)
    against = next((name for name in best_by_method if name.startswith(REFERENCE)), next(iter(best_by_method)))
    reference = np.array([final_r(trace) for trace in best_by_method[against].traces])
    panel_scores = []
    for name, entry in best_by_method.items():
        r = np.array([final_r(trace) for trace in entry.traces])
        ratio, examples = r / reference, int(entry.traces[0].example[-1])
        panel_scores.append(
            Score(
                panel.name, name, entry.setting, examples, float(r.mean()), float(r.std()),
                float(ratio.mean()), float(ratio.std()), float(np.mean([trace.seconds for trace in entry.traces])),
                entry.at_edge, paper_number(panel, name, examples), entry.traces,
            )
        )  # fmt: skip
    return panel_scores


def paper_number(panel: Panel, method: str, examples: int) -> tuple[int, float, float | None] | None:
    """Return the paper's numbers at this number of examples or the nearest one that it has; None without any."""
    printed = panel.paper.get(method)
    if not printed:
        return None
    nearest = min(printed, key=lambda size: abs(np.log(size / examples)))
    return nearest, *printed[nearest]


def final_r(trace: Trace) -> float:
    """Return R_T / ln T."""
    return float(trace.normalized[-1])


def as_table(scores: Sequence[Score]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and rows of a table with the paper's number beside ours."""
    printed = any(score.paper for score in scores)
    several = len({score.panel for score in scores}) > 1
    columns = ("stream",) * several + ("method", "setting") + ("paper",) * printed
    columns += ("r = R/ln T", "± std", f"÷ {REFERENCE}", "± std") + ("paper time",) * printed + ("CPU time",)
    rows, previous_panel = [], None
    for score in scores:
        row: tuple[str, ...] = ("" if score.panel == previous_panel else score.panel,) * several
        row += (score.method, score.setting + " (edge of the grid)" * score.at_edge)
        row += (_number(score.paper and score.paper[1]),) * printed
        # A single draw has no spread.
        spreads = (f"{score.r_std:.2f}", f"{score.ratio_std:.3f}") if len(score.traces) > 1 else ("", "")
        row += (_number(score.r), spreads[0], f"{score.ratio:.3f}", spreads[1])
        row += (seconds(score.paper and score.paper[2]),) * printed
        rows.append((*row, seconds(score.seconds)))
        previous_panel = score.panel
    return columns, rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """Return a time as text, "" for None."""
    return "" if value is None else f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def notes(scores: Sequence[Score], rivals: Sequence[str]) -> list[str]:
    """Return notes on whether the reference method has less regret than its rivals, and on incomparable numbers."""
    sentences = []
    by_panel: dict[str, dict[str, Score]] = {}
    for score in scores:
        by_panel.setdefault(score.panel, {})[score.method] = score
    for panel, of in by_panel.items():
        against = next((score for name, score in of.items() if name.startswith(REFERENCE)), None)
        rival_scores = [of[name] for name in rivals if name in of]
        if against is None or not rival_scores:
            continue
        beaten = [score for score in rival_scores if against.r < score.r]
        not_beaten = [score for score in rival_scores if against.r >= score.r]
        text = f"{panel}: {against.method} has less regret than " + (_list(beaten) or "none of the paper's rivals")
        sentences.append(text + (f", but not than {_list(not_beaten)}." if not_beaten else "."))
    sizes = {(score.paper[0], score.examples) for score in scores if score.paper and score.paper[0] != score.examples}
    for size, n in sorted(sizes):
        sentences.append(f"The paper's numbers are at {size:,} examples, ours here at {n:,}: they are not comparable.")
    return sentences


def _list(scores: Sequence[Score]) -> str:
    return ", ".join(f"{score.method} ({score.r:.1f})" for score in scores)


def curve_rows(traces: Iterable[Trace], shown: Iterable[Trace]) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of every curve of every learner of every grid, marked by whether tables and pictures show it."""
    shown_curves = {(trace.panel, trace.method, trace.setting) for trace in shown}
    for trace in traces:
        curve_id = (trace.panel, trace.method, trace.setting)
        regrets: list[tuple[float | None, float | None]] = [(None, None)] * len(trace.example)
        if trace.regret is not None:
            regrets = [(_finite(a), _finite(b)) for a, b in zip(trace.regret, trace.normalized, strict=True)]
        for example, loss, regret in zip(trace.example, trace.loss, regrets, strict=True):
            yield (*curve_id, int(curve_id in shown_curves), trace.draw, int(example), _finite(loss), *regret)


def summary_rows(scores: Sequence[Score]) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of the table in full precision."""
    for score in scores:
        size, *paper = (score.paper[0], *map(_finite, score.paper[1:])) if score.paper else ("", "", "")
        values = map(_finite, (score.r, score.r_std, score.ratio, score.ratio_std))
        head = (score.panel, score.method, score.setting, score.examples, len(score.traces))
        yield (*head, size, paper[0], *values, paper[1], _finite(score.seconds))


def _finite(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else float(value)
