"""Recipes: how a raw row becomes an example. Fixed before the first example is learned, and stored with the model.

For svmlight and VW text a recipe consists of the given options (bits, crosses, the label rule). A table's recipe is
also *fitted*: the first FIT_ROWS rows determine the role of each column and the edges of its bins. After that the
recipe does not change, so that the same row always gives the same features.

>>> recipe = Recipe(kind="table", bits=18, label="income", positive=">50K", cross=[("education", "sex")])
>>> recipe.fitted, recipe.n_features
(False, 262144)
>>> Recipe.from_json(recipe.to_json()) == recipe
True
>>> recipe.differences(Recipe(kind="table", bits=20, label="income", positive=">50K", cross=[("education", "sex")]))
['bits is 18 in one and 20 in the other']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from bayou.core.checks import (
    as_number,
    check_bool,
    check_choice,
    check_finite,
    check_int,
    check_iterable,
    check_positive,
    check_str,
    check_str_list,
    number_from_text,
    shortened_repr,
)
from bayou.core.errors import BadInput, BadModel
from bayou.recipe.crosses import check_letter, check_ranges, checked_crosses, checked_interactions, checked_ranges
from bayou.recipe.differences import column_differences, in_words

KINDS = ("svmlight", "vw", "table", "rows")
# What to predict.
TASKS = {
    "auto": "what the labels look like",
    "binary": "one class or the other",
    "multiclass": "one of several classes",
    "regression": "a number",
}

# Roles of a table's columns. "whole" gives two features, the bin and the exact value: numbers such as 17 may be counts
# or names, and the weights show which.
ROLES = {
    "label": "what is to be predicted",
    "weight": "the example's weight",
    "ignored": "nothing",
    "id": "nothing: nearly every row has a value of its own",
    "category": "an indicator column=value",
    "flag": "an indicator column=true or column=false, in whatever case it is written",
    "code": "an indicator column=number, however the number is written",
    "bins": "an indicator of the quantile bin a number is in",
    "whole": "both an indicator of its bin and an indicator column=number",
    "values": "an indicator column=number, for numbers of few values",
    "numeric": "the number itself, centred and scaled",
    "date": "indicators of the parts of a date or a point in time",
    "text": "an indicator column=word for each distinct word",
}

# The parts of a date, and the number of values of each. A weekend hour is an hour with a weekend or weekday flag.
DATE_PARTS = {"hour": 24, "weekday": 7, "month": 12, "weekend hour": 48}

# Marks of missing values in tables, in any case.
MISSING = ("na", "n/a", "nan", "null", "none", "-", "?", "unknown", "\\n")
# Maximum number of bytes of a user-defined mark.
MARK_BYTES = 100
# Number formats besides plain ones: 1,400.5 or 1.400,5; both also allow signs of currency and per cent.
DECIMALS = ("point", "comma")
# Slopes of columns of numbers: by rank, or also by the number itself.
SLOPES = ("rank", "raw")
# Version of the rules for reading tables; recipes stored with another one are rejected.
TABLE_EDITION = 2

# Number of rows that a table's recipe is fitted to.
FIT_ROWS = 10_000
MAX_GRAMS = 8
# More bins than this could not be resolved with that many rows.
MAX_BINS = 1_000


@dataclass(frozen=True)
class Column:
    """The fitted recipe of one column of a table.

    Attributes:
        name: the column's name.
        role: one of ROLES.
        edges: bin edges, ascending: bin k holds the numbers x with edges[k - 1] <= x < edges[k].
        centre, scale: a numeric column's value is (x - centre) / scale, clipped.
        knots, levels: if given, the column also has a slope: sqrt(3) (2 G(x) - 1), where G is piecewise linear through
            levels[k], from 0 to 1, at knots[k], and constant outside.
        raw_knots, raw_levels: the same for a second slope, by the number itself instead of its rank.
        parts: those of DATE_PARTS that a date gives.
        why, examples, missing, remark, doubt: for display: the reason for the role, some values, the fraction of
            missing cells, a warning if something is unusual, and how doubtful that is, from 0 to 1.
    """

    name: str
    role: str
    edges: tuple[float, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    knots: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    raw_knots: tuple[float, ...] = ()
    raw_levels: tuple[float, ...] = ()
    parts: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    examples: tuple[str, ...] = field(default=(), compare=False)
    missing: float = field(default=0.0, compare=False)
    remark: str = field(default="", compare=False)
    doubt: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        put, column = partial(object.__setattr__, self), f"column {self.name!r}"
        check_str("a column's name", self.name)
        check_choice(f"the role of {column}", self.role, ROLES)
        check_str(f"why {column} is what it is", self.why)
        check_str(f"the remark on {column}", self.remark)
        put("edges", self._ascending("edges", "edges of its bins"))
        for raw in ("", "raw_"):
            knots = self._ascending(f"{raw}knots", "knots of its slope")
            levels = self._ascending(f"{raw}levels", "levels of its slope")
            if len(levels) != len(knots) or len(knots) == 1:
                raise BadInput(f"{column}: a slope has at least two knots, and a level for each.")
            put(f"{raw}knots", knots)
            put(f"{raw}levels", levels)
        if (self.knots or self.raw_knots) and self.role not in ("bins", "whole", "values"):
            raise BadInput(f"{column} is {self.role}, which has no slope; bins, whole and values can have one.")
        parts = check_str_list(f"the parts of {column}", self.parts, f"some of {', '.join(DATE_PARTS)}")
        for part in parts:
            check_choice(f"a part of {column}", part, DATE_PARTS)
        put("parts", tuple(part for part in DATE_PARTS if part in parts))
        put("examples", check_str_list(f"the examples of {column}", self.examples, "texts"))
        put("missing", check_finite(f"the missing share of {column}", self.missing))
        put("doubt", check_finite(f"the doubt about {column}", self.doubt))
        put("centre", check_finite(f"the centre of {column}", self.centre))
        put("scale", check_positive(f"the scale of {column}", self.scale))

    def _ascending(self, name: str, called: str) -> tuple[float, ...]:
        given = getattr(self, name)
        if isinstance(given, tuple) and not given:
            return ()
        what = f"the {name} of column {self.name!r}"
        numbers = tuple(as_number(edge) for edge in check_iterable(what, given, "finite numbers that ascend"))
        if not (np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()):
            raise BadInput(f"column {self.name!r}: the {called} must be finite numbers that ascend.")
        return numbers

    @property
    def gives(self) -> str:
        """Short description of the features that the column gives a row; "" if it gives none.

        >>> Column("age", "bins", edges=(18.0, 65.0), knots=(0.0, 99.0), levels=(0.0, 1.0)).gives
        '3 bins, slope'
        """
        bins = f"{len(self.edges) + 1} bins"
        own = {
            "bins": bins,
            "whole": f"{bins}, values",
            "numeric": "number",
            "text": "words",
            "date": ", ".join(self.parts),
        }
        own |= dict.fromkeys(("category", "flag", "code", "values"), "values")
        return own.get(self.role, "") + ", slope" * bool(self.knots) + ", raw slope" * bool(self.raw_knots)

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON, without optional fields that are empty."""
        plain = {part.name: _as_json(getattr(self, part.name)) for part in fields(self)}
        return {name: value for name, value in plain.items() if name in _ALWAYS or value}


# Fields of a column that are always stored, and fields of a recipe that are stored only if not at their default.
_ALWAYS = ("name", "role", "edges", "centre", "scale")
_IF_GIVEN = ("pairs", "interactions", "ranges", "date", "missing", "decimal", "ngrams", "char_ngrams", "slope")

# The fields that name columns, and those that are lists of texts.
NAMING = ("label", "weight", "ignore", "numeric", "category", "text", "date")
_LISTS = ("ignore", "numeric", "category", "text", "date", "missing")


@dataclass(frozen=True)
class Recipe:
    """Rules by which a raw row becomes an example.

    Attributes:
        kind: "svmlight", "vw" or "table" (CSV, TSV, Criteo, Parquet, Arrow, JSON lines); or "rows", for JSON objects
            with arbitrary names, which are hashed: the recipe of a server that starts without a model.
        bits: feature indices are 0 to 2**bits - 1.
        exact: number features in order of appearance instead of hashing them, so that none share an index.
        hash_all: VW text: also hash names that are all digits, instead of using them as indices.
        cross: pairs or triples of columns or namespaces whose features are crossed; "*" stands for every other one.
        pairs: likewise, but the learner forms the pairs itself, from rows without crosses.
        interactions: crosses by the first letters of names, as in Vowpal Wabbit (`bayou.recipe.crosses`).
        ranges: svmlight: (name, first, last) of features to cross, which form a namespace of that name.
        label: the column to predict.
        task: one of TASKS; "auto" before the labels are read.
        positive: binary: the text of a positive label; every other text is negative.
        negative: binary, with `positive`: the text of a negative label; any other label is bad.
        label_above: binary: labels above this number are positive; the others are negative.
        weight: the column with the examples' weights.
        ignore, numeric, category, text, date: columns with these roles, whatever they contain. For VW text, ignore
            lists first letters of namespaces to leave out.
        missing: additional marks of missing values, in any case; "" disables the usual ones.
        decimal: "point" accepts 1,400.5, $12 and 7% as numbers, "comma" 1.400,5 and 12 €; None only plain numbers.
        ngrams: texts also give sequences of up to this many words; char_ngrams: and of this many characters of a word.
        bins: number of quantile bins of a column of numbers; 0 makes "numeric" the default for numbers.
        slope: "rank", or "raw": columns with bins also have a slope by the number itself.
        negative_rate: the fraction of negatives that were kept when the data were made.
        columns: a table's fitted columns, or None before the fit.

    >>> recipe = Recipe(kind="table", bits=18, label="clicked", text=["title"])
    >>> recipe.n_features, recipe.fitted
    (262144, False)
    """

    kind: str = "svmlight"
    bits: int = 22
    exact: bool = False
    hash_all: bool = False
    cross: tuple[tuple[str, ...], ...] = ()
    pairs: tuple[tuple[str, ...], ...] = ()
    interactions: tuple[str, ...] = ()
    ranges: tuple[tuple[str, int, int], ...] = ()
    label: str | None = None
    task: str = "auto"
    positive: str | None = None
    negative: str | None = None
    label_above: float | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    decimal: str | None = None
    ngrams: int = 1
    char_ngrams: int = 0
    bins: int = 20
    slope: str = "rank"
    negative_rate: float = 1.0
    columns: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        check_choice("a recipe's kind", self.kind, dict.fromkeys(KINDS))
        put("bits", check_int("bits", self.bits, 1, 31))
        put("bins", check_int("bins", self.bins, 0, MAX_BINS))
        put("ngrams", check_int("ngrams", self.ngrams, 1, MAX_GRAMS))
        put("char_ngrams", check_int("char_ngrams", self.char_ngrams, 0, MAX_GRAMS))
        if self.kind != "table" and (self.ngrams, self.char_ngrams) != (1, 0):
            raise BadInput(f"ngrams are made of a table's texts, and {self.kind} data have none; write out features.")
        put("exact", check_bool("exact", self.exact))
        put("hash_all", check_bool("hash_all", self.hash_all))
        put("negative_rate", check_positive("negative_rate", self.negative_rate, high=1.0))
        self._check_task(put)
        for name, value in (("label", self.label), ("weight", self.weight)):
            if value is not None:
                check_str(name, value)
        for name in _LISTS:
            put(name, _texts(name, getattr(self, name)))
        self._check_cells()
        put("cross", checked_crosses(self.cross))
        put("pairs", checked_crosses(self.pairs))
        put("interactions", checked_interactions(self.interactions))
        put("ranges", checked_ranges(self.ranges, self.n_features))
        check_ranges(self)
        self._check_roles()
        if self.columns is not None:
            put("columns", tuple(check_iterable("columns", self.columns, "some columns")))
            if not all(isinstance(column, Column) for column in self.columns):
                raise BadInput("columns must hold only Column objects.")
            if self.kind != "table":
                raise BadInput(f"only a table has columns; this recipe is for {self.kind}.")

    def _check_task(self, put: Callable[[str, Any], None]) -> None:
        check_choice("task", self.task, TASKS)
        for name in ("positive", "negative"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str | int | float | np.generic):
                raise BadInput(f"{name} is {shortened_repr(value)}; it must be the text of a label, or a number.")
            put(name, str(value))
            check_str(name, str(value))
            if self.kind != "table" and math.isnan(number_from_text(str(value))):
                raise BadInput(f"{name} is {value!r}, but labels in {self.kind} data are numbers.")
        if self.negative is not None and (self.positive is None or self.positive == self.negative):
            raise BadInput("negative needs positive, and the two must be different labels.")
        if self.label_above is not None:
            put("label_above", check_finite("label_above", self.label_above))
            if self.positive is not None:
                raise BadInput("positive and label_above cannot be combined; give one of them.")
        if (self.positive, self.label_above, self.negative_rate) == (None, None, 1.0):
            return
        if self.task not in ("auto", "binary"):
            raise BadInput(f"positive, label_above and negative_rate need the task binary, but it is {self.task}.")
        put("task", "binary")

    def _check_cells(self) -> None:
        check_choice("slope", self.slope, dict.fromkeys(SLOPES))
        if self.kind != "table" and self.slope != "rank":
            raise BadInput(f"slope applies to a table's columns of numbers; {self.kind} data have none.")
        if self.decimal is not None:
            check_choice("decimal", self.decimal, dict.fromkeys(DECIMALS))
        if self.kind != "table" and (self.decimal is not None or self.missing):
            raise BadInput(f"missing and decimal apply to the cells of a table; {self.kind} data have none.")
        for mark in self.missing:
            if len(mark.encode()) > MARK_BYTES:
                raise BadInput(f"missing holds a text of {len(mark.encode())} bytes; the limit is {MARK_BYTES}.")

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks of missing values in cells, besides the empty cell."""
        usual = () if "" in self.missing else MISSING
        return tuple(dict.fromkeys([*usual, *(mark for mark in self.missing if mark)]))

    def _check_roles(self) -> None:
        given: dict[str, str] = {}
        for option in NAMING:
            names = getattr(self, option)
            for name in (names,) if isinstance(names, str) else names or ():
                if self.kind == "vw" and option == "ignore":
                    check_letter(name)
                elif self.kind != "table" and not (self.kind == "rows" and option in ("label", "weight", "ignore")):
                    raise BadInput(f"{option} names the column {name!r}, but {self.kind} data have no columns.")
                if name in given:
                    raise BadInput(f"column {name!r} is named by both {given[name]} and {option}; give it one role.")
                given[name] = option
        if self.crossed and self.kind == "rows":
            raise BadInput("cross needs columns or namespaces, and rows data have neither.")
        if self.kind == "rows" and (self.positive is not None or self.exact):
            raise BadInput(
                "rows of any names take labels 1, 0, -1, true or false and hashed names; omit positive and exact."
            )

    @property
    def crossed(self) -> bool:
        """True if the recipe itself crosses features."""
        return bool(self.cross or self.interactions)

    def with_pairs_apart(self) -> Recipe:
        """Return the recipe for a learner that forms pairs itself: crosses of two move from `cross` to `pairs`."""
        two = [names for names in self.cross if len(names) == 2]
        others = [names for names in self.cross if len(names) > 2]
        return replace(self, cross=tuple(others), pairs=tuple(dict.fromkeys([*self.pairs, *two])))

    @property
    def n_features(self) -> int:
        """Number of possible features, 2**bits."""
        return 1 << self.bits

    @property
    def fitted(self) -> bool:
        """True if the recipe needs no fit: a table has its columns, and other kinds have none."""
        return self.kind != "table" or self.columns is not None

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as JSON. Floats are restored to the same bits."""
        plain = {
            part.name: _as_json(getattr(self, part.name))
            for part in fields(self)
            if part.name not in _IF_GIVEN or getattr(self, part.name) != part.default
        }
        return plain | ({"edition": TABLE_EDITION} if self.kind == "table" else {})

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Recipe:
        """Return the recipe from the result of `to_json`."""
        names = {part.name for part in fields(cls)} | {"edition"}
        if not isinstance(plain, Mapping) or not names.issuperset(plain):
            strange = ", ".join(sorted(map(str, set(plain) - names))) if isinstance(plain, Mapping) else repr(plain)
            raise BadModel(f"the recipe has parts that this version of bayou does not know: {strange}.")
        parts = dict(plain)
        if parts.pop("edition", 1) != (TABLE_EDITION if plain.get("kind") == "table" else 1):
            raise BadModel("the recipe reads tables with rules that this version of bayou does not know.")
        try:
            if parts.get("columns") is not None:
                parts["columns"] = tuple(Column(**column) for column in parts["columns"])
            return cls(**parts)
        except (TypeError, ValueError) as error:
            raise BadModel(f"the recipe cannot be used: {error}") from None

    def differences(self, other: Recipe) -> list[str]:
        """Return the differences between two recipes, in words; an empty list if they are equal."""
        sentences = []
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            if mine == theirs:
                continue
            if part.name != "columns" or mine is None or theirs is None:
                if part.name == "columns":
                    mine, theirs = ("fitted" if columns else "not fitted" for columns in (mine, theirs))
                sentences.append(f"{part.name} is {in_words(mine)} in one and {in_words(theirs)} in the other")
            else:
                sentences += column_differences(mine, theirs)
        return sentences


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(part) for part in value]
    return value.to_json() if isinstance(value, Column) else value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    texts = check_str_list(name, value, "a list of texts" if name == "missing" else "a list of column names")
    for part in texts:
        check_str(name, part)
    return tuple(dict.fromkeys(texts))
