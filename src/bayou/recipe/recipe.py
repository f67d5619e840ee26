"""Recipe: how a raw row becomes an example. It is fixed before the first example is learned and travels with the model.

For svmlight and VW text a recipe is what the command was told (bits, crosses, the label rule). A table's recipe is
*fitted* besides: the first FIT_ROWS rows decide what each column is and where its bins are cut, and from then on the
recipe stays as it is, so that the same row gives the same features for as long as the model lives.

>>> recipe = Recipe(kind="table", bits=18, label="income", positive=">50K", cross=[("education", "sex")])
>>> recipe.fitted, recipe.n_features
(False, 262144)
>>> Recipe.from_json(recipe.to_json()) == recipe
True
>>> recipe.differences(Recipe(kind="table", bits=20, label="income", positive=">50K", cross=[("education", "sex")]))
['bits is 18 in one and 20 in the other']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from bayou.core.checks import (
    as_number,
    finite_number,
    one_of,
    plain_text,
    positive_number,
    several,
    shown,
    texts,
    whole_number,
    yes_or_no,
)
from bayou.core.errors import BadInput, BadModel
from bayou.recipe.crosses import check_letter, check_ranges, checked_crosses, checked_interactions, checked_ranges
from bayou.recipe.differences import column_differences, in_words

KINDS = ("svmlight", "vw", "table", "rows")
# What there is to predict.
TASKS = {
    "auto": "what the labels look like",
    "binary": "one class or the other",
    "multiclass": "one of several classes",
    "regression": "a number",
}

# What a table's column can be. "whole" gives two features, its bin and its exact value: numbers such as 17 may be
# counts or names, and the weights find out which.
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

# The parts of a date, and how many values each has. A weekend hour is an hour of a weekend, or of another day.
DATE_PARTS = {"hour": 24, "weekday": 7, "month": 12, "weekend hour": 48}

# How tables write that a value is not there, in any case of letters.
MISSING = ("na", "n/a", "nan", "null", "none", "-", "?", "unknown", "\\n")
# A mark of somebody's own has at most so many bytes.
MARK_BYTES = 100
# How numbers are written, besides plainly: 1,400.5 or 1.400,5; with either go signs of currency and per cent.
DECIMALS = ("point", "comma")
# Which rules a table is read by, as its stored recipe says: another number would be a recipe of other rules.
TABLE_EDITION = 2

# How many rows are looked at before a table's recipe is fixed.
FIT_ROWS = 10_000
MAX_GRAMS = 8
# More bins than this could not be told apart by that many rows.
MAX_BINS = 1_000


@dataclass(frozen=True)
class Column:
    """What was decided about one column of a table.

    Attributes:
        name: the column's name.
        role: one of ROLES.
        edges: where bins are cut, ascending: bin k holds the numbers x with edges[k - 1] <= x < edges[k].
        centre, scale: a numeric column's value is (x - centre) / scale, clipped.
        knots, levels: if there are some, the column has a slope besides: sqrt(3) (2 G(x) - 1), where G goes in straight
            lines through levels[k], from 0 to 1, at knots[k], and is flat outside.
        parts: those of DATE_PARTS that a date gives.
        why, examples, missing, remark: for people: what was seen of it, some of its values, the share of cells without
            one, and what should make somebody look twice.
    """

    name: str
    role: str
    edges: tuple[float, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    knots: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    parts: tuple[str, ...] = ()
    why: str = field(default="", compare=False)
    examples: tuple[str, ...] = field(default=(), compare=False)
    missing: float = field(default=0.0, compare=False)
    remark: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        plain_text("a column's name", self.name)
        one_of(f"the role of column {self.name!r}", self.role, ROLES)
        plain_text(f"why column {self.name!r} is what it is", self.why)
        plain_text(f"the remark on column {self.name!r}", self.remark)
        for name, called in {"edges": "edges of its bins", "knots": "knots of its slope"}.items():
            object.__setattr__(self, name, self._ascending(name, called))
        object.__setattr__(self, "levels", self._ascending("levels", "levels of its slope"))
        if len(self.levels) != len(self.knots) or len(self.knots) == 1:
            raise BadInput(f"column {self.name!r}: a slope has at least two knots, and a level for each.")
        if self.knots and self.role not in ("bins", "values"):
            raise BadInput(f"column {self.name!r} is {self.role}, which has no slope; bins and values can have one.")
        parts = texts(f"the parts of column {self.name!r}", self.parts, f"some of {', '.join(DATE_PARTS)}")
        for part in parts:
            one_of(f"a part of column {self.name!r}", part, DATE_PARTS)
        object.__setattr__(self, "parts", tuple(part for part in DATE_PARTS if part in parts))
        object.__setattr__(
            self, "examples", tuple(texts(f"the examples of column {self.name!r}", self.examples, "texts"))
        )
        object.__setattr__(self, "missing", finite_number(f"the missing share of column {self.name!r}", self.missing))
        object.__setattr__(self, "centre", finite_number(f"the centre of column {self.name!r}", self.centre))
        object.__setattr__(self, "scale", positive_number(f"the scale of column {self.name!r}", self.scale))

    def _ascending(self, name: str, called: str) -> tuple[float, ...]:
        given = getattr(self, name)
        if isinstance(given, tuple) and not given:
            return ()
        what = f"the {name} of column {self.name!r}"
        found = tuple(as_number(edge) for edge in several(what, given, "finite numbers that ascend"))
        if not (np.isfinite(found).all() and (np.diff(found) > 0).all()):
            raise BadInput(f"column {self.name!r}: the {called} must be finite numbers that ascend.")
        return found

    @property
    def gives(self) -> str:
        """The features that it gives a row, in a few words; nothing for one that gives none.

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
        return own.get(self.role, "") + ", slope" * bool(self.knots)

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON can hold it, without fields that are empty."""
        plain = {part.name: _as_json(getattr(self, part.name)) for part in fields(self)}
        return {name: value for name, value in plain.items() if name in _ALWAYS or value}


# Fields of a column that are stored whatever they hold, and those of a recipe that are stored only if they are given.
_ALWAYS = ("name", "role", "edges", "centre", "scale")
_IF_GIVEN = ("pairs", "interactions", "ranges", "date", "missing", "decimal", "ngrams", "char_ngrams")

# The fields that name columns, and those that are lists of texts.
NAMING = ("label", "weight", "ignore", "numeric", "category", "text", "date")
_LISTS = ("ignore", "numeric", "category", "text", "date", "missing")


@dataclass(frozen=True)
class Recipe:
    """How a raw row becomes an example.

    Attributes:
        kind: "svmlight", "vw" or "table" (CSV, TSV, Criteo, Parquet, Arrow, JSON lines); or "rows", for JSON objects
            whose names are hashed as they come, which a server begins with that has no model.
        bits: features are numbered 0 to 2**bits - 1.
        exact: number features in order of appearance instead of hashing them: none ever share a number.
        hash_all: VW text: hash names that are all digits too, instead of taking them as numbers.
        cross: pairs, or three, of columns or namespaces whose features are crossed; "*" stands for every other one.
        pairs: likewise, but the learner makes the pairs itself of rows that have their features alone.
        interactions: the same by the first letters of their names, as Vowpal Wabbit has them (`bayou.recipe.crosses`).
        ranges: svmlight: (name, first, last) of features that are to be crossed, as if the name were their namespace.
        label: the column to predict.
        task: one of TASKS; "auto" before the labels were looked at. What follows is about two classes.
        positive: the text of a positive label; every other text is negative.
        negative: with `positive`, the text of a negative one: labels that are neither are bad.
        label_above: labels above this number are positive; the others are negative.
        weight: the column with the examples' weights.
        ignore, numeric, category, text, date: columns that are given these roles, whatever they hold. Of VW text,
            ignore has first letters of namespaces to leave out.
        missing: more ways to write that a value is not there, in any case of letters; "" takes out the usual ones.
        decimal: "point" takes 1,400.5, $12 and 7 % for numbers, "comma" 1.400,5 and 12 €; None only plain ones.
        ngrams: texts also give runs of up to so many words; char_ngrams: and runs of so many characters of a word.
        bins: how many quantile bins a column of numbers has; 0 makes "numeric" the default for numbers.
        negative_rate: the share of negatives that were kept when the data were made.
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
    negative_rate: float = 1.0
    columns: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        one_of("a recipe's kind", self.kind, dict.fromkeys(KINDS))
        put("bits", whole_number("bits", self.bits, 1, 31))
        put("bins", whole_number("bins", self.bins, 0, MAX_BINS))
        put("ngrams", whole_number("ngrams", self.ngrams, 1, MAX_GRAMS))
        put("char_ngrams", whole_number("char_ngrams", self.char_ngrams, 0, MAX_GRAMS))
        if self.kind != "table" and (self.ngrams, self.char_ngrams) != (1, 0):
            raise BadInput(f"ngrams are made of a table's texts, and {self.kind} data have none; write out features.")
        put("exact", yes_or_no("exact", self.exact))
        put("hash_all", yes_or_no("hash_all", self.hash_all))
        put("negative_rate", positive_number("negative_rate", self.negative_rate, high=1.0))
        self._check_task(put)
        for name in ("label", "weight"):
            if getattr(self, name) is not None:
                plain_text(name, getattr(self, name))
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
            put("columns", tuple(several("columns", self.columns, "some columns")))
            if not all(isinstance(column, Column) for column in self.columns):
                raise BadInput("columns holds something that is no Column.")
            if self.kind != "table":
                raise BadInput(f"only a table has columns; this recipe is for {self.kind}.")

    def _check_task(self, put: Callable[[str, Any], None]) -> None:
        one_of("task", self.task, TASKS)
        for name in ("positive", "negative"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str | int | float | np.generic):
                raise BadInput(f"{name} is {shown(value)}; it must be the text of a label, or a number.")
            put(name, str(value))
            plain_text(name, str(value))
            if self.kind != "table" and not _is_number(str(value)):
                raise BadInput(f"{name} is {value!r}, but labels in {self.kind} data are numbers.")
        if self.negative is not None and (self.positive is None or self.positive == self.negative):
            raise BadInput("negative goes with a positive, which must be another label.")
        if self.label_above is not None:
            put("label_above", finite_number("label_above", self.label_above))
            if self.positive is not None:
                raise BadInput("positive and label_above are both given; a label is judged by one of them.")
        if (self.positive, self.label_above, self.negative_rate) == (None, None, 1.0):
            return
        if self.task not in ("auto", "binary"):
            raise BadInput(
                f"the task is {self.task}; positive, label_above and negative_rate are about two classes, binary."
            )
        put("task", "binary")

    def _check_cells(self) -> None:
        if self.decimal is not None:
            one_of("decimal", self.decimal, dict.fromkeys(DECIMALS))
        if self.kind != "table" and (self.decimal is not None or self.missing):
            raise BadInput(f"missing and decimal are about a table's cells, and {self.kind} data have none.")
        for mark in self.missing:
            if len(mark.encode()) > MARK_BYTES:
                raise BadInput(
                    f"missing holds a text of {len(mark.encode())} bytes; at most {MARK_BYTES} are looked at."
                )

    @property
    def marks(self) -> tuple[str, ...]:
        """How a cell says that there is nothing in it, besides by being empty."""
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
                "rows of any names have labels 1, 0 or -1, true or false, and hashed names, never exact ones."
            )

    @property
    def crossed(self) -> bool:
        """Whether features are crossed."""
        return bool(self.cross or self.interactions)

    def with_pairs_apart(self) -> Recipe:
        """The same for a learner that makes pairs itself; crosses of three are made as before."""
        two = [names for names in self.cross if len(names) == 2]
        others = [names for names in self.cross if len(names) > 2]
        return replace(self, cross=tuple(others), pairs=tuple(dict.fromkeys([*self.pairs, *two])))

    @property
    def n_features(self) -> int:
        """How many features there can be."""
        return 2**self.bits

    @property
    def fitted(self) -> bool:
        """Whether nothing about it is left to be decided by data."""
        return self.kind != "table" or self.columns is not None

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold. Floats come back with the same bits."""
        plain = {
            part.name: _as_json(getattr(self, part.name))
            for part in fields(self)
            if part.name not in _IF_GIVEN or getattr(self, part.name) != part.default
        }
        return plain | ({"edition": TABLE_EDITION} if self.kind == "table" else {})

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Recipe:
        """Back from `to_json`."""
        known = {part.name for part in fields(cls)} | {"edition"}
        if not isinstance(plain, Mapping) or not known.issuperset(plain):
            strange = ", ".join(sorted(map(str, set(plain) - known))) if isinstance(plain, Mapping) else repr(plain)
            raise BadModel(f"the recipe has parts that this version of bayou does not know: {strange}.")
        parts = dict(plain)
        if parts.pop("edition", 1) != (TABLE_EDITION if plain.get("kind") == "table" else 1):
            raise BadModel("the recipe reads tables by rules that this version of bayou does not know.")
        try:
            if parts.get("columns") is not None:
                parts["columns"] = tuple(Column(**column) for column in parts["columns"])
            return cls(**parts)
        except (TypeError, ValueError) as error:
            raise BadModel(f"the recipe cannot be used: {error}") from None

    def differences(self, other: Recipe) -> list[str]:
        """What is not the same in two recipes, in words; an empty list if they are equal."""
        found = []
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            if mine == theirs:
                continue
            if part.name != "columns" or mine is None or theirs is None:
                if part.name == "columns":
                    mine, theirs = ("fitted" if columns else "not fitted" for columns in (mine, theirs))
                found.append(f"{part.name} is {in_words(mine)} in one and {in_words(theirs)} in the other")
            else:
                found += column_differences(mine, theirs)
        return found


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(part) for part in value]
    return value.to_json() if isinstance(value, Column) else value


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _texts(name: str, value: Any) -> tuple[str, ...]:
    found = texts(name, value, "a list of texts" if name == "missing" else "a list of column names")
    for part in found:
        plain_text(name, part)
    return tuple(dict.fromkeys(found))
