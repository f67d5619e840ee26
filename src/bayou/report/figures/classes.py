"""Figures of multiclass predictions: the confusion matrix, and the calibration of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.report import sentences
from bayou.report.facts import CLASSES, RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import Figure, View
from bayou.report.figures.predictions import HALF, wilson

# Number of classes in the confusion matrix, the commonest; cells are labeled up to WRITTEN classes.
TABLE, WRITTEN = 24, 9
OTHERS = "all others"
# Plots of single classes side by side.
COLUMNS = 3


def confusion(facts: RunFacts) -> Figure | None:
    table, names = _table(facts)
    if not table.sum():
        return None
    n = len(names)
    views = [
        _shares("of the actual", table, names, table.sum(axis=1, keepdims=True)),
        _shares("of the predicted", table, names, table.sum(axis=0, keepdims=True)),
    ]
    height = 340 if n <= HALF else 120 + 42 * n if n <= WRITTEN else 150 + 24 * n
    return Figure("confusion", "Which class is taken for which", views, height=height, wide=n > HALF)


def _table(facts: RunFacts) -> tuple[np.ndarray, list[str]]:
    """Return the confusion matrix by weight, actual classes down, and its names; rare classes are merged into one."""
    full, labels = facts.result.confusion, facts.result.classes["label"]
    names = facts.class_names(labels[: len(full)])
    if len(full) <= TABLE and len(names) == len(full):
        return full, names
    position = np.minimum(np.arange(len(full)), TABLE)
    table = np.zeros((TABLE + 1, TABLE + 1))
    np.add.at(table, np.ix_(position, position), full)
    return table, [*names[:TABLE], OTHERS]


def _shares(view: str, table: np.ndarray, names: list[str], totals: np.ndarray) -> View:
    shares = np.divide(table, totals, out=np.zeros_like(table), where=totals > 0)
    labels, n = [draw.escaped(sentences.shortened(name, 30)) for name in names], len(names)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    custom = [
        [
            [
                labels[i],
                labels[j],
                f"{table[i, j]:,.0f}",
                sentences.percent(float(table[i, j] / rows[i])) if rows[i] else "–",
                sentences.percent(float(table[i, j] / columns[j])) if columns[j] else "–",
            ]
            for j in range(n)
        ]
        for i in range(n)
    ]
    fields: dict[str, Any] = {
        "type": "heatmap",
        "x": list(range(n)),
        "y": list(range(n)),
        "z": [draw.numbers(row) for row in shares],
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": [[0.0, "@card"], [1.0, "@blue"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "customdata": custom,
        "hovertemplate": "<b>%{customdata[0]}</b> predicted as <b>%{customdata[1]}</b><br>%{customdata[2]} rows"
        "<br>%{customdata[3]} of the actual, %{customdata[4]} of the predicted<extra></extra>",
    }
    if n <= WRITTEN:
        fields["text"] = [[sentences.percent(float(p)) if p > 0 else "" for p in row] for row in shares]
        fields["texttemplate"] = "%{text}"
    ticks: dict[str, Any] = {"tickvals": list(range(n)), "ticks": "", "fixedrange": True}
    ticks |= {"zeroline": False, "showgrid": False}
    short = [draw.escaped(sentences.shortened(name, 14)) for name in names]
    x = draw.axis("predicted", **ticks, ticktext=short, range=[-0.5, n - 0.5], tickangle=0 if n <= 5 else -45)
    y = draw.axis("actual", **ticks, ticktext=labels, range=[n - 0.5, -0.5])
    return View(view, [fields], draw.layout(x, y, showlegend=False))


def class_reliability(facts: RunFacts) -> Figure | None:
    """Return a figure with a small calibration plot for each of the commonest classes."""
    result = facts.result
    curves = [curve for curve in result.class_reliability[:CLASSES] if len(curve["mass"])]
    if not curves:
        return None
    names, n = facts.class_names(result.classes["label"]), len(curves)
    lines = -(-n // COLUMNS)
    data: list[dict[str, Any]] = []
    # page.js wraps the grid to the width of the page: a phone has room for two columns.
    grid = {"rows": lines, "columns": min(COLUMNS, n), "pattern": "independent", "xgap": 0.2, "ygap": 0.3}
    arranged: dict[str, Any] = {"showlegend": False, "hovermode": "closest", "grid": grid, "annotations": []}
    for k, curve in enumerate(curves):
        suffix = "" if k == 0 else str(k + 1)
        traces, top = _curve(facts, curve, names[k])
        data += [trace | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"} for trace in traces]
        scale = {"range": draw.numbers([-0.03 * top, top]), "tickformat": ".0%" if top > 0.1 else ".1%", "nticks": 4}
        arranged[f"xaxis{suffix}"] = arranged[f"yaxis{suffix}"] = scale | {"fixedrange": True}
        title = {"text": draw.escaped(sentences.shortened(names[k], 16)), "showarrow": False, "font": {"color": "@ink"}}
        position = {"xref": f"x{suffix} domain", "yref": f"y{suffix} domain", "xanchor": "left", "yanchor": "bottom"}
        arranged["annotations"].append(title | position | {"x": 0.0, "y": 1.0})
    question, views = "Do the probabilities of each class hold?", [View("", data, arranged)]
    return Figure("class-reliability", question, views, height=80 + 200 * lines, wide=True)


def _curve(facts: RunFacts, curve: dict[str, np.ndarray], name: str) -> tuple[list[dict[str, Any]], float]:
    """Return the traces of one class's calibration curve, and the upper end of its axes."""
    p, rate, mass = curve["probability"], curve["rate"], curve["mass"]
    n = mass * (facts.result.examples / mass.sum())
    low, high = wilson(rate, n)
    top = min(1.03, 1.08 * max(float(p.max()), float(high.max())))
    custom = [
        [draw.escaped(sentences.shortened(name, 40)), sentences.percent(a), sentences.percent(b), f"{c:,.0f}"]
        for a, b, c in zip(p, rate, n, strict=True)
    ]
    hover = (
        "<b>%{customdata[0]}</b><br>predicted %{customdata[1]}, observed %{customdata[2]}"
        "<br>%{customdata[3]} rows<extra></extra>"
    )
    style: dict[str, Any] = {"mode": "lines+markers", "cliponaxis": False, "line": {"color": "@blue/55", "width": 1.2}}
    bars = draw.intervals(rate, low, high, thickness=1.2)
    curve_trace = draw.dots(p, rate, {"color": "@blue", "size": 5}, custom, hover, error_y=bars, **style)
    return [draw.diagonal(0.0, min(top, 1.0), width=1.0), curve_trace], top
