"""The sketch: any part of the matrix it stands for, however much of it is log and how much was folded."""

import numpy as np
import pytest

from bayou.core.errors import BadModel
from bayou.kernels import l1_solver
from bayou.learners.lasso.sketch import CURVATURE, Sketch

WIDTH = 60


def rows_of(seed, n):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, WIDTH)) < 0.1, rng.normal(size=(n, WIDTH)), 0.0)
    return X, rng.random(n)


def append(made, X, h):
    for x, curvature in zip(X, h, strict=True):
        n = made.length[0]
        start, found = made.ends[n], np.flatnonzero(x)
        made.indices[start : start + len(found)], made.values[start : start + len(found)] = found, x[found]
        made.rows[n, CURVATURE] = curvature
        made.ends[n + 1] = start + len(found)
        made.length[0] += 1


def whole(made):
    return made.block(np.arange(WIDTH))


@pytest.fixture(params=["log", "folded", "both"])
def made(request):
    X, h = rows_of(0, 80)
    made = Sketch(WIDTH)
    if request.param == "log":
        append(made, X, h)
    else:
        append(made, X[:50], h[:50])
        made.flush_log()
        append(made, X[50:], h[50:])
        if request.param == "folded":
            made.flush_log()
    return made, (X.T * h) @ X


def test_blocks_and_products_are_those_of_the_matrix(made):
    made, matrix = made
    features = np.array([3, 17, 4, 59])
    np.testing.assert_allclose(made.block(features), matrix[np.ix_(features, features)], atol=1e-12)
    gradient = np.ones(WIDTH)
    made.subtract_product(features, np.array([1.0, -2.0, 0.5, 3.0]), gradient)
    np.testing.assert_allclose(gradient, 1 - matrix[:, features] @ [1.0, -2.0, 0.5, 3.0], atol=1e-12)


def test_a_block_can_be_made_larger(made):
    made, matrix = made
    features = np.array([3, 17, 4, 59, 0, 30])
    slots, block = np.zeros(WIDTH, np.int32), np.zeros((9, 9))
    for size in (2, 5, 6):
        first = int((slots > 0).sum())
        slots[features[:size]] = np.arange(1, size + 1)
        made.add_rows(slots, features[:size], first, block)
    np.testing.assert_allclose(block[:6, :6], matrix[np.ix_(features, features)], atol=1e-12)
    assert not block[6:].any()


def test_solving_a_sketch_is_solving_its_matrix(made):
    made, matrix = made
    theta = 3 * np.random.default_rng(1).normal(size=WIDTH)
    weights, gradient = np.zeros(WIDTH), theta.copy()
    l1_solver.improve(made, gradient, weights, np.ones(WIDTH), 1e-10)
    np.testing.assert_allclose(weights, l1_solver.maximise(matrix, theta, 1.0, tolerance=1e-10), atol=1e-7)


@pytest.mark.parametrize("shared", [0, 20])
@pytest.mark.parametrize("room", [1000, 70])
def test_sketches_add_beyond_what_they_share(shared, room):
    X, h = rows_of(0, 80)
    parts = [Sketch(WIDTH, rows=room) for _ in range(3)]
    append(parts[0], X[:50], h[:50])
    append(parts[1], np.vstack([X[:shared], X[50:]]), np.r_[h[:shared], h[50:]])
    append(parts[2], X[:shared], h[:shared])
    parts[0].add(parts[1], parts[2])
    np.testing.assert_allclose(whole(parts[0]), (X.T * h) @ X, atol=1e-12)


def test_it_is_put_back_bit_for_bit(made):
    made, _ = made
    stored = made.arrays()
    again = Sketch(WIDTH)
    again.resize({name: array.shape for name, array in stored.items()})
    for name, array in again.arrays().items():
        array[:] = stored[name]
    again.check()
    assert whole(again).tobytes() == whole(made).tobytes()


def test_a_file_that_would_make_kernels_stray_is_refused(made):
    made, _ = made
    arrays = made.arrays()
    wrong = arrays["log indices"] if len(arrays["log indices"]) else arrays["folded indices"]
    wrong[3] = WIDTH
    with pytest.raises(BadModel, match="does not fit together"):
        made.check()
