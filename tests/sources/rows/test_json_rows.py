"""JSON rows of whatever names: the very bits of `Rows`, by the kernel or by Python, and what is bad in a sentence."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou import sources
from bayou.core.batch import Batch
from bayou.core.extras import Extras
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.labels import key_of
from bayou.recipe.recipe import Recipe
from bayou.sources.rows.encoder import RowEncoder
from bayou.sources.rows.json_rows import JsonRowParser, block_of

RECIPE = Recipe(kind="rows", bits=6)  # few features, so that many share one
NAMES = st.one_of(
    st.sampled_from(["a", "b", "site", "age", "3", "", "ü", "a=b", 'q"', "x\\", "n\n"]), st.text(max_size=4)
)
NUMBERS = st.one_of(
    st.integers(-(10**25), 10**25),
    st.floats(-1e30, 1e30, allow_nan=False),
    st.sampled_from([0, -0.0, 1e-320, 0.1, 5e22]),
)
VALUES = st.one_of(NUMBERS, st.booleans(), st.none(), st.text(max_size=6), st.sampled_from(["x", "é", "\\", "tab\t"]))
ROWS = st.lists(st.dictionaries(NAMES.filter(lambda name: name not in ("label", "weight", "id")), VALUES), max_size=8)


def parsed(lines, recipe=RECIPE, **more):
    return JsonRowParser(recipe, **more).parse(block_of(b"\n".join(lines)))


def bits(batch: Batch):
    return batch.indptr.tobytes(), batch.indices.tobytes(), batch.values.tobytes()


@given(rows=ROWS, ascii=st.booleans(), spaces=st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]))
def test_rows_are_what_dictionaries_are(rows, ascii, spaces):
    lines = [json.dumps(row, ensure_ascii=ascii, separators=spaces).encode() for row in rows]
    for dtype in ("float32", "float64"):
        found = parsed(lines, dtype=dtype)
        assert not found.bad_lines
        batch, expected = found.batch(), RowEncoder(RECIPE.bits, dtype=dtype).encode_rows(rows)[0]
        assert bits(batch) == bits(expected)
        assert (batch.max_row_length, batch.max_abs_value) == (expected.max_row_length, expected.max_abs_value)
        assert expected.is_all_ones or not batch.is_all_ones


@given(rows=ROWS)
def test_names_are_those_of_the_features_however_lines_are_cut_into_blocks(rows):
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
    kept = []
    for cuts in ([lines], [[line] for line in lines]):
        names = FeatureNames(RECIPE.n_features)
        reader = JsonRowParser(RECIPE, names)
        for part in cuts:
            found = reader.parse(block_of(b"\n".join(part)))
            if found.new_names is not None:
                names.add(found.new_names)
        kept.append({name: array.tobytes() for name, array in names.arrays().items()})
    assert kept[0] == kept[1]
    touched = np.unique(parsed(lines).indices)
    assert names.is_named(touched).all()


def test_names_say_what_a_feature_is():
    names = FeatureNames(2**18)
    reader = JsonRowParser(Recipe(kind="rows", bits=18), names)
    found = reader.parse(block_of(b'{"age": 37, "site": "a.com", "zero": 0}\n' + rb'{"q\"": "\u00fc"}'))
    names.add(found.new_names)
    assert names.name_of(found.indices) == ["age", "site=a.com", 'q"=ü']


def test_label_weight_and_id_are_not_features():
    lines = [
        b'{"a": 1, "label": true, "weight": 2.5, "id": "x"}',
        b'{"label": -1, "a": 2}',
        rb'{"\u0061": 3, "label": 0}',
    ]
    found = parsed(lines)
    assert found.values.tolist() == [1, 2, 3]
    assert found.labels.tolist() == [1, -1, 0]
    assert found.weights.tolist() == [2.5, 1, 1]
    own = parsed([b'{"y": 1, "label": 2, "w": 3, "n": 4}'], Recipe(kind="rows", label="y", weight="w", ignore=("n",)))
    assert (own.labels.tolist(), own.weights.tolist(), own.values.tolist()) == ([1], [3], [2])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a": [1]}', "the feature 'a' is [1]; a value is a number"),
        (b'{"a": 1e39}', "every value must be a finite number"),
        (b'{"a": 1', "expected a JSON object: expecting ',' delimiter"),
        (b"[1]", "expected a JSON object such as"),
        (b'{"a": 01}', "expected a JSON object"),
        (b'{"a": 1.}', "expected a JSON object"),
        (b'{"a": +1}', "expected a JSON object"),
        (b'{"a": 1} x', "extra data"),
        (b'{"a": "\xff"}', "expected text in UTF-8"),
        (b'{"a": "\x01"}', "invalid control character"),
        (b'{"label": "yes"}', "expected a label, a number, true or false, under 'label', not 'yes'"),
        (b'{"label": 1, "weight": -1}', "expected a weight from 0 to 1e+06"),
        (b'{"label": 1, "weight": "2"}', "expected a weight"),
        (b"{" + b'"a":' * 50_000, "expected"),
    ],
)
def test_a_bad_row_is_described_and_leaves_nothing(line, words):
    found = parsed([b'{"b": 2, "label": 1}', line, b"", b'{"c": 3, "label": 0}'])
    assert found.skipped == 1
    assert found.bad_lines[0].line == 1
    assert words in found.bad_lines[0].reason
    assert found.values.tolist() == [2, 3]
    assert found.positions.tolist() == [0, 3]


def test_a_label_that_is_not_asked_for_may_be_anything():
    assert not parsed([b'{"a": 1, "label": "yes", "weight": -1}'], labels=False).bad_lines


def test_classes_are_known_by_their_names():
    found = parsed([b'{"label": "b"}', b'{"label": 7}', b'{"label": true}', b'{"label": "7"}'], several=True)
    assert found.labels.tolist() == [key_of(name) for name in ("b", "7", "true", "7")]
    assert sorted(found.texts.values()) == ["b", "true"]
    wrong = parsed([b'{"label": []}', b'{"label": " "}', b'{"label": ["a"]}', b'{"label": "a"}'], several=True)
    assert [bad.line for bad in wrong.bad_lines] == [0, 1, 2]
    assert (
        wrong.bad_lines[2].reason == """expected a label, a text, a number, true or false, under 'label', not '["a"]'"""
    )


def test_classes_of_a_file_join_those_that_are_known(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"a": 1, "label": "b"}\n{"a": 2, "label": "c"}\n{"a": 2, "label": "a"}\n')
    extras = Extras.new(Recipe(kind="rows", bits=6, task="multiclass"))
    extras.classes = ["a", "b"]
    (batch,) = sources.open(tmp_path / "x.jsonl", extras=extras)
    assert (batch.labels.tolist(), extras.classes) == ([1, 2, 0], ["a", "b", "c"])


def test_files_of_such_rows_are_read_by_such_a_recipe(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"a": 1, "label": 1}\n{"a": 2, "label": 0}\n')
    extras = Extras.new(RECIPE)
    (batch,) = sources.open(str(tmp_path / "x.jsonl"), extras=extras)
    assert batch.labels.tolist() == [1, -1]
    assert len(extras.names) == 1
