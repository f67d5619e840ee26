"""Picture of `bayou compare`: the learning curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import colormaps

from bayou.core.printable import printable
from bayou.plots import picture
from bayou.runs.compare import Comparison

# Losses of the first few examples are noise and would flatten the rest.
FIRST = 100


def draw(path: Path, comparison: Comparison) -> None:
    """Draw the mean loss of all predictions so far, over the examples; the best learner is first in the legend."""
    with picture(path, 8.5, 5, dpi=120, pad=0.1) as figure:
        axes = figure.subplots()
        for rank, entrant in enumerate(comparison.ranked):
            curve = entrant.meter.curve()
            is_drawn = curve["example"] >= min(FIRST, curve["example"][-1:].max(initial=0))
            # Ten colors, then the same dashed.
            style: dict[str, Any] = {
                "color": colormaps["tab10"](rank % 10),
                "linestyle": "-" if rank < 10 else "--",
            }
            meter = entrant.meter
            loss, loss_name = meter.loss, meter.loss_name
            name = printable(entrant.spec).replace("$", r"\$") + ("" if loss is None else f", {loss:.4f}")
            axes.plot(curve["example"][is_drawn], curve[loss_name][is_drawn], linewidth=2, label=name, **style)
        axes.set_xscale("log")
        axes.set_xlabel("examples")
        loss_title = comparison.entrants[0].meter.loss_name.replace("_", " ")
        axes.set_ylabel(f"mean {loss_title} of predictions made before learning")
        axes.legend(frameon=False)
