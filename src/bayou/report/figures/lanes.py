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
    names = list(dict.fromkeys(part["name"] for _, parts in looks for part in parts if "weight" in part))
    weight = np.array([_column(parts, "weight", names, 0.0) for _, parts in looks])
    loss = np.array([_column(parts, "loss", names, math.nan) for _, parts in looks])
    order = sorted(range(len(names)), key=lambda k: -float(weight[:, k].max()))
    shown = sorted(order[:LANES])
    rest = sorted(order[LANES:])
    x = draw.examples_axis(float(example[0]), float(example[-1]))
    shares = draw.layout(x, draw.axis("weight in the mixture", range=[0, 1], tickformat=".0%"), "x unified")
    views = [View("weight", _lane_areas(example, weight, names, shown, rest), shares)]
    whole = [next((p["loss"] for p in parts if "share" in p), math.nan) for _, parts in looks]
    if np.isfinite(whole).all():
        views.append(_lane_losses(example, loss - np.array(whole)[:, None], names, shown, x))
    how = (
        "The lanes are learners with different priors that learn side by side. Weight: how much each counts, by how "
        "well it has predicted. Loss: its own mean loss so far minus that of the whole; above 0 it does worse."
    )
    return Figure("lanes", f"Inside the {facts.learner.name}", how, views, height=400, wide=True)


def _column(parts: list[dict[str, Any]], what: str, names: list[str], absent: float) -> list[float]:
    there = {part["name"]: part[what] for part in parts if "weight" in part and what in part}
    return [float(there.get(name, absent)) for name in names]


def _lane_areas(
    example: np.ndarray, weight: np.ndarray, names: list[str], shown: list[int], rest: list[int]
) -> list[dict[str, Any]]:
    bands = [(names[k], weight[:, k], PALETTE[place]) for place, k in enumerate(shown)]
    if rest:
        bands.append((f"{len(rest)} others", weight[:, rest].sum(axis=1), OTHERS))
    return [
        draw.area(example, height, draw.escaped(name), colour, 65, "%{y:.1%}", width=0.6)
        for name, height, colour in bands
    ]


def _lane_losses(example: np.ndarray, above: np.ndarray, names: list[str], shown: list[int], x: dict[str, Any]) -> View:
    data = [
        draw.line(example, above[:, k], draw.escaped(names[k]), PALETTE[place], width=1.8, hover="%{y:+.4f}")
        for place, k in enumerate(shown)
    ]
    settled = above[example >= example[-1] / 30][:, shown]
    settled = settled[np.isfinite(settled)]
    low, high = (float(settled.min()), float(settled.max())) if settled.size else (0.0, 1.0)
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.08 * (high - low) or 0.01
    y = draw.axis("loss minus that of the whole", range=draw.numbers([low - room, high + room]), zeroline=True)
    return View("loss", data, draw.layout(x, y, "x unified"))
