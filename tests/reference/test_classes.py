"""The stacker of several classes against what it is the approximation of: derivatives, inverses, symmetries."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax

from tests.reference.classes import C8, LEAST, MEMORY, PRIOR_B, SharedStack, Stacker, inputs


def row(seed: int, outputs: int = 4, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 3, (outputs, classes)), rng.normal(0, 3, classes)


@pytest.mark.parametrize("seed", range(5))
def test_evidence_is_the_derivatives_of_the_log_softmax(seed):
    """Where nothing is unsure, g is 1, and the step is Newton's."""
    l, _, F = inputs(*row(seed))  # noqa: E741
    stacker, rng = Stacker(5), np.random.default_rng(seed)
    stacker.join(5)
    stacker.covariance, stacker.v = np.zeros((6, 6)), np.zeros(5)
    stacker.mean, stacker.b = rng.normal(size=6), rng.normal(size=5)

    def log_likelihood(coefficients: np.ndarray) -> float:
        return log_softmax(l + coefficients[6:] + F @ coefficients[:6])[seed]

    at, step = np.concatenate([stacker.mean, stacker.b]), 1e-4
    e = step * np.eye(11)
    slope = [(log_likelihood(at + i) - log_likelihood(at - i)) / (2 * step) for i in e]
    bend = [
        [log_likelihood(at + i + j) - log_likelihood(at + i) - log_likelihood(at + j) + log_likelihood(at) for i in e]
        for j in e
    ]
    curvature = -np.array(bend) / step**2
    gradient, A, d, h = stacker.evidence(l, F, seed)
    np.testing.assert_allclose(np.concatenate([gradient, d]), slope, atol=1e-6)
    np.testing.assert_allclose(A, curvature[:6, :6], atol=1e-2 * max(1, np.abs(A).max()))
    np.testing.assert_allclose(h, np.diag(curvature)[6:], atol=1e-2)


def test_precisions_add_what_a_label_tells():
    l, _, F = inputs(*row(7))  # noqa: E741
    stacker = Stacker(5)
    stacker.join(5)
    _, A, _, h = stacker.evidence(l, F, 2)
    before, v = np.linalg.inv(stacker.covariance), stacker.v
    stacker.learn(l, F, 2)
    np.testing.assert_allclose(np.linalg.inv(stacker.covariance), before + A, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(1 / stacker.v, 1 / v + h / (1 - h * v), rtol=1e-12)
    assert (np.linalg.eigvalsh(stacker.covariance) > 0).all()


def test_memory_goes_back_to_the_prior():
    l, _, F = inputs(*row(8))  # noqa: E741
    keeps, forgets = Stacker(5), Stacker(5, MEMORY)
    for stacker in (keeps, forgets):
        stacker.join(5)
        stacker.learn(l, F, 1)
    np.testing.assert_allclose(
        forgets.covariance, (1 - MEMORY) * keeps.covariance + MEMORY * keeps.prior, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(forgets.v, (1 - MEMORY) * keeps.v + MEMORY * PRIOR_B, rtol=1e-12)


def test_two_classes_that_mirror_each_other_are_the_binary_learner():
    """l of two such classes is (ln p, ln(1 - p)), and so is every input."""
    logits, log_odds = np.array([[0.3, -0.3], [2.0, -2.0]]), np.array([1.5, -1.5])
    l, base, F = inputs(logits, log_odds)  # noqa: E741
    np.testing.assert_allclose(base, expit([1.5, -1.5]))
    np.testing.assert_allclose(l, np.log(base))
    np.testing.assert_allclose(np.diff(F[:, 1]), np.diff(np.log(expit([0.3, -0.3]))) - np.diff(l))
    np.testing.assert_allclose(np.diff(F[:, 3]), np.log(expit(-3.0)) - np.log(expit(3.0)) - np.diff(l))


def test_a_class_alone_is_certain_and_teaches_nothing():
    stack = SharedStack(3)
    before = [stacker.covariance.copy() for stacker in stack.stackers]
    assert stack.learn(np.zeros((2, 1)), np.zeros(1), 0) == pytest.approx([1.0])
    for stacker, covariance in zip(stack.stackers, before, strict=True):
        assert not stacker.mean.any()
        np.testing.assert_allclose(stacker.covariance, covariance)


def test_the_order_of_classes_does_not_matter():
    straight, turned, order = SharedStack(5), SharedStack(5), np.array([3, 0, 4, 1, 2])
    for seed in range(50):
        logits, log_odds = row(seed)
        p = straight.learn(logits, log_odds, seed % 5, 0.5 + seed % 3)
        q = turned.learn(logits[:, order], log_odds[order], int(np.flatnonzero(order == seed % 5)[0]), 0.5 + seed % 3)
        np.testing.assert_allclose(q, p[order], rtol=1e-8)
        assert p.sum() == pytest.approx(1.0, abs=1e-9)


def test_what_goes_right_is_learned():
    """Of two outputs one knows the class and the learners know nothing: the stack comes to follow the first."""
    rng, stack, losses = np.random.default_rng(1), SharedStack(3), []
    for _ in range(800):
        y = int(rng.integers(4))
        logits = np.stack([np.where(np.arange(4) == y, 2.0, -2.0), rng.normal(0, 3, 4)])
        losses.append(-np.log(stack.learn(logits, rng.normal(0, 1, 4), y)[y]))
    assert np.mean(losses[-200:]) < 0.1 < 0.5 < np.mean(losses[:5])


def test_what_is_most_unlikely_stays_possible():
    stack = SharedStack(1)
    p = stack.predict(np.zeros((0, 3)), np.array([30.0, -30.0, -30.0]))
    assert (p >= LEAST).all()
    assert C8 == pytest.approx(0.3926990817)
