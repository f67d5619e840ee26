"""A snapshot stays as it was, and threads may predict from it while one learns."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayou import BadInput
from tests.laws.cases import (
    bits,
    every,
    plain,
)


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


@every
def test_a_copy_of_a_snapshot_is_a_snapshot(case):
    twin = copy.copy(case.new().snapshot())
    with pytest.raises(BadInput, match="snapshot"):
        twin.learn(case.stream(24))


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
