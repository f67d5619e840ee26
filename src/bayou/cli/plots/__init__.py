"""Pictures that the commands draw with matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayou.outputs.text import output

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: Figure, path: Path) -> None:
    """Write a picture, completely or not at all, in the format that its name ends in."""
    with output(path) as file:
        figure.savefig(file, format=path.suffix[1:])
