"""Values may come in either type: learners take them in their own, and have nothing compiled for another."""

import sys

import numpy as np

from bayou.kernels.compiling import Kernel
from tests.laws.cases import bits, plain, same


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
        if learner.posterior:
            learner.sample(batch[:2], n_draws=2)
        learners.append(learner)
        answers.append((expected, predicted))
        kernels.append(compiled())
    assert kernels[0] == kernels[1] == kernels[2]
    for learner, answer in zip(learners[1:], answers[1:], strict=True):
        assert all(same(np.asarray(a), np.asarray(b)) for a, b in zip(answer, answers[0], strict=True))
        assert bits(learner) == bits(learners[0])
