"""Picture of `bayou select`: how many features each prior selects, and the test scores of these models."""

from __future__ import annotations

from pathlib import Path

from bayou.plots import BLUE, GREY, ORANGE, PALE, STYLE, TITLES, picture
from bayou.runs.select import Selection


def draw(selection: Selection, path: Path) -> None:
    with picture(path, 12, 4, dpi=120, pad=None, style=STYLE | TITLES) as figure:
        left, middle, right = figure.subplots(1, 3)
        nonempty = [point for point in selection.path if point.size]
        left.plot([p.inclusion_prior for p in nonempty], [p.size for p in nonempty], "o-", color=BLUE)
        scale = "log" if nonempty else "linear"  # a logarithmic axis cannot be empty
        left.set(xscale=scale, yscale=scale, xlabel="inclusion prior", title="features selected")
        for axes, title, worth in (
            (middle, "AUC, held out", lambda point: point.auc),
            (right, "log loss, held out", lambda point: point.log_loss),
        ):
            path_points = sorted((p.size, worth(p)) for p in nonempty if worth(p) is not None)
            requested = [(p.size, worth(p)) for p in selection.sizes if p.size and worth(p) is not None]
            if path_points:
                axes.plot(*zip(*path_points, strict=True), "o-", color=GREY, label="all that a prior selects")
            if requested:
                axes.plot(*zip(*requested, strict=True), "D", color=ORANGE, label="cut to the sizes wanted")
            axes.set(xscale=scale, xlabel="features", title=title)
            axes.grid(axis="y", color=PALE)
        if middle.lines:
            middle.legend(frameon=False, loc="lower right")
