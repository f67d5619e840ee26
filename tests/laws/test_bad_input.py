"""Bad input is refused whole, with a sentence, before any row is learned."""

import math

import numpy as np
import pytest

from bayou import BadInput, Batch
from bayou.core import registry
from tests.laws.cases import LABELS, ROWS, WIDTH, bits, every, plain


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
ONLY_TWO = {"label 2", "mixed labels"}


@plain
@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_refused_whole_with_a_sentence(case, bad):
    if bad in (ONLY_CLASSES if case.regresses else ONLY_NUMBERS) or (case.many and bad in ONLY_TWO):
        pytest.skip("not bad for this learner")
    make, sentence = BAD[bad]
    fresh, learned = case.new(), case.new()
    learned.learn(case.stream(16))
    for learner in (fresh, learned):
        before = bits(learner)
        with pytest.raises(BadInput, match=sentence):
            learner.learn(make())
        assert bits(learner) == before


@every
def test_predict_checks_features_and_values_too(case):
    learner = case.new()
    with pytest.raises(BadInput, match=f"row 1: feature {WIDTH} is out of range"):
        learner.predict(Batch.from_rows([{0: 1.0}, {WIDTH: 1.0}]))
    with pytest.raises(BadInput, match=r"row 1, feature 2.*too large"):
        learner.predict(Batch.from_rows([{0: 1.0}, {2: -1e200}]))
    with pytest.raises(BadInput, match=r"bayou.Batch"):
        learner.predict([[1.0, 2.0]])


@pytest.mark.parametrize("record", registry.records().values(), ids=lambda record: record.name)
def test_a_bad_number_of_features_or_dtype_is_refused(record):
    for n_features in (0, -1, 2.5, "many", None, True, 2**32):
        with pytest.raises(BadInput, match="n_features"):
            record.load()(n_features=n_features)
    for dtype in ("int32", "float16", "complex128", "banana"):
        with pytest.raises(BadInput, match=rf"dtype is .*{dtype}"):
            record.load()(n_features=3, dtype=dtype)
