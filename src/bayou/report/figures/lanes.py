"""Figure of a bank's lanes: their weights and losses over time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayou.report.facts import RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import PALETTE, Figure, View

# The heaviest lanes have a color each; the others are one gray band.
LANES = len(PALETTE)
OTHERS = "@grey"


def lanes(facts: RunFacts) -> Figure | None:
    looks = list(facts.run.recorder.looks)
    if facts.parts and (not looks or looks[-1][0] < facts.run.recorder.examples):
        looks.append((facts.run.recorder.examples, facts.learner.parts()))
    if not facts.parts or not looks:
        return None
    example = np.array([examples for examples, _ in looks])
    names = list(dict.fromkeys(lane["name"] for _, lane_states in looks for lane in lane_states if "weight" in lane))
    weight = np.array([_column(lane_states, "weight", names, 0.0) for _, lane_states in looks])
    loss = np.array([_column(lane_states, "loss", names, math.nan) for _, lane_states in looks])
    order = sorted(range(len(names)), key=lambda k: -float(weight[:, k].max()))
    listed = sorted(order[:LANES])
    others = sorted(order[LANES:])
    x = draw.examples_axis(float(example[0]), float(example[-1]))
    shares = draw.layout(x, draw.axis("weight in the mixture", range=[0, 1], tickformat=".0%"), "x unified")
    views = [View("weight", _lane_areas(example, weight, names, listed, others), shares)]
    bank_loss = [next((p["loss"] for p in lane_states if "share" in p), math.nan) for _, lane_states in looks]
    if np.isfinite(bank_loss).all():
        views.append(_lane_losses(example, loss - np.array(bank_loss)[:, None], names, listed, x))
    return Figure("lanes", f"Inside the {facts.learner.name}", views, height=400, wide=True)


def _column(lane_states: list[dict[str, Any]], quantity: str, names: list[str], absent: float) -> list[float]:
    by_name = {lane["name"]: lane[quantity] for lane in lane_states if "weight" in lane and quantity in lane}
    return [float(by_name.get(name, absent)) for name in names]


def _lane_areas(
    example: np.ndarray, weight: np.ndarray, names: list[str], listed: list[int], others: list[int]
) -> list[dict[str, Any]]:
    bands = [(names[k], weight[:, k], PALETTE[rank]) for rank, k in enumerate(listed)]
    if others:
        bands.append((f"{len(others)} others", weight[:, others].sum(axis=1), OTHERS))
    return [
        draw.area(example, height, draw.escaped(name), colour, 65, "%{y:.1%}", width=0.6)
        for name, height, colour in bands
    ]


def _lane_losses(example: np.ndarray, gaps: np.ndarray, names: list[str], drawn: list[int], x: dict[str, Any]) -> View:
    data = [
        draw.line(example, gaps[:, k], draw.escaped(names[k]), PALETTE[rank], width=1.8, hover="%{y:+.4f}")
        for rank, k in enumerate(drawn)
    ]
    settled = gaps[example >= example[-1] / 30][:, drawn]
    settled = settled[np.isfinite(settled)]
    low, high = (float(settled.min()), float(settled.max())) if settled.size else (0.0, 1.0)
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.08 * (high - low) or 0.01
    y = draw.axis("loss minus that of the whole", range=draw.numbers([low - margin, high + margin]), zeroline=True)
    return View("loss", data, draw.layout(x, y, "x unified"))
