"""Values may come in either type: learners take them in their own, and have nothing compiled for another."""

import sys

import numpy as np

from bayou.kernels.compiling import Kernel
from tests.laws.cases import bits, every, plain, same


def compiled() -> dict[str, int]:
    """For how many types each kernel was compiled or loaded so far."""
    modules = [module for name, module in sys.modules.items() if name.startswith("bayou.")]
    found = (value for module in modules for value in vars(module).values() if isinstance(value, Kernel))
    return {f"{kernel.__module__}.{kernel.__qualname__}": len(kernel.signatures) for kernel in found}


@plain
def test_values_of_either_type_are_learned_alike_and_compile_nothing_more(case):
    stream = case.stream(30)
    exact = stream.astype("float32")  # what both types can hold
    learners, answers, kernels = [], [], []
    for dtype in (case.dtype, "float32", "float64"):
        learner, batch = case.new(), exact.astype(dtype)
        expected = learner.learn(batch[:20])
        predicted = learner.predict(batch[20:]).expected
        if learner.has_posterior:
            learner.sample(batch[:2], n_draws=2)
        learners.append(learner)
        answers.append((expected, predicted))
        kernels.append(compiled())
    assert kernels[0] == kernels[1] == kernels[2]
    for learner, answer in zip(learners[1:], answers[1:], strict=True):
        assert all(same(np.asarray(a), np.asarray(b)) for a, b in zip(answer, answers[0], strict=True))
        assert bits(learner) == bits(learners[0])


@every
def test_no_kernel_writes_to_a_batch(case):
    """Numba would not have told: to a kernel an array is an array, whether or not it may be written to."""
    learner, batch = case.new(), case.stream(7)
    arrays = [batch.indptr, batch.indices, batch.values, batch.labels, batch.weights]
    before = [array.copy() for array in arrays]
    for part in (batch, batch[:1], batch.astype("float32"), batch.astype("float64")):
        learner.learn(part)
        learner.predict(part)
    if learner.has_posterior:
        learner.sample(batch[:3], n_draws=2)
    assert all((array == copy).all() for array, copy in zip(arrays, before, strict=True))
