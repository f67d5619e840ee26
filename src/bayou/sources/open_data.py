"""Opening of data: `open` detects the format and returns a `Source`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bayou.core.checks import check_bool, check_choice, check_dtype, check_str_list
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.threads import available_cores
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.registry import FORMATS, Format, detect, empty_format, find
from bayou.sources.formats.sniffing import check_text
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.reading.open_files import expand
from bayou.sources.row_group_slices import RowGroupSlices
from bayou.sources.source import Source


def open(
    data: Any,
    *,
    recipe: Recipe | Mapping[str, Any] | None = None,
    extras: Extras | None = None,
    format: str = "auto",
    on_error: str = "raise",
    labels: bool = True,
    tags: bool = False,
    threads: int | None = None,
    dtype: str = "float32",
    groups: bool | None = None,
) -> Source:
    """Return a `Source` of batches of the data.

    Args:
        data: a path or glob, several of them, "-" for standard input, or an object with `__arrow_c_stream__` (a
            DataFrame of pandas or polars, a DuckDB result, an Arrow table), or an iterable of such objects, which are
            read as the parts of one table; or `RowGroupSlices`, ranges of rows of Parquet files.
        recipe: how a raw row becomes an example: a Recipe, or some of its fields by name, in which case the kind of
            data is detected.
        extras: `learner.extras` of a model, instead of a recipe: the data are read like those the model has learned.
        format: name of the format; "auto" detects it from the name and the beginning of the data.
        on_error: "raise" BadInput at the first bad line, or "skip" bad lines and count them.
        labels: if true, rows without a label are bad; otherwise their label is NaN.
        tags: whether to keep the examples' tags.
        threads: number of other threads that read ahead; the results do not depend on it.
        dtype: type of the features' values.
        groups: whether batches hold the group of each nonzero, given by its column or namespace (`Batch.groups`), where
            it has one: for a learner that `wants_groups`. By default as set in the extras.

    >>> import pyarrow as pa
    >>> clicks = pa.table({"site": ["a", "b", "a"], "clicked": [1, 0, 1]})
    >>> source = open(clicks, recipe={"label": "clicked", "bits": 10})
    >>> [(len(batch), batch.labels.tolist()) for batch in source], source.recipe.columns[0].role
    ([(3, [1.0, -1.0, 1.0])], 'category')
    """
    labels, tags, dtype = check_bool("labels", labels), check_bool("tags", tags), check_dtype(dtype)
    check_choice("format", format, dict.fromkeys(FORMATS))
    if not isinstance(recipe, Recipe | Mapping | None) or not isinstance(extras, Extras | None):
        raise BadInput("recipe takes a Recipe, or some of its fields by name; extras takes those of a learner.")
    stream = hasattr(data, "__arrow_c_stream__")
    data = data if stream else parts_or_paths(data)
    parts = data if isinstance(data, RowGroupSlices) else None
    files = None if stream or parts is not None or hasattr(data, "batches") else BlockReader(expand(data))
    record = find("parquet" if parts is not None else "arrow") if files is None else _format(files, format)
    extras = Extras.new(_recipe(recipe, record.kinds[0])) if extras is None else extras
    if not labels:
        extras = extras.for_predicting()
    kind = extras.required_recipe.kind
    if files is not None and kind != record.kinds[0] and not files.head().strip():
        record = empty_format(kind)  # empty data fit any kind of recipe
    if kind not in record.kinds:
        what = "a table" if files is None else f"{files.names[0]} ({record.name})"
        raise BadInput(
            f"{what} needs a recipe for {record.kinds[0]} data, but this one is for {kind} data; "
            "give such data, or train a new model."
        )
    data = data if files is None else files
    reader = record.open_reader(data, extras, labels=labels, dtype=dtype, tags=tags)
    if parts is not None:
        reader.what = parts.files[0] if parts.files else "nothing"
    if files is not None:
        reader.what = files.names[0] if len(files.names) == 1 else f"{files.names[0]} and what comes after it"
    threads = spare_cores() if threads is None else threads
    source = Source(reader, extras, on_error=on_error, labels=labels, threads=threads)
    source.read_as(dtype, extras.groups if groups is None else check_bool("groups", groups))
    return source


def parts_or_paths(data: Any) -> Any:
    """Return an iterable of tables as the parts of one table; paths and tables unchanged."""
    if isinstance(data, str | os.PathLike) or hasattr(data, "__arrow_c_stream__"):
        return data
    if isinstance(data, list) and all(isinstance(name, str) for name in data):
        return data
    from bayou.sources.formats.arrow import chunks

    return chunks.parts_or_paths(data)


def spare_cores() -> int:
    """Return how many threads can read ahead while this one learns."""
    return min(available_cores() - 1, 16)  # a few parsers keep any learner busy


def _recipe(recipe: Recipe | Mapping[str, Any] | None, kind: str) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    fields = {} if recipe is None else recipe
    for name in check_str_list("recipe", fields, "a Recipe, or some of its fields by name"):
        check_choice("a field of the recipe", name, Recipe.__dataclass_fields__)
    return Recipe(**{"kind": kind, **fields})


def _format(files: BlockReader, format: str) -> Format:
    if format == "parquet":
        return find(format)
    head = files.head()
    check_text(files.names[0], head)
    return detect(files.names[0], head) if format == "auto" else find(format)
