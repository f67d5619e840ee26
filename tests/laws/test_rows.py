"""What is in a row: absent features, duplicates, zeros, indicators, types of values, rows of any length."""

import itertools

import numpy as np
from hypothesis import given

from bayou import Batch
from tests.laws.cases import WIDTH, apart, bits, every, few, plain, seeds, streams


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
def test_indicators_are_learned_as_any_other_values_are(case):
    """Their values are not read; the bits are the same."""
    rng = np.random.default_rng(27)
    rows = [
        dict.fromkeys(rng.choice(WIDTH, size=rng.integers(0, WIDTH), replace=False).tolist(), 1.0) for _ in range(50)
    ]
    batch = Batch.from_rows(rows, labels=rng.integers(2, size=50))
    assert batch.is_all_ones
    read = batch[:]
    read.is_all_ones = False
    quick, slow = case.new(), case.new()
    assert (quick.learn(batch) == slow.learn(read)).all()
    assert bits(quick) == bits(slow)


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
    assert learner.learn(empty).shape == learner.predict(empty).expected.shape
    assert len(learner.learn(empty)) == 0
    assert bits(learner) == before


@apart
def test_empty_rows_teach_the_intercept_alone(case):
    learner = case.new()
    learner.learn(case.stream(15))
    means, before = learner.mean, bits(learner)[1]
    p = learner.learn(Batch.from_rows([{}] * 20, labels=[1 if not case.regresses else 1e3] * 20))
    if case.many:
        p = p[:, learner.labels == 1].ravel()
    after = bits(learner)[1]
    assert all(after[name] == before[name] for name in learner._per_feature_arrays)
    if case.record.linear:
        assert learner.mean.tobytes() == means.tobytes()
    if learner.parameters["intercept"]:
        # a combination may change its mind about its parts on the way
        assert (np.diff(p) > 0).all() if case.record.linear else p[-1] > p[0]
    else:
        nothing = 1 / len(learner.labels) if case.many else 0.0 if case.regresses else 0.5
        np.testing.assert_allclose(p, nothing, rtol=0 if nothing in (0.0, 0.5) else 1e-15)
        assert all(after[name] == before[name] for name in after if name.endswith("intercept"))
        assert after == before or not case.record.linear or case.regresses  # which learn the noise
        assert not np.any(learner.intercept)


@every
def test_rows_of_any_length(case):
    """Seven features and the intercept fill a vector; a row may also be far longer than any before it."""
    longest = 10_000 if case.apart else 200 if case.record.dense else 1000  # these have length^2 numbers
    for length in (1, 6, 7, 8, 9, longest):
        rng = np.random.default_rng(length)
        row = dict(zip(rng.permutation(length).tolist(), rng.normal(size=length), strict=True))
        learner = case.new(n=length)
        rows = Batch.from_rows([{}, row, {0: 1.0}, row], labels=[1, 1, -1, -1])
        p = learner.learn(rows)
        assert case.sensible(p)
        # Most weights of these are to stay 0, or to go there.
        if not learner.parameters.get("l1") and case.record.name not in ("lasso", "shrinkage"):
            assert (learner.mean != (0.0 if case.many else case.new(n=length).mean)).all()
        assert all(np.isfinite(array).all() for array in learner._arrays().values())
