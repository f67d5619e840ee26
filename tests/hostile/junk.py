"""Things that are not what was asked for."""

from __future__ import annotations

import decimal
import fractions
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from bayou import Batch
from bayou.learners import Marginal


def _broken_csr() -> Any:
    broken = sp.csr_array(np.eye(3))
    broken.indptr = np.array([0, 2, 1, 3], np.int32)
    return broken


def _beyond_csr() -> Any:
    beyond = sp.csr_array(np.eye(3))
    beyond.indices = np.array([0, 7, -1], np.int32)
    return beyond


class Unfriendly:
    """Says that it has a length and can be iterated, and then does neither."""

    def __len__(self) -> int:
        raise ValueError("no length today")

    def __iter__(self) -> Any:
        raise TypeError("nothing to see")


def things() -> list[Any]:
    """Wrong things, made anew: none of them may be changed by a call that refuses it."""
    pandas = __import__("pandas")
    return [
        None, True, False, 0, 1, -1, 3, 7, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**400,
        0.0, -0.0, 0.5, -0.5, 1.5, float("nan"), float("inf"), float("-inf"), 1e308, 1e-320, 1j,
        decimal.Decimal("NaN"), fractions.Fraction(1, 3), np.float32(0.5), np.int64(-2), np.bool_(True), np.nan,
        np.datetime64("2020-01-01"), np.timedelta64(1), np.str_("x"), np.float64("inf"),
        "", "x", "y", "1", "nan", "auto", "logistic", "float16", "int32", "\x00", "a\nb", "é" * 300, "\ud800", "*", "-",
        "/", "/dev/null", "/no/such/place.svm", ".", b"x", bytearray(b"y"), memoryview(b"12"), pathlib.Path("nowhere"),
        object(), Unfriendly(), len, int, Batch, np, lambda *a, **k: None, ..., NotImplemented, slice(None), range(3),
        [], [[]], [[], []], (), {}, set(), {1}, frozenset("a"), [None], [[None]], ["a"], ["a", "b"], [1, "a"], [1, 2],
        [1, 2, 3], [0, 1, 1, 0], [1, -1, 0, 1], [[1, 2], [3]], [1, [2]], [float("nan")] * 4, [2**70], [-1], [1e400],
        [(1, 2)], [("a", "b")], [("a",)], [{"a": 1}], [{0: "x"}], [{-1: 1.0}], [{0: float("nan")}], [{2**40: 1.0}],
        {"a": 1}, {0: 1.0}, {"a": float("inf")}, {"a": None}, {None: 1}, {(1, 2): object()}, {"a": [1, 2]}, {"a": {}},
        {"kind": "vw"}, {"label": "y"}, {"bits": -1}, {"seed": "x"},
        np.array([]), np.array(1.0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2)), np.zeros((4, 3)),
        np.ones(4), np.arange(4), np.arange(-2, 2), np.full((4, 3), np.nan), np.full((4, 3), 1e300),
        np.full((4, 3), -np.inf), np.array([0, 1, 0, 1], bool), np.array(["a", "b"]), np.array([1, "a"], object),
        np.array([None] * 4), np.array([[1], [2, 3]], object), np.ones((4, 3), complex), np.ones(4, "M8[s]"),
        np.ones((4, 3), np.float16), np.ones((4, 3), ">f8"), np.ones((4, 3), np.longdouble), np.ones((3, 4)).T,
        np.zeros(2, [("a", "f4")]), np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3)), np.matrix("1 2; 3 4"),
        np.broadcast_to(np.float64(1), (4, 3)), np.full(4, 2**63, np.uint64), np.full(4, -(2**31), np.int32),
        sp.csr_array((0, 3)), sp.csr_array((4, 0)), sp.csr_matrix(np.eye(4, 3)), sp.coo_array(np.eye(3)),
        sp.csr_array(np.full((4, 3), np.nan)), sp.csr_array((4, 2**20)), sp.csr_array(np.eye(3, dtype=complex)),
        _broken_csr(), _beyond_csr(), sp.eye_array(3, format="dia"),
        pandas.DataFrame(), pandas.DataFrame({"a": [1, None], "y": ["u", "v"]}), pandas.Series([1, "a"]),
        pandas.DataFrame([[1, 2]], columns=["a", "a"]), pandas.DataFrame({0: [1.0], "b": [2.0]}),
        pa.table({}), pa.table({"y": [1, 0], "x": [None, "a"]}), pa.table({"y": pa.array([], pa.null())}),
        pa.array([1, 2]), Batch.from_rows([]), Batch.from_rows([{}]), Batch.from_rows([{2: 1.0}], labels=[1]),
        Batch.from_rows([{0: 1.0}], labels=[7]), Batch.from_rows([{0: 1.0}], labels=[float("nan")]),
        Batch.from_rows([{2**32 - 2: 1e300}], labels=[1], weights=[1e300]), [Batch.from_rows([{0: 1.0}])],
        Marginal(n_features=3), (x for x in ()), (x for x in [None]), iter([{0: 1.0}]), zip([1], [2], strict=True),
    ]  # fmt: skip
