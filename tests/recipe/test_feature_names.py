import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.core.errors import BadModel
from bayou.recipe.feature_names import FeatureNames, NewNames, collision_rate

ABSENT = (-1, -1)


def found(*named: tuple, separator: bytes = b"^") -> NewNames:
    """(index, prefix or None, name or None[, the same of the second half]) each."""
    text, spans = bytearray(), []
    for _, *parts in named:
        row = []
        for part in [*parts, None, None][:4]:
            row += ABSENT if part is None else (len(text), len(text) + len(part))
            text += part or b""
        spans.append(row)
    data = np.frombuffer(bytes(text), np.uint8)
    indices = np.array([index for index, *_ in named], np.uint32)
    return NewNames(indices, np.array(spans, np.int64).reshape(-1, 8), data, data, separator)


def test_names_are_shown_as_people_read_them():
    names = FeatureNames(64)
    names.add(found((1, b"user", b"bob"), (2, None, b"x"), (3, b"age", None), (4, b"a", b"1", b"b", b"2")))
    names.add(found((5, b"city", b"", b"age", None), (6, b"a", b""), separator=b"="))
    assert names.name_of([1, 2, 3, 4, 5, 6, 7]) == ["user^bob", "x", "age", "a^1 & b^2", "city= & age", "a=", None]


def test_the_first_name_of_a_feature_stays():
    names = FeatureNames(8)
    names.add(found((3, None, b"first"), (3, None, b"second")))
    names.add(found((3, None, b"third")))
    assert names.name_of([3]) == ["first"]
    assert len(names) == 1


def test_what_is_no_feature_of_the_table_is_passed_over():
    names = FeatureNames(10)
    names.add(found((10, None, b"beyond"), (2**32 - 1, None, b"unknown"), (9, None, b"last")))
    assert names.name_of(range(10)) == [None] * 9 + ["last"]


def test_bytes_that_are_no_text_are_shown_all_the_same():
    names = FeatureNames(8)
    names.add(found((0, None, "süß".encode()), (1, None, b"\xff\x00")))
    assert names.name_of([0, 1]) == ["süß", "\ufffd\x00"]


def test_the_number_of_names_is_limited():
    names = FeatureNames(100, limit=3)
    names.add(found(*((k, None, b"n%d" % k) for k in range(3))))
    assert not names.full
    names.add(found((0, None, b"again"), (7, None, b"one too many"), (8, None, b"two")))
    assert names.full
    names.add(found((9, None, b"late")))
    assert len(names) == 3
    assert not names.is_named(np.array([7, 8, 9])).any()


def test_the_bytes_of_names_are_limited():
    names = FeatureNames(100, byte_limit=10)
    names.add(found((1, b"abc", b"defghi"), (2, None, b"x")))
    assert names.full
    assert names.name_of([1, 2]) == ["abc^defghi", None]
    assert sum(len(array) for array in names.arrays().values()) < 20


names_of_features = st.lists(st.tuples(st.integers(0, 40), st.none() | st.binary(max_size=4), st.binary(max_size=9)))


@given(st.lists(names_of_features, max_size=5))
def test_it_is_a_dictionary_of_first_names(batches):
    names, expected = FeatureNames(50), {}
    for batch in batches:
        names.add(found(*batch))
        for index, prefix, name in batch:
            text = name if prefix is None else prefix + b"^" + name
            expected.setdefault(index, text.decode("utf-8", "replace"))
    assert names.name_of(range(50)) == [expected.get(k) for k in range(50)]
    assert names.is_named(np.arange(50)).tolist() == [k in expected for k in range(50)]
    again = FeatureNames.from_arrays(50, names.arrays())
    assert again.name_of(range(50)) == names.name_of(range(50))
    again.add(found((45, None, b"new"), (0, None, b"newer")))
    assert again.name_of([45, 0]) == ["new", expected.get(0, "newer")]


@given(names_of_features, names_of_features)
def test_merging_adds_what_was_missing(one, other):
    both, mine, theirs = FeatureNames(50), FeatureNames(50), FeatureNames(50)
    mine.add(found(*one))
    theirs.add(found(*other))
    both.add(found(*one))
    both.add(found(*other))
    mine.merge(theirs)
    assert mine.name_of(range(50)) == both.name_of(range(50))


def test_names_of_tables_of_different_size_do_not_merge():
    with pytest.raises(BadModel, match="8 and of 16 features"):
        FeatureNames(8).merge(FeatureNames(16))


def test_a_full_dictionary_stays_full_in_a_file():
    names = FeatureNames(100, limit=1)
    names.add(found((1, None, b"a"), (2, None, b"b")))
    again = FeatureNames.from_arrays(100, names.arrays())
    assert again.full
    assert again.name_of([1, 2]) == ["a", None]


def test_more_names_than_there_is_room_for_are_refused():
    names = FeatureNames(100)
    names.add(found(*((k, None, b"n") for k in range(5))))
    with pytest.raises(BadModel, match="do not fit the model"):
        FeatureNames.from_arrays(100, names.arrays(), limit=4)
    again = FeatureNames.from_arrays(100, names.arrays(), limit=5)
    again.add(found((7, None, b"m"), (8, None, b"m")))
    assert (len(again), again.full) == (5, True)


def test_no_name_is_added_beyond_the_limit_whatever_it_was_before():
    names = FeatureNames(100)
    names.add(found(*((k, None, b"n") for k in range(5))))
    names._limit = 4
    names.add(found((7, None, b"m")))
    assert (len(names), names.full) == (5, True)


@pytest.mark.parametrize(
    "damage",
    [
        {"indices": np.uint32([1, 1])},
        {"indices": np.uint32([1, 200])},
        {"indices": np.uint32([1])},
        {"ends": np.int64([0, 9, 2])},
        {"ends": np.int64([1, 1, 2])},
        {"text": np.uint8([97])},
        {"ends": None},
        {"full": np.uint8([])},
    ],
)
def test_damaged_arrays_are_refused(damage):
    names = FeatureNames(100)
    names.add(found((1, None, b"a"), (2, None, b"b")))
    arrays = {key: value for key, value in {**names.arrays(), **damage}.items() if value is not None}
    with pytest.raises(BadModel, match="the file is damaged"):
        FeatureNames.from_arrays(100, arrays)


def test_the_share_of_mass_that_is_named():
    names = FeatureNames(8)
    names.add(found((1, None, b"a"), (6, None, b"b")))
    mass = np.array([0, 3.0, 0, 0, 1.0, 0, 4.0, 0])
    assert names.named_fraction(mass) == 7 / 8
    assert names.named_fraction(mass[[4, 6]], np.array([4, 6])) == 4 / 5
    assert names.named_fraction(np.zeros(8)) == 1


def test_the_estimated_collision_rate_is_that_of_random_places():
    n_features, n_names = 1000, 700
    places = np.random.default_rng(3).integers(0, n_features, n_names)
    alone = np.bincount(places, minlength=n_features)[places] == 1
    assert collision_rate(len(np.unique(places)), n_features) == pytest.approx(1 - alone.mean(), abs=0.05)
    assert collision_rate(1, n_features) == 0
