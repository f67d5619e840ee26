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
    found = {}
    for method in methods:
        by_setting: dict[str, list[Trace]] = {}
        for trace in traces:
            if trace.method == method.name:
                by_setting.setdefault(trace.setting, []).append(trace)
        means = {setting: np.mean([height(trace) for trace in some]) for setting, some in by_setting.items()}
        chosen, order = min(means, key=lambda setting: means[setting]), list(means)
        at_edge = len(order) > 1 and chosen in (order[0], order[-1])
        found[method.name] = Best(chosen, tuple(by_setting[chosen]), at_edge)
    return found


def scores(panel: Panel, traces: Iterable[Trace]) -> list[Score]:
    """Return the scores of a panel's methods, in order, each at the setting with the smallest mean final regret."""
    chosen = best(panel.methods, [trace for trace in traces if trace.panel == panel.name], final_r)
    against = next((name for name in chosen if name.startswith(REFERENCE)), next(iter(chosen)))
    reference = np.array([final_r(trace) for trace in chosen[against].traces])
    found = []
    for name, at in chosen.items():
        r = np.array([final_r(trace) for trace in at.traces])
        ratio, examples = r / reference, int(at.traces[0].example[-1])
        found.append(
            Score(
                panel.name, name, at.setting, examples, float(r.mean()), float(r.std()),
                float(ratio.mean()), float(ratio.std()), float(np.mean([trace.seconds for trace in at.traces])),
                at.at_edge, paper_number(panel, name, examples), at.traces,
            )
        )  # fmt: skip
    return found


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
    rows, before = [], None
    for score in scores:
        row: tuple[str, ...] = ("" if score.panel == before else score.panel,) * several
        row += (score.method, score.setting + " (edge of the grid)" * score.at_edge)
        row += (_number(score.paper and score.paper[1]),) * printed
        # A single draw has no spread.
        spreads = (f"{score.r_std:.2f}", f"{score.ratio_std:.3f}") if len(score.traces) > 1 else ("", "")
        row += (_number(score.r), spreads[0], f"{score.ratio:.3f}", spreads[1])
        row += (seconds(score.paper and score.paper[2]),) * printed
        rows.append((*row, seconds(score.seconds)))
        before = score.panel
    return columns, rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """Return a time as text, "" for None."""
    return "" if value is None else f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def notes(found: Sequence[Score], rivals: Sequence[str]) -> list[str]:
    """Return notes on whether the reference method has less regret than its rivals, and on incomparable numbers."""
    said = []
    by_panel: dict[str, dict[str, Score]] = {}
    for score in found:
        by_panel.setdefault(score.panel, {})[score.method] = score
    for panel, of in by_panel.items():
        against = next((score for name, score in of.items() if name.startswith(REFERENCE)), None)
        here = [of[name] for name in rivals if name in of]
        if against is None or not here:
            continue
        below = [score for score in here if against.r < score.r]
        above = [score for score in here if against.r >= score.r]
        text = f"{panel}: {against.method} has less regret than " + (_list(below) or "none of the paper's rivals")
        said.append(text + (f", but not than {_list(above)}." if above else "."))
    sizes = {(score.paper[0], score.examples) for score in found if score.paper and score.paper[0] != score.examples}
    for size, ours in sorted(sizes):
        said.append(f"The paper's numbers are at {size:,} examples, ours here at {ours:,}: they are not comparable.")
    return said


def _list(some: Sequence[Score]) -> str:
    return ", ".join(f"{score.method} ({score.r:.1f})" for score in some)


def curve_rows(traces: Iterable[Trace], shown: Iterable[Trace]) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of every curve of every learner of every grid, marked by whether tables and pictures show it."""
    chosen = {(trace.panel, trace.method, trace.setting) for trace in shown}
    for trace in traces:
        who = (trace.panel, trace.method, trace.setting)
        regrets: list[tuple[float | None, float | None]] = [(None, None)] * len(trace.example)
        if trace.regret is not None:
            regrets = [(_finite(a), _finite(b)) for a, b in zip(trace.regret, trace.normalized, strict=True)]
        for example, loss, regret in zip(trace.example, trace.loss, regrets, strict=True):
            yield (*who, int(who in chosen), trace.draw, int(example), _finite(loss), *regret)


def summary_rows(scores: Sequence[Score]) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of the table in full precision."""
    for score in scores:
        size, *paper = (score.paper[0], *map(_finite, score.paper[1:])) if score.paper else ("", "", "")
        numbers = map(_finite, (score.r, score.r_std, score.ratio, score.ratio_std))
        head = (score.panel, score.method, score.setting, score.examples, len(score.traces))
        yield (*head, size, paper[0], *numbers, paper[1], _finite(score.seconds))


def _finite(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else float(value)
