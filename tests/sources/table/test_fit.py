"""What columns are taken for, where bins are cut, and what is said when an option does not fit the table."""

import datetime

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayou.core.errors import BadInput
from bayou.recipe.crosses import column_crosses
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.recipe import MAX_BINS, Column, Recipe
from bayou.sources.table.binning import centre_and_scale, quantile_edges
from tests.sources.tables import parse

NUMBERS = st.lists(st.one_of(st.integers(-5, 5).map(float), st.floats(-1e300, 1e300)), max_size=200).map(np.array)


def roles(table: bytes, /, **options) -> dict[str, str]:
    recipe = parse(table, Recipe(kind="table", **options))[1]
    return {column.name: column.role for column in recipe.columns}


def test_columns_are_what_they_look_like() -> None:
    text = (
        b"y,id,share,ok,city,said,none,mixed,gaps,day\n"
        b"1,17,0.5,true,Paris,this is a long text of many words,,7,3,2013-01-31\n"
        b"0,-3,2,False,Rome,and here is another one of those,,x,NA,unknown\n"
        b"0,007,-1e3,TRUE,,short now but long on average,,8,,2013-02-01\n"
    )
    assert roles(text) == {
        "y": "label",
        "id": "values",
        "share": "values",
        "ok": "flag",
        "city": "category",
        "said": "text",
        "none": "category",
        "mixed": "category",
        "gaps": "values",
        "day": "date",
    }
    numeric = roles(text, bins=0)
    assert [numeric[name] for name in ("id", "share", "gaps", "city")] == ["numeric"] * 3 + ["category"]


def columns_of(options=None, /, **values) -> dict[str, Column]:
    """The columns that are decided of a table with these values; all are written as text."""
    n = max(map(len, values.values()))
    labels = {"y": [k % 2 for k in range(n)]}
    rows = zip(*(labels | values).values(), strict=True)
    text = "\n".join([",".join(labels | values), *(",".join(map(str, row)) for row in rows)])
    recipe = parse(text.encode(), Recipe(kind="table", **options or {}))[1]
    return {column.name: column for column in recipe.columns}


def test_few_numbers_are_values_and_many_are_bins() -> None:
    found = columns_of(
        few=[k % 20 for k in range(800)],
        two=[k % 2 * 0.5 for k in range(800)],
        mostly=[0 if k % 5 else k % 3 for k in range(800)],
        counts=[k % 40 for k in range(800)],
        rare=[k % 51 for k in range(800)],
        real=[k / 7 for k in range(800)],
        zeros=[0 if k % 2 else k / 7 for k in range(799)] + [0],
    )
    roles = {name: (column.role, len(column.edges), len(column.knots)) for name, column in found.items()}
    assert roles == {
        "y": ("label", 0, 0),
        "few": ("values", 0, 20),
        "two": ("values", 0, 0),
        "mostly": ("values", 0, 0),
        "counts": ("whole", 19, 0),
        "rare": ("bins", 19, 33),
        "real": ("bins", 19, 33),
        "zeros": ("bins", 19, 0),
    }
    fewer = columns_of({"bins": 5}, few=[k % 20 for k in range(800)])["few"]
    assert (fewer.role, len(fewer.edges)) == ("whole", 4)


def test_a_month_that_stands_still_has_a_slope_around_it() -> None:
    """Of months to come an indicator says nothing until they were learned."""
    still = {"month": 3, "mday": 31, "day_of_month": 5, "MNTH": 12, "months": 3, "weekday": 3, "share": 0.5, "Day": 32}
    columns = columns_of(**{name: [value] * 400 for name, value in still.items()})
    assert {column.role for name, column in columns.items() if name != "y"} == {"values"}
    slopes = {name: column.knots for name, column in columns.items() if column.knots}
    assert slopes == {"month": (-9, 15), "mday": (0, 62), "day_of_month": (-26, 36), "MNTH": (0, 24)}
    assert not columns_of({"category": ["month"]}, month=[3] * 400)["month"].knots
    assert len(columns_of(month=[3] * 50 + [4] * 40 + [5] * 60)["month"].knots) == 3
    table = b"y,month\n" + b"0,3\n1,3\n" * 5
    fitted = parse(table, Recipe(kind="table"))[1]
    later = parse(b"y,month\n0,3\n0,9\n0,1\n0,\n", fitted)[0]
    slope = np.sqrt(3) * np.array([6, -2]) / 12
    np.testing.assert_allclose([v for v in later.values if v not in (0, 1)], slope, rtol=1e-6)


def test_raw_slopes_are_standardized_numbers_beside_those_of_ranks() -> None:
    rng = np.random.default_rng(0)
    skewed, heavy, counts = rng.gamma(3.0, size=2000), np.exp(rng.normal(0, 2, 2000)), rng.poisson(40, 2000)
    even, zeros = rng.random(2000), np.where(rng.random(2000) < 0.6, 0, skewed)
    values = {"skewed": skewed, "heavy": heavy, "counts": counts, "even": even, "zeros": zeros}
    columns = columns_of({"slope": "raw"}, **values)
    given = {name: column.gives.split(", ", 1)[-1] for name, column in columns.items() if name != "y"}
    assert given == {
        "skewed": "slope, raw slope", "heavy": "slope, raw slope", "counts": "values, raw slope", "even": "slope",
        "zeros": "20 bins",
    }  # fmt: skip
    assert not any(column.raw_knots for column in columns_of(**values).values())
    recipe = Recipe(kind="table", bits=20, label="y", columns=(columns["y"], *(columns[name] for name in values)))
    rows = "\n".join(["y,skewed,heavy,counts,even,zeros", "0,2.5,9.25,44,0.5,1", "1,1000,1e9,1000,0.5,1", "1,,,,,"])
    names = FeatureNames(2**20)
    piece = parse(f"{rows}\n".encode(), recipe, names=names)[0]
    names.add(piece.new_names)
    named = np.array(names.name_of(piece.indices))
    found = {name: piece.values[named == f"{name} (raw)"].tolist() for name in ("skewed", "heavy", "counts")}
    standard = {"skewed": (2.5 - skewed.mean()) / skewed.std(), "counts": (44 - counts.mean()) / counts.std()}
    low, middle, high = np.quantile(heavy, [0.16, 0.5, 0.84])
    logs = np.sign(heavy - middle) * np.log1p(np.abs(heavy - middle) / ((high - low) / 2))
    at = np.log1p((9.25 - middle) / ((high - low) / 2))
    for name, close in {"skewed": 1e-5, "counts": 1e-5, "heavy": 0.02}.items():  # that of logarithms is in pieces
        expected = standard.get(name, (at - logs.mean()) / logs.std())
        assert found[name] == pytest.approx([expected, 5.0], rel=close)


def test_ids_are_left_out_unless_they_are_asked_for() -> None:
    names = [f"u{k}" for k in range(400)]
    values = {
        "name": names,
        "half": [name if k % 2 else "u" for k, name in enumerate(names)],
        "counter": range(1000, 1400),
        "back": range(400, 0, -1),
        "code": [k * 7919 % 400 for k in range(400)],
    }
    roles = {name: column.role for name, column in columns_of(**values).items()}
    assert roles == {"y": "label", "name": "id", "half": "category", "counter": "id", "back": "id", "code": "bins"}
    asked = columns_of({"category": ["name", "counter"], "cross": [("back", "code")]}, **values)
    assert [asked[name].role for name in ("name", "counter", "back")] == ["category", "category", "bins"]
    assert columns_of(name=names[:50])["name"].role == "category"
    assert columns_of(title=[f"the story of {name}" for name in names])["title"].role == "text"
    assert columns_of(title=[f"story {name}" for name in names])["title"].role == "id"
    assert "400 different values in 400 rows" in columns_of(**values)["name"].why


def test_mostly_numbers_are_numbers_and_the_others_are_shown() -> None:
    dirty = [f"{k} mi" if k % 20 == 7 else k * 3 for k in range(400)]
    column = columns_of(dirty=dirty)["dirty"]
    assert column.role == "bins"
    assert "20 cells are not ('7 mi', '27 mi', '47 mi') and count as missing" in column.why
    dirtier = [f"{k} mi" if k % 19 == 7 else k % 100 for k in range(400)]
    column = columns_of(dirty=dirtier)["dirty"]
    assert column.role == "category"
    assert "95% are numbers, and numeric= treats it as numeric" in column.why
    forced = columns_of({"numeric": ["dirty"]}, dirty=dirtier)["dirty"]
    assert (forced.role, 40 < forced.centre < 60) == ("numeric", True)


def test_missing_marks_in_any_case_and_of_ones_own() -> None:
    marks = ["NA", "n/A", "NaN", "Null", "NONE", "-", "?", "Unknown", "\\N", " na ", ""]
    column = columns_of(x=[*(7 * k % 100 for k in range(100)), *marks])["x"]
    assert (column.role, round(column.missing, 3)) == ("bins", round(11 / 111, 3))
    assert columns_of(x=[*range(20), *["n.a."] * 5])["x"].role == "category"
    assert columns_of({"missing": ["n.a."]}, x=[*range(20), *["N.A."] * 5])["x"].role == "values"
    assert columns_of({"missing": ["-99"]}, x=[*range(20), *["-99.0"] * 5])["x"].missing == 0.2
    assert columns_of({"missing": [""]}, x=[*range(20), *["NA"] * 5])["x"].role == "category"


def test_several_marks_that_were_given_as_one_are_remarked_on() -> None:
    values = {"age": [*range(40), *["-999.0"] * 5], "city": [*["oslo", "rome"] * 20, *["Missing"] * 5]}
    found = columns_of({"missing": ["-999,missing"]}, **values)
    advice = "for several marks give missing=['-999', 'missing']"
    said = {name: f"missing='-999,missing' does not occur in the first rows, but {mark} does; {advice}"
            for name, mark in {"age": "-999", "city": "missing"}.items()}  # fmt: skip
    assert {name: column.remark for name, column in found.items()} == {"y": "", **said}
    for marks in (["-999", "missing"], ["-999"], ["n.a., none at all"]):
        assert not any(column.remark for column in columns_of({"missing": marks}, **values).values())
    # A mark with a comma in it that does come is one.
    values["city"][0] = '" -999,MISSING"'
    found = columns_of({"missing": ["-999,missing"]}, **values)
    assert not any(column.remark for column in found.values())
    assert round(45 * found["city"].missing) == 1
    still = columns_of({"missing": ["x,-1"]}, still=[-1] * 40)["still"].remark
    assert still == "missing='x,-1' does not occur in the first rows, but -1 does; for several marks give " \
        "missing=['x', '-1']; it is constant so far"  # fmt: skip


def test_decimals_of_both_kinds() -> None:
    us = ['"1,400.5"', "$7", '"12,000"', "5 %", "€3"]
    assert columns_of(x=us)["x"].role == "category"
    assert columns_of({"decimal": "point"}, x=us)["x"].levels == columns_of(x=[1400.5, 7, 12000, 5, 3])["x"].levels
    european = ['"1.400,5"', "7 €", "12.000", '"5,25"', "3"]
    assert columns_of({"decimal": "comma"}, x=european)["x"].knots == (3.0, 5.25, 7.0, 1400.5, 12000.0)


def test_a_part_of_a_date_that_another_column_tells_is_left_out() -> None:
    first = datetime.datetime(2013, 1, 1)
    moments = [first + datetime.timedelta(hours=31 * k) for k in range(300)]
    alone = columns_of(when=moments)["when"]
    assert alone.parts == ("hour", "weekday", "month", "weekend hour")
    told = columns_of(when=moments, month=[f"m{moment.month}" for moment in moments])["when"]
    assert told.parts == ("hour", "weekday", "weekend hour")
    assert "month is told by column 'month'" in told.why
    hour = [moment.hour + (k % 11 == 0) for k, moment in enumerate(moments)]  # in nine rows of ten
    assert columns_of(when=moments, hour=hour)["when"].parts == ("weekday", "month", "weekend hour")
    # A part that hardly moves is not told by columns that have nothing to do with it.
    slow = [first + datetime.timedelta(hours=k / 11) for k in range(300)]  # two days, the second of them short
    assert columns_of(when=slow, m=[k % 7 for k in range(300)])["when"].parts == alone.parts
    days = [moment.date() for moment in moments]
    assert columns_of(when=days)["when"].parts == ("weekday", "month")
    still = [first + datetime.timedelta(minutes=k) for k in range(300)]  # one day: what stands still may move later
    assert columns_of(when=still, m=["1"] * 300)["when"].parts == ("hour", "weekday", "weekend hour")
    assert columns_of(when=still, m=["2"] * 300)["when"].parts == ("hour", "weekday", "month", "weekend hour")


def test_numbers_are_dates_where_they_say_so_or_somebody_does() -> None:
    seconds = [1_357_000_000 + 5_000 * k % 1_000_003 for k in range(300)]
    assert columns_of(unix_time=seconds)["unix_time"].role == "date"
    assert columns_of(timestamp=[1000 * s for s in seconds])["timestamp"].role == "date"
    assert columns_of(size=seconds)["size"].role == "bins"
    assert columns_of(timestamp=[s // 10 for s in seconds])["timestamp"].role == "bins"
    assert columns_of({"date": ["size"]}, size=seconds)["size"].parts[0] == "hour"
    assert columns_of({"date": ["d"]}, d=[20130100 + 1 + k % 28 for k in range(60)])["d"].parts == ("weekday", "month")
    with pytest.raises(BadInput, match=r"column 'd' cannot be a date: it holds 'x'; expected dates such as 2013-01-31"):
        columns_of({"date": ["d"]}, d=["x", "z"] * 9)


@pytest.mark.parametrize("unit", [1, 1000])
@pytest.mark.parametrize("name", ["unix_time", "epoch", "Timestamp"])
def test_points_in_time_are_dates_in_whatever_order_they_stand(name: str, unit: int) -> None:
    rising = [unit * (1_672_534_932 + 2_834 * k + k % 7) for k in range(300)]
    for times in (rising, rising[::-1], rising[150:] + rising[:150]):
        column = columns_of(**{name: times})[name]
        assert (column.role, column.parts, column.remark) == ("date", ("hour", "weekday", "month", "weekend hour"), "")
    assert columns_of({"bins": 0}, **{name: rising})[name].role == "date"
    assert columns_of({"category": [name]}, **{name: rising})[name].role == "category"
    assert columns_of(**{name: [time // 10 for time in rising]})[name].role == "id"


@pytest.mark.parametrize("unit", [1, 1000])
def test_an_id_that_may_be_a_point_in_time_is_remarked_on(unit: int) -> None:
    rising = [unit * (1_672_534_932 + 2_834 * k) for k in range(300)]
    found = columns_of(at=rising, counter=range(1000, 1300))
    assert [(found[name].role, "date= treats it" in found[name].remark) for name in ("at", "counter")] == [
        ("id", True),
        ("id", False),
    ]
    asked = columns_of({"date": ["at"]}, at=rising)["at"]
    assert (asked.role, asked.remark) == ("date", "")


def test_options_overrule_the_looks() -> None:
    table = b"y,id,share,city,said,k\n1,17,0.5,Paris,a b,2\n0,18,0.7,Rome,c,1\n"
    assert roles(table, category=["id"], numeric=["share"], text=["said"], weight="k", ignore=["city"]) == {
        "y": "label",
        "id": "category",
        "share": "numeric",
        "city": "ignored",
        "said": "text",
        "k": "weight",
    }


@pytest.mark.parametrize("name", ["label", "target", "y"])
def test_the_label_is_found_by_its_usual_names(name: str) -> None:
    assert roles(b"a,%b\nx,1\nz,0\n" % name.encode())[name] == "label"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "nope"}, "label names the column 'nope', which does not exist; the columns are a, b, c"),
        ({}, "specify the column to predict with label=; the columns are a, b, c"),
        ({"label": "a", "ignore": ["x", "b"]}, "ignore names the column 'x'"),
        ({"label": "a", "cross": [("b", "zz")]}, "cross names the column 'zz'"),
        ({"label": "a", "cross": [("b", "b")]}, "'b' with itself"),
        ({"label": "a", "ignore": ["c"], "cross": [("b", "c")]}, "gives no features: it is ignored"),
        ({"label": "b", "task": "regression"}, "'b', holds 'u', but regression predicts numbers"),
        ({"label": "a", "numeric": ["b"]}, "column 'b' cannot be numeric: it holds 'u'"),
        ({"label": "c", "label_above": 3}, "label_above= needs numbers"),
    ],
)
def test_what_does_not_fit_the_table_is_said(options: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        roles(b"a,b,c\n1,u,true\n0,v,false\n", **options)


def test_a_few_strange_labels_are_bad_rows_not_a_refusal() -> None:
    piece, _ = parse(b"y,a\n1,x\noops,x\n0,x\n", Recipe(kind="table"))
    assert (len(piece.labels), piece.skipped) == (2, 1)


def test_crosses_with_a_star() -> None:
    recipe = parse(b"y,a,b,c\n1,u,2,w\n", Recipe(kind="table", cross=[("b", "*"), ("a", "b"), ("*", "*")]))[1]
    assert column_crosses(recipe) == [(2, 1), (2, 3), (1, 3)]


@example(np.array([0.0, 0.0, 0.0, -1.0, -2.0]), 3)  # two rare values below a frequent one
@given(NUMBERS, st.integers(1, 30))
def test_edges_cut_into_at_most_so_many_bins_none_of_them_empty(numbers: np.ndarray, bins: int) -> None:
    edges = np.array(quantile_edges(numbers, bins))
    assert len(edges) < bins
    assert (np.diff(edges) > 0).all()
    if len(numbers):
        counts = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
        assert (counts > 0).all()
        # few values have a bin each
        assert len(edges) == min(len(np.unique(numbers)), bins) - 1 or len(np.unique(numbers)) > bins


def test_bins_hold_about_equally_many() -> None:
    numbers = np.random.default_rng(0).normal(size=10_000)
    for bins in (2, 10, 20, 50, MAX_BINS):
        counts = np.bincount(np.searchsorted(quantile_edges(numbers, bins), numbers, side="right"))
        assert len(counts) == bins
        assert abs(counts - 10_000 / bins).max() <= 1


def test_a_frequent_value_leaves_the_other_bins_to_the_rest() -> None:
    numbers = np.concatenate([np.zeros(9_000), np.arange(1, 1_001)])
    counts = np.bincount(np.searchsorted(quantile_edges(numbers, 11), numbers, side="right"))
    assert counts.tolist() == [9_000] + [100] * 10


@given(NUMBERS)
def test_scales_are_positive_and_finite(numbers: np.ndarray) -> None:
    centre, scale = centre_and_scale(numbers)
    assert np.isfinite(centre)
    assert 0 < scale < np.inf
