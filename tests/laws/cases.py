"""Every learner with every set of arguments, and what the laws share: streams for them, their bits, their numbers.

A new learner is held to every law by being registered; to have its variants held to them too, add them to VARIANTS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from bayou import Batch
from bayou.core import registry
from bayou.core.state import contents_of

WIDTH = 24


def prior_means(n: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=n)


def prior_variances(n: int) -> np.ndarray:
    return np.exp(np.random.default_rng(2).normal(size=n))


# Constructor arguments beyond n_features and dtype, by learner; functions of n_features.
VARIANTS: dict[str, dict[str, Callable[[int], dict[str, Any]]]] = {
    "marginal": {
        "default": lambda n: {},
        "probit": lambda n: {"link": "probit"},
        "newton": lambda n: {"mean_update": "newton"},
        "taylor": lambda n: {"mean_update": "taylor"},
        "peak": lambda n: {"variance_update": "peak"},
        "per-feature": lambda n: {"prior_mean": prior_means(n), "prior_variance": prior_variances(n)},
        "fading": lambda n: {"temper": (0.3, 0.1), "memory": 0.01},
        "quadrature": lambda n: {"predictive": "quadrature"},
        "bare": lambda n: {"intercept": False},
        "scaled": lambda n: {"scale": "learned"},
    },
    "joint": {
        "default": lambda n: {},
        "taylor": lambda n: {"mean_update": "taylor"},
        "per-feature": lambda n: {"prior_mean": prior_means(n), "prior_variance": prior_variances(n)},
        "bare": lambda n: {"intercept": False},
        "full": lambda n: {"covariance": "full"},
        "full-taylor": lambda n: {"covariance": "full", "mean_update": "taylor"},
        "full-per-feature": lambda n: {
            "covariance": "full",
            "prior_mean": prior_means(n),
            "prior_variance": prior_variances(n),
        },
        "full-bare": lambda n: {"covariance": "full", "intercept": False},
        "full-batches": lambda n: {"covariance": "full", "batch_size": 3},
    },
    "moment": {
        "default": lambda n: {},
        "probit": lambda n: {"link": "probit"},
        "stand-in": lambda n: {"expectation": "probit"},
        "per-feature": lambda n: {"prior_mean": prior_means(n), "prior_variance": prior_variances(n)},
        "quadrature": lambda n: {"predictive": "quadrature"},
        "bare": lambda n: {"intercept": False},
    },
    "variational": {
        "default": lambda n: {},
        "taylor": lambda n: {"mean_update": "taylor"},
        "monte-carlo": lambda n: {"expectation": "monte-carlo", "n_points": 10, "seed": 3},
        "drawn taylor": lambda n: {"expectation": "monte-carlo", "n_points": 10, "mean_update": "taylor"},
        "per-feature": lambda n: {"prior_mean": prior_means(n), "prior_variance": prior_variances(n)},
        "bare": lambda n: {"intercept": False},
    },
    "adagrad": {
        "default": lambda n: {},
        "l2": lambda n: {"l2": 0.01},
        "bare": lambda n: {"intercept": False},
    },
    "ftrl": {
        "default": lambda n: {},
        "sparse": lambda n: {"l1": 0.5, "l2": 0.1},
        "bare": lambda n: {"intercept": False, "beta": 0.0},
    },
    "gaussian": {
        "default": lambda n: {},
        "known noise": lambda n: {"noise_variance": 4.0, "prior_variance": 2.0},
        "per-feature": lambda n: {"prior_mean": prior_means(n), "prior_variance": prior_variances(n)},
    },
    "spike-slab": {
        "default": lambda n: {},
        "all of it": lambda n: {"predictive": "full", "inclusion_prior": 1e-20, "slab_variance": 1000.0},
        "likely": lambda n: {"inclusion_prior": 0.7},
        "refreshed": lambda n: {"refresh_every": 7},
        "mini-batch": lambda n: {"batch_size": 4},
        "bare": lambda n: {"intercept": False},
    },
    "lasso": {
        "default": lambda n: {},
        "probit": lambda n: {"link": "probit", "penalty": 0.3},
        "ramp and block": lambda n: {"ramp": 20, "block": 7, "shoot_every": 3, "penalty": 2.0},
        "lookahead": lambda n: {"penalty": "lookahead", "shoot_every": 4},
        "per-feature": lambda n: {"penalty": prior_variances(n), "penalize_intercept": True},
        "bare": lambda n: {"intercept": False},
        "multipass": lambda n: {"algorithm": "multipass"},
        "reduced": lambda n: {"algorithm": "reduced", "max_active": 8, "link": "probit"},
    },
    "shrinkage": {
        "default": lambda n: {},
        "column": lambda n: {"centring": False, "penalty": 0.1},
        "screened": lambda n: {"penalty": 3.0, "ramp": 20, "iterations": 3, "noise_variance": 2.0},
        "bare": lambda n: {"intercept": False, "screening": 0.0, "noise_variance": "paper"},
    },
    "number-bank": {
        "default": lambda n: {},
        "small head": lambda n: {"head": 3},
        "bare": lambda n: {"intercept": False},
    },
    "bank": {
        "default": lambda n: {},
        "crosses": lambda n: {"pairs": "auto", "pair_bits": 9},
        "factors": lambda n: {"pairs": "factors", "pair_bits": 9, "combine": "share"},
        "head": lambda n: {"head": 128},
        "automatic head": lambda n: {"head": "auto"},
        "wide": lambda n: {"preset": "wide"},
        "share": lambda n: {"combine": "share"},
        "lanes": lambda n: {"lanes": [{"scale": True, "normalise": True, "memory": 0.01}, {"rate": 0.5}, {}]},
        "bare": lambda n: {"intercept": False},
    },
    "forest": {
        "default": lambda n: {},
        "marginal": lambda n: {"base": "marginal", "seed": 5},
    },
    "classes": {
        "default": lambda n: {},
        "marginal": lambda n: {"learner": "marginal"},
        "known": lambda n: {"classes": [2, -1, 0, 1], "light": True, "intercept": False},
    },
}


@dataclass(frozen=True, repr=False)
class Case:
    """One learner with one set of arguments and one type of state."""

    record: registry.Record
    variant: str
    dtype: str

    def new(self, n: int = WIDTH, **more: Any) -> Any:
        arguments = VARIANTS.get(self.record.name, {"default": lambda n: {}})[self.variant](n)
        return self.record.load()(n_features=n, dtype=self.dtype, **(arguments | more))

    @property
    def usual(self) -> bool:
        """Whether the learner comes in this type of state if nothing is said."""
        return self.dtype == self.record.dtype

    @property
    def regresses(self) -> bool:
        return self.record.task == "regression"

    @property
    def many(self) -> bool:
        """Whether it tells several classes apart, and answers with an array for each row."""
        return self.record.task == "multiclass"

    def taught(self, batch: Batch) -> Batch:
        """The batch with labels that this learner takes: a regressor's are any numbers, those of classes whole ones."""
        if self.record.task == "binary" or batch.labels is None:
            return batch
        rng = np.random.default_rng(len(batch))
        if self.many:
            return batch.with_labels(rng.integers(-1, 3, len(batch)))
        return batch.with_labels(batch.labels * 10 ** rng.uniform(-2, 2, len(batch)) + rng.choice([0.0, 5.0]))

    def stream(self, *arguments: Any, **more: Any) -> Batch:
        return self.taught(stream(*arguments, **more))

    def sensible(self, answers: np.ndarray) -> bool:
        """Whether `learn` may answer so."""
        fine = np.isfinite(answers)
        return bool(fine.all() if self.regresses else (fine & (answers >= 0) & (answers <= 1)).all())

    @property
    def apart(self) -> bool:
        """Whether weights are independent in the posterior: what an example does not hold, it does not move."""
        full = self.variant.startswith("full") or self.record.name == "number-bank"
        return not (full or self.variant == "scaled" or self.record.dense or self.record.name == "lasso")

    @property
    def immediate(self) -> bool:
        """Whether an example is learned at once, not when its mini-batch is full."""
        return not self.variant.endswith("batches")

    @property
    def merges(self) -> bool:
        """Whether two of it can be merged; online sketches of the lasso cannot, nor can weights of a learned scale."""
        parameters = self.new().parameters
        return self.record.merge != "refused" and parameters.get("algorithm") != "online" and "scale" not in parameters

    @property
    def rounding(self) -> float:
        # A weight that shrinkage holds at its floor of 1e-6 has lost six digits to the others, and its variance is as
        # wide as that weight: over 200 streams merging moves one by up to 2.5e-9, in every version so far.
        exact = 1e-8 if self.record.name == "shrinkage" else 1e-9
        return 1e-4 if self.dtype == "float32" else exact

    def __repr__(self) -> str:
        return f"{self.record.name}-{self.variant}-{self.dtype}"


CASES = [
    Case(record, variant, dtype)
    for record in registry.records().values()
    for variant in VARIANTS.get(record.name, ["default"])
    for dtype in ("float32", "float64")
]


def over(claims: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    """The cases that a law is for. The type of state that a learner does not come in is for the long run."""
    return pytest.mark.parametrize(
        "case",
        [pytest.param(case, marks=() if case.usual else pytest.mark.long) for case in CASES if claims(case)],
        ids=str,
    )


every = over()
plain = over(lambda case: case.variant == "default")
classifiers = over(lambda case: case.record.task == "binary")
with_posterior = over(lambda case: case.record.posterior)
without_posterior = over(lambda case: not case.record.posterior)
linear = over(lambda case: case.record.linear and case.apart)
apart = over(lambda case: case.apart)
mergeable = over(lambda case: case.merges)
# What waits for its mini-batch is learned before a merge: an unfinished learner is not the same afterwards.
mergeable_as_is = over(lambda case: case.merges and case.immediate)
# There are many cases, and each of their streams has many rows: few examples by default, twelve in the long run.
THOROUGH = settings.get_current_profile_name() == "thorough"
few = settings(max_examples=12 if THOROUGH else 5)
fewest = settings(max_examples=12 if THOROUGH else 3)  # where an example is long, or a merge of several


def stream(
    seed: int, rows: int = 30, longest: int = 12, width: int = WIDTH, weighted: bool = True, first: int = 0
) -> Batch:
    """Random rows of features first .. width - 1: short and long, ones and other values, weights with zeros."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, min(longest, width - first) + 1, rows)
    indices = [rng.permutation(width - first)[:length] + first for length in lengths]
    sizes = np.where(rng.random(lengths.sum()) < 0.4, 1.0, 10 ** rng.uniform(-3, 1.5, lengths.sum()))
    return Batch.from_arrays(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([np.zeros(0, np.int64), *indices]),
        (sizes * rng.choice([-1.0, 1.0], lengths.sum())).astype(rng.choice(["f4", "f8"])),
        labels=rng.choice([-1.0, 1.0], rows),
        weights=rng.choice([0.0, 0.3, 1.0, 1.0, 1.0, 7.0], rows) if weighted else None,
    )


seeds = st.integers(0, 2**32 - 1)
streams = st.builds(stream, seed=seeds, rows=st.integers(0, 40), longest=st.integers(0, WIDTH))


def bits(learner: Any, *, by_row: bool = False) -> Any:
    """Everything a learner would write into its file, to be compared exactly.

    `by_row` leaves out what depends on how many rows were at hand at a time, which a learner must declare.
    """
    header, arrays = contents_of(learner)
    left_out = learner._by_rows_at_hand if by_row else ()
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items() if name not in left_out}


def anew(batch: Batch, rows: slice) -> Batch:
    """Rows of a batch as a batch that never knew the others."""
    part = batch[rows]
    return Batch.from_arrays(
        part.indptr.copy(),
        part.indices.copy(),
        part.values.copy(),
        None if part.labels is None else part.labels.copy(),
        None if part.weights is None else part.weights.copy(),
    )


def together(answers: list[np.ndarray]) -> np.ndarray:
    """Answers one after another; of a class that joined later there was nothing to say before."""
    width = max((answer.shape[1] for answer in answers if answer.ndim == 2), default=0)
    padded = [np.pad(a, ((0, 0), (0, width - a.shape[1]))) if a.ndim == 2 else a for a in answers]
    return np.concatenate(padded or [np.zeros(0)])


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two answers have the same bits."""
    both = together(
        [np.atleast_1d(one)[None] if one.ndim < 2 else one, np.atleast_1d(other)[None] if other.ndim < 2 else other]
    )
    return both[: len(both) // 2].tobytes() == both[len(both) // 2 :].tobytes()


def certainty(learner: Any) -> tuple[np.ndarray, float]:
    """Variances of weights and intercept, in units of the noise where there is one, which may be learned to be more."""
    return learner.variance / getattr(learner, "noise", 1.0), learner.intercept[1] / getattr(learner, "noise", 1.0)


def same_numbers(a: Any, b: Any, rounding: float) -> None:
    """Two learners believe the same, to rounding."""
    size = max(1.0, np.abs(a.mean).max(), abs(a.intercept[0]))
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=rounding * size)
    np.testing.assert_allclose(a.intercept[0], b.intercept[0], rtol=0, atol=rounding * size)
    if a.record.posterior:
        np.testing.assert_allclose(a.variance, b.variance, rtol=rounding)
        np.testing.assert_allclose(a.intercept[1], b.intercept[1], rtol=rounding)
    else:  # what stands in for certainty must agree as well
        for name, array in a._arrays().items():
            np.testing.assert_allclose(array, b._arrays()[name], rtol=rounding, atol=rounding * size)


ROWS = [{0: 1.0}, {1: 2.0, 2: 1.0}, {}, {3: 1.0}]
LABELS = [1.0, -1.0, 1.0, -1.0]
