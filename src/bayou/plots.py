"""Common style of all matplotlib figures: colors, settings, and saving to a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The object-oriented interface: no display is needed, and no state is shared with a caller's own plots.
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from bayou.outputs.text import output

INK, GREY, PALE = "#222222", "#8a8a8a", "#e6e6e6"
BLUE, ORANGE, GREEN, PURPLE, GOLD = "#1f6f8b", "#d9662b", "#3f8f4f", "#8a4f9e", "#c9a227"
PINK, SKY, NAVY, OCHRE = "#d14f7a", "#7fb2c4", "#16495c", "#a07f10"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD, PINK, SKY, NAVY, GREY, OCHRE)
STYLE: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "xtick.color": INK,
    "ytick.color": INK,
}
# For figures with a few large panels.
TITLES: Any = {"axes.titlepad": 14, "axes.titlesize": 12}


@contextmanager
def picture(
    path: Path, width: float, height: float, *, dpi: int = 110, pad: float | None = 0.08, style: Any = STYLE,
    **layout: Any,
) -> Iterator[Figure]:  # fmt: skip
    """Yield a figure in this style, sized in inches; write it, in the format of the suffix, if the block succeeds."""
    with rc_context(style), output(path) as file:
        layout_engine = ConstrainedLayoutEngine(w_pad=pad, h_pad=pad, **layout)
        figure = Figure(figsize=(width, height), dpi=dpi, layout=layout_engine)
        yield figure
        figure.savefig(file, format=path.suffix[1:])


def grid(axes: Any, axis: str = "y") -> None:
    """Draw pale lines behind the curves, across one axis."""
    axes.grid(axis=axis, color=PALE)
    axes.set_axisbelow(True)
