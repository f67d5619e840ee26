"""Curves in panels side by side, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayou.plots import COLOURS, INK, grid
from bayou.reproduce.experiment import Report


def by_pass(gaps: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return passes and the gap after each, bounded below for a logarithmic axis."""
    return np.arange(1, len(gaps) + 1), np.maximum(gaps, 1e-9)


def draw(
    report: Report,
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]],
    labels: tuple[str, str],
    *,
    logarithmic: str = "y",
    marks: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> None:
    """Draw panels, {title: {label: (x, y)}}; `marks` are the paper's numbers, as (x, y) by panel."""
    with report.picture(5.2 * len(panels) + 0.8, 4.4) as figure:
        panel_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, curves) in zip(panel_axes, panels.items(), strict=True):
            for index, (label, (x, y)) in enumerate(curves.items()):
                colour = COLOURS[index % len(COLOURS)]
                axes.plot(x, y, color=colour, linewidth=2, marker="o", markersize=3.5, label=label)
            if marks and title in marks:
                axes.plot(
                    *zip(*marks[title], strict=True), "D", markersize=7, color=INK, markerfacecolor="none",
                    label="the paper",
                )  # fmt: skip
            axes.set(title=title, xlabel=labels[0], **{f"{axis}scale": "log" for axis in logarithmic})
            grid(axes)
            axes.legend(frameon=False, fontsize=8.5)
        panel_axes[0].set_ylabel(labels[1])
