"""`bayou.look`: how the columns of a table would be used, decided without learning. `bayou look` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Unpack

from bayou import sources
from bayou.core.errors import BadInput
from bayou.recipe.recipe import ROLES, Column, Recipe
from bayou.runs.options import Data, RunOptions, options_of

# Number of columns with the same warning that are named.
NAMED = 3


@dataclass(frozen=True)
class Look:
    """Decisions about the columns of a table.

    Attributes:
        recipe: the fitted recipe; `recipe.columns` has the role of each column, and the reason for it.
        features: mean number of features per row in the first rows.

    >>> import pyarrow as pa
    >>> table = pa.table({"city": ["oslo", "rome"] * 50, "y": [0, 1] * 50})
    >>> [column.remark.partition(":")[0] for column in look(table).columns]
    ['it alone predicts the label (AUC 1.0000)', '']
    """

    recipe: Recipe
    features: float

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.recipe.columns or ()

    @property
    def warnings(self) -> list[str]:
        """Warnings about columns that deserve a second look, one line each."""
        return warnings_on(self.columns)

    def as_dict(self) -> dict[str, Any]:
        """Return the output of `bayou look --json`."""
        columns = [{**asdict(column), "gives": column.gives, "means": ROLES[column.role]} for column in self.columns]
        return {
            "label": self.recipe.label,
            "features_per_row": self.features,
            "columns": columns,
            "remarks": self.warnings,
        }


def look(data: Data, **options: Unpack[RunOptions]) -> Look:
    """Read the first rows of a table and decide the role of each column, without learning.

    Args:
        data: files or tables, as for `bayou.train`.
        options: the options of `bayou.train` for reading data; `label` is optional.

    >>> import pyarrow as pa
    >>> table = pa.table({"city": ["oslo", "rome"] * 50, "size": [k / 7 for k in range(100)], "y": [0, 1] * 50})
    >>> [(column.name, column.role, column.gives) for column in look(table, label="y").columns]
    [('city', 'category', 'values'), ('size', 'bins', '20 bins, slope'), ('y', 'label', '')]
    """
    parsed = options_of(options)
    opening = {**parsed.opening, "on_error": "skip"}
    source = sources.open(data, recipe=parsed.recipe, labels=False, **opening)
    if source.recipe.kind != "table":
        raise BadInput(
            f"the data are {source.recipe.kind} text, which has no columns to look at; give a table: CSV, TSV, "
            "Parquet, JSON lines, a DataFrame."
        )
    batch = source.peek()
    return Look(source.recipe, len(batch.indices) / max(len(batch), 1))


def warnings_on(columns: Sequence[Column]) -> list[str]:
    """Return the warnings about the columns, the most doubtful first, one line for all that share a warning."""
    alike: dict[str, list[str]] = {}
    for column in sorted(columns, key=lambda column: -column.doubt):
        if column.remark:
            alike.setdefault(column.remark, []).append(column.name)
    sentences = []
    for warning, names in alike.items():
        named = ", ".join(map(repr, names[:NAMED])) + f" and {len(names) - NAMED:,} more" * (len(names) > NAMED)
        sentences.append(f"column{'s' * (len(names) > 1)} {named}: {warning}")
    return sentences
