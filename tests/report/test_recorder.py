"""The recorder learns as its learner does, and remembers what the learner believed before it learned."""

import itertools

import numpy as np
import pytest

from bayou import Batch, simulate
from bayou.core import registry
from bayou.learners import Bank, Marginal
from bayou.report import Recorder
from bayou.report.recorder import MAX_SAMPLED_FEATURES, PICKED, STRETCHES
from tests.laws.cases import bits

CLASSIFIERS = [name for name, record in registry.records().items() if record.task == "binary"]


def stream(rows: int, seed: int = 0) -> Batch:
    return next(iter(simulate.random(n_features=30, active=0.2, seed=seed).batches(rows, batch_size=rows)))


def recorded(learner, batches, cut: bool = True) -> tuple[Recorder, np.ndarray]:
    recorder = Recorder(learner)
    told = [recorder.learn(batch) for batch in (recorder.split_at_recordings(batches) if cut else batches)]
    return recorder, np.concatenate(told)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_what_is_remembered_is_what_the_learner_would_have_said_just_before(name) -> None:
    record, batch = registry.find(name), stream(60)
    recorder, told = recorded(record.load()(n_features=30), [batch])
    alone = record.load()(n_features=30)
    sample = recorder.sample()
    assert np.array_equal(sample.row, np.arange(60))  # so short a run is remembered whole
    for k in range(60):
        before = alone.predict(batch[k : k + 1])
        assert sample.expected[k] == before.probability[0] == told[k]
        assert sample.mean[k] == before.mean[0]
        if record.posterior:
            assert sample.variance[k] == before.variance[0]
        alone.learn(batch[k : k + 1])
    assert np.isnan(sample.variance).all() == (not record.posterior)
    assert bits(recorder.learner, by_row=True) == bits(alone, by_row=True)


def test_cutting_the_stream_otherwise_changes_nothing() -> None:
    batch = stream(5000)
    one, told = recorded(Bank(30), [batch])
    other, again = recorded(Bank(30), [batch[:7], batch[7:7], batch[7:3000], batch[3000:]], cut=False)
    assert np.array_equal(told, again)
    for name in ("row", "expected", "mean", "variance", "label", "weight", "stands_for"):
        assert np.array_equal(getattr(one.sample(), name), getattr(other.sample(), name)), name
    assert one.learner._arrays()["state"].tobytes() == other.learner._arrays()["state"].tobytes()


def test_the_sample_is_bounded_stands_for_every_row_and_keeps_the_features() -> None:
    n = 30_000
    batch = stream(n)
    recorder, told = recorded(Marginal(30), [batch])
    sample = recorder.sample()
    assert len(sample) < PICKED * STRETCHES * 2
    assert (np.diff(sample.row) > 0).all()
    assert np.array_equal(sample.expected, told[sample.row])
    assert np.array_equal(sample.label > 0, batch.labels[sample.row] > 0)
    # The last stretch is not over, and one of its parts may be half over.
    assert sample.stands_for.sum() == pytest.approx(n, rel=0.01)
    for row, features in list(zip(sample.row, sample.features, strict=True))[-50:]:
        indices, values = features
        span = slice(batch.indptr[row], batch.indptr[row + 1])
        assert np.array_equal(indices, batch.indices[span])
        assert np.array_equal(values, batch.values[span])
    assert recorder.nonzeros == batch.nonzeros
    assert (recorder.shortest, recorder.longest) == (np.diff(batch.indptr).min(), np.diff(batch.indptr).max())


def test_of_very_long_rows_the_features_are_not_kept() -> None:
    rows = [dict.fromkeys(range(n), 1.0) for n in (3, MAX_SAMPLED_FEATURES + 1, 0, MAX_SAMPLED_FEATURES)]
    recorder, _ = recorded(Marginal(MAX_SAMPLED_FEATURES + 1), [Batch.from_rows(rows, labels=[1, 0, 1, 0])])
    lengths = [None if features is None else len(features[0]) for features in recorder.sample().features]
    assert lengths == [3, None, 0, MAX_SAMPLED_FEATURES]


def test_weighted_by_what_it_stands_for_the_sample_gives_the_stream() -> None:
    batch = stream(40_000)
    recorder, told = recorded(Marginal(30), [batch])
    sample = recorder.sample()
    mean = np.average(sample.expected, weights=sample.stream_weight)
    spread = told.std() / np.sqrt(len(sample) / 4)  # some rows stand for more than others
    assert abs(mean - told.mean()) < 4 * spread


def test_rows_of_weight_0_are_not_remembered() -> None:
    batch = stream(100)
    weights = np.arange(100) % 2 * 3.0
    recorder, _ = recorded(Marginal(30), [batch.with_labels(batch.labels, weights)])
    sample = recorder.sample()
    assert np.array_equal(sample.row, np.arange(1, 100, 2))
    assert (sample.weight == 3.0).all()
    assert recorder.examples == 50


def test_the_lanes_are_looked_at_at_geometrically_spaced_examples() -> None:
    recorder, _ = recorded(Bank(30), [stream(700), stream(1300, seed=1)])
    at = [examples for examples, _ in recorder.looks]
    assert at[:4] == [1, 2, 3, 4]
    assert max(b / a for a, b in itertools.pairwise(at[10:])) < 1.26  # two blocks of an eighth
    # A look shows what a learner shows that has seen that many examples.
    about = min(at, key=lambda examples: abs(examples - 100))
    alone = Bank(30)
    alone.learn(stream(700)[:about])
    assert dict(recorder.looks)[about] == alone.parts()


@pytest.mark.parametrize("sizes", [(700, 1300), (20_000,), (3, 9000, 8192, 1)])
def test_looking_changes_no_bit_of_what_is_learned(sizes) -> None:
    """Nor of what the bank learns of later rows, for which it looks ahead in the rows at hand."""
    batches = [stream(size, seed=seed) for seed, size in enumerate(sizes)]
    recorder, _ = recorded(Bank(30), batches)
    alone = Bank(30)
    for batch in batches:
        alone.learn(batch)
    theirs = alone._arrays()
    for name, array in recorder.learner._arrays().items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def test_a_refused_batch_is_not_remembered() -> None:
    recorder = Recorder(Marginal(4))
    recorder.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    with pytest.raises(ValueError, match="out of range"):
        recorder.learn(Batch.from_rows([{0: 1.0}, {9: 1.0}], labels=[1, 1]))
    assert recorder.rows == len(recorder.sample()) == 1


def test_a_resumed_learner_counts_from_where_it_went_on() -> None:
    learner = Bank(30)
    learner.learn(stream(500))
    recorder, _ = recorded(learner, [stream(50, seed=1)])
    assert recorder.examples == 50
    assert [examples for examples, _ in recorder.looks] == [50]  # all in one block of an eighth of those before
