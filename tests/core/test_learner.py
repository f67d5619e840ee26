"""What all learners say of their own state; the laws are in tests/laws."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou import Batch
from bayou.core import learner as core_learner
from bayou.core import registry
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Extras, ResumePoint
from bayou.core.learner import Learner
from bayou.recipe.numbering import Numbering
from bayou.recipe.recipe import Recipe

every = pytest.mark.parametrize("kind", [record.load() for record in registry.records().values()])
sparse = pytest.mark.parametrize("kind", [r.load() for r in registry.records().values() if not r.dense])


# A lasso's weights are 0 until there is reason enough; on line its sums cannot be merged.
not_sparse = pytest.mark.parametrize("kind", [r.load() for r in registry.records().values() if r.name != "lasso"])


@not_sparse
@given(features=st.sets(st.integers(0, 4999), max_size=20))
def test_touched_are_the_features_that_were_learned_from(kind, features):
    learner = kind(n_features=5000 if not registry.find(kind.name).dense else 300)
    features = {feature % learner.n_features for feature in features}
    learner.learn(Batch.from_rows([{feature: 1.0} for feature in sorted(features)], labels=[1] * len(features)))
    learner.learn(Batch.from_rows([{1: 1.0, 2: 1.0}], labels=[1], weights=[0.0]))  # weight 0 touches nothing
    assert learner.touched.tolist() == sorted(features)


@every
def test_one_feature_is_not_mistaken_for_the_intercept(kind):
    learner = kind(n_features=1)
    learner.learn(Batch.from_rows([{}], labels=[1]))
    assert learner.touched.tolist() == []


@sparse
def test_size_and_negative_label(kind, tmp_path):
    learner = kind(n_features=1 << 20)
    assert learner.negative_label is None
    learner.learn(Batch.from_rows([{3: 1.0}, {4: 1.0}], labels=[1, 0]))
    assert learner.negative_label == (0 if learner.record.task == "binary" else None)
    assert learner.nbytes >= learner.n_features * np.dtype(learner.parameters["dtype"]).itemsize
    learner.save(tmp_path / "m.bayou")
    parts = 2 if learner.record.task == "multiclass" else 1
    assert (tmp_path / "m.bayou").stat().st_size < 60_000 * parts < learner.nbytes
    assert bayou.load(tmp_path / "m.bayou").nbytes == learner.nbytes


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_is_told_before_a_learner_is_made(kind, dtype):
    assert kind.memory_for(300, dtype=dtype) == kind(n_features=300, dtype=dtype).nbytes
    with pytest.raises(BadInput, match="n_features"):
        kind.memory_for(0)


def test_memory_goes_by_the_parameters():
    joint, lasso, marginal = (registry.find(name).load() for name in ("joint", "lasso", "marginal"))
    assert joint.memory_for(10**9, covariance="full") > 10**18  # far more than could be made
    assert lasso.memory_for(5000, algorithm="reduced") < lasso.memory_for(5000)
    assert marginal.memory_for(7, prior_variance=np.ones(7)) == marginal(7, prior_variance=np.ones(7)).nbytes


# --- what is too large ------------------------------------------------------------------------------------------


def refused(learner, batch: Batch) -> set[int]:
    """The rows that are refused, found by cutting the batch in halves."""
    try:
        learner.learn(batch.with_labels(batch.labels))
    except BadInput:
        if len(batch) == 1:
            return {int(batch.positions[0])}
        half = len(batch) // 2
        return refused(learner, batch[:half]) | refused(learner, batch[half:])
    return set()


def alone(learner, batch: Batch) -> set[int]:
    rows = set()
    for k in range(len(batch)):
        one = batch[k : k + 1]
        # Built anew, so that nothing of the whole batch is in it.
        anew = Batch.from_arrays(one.indptr, one.indices, one.values, one.labels, one.weights, positions=one.positions)
        rows |= refused(learner, anew)
    return rows


def test_a_row_is_judged_by_itself():
    kind = registry.find("marginal").load()
    large, long = {1: 2e14}, dict.fromkeys(range(100000), 1.0)
    learner = kind(n_features=1 << 17, dtype="float32", prior_variance=1.0)
    batch = Batch.from_rows([large, long, large], labels=[1, -1, 1])
    learner.learn(batch[:1])
    learner.predict(batch)
    learner.learn(batch)
    heavy = Batch.from_rows([large, {2: 1.0}], labels=[1, 1], weights=[1.0, 1e9])
    learner.learn(heavy)


def test_the_row_that_is_too_large_is_named():
    kind = registry.find("marginal").load()
    learner = kind(n_features=8, dtype="float32", prior_variance=1.0)
    with pytest.raises(BadInput, match=r"row 1, feature 3: the value 5e\+14 is too large.*may reach 3.3e\+14\."):
        learner.predict(Batch.from_rows([{0: 1.0, 1: 1.0}, {2: 1.0, 3: 5e14}, {0: 9e20}]))
    with pytest.raises(BadInput, match=r"row 2: a weight of 1e\+20 is too large for float32 state"):
        learner.learn(Batch.from_rows([{0: 1.0}, {}, {1: 1.0}], labels=[1, 1, 1], weights=[1, 1, 1e20]))
    learner.predict(Batch.from_rows([{0: 1.0}], labels=[1], weights=[1e20]))


@sparse
@settings(max_examples=20)
@given(data=st.data())
def test_what_is_refused_does_not_depend_on_how_rows_are_cut_into_batches(kind, data):
    sizes = st.floats(0, 17).map(lambda e: 10.0**e)
    row = st.tuples(st.integers(0, 3) | st.just(900), sizes, st.just(1.0) | sizes)
    rows = data.draw(st.lists(row, min_size=2, max_size=8))
    features = [{k: value if k == 0 else 1.0 for k in range(length)} for length, value, _ in rows]
    weights = [weight for *_, weight in rows]
    batch = Batch.from_rows(features, [1] * len(rows), weights, positions=range(len(rows)))
    wrong = alone(kind(n_features=1000, dtype="float32"), batch)
    assert refused(kind(n_features=1000, dtype="float32"), batch) == wrong
    learner = kind(n_features=1000, dtype="float32")
    if wrong:
        with pytest.raises(BadInput, match="too large"):
            learner.learn(batch)
    else:
        learner.learn(batch)


# --- merging what travels with a model ----------------------------------------------------------------------------


mergeable = pytest.mark.parametrize(
    "kind",
    [record.load() for record in registry.records().values() if record.merge != "refused" and record.name != "lasso"],
)


def numbered(kind, *ids):
    learner = kind(n_features=16)
    numbering = Numbering.from_arrays(16, {"ids": np.array(ids, np.uint64)})
    learner.extras = Extras(Recipe(kind="vw", bits=4, exact=True), numbering=numbering)
    return learner


@mergeable
def test_models_that_number_features_differently_do_not_merge(kind):
    one = numbered(kind, 5, 6)
    for theirs in ([6, 5], [5, 7, 6], [9]):
        with pytest.raises(BadModel, match="number their features differently"):
            one.merge(numbered(kind, *theirs))
        with pytest.raises(BadModel, match="number their features differently"):
            one.merge(numbered(kind, 5, 6), base=numbered(kind, *theirs))


@mergeable
def test_of_two_numberings_the_longer_is_kept(kind):
    short, long = numbered(kind, 5, 6), numbered(kind, 5, 6, 7)
    for merged in (short.merge(long), long.merge(short), short.merge(long, base=numbered(kind, 5))):
        assert merged.extras.numbering.arrays()["ids"].tolist() == [5, 6, 7]
    assert short.extras.numbering.arrays()["ids"].tolist() == [5, 6]


@mergeable
def test_a_merged_model_has_no_unfinished_run(kind):
    one, other = kind(n_features=4), kind(n_features=4)
    for learner in (one, other):
        learner.extras.unfinished = ResumePoint(rows=3)
    assert one.merge(other).extras.unfinished is None
    assert one.extras.unfinished is not None


# --- what learners override -----------------------------------------------------------------------------------------


def test_learners_override_the_hooks_that_the_base_class_documents_and_no_others():
    """Five required and eight optional hooks."""
    text = core_learner.__doc__
    required, optional, others = re.split("^(?:Optional|Public methods)", text.split("\nRequired:")[1], flags=re.M)
    hooks = [re.findall(r"^    (_\w+)\(", part, re.M) for part in (required, optional)]
    assert [len(names) for names in hooks] == [5, 8]
    documented = {*hooks[0], *hooks[1], *re.findall(r"`(_\w+)`", others)}
    assert all(hasattr(Learner, name) for name in documented)
    overridden = set()
    for record in registry.own_records():
        for base in record.load().__mro__:
            if base.__module__.startswith("bayou.learners"):
                private = {name for name in vars(base) if name.startswith("_") and not name.startswith("__")}
                overridden |= private & set(dir(Learner)) - {"_abc_impl"}
    assert overridden <= documented
