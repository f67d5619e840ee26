"""Figures of probabilities: calibration, and distribution by label."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit

from bayou.core.prediction import z_score
from bayou.report import sentences
from bayou.report.facts import RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import Figure, View

# A confusion matrix of at most this many classes takes half the page.
HALF = 5


def reliability(facts: RunFacts) -> Figure:
    groups = facts.result.reliability
    p, rate, mass = groups["probability"], groups["rate"], groups["mass"]
    # Number of examples of average weight that each group's weight amounts to.
    n = mass * (facts.result.examples / mass.sum())
    low, high = wilson(rate, n)
    top = min(1.0, 1.08 * max(float(p.max()), float(high.max())))
    custom = [
        [sentences.percent(a), sentences.percent(b), sentences.percent(c), sentences.percent(d), f"{e:,.0f}"]
        for a, b, c, d, e in zip(p, rate, low, high, n, strict=True)
    ]
    scale = {"range": draw.numbers([0.0, top]), "tickformat": ".0%" if top > 0.1 else ".1%" if top > 0.01 else ".2%"}
    views = [View("plain", _groups(p, rate, low, high, custom, top), _against(scale))]
    min_rate = 0.5 / n.sum()  # a rate of 0 has no log-odds
    p, rate, low, high = (logit(np.clip(column, min_rate, 1.0 - min_rate)) for column in (p, rate, low, high))
    ends = float(min(p.min(), rate.min())) - 0.5, float(max(p.max(), rate.max())) + 0.5
    scale = {"range": draw.numbers(ends)} | draw.odds_ticks(*ends)
    views.append(View("log-odds", _groups(p, rate, low, high, custom, ends[1], ends[0]), _against(scale)))
    wide = facts.is_multiclass and len(facts.result.classes["label"]) > HALF
    return Figure("reliability", "Do the probabilities hold?", views, wide=wide)


def _against(scale: dict[str, Any]) -> dict[str, Any]:
    return draw.layout(draw.axis("predicted", **scale), draw.axis("observed", **scale), showlegend=False)


def _groups(
    p: np.ndarray,
    rate: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    custom: list[Any],
    top: float,
    bottom: float = 0.0,
) -> list[dict[str, Any]]:
    hover = (
        "predicted %{customdata[0]}<br>observed %{customdata[1]} (%{customdata[2]} to %{customdata[3]})"
        "<br>%{customdata[4]} examples<extra></extra>"
    )
    style: dict[str, Any] = {"name": "predictions", "cliponaxis": False, "error_y": draw.intervals(rate, low, high)}
    return [draw.diagonal(bottom, top), draw.dots(p, rate, {"color": "@blue", "size": 8}, custom, hover, **style)]


def wilson(rate: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's 95% interval of a rate observed in n trials."""
    z = z_score(0.95)
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return np.minimum(np.clip(middle - half, 0.0, 1.0), rate), np.maximum(np.clip(middle + half, 0.0, 1.0), rate)


def scores(facts: RunFacts) -> Figure | None:
    sample = facts.sample
    if not len(sample):
        return None
    odds = logit(np.clip(sample.expected, 1e-9, 1 - 1e-9))
    edges = draw.bin_edges(odds)
    data = []
    for name, has_label, colour in (
        ("negatives", sample.label == 0, "@orange"),
        ("positives", sample.label > 0, "@blue"),
    ):
        if has_label.any():
            data.append(draw.bars(edges, odds[has_label], sample.stream_weight[has_label], name, colour, log_odds=True))
    x = draw.axis("predicted probability, on a log-odds scale", **draw.odds_ticks(edges[0], edges[-1]))
    views = [View("", data, draw.histogram_layout(x, draw.axis("share of that label", tickformat=".0%")))]
    return Figure("scores", "Predictions by label", views)
