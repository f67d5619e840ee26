"""The files of an experiment: where its data are, and how its results are written, whole or not at all."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bayou import plots
from bayou.core.files import whole_file


def data_folder() -> Path:
    """Where the data sets are: the folder that BAYOU_DATA names, or ../shared/data."""
    return Path(os.environ.get("BAYOU_DATA") or "../shared/data")


def write_csv(
    folder: Path, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, end: str = "\r\n"
) -> Path:
    """A table, every number with as few digits as give it back exactly; None is an empty cell."""
    with whole_file(folder / f"{name}.csv") as path, open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerow(columns)
        writer.writerows([repr(float(cell)) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return folder / f"{name}.csv"


@contextmanager
def drawn(
    folder: Path, name: str, width: float, height: float, *, dpi: int = 110, pad: float | None = 0.08
) -> Iterator[Figure]:
    """A figure to draw in, that becomes the picture `name`.png."""
    with (
        whole_file(folder / f"{name}.png") as path,
        plots.picture(path, width, height, dpi=dpi, pad=pad) as figure,
    ):
        yield figure
