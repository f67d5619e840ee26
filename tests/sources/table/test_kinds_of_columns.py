"""A table of forty columns of many kinds: each role is what a sensible analyst would choose, and the table says why."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou.recipe.recipe import Column, Recipe
from bayou.runs.look import warnings_on
from tests.sources.tables import parse

N = 6000


def table() -> dict[str, list]:
    """Return the columns by name. The label depends on some customers, shops, ages, incomes and hours."""
    rng = np.random.default_rng(5)
    start = datetime.datetime(2024, 1, 1)
    customer, shop, age = rng.integers(100_000, 102_500, N), rng.integers(1, 300, N), rng.integers(18, 90, N)
    income, hour = np.round(rng.lognormal(10, 0.6, N)), rng.integers(0, 24, N)
    days = rng.integers(0, 700, N)
    logit = rng.normal(0, 1.5, 2500)[customer - 100_000] + rng.normal(0, 1, 300)[shop]
    logit += (age - 50) / 20 + np.log(income / 22_000) + np.sin(hour / 4)
    label = (rng.random(N) < 1 / (1 + np.exp(-logit))).astype(int)
    zip_codes = rng.integers(1000, 1400, N)
    columns = {
        "label": label,
        # ids of four shapes, and other names written as numbers
        "row_number": np.arange(N) + 1,
        "counts_down": 50_000 - 3 * np.arange(N),
        "order_name": [f"o-{k:06}" for k in rng.permutation(N)],
        "uuid": [f"{rng.integers(1 << 62):016x}" for _ in range(N)],
        "customer": customer,
        "shop": shop,
        "zip_code": zip_codes,
        "barcode": 4_000_000_000_000 + 7919 * rng.integers(0, 700, N),
        "phone_prefix": rng.integers(200, 215, N),
        # codes and categories
        "country": rng.choice(["NO", "SE", "DK", "FI"], N),
        "status_code": rng.choice([200, 301, 404, 500], N),
        "icd": [f"{rng.choice(list('EVK'))}{rng.integers(10, 99)}" for _ in range(N)],
        "diagnosis": [f"V{k}" if rng.random() < 0.03 else str(k) for k in rng.integers(1, 900, N)],
        "weekday_name": rng.choice(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], N),
        "plan": rng.choice(["free", "basic", "pro"], N),
        # counts
        "visits": rng.poisson(3, N),
        "clicks": rng.poisson(40, N),
        "bytes_sent": np.round(rng.lognormal(12, 2, N)),
        "mostly_zero": np.where(rng.random(N) < 0.7, 0, rng.integers(1, 2000, N)),
        "nearly_zero": np.where(rng.random(N) < 0.995, 0, rng.integers(1, 2000, N)),
        # money
        "income": income,
        "price": np.round(rng.lognormal(3, 1, N), 2),
        "balance": np.round(rng.normal(0, 90_000, N)),
        "discount_percent": rng.choice([0, 5, 10, 15, 20, 25, 50], N),
        # coordinates and measurements
        "latitude": 55 + 10 * rng.random(N),
        "longitude": 8 + 15 * rng.random(N),
        "temperature": np.round(rng.normal(10, 8, N), 1),
        "height_cm": np.round(rng.normal(172, 10, N)),
        "share": rng.random(N),
        # dates and times
        "day": [str((start + datetime.timedelta(days=int(d))).date()) for d in days],
        "created_at": [str(start + datetime.timedelta(hours=int(h))) for h in 24 * days + hour],
        "unix_time": 1_700_000_000 + np.cumsum(rng.integers(1, 900, N)),
        "hour": hour,
        "month": rng.integers(1, 13, N),
        "year": rng.integers(1990, 2025, N),
        # ages, flags and the rest
        "age": age,
        "children": rng.integers(0, 6, N),
        "member": rng.random(N) < 0.4,
        "is_new": rng.integers(0, 2, N),
        "title": [" ".join(rng.choice(WORDS, 7)) for _ in range(N)],
    }  # fmt: skip
    return {name: np.asarray(values).tolist() for name, values in columns.items()}


WORDS = [f"word{k}" for k in range(400)]

# The role, what it gives, and why an analyst would choose it.
EXPECTED = {
    "label": ("label", "", "the column to predict"),
    "row_number": ("id", "", "it numbers the rows"),
    "counts_down": ("id", "", "it numbers the rows, downwards"),
    "order_name": ("id", "", "a name of its own for each row"),
    "uuid": ("id", "", "a name of its own for each row"),
    "customer": ("whole", "20 bins, values, slope", "keys that come again, and customers differ"),
    "shop": ("whole", "20 bins, values", "few keys that come again and again"),
    "zip_code": ("whole", "20 bins, values, slope", "keys that come again; nothing follows their order"),
    "barcode": ("whole", "20 bins, values, slope", "keys that come again; nothing follows their order"),
    "phone_prefix": ("values", "values, slope", "few numbers"),
    "country": ("category", "values", "names"),
    "status_code": ("values", "values, slope", "few numbers"),
    "icd": ("category", "values", "codes of letters and digits"),
    "diagnosis": ("whole", "20 bins, values, slope", "mostly numbers; look says that the rest are codes"),
    "weekday_name": ("category", "values", "names"),
    "plan": ("category", "values", "names"),
    "visits": ("values", "values, slope", "small counts"),
    "clicks": ("whole", "20 bins, values", "counts that come again and again"),
    "bytes_sent": ("bins", "20 bins, slope", "quantities that never come again"),
    "mostly_zero": ("whole", "20 bins, values", "one value makes up most rows"),
    "nearly_zero": ("whole", "20 bins, values", "one value makes up nearly all rows"),
    "income": ("bins", "20 bins, slope", "a quantity that the label follows"),
    "price": ("bins", "20 bins, slope", "decimals are no names"),
    "balance": ("bins", "20 bins, slope", "quantities that nearly never come again"),
    "discount_percent": ("values", "values, slope", "few numbers"),
    "latitude": ("bins", "20 bins, slope", "decimals are no names"),
    "longitude": ("bins", "20 bins, slope", "decimals are no names"),
    "temperature": ("bins", "20 bins, slope", "decimals are no names"),
    "height_cm": ("whole", "20 bins, values", "integers that come again and again"),
    "share": ("bins", "20 bins, slope", "decimals are no names"),
    "day": ("date", "weekday, month", "a date without hours"),
    "created_at": ("date", "weekday, month, weekend hour", "a time; the hour is told by another column"),
    "unix_time": ("date", "hour, weekday, month, weekend hour", "its name says so"),
    "hour": ("whole", "20 bins, values", "integers that come again and again"),
    "month": ("values", "values, slope", "few numbers"),
    "year": ("whole", "20 bins, values", "integers that come again and again"),
    "age": ("whole", "20 bins, values", "integers that come again and again"),
    "children": ("values", "values, slope", "few numbers"),
    "member": ("flag", "values", "true and false"),
    "is_new": ("values", "values", "two values need no slope"),
    "title": ("text", "words", "sentences"),
}


@pytest.fixture(scope="module")
def columns(tmp_path_factory) -> dict[str, Column]:
    """The columns of the table as a CSV file."""
    values = table()
    path = tmp_path_factory.mktemp("kinds") / "table.csv"
    path.write_text(as_csv(values))
    return {column.name: column for column in bayou.look(str(path), label="label").columns}


def as_csv(values: dict[str, list]) -> str:
    rows = [",".join(map(str, row)) for row in zip(*values.values(), strict=True)]
    return "\n".join([",".join(values), *rows]) + "\n"


def test_there_are_forty_and_the_label(columns) -> None:
    assert len(columns) == 41
    assert list(columns) == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_roles_are_what_an_analyst_would_choose(columns, name: str) -> None:
    assert (columns[name].role, columns[name].gives) == EXPECTED[name][:2], EXPECTED[name][2]


def test_reasons_are_shown(columns) -> None:
    differs, flat = "the label differs by value: values besides bins", "the label does not follow the number: values"
    assert columns["customer"].why.endswith(f"different; {differs}")
    assert flat in columns["barcode"].why
    assert "values besides bins" not in columns["income"].why + columns["balance"].why + columns["age"].why


def test_typed_columns_are_taken_for_the_same(columns) -> None:
    typed = bayou.look(pa.table(table()), label="label").columns
    assert {column.name: column.gives for column in typed} == {
        **{name: column.gives for name, column in columns.items()},
        "diagnosis": "values",  # a text is never taken for a number
    }


def test_options_overrule_the_evidence() -> None:
    some = {name: values for name, values in table().items() if name in ("label", "customer", "shop")}
    chosen = bayou.look(pa.table(some), label="label", category=["customer"], numeric=["shop"]).columns
    assert [column.role for column in chosen] == ["label", "code", "numeric"]


@pytest.mark.parametrize(("weight", "role"), [(0.0, "bins"), (2.5, "whole")])
def test_rows_of_weight_0_say_nothing(weight: float, role: str) -> None:
    some = {name: values for name, values in table().items() if name in ("label", "customer")}
    values = pa.table({**some, "weight": [weight] * N})
    columns = bayou.look(values, label="label", weight="weight").columns
    assert [column.role for column in columns] == ["label", role, "weight"]


@pytest.mark.parametrize(("others", "role"), [(3_000, "whole"), (400_000, "bins")])
def test_columns_of_too_many_values_get_no_indicators(others: int, role: str) -> None:
    """Half of the rows have one of 300 keys, which differ, the others one of many: more than 2^16 in all, or not."""
    rng = np.random.default_rng(3)
    key = np.where(rng.random(N) < 0.5, rng.integers(0, 300, N), 1000 + rng.integers(0, others, N))
    label = rng.random(N) < 1 / (1 + np.exp(-np.where(key < 300, rng.normal(0, 2, 300)[key % 300], 0)))
    columns = bayou.look(pa.table({"y": label.astype(int), "key": key}), label="y").columns
    assert [column.role for column in columns] == ["label", role]


@pytest.mark.parametrize(("trend", "role"), [(0.0, "whole"), (1.0, "bins")])
def test_quantities_that_nearly_never_come_again_get_no_indicators(monkeypatch, trend: float, role: str) -> None:
    """Rows of a value are alike, but hardly two have the same; they are names only if nothing follows the number."""
    rng = np.random.default_rng(4)
    number = rng.integers(0, 40_000, N)
    logit = rng.normal(0, 4, 40_000)[number] + trend * (number - 20_000) / 5000
    table = pa.table({"y": (rng.random(N) < 1 / (1 + np.exp(-logit))).astype(int), "number": number})
    assert bayou.look(table, label="y").columns[1].role == role
    monkeypatch.setattr("bayou.sources.table.column_roles.MIN_REPEATS", 1.0)
    assert bayou.look(table, label="y").columns[1].role == "whole"


def test_without_a_label_there_is_no_evidence() -> None:
    assert [column.role for column in bayou.look(pa.table({"customer": table()["customer"]})).columns] == ["bins"]


@pytest.mark.parametrize("task", ["regression", "several", "above"])
def test_any_kind_of_label_is_evidence(task: str) -> None:
    rng = np.random.default_rng(2)
    key = rng.integers(0, 900, N)
    number = rng.normal(0, 2, 900)[key] + rng.normal(size=N)
    label = {"several": np.digitize(number, [-1.5, 1.5]), "above": number, "regression": number}[task]
    values = pa.table({"y": label, "key": key, "other": rng.integers(0, 10**9, N)})
    options = {"label_above": 1.0} if task == "above" else {}
    for columns in (
        bayou.look(values, label="y", **options).columns,
        bayou.train(values, label="y", **options).learner.extras.recipe.columns,
    ):
        assert [column.role for column in columns] == ["label", "whole", "bins"]


# --- doubts ----------------------------------------------------------------------------------------------------------


def test_doubts_are_shown_the_most_doubtful_first() -> None:
    rng = np.random.default_rng(0)
    label = np.repeat(rng.integers(0, 2, 60), 100)
    values = {
        "still": ["x"] * N,
        "subject": np.repeat(rng.permutation(42) + 7, N // 42 + 1)[:N].tolist(),
        "zeros": np.where(rng.random(N) < 0.002, rng.integers(1, 9, N), 0).tolist(),
        "icd": [f"V{k}" if row % 40 == 0 else str(k) for row, k in enumerate(rng.integers(1, 900, N))],
        "refunded": ["yes" if y else "no" for y in label],
        "fine": rng.normal(size=N).tolist(),
        "label": label.tolist(),
    }
    lines = warnings_on(parse(as_csv(values).encode(), Recipe(kind="table", label="label"))[1].columns)
    starts = [
        "column 'refunded': it alone predicts the label",
        "column 'label': the label comes in runs",
        "column 'icd': 2.5% of its cells are not numbers ('V",
        "column 'subject': its 42 values come in blocks of 143 rows",
        "column 'still': it is constant so far",
        "column 'zeros': it is nearly constant",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=False)] == starts
    assert len(lines) == len(starts)
    assert "category= treats each value as a name" in lines[2]
    assert [("ignore= excludes it" in line) for line in lines] == [True, False, False, True, False, True]


@pytest.mark.parametrize("order", ["sorted", "slow", "shuffled", "huge"])
def test_neighboring_numbers_that_are_alike_are_a_label_in_runs(order: str) -> None:
    rng = np.random.default_rng(0)
    number = np.sort(rng.gamma(2.0, size=400))
    number = {"slow": np.sin(np.arange(400) / 9), "huge": 1e200 * number, "sorted": number}.get(
        order, rng.permutation(number)
    )
    text = as_csv({"y": number.tolist(), "x": rng.integers(0, 9, 400).tolist()})
    lines = warnings_on(parse(text.encode(), Recipe(kind="table", label="y", task="regression"))[1].columns)
    runs = [line for line in lines if "the label comes in runs (squared differences of neighbors are" in line]
    assert len(runs) == (order in ("sorted", "slow"))


def test_plain_columns_raise_no_doubts(columns) -> None:
    assert {name for name, column in columns.items() if column.remark} == {"diagnosis", "nearly_zero"}
