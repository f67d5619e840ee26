"""The columns of a DataFrame, which are known before any of its rows: has it those that a model's recipe needs?"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou import sources
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.sources.formats.arrow.cells import names_of
from bayou.sources.table.plan import Plan

# The parts of types that are no structs to Spark, and are to Arrow.
_PARTS = {"variant": ("value", "metadata"), "geometry": ("srid", "wkb"), "geography": ("srid", "wkb")}


def check(frame: Any, model: Learner, labels: bool = True) -> None:
    """Refuse a DataFrame that a model cannot read, in the driver, with the sentence that its workers would have."""
    table = outline(frame)
    recipe = sources.open(table, extras=Extras.of(model), labels=False, threads=0).recipe
    if recipe.fitted:
        Plan(recipe, labels=labels).places(names_of(table.schema), "the table")


def outline(frame: Any) -> pa.Table:
    """A table without rows, and with the columns that workers have of a DataFrame; of their types only the parts."""
    return pa.schema([(one.name, _parts(one.dataType)) for one in frame.schema]).empty_table()


def _parts(kind: Any) -> pa.DataType:
    from pyspark.sql.types import StructType, UserDefinedType

    if isinstance(kind, UserDefinedType):
        kind = kind.sqlType()
    if isinstance(kind, StructType):
        return pa.struct([(one.name, _parts(one.dataType)) for one in kind])
    parts = _PARTS.get(kind.typeName())
    return pa.null() if parts is None else pa.struct([(name, pa.null()) for name in parts])
