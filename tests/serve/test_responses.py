"""Responses: predictions of many rows as JSON."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou import Batch
from bayou.learners import AdaGrad, Gaussian, Marginal
from bayou.serve import responses
from bayou.serve.responses import PredictionResponse


@pytest.mark.parametrize("made", [Marginal, AdaGrad, Gaussian])
def test_json_has_the_rows_with_every_column_by_its_name(made):
    learner = made(n_features=8)
    learner.learn(Batch.from_rows([{1: 1.0}, {2: 2.0}, {1: 1.0, 3: -1.0}], labels=[1, 0, 1]))
    prediction = learner.predict(Batch.from_rows([{1: 1.0}, {}, {5: 3.0}]))
    response = PredictionResponse(learner, [prediction], 0.9)
    assert set(response.rows[0]) == {"mean", "sd", "low", "high"} - (
        {"sd", "low", "high"} if made is AdaGrad else set()
    ) | (set() if made is Gaussian else {"probability"})
    assert json.loads(b"[%s]" % response.json()) == response.rows
    assert json.loads(b"[%s]" % response.json(1, 2)) == response.rows[1:2]
    assert response.json(2, 2) == b""


@given(st.lists(st.floats()))
def test_numbers_of_json_read_back_as_they_were_and_others_are_null(numbers):
    response = object.__new__(PredictionResponse)
    response._columns = {"n": np.array(numbers, np.float64)}
    cells = [row["n"] for row in json.loads(b"[%s]" % response.json())]
    assert list(map(repr, cells)) == [repr(x) if np.isfinite(x) else "None" for x in numbers]
    assert responses.encode([0.1, -0.0]) == b"[0.1,-0.0]"
