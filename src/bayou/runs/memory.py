"""Estimates of the memory that a run needs, checked against the free memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.memory import bytes_in_words, free_memory
from bayou.core.spelling import option

# The most bits to suggest for a learner that keeps a square matrix: that of 2^12 weights takes 268 MB.
SQUARE_BITS = 12


def check(learner: Learner, n_features: int) -> str:
    """Describe the memory of such a learner with `n_features` weights. Raise BadInput if it exceeds the free memory."""
    if learner.record.task == "multiclass":  # which allocates memory as classes and features are seen
        name, n_bytes = learner.parameters["learner"], _of_a_class(learner)
        return f"{name} for each class, {n_bytes} bytes of memory for every feature of it"
    size, free = learner.nbytes_for(n_features), free_memory()
    if free is not None and size > free:
        square = ", or a learner that keeps no matrix" if _keeps_square(learner, n_features) else ""
        raise BadInput(
            f"{n_features:,} weights of a {learner.name} take {bytes_in_words(size)} of memory; "
            f"{bytes_in_words(free)} are free. Use a smaller {option('bits')}{square}."
        )
    return f"{learner.name}: {n_features:,} weights, up to {bytes_in_words(size)} of memory"


def check_all(learners: Mapping[str, Learner], n_features: int) -> str:
    """Describe the memory of several learners of one task that run together, as `check` does; keys are their names."""
    names, made = ", ".join(learners), learners.values()
    if all(learner.record.task == "multiclass" for learner in made):
        n_bytes = sum(map(_of_a_class, made))
        return f"{names} for each class, together {n_bytes} bytes of memory for every feature of it"
    size, free = _together(made, n_features), free_memory()
    if free is not None and size > free:
        raise BadInput(_too_much(learners, n_features, size, free))
    return f"{names}: {n_features:,} weights each, up to {bytes_in_words(size)} of memory"


def _too_much(learners: Mapping[str, Learner], n_features: int, size: int, free: int) -> str:
    """Return the error message for learners that do not fit together, naming one whose square matrix is too large."""
    name, learner = max(learners.items(), key=lambda item: item[1].nbytes_for(n_features))
    if _keeps_square(learner, n_features):
        fit = (bits for bits in range(SQUARE_BITS, 1, -1) if _together(learners.values(), 1 << bits) <= free)
        return (
            f"{name} needs the square of {n_features:,} weights, {bytes_in_words(learner.nbytes_for(n_features))} of "
            f"memory; {bytes_in_words(free)} are free. Omit it, or use {option('bits', next(fit, 1))}."
        )
    return (
        f"{n_features:,} weights for each of {len(learners)} learners take {bytes_in_words(size)} of memory; "
        f"{bytes_in_words(free)} are free. Use a smaller {option('bits')}, or compare fewer learners."
    )


def _together(learners: Iterable[Learner], n_features: int) -> int:
    return sum(learner.nbytes_for(n_features) for learner in learners)


def _keeps_square(learner: Learner, n_features: int) -> bool:
    return learner.nbytes_for(2 * n_features) > 3 * learner.nbytes_for(n_features)


def _of_a_class(learner: Learner) -> int:
    """Return the bytes per feature and class of a multiclass learner."""
    learner_of_one_class = type(learner)(**{**learner.parameters, "classes": 1})
    return round(learner_of_one_class.nbytes_for(1 << 20) / (1 << 20))
