"""Building blocks of figures: lines, bars, axes, and conversion of numbers and text."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayou.core.printable import printable
from bayou.report import sentences
from bayou.report.facts import RunFacts
from bayou.report.recorder import Sample

# Maximum number of predictions, or features, that get a dot each.
DOTS = 1500
BINS = 48
PALETTE = [f"@c{k}" for k in range(9)]
# Probabilities at which a log-odds axis may have a tick.
TICKS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-5, 1 - 1e-6)
FINE_TICKS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35),
    *(0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998),
)


@dataclass(frozen=True)
class View:
    """View of a figure: its traces and layout."""

    name: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """Figure of the page, with one or several views to choose from; `captions.html` explains how to read it."""

    key: str
    title: str
    views: list[View]
    height: int = 340
    wide: bool = False
    note: str = ""  # what the caption says besides

    def plain(self) -> dict[str, Any]:
        """Return the dictionary that page.js reads."""
        height = {"height": self.height}
        views = [{"name": view.name, "data": view.data, "layout": view.layout | height} for view in self.views]
        return {"key": self.key, "views": views}


def axis(title: str, **fields: Any) -> dict[str, Any]:
    return {"title": {"text": title}} | fields


def layout(x: dict[str, Any], y: dict[str, Any], hover: str = "closest", **fields: Any) -> dict[str, Any]:
    return {"xaxis": x, "yaxis": y, "hovermode": hover} | fields


def histogram_layout(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {"barmode": "overlay", "bargap": 0.0, "xaxis": x, "yaxis": y}


def dots(
    x: np.ndarray, y: np.ndarray, marker: dict[str, Any], custom: list[Any], hover: str, **fields: Any
) -> dict[str, Any]:
    """Return a trace of dots whose hover texts are the template `hover`, filled with the values of `custom`."""
    trace = {"type": "scatter", "mode": "markers", "x": numbers(x), "y": numbers(y), "marker": marker}
    return trace | {"customdata": custom, "hovertemplate": hover} | fields


def area(x: np.ndarray, y: np.ndarray, name: str, colour: str, percent: int, hover: str, **edge: Any) -> dict[str, Any]:
    """Return an area that is stacked on those before it; its color is `percent` opaque."""
    trace = {"type": "scatter", "mode": "lines", "stackgroup": "one", "x": numbers(x), "y": numbers(y), "name": name}
    return trace | {"line": {"color": colour, **edge}, "fillcolor": f"{colour}/{percent}", "hovertemplate": hover}


def line(
    x: np.ndarray, y: np.ndarray, name: str, colour: str, width: float = 1.5, dash: str = "solid", mode: str = "lines",
    hover: str = "%{y:.4f}",
) -> dict[str, Any]:  # fmt: skip
    return {
        "type": "scatter",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "mode": mode if len(x) > 1 else "markers",
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 4},
        "hovertemplate": hover,
    }


def diagonal(bottom: float, top: float, width: float = 1.5) -> dict[str, Any]:
    """Return the dashed line of perfect calibration."""
    ends = np.array([bottom, top])
    trace = line(ends, ends, "perfect", "@grey", dash="dash", width=width)
    return trace | {"hoverinfo": "skip", "hovertemplate": None}


def intervals(rate: np.ndarray, low: np.ndarray, high: np.ndarray, thickness: float = 1.6) -> dict[str, Any]:
    """Return error bars from low to high."""
    ends = {"type": "data", "array": numbers(high - rate), "arrayminus": numbers(rate - low)}
    return ends | {"color": "@blue/55", "thickness": thickness, "width": 0}


def examples_axis(first: float, last: float) -> dict[str, Any]:
    """Return a logarithmic axis of examples seen, with some width even for a run of one example."""
    margin = 0.02 * math.log10(max(last / first, 2.0))
    ends = numbers([math.log10(first) - margin, math.log10(last) + margin])
    return axis("examples seen", type="log", range=ends, dtick=1, hoverformat=",d", tickformat="~s")


def odds_ticks(low: float, high: float) -> dict[str, Any]:
    """Return the ticks of a log-odds axis, labeled with probabilities."""
    ticks = [p for p in TICKS if low <= logit(p) <= high]
    if len(ticks) < 4:
        ticks = [p for p in FINE_TICKS if low <= logit(p) <= high]
    labels = [f"{100 * p:.10g}%" for p in ticks]
    return {"tickvals": numbers(logit(np.array(ticks))), "ticktext": labels, "tickangle": 0}


def bin_edges(values: np.ndarray, low: float | None = None, content: float = 0.998) -> np.ndarray:
    """Return edges of bins that span nearly all of the values; the outermost bins hold the rest."""
    first, last = np.quantile(values, [1.0 - content, content])
    first = float(first) if low is None else low
    if last - first < 1e-6:
        first, last = first - 0.5, last + 0.5
    return np.linspace(first, last, BINS + 1)


def usual(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of an axis without outliers: the middle 98%, extended by half its width on either side."""
    low, high = np.quantile(values, [0.01, 0.99])
    margin = 0.5 * (high - low)
    low, high = max(float(values.min()), float(low - margin)), min(float(values.max()), float(high + margin))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def bars(
    edges: np.ndarray, values: np.ndarray, mass: np.ndarray, name: str, colour: str, log_odds: bool = False
) -> dict[str, Any]:
    """Return a histogram of values, as fractions of their mass; hover texts show log-odds as probabilities."""
    heights = np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=mass)[0] / mass.sum()
    middle = (edges[1:] + edges[:-1]) / 2
    ends = [sentences.percent(p) for p in expit(edges)] if log_odds else [f"{edge:.3g}" for edge in edges]
    return {
        "type": "bar",
        "x": numbers(middle),
        "y": numbers(heights),
        "width": numbers(np.diff(edges)),
        "name": name,
        "marker": {"color": f"{colour}/55", "line": {"width": 0}},
        "customdata": [f"{low} to {high}" for low, high in pairwise(ends)],
        "hovertemplate": "%{customdata}: %{y:.1%}",
    }


def dotted(facts: RunFacts) -> np.ndarray:
    """Return the rows of the second half that get a dot."""
    mass = facts.second_half.stream_weight
    if len(mass) <= DOTS:
        return np.arange(len(mass))
    return np.sort(np.random.default_rng(0).choice(len(mass), DOTS, replace=False, p=mass / mass.sum()))


def row_label(sample: Sample, k: int) -> str:
    """Return the line or example number of row k of a sample, with its tag."""
    tag = sample.tags[k]
    return sentences.row_name(sample.line[k], sample.row[k]) + (
        f", {escaped(sentences.shortened(tag, 40))}" if tag else ""
    )


def numbers(values: Any) -> list[float | None]:
    """Return numbers for JSON with five digits, more than a screen shows; None for values that are not finite."""
    return [
        float(f"{value:.5g}") if math.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()
    ]


def escaped(text: str) -> str:
    return html.escape(printable(text), quote=False)
