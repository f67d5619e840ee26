"""Figures of regression: predicted against actual numbers, residuals and interval coverage over time.

A few outliers would flatten every plot, so axes span the usual range; outliers are drawn as triangles at the edge and
counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.evaluate.regression import LEVEL
from bayou.report import sentences
from bayou.report.facts import RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import Figure, View
from bayou.report.figures.predictions import wilson
from bayou.report.recorder import Sample

HOVER = "%{customdata[0]}<br>predicted %{customdata[1]}, actual %{customdata[2]}: %{customdata[3]}<extra></extra>"


def predicted(facts: RunFacts) -> Figure | None:
    sample = facts.second_half[draw.dotted(facts)]
    if not len(sample):
        return None
    low, high = draw.usual(np.concatenate([sample.expected, sample.label]))
    margin = 0.03 * (high - low)
    traces, beyond = _dots(sample, sample.expected, sample.label, (low, high), (low, high))
    ends = draw.numbers([low - margin, high + margin])
    axes = draw.layout(draw.axis("predicted", range=ends), draw.axis("actual", range=ends), showlegend=False)
    views = [View("", [draw.diagonal(low, high), *traces], axes)]
    note = _counted(beyond, len(sample))
    return Figure("predicted", "Predicted and actual numbers", views, wide=True, note=note)


def residuals(facts: RunFacts) -> Figure | None:
    """Return the residuals over time, with the 90% intervals."""
    sample = facts.sample
    if len(sample) < 2:
        return None
    missed, example = sample.label - sample.expected, facts.stretches[1]
    settled = missed[sample.row >= min(30, sample.row[-1])]
    low, high = draw.usual(settled if len(settled) else missed)
    data = []
    if facts.has_posterior:
        lower, upper = facts.interval(sample, LEVEL)
        reach = facts.averages((upper - lower) / 2.0)  # half the mean width of the intervals of each stretch
        low, high = min(low, -float(reach[-1])), max(high, float(reach[-1]))
        for sign in (1.0, -1.0):
            edge = np.clip(sign * reach, 2 * low, 2 * high)
            drawn = draw.line(example, edge, "90% intervals", "@orange", width=1.6, hover="%{y:.3g}")
            data.append(drawn | {"showlegend": sign > 0})
    # Spread evenly over the sample, so that early stretches show too.
    keep = np.unique(np.linspace(0, len(sample) - 1, draw.DOTS).astype(np.int64))
    drawn_rows = sample[keep]
    traces, beyond = _dots(drawn_rows, drawn_rows.row + 1.0, missed[keep], None, (low, high))
    margin = 0.04 * (high - low)
    x = draw.examples_axis(float(max(drawn_rows.row[0], 0) + 1), float(sample.row[-1] + 1))
    y = draw.axis("actual − predicted", range=draw.numbers([low - margin, high + margin]), zeroline=True)
    views = [View("", traces + data, draw.layout(x, y))]
    note = _counted(beyond, len(drawn_rows))
    return Figure("residuals", "What it missed, over time", views, wide=True, note=note)


def coverage(facts: RunFacts) -> Figure | None:
    """Return the fraction of numbers inside their 90% intervals, over time."""
    sample = facts.sample
    if not facts.has_posterior or len(sample) < 2 or facts.result.coverage is None:
        return None
    low, high = facts.interval(sample, LEVEL)
    segment, example = facts.stretches
    inside_rate = facts.averages(((low <= sample.label) & (sample.label <= high)).astype(np.float64))
    lower, upper = wilson(inside_rate, np.bincount(segment).astype(np.float64))
    ends = np.array([example[0], example[-1]])
    shares = draw.line(example, inside_rate, "inside", "@blue", width=1.6, mode="lines+markers", hover="%{y:.1%}")
    shares["error_y"] = draw.intervals(inside_rate, lower, upper, thickness=1.4)
    data = [shares, draw.line(ends, np.full(2, LEVEL), "right", "@grey", dash="dash", hover="%{y:.0%}")]
    bottom = min(0.5, float(lower[example >= min(100, example[-1])].min()) - 0.05)
    y = draw.axis("inside", range=draw.numbers([max(bottom, 0.0), 1.02]), tickformat=".0%")
    views = [View("", data, draw.layout(draw.examples_axis(float(example[0]), float(example[-1])), y, "x unified"))]
    return Figure("coverage", "Do the intervals hold?", views, wide=True)


def _dots(
    sample: Sample, x: np.ndarray, y: np.ndarray, across: tuple[float, float] | None, up: tuple[float, float]
) -> tuple[list[dict[str, Any]], int]:
    """Return a dot for each row, or a triangle at the edge if it lies beyond the axes, and the number of those."""
    left, right = across or (-np.inf, np.inf)
    out = (x < left) | (x > right) | (y < up[0]) | (y > up[1])
    symbol = np.select(
        [y > up[1], y < up[0], x > right, x < left],
        ["triangle-up", "triangle-down", "triangle-right", "triangle-left"],
        "circle",
    )
    traces = []
    for name, mask, marker in (
        ("predictions", ~out, {"color": "@blue/55", "size": 5}),
        ("beyond the axes", out, {"color": "@orange", "size": 9, "symbol": symbol[out].tolist()}),
    ):
        rows, text = sample[mask], sentences.number
        custom = [
            [draw.row_label(rows, k), text(expected), text(actual), sentences.signed(actual - expected)]
            for k, (expected, actual) in enumerate(zip(rows.expected, rows.label, strict=True))
        ]
        if custom:
            left_right, up_down = np.clip(x, left, right)[mask], np.clip(y, *up)[mask]
            marker |= {"line": {"width": 0}}
            traces.append(draw.dots(left_right, up_down, marker, custom, HOVER, name=name, cliponaxis=False))
    return traces, int(out.sum())


def _counted(beyond: int, n: int) -> str:
    if not beyond:
        return ""
    predicate = "lies beyond the axes and is" if beyond == 1 else "lie beyond the axes and are"
    return f" {beyond:,} of {n:,} {predicate} marked at the edge."
