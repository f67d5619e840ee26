"""Colours and style of our pictures (matplotlib)."""

from typing import Any

BLUE, ORANGE, INK, GREY, PALE = "#1f6f8b", "#d9662b", "#222222", "#8a8a8a", "#e6e6e6"
STYLE: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "xtick.color": INK,
    "ytick.color": INK,
}
# Where a picture has several panels, each with a title of its own.
TITLES: Any = {
    "axes.titlelocation": "left",
    "axes.titlepad": 14,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
}
