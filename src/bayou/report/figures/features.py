"""Figures of features and columns: their weights, and their inclusion probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.prediction import z_score
from bayou.outputs.features import ColumnStrength, FeatureStrengths
from bayou.outputs.group_priors import GroupPrior, group_priors
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
    caption = (
        "The standard deviation over the rows of each column's part of the score: a column whose values hardly differ "
        "in their weights, or that nearly always has the same value, moves little. Hover over one for its most telling "
        "values."
    )
    if priors:
        views.append(_priors_view(priors))
        caption += (
            " “Prior scale”: how large the weights of a column are expected to be before any of them is known, as "
            "learned from its others: a new value of a column at the top may say a lot, one at the bottom very little."
        )
    return Figure("columns", "Columns", caption, views, height=_height(views), wide=True)


def _columns_view(view: str, strengths: FeatureStrengths, columns: list[ColumnStrength]) -> View:
    custom = [
        [
            draw.escaped(sentences.shortened(column.name, 80)),
            sentences.count(column.features, "feature"),
            "<br>".join(
                f"{sentences.signed(strengths.mean[i])} {draw.escaped(sentences.shortened(strengths.name(i), 60))}"
                for i in column.top_features[:NAMED_VALUES].tolist()
            ),
        ]
        for column in columns
    ]
    sizes, names = [column.spread for column in columns], [column.name for column in columns]
    hover = "moves the score by %{x:.3g} (sd)<br>%{customdata[2]}"
    return _bars_view(
        sentences.shortened(view, 16), names, sizes, "how far it moves the score from row to row (sd)", custom, hover
    )


def _priors_view(priors: list[GroupPrior]) -> View:
    custom = [
        [draw.escaped(sentences.shortened(prior.name, 80)), sentences.count(prior.features, "feature")]
        for prior in priors
    ]
    sizes, names = [prior.sd for prior in priors], [prior.name for prior in priors]
    hover = "weights of about %{x:.3g}"
    return _bars_view("prior scale", names, sizes, "weights of about (sd of the learned prior)", custom, hover)


def _bars_view(
    view: str, names: list[str], sizes: list[float], title: str, custom: list[list[str]], hover: str
) -> View:
    """Return a view with one bar per column. Hover texts begin with the two entries of `custom`, then `hover`."""
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": sizes,
        "y": list(range(len(sizes))),
        "marker": {"color": "@blue/65"},
        "customdata": custom,
        "hovertemplate": f"<b>%{{customdata[0]}}</b>, %{{customdata[1]}}<br>{hover}<extra></extra>",
    }
    return View(view, [bars], _named_rows(names, draw.axis(title, rangemode="tozero")))


def features(facts: RunFacts) -> Figure | None:
    if facts.is_multiclass:
        return _features_of_classes(facts)
    strengths = facts.strengths
    orders = (("carry the most", "share"), ("largest", "mean"), ("surest", "z"))
    views = [_weights_view(name, strengths, top) for name, by in orders if len(top := strengths.top(DRAWN, by))]
    if not views:
        return None
    intervals = " with 95% intervals" if strengths.sd is not None else ""
    pull = "make the number larger" if facts.is_regression else "make a positive more likely"
    caption = (
        f"Weights{intervals}. Right of 0 they {pull}, left of it the opposite. “Carry the most”: by each "
        "feature's share of the variance of the scores; a large weight of a rare feature carries little."
    )
    if strengths.centred_columns:
        caption += " Of a column that every row has a value of, 0 is the mean over the rows."
    if not facts.learner.record.linear:
        caption += f" The {facts.learner.name}'s score is not just their sum: they are a linear picture of it."
    return Figure("features", "Features", caption, views, height=_height(views), wide=True)


def pairs(facts: RunFacts) -> Figure | None:
    if not has_pairs(facts.learner):
        return None
    lanes = pair_strengths(facts.learner)
    if not len(lanes.mean):
        return None
    views = [_pairs_view(name, lanes, lanes.top(DRAWN, by)) for name, by in (("largest", "mean"), ("surest", "z"))]
    caption = (
        f"What two features say only together, with 95% intervals, of {sentences.count(len(lanes.mean), 'pair')} "
        "seen. Right of 0, both together make a positive more likely than each does alone."
    )
    return Figure("pairs", "Pairs of features", caption, views, height=_height(views), wide=True)


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


def _features_of_classes(facts: RunFacts) -> Figure | None:
    """Return a figure with a view for each of the commonest classes."""
    views = [
        _weights_view(sentences.shortened(name, 16), strengths, top)
        for name, strengths in facts.class_strengths
        if len(top := strengths.top(DRAWN, "share"))
    ]
    if not views:
        return None
    intervals = " with 95% intervals" if facts.strengths.sd is not None else ""
    caption = (
        f"For each of the commonest classes, the weights that carry the most{intervals}, against the average class: "
        "right of 0 they speak for it, left of it against it. They are a linear picture of the score."
    )
    if facts.strengths.centred_columns:
        caption += " Of a column that every row has a value of, 0 is the mean over the rows."
    return Figure("features", "Features of each class", caption, views, height=_height(views), wide=True)


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
    expected = float(strengths.inclusion.sum())
    caption = (
        "The probability that a feature is needed at all, next to its weight. Of "
        f"{sentences.count(len(strengths), 'feature')} seen, {expected:,.0f} are expected to be needed."
    )
    height = 110 + 22 * max(len(top), 8)
    return Figure("inclusion", "Which features are needed", caption, views, height=height, wide=True)


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
