"""Merging adds what each has learned over what they share; what does not fit is refused."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from bayou import BadInput, BadModel, Batch
from bayou.core import registry
from tests.laws.cases import (
    WIDTH,
    Case,
    bits,
    certainty,
    fewest,
    mergeable,
    mergeable_as_is,
    over,
    same_numbers,
    seeds,
)


def grown(case: Case, *seeds_: int, start: Any = None) -> Any:
    learner = case.new() if start is None else copy.deepcopy(start)
    for seed in seeds_:
        learner.learn(case.stream(seed, rows=15))
    return learner


@mergeable
@fewest
@given(a=seeds, b=seeds, c=seeds)
def test_merge_is_commutative_and_associative(case, a, b, c):
    """Where weights fade a mean is taken, over all that are merged at once: that is not associative."""
    a, b, c = grown(case, a), grown(case, b), grown(case, c)
    before = [bits(learner) for learner in (a, b, c)]
    same_numbers(a.merge(b), b.merge(a), case.rounding)
    same_numbers(a.merge([b, c]), c.merge([b, a]), case.rounding)
    if not fades(case):
        same_numbers(a.merge(b).merge(c), a.merge(b.merge(c)), case.rounding)
        same_numbers(a.merge(b).merge(c), a.merge([b, c]), case.rounding)
    assert a.merge(b).examples == a.examples + b.examples
    assert [bits(learner) for learner in (a, b, c)] == before


@mergeable_as_is
@fewest
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
@fewest
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
@fewest
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


def fades(case: Case) -> bool:
    """Whether what it knows is no sum over examples: several are averaged then."""
    return case.record.name == "bank" or bool(case.new().parameters.get("memory"))


@over(lambda case: case.merges and case.record.linear and not case.record.dense and not fades(case))
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
