"""Figures of features and columns: their weights, and their inclusion probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayou.core.prediction import z_score
from bayou.outputs.features import ColumnStrength, FeatureStrengths
from bayou.outputs.group_priors import group_priors
from bayou.outputs.pair_features import PairStrengths, has_pairs, pair_strengths
from bayou.report import sentences
from bayou.report.facts import DRAWN, UNNAMED, RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import DOTS, Figure, View

# Number of a column's values named in its hover text.
NAMED_VALUES = 5


def columns(facts: RunFacts) -> Figure | None:
    views = [
        _columns_view(name if facts.is_multiclass else "spread", strengths, strongest)
        for name, strengths in facts.class_strengths
        if (strongest := facts.columns_of(strengths))
    ]
    if not views:
        return None
    priors = [prior for prior in group_priors(facts.learner) if prior.column is not None]
    if priors:
        title, hover = "weights of about (sd of the learned prior)", "weights of about %{x:.3g}"
        views.append(_bars_view("prior scale", priors, [prior.sd for prior in priors], title, hover))
    return Figure("columns", "Columns", views, height=_height(views), wide=True)


def _columns_view(view: str, strengths: FeatureStrengths, columns: list[ColumnStrength]) -> View:
    values = [
        "<br>".join(
            f"{sentences.signed(strengths.mean[i])} {draw.escaped(sentences.shortened(strengths.name(i), 60))}"
            for i in column.top_features[:NAMED_VALUES].tolist()
        )
        for column in columns
    ]
    title, sizes = "how far it moves the score from row to row (sd)", [column.spread for column in columns]
    hover = "moves the score by %{x:.3g} (sd)<br>%{customdata[2]}"
    return _bars_view(sentences.shortened(view, 16), columns, sizes, title, hover, values)


def _bars_view(
    view: str, columns: Sequence[Any], sizes: list[float], title: str, hover: str, ends: Sequence[str] = ()
) -> View:
    """Return a view with one bar per column, each with a `name` and its number of `features`, for which hover texts
    have a line, then `hover` and the column's entry of `ends`.
    """
    about = [[draw.escaped(sentences.shortened(c.name, 80)), sentences.count(c.features, "feature")] for c in columns]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": sizes,
        "y": list(range(len(sizes))),
        "marker": {"color": "@blue/65"},
        "customdata": [[*line, end] for line, end in zip(about, ends, strict=True)] if ends else about,
        "hovertemplate": f"<b>%{{customdata[0]}}</b>, %{{customdata[1]}}<br>{hover}<extra></extra>",
    }
    return View(view, [bars], _named_rows([column.name for column in columns], draw.axis(title, rangemode="tozero")))


def features(facts: RunFacts) -> Figure | None:
    title, orders = "Features", (("carry the most", "share"), ("largest", "mean"), ("surest", "z"))
    listed = [(name, facts.strengths, by) for name, by in orders]
    if facts.is_multiclass:
        title = "Features of each class"
        listed = [(sentences.shortened(name, 16), strengths, "share") for name, strengths in facts.class_strengths]
    views = [_weights_view(name, of, top) for name, of, by in listed if len(top := of.top(DRAWN, by))]
    return Figure("features", title, views, height=_height(views), wide=True) if views else None


def pairs(facts: RunFacts) -> Figure | None:
    if not has_pairs(facts.learner):
        return None
    lanes = pair_strengths(facts.learner)
    if not len(lanes.mean):
        return None
    views = [_pairs_view(name, lanes, lanes.top(DRAWN, by)) for name, by in (("largest", "mean"), ("surest", "z"))]
    seen = sentences.count(len(lanes.mean), "pair")
    return Figure("pairs", "Pairs of features", views, height=_height(views), wide=True, note=seen)


def _pairs_view(name: str, strengths: PairStrengths, listed: list[int]) -> View:
    names, mean, sd = [strengths.name(k) for k in listed], strengths.mean[listed], strengths.sd[listed]
    custom = [[draw.escaped(sentences.shortened(n, 100)), f"{s:.3g}"] for n, s in zip(names, sd, strict=True)]
    hover = "weight %{x:+.3g} ± %{customdata[1]} (sd)"
    return _dots_view(name, names, mean, sd, custom, hover)


def _dots_view(
    view: str, names: list[str], mean: np.ndarray, sd: np.ndarray | None, custom: list[list[str]], hover: str
) -> View:
    """Return a view with a dot and a 95% interval for each weight."""
    marker = {"color": ["@blue" if weight >= 0 else "@orange" for weight in mean], "size": 8}
    hover = f"<b>%{{customdata[0]}}</b><br>{hover}<extra></extra>"
    trace = draw.dots(mean, mean, marker, custom, hover) | {"y": list(range(len(names)))}
    if sd is not None:
        ends = {"type": "data", "array": draw.numbers(z_score(0.95) * sd)}
        trace["error_x"] = ends | {"color": "@ink/45", "thickness": 1.6, "width": 0}
    return View(view, [trace], _named_rows(names, draw.axis("weight", zeroline=True)))


def _weights_view(name: str, strengths: FeatureStrengths, top: np.ndarray) -> View:
    mean, sd = strengths.mean[top], None if strengths.sd is None else strengths.sd[top]
    names = [strengths.name(k, UNNAMED) for k in top.tolist()]
    custom = [
        [
            draw.escaped(sentences.shortened(names[n], 80)),
            "" if sd is None else f" ± {sd[n]:.3g} (sd)",
            sentences.percent(strengths.seen[k]),
            sentences.percent(strengths.share[k]),
        ]
        for n, k in enumerate(top.tolist())
    ]
    hover = "weight %{x:+.3g}%{customdata[1]}<br>in %{customdata[2]} of the examples<br>carries %{customdata[3]}"
    return _dots_view(name, names, mean, sd, custom, hover)


def _height(views: list[View]) -> int:
    """Return the height of a figure with a row for each name."""
    return 110 + 22 * max(len(view.data[0]["y"]) for view in views)


def _named_rows(names: list[str], x: dict[str, Any]) -> dict[str, Any]:
    """Return the layout of a view with one row per name."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": [draw.escaped(sentences.shortened(n, 42)) for n in names]}
    y = {"range": [len(names) - 0.4, -0.6], "automargin": True, "fixedrange": True, "zeroline": False}
    return draw.layout(x, ticks | y, showlegend=False)


def inclusion(facts: RunFacts) -> Figure | None:
    strengths = facts.strengths
    if strengths.inclusion is None or not len(strengths):
        return None
    top = strengths.top(DRAWN, "inclusion")
    needed = draw.axis("probability that the feature is needed", range=[-0.02, 1.02], tickformat=".0%")
    by_weight = draw.layout(draw.axis("weight", zeroline=True), needed, showlegend=False)
    views = [View("all", [_needed(strengths, strengths.top(DOTS, "inclusion"))], by_weight)]
    if len(top):
        trace = _needed(strengths, top)
        trace["x"], trace["y"] = trace["y"], list(range(len(top)))
        trace["hovertemplate"] = trace["hovertemplate"].replace("%{y", "%{x")
        names = [strengths.name(k, UNNAMED) for k in top.tolist()]
        views.append(View("by name", [trace], _named_rows(names, needed)))
    height = 110 + 22 * max(len(top), 8)
    return Figure("inclusion", "Which features are needed", views, height=height, wide=True)


def _needed(strengths: FeatureStrengths, top: np.ndarray) -> dict[str, Any]:
    """Return a dot for each feature: its weight and its inclusion probability."""
    assert strengths.inclusion is not None
    custom = [
        [draw.escaped(sentences.shortened(strengths.name(k, UNNAMED), 80)), sentences.signed(strengths.mean[k])]
        for k in top.tolist()
    ]
    hover = "<b>%{customdata[0]}</b><br>needed with probability %{y:.3f}<br>weight %{customdata[1]}<extra></extra>"
    marker = {"color": "@blue/65", "size": 8}
    return draw.dots(strengths.mean[top], strengths.inclusion[top], marker, custom, hover, cliponaxis=False)
