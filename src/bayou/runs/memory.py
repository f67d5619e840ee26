"""How much memory a run will take, and whether there is that much."""

from __future__ import annotations

from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.memory import bytes_in_words, free_memory


def check(learner: Learner, n_features: int) -> str:
    """What a learner like this one takes with `n_features` weights, in a sentence; what does not fit is refused."""
    if learner.record.task == "classes":  # which asks for memory as classes and features are met
        one = type(learner)(**{**learner.parameters, "classes": 1})
        each = round(one.nbytes_for(1 << 20) / (1 << 20))
        return f"{learner.parameters['learner']} for each class, {each} bytes of memory for every feature of it"
    size, free = learner.nbytes_for(n_features), free_memory()
    if free is not None and size > free:
        dense = ", or a learner that keeps no matrix" if learner.nbytes_for(2 * n_features) > 3 * size else ""
        raise BadInput(
            f"{n_features:,} weights of a {learner.name} take {bytes_in_words(size)} of memory; "
            f"{bytes_in_words(free)} are free. Use fewer --bits{dense}."
        )
    return f"{learner.name}: {n_features:,} weights, up to {bytes_in_words(size)} of memory"
