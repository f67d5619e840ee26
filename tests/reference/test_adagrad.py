"""The reference of AdaGrad against differences and its own definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from tests.reference.adagrad import adagrad_step

labels = st.sampled_from([-1.0, 1.0])
weights = st.sampled_from([0.2, 1.0, 3.5])
nonzero = st.floats(0.1, 3.0) | st.floats(-3.0, -0.1)
examples = st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 30), nonzero), min_size=1, max_size=5).map(
    lambda rows: np.array(rows).T  # mean, variance, x of the active features
)


@pytest.mark.parametrize("l2", [0.0, 0.3])
@given(row=examples, y=labels, weight=weights)
def test_gradient_is_the_slope_of_the_penalised_log_loss(l2, row, y, weight):
    w, _, x = row

    def loss(w):
        return -weight * special.log_expit(y * x @ w) + l2 / 2 * w @ w

    h = 1e-5
    gradient = np.array([(loss(w + h * e) - loss(w - h * e)) / (2 * h) for e in np.eye(len(x))])
    new, accumulator = adagrad_step(w, np.zeros(len(x)), x, y, weight, 0.1, l2)
    np.testing.assert_allclose(np.sqrt(accumulator), np.abs(gradient), rtol=1e-5, atol=1e-8)
    clear = np.abs(gradient) > 1e-7
    np.testing.assert_array_equal(np.sign(w - new)[clear], np.sign(gradient)[clear])


@given(x=st.lists(nonzero, min_size=1, max_size=5), y=labels, weight=weights, rate=st.floats(0.01, 2))
def test_first_step_has_the_length_of_the_learning_rate(x, y, weight, rate):
    x = np.array(x)
    new, _ = adagrad_step(np.zeros(len(x)), np.zeros(len(x)), x, y, weight, rate)
    np.testing.assert_allclose(new, rate * y * np.sign(x), rtol=1e-12)


def test_later_steps_shrink_with_the_root_of_all_squared_gradients():
    w, accumulator = np.zeros(1), np.zeros(1)
    squares = 0.0
    for y in (1.0, 1.0, -1.0):
        gradient = special.expit(w[0]) - (y > 0)
        squares += gradient**2
        expected = w[0] - 0.5 * gradient / np.sqrt(squares)
        w, accumulator = adagrad_step(w, accumulator, [1.0], y, learning_rate=0.5)
        assert w[0] == pytest.approx(expected, rel=1e-12)
        assert accumulator[0] == pytest.approx(squares, rel=1e-12)


def test_takes_no_step_without_a_gradient():
    new, accumulator = adagrad_step([800.0], [0.0], [1.0], 1.0)  # S(-800) is exactly 0
    assert (new[0], accumulator[0]) == (800.0, 0.0)


def test_weight_zero_changes_nothing_not_even_by_decay():
    new = adagrad_step([1.0, -2.0], [0.5, 0.0], [1.0, 1.0], 1.0, weight=0.0, l2=0.3)
    np.testing.assert_array_equal(new, ([1.0, -2.0], [0.5, 0.0]))
