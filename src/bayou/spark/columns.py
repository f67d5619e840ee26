"""Checks of the columns of a DataFrame, made in the driver before any row is read."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa

from bayou import sources
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.formats.arrow.cells import names_of
from bayou.sources.table.encoding_plan import EncodingPlan

log = logging.getLogger("bayou.spark")

# Fields of types that are structs in Arrow, but not in Spark.
_PARTS = {"variant": ("value", "metadata"), "geometry": ("srid", "wkb"), "geography": ("srid", "wkb")}


def check(frame: Any, model: Learner, labels: bool = True) -> None:
    """Raise BadInput, with the message that a worker would raise, if a model cannot read a DataFrame."""
    table = outline(frame)
    recipe = sources.open(table, extras=Extras.of(model), labels=False, threads=0).recipe
    if recipe.fitted:
        EncodingPlan(recipe, labels=labels).places(names_of(table.schema), "the table")
        _warn_of_numbers(frame, recipe)


def check_names(frame: Any) -> None:
    """Raise BadInput if two columns have the same name in Spark, which ignores case by default."""
    ignores_case = frame.sparkSession.conf.get("spark.sql.caseSensitive") != "true"
    seen: dict[str, str] = {}
    for name in frame.columns:
        key = name.lower() if ignores_case else name
        if key in seen:
            raise BadInput(
                f"the columns {seen[key]!r} and {name!r} are the same name to Spark; rename one of them, or drop it."
            )
        seen[key] = name


def _warn_of_numbers(frame: Any, recipe: Recipe) -> None:
    """Warn of number columns where the model has learned texts: it treats their values as unseen categories."""
    from pyspark.sql.types import NumericType

    number_columns = {field.name for field in frame.schema if isinstance(field.dataType, NumericType)}
    for column in recipe.columns or ():
        if column.name in number_columns and _has_texts(column):
            log.warning(
                "the column %r holds numbers, but the model has learned texts there, such as %r, and no number; give "
                "it the texts",
                column.name,
                column.examples[0],
            )


def _has_texts(column: Column) -> bool:
    """Return whether the example values of a column are texts, none of which is a number."""
    if column.role not in ("category", "text") or not column.examples:
        return False
    return not any(text.replace(".", "", 1).lstrip("-").isdigit() for text in column.examples)


def outline(frame: Any) -> pa.Table:
    """Return an empty table with the columns that workers get; of the types, only structs are kept."""
    return pa.schema([(field.name, _parts(field.dataType)) for field in frame.schema]).empty_table()


def _parts(kind: Any) -> pa.DataType:
    from pyspark.sql.types import StructType, UserDefinedType

    if isinstance(kind, UserDefinedType):
        kind = kind.sqlType()
    if isinstance(kind, StructType):
        return pa.struct([(field.name, _parts(field.dataType)) for field in kind])
    names = _PARTS.get(kind.typeName())
    return pa.null() if names is None else pa.struct([(name, pa.null()) for name in names])
