"""Batch: everything that could hurt a learner is refused or corrected when a batch is made."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bayou import BadInput, Batch, MarginalClassifier
from bayou.core.batch import MAX_FEATURES

values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0]) | st.floats(-1e6, 1e6, width=32)
messy_rows = st.lists(
    st.lists(st.tuples(st.integers(0, 12) | st.integers(0, 2**32 - 1), values), max_size=20), max_size=8
)


def canonical(row: list[tuple[int, float]], dtype) -> list[tuple[int, float]]:
    """Slow and obvious: each feature once, where it came first, its values summed in order; no zeros."""
    sums: dict[int, float] = {}
    for feature, value in row:
        sums[feature] = dtype(sums[feature] + dtype(value)) if feature in sums else dtype(value)
    return [(feature, value) for feature, value in sums.items() if value != 0]


def rows_of(batch: Batch) -> list[list[tuple[int, float]]]:
    return [
        list(zip(batch.indices[a:b].tolist(), batch.values[a:b], strict=True))
        for a, b in itertools.pairwise(batch.indptr)
    ]


def arrays(rows, dtype=np.float64):
    indptr = np.cumsum([0, *map(len, rows)])
    return (
        indptr,
        np.array([i for row in rows for i, _ in row], np.int64),
        np.array([x for row in rows for _, x in row], dtype),
    )


@pytest.mark.parametrize("large", [2, 1 << 20], ids=["two threads", "one thread"])
@given(rows=messy_rows, dtype=st.sampled_from([np.float32, np.float64]))
def test_rows_become_canonical(large, rows, dtype):
    with pytest.MonkeyPatch.context() as patch:
        # from how many non-zeros on two threads look at them
        patch.setattr("bayou.core.canonical._MIN_THREADED_NONZEROS", large)
        batch = Batch.from_arrays(*arrays(rows, dtype))
    expected = [canonical(row, dtype) for row in rows]
    assert rows_of(batch) == expected
    assert batch.values.dtype == dtype
    assert batch.indices.dtype == np.uint32
    assert batch.indptr.dtype == np.int64
    assert batch.max_row_length >= max(map(len, expected), default=0)
    assert batch.max_index == max((i for row in expected for i, _ in row), default=-1)
    assert batch.max_abs_value == max((abs(float(x)) for row in expected for _, x in row), default=0.0)
    assert batch.is_all_ones == all(x == 1 for row in expected for _, x in row)
    assert len(batch) == len(rows)
    assert batch.nonzeros == sum(map(len, expected))


@pytest.mark.parametrize("large", [2, 1 << 20], ids=["two threads", "one thread"])
@pytest.mark.parametrize("wrong", range(6))
def test_one_value_that_is_not_one_is_found_wherever_it_stands(wrong, large, monkeypatch):
    monkeypatch.setattr("bayou.core.canonical._MIN_THREADED_NONZEROS", large)
    values = np.ones(6)
    assert Batch.from_arrays([0, 2, 6], np.arange(6), values).is_all_ones
    for other in (-1.0, 0.5, 2.0):
        values[wrong] = other
        assert not Batch.from_arrays([0, 2, 6], np.arange(6), values).is_all_ones
    values[wrong] = np.nan
    with pytest.raises(BadInput, match=f"feature {wrong}: the value is nan"):
        Batch.from_arrays([0, 2, 6], np.arange(6), values)


def test_a_negative_feature_is_refused_in_32_bits_too():
    with pytest.raises(BadInput, match="feature -3 is negative"):
        Batch.from_arrays([0, 2], np.array([5, -3], np.int32), [1.0, 1.0])


@given(rows=messy_rows)
def test_making_rows_canonical_again_changes_nothing(rows):
    once = Batch.from_arrays(*arrays(rows))
    twice = Batch.from_arrays(once.indptr, once.indices, once.values)
    assert rows_of(twice) == rows_of(once)
    for bound in ("max_row_length", "max_abs_value", "max_index"):
        assert getattr(twice, bound) == getattr(once, bound)


def test_rows_with_many_features_of_one_hash_are_summed_too():
    """Features a power of two apart meet in a small table's slots."""
    features = [k << 20 for k in range(500)] * 2
    batch = Batch.from_arrays([0, 1000], np.array(features), np.ones(1000))
    assert batch.nonzeros == 500
    assert (batch.values == 2).all()


def test_a_feature_may_come_again_in_the_next_row():
    batch = Batch.from_arrays([0, 2, 4], [1, 5, 5, 1], [1.0, 2.0, 3.0, 4.0])
    assert rows_of(batch) == [[(1, 1.0), (5, 2.0)], [(5, 3.0), (1, 4.0)]]


@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array]
)
def test_from_csr_takes_any_sparse_format(kind):
    dense = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    batch = Batch.from_csr(kind(dense), [1, -1, 1])
    np.testing.assert_array_equal(batch.to_csr(3).toarray(), dense)
    assert batch.labels.tolist() == [1, -1, 1]


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_from_csr_takes_both_index_widths(index):
    X = sparse.csr_array(np.eye(4))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    np.testing.assert_array_equal(Batch.from_csr(X).to_csr(4).toarray(), np.eye(4))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "?", "f2", object])
def test_from_csr_takes_dense_arrays_of_any_number_type(dtype):
    dense = np.array([[0, 1, 0], [1, 0, 1]]).astype(dtype)
    batch = Batch.from_csr(dense)
    np.testing.assert_array_equal(batch.to_csr(3).toarray(), dense.astype(float))
    assert batch.values.dtype in (np.float32, np.float64)


def test_from_csr_takes_nested_lists():
    assert rows_of(Batch.from_csr([[0, 2], [3, 0]])) == [[(1, 2.0)], [(0, 3.0)]]


@given(rows=st.lists(st.dictionaries(st.integers(0, 50), st.floats(-9, 9)), max_size=6))
def test_from_rows_equals_the_mappings(rows):
    batch = Batch.from_rows(iter(rows), labels=[1] * len(rows))
    assert [dict(row) for row in rows_of(batch)] == [{i: x for i, x in row.items() if x != 0} for row in rows]


def test_arrays_that_fit_are_not_copied():
    indptr, indices, data = np.array([0, 1]), np.array([3], np.uint32), np.array([1.5])
    batch = Batch.from_arrays(indptr, indices, data)
    assert np.shares_memory(batch.indices, indices)
    assert np.shares_memory(batch.values, data)
    narrow = Batch.from_arrays(indptr, indices.astype(np.int32), data.astype(np.float32))
    assert narrow.values.dtype == np.float32


def test_arrays_are_never_written_to():
    given_arrays = arrays([[(1, 1.0), (1, 2.0), (2, 0.0)], [(2**40, 1.0)]])
    before = [array.copy() for array in given_arrays]
    Batch.from_arrays(*given_arrays)
    for array, copied in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(array, copied)


# --- wide ids ---------------------------------------------------------------------------------------------------


@given(ids=st.lists(st.integers(0, 2**63 - 1), max_size=20), dtype=st.sampled_from([np.int64, np.uint64]))
def test_wide_ids_fold_their_high_half_in(ids, dtype):
    batch = Batch.from_arrays(np.arange(len(ids) + 1), np.array(ids, dtype), np.ones(len(ids)))
    assert batch.indices.tolist() == [i if i < 2**32 else (i ^ (i >> 32)) & 0xFFFFFFFF for i in ids]
    assert batch.n_wrapped == sum(i >= 2**32 for i in ids)


def test_ids_of_64_bits_fold_too():
    batch = Batch.from_arrays([0, 1], np.array([2**64 - 2**32 + 5], np.uint64), [1.0])
    assert batch.indices.tolist() == [(2**64 - 2**32 + 5) >> 32 ^ 5]
    assert batch.n_wrapped == 1
    assert Batch.from_rows([{2**63 + 7: 1.0}]).indices.tolist() == [2**31 + 7 & 0xFFFFFFFF]


def test_two_wide_ids_that_fold_to_one_are_summed():
    batch = Batch.from_arrays([0, 2], np.array([2**32 + 4, 5], np.int64), [1.0, 2.0])
    assert rows_of(batch) == [[(5, 3.0)]]


def test_narrow_ids_stay_and_the_largest_feature_fits():
    batch = Batch.from_arrays([0, 2], np.array([MAX_FEATURES - 1, 0], np.int64), [1.0, 2.0])
    assert batch.n_wrapped == 0
    assert batch.max_index == MAX_FEATURES - 1
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        assert Batch.from_arrays([0, 1], np.array([100], dtype), [1.0]).indices.tolist() == [100]


# --- slices -----------------------------------------------------------------------------------------------------


ROWS = [{0: 1.0, 3: 2.0}, {}, {7: -1.0}, {1: 0.5, 2: 0.25, 3: 4.0}, {9: 1.0}]


def full() -> Batch:
    return Batch.from_rows(
        ROWS, [1, -1, 1, 1, -1], [1, 2, 3, 0, 5], tags=["a", "b", "c", "d", "e"], positions=[10, 20, 30, 40, 50]
    )


@pytest.mark.parametrize(
    "rows", [slice(None), slice(1, 4), slice(0, 0), slice(4, 2), slice(-2, None), slice(3, 99), slice(5, 5)], ids=str
)
def test_a_slice_holds_those_rows_with_everything_that_belongs_to_them(rows):
    part = full()[rows]
    assert [dict(row) for row in rows_of(part)] == ROWS[rows]
    assert len(part) == len(ROWS[rows])
    assert part.labels.tolist() == [1, -1, 1, 1, -1][rows]
    assert part.weights.tolist() == [1, 2, 3, 0, 5][rows]
    assert list(part.tags) == ["a", "b", "c", "d", "e"][rows]
    assert part.positions.tolist() == [10, 20, 30, 40, 50][rows]
    # bounds hold, though they need not be tight
    again = Batch.from_arrays(part.indptr, part.indices, part.values)
    assert part.max_row_length >= again.max_row_length
    assert part.max_abs_value >= again.max_abs_value
    assert part.max_index >= again.max_index


def test_slices_share_memory_and_slice_again():
    batch = full()
    part = batch[1:][2:4]
    assert [dict(row) for row in rows_of(part)] == ROWS[3:5]
    assert np.shares_memory(part.values, batch.values)


def test_steps_are_refused():
    with pytest.raises(BadInput, match="step 1"):
        full()[::2]


def test_row_of_finds_the_row_past_empty_ones():
    batch = Batch.from_rows([{}, {0: 1.0, 1: 1.0}, {}, {}, {2: 1.0}])
    assert [batch.row_of_nonzero(k) for k in range(3)] == [1, 1, 4]


def test_with_labels_keeps_the_rows_and_replaces_the_rest():
    batch = full()
    other = batch.with_labels([0, 0, 1, 1, 1], weights=[2] * 5)
    assert rows_of(other) == rows_of(batch)
    assert other.labels.tolist() == [0, 0, 1, 1, 1]
    assert other.weights.tolist() == [2] * 5
    assert batch.labels.tolist() == [1, -1, 1, 1, -1]
    assert batch.with_labels([0, 0, 1, 1, 1]).weights.tolist() == batch.weights.tolist()


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_with_labels_checks_weights_as_making_a_batch_does(weight):
    with pytest.raises(BadInput, match=f"row 2: the weight is {weight:g}"):
        full().with_labels([1] * 5, weights=[1, 1, weight, 1, 1])


def test_with_labels_wants_one_per_row():
    with pytest.raises(BadInput, match=r"labels have shape \(2,\).*5 rows"):
        full().with_labels([1, 1])


def test_to_csr_gives_the_matrix_back():
    X = sparse.random_array((20, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    np.testing.assert_array_equal(Batch.from_csr(X).to_csr(30).toarray(), X.toarray())
    assert Batch.from_rows([]).to_csr(4).shape == (0, 4)


def test_repr_says_how_much_there_is():
    assert repr(full()) == "Batch(5 examples, 7 non-zeros, largest feature 9)"


# --- taking, casting, joining -----------------------------------------------------------------------------------


yes_or_no = st.booleans()


@st.composite
def batches(draw, labelled=yes_or_no) -> Batch:
    """Any batch: with and without labels, weights, tags and positions, of either type, some indices folded."""
    rows = draw(messy_rows)
    n = len(rows)

    def column(values, there=yes_or_no):
        return draw(st.lists(values, min_size=n, max_size=n)) if draw(there) else None

    indptr, indices, data = arrays(rows, draw(st.sampled_from([np.float32, np.float64])))
    if indices.size and draw(st.booleans()):
        indices[draw(st.integers(0, indices.size - 1))] += 2**40
    return Batch.from_arrays(
        indptr,
        indices,
        data,
        column(st.sampled_from([-1.0, 1.0]), labelled),
        column(st.floats(0, 9)),
        tags=column(st.text(max_size=3)),
        positions=column(st.integers(0, 2**40)),
    )


def described(batch: Batch) -> list[tuple]:
    """The rows one by one, each with all that belongs to it."""

    def column(values):
        return [None] * len(batch) if values is None else list(values)

    return list(
        zip(
            rows_of(batch),
            column(batch.labels),
            column(batch.weights),
            column(batch.tags),
            column(batch.positions),
            strict=True,
        )
    )


def check_sound(batch: Batch) -> None:
    """What holds of every batch: canonical, read-only arrays of the right types, bounds that hold."""
    again = Batch.from_arrays(batch.indptr, batch.indices, batch.values)
    assert rows_of(again) == rows_of(batch)
    assert batch.max_row_length >= again.max_row_length
    assert batch.max_abs_value >= again.max_abs_value
    assert batch.max_index >= again.max_index
    assert again.is_all_ones or not batch.is_all_ones
    assert (batch.indptr.dtype, batch.indices.dtype) == (np.int64, np.uint32)
    for array in (batch.indptr, batch.indices, batch.values):
        assert not array.flags.writeable
        assert array.flags.c_contiguous


@given(batch=batches(), data=st.data())
def test_take_gives_these_rows_with_everything_that_belongs_to_them(batch, data):
    n = len(batch)
    numbers = data.draw(st.lists(st.integers(-n, n - 1), max_size=12) if n else st.just([]))
    kind = data.draw(st.sampled_from([list, np.int64, np.int8]))
    taken = batch.take(numbers if kind is list else np.array(numbers, kind))
    assert described(taken) == [described(batch)[row] for row in numbers]
    assert (taken.values.dtype, taken.n_wrapped) == (batch.values.dtype, batch.n_wrapped)
    check_sound(taken)


@given(batch=batches(), data=st.data())
def test_take_by_truth_values_keeps_the_rows_where_they_are_true(batch, data):
    mask = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    taken = batch.take(np.array(mask, bool))
    assert described(taken) == [row for row, kept in zip(described(batch), mask, strict=True) if kept]
    check_sound(taken)


@given(batch=batches(), dtype=st.sampled_from(["float32", "float64", np.float32]))
def test_astype_casts_the_values_and_keeps_everything_else(batch, dtype):
    cast = batch.astype(dtype)
    kind = np.dtype(dtype).type
    rows = [[(i, kind(x)) for i, x in row if kind(x) != 0] for row, *_ in described(batch)]
    assert rows_of(cast) == rows
    assert [rest for _, *rest in described(cast)] == [rest for _, *rest in described(batch)]
    assert (cast.values.dtype, cast.n_wrapped) == (dtype, batch.n_wrapped)
    check_sound(cast)


def test_astype_leaves_out_what_becomes_zero_and_refuses_what_becomes_infinite():
    batch = Batch.from_arrays([0, 2, 3], [4, 7, 1], [1e-60, 2.0, 3.0], [1, -1], tags=["a", "b"])
    assert rows_of(batch.astype("float32")) == [[(7, 2.0)], [(1, 3.0)]]
    assert batch.astype("float32").tags == ["a", "b"]
    assert batch.astype("float64") is batch
    large = Batch.from_arrays([0, 1, 2], [3, 5], [1.0, -1e60])
    with pytest.raises(BadInput, match=r"row 1, feature 5: the value is -1e\+60; as float32 it would not be finite"):
        large.astype("float32")
    assert rows_of(large[:1].astype("float32")) == [[(3, 1.0)]]  # though the bound of the whole does not fit
    with pytest.raises(BadInput, match="float32 or float64"):
        batch.astype("int64")


@given(parts=yes_or_no.flatmap(lambda there: st.lists(batches(st.just(there)), min_size=1, max_size=4)))
def test_concatenate_gives_the_rows_of_all(parts):
    whole = Batch.concatenate(iter(parts))
    rows = [row for part in parts for row in described(part)]
    assert [row[:2] for row in described(whole)] == [row[:2] for row in rows]
    assert whole.weights_or_ones().tolist() == [weight for part in parts for weight in part.weights_or_ones()]
    assert (whole.weights is None) == all(part.weights is None for part in parts)
    for place, name in ((3, "tags"), (4, "positions")):
        kept = all(getattr(part, name) is not None for part in parts)
        assert [row[place] for row in described(whole)] == [row[place] if kept else None for row in rows]
    assert whole.values.dtype == np.result_type(*(part.values for part in parts))
    assert whole.n_wrapped == sum(part.n_wrapped for part in parts)
    check_sound(whole)


@given(batch=batches(), data=st.data())
def test_a_batch_is_the_concatenation_of_its_slices(batch, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=3)))
    parts = [batch[a:b] for a, b in itertools.pairwise([0, *cuts, len(batch)])]
    whole = Batch.concatenate(parts)
    assert described(whole) == described(batch)
    for name in ("indptr", "indices", "values"):
        assert getattr(whole, name).tobytes() == getattr(batch, name).tobytes()


def test_with_positions_says_where_rows_came_from():
    batch = full()
    assert batch.with_positions([1, 2, 3, 4, 6]).positions.tolist() == [1, 2, 3, 4, 6]
    assert batch.positions.tolist() == [10, 20, 30, 40, 50]
    with pytest.raises(BadInput, match="5 whole numbers"):
        batch.with_positions([1, 2])


# --- errors -----------------------------------------------------------------------------------------------------


ONE = ([0, 1], [3], [1.0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Batch.from_arrays([0, 1, 2], [3, 4], [1.0, math.nan]), "row 1, feature 4: the value is nan"),
        (lambda: Batch.from_arrays([0, 0, 2], [3, 4], [-math.inf, 1.0]), "row 1, feature 3: the value is -inf"),
        (lambda: Batch.from_arrays([0, 2], [3, 3], [1e308, 1e308]), "sum is not finite"),
        (lambda: Batch.from_arrays([0, 2], [3, 4], [1.0]), "do not form rows"),
        (lambda: Batch.from_arrays([0, 2, 1], [3], [1.0]), "do not form rows"),
        (lambda: Batch.from_arrays([1, 1], [3], [1.0]), "do not form rows"),
        (lambda: Batch.from_arrays([0, 5], [3], [1.0]), "do not form rows"),
        (lambda: Batch.from_arrays([], [], []), "do not form rows"),
        (lambda: Batch.from_arrays([0, 2], [[3], [4]], [[1.0], [2.0]]), "do not form rows|dimension|shape"),
        (lambda: Batch.from_arrays([[0, 1]], [3], [1.0]), "do not form rows|dimension|shape"),
        (lambda: Batch.from_arrays([0, 0.5, 1], [3], [1.0]), "indptr"),
        (lambda: Batch.from_arrays([0, 1], [-3], [1.0]), "feature -3 is negative"),
        (lambda: Batch.from_arrays([0, 1], [1.5], [1.0]), "whole numbers"),
        (lambda: Batch.from_arrays([0, 1], ["a"], [1.0]), "whole numbers"),
        (lambda: Batch.from_arrays([0, 1], [3], ["a"]), "values must be numbers"),
        (lambda: Batch.from_arrays(*ONE, labels=[1, 1]), r"labels have shape \(2,\), but there are 1 rows"),
        (lambda: Batch.from_arrays(*ONE, labels=[[1]]), "one label per row"),
        (lambda: Batch.from_arrays(*ONE, labels=["spam"]), "labels must be numbers"),
        (lambda: Batch.from_arrays(*ONE, weights=[1, 1]), r"weights have shape \(2,\)"),
        (lambda: Batch.from_arrays(*ONE, weights=[-0.5]), "row 0: the weight is -0.5"),
        (lambda: Batch.from_arrays(*ONE, weights=[math.nan]), "row 0: the weight is nan"),
        (lambda: Batch.from_arrays(*ONE, tags=["a", "b"]), "2 tags for 1 rows"),
        (lambda: Batch.from_arrays(*ONE, positions=[1, 2]), "positions"),
        (lambda: Batch.from_csr(np.ones(3)), "two-dimensional"),
        (lambda: Batch.from_csr(np.ones((2, 2, 2))), "two-dimensional"),
        (lambda: Batch.from_csr([["a", "b"]]), "numbers"),
        (lambda: Batch.from_rows([{1.5: 1.0}]), "whole numbers"),
        (lambda: Batch.from_rows([{"word": 1.0}]), "whole numbers"),
        (lambda: Batch.from_rows([{-2: 1.0}]), "feature -2 is negative"),
        (lambda: Batch.from_rows([{1: "much"}]), "numbers"),
        (lambda: Batch.from_rows([{1: 1.0}, {2: math.nan}]), "row 1, feature 2"),
        (lambda: Batch.from_arrays(*ONE).take([0, 1]), "row 1 is out of range; the batch has 1 rows"),
        (lambda: Batch.from_arrays(*ONE).take([-2]), "row -2 is out of range"),
        (lambda: Batch.from_arrays(*ONE).take([0.0]), "integer indices"),
        (lambda: Batch.from_arrays(*ONE).take([True, False]), "mask of 1 values"),
        (lambda: Batch.from_arrays(*ONE).take(0), "integer indices"),
        (lambda: Batch.concatenate([]), "no batches to concatenate"),
        (lambda: Batch.concatenate([Batch.from_arrays(*ONE), Batch.from_arrays(*ONE, [1])]), "others do not"),
    ],
)
def test_what_does_not_form_a_batch_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()


def test_an_empty_batch_is_a_batch():
    for batch in (Batch.from_rows([], labels=[]), Batch.from_csr(np.zeros((0, 3)), []), Batch.from_arrays([0], [], [])):
        assert (len(batch), batch.nonzeros, batch.max_index) == (0, 0, -1)
        assert (batch.max_row_length, batch.max_abs_value) == (0, 0.0)
        assert len(batch[:]) == 0


def test_a_batch_is_cut_by_slices_and_not_walked_through():
    batch = Batch.from_rows([{row: 2.0} for row in range(5)])
    damaged = sparse.csr_array(np.eye(3))
    damaged.indices[0] = 7
    for what in (3, damaged):
        with pytest.raises(BadInput, match=r"such as batch\[3:4\], not by"):
            batch[what]
    with pytest.raises(TypeError):
        iter(batch)
    with pytest.raises(ValueError, match="read-only"):
        batch.values[0] = 7


@pytest.mark.parametrize("length", [5, 512, 513, 5000])
def test_repeated_features_are_found_in_rows_of_any_length(length):
    rng = np.random.default_rng(length)
    features = rng.choice(2**32 - 1, length, replace=False).astype(np.uint32)
    assert Batch.from_arrays([0, length], features, np.ones(length)).nonzeros == length
    features[-1] = features[1]
    batch = Batch.from_arrays([0, length], features, np.ones(length))
    assert batch.nonzeros == length - 1
    assert batch.values[1] == 2.0


HIDDEN = np.ma.array([1.0, 99.0, -1.0], mask=[False, True, False])


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Batch.from_csr(np.ma.array(np.eye(3), mask=np.eye(3))), "examples must not be masked: 3 of 9"),
        (lambda: Batch.from_csr(np.eye(3), HIDDEN), "labels must not be masked: 1 of 3 are"),
        (lambda: Batch.from_csr(np.eye(3), weights=HIDDEN), "weights"),
        (lambda: Batch.from_arrays([0, 1, 2, 3], [0, 1, 2], HIDDEN), "values"),
        (lambda: Batch.from_arrays([0, 1, 2, 3], HIDDEN.astype(int), np.ones(3)), "indices"),
        (
            lambda: Batch.from_arrays(np.ma.masked_equal([0, 1, 2, 3], 2), [0, 1, 2], np.ones(3)),
            "indptr must not be masked",
        ),
        (lambda: Batch.from_csr(np.eye(3)).with_labels(HIDDEN), "labels"),
        (lambda: Batch.from_csr(np.eye(3)).take(np.ma.masked_equal([0, 1], 1)), "rows"),
        (lambda: MarginalClassifier().fit(np.ma.array(np.eye(3), mask=np.eye(3)), [1, 0, 1]), "X"),
        (lambda: MarginalClassifier().fit(np.eye(3), HIDDEN), "labels"),
        (
            lambda: MarginalClassifier().fit(np.eye(3), [1, 0, 1], sample_weight=abs(HIDDEN)),
            "sample_weight must not be masked",
        ),
        (lambda: MarginalClassifier().partial_fit(np.eye(3), HIDDEN, classes=[-1, 1]), "labels"),
        (
            lambda: MarginalClassifier().fit(np.eye(3), [1, 0, 1]).predict(np.ma.array(np.eye(3), mask=np.eye(3))),
            "X",
        ),
    ],
)
def test_masks_are_not_lost(make, what):
    with pytest.raises(BadInput, match=f"^{what}.*filled"):
        make()


def test_a_masked_array_without_a_mask_is_an_array():
    batch = Batch.from_csr(np.ma.array(np.eye(3)), np.ma.array([1, 0, 1]))
    assert (batch.values.tolist(), batch.labels.tolist()) == ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0])


def test_groups_stay_with_their_non_zeros():
    """Whatever is cut, taken, merged or put together, non-zeros keep their groups; of duplicates the lowest counts."""
    indptr, indices, values = [0, 4, 4, 6], [5, 2, 5, 7, 1, 2], [1.0, 0.0, 2.0, 3.0, 1e-60, 1.0]
    batch = Batch.from_arrays(indptr, indices, values, labels=[1, -1, 1], groups=[9, 8, 7, 6, 5, 255])
    assert batch.indices.tolist() == [5, 7, 1, 2]
    assert batch.groups.tolist() == [7, 6, 5, 255]
    assert batch[1:].groups.tolist() == [5, 255]
    assert batch.take([2, 0]).groups.tolist() == [5, 255, 7, 6]
    assert batch.astype("float32").groups.tolist() == [7, 6, 255]  # one value is too small for float32
    assert Batch.concatenate([batch[2:], batch[:1]]).groups.tolist() == [5, 255, 7, 6]
    assert batch.with_labels([1, 1, 1]).groups is batch.groups
    assert not batch.groups.flags.writeable
    assert Batch.concatenate([batch, batch.with_groups(None)]).groups is None
    for bad in ([1, 2], [0, 1, 2, 256], [0, 1, 2, -1], [0.5, 1, 2, 3], "abcd"):
        with pytest.raises(BadInput, match="integers from 0 to 255, one per nonzero value"):
            batch.with_groups(bad)


def test_codes_stay_with_their_rows():
    """Codes follow rows that are cut, taken, converted or put together."""
    batch = Batch.from_rows([{0: 1.0}, {}, {1: 2.0}], labels=[1, -1, 1]).with_codes([[1, 2], [3, 64], [0, 5]])
    assert batch.codes.dtype == np.uint8
    assert batch[1:].codes.tolist() == [[3, 64], [0, 5]]
    assert batch.take([2, 0]).codes.tolist() == [[0, 5], [1, 2]]
    assert batch.astype("float32").codes is batch.codes
    assert Batch.concatenate([batch[2:], batch[:1]]).codes.tolist() == [[0, 5], [1, 2]]
    assert Batch.concatenate([batch, batch.with_codes(None)]).codes is None
    assert batch.with_labels([1, 1, 1]).codes is batch.codes
    assert not batch.codes.flags.writeable
    with pytest.raises(BadInput, match="codes of different columns"):
        Batch.concatenate([batch, batch.with_codes([[1], [2], [3]])])


@pytest.mark.parametrize("codes", [[1, 2], [[65], [1]], [[-1], [1]], [[0.5], [1.0]], [[1]], [[], []], [[1] * 257] * 2])
def test_codes_that_are_no_cells_are_refused(codes):
    with pytest.raises(BadInput, match=r"codes must be integers from 0 to 64, a row for each of the 2 rows"):
        Batch.from_rows([{}, {}]).with_codes(codes)
