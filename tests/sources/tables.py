"""What the tests of tables share: texts as blocks, pieces as plain rows, and a table to play with."""

import numpy as np

from bayou.kernels.parse_text import PADDING
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.formats.delimited.reader import DelimitedParser, fit_text, split_block
from bayou.sources.formats.delimited.split import layout_of
from bayou.sources.reading.blocks import TextBlock
from bayou.sources.table.encoding_plan import EncodingPlan

# One column of each role, fitted by hand.
COLUMNS = (
    Column("y", "label"),
    Column("w", "weight"),
    Column("city", "category"),
    Column("on", "flag"),
    Column("id", "code"),
    Column("x", "bins", edges=(-1.0, 0.0, 2.5)),
    Column("age", "whole", edges=(18.0, 30.0, 65.0)),
    Column("size", "numeric", centre=10.0, scale=4.0),
    Column("said", "text"),
    Column("junk", "ignored"),
)
NAMES = tuple(column.name for column in COLUMNS)
RECIPE = Recipe(kind="table", bits=20, columns=COLUMNS)
# The roles that are not among COLUMNS, and slopes.
NEWER_COLUMNS = (
    *COLUMNS[:2],
    Column("city", "category"),
    Column("on", "id"),
    Column("id", "code"),
    Column("x", "bins", edges=(-1.0, 0.0, 2.5), knots=(-2.0, 0.0, 1.5, 40.0), levels=(0.0, 0.25, 0.75, 1.0)),
    Column("age", "whole", edges=(18.0, 30.0, 65.0), raw_knots=(-5.0, 20.0, 90.0), raw_levels=(-1.25, 0.5, 2.0)),
    Column("size", "values", knots=(1.0, 7.0), levels=(0.125, 0.875)),
    Column("said", "date", parts=("hour", "weekday", "month", "weekend hour")),
    Column("junk", "date", parts=("weekday",)),
)


def block_of(text: bytes, first: bool = True) -> TextBlock:
    text = text if text.endswith(b"\n") or not text else text + b"\n"
    data = np.full(len(text) + PADDING, 10, np.uint8)
    data[: len(text)] = np.frombuffer(text, np.uint8)
    return TextBlock(data, len(text), "test.csv", first=first)


def parse(text: bytes, recipe: Recipe, format: str = "csv", names: FeatureNames | None = None, labels: bool = True):
    """(piece, recipe) of a text with a header; the recipe is fitted to it unless it is already."""
    block = block_of(text)
    layout = layout_of(block, format)
    if not recipe.fitted:
        recipe = fit_text(recipe, [(split_block(block, layout), layout)], labels=labels)
    return DelimitedParser(EncodingPlan(recipe, names=names, labels=labels), layout).parse(block), recipe


def rows_of(piece) -> list[tuple]:
    """(features with their values, label, weight, line) of each row; labels as bits, so that NaN equals itself."""
    weights = np.ones(len(piece.labels)) if piece.weights is None else piece.weights
    found = []
    for i, (start, stop) in enumerate(zip(piece.indptr[:-1], piece.indptr[1:], strict=True)):
        features = list(zip(piece.indices[start:stop].tolist(), piece.values[start:stop].tolist(), strict=True))
        found.append((features, piece.labels[i].tobytes(), weights[i], int(piece.positions[i])))
    return found


def slow_rows(rows) -> list[tuple]:
    """The rows of the slow parser in the same form: values as float32, without those that are 0."""
    return [
        (
            [(index, float(np.float32(value))) for index, value in row.features if value != 0],
            np.float64(row.label).tobytes(),
            row.weight,
            row.line,
        )
        for row in rows
    ]
