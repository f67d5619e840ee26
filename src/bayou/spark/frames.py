"""DataFrames as Parquet files, written once, so that retried tasks see the same rows."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayou.core.checks import check_path
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.spark import columns, engine
from bayou.spark.layout import files_of, row_groups


@contextlib.contextmanager
def as_files(
    data: Any, folder: str | os.PathLike[str] | None = None, model: Learner | None = None, overwrites: bool = False
) -> Iterator[list[str]]:
    """Yield the names of Parquet files: the data itself, or the files that a DataFrame is written to.

    A given folder is kept; otherwise a temporary one is used. Files that an earlier run wrote to the folder are reused
    if that run, whose model is `model`, is resumed; with `overwrites` they are replaced.
    """
    if not engine.is_frame(data):
        if folder is not None:
            raise BadInput(
                f"{option('folder')} is where a DataFrame is written, but the data are already files; omit it."
            )
        yield data
    elif folder is not None:
        yield _written(data, check_path("folder", folder), model, overwrites)
    elif not str(engine.usable(data.sparkSession).sparkContext.master).startswith("local"):
        raise BadInput(
            f"{option('folder')} must name a place that all workers can read: a DataFrame is written there once."
        )
    else:
        with tempfile.TemporaryDirectory(prefix="bayou-") as temporary:
            yield _written(data, temporary, None, overwrites=False)


def _written(frame: Any, folder: str, model: Learner | None, overwrites: bool) -> list[str]:
    columns.check_names(frame)
    address = "://" in folder
    if not overwrites and not address and os.path.isdir(folder) and os.listdir(folder):
        files = files_of(folder)
        done = None if model is None else model.extras.rounds
        if done is None or done.plan.get("data") != row_groups(files)[1]:
            raise BadInput(f"{option('folder', folder)} is not empty; empty it, or name another one.")
        return files
    with engine.sentences():
        frame.write.mode("overwrite" if overwrites else "append").parquet(
            folder if address else Path(os.path.abspath(folder)).as_uri()
        )
    return files_of(folder)
