"""`recipe.labels`: what there is to predict, decided from the first labels."""

import json

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou import BadInput, sources
from bayou.recipe.labels import LabelCounts, choose_task
from bayou.recipe.recipe import Column, Recipe


@pytest.mark.parametrize(
    ("counts", "task"),
    [
        ({"1": 50, "0": 50}, "binary"),
        ({"1.0": 50, "-1": 50}, "binary"),
        ({"true": 50, "FALSE": 50}, "binary"),
        ({"1": 100}, "binary"),
        ({}, "binary"),
        ({"yes": 3, "no": 2}, "binary"),
        ({"1": 3, "2": 2}, "binary"),
        ({"1": 500, "0": 495, "7": 5}, "binary"),  # mistakes
        ({"1": 500, "0": 480, "2": 20}, "multiclass"),  # a class
        ({"0": 2, "1": 2, "2": 2}, "multiclass"),
        ({"a": 2, "b": 2, "c": 1}, "multiclass"),
        ({"yes": 500, "no": 499, "yse": 1}, "multiclass"),
        ({str(k): 10 for k in range(20)}, "multiclass"),
        ({str(k): 10 for k in range(21)}, "regression"),
        ({"3": 1, "4": 1, "9": 1}, "regression"),  # none comes twice
        ({"1.5": 10, "2": 10, "4": 10}, "regression"),
        ({**{str(k / 7): 1 for k in range(50)}, "n.a.": 2}, "regression"),
        ({f"user {k}": 3 for k in range(100)}, "multiclass"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_labels_decide_the_task(counts, task):
    assert choose_task(Recipe(kind="table"), LabelCounts(counts)).task == task


def test_of_two_labels_the_one_that_sorts_last_is_positive_and_others_are_bad():
    recipe = choose_task(Recipe(), LabelCounts({"10": 3, "9.0": 2, "9": 4}))
    assert (recipe.negative, recipe.positive) == ("9", "10")
    recipe = choose_task(Recipe(kind="table"), LabelCounts({">50K": 3, "<=50K": 9}))
    assert (recipe.negative, recipe.positive) == ("<=50K", ">50K")
    table = pa.table({"a": ["x", "y"] * 6, "y": ["no", "yes"] * 5 + ["no", None]})
    late = pa.table({"a": ["x", "y", "x"], "y": ["yes", "maybe", " no "]})
    recipe = sources.open(table, recipe={"label": "y", "bits": 8}, on_error="skip").fit_recipe()
    fitted = sources.open(late, extras=bayou.sources.Extras.new(recipe), on_error="skip")
    assert [batch.labels.tolist() for batch in fitted] == [[1, -1]]
    assert (
        "expected the label no or yes, as the first rows have, not maybe; use task='multiclass'" in fitted.bad_lines[0]
    )


def test_what_cannot_be_classes_is_refused():
    with pytest.raises(BadInput, match=r"has 90 different values in the first 100 rows .* Is it the right column"):
        choose_task(Recipe(), LabelCounts({f"id{k}": 1 + (k < 10) for k in range(90)}))
    with pytest.raises(BadInput, match="holds a, b, c; specify the positive class with positive= or label_above="):
        choose_task(Recipe(task="binary"), LabelCounts({"a": 1, "b": 1, "c": 1}))
    with pytest.raises(BadInput, match=r"task is array\(\["):
        bayou.train(pa.table({"a": ["x"], "y": [1]}), label="y", task=np.ones(2))
    assert Column("a", "bins", edges=np.array([1.0, 2.0])).edges == (1.0, 2.0)
    with pytest.raises(BadInput, match="task is 'clusters'"):
        Recipe(task="clusters")
    with pytest.raises(BadInput, match=r"positive, .* need the task binary, but it is regression"):
        Recipe(task="regression", positive="1")


@pytest.mark.parametrize("digits", [9, 1])
def test_numbers_with_labels_among_them_that_are_none_are_refused_by_these(digits):
    y = np.random.default_rng(0).normal(size=1000).round(digits)  # with one digit there are few enough to be classes
    y[::10] = np.inf
    y[::17] = -np.inf
    table = pa.table({"a": ["x", "z"] * 500, "y": y})
    spoiled = (
        "column 'y', holds -inf, inf, which are not numbers, in 153 of the first 1,000 rows; the others hold numbers"
    )
    with pytest.raises(BadInput, match=spoiled):
        bayou.train(table, label="y", bits=8)
    run = bayou.train(table, label="y", bits=8, task="regression", learner="gaussian")
    assert (run.skipped, run.evaluation.examples) == (153, 847)


def test_texts_among_numbers_are_named_unless_all_can_be_classes():
    numbers = {str(k / 7): 1 for k in range(50)}
    with pytest.raises(BadInput, match="the label holds n/k, which is not a number, in 20 of the first 70 rows"):
        choose_task(Recipe(), LabelCounts({**numbers, "n/k": 20}))
    with pytest.raises(BadInput, match=r"has 110 different values in the first 110 rows .* Is it the right column"):
        choose_task(Recipe(), LabelCounts({**{str(k / 7): 1 for k in range(50)}, **{f"id{k}": 1 for k in range(60)}}))
    assert choose_task(Recipe(), LabelCounts({"1": 50, "2": 50, "3": 50, "inf": 50})).task == "multiclass"
    assert choose_task(Recipe(), LabelCounts({"1.5": 50, "2": 50, "3": 50, "low": 50})).task == "multiclass"


@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
def test_texts_are_classes_whatever_they_stand_in(form, tmp_path):
    """Numbers are numbers however they are written; texts keep their blanks within, and none around."""
    long = "x" * 300
    kinds = [" red", "2", "a b", "2.0", "red", long + "1", long + "2", "", "NA", "a b", "002"]
    data = pa.table({"a": [str(k % 3) for k in range(11)], "kind": kinds})
    if form != "table":
        path = tmp_path / f"x.{form}"
        lines = (
            ["a,kind", *(f"{a},{kind}" for a, kind in zip(*data.to_pydict().values(), strict=True))]
            if form == "csv"
            else [json.dumps(row) for row in data.to_pylist()]
        )
        path.write_text("\n".join(lines) + "\n")
        data = str(path)
    source = sources.open(data, recipe={"label": "kind", "task": "multiclass", "bits": 8}, on_error="skip")
    (batch,) = source
    assert batch.labels.tolist() == [0, 1, 2, 1, 0, 3, 4, 2, 1]
    assert source.extras.classes == ["red", "2", "a b", long + "1", long + "2"]
    assert source.skipped == 2
