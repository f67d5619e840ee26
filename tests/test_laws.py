"""The laws every learner keeps, run over every record of the registry that claims them.

A new learner is tested by being registered; to have its variants tested too, add them to VARIANTS.
"""

import copy
import itertools
import math
import pickle
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.special import logit, ndtri

import bayou
from bayou import BadInput, BadModel, Batch, NoPosterior, WrongTask
from bayou.core import registry
from bayou.core.batch import Row
from bayou.core.validation import LARGEST_TARGET, LIMIT
from bayou.learners import bank

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
    "bank": {
        "default": lambda n: {},
        "wide": lambda n: {"preset": "wide"},
        "share": lambda n: {"combine": "share"},
        "lanes": lambda n: {"lanes": [{"scale": True, "normalise": True, "memory": 0.01}, {"rate": 0.5}, {}]},
        "bare": lambda n: {"intercept": False},
    },
}
# Pairs of arguments that say the same thing, the second in its general form.
SAYS_THE_SAME: dict[str, dict[str, Callable[[int], tuple[dict[str, Any], dict[str, Any]]]]] = {
    "marginal": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "no temper": lambda n: ({}, {"temper": (1.0, 1.0)}),
        "no memory": lambda n: ({}, {"memory": 0.0}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
    },
    "joint": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
        "full prior variances": lambda n: (
            {"covariance": "full", "prior_variance": 2.3},
            {"covariance": "full", "prior_variance": np.full(n, 2.3)},
        ),
        "batches of one": lambda n: ({"covariance": "full"}, {"covariance": "full", "batch_size": 1}),
    },
    "moment": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
    },
    "variational": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "points": lambda n: ({}, {"n_points": 8}),
    },
    "gaussian": {
        "prior variances": lambda n: ({"prior_variance": 2.3}, {"prior_variance": np.full(n, 2.3)}),
        "prior means": lambda n: ({"prior_mean": 0.7}, {"prior_mean": np.full(n, 0.7)}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 1e6}),
    },
    "adagrad": {"no l2": lambda n: ({}, {"l2": 0.0})},
    "spike-slab": {
        "always fresh": lambda n: ({}, {"refresh_every": 1, "batch_size": 1}),
        "intercept variance": lambda n: ({}, {"intercept_variance": 3.0}),
    },
    "ftrl": {"no penalties": lambda n: ({}, {"l1": 0.0, "l2": 0.0})},
    "bank": {"lanes of the preset": lambda n: ({}, {"lanes": list(bank.PRESETS["slim"])})},
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
    def regresses(self) -> bool:
        return self.record.task == "regress"

    def taught(self, batch: Batch) -> Batch:
        """The batch with labels that this learner takes: a regressor's are any numbers."""
        if not self.regresses or batch.labels is None:
            return batch
        rng = np.random.default_rng(len(batch))
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
        return not self.variant.startswith("full") and not self.record.dense and self.record.name != "lasso"

    @property
    def immediate(self) -> bool:
        """Whether an example is learned at once, not when its mini-batch is full."""
        return not self.variant.endswith("batches")

    @property
    def merges(self) -> bool:
        """Whether two of it can be merged; online sketches of the lasso cannot."""
        return self.record.merge != "refused" and self.new().parameters.get("algorithm") != "online"

    @property
    def rounding(self) -> float:
        return 1e-4 if self.dtype == "float32" else 1e-9

    def __repr__(self) -> str:
        return f"{self.record.name}-{self.variant}-{self.dtype}"


CASES = [
    Case(record, variant, dtype)
    for record in registry.records().values()
    for variant in VARIANTS.get(record.name, ["default"])
    for dtype in ("float32", "float64")
]


def over(claims: Callable[[Case], bool] = lambda case: True) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [case for case in CASES if claims(case)], ids=str)


every = over()
plain = over(lambda case: case.variant == "default")
classifiers = over(lambda case: not case.regresses)
with_posterior = over(lambda case: case.record.posterior)
without_posterior = over(lambda case: not case.record.posterior)
linear = over(lambda case: case.record.linear and case.apart)
apart = over(lambda case: case.apart)
mergeable = over(lambda case: case.merges)
# What waits for its mini-batch is learned before a merge: an unfinished learner is not the same afterwards.
mergeable_as_is = over(lambda case: case.merges and case.immediate)
few = settings(max_examples=12)


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


def bits(learner: Any) -> Any:
    """Everything a learner would write into its file, to be compared exactly."""
    header, arrays = learner._saved()
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


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


# --- order and cuts ---------------------------------------------------------------------------------------------


@every
@few
@given(batch=streams, cuts=st.lists(st.integers(0, 40)))
def test_a_batch_is_its_rows_one_after_another(case, batch, cuts):
    batch = case.taught(batch)
    whole, by_row, by_piece = case.new(), case.new(), case.new()
    expected = whole.learn(batch)
    rows = [by_row.learn(anew(batch, slice(i, i + 1))) for i in range(len(batch))]
    edges = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    pieces = [by_piece.learn(batch[a:b]) for a, b in itertools.pairwise(edges)]
    assert np.concatenate([np.zeros(0), *rows]).tobytes() == expected.tobytes()
    assert np.concatenate(pieces).tobytes() == expected.tobytes()
    assert bits(by_row) == bits(by_piece) == bits(whole)


@every
@few
@given(batch=streams)
def test_learn_answers_what_predict_would_have(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    for i in range(len(batch)):
        row = batch[i : i + 1]
        predicted = learner.predict(row).expected
        assert predicted.tobytes() == learner.learn(row).tobytes()


@every
@few
@given(batch=streams)
def test_a_row_alone_is_a_batch_of_one(case, batch):
    learner, by_row = case.new(), case.new()
    for i in range(len(batch)):
        part = anew(batch, slice(i, i + 1))
        values = part.values.astype(case.dtype)
        row = Row(part.indices, values, part.nonzeros, part.largest, part.ones, part.max_index)
        alone = case.taught(part)
        alone = alone.with_labels(alone.labels if case.record.task == "regress" else np.maximum(alone.labels, 0.0))
        alone.values = values
        expected = learner.learn(alone)[0]
        assert by_row.learn_row(row, alone.labels[0], 0.0) == expected
        assert by_row.learn_row(row, alone.labels[0], float(alone.weights[0])) == expected
    assert bits(by_row) == bits(learner)


@plain
def test_a_row_alone_is_refused_as_in_a_batch(case):
    learner = case.new()
    learner.learn(case.taught(stream(5)))
    before, values = bits(learner), np.ones(1, case.dtype)
    row = Row(np.array([WIDTH], np.uint32), values, 1, 1.0, True, WIDTH)
    with pytest.raises(BadInput, match="out of range"):
        learner.learn_row(row, True)
    far = row._replace(indices=np.array([0], np.uint32), values=values * 1e30, largest=1e30, max_index=0)
    if case.dtype == "float32":
        with pytest.raises(BadInput, match="too large"):
            learner.learn_row(far, False)
    fine = row._replace(indices=np.array([0], np.uint32), max_index=0)
    with pytest.raises(BadInput, match="weight"):
        learner.learn_row(fine, True, -1.0)
    with pytest.raises(BadInput, match="snapshot"):
        learner.snapshot().learn_row(fine, True)
    assert bits(learner) == before
    assert learner.snapshot().learn_row(fine, True, 0.0) == learner.predict(fine.batch()).expected[0]


@every
@few
@given(batch=streams)
def test_predictions_do_not_depend_on_their_neighbours(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(3))
    together = learner.predict(batch)
    for i in range(len(batch)):
        alone = learner.predict(anew(batch, slice(i, i + 1)))
        assert alone.expected[0] == together.expected[i]
        assert alone.mean[0] == together.mean[i]


@every
@few
@given(first=streams, second=streams)
def test_resuming_from_a_file_is_exact(case, first, second, tmp_path_factory):
    first = case.taught(first)
    second = case.taught(second)
    path = tmp_path_factory.mktemp("resume") / "half.bayou"
    learner = case.new()
    learner.learn(first)
    learner.save(path)
    twins = [bayou.load(path), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner), copy.copy(learner)]
    before = bits(learner)
    expected = learner.learn(second)
    for twin in twins:
        assert type(twin) is type(learner)
        assert bits(twin) == before
        assert twin.learn(second).tobytes() == expected.tobytes()
        assert bits(twin) == bits(learner)


@every
@given(batch=streams)
@few
def test_predict_changes_nothing(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(5))
    before = bits(learner)
    learner.predict(batch)
    if case.record.posterior:
        learner.sample(batch, 2)
    assert bits(learner) == before


@over(lambda case: case.immediate)
def test_end_pass_of_a_one_pass_learner_does_nothing(case):
    learner = case.new()
    learner.learn(case.stream(5))
    before = bits(learner)
    if case.record.passes == "single":
        assert learner.end_pass() is False
        assert bits(learner) == before


# --- what is in a row -------------------------------------------------------------------------------------------


@apart
@few
@given(batch=streams)
def test_absent_features_keep_their_bits(case, batch):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(6))
    before = {name: array.copy() for name, array in learner._arrays().items()}
    learner.learn(batch)
    absent = np.setdiff1d(np.arange(WIDTH), batch.indices)
    for name, array in learner._arrays().items():
        if len(array) == WIDTH:
            assert array[absent].tobytes() == before[name][absent].tobytes()


@every
@few
@given(batch=streams, seed=seeds)
def test_duplicates_are_summed_and_zeros_dropped_first(case, batch, seed):
    batch = case.taught(batch)
    rng = np.random.default_rng(seed)
    indptr, indices, values = [0], [], []
    for row in range(len(batch)):
        for k in range(batch.indptr[row], batch.indptr[row + 1]):
            # a value in two halves, exactly; and zeros where a feature stands or does not
            halves = [batch.values[k] / 2] * 2 if rng.random() < 0.5 else [batch.values[k]]
            indices += [batch.indices[k]] * len(halves)
            values += halves
            if rng.random() < 0.3:
                indices.append(rng.integers(WIDTH))
                values.append(0.0)
        indptr.append(len(indices))
    # A zero may come before the value of its feature, and so change the order: compare with the obvious sum.
    rows = []
    for a, b in itertools.pairwise(indptr):
        row: dict[int, float] = {}
        for i, x in zip(indices[a:b], values[a:b], strict=True):
            row[int(i)] = row.get(int(i), 0.0) + float(x)
        rows.append({i: x for i, x in row.items() if x != 0.0})
    canonical = Batch.from_rows(rows, batch.labels, batch.weights)
    messy = Batch.from_arrays(indptr, np.array(indices, np.int64), np.array(values), batch.labels, batch.weights)
    tidy, untidy = case.new(), case.new()
    assert untidy.learn(messy).tobytes() == tidy.learn(canonical).tobytes()
    assert bits(untidy) == bits(tidy)


@every
def test_weight_zero_predicts_and_changes_nothing(case):
    learner = case.new()
    learner.learn(case.stream(8))
    batch = case.stream(9)
    before, expected = bits(learner), learner.predict(batch).expected
    answered = learner.learn(batch.with_labels(batch.labels, weights=np.zeros(len(batch))))
    assert answered.tobytes() == expected.tobytes()
    assert bits(learner) == before


@every
@few
@given(batch=streams)
def test_examples_of_weight_zero_are_as_good_as_absent(case, batch):
    batch = case.taught(batch)
    learner, other = case.new(), case.new()
    learner.learn(batch)
    for i in np.flatnonzero(batch.weights):
        other.learn(batch[i : i + 1])
    header, arrays = bits(learner)
    assert (header["examples"], arrays) == (other.examples, bits(other)[1])
    assert learner.examples == np.count_nonzero(batch.weights)


@every
def test_weight_one_is_no_weight(case):
    batch = case.stream(10, weighted=False)
    learner, other = case.new(), case.new()
    learner.learn(batch)
    other.learn(batch.with_labels(batch.labels, weights=np.ones(len(batch))))
    assert bits(learner) == bits(other)


@classifiers
def test_labels_zero_and_one_equal_minus_one_and_one(case):
    batch = case.stream(11)
    signed, counted = case.new(), case.new()
    p = signed.learn(batch)
    q = counted.learn(batch.with_labels((batch.labels + 1) / 2))
    assert p.tobytes() == q.tobytes()
    assert bits(signed)[1] == bits(counted)[1]


@every
@few
@given(batch=streams)
def test_the_type_of_exact_values_does_not_matter(case, batch):
    batch = case.taught(batch)
    narrow, wide = (
        Batch.from_arrays(batch.indptr, batch.indices, batch.values.astype("f4").astype(t), batch.labels, batch.weights)
        for t in ("f4", "f8")
    )
    a, b = case.new(), case.new()
    assert a.learn(narrow).tobytes() == b.learn(wide).tobytes()
    assert bits(a) == bits(b)


@plain
def test_read_only_and_strided_arrays_are_read_and_never_written(case):
    batch = case.stream(12)
    arrays = [batch.indptr, batch.indices, batch.values, batch.labels, batch.weights]
    expected = case.new()
    expected.learn(batch)

    locked = [array.copy() for array in arrays]
    for array in locked:
        array.flags.writeable = False
    strided = [np.repeat(array, 2)[::2] for array in arrays]
    assert not any(array.flags.c_contiguous for array in strided)
    copies = [array.copy() for array in strided]
    for given_arrays in (locked, strided):
        learner = case.new()
        learner.learn(Batch.from_arrays(*given_arrays))
        learner.predict(Batch.from_arrays(*given_arrays[:3]))
        assert bits(learner) == bits(expected)
    for array, before in zip(strided, copies, strict=True):
        np.testing.assert_array_equal(array, before)


@plain
def test_learning_writes_nothing_into_the_batch(case):
    batch = case.stream(13)
    arrays = [batch.indptr, batch.indices, batch.values, batch.labels, batch.weights]
    before = [array.copy() for array in arrays]
    case.new().learn(batch)
    for array, copied in zip(arrays, before, strict=True):
        assert array.tobytes() == copied.tobytes()


@every
def test_an_empty_batch_changes_nothing(case):
    learner = case.new()
    learner.learn(case.stream(14))
    before = bits(learner)
    empty = Batch.from_rows([], labels=[])
    assert learner.learn(empty).shape == learner.predict(empty).expected.shape == (0,)
    assert bits(learner) == before


@apart
def test_empty_rows_teach_the_intercept_alone(case):
    learner = case.new()
    learner.learn(case.stream(15))
    means, before = learner.mean, bits(learner)[1]
    p = learner.learn(Batch.from_rows([{}] * 20, labels=[1 if not case.regresses else 1e3] * 20))
    after = bits(learner)[1]
    assert all(after[name] == before[name] for name in learner._per_feature)
    if case.record.linear:
        assert learner.mean.tobytes() == means.tobytes()
    if learner.parameters["intercept"]:
        # a combination may change its mind about its parts on the way
        assert (np.diff(p) > 0).all() if case.record.linear else p[-1] > p[0]
    else:
        assert (p == (0.0 if case.regresses else 0.5)).all()
        assert after["intercept"] == before["intercept"]
        assert after == before or not case.record.linear or case.regresses  # which learn the noise
        assert learner.intercept == (0.0, 0.0)


@every
@pytest.mark.parametrize("length", [1, 6, 7, 8, 9, 10_000])
def test_rows_of_any_length(case, length):
    """Seven features and the intercept fill a vector; a row may also be far longer than any before it."""
    length = length if case.apart else min(length, 200 if case.record.dense else 1000)  # which has length^2 numbers
    rng = np.random.default_rng(length)
    row = dict(zip(rng.permutation(length).tolist(), rng.normal(size=length), strict=True))
    learner = case.new(n=length)
    rows = Batch.from_rows([{}, row, {0: 1.0}, row], labels=[1, 1, -1, -1])
    p = learner.learn(rows)
    assert case.sensible(p)
    # Most weights of these are to stay 0, or to go there.
    if not learner.parameters.get("l1") and case.record.name not in ("lasso", "shrinkage"):
        assert (learner.mean != case.new(n=length).mean).all()
    assert all(np.isfinite(array).all() for array in learner._arrays().values())


# --- bad input --------------------------------------------------------------------------------------------------


ROWS = [{0: 1.0}, {1: 2.0, 2: 1.0}, {}, {3: 1.0}]
LABELS = [1.0, -1.0, 1.0, -1.0]


def batch_with(row: dict[int, float] | None = None, label: float = -1.0, weight: float = 1.0) -> Batch:
    """Four good rows, then one that is not."""
    row = {5: 1.0} if row is None else row
    return Batch.from_rows([*ROWS, row], [*LABELS, label], [1.0, 1.0, 0.0, 2.0, weight])


BAD = {
    "nan value": (lambda: batch_with({5: math.nan}), "row 4, feature 5.*nan"),
    "infinite value": (lambda: batch_with({5: math.inf}), "row 4, feature 5.*inf"),
    "feature out of range": (lambda: batch_with({5: 1.0, WIDTH: 1.0}), f"row 4: feature {WIDTH} .*out of range"),
    "label 2": (lambda: batch_with(label=2.0), "row 4: the label is 2"),
    "label 0.5": (lambda: batch_with(label=0.5), "row 4: the label is 0.5"),
    "nan label": (lambda: batch_with(label=math.nan), "row 4: the label is nan"),
    "mixed labels": (lambda: batch_with(label=0.0), "both -1 and 0"),
    "negative weight": (lambda: batch_with(weight=-1.0), "row 4: the weight is -1"),
    "nan weight": (lambda: batch_with(weight=math.nan), "row 4: the weight is nan"),
    "infinite weight": (lambda: batch_with(weight=math.inf), "row 4: the weight is inf"),
    "negative weight given later": (
        lambda: batch_with().with_labels([*LABELS, 1.0], weights=[1.0, 1.0, 1.0, 1.0, -2.0]),
        "row 4: the weight is -2",
    ),
    "too large value": (lambda: batch_with({5: 1e200}), "row 4, feature 5.*too large"),
    "no labels": (lambda: Batch.from_rows([*ROWS, {}]), "no labels"),
    "no batch": (lambda: np.eye(3), "bayou.Batch"),
    "infinite label": (lambda: batch_with(label=-math.inf), "row 4: the label is -inf"),
    "too large label": (lambda: batch_with(label=1e90), "row 4: the label 1e\\+90 is too large"),
}
ONLY_CLASSES, ONLY_NUMBERS = {"label 2", "label 0.5", "mixed labels"}, {"too large label"}


@plain
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("learned", [False, True], ids=["fresh", "learned"])
def test_bad_input_is_refused_whole_with_a_sentence(case, bad, learned):
    if bad in (ONLY_CLASSES if case.regresses else ONLY_NUMBERS):
        pytest.skip("not bad for this learner")
    make, sentence = BAD[bad]
    learner = case.new()
    if learned:
        learner.learn(case.stream(16))
    before = bits(learner)
    with pytest.raises(BadInput, match=sentence):
        learner.learn(make())
    assert bits(learner) == before


@classifiers
def test_negative_labels_are_written_one_way_through_the_whole_stream(case, tmp_path):
    learner = case.new()
    learner.learn(Batch.from_rows(ROWS, labels=[1, 1, 1, 1]))  # says nothing about negatives
    learner.learn(Batch.from_rows(ROWS, labels=[1, 0, 1, 0]))
    learner.save(tmp_path / "zeros.bayou")
    for resumed in (learner, bayou.load(tmp_path / "zeros.bayou"), copy.deepcopy(learner)):
        before = bits(resumed)
        with pytest.raises(BadInput, match="both -1 and 0"):
            resumed.learn(Batch.from_rows(ROWS, labels=[1, 1, 1, -1]))
        assert bits(resumed) == before
        resumed.learn(Batch.from_rows(ROWS, labels=[1, 1, 1, 0]))


@every
def test_predict_checks_features_and_values_too(case):
    learner = case.new()
    with pytest.raises(BadInput, match=f"row 1: feature {WIDTH} is out of range"):
        learner.predict(Batch.from_rows([{0: 1.0}, {WIDTH: 1.0}]))
    with pytest.raises(BadInput, match=r"row 1, feature 2.*too large"):
        learner.predict(Batch.from_rows([{0: 1.0}, {2: -1e200}]))
    with pytest.raises(BadInput, match=r"bayou.Batch"):
        learner.predict([[1.0, 2.0]])


@plain
@pytest.mark.parametrize("n_features", [0, -1, 2.5, "many", None, True, 2**32])
def test_a_bad_number_of_features_is_refused(case, n_features):
    with pytest.raises(BadInput, match="n_features"):
        case.record.load()(n_features=n_features)


@plain
@pytest.mark.parametrize("dtype", ["int32", "float16", "complex128", "banana"])
def test_a_bad_dtype_is_refused(case, dtype):
    with pytest.raises(BadInput, match=rf"dtype is .*{dtype}"):
        case.record.load()(n_features=3, dtype=dtype)


# --- nothing non-finite -----------------------------------------------------------------------------------------


def largest_allowed(learner: Any, batch: Batch) -> float:
    """What the learner says values may reach, when some are too large."""
    with pytest.raises(BadInput, match="too large") as refusal:
        learner.learn(batch)
    said = re.search(r"may reach ([0-9.]+e[+-][0-9]+)", str(refusal.value))
    assert said, refusal.value
    return float(said[1]) * 0.95  # it is said to two digits


def nasty(learner: Any, seed: int, rows: int) -> Batch:
    """Rows of values from 1e-30 up to the largest allowed, with weights up to 1e6."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(0.3, rows), WIDTH)
    n = lengths.sum()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([rng.permutation(WIDTH)[:length] for length in lengths])
    labels = rng.choice([-1.0, 1.0], rows)
    if learner.record.task == "regress":
        labels *= 10 ** rng.uniform(-30, math.log10(LARGEST_TARGET[learner.parameters["dtype"]]) - 1e-9, rows)
    weights = np.where(rng.random(rows) < 0.5, 1.0, 10 ** rng.uniform(-6, 6, rows))
    longest, heaviest = int(lengths.max()), max(float(weights.max()), 1.0)
    worst = np.full(longest, LIMIT[learner.parameters["dtype"]])
    top = largest_allowed(learner, Batch.from_arrays([0, longest], np.arange(longest), worst, [1], [heaviest]))
    # Shorter rows, and lighter ones, may have larger values.
    top = np.repeat(top * np.sqrt((1 + longest) / (1 + lengths)) * heaviest / np.maximum(weights, 1.0), lengths)
    sizes = 10 ** np.where(rng.random(n) < 0.5, rng.uniform(-30, np.log10(top), n), rng.uniform(-3, 3, n))
    sizes = np.minimum(np.where(rng.random(n) < 0.2, top, sizes), top)
    return Batch.from_arrays(indptr, indices, sizes * rng.choice([-1.0, 1.0], n), labels, weights)


_NASTY_GAUSSIAN = {
    "prior_variance": st.floats(-6, 6).map(lambda e: 10**e),
    "prior_mean": st.floats(-1e6, 1e6),
    "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
}
NASTY_PRIORS = {
    "moment": st.fixed_dictionaries({}, optional=_NASTY_GAUSSIAN),
    "variational": st.fixed_dictionaries({}, optional=_NASTY_GAUSSIAN),
    "gaussian": st.fixed_dictionaries({"noise_variance": st.none() | st.just(4.0)}, optional=_NASTY_GAUSSIAN),
    "marginal": st.fixed_dictionaries(
        {},
        optional={
            "prior_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "prior_mean": st.floats(-1e6, 1e6),
            "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "temper": st.sampled_from([(0.0, 0.0), (1.0, 1.0), (5.0, 0.1)]),
            "memory": st.sampled_from([0.0, 0.1, 1e3]),
        },
    ),
    "joint": st.fixed_dictionaries(
        {},
        optional={
            "prior_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "prior_mean": st.floats(-1e6, 1e6),
            "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
        },
    ),
    "spike-slab": st.fixed_dictionaries(
        {},
        optional={
            "inclusion_prior": st.sampled_from([1e-30, 1e-20, 0.5, 0.999999]),
            "slab_variance": st.floats(-6, 6).map(lambda e: 10**e),
            "intercept_variance": st.floats(-6, 6).map(lambda e: 10**e),
        },
    ),
    "ftrl": st.fixed_dictionaries(
        {},
        optional={
            "alpha": st.floats(1e-6, 1e6),
            "beta": st.sampled_from([0.0, 1e-6, 1e6]),
            "l1": st.sampled_from([0.0, 1.0, 1e15]),
            "l2": st.sampled_from([0.0, 1.0, 1e15]),
        },
    ),
    "lasso": st.fixed_dictionaries({}, optional={"slack": st.floats(0.01, 1.0), "tolerance": st.floats(1e-12, 0.1)}),
    "adagrad": st.fixed_dictionaries({}, optional={"learning_rate": st.floats(1e-6, 1e6), "l2": st.floats(0, 1e6)}),
}


@every
@settings(few, phases=[Phase.generate])  # a smaller stream would not say more
@given(data=st.data(), seed=seeds)
def test_nothing_becomes_non_finite_whatever_comes(case, data, seed):
    prior = data.draw(NASTY_PRIORS.get(case.record.name, st.just({})))
    if case.variant.endswith("per-feature"):
        prior = {name: value for name, value in prior.items() if not name.startswith("prior")}
    learner = case.new(**prior)
    fresh = learner.snapshot()
    for k in range(4):
        batch = nasty(learner, seed + k, 250)
        p = learner.learn(batch)
        assert case.sensible(p)
        assert all(np.isfinite(array).all() for array in learner._arrays().values())
        assert np.isfinite(learner.mean).all()
        predicted = learner.predict(batch)
        assert np.isfinite(predicted.expected).all()
        assert np.isfinite(predicted.mean).all()
        if case.regresses:
            assert (np.isfinite(predicted.noise) & (predicted.noise > 0)).all()
        if case.record.posterior:
            assert (np.isfinite(predicted.variance) & (predicted.variance >= 0)).all()
            assert (np.isfinite(learner.variance) & (learner.variance >= 0)).all()
            assert learner.intercept[1] >= 0
            # What a mixture believes may widen, as its parts can disagree; and so may a prior that is made of the data.
            if case.record.linear and not case.record.dense:
                (variance, of_intercept), (most, most_of_intercept) = certainty(learner), certainty(fresh)
                assert (variance <= most * (1 + 1e-6)).all()
                assert of_intercept <= most_of_intercept * (1 + 1e-6)


@every
@pytest.mark.parametrize("weight", [1e6, 1e40, 1e300])
@pytest.mark.parametrize("row", [{}, {0: 1e-3}], ids=["empty row", "small value"])
def test_a_huge_weight_is_survived_or_refused(case, weight, row):
    learner = case.new()
    learner.learn(case.stream(17))
    before = bits(learner)
    refusal = ""
    try:
        p = learner.learn(Batch.from_rows([row] * 4, labels=[1, -1, 1, 1], weights=[weight] * 4))
    except BadInput as error:
        refusal = str(error)
    if refusal:
        assert "weight" in refusal  # it says which number to change
        assert bits(learner) == before
    else:
        assert np.isfinite(p).all()
        assert all(np.isfinite(array).all() for array in learner._arrays().values())


# --- looking inside ---------------------------------------------------------------------------------------------


@every
def test_what_a_learner_shows_are_copies(case):
    learner = case.new()
    learner.learn(case.stream(18))
    before = bits(learner)
    learner.mean[:] = 7
    learner.parameters["dtype"] = "float16"
    for value in learner.parameters.values():
        if isinstance(value, np.ndarray | list):
            try:
                value[0] = 7
            except ValueError:
                assert not value.flags.writeable
    if case.record.posterior:
        learner.variance[:] = 7
        learner.predict(case.stream(18)).variance[:] = 7
    learner.predict(case.stream(18)).mean[:] = 7
    assert isinstance(learner.intercept, tuple)
    assert bits(learner) == before


@linear
def test_mean_variance_and_intercept_say_what_predict_uses(case):
    learner = case.new()
    learner.learn(case.stream(19))
    one_each = Batch.from_csr(np.eye(WIDTH))
    predicted = learner.predict(one_each)
    np.testing.assert_allclose(predicted.mean, learner.mean + learner.intercept[0], rtol=1e-5, atol=1e-5)
    if case.record.posterior and not learner.parameters.get("memory"):
        np.testing.assert_allclose(predicted.variance, learner.variance + learner.intercept[1], rtol=1e-5)


@every
def test_weights_have_the_type_of_the_state(case):
    learner = case.new()
    learner.learn(case.stream(19))
    assert learner.mean.dtype == case.dtype
    if case.record.posterior:
        assert learner.variance.dtype == case.dtype


@every
def test_parameters_make_the_same_learner_again(case):
    learner = case.new()
    learner.learn(case.stream(20))
    twin = type(learner)(**learner.parameters)
    twin.learn(case.stream(20))
    assert bits(twin) == bits(learner)
    assert type(learner).__name__ in repr(learner)


@every
def test_the_callers_arrays_may_change_afterwards(case):
    arguments = VARIANTS.get(case.record.name, {"default": lambda n: {}})[case.variant](WIDTH)
    learner = case.record.load()(n_features=WIDTH, dtype=case.dtype, **arguments)
    before = bits(learner)
    for value in arguments.values():
        if isinstance(value, np.ndarray):
            value[:] = 7
    assert bits(learner) == before


@without_posterior
def test_without_a_posterior_uncertainty_is_refused_with_a_sentence(case):
    learner = case.new()
    learner.learn(case.stream(21))
    prediction = learner.predict(case.stream(21))
    for ask in (
        lambda: learner.variance,
        lambda: prediction.variance,
        lambda: learner.sample(case.stream(21), 3),
        lambda: learner.snapshot().variance,
    ):
        with pytest.raises(NoPosterior, match=rf"{case.record.name} has no posterior"):
            ask()


@pytest.mark.parametrize(
    ("name", "pair", "dtype"),
    [
        (name, pair, dtype)
        for name, pairs in SAYS_THE_SAME.items()
        for pair in pairs
        for dtype in ("float32", "float64")
    ],
)
def test_a_special_case_equals_its_general_form(name, pair, dtype):
    special, general = (
        registry.find(name).load()(n_features=WIDTH, dtype=dtype, **arguments)
        for arguments in SAYS_THE_SAME[name][pair](WIDTH)
    )
    for seed in range(5):
        assert special.learn(stream(seed)).tobytes() == general.learn(stream(seed)).tobytes()
    assert bits(special)[1]["state"] == bits(general)[1]["state"]
    assert special.intercept == general.intercept
    assert special.mean.tobytes() == general.mean.tobytes()


@over(lambda case: case.regresses)
def test_a_regressor_is_asked_for_numbers_and_a_classifier_for_probabilities(case):
    learner, classifier = case.new(), registry.find("marginal").load()(n_features=WIDTH)
    learner.learn(case.stream(21))
    said = learner.predict(case.stream(21))
    assert (said.noise > 0).all()
    assert said.expected.tobytes() == said.mean.tobytes()
    with pytest.raises(WrongTask, match=rf"{case.record.name} predicts numbers"):
        said.probability  # noqa: B018
    with pytest.raises(WrongTask, match="marginal predicts classes"):
        classifier.predict(stream(21)).noise  # noqa: B018


@every
def test_observe_tells_all_that_predict_would_have(case):
    learner, twin = case.new(), case.new()
    batch = case.stream(28)
    told = learner.observe(batch)
    names = ["expected", "mean"] + ["variance"] * case.record.posterior + ["noise"] * case.regresses
    for row in range(len(batch)):
        before = twin.predict(batch[row : row + 1])
        for name in names:
            tolerance = 1e-12 if name == "variance" else 0.0  # solutions of several rows at once may round otherwise
            np.testing.assert_allclose(getattr(told, name)[row], getattr(before, name)[0], rtol=tolerance)
        twin.learn(batch[row : row + 1])


# --- sampling ---------------------------------------------------------------------------------------------------


def scores(learner: Any, batch: Batch, n_draws: int, seed: int = 0) -> np.ndarray:
    drawn = learner.sample(batch, n_draws, seed)
    if learner.record.task == "regress":
        return drawn
    return (ndtri if learner.parameters.get("link") == "probit" else logit)(drawn)


@with_posterior
@few
@given(batch=streams, seed=st.integers(0, 2**63), cut=st.integers(0, 40))
def test_a_draw_depends_on_seed_draw_and_feature_alone(case, batch, seed, cut):
    batch = case.taught(batch)
    learner = case.new()
    learner.learn(case.stream(22))
    whole = learner.sample(batch, 3, seed)
    assert whole.shape == (3, len(batch))
    parts = [learner.sample(batch[:cut], 3, seed), learner.sample(batch[cut:], 3, seed)]
    assert np.concatenate(parts, axis=1).tobytes() == whole.tobytes()
    assert learner.sample(batch, 2, seed).tobytes() == whole[:2].tobytes()
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = [learner.sample(anew(batch, slice(i, i + 1)), 3, seed)[:, 0] for i in order]
    for i, draws in zip(order, shuffled, strict=True):
        assert draws.tobytes() == np.ascontiguousarray(whole[:, i]).tobytes()


@over(lambda case: case.record.posterior and case.apart)
def test_draws_have_the_posteriors_mean_and_spread(case):
    learner = case.new()
    learner.learn(case.stream(23))
    n = 4000
    x = 0.1 / np.maximum(1.0, np.sqrt(learner.variance.astype(float)))  # no score where a probability rounds to 1
    one_each = Batch.from_rows([{i: x[i]} for i in range(WIDTH)])
    drawn = scores(learner, one_each, n, seed=1)
    mean = learner.intercept[0] + x * learner.mean
    variance = learner.intercept[1] + x**2 * learner.variance
    # 4.5 standard errors: of 24 features none should stray so far, and the seed is fixed
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * np.sqrt(variance / n)).all()
    assert (np.abs(drawn.var(axis=0) / variance - 1) < 4.5 * math.sqrt(2 / n)).all()
    assert not np.array_equal(drawn, scores(learner, one_each, n, seed=2))


@with_posterior
def test_a_draw_is_one_weight_vector_for_all_rows(case):
    learner = case.new()
    learner.learn(case.stream(24))
    none, first, second, both = scores(learner, Batch.from_rows([{}, {0: 0.3}, {1: -0.2}, {0: 0.3, 1: -0.2}]), 50).T
    # A probability near 1 tells little of its score.
    largest = np.max(np.abs([none, first, second, both]), axis=0)
    told = largest < 34.0
    assert told.any()
    assert (np.abs(first + second - none - both)[told] <= 1e-8 + 1e-15 * np.exp(largest[told])).all()
    if not learner.parameters["intercept"]:
        assert (none == 0).all()
    else:
        assert none.std() > 0


@with_posterior
@pytest.mark.parametrize(("n_draws", "seed"), [(0, 0), (-1, 0), (1.5, 0), (1, -1), (1, 0.5), (1, 2**64)])
def test_a_bad_number_of_draws_or_seed_is_refused(case, n_draws, seed):
    with pytest.raises(BadInput):
        case.new().sample(Batch.from_rows([{}]), n_draws, seed)


# --- snapshots and threads --------------------------------------------------------------------------------------


@every
def test_a_snapshot_stays_as_it_was_and_does_not_learn(case):
    learner = case.new()
    learner.learn(case.stream(25))
    frozen = learner.snapshot()
    before, predicted = bits(frozen), frozen.predict(case.stream(26)).expected
    assert before == bits(learner)
    learner.learn(case.stream(27))
    assert bits(learner) != before
    for same in (frozen, frozen.snapshot(), pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen)):
        assert bits(same) == before
        assert same.predict(case.stream(26)).expected.tobytes() == predicted.tobytes()
        with pytest.raises(BadInput, match="snapshot"):
            same.learn(case.stream(27))
        assert bits(same) == before


@plain
def test_threads_predict_while_one_learns(case):
    dear = case.record.dense or case.record.name == "lasso"  # whose examples take long
    width, rounds = (30, 5) if dear else (500, 40)
    batches = [case.stream(k, rows=200, longest=20, width=width) for k in range(4)]
    alone = case.new(n=width)
    for k in range(rounds):
        alone.learn(batches[k % 4])

    learner = case.new(n=width)
    learner.learn(batches[0])
    frozen = learner.snapshot()
    expected = frozen.predict(batches[1]).expected.tobytes()
    done, problems = threading.Event(), []

    def watch(answers: Callable[[], bool]) -> None:
        try:
            while not done.is_set():
                if not answers():
                    problems.append("a wrong answer")
        except Exception as error:
            problems.append(repr(error))

    def snapshot_is_constant() -> bool:
        return frozen.predict(batches[1]).expected.tobytes() == expected

    def fresh_snapshot_is_consistent() -> bool:
        taken = learner.snapshot()
        return taken.predict(batches[2]).expected.tobytes() == taken.predict(
            batches[2]
        ).expected.tobytes() and taken.examples == learner_examples_of(taken)

    def learner_examples_of(taken: Any) -> int:
        # a snapshot is taken between batches, never inside one
        counts = [np.count_nonzero(batch.weights) for batch in batches]
        totals = np.cumsum([counts[k % 4] for k in range(rounds)])
        return taken.examples if taken.examples in totals else -1

    def learner_answers() -> bool:
        p = learner.predict(batches[3]).expected
        return case.sensible(p)

    threads = [
        threading.Thread(target=watch, args=(answers,))
        for answers in (snapshot_is_constant, fresh_snapshot_is_consistent, learner_answers)
    ]
    for thread in threads:
        thread.start()
    for k in range(1, rounds):
        learner.learn(batches[k % 4])
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert bits(learner) == bits(alone)


# --- merging ----------------------------------------------------------------------------------------------------


def grown(case: Case, *seeds_: int, start: Any = None) -> Any:
    learner = case.new() if start is None else copy.deepcopy(start)
    for seed in seeds_:
        learner.learn(case.stream(seed, rows=15))
    return learner


@mergeable
@few
@given(a=seeds, b=seeds, c=seeds)
def test_merge_is_commutative_and_associative(case, a, b, c):
    a, b, c = grown(case, a), grown(case, b), grown(case, c)
    before = [bits(learner) for learner in (a, b, c)]
    same_numbers(a.merge(b), b.merge(a), case.rounding)
    same_numbers(a.merge(b).merge(c), a.merge(b.merge(c)), case.rounding)
    assert a.merge(b).examples == a.examples + b.examples
    assert [bits(learner) for learner in (a, b, c)] == before


@mergeable_as_is
@few
@given(seed=seeds)
def test_merging_with_an_untouched_learner_changes_nothing(case, seed):
    learner = grown(case, seed)
    for merged in (learner.merge(case.new()), case.new().merge(learner)):
        same_numbers(merged, learner, case.rounding)
        assert merged.examples == learner.examples
        if learner.negative_label is not None:  # it also remembers how the stream writes its negatives
            with pytest.raises(BadInput, match="both -1 and 0"):
                merged.learn(Batch.from_rows([{}], labels=[0]))


@mergeable_as_is
@few
@given(start=seeds, a=seeds, b=seeds)
def test_a_common_base_is_counted_once(case, start, a, b):
    base = grown(case, start)
    left, right = grown(case, a, start=base), grown(case, b, start=base)
    same_numbers(base.merge(right, base=base), right, case.rounding)
    same_numbers(left.merge(base, base=base), left, case.rounding)
    both = left.merge(right, base=base)
    assert both.examples == left.examples + right.examples - base.examples
    same_numbers(both, right.merge(left, base=base), case.rounding)
    same_numbers(both, left.merge(right.merge(base, base=base), base=base), case.rounding)
    # an untouched base is the prior itself
    same_numbers(left.merge(right, base=case.new()), left.merge(right), case.rounding)


# Draws are keyed by the example's number, and learners that saw a part each number theirs from 1.
@over(
    lambda case: (
        case.merges
        and case.record.linear
        and not case.record.dense
        and case.immediate
        and case.new().parameters.get("expectation") != "monte-carlo"
    )
)
@few
@given(seed=seeds)
def test_learners_of_disjoint_features_merge_to_the_one_that_saw_all(case, seed):
    lower = case.stream(seed, width=WIDTH // 2)
    upper = case.stream(seed + 1, first=WIDTH // 2)
    left, right, one = (case.new(intercept=False) for _ in range(3))
    for learner, batch in ((left, lower), (right, upper), (one, lower), (one, upper)):
        learner.learn(batch)
    same_numbers(left.merge(right), one, case.rounding)
    assert left.merge(right).examples == one.examples


@mergeable
def test_a_merged_learner_goes_on_learning(case):
    a, b = grown(case, 1), grown(case, 2)
    merged = a.snapshot().merge(b.snapshot())
    before = [bits(a), bits(b)]
    p = merged.learn(case.stream(3))
    assert np.isfinite(p).all()
    assert [bits(a), bits(b)] == before


@over(lambda case: case.merges and case.record.linear and not case.record.dense)
def test_more_evidence_never_widens(case):
    a, b = grown(case, 1), grown(case, 2)
    if case.record.posterior:
        narrower = np.minimum(certainty(a)[0], certainty(b)[0])
        assert (certainty(a.merge(b))[0] <= narrower * (1 + case.rounding)).all()


@mergeable
def test_models_that_differ_are_refused_with_the_difference(case):
    a = grown(case, 1)
    wider = case.record.load()(n_features=WIDTH + 1, dtype=case.dtype)
    with pytest.raises(BadModel, match=rf"differ in n_features: {WIDTH} and {WIDTH + 1}"):
        case.record.load()(n_features=WIDTH, dtype=case.dtype).merge(wider)
    other_dtype = "float64" if case.dtype == "float32" else "float32"
    with pytest.raises(BadModel, match=rf"differ in dtype: {case.dtype} and {other_dtype}"):
        a.merge(Case(case.record, case.variant, other_dtype).new())
    with pytest.raises(BadModel, match="differ in intercept"):
        a.merge(case.new(intercept=not a.parameters["intercept"]))
    with pytest.raises(BadModel, match="differ in dtype"):
        a.merge(grown(case, 2), base=Case(case.record, case.variant, other_dtype).new())
    for other in registry.records().values():
        if other.name != case.record.name:
            with pytest.raises(BadModel, match=rf"a {case.record.name} model and a {other.name} model"):
                a.merge(other.load()(n_features=WIDTH, dtype=case.dtype))
    with pytest.raises(BadModel, match="takes a learner"):
        a.merge("model.bayou")
    zeros = case.new()
    zeros.learn(Batch.from_rows([{}], labels=[0]))
    if not case.regresses:
        with pytest.raises(BadModel, match="negative labels"):
            a.merge(zeros)


@mergeable
def test_a_base_that_knows_more_than_its_heirs_is_refused(case):
    a, b = grown(case, 1), grown(case, 2)
    base = grown(case, 1, 2, 3, 4, 5, 6, 7, 8)
    before = bits(a)
    with pytest.raises(BadModel, match="base"):
        a.merge(b, base=base)
    assert bits(a) == before


@over(lambda case: case.merges and not case.new().parameters.get("memory") and case.record.name != "lasso")
def test_a_base_of_another_history_is_refused(case):
    """Its examples are few, but it knows of a feature that neither heir has met. (A lasso's gradients may cancel.)"""
    a, b, base = case.new(), case.new(), case.new()
    for learner, feature in ((a, 0), (b, 1), (base, 2)):
        learner.learn(Batch.from_rows([{feature: 1.0}] * 3, labels=[1, -1, 1]))
    with pytest.raises(BadModel, match="base"):
        a.merge(b, base=base)


# --- corners ----------------------------------------------------------------------------------------------------


@every
def test_weight_zero_changes_nothing_in_a_fresh_learner_either(case):
    learner = case.new()
    before = bits(learner)
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[0], weights=[0.0]))
    assert bits(learner) == before
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[-1]))  # so the other way to write a negative is still open


@every
def test_a_weight_too_small_for_the_state_is_a_weight_of_zero_in_any_cut(case):
    batch = case.stream(23)
    batch = batch.with_labels(batch.labels, np.where(np.arange(len(batch)) % 2, 1.0, 1e-60))
    whole, cut = case.new(), case.new()
    whole.learn(batch)
    for row in range(len(batch)):
        cut.learn(batch[row : row + 1])
    assert bits(whole) == bits(cut)


@every
def test_a_copy_of_a_snapshot_is_a_snapshot(case):
    twin = copy.copy(case.new().snapshot())
    with pytest.raises(BadInput, match="snapshot"):
        twin.learn(case.stream(24))


@apart
def test_a_pickle_of_a_large_table_holds_what_was_touched(case):
    if "per-feature" in case.variant:
        pytest.skip("its prior is as large as the table")
    arguments = VARIANTS.get(case.record.name, {"default": lambda n: {}})[case.variant](1 << 20)
    learner = case.record.load()(n_features=1 << 20, dtype=case.dtype, **arguments)
    learner.learn(Batch.from_rows([{7: 1.0, 1 << 19: 2.0}], labels=[1]))
    assert len(pickle.dumps(learner)) < 20_000
    assert bits(pickle.loads(pickle.dumps(learner))) == bits(learner)


@every
def test_a_batch_too_long_to_be_learned_at_once_is_cut_without_a_trace(case, monkeypatch):
    batch = case.stream(26)
    whole, cut = case.new(), case.new()
    p = whole.learn(batch)
    monkeypatch.setattr("bayou.core.learner._ROWS", 7)
    assert (cut.learn(batch) == p).all()
    assert bits(whole) == bits(cut)


@every
def test_indicators_are_learned_as_any_other_values_are(case):
    """Their values are not read; the bits are the same."""
    rng = np.random.default_rng(27)
    rows = [
        dict.fromkeys(rng.choice(WIDTH, size=rng.integers(0, WIDTH), replace=False).tolist(), 1.0) for _ in range(50)
    ]
    batch = Batch.from_rows(rows, labels=rng.integers(2, size=50))
    assert batch.ones
    read = batch[:]
    read.ones = False
    quick, slow = case.new(), case.new()
    assert (quick.learn(batch) == slow.learn(read)).all()
    assert bits(quick) == bits(slow)
