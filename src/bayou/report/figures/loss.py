"""Figures of the loss over time, for one learner and for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayou.report import sentences
from bayou.report.facts import ReportedRun, RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import PALETTE, Figure, View

# Squared losses that differ by this factor get a logarithmic axis, so that outliers do not flatten the curve.
STEEP = 20.0


def loss(facts: RunFacts) -> Figure:
    curve = facts.result.curve
    example, loss = curve["example"], curve[facts.run.loss_name]
    last = facts.result.examples
    ends = np.array([example[0], last])
    recent = example >= min(100, last)  # earlier points average a handful of examples
    if len(example) > 2 and 4 * (example[-1] - example[-2]) < example[-2] - example[-3]:
        recent[-1] = False  # and so does a last point soon after the one before
    data = [
        draw.line(example[recent], curve["window_loss"][recent], "recent", "@blue/55", width=1.2, mode="lines+markers"),
        draw.line(example, loss, "so far", "@blue", width=2.6),
    ]
    heights = list(loss[example >= min(50, last)]) + list(curve["window_loss"][recent])
    if facts.base_loss:
        heights.append(facts.base_loss)
        guess = "always the mean so far" if facts.is_regression else "always the share of positives"
        guess = "always the shares of the classes" if facts.is_multiclass else guess
        data.append(draw.line(ends, np.full(2, facts.base_loss), guess, "@grey", dash="dash"))
    held_out_loss = facts.run.loss_of(facts.run.held_out)
    if held_out_loss is not None:
        heights.append(held_out_loss)
        data.append(draw.line(ends, np.full(2, held_out_loss), "held out", "@orange", dash="dot"))
    views = [View("", data, _layout(facts.run.loss_name, heights, last))]
    return Figure("loss", "Loss over time", views, wide=True)


def compared(runs: Sequence[ReportedRun]) -> Figure:
    """Return the learning curves of several runs, given in order, the best first."""
    data, heights, last = [], [], 1
    for k, run in enumerate(runs):
        curve = run.result.curve
        is_drawn = curve["example"] >= min(10, run.result.examples)
        name = f"{draw.escaped(run.name)} · {sentences.number(run.loss)}"
        # Nine colors, then the same dashed.
        dash = "solid" if k < len(PALETTE) else "dash"
        loss = curve[run.loss_name]
        data.append(
            draw.line(curve["example"][is_drawn], loss[is_drawn], name, PALETTE[k % len(PALETTE)], width=2.2, dash=dash)
        )
        heights += list(loss[curve["example"] >= min(100, run.result.examples)])
        last = max(last, run.result.examples)
    views = [View("", data, _layout(runs[0].loss_name, heights, last))]
    return Figure("compared", "Loss of each", views, height=400, wide=True)


def _layout(loss_name: str, heights: list[float], last: int) -> dict[str, Any]:
    """Return axes that fit losses of these heights over `last` examples."""
    title, spread = loss_name.replace("_", " "), np.quantile(heights, [0.1, 0.9])
    if loss_name == "squared_loss" and 0.0 < STEEP * spread[0] < spread[1]:
        low, high = np.log10([min(height for height in heights if height > 0.0), max(heights)])
        y = draw.axis(title, type="log", range=draw.numbers([low - 0.1, high + 0.1]), tickformat="~s", nticks=6)
    else:
        low, high = min(heights), max(heights)
        margin = 0.08 * (high - low) or 0.05
        y = draw.axis(title, range=draw.numbers([max(low - margin, 0.0), high + margin]))
    return draw.layout(draw.examples_axis(min(10, last), last), y, "x unified")
