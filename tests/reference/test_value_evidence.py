"""The fast evidence for values of a column is that of its definition, and means what it says."""

import numpy as np
import pytest

from bayou.sources.table.binning import quantile_edges
from bayou.sources.table.value_evidence import ValueEvidence, value_evidence
from tests.reference import value_evidence as reference


def evidence(x: np.ndarray, labels: np.ndarray) -> ValueEvidence:
    return value_evidence(x, labels, quantile_edges(x[~np.isnan(x)], 20))


KINDS = ("name", "smooth", "nothing")


def column(seed: int, n: int, distinct: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and labels that differ by value, smoothly, or not at all."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, distinct, n).astype(float) ** 2
    effect = {"name": rng.normal(size=distinct)[np.sqrt(x).astype(int)], "smooth": x / x.std(), "nothing": 0.0}[kind]
    return x, effect + rng.normal(size=n)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "distinct"), [(60, 4), (200, 30), (300, 150)])
def test_it_is_as_defined(n, distinct, kind):
    x, y = column(n, n, distinct, kind)
    for label in (y, (y > 0.5).astype(float), 1e6 + 1e-3 * y):
        found = evidence(x, label[None])
        assert found.by_value == pytest.approx(reference.by_value(x, label), rel=1e-6, abs=1e-6)
        assert found.by_bin == pytest.approx(reference.by_bin(x, label, quantile_edges(x, 20)), rel=1e-6, abs=1e-6)


def test_names_and_quantities_are_told_apart():
    names, smooth, nothing = (evidence(x, y[None]) for x, y in (column(1, 5000, 500, k) for k in KINDS))
    assert names.by_value > 1000
    assert smooth.by_value < 10 < 1000 < smooth.by_bin
    assert max(nothing[1:]) < 3


def test_rows_without_a_number_or_a_label_are_left_out_and_the_largest_class_counts():
    x, y = column(2, 3000, 100, "name")
    whole = evidence(x, y[None])
    numbers, labels = np.repeat(x, 2), np.repeat(y, 2)
    holes = np.where(np.arange(6000) % 2, np.nan, 1.0)
    assert tuple(evidence(numbers * holes, labels[None])) == pytest.approx(tuple(whole))
    assert tuple(evidence(numbers, labels[None] * holes)) == pytest.approx(tuple(whole))
    several = evidence(x, np.array([y, column(3, 3000, 100, "nothing")[1]]))
    assert tuple(several) == pytest.approx(tuple(whole))


def test_few_rows_and_labels_that_are_all_alike_or_huge_show_nothing():
    x, y = column(4, 100, 10, "name")
    for numbers, labels in ((x[:49], y[:49]), (x, np.ones(100)), (x, np.sign(y) * 1e308), (np.full(100, np.nan), y)):
        assert evidence(numbers, labels[None])[1:] == (0.0, 0.0)
    assert evidence(x, np.empty((0, 100))) == (0, 0.0, 0.0)


def test_the_values_of_the_lab(data_directory):
    """California: totals of a block are quantities. The numbers were measured once with another program."""
    import pyarrow.csv as csv

    table = csv.read_csv(data_directory / "california_housing.csv.gz").slice(0, 10_000)
    y = table["medianHouseValue"].to_numpy().astype(float)
    for name, by_value, by_bin in (("totalRooms", 1.1, 295), ("totalBedrooms", 4.0, 67), ("households", 4.5, 95)):
        found = evidence(table[name].to_numpy().astype(float), y[None])
        assert found[1:] == pytest.approx((by_value, by_bin), rel=0.1)
