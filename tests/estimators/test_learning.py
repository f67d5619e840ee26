"""What `fit` and `partial_fit` learn: orders, pieces, weights, classes, kinds of matrices; what they refuse."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from bayou import AdaGradClassifier, BadInput, BankClassifier, Batch, MarginalClassifier, SpikeSlabClassifier
from bayou.core.state import contents_of
from bayou.estimators import base
from bayou.learners import Bank, Classes
from tests.laws.cases import bits

ALL = pytest.mark.parametrize("make", [BankClassifier, MarginalClassifier, AdaGradClassifier])


def words(n_classes):
    """(X, y, classes): sparse rows, labels that are words."""
    rng = np.random.default_rng(n_classes)
    X = csr_array(rng.normal(size=(400, 30)) * (rng.random((400, 30)) < 0.2))
    scores = X @ rng.normal(size=(30, n_classes)) + rng.gumbel(size=(400, n_classes))
    classes = np.array(["ant", "bee", "cow"][:n_classes])
    return X, classes[scores.argmax(axis=1)], classes


@pytest.fixture(params=[2, 3], ids=["two classes", "three classes"])
def data(request):
    return words(request.param)


def assert_same_bits(one, other):
    """All but what depends on how many rows were at hand at a time, which only the bank has."""
    np.testing.assert_array_equal(one.classes_, other.classes_)
    assert [bits(learner, by_row=True) for learner in one.learners_] == [
        bits(learner, by_row=True) for learner in other.learners_
    ]


@ALL
def test_partial_fit_in_pieces_equals_partial_fit_at_once(make, data):
    X, y, classes = data
    whole = make().partial_fit(X, y, classes=classes)
    pieces = make()
    for start, stop in [(0, 1), (1, 8), (8, 250), (250, 400)]:
        pieces.partial_fit(X[start:stop], y[start:stop], classes=classes)
    assert_same_bits(pieces, whole)


@ALL
@pytest.mark.parametrize("passes", [1, 3])
def test_fit_equals_partial_fit_in_the_shuffled_order(make, data, passes, monkeypatch):
    X, y, classes = data
    order = check_random_state(5).permutation(len(y))
    by_hand = make()
    for _ in range(passes):
        by_hand.partial_fit(X[order], y[order], classes=classes)
    fitted = make(random_state=5, passes=passes).fit(X, y)
    if passes > 1 and make is BankClassifier:  # it counts repeated rows less, and these are new to partial_fit
        assert abs(fitted.coef_).max() < abs(by_hand.coef_).max()
    else:
        assert_same_bits(fitted, by_hand)
    # Neither do blocks matter, nor what was learned before.
    monkeypatch.setattr(base, "_BLOCK", 100)
    assert_same_bits(
        by_hand.set_params(random_state=5, passes=passes).fit(X, y),
        make(random_state=5, passes=passes).fit(X.toarray(), y),
    )


@ALL
def test_partial_fit_goes_on_after_fit(make, data):
    X, y, _ = data
    model = make(random_state=0).fit(X[:300], y[:300])
    before = model.coef_
    model.partial_fit(X[300:], y[300:])
    assert not np.array_equal(model.coef_, before)
    passes = 5 if make is AdaGradClassifier else 1
    assert [learner.examples for learner in model.learners_] == [300 * passes + 100] * len(model.learners_)


@ALL
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kind_of_matrix_gives_the_same_bits(make, data, dtype):
    X, y, _ = data
    X = X.astype(dtype)
    narrow, wide = csr_matrix(X), csr_array(X)
    narrow.indices, narrow.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    dense = make(random_state=0).fit(X.toarray(), y)
    assert wide.indices.dtype == np.int64 != narrow.indices.dtype
    for kind in (narrow, wide, coo_array(X), csc_matrix(X), np.asfortranarray(X.toarray())):
        other = make(random_state=0).fit(kind, y)
        assert_same_bits(other, dense)
        np.testing.assert_array_equal(other.predict_proba(kind), dense.predict_proba(X.toarray()))
        assert_same_bits(other.partial_fit(kind, y), make(random_state=0).fit(X, y).partial_fit(X, y))


@ALL
def test_whole_numbers_and_lists_are_taken(make):
    rows, y = [[1, 0], [0, 1], [1, 1], [0, 0]] * 5, [0, 1, 0, 1] * 5
    one = make(random_state=0).fit(rows, y)
    assert_same_bits(one, make(random_state=0).fit(np.array(rows, dtype=float), np.array(y)))
    np.testing.assert_array_equal(one.predict(csr_array(np.array(rows))), y)


@ALL
def test_data_are_not_written_to(make, data):
    X, y, _ = data
    copies = X.data.copy(), X.indices.copy(), X.indptr.copy()
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    make().fit(X, y).partial_fit(X, y).predict_proba(X)
    for array, copy in zip((X.data, X.indices, X.indptr), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@ALL
def test_two_classes_are_one_learner(make):
    X, y, classes = words(2)
    model = make().partial_fit(X, y, classes=classes)
    learner = type(model.learner_)(**model.learner_.parameters)
    learner.learn(Batch.from_csr(X, y == "bee"))
    np.testing.assert_array_equal(model.coef_, learner.mean[None])
    assert model.intercept_ == [learner.intercept[0]]
    assert model.coef_.shape == (1, 30)
    said = learner.predict(Batch.from_csr(X), "later").probability
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], said, rtol=1e-12)


@ALL
def test_three_classes_are_each_against_the_rest(make):
    X, y, classes = words(3)
    model = make().partial_fit(X, y, classes=classes)
    for number, word in enumerate(classes):
        learner = type(model.learners_[number])(**model.learners_[number].parameters)
        learner.learn(Batch.from_csr(X, y == word))
        np.testing.assert_array_equal(model.coef_[number], learner.mean)
        assert bits(learner, by_row=True)[1] == bits(model.learners_[number], by_row=True)[1]
    together = Classes(**model.learner_.parameters)
    together.learn(Batch.from_csr(X, np.searchsorted(classes, y)))
    said = together.predict(Batch.from_csr(X), "later").probability
    np.testing.assert_allclose(model.predict_proba(X), said, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), classes[said.argmax(axis=1)])
    assert model.coef_.shape == (3, 30)
    assert model.intercept_.shape == (3,)


@ALL
def test_class_weight_equals_sample_weight(make, data):
    X, y, classes = data
    weight_of = dict(zip(classes, [0.5, 3.0, 1.5], strict=False))
    own = np.random.default_rng(0).random(len(y))
    as_rows = own * np.array([weight_of[word] for word in y])
    by_class = make(random_state=0, class_weight=weight_of)
    by_row = make(random_state=0)
    assert_same_bits(by_class.fit(X, y, sample_weight=own), by_row.fit(X, y, sample_weight=as_rows))
    assert_same_bits(by_class.partial_fit(X, y, sample_weight=own), by_row.partial_fit(X, y, sample_weight=as_rows))


@ALL
def test_balanced_class_weight_equals_its_definition(make, data):
    X, y, classes = data
    weights = compute_class_weight("balanced", classes=classes, y=y)[np.searchsorted(classes, y)]
    balanced = make(random_state=0, class_weight="balanced").fit(X, y)
    assert_same_bits(balanced, make(random_state=0).fit(X, y, sample_weight=weights))
    assert not np.array_equal(balanced.coef_, make(random_state=0).fit(X, y).coef_)


@ALL
def test_balanced_is_refused_by_partial_fit(make, data):
    X, y, classes = data
    with pytest.raises(ValueError, match="so partial_fit cannot use it; give a dictionary"):
        make(class_weight="balanced").partial_fit(X, y, classes=classes)


@ALL
def test_a_row_of_weight_0_is_as_good_as_absent(make, data):
    X, y, classes = data
    weights = np.random.default_rng(0).integers(3, size=len(y)).astype(float)
    kept = np.flatnonzero(weights)
    assert 0 < len(kept) < len(y)
    with_zeros = make().partial_fit(X, y, classes=classes, sample_weight=weights)
    without = make().partial_fit(X[kept], y[kept], classes=classes, sample_weight=weights[kept])
    assert_same_bits(with_zeros, without)


@ALL
def test_all_zero_weights_teach_partial_fit_nothing_and_fit_refuses_them(make, data):
    X, y, classes = data
    model = make().partial_fit(X, y, classes=classes)
    before = model.coef_
    model.partial_fit(X, y, sample_weight=np.zeros(len(y)))
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="all sample weights are zero"):
        model.fit(X, y, sample_weight=np.zeros(len(y)))


@ALL
def test_one_weight_for_all_rows_is_taken(make, data):
    X, y, classes = data
    assert_same_bits(
        make().partial_fit(X, y, classes=classes, sample_weight=2.0),
        make().partial_fit(X, y, classes=classes, sample_weight=[2] * len(y)),
    )


@ALL
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ([1.0, -1.0, 1.0], "row 1: the weight is -1"),
        ([1.0, 1.0, np.nan], "row 2: the weight is nan"),
        ([np.inf, 1.0, 1.0], "row 0: the weight is inf"),
        ([1.0, 1.0], r"shape \(2,\), but there are 3 rows"),
        ([[1.0], [1.0], [1.0]], r"shape \(3, 1\)"),
        (Batch.from_rows([{}]), "must be one number per row"),
    ],
    ids=str,
)
def test_bad_weights_are_refused_and_nothing_is_learned(make, method, weights, complaint):
    X, y = np.eye(3), [0, 1, 1]
    model = make(random_state=0).fit(X, y)
    before = model.coef_
    with pytest.raises(BadInput, match=complaint):
        getattr(model, method)(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.coef_, before)


@ALL
def test_negative_class_weight_is_refused(make):
    with pytest.raises(BadInput, match="row 0: the weight is -2"):
        make(class_weight={0: -2, 1: 1}).fit(np.eye(2), [0, 1])


@ALL
def test_unknown_class_weight_is_refused(make):
    with pytest.raises(BadInput, match="class_weight is 'even'"):
        make(class_weight="even").fit(np.eye(2), [0, 1])


@ALL
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_values_are_refused_and_nothing_is_learned(make, data, bad):
    X, y, classes = data
    model = make().partial_fit(X, y, classes=classes)
    before = model.coef_
    for kind in (X.toarray(), X.copy()):
        if isinstance(kind, np.ndarray):
            kind[7, 3] = bad
        else:
            kind.data[7] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.partial_fit(kind, y)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.predict(kind)
    np.testing.assert_array_equal(model.coef_, before)


@ALL
def test_fit_names_the_row_of_a_value_that_is_too_large(make):
    X = np.ones((50, 2))
    X[31, 1] = 1e30
    for seed in range(3):
        with pytest.raises(BadInput, match="row 31, feature 1"):
            make(random_state=seed).fit(X, [0, 1] * 25)


@ALL
def test_a_label_of_another_kind_is_refused_and_nothing_is_learned(make, data):
    X, y, classes = data
    model = make().partial_fit(X, y, classes=classes)
    before = model.coef_
    for wrong in (3, None, np.nan):
        labels = y.astype(object)
        labels[6] = wrong
        with pytest.raises(ValueError, match=r"classes|NaN"):
            model.partial_fit(X, labels)
    np.testing.assert_array_equal(model.coef_, before)
    np.testing.assert_array_equal(model.classes_, classes)


@pytest.mark.parametrize("model", [MarginalClassifier(prior_mean=1.0), SpikeSlabClassifier()])
def test_a_third_class_is_refused_where_there_is_no_mirror_image_of_two(model):
    X, y, classes = words(2)
    model.partial_fit(X, y, classes=classes)
    before = model.coef_
    with pytest.raises(BadInput, match="row 2: the label 'yak' is not one of the classes"):
        model.partial_fit(X[:3], np.array([y[0], y[1], "yak"]))
    np.testing.assert_array_equal(model.coef_, before)


@ALL
@pytest.mark.parametrize("known", [2, 3])
def test_a_class_may_join_later(make, known):
    X, y, classes = words(3)
    first = np.isin(y, classes[:known]) & (np.arange(len(y)) < 200)
    model = make().partial_fit(X[first], y[first], classes=classes[:known])
    earlier = model.coef_
    labels = np.where(np.arange(200) % 4, y[200:], "aardvark")
    model.partial_fit(X[200:], labels)
    joined = ["aardvark", *classes.tolist()]
    assert model.classes_.tolist() == joined
    p = model.predict_proba(X)
    assert p.shape == (400, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.coef_.shape == (4, 30)
    assert earlier.shape == ((1, 30) if known == 2 else (3, 30))
    assert model.learners_[0].examples < model.learner_.examples
    assert model.score(X[200:], labels) > 0.5


def test_many_columns_are_numbered_and_shown_as_they_were():
    X, y, _ = words(3)
    wide = csr_array((X.data, 7000 * X.indices.astype(np.int64), X.indptr), shape=(400, 210_000))
    model, narrow = BankClassifier(random_state=0).fit(wide, y), BankClassifier(random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 210_000)
    np.testing.assert_allclose(model.coef_[:, ::7000], narrow.coef_, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(wide), narrow.predict_proba(X), atol=1e-3)


@ALL
def test_a_third_class_finds_what_was_learned_of_two(make):
    X, y, classes = words(2)
    model = make().partial_fit(X, y, classes=classes)
    two = model.predict_proba(X)
    model.partial_fit(X[:1], ["cow"])
    of_two = model.predict_proba(X)[:, :2]
    assert np.abs(of_two / of_two.sum(axis=1, keepdims=True) - two).mean() < 0.1
    np.testing.assert_allclose(model.coef_[0], -model.coef_[1], atol=0.2 * np.abs(model.coef_[1]).max())


@ALL
def test_classes_are_named_once_and_stay(make, data):
    X, y, classes = data
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        make().partial_fit(X, y)
    model = make().partial_fit(X, y, classes=classes[::-1])
    np.testing.assert_array_equal(model.classes_, classes)
    model.partial_fit(X, y, classes=list(classes)).partial_fit(X, y)
    with pytest.raises(ValueError, match="does not contain all classes learned so far"):
        model.partial_fit(X, y, classes=[*classes[1:], "yak"])


@ALL
def test_a_class_that_never_came_is_improbable(make):
    X = np.ones((60, 1))
    model = make().partial_fit(X, ["a", "b"] * 30, classes=["a", "b", "z"])
    assert model.predict_proba(X[:1])[0].argmin() == 2


@ALL
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_one_class_is_refused(make, method):
    more = {} if method == "fit" else {"classes": ["a"]}
    with pytest.raises(BadInput, match="only one class, 'a'"):
        getattr(make(), method)(np.eye(3), ["a"] * 3, **more)


@ALL
@pytest.mark.parametrize("passes", [0, 1.5, "two"])
def test_passes_must_be_a_whole_number(make, passes):
    with pytest.raises(BadInput, match="passes is"):
        make(passes=passes).fit(np.eye(2), [0, 1])


def test_learners_own_parameters_are_checked_by_the_learner():
    with pytest.raises(BadInput, match="link is 'cauchit'"):
        MarginalClassifier(link="cauchit").fit(np.eye(2), [0, 1])
    with pytest.raises(BadInput, match="learning_rate"):
        AdaGradClassifier(learning_rate=-1).fit(np.eye(2), [0, 1])


@ALL
def test_without_an_intercept_it_is_0(make, data):
    X, y, _ = data
    model = make(fit_intercept=False, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.intercept_, np.zeros(len(model.learners_)))
    nothing = np.log(1 / (len(model.classes_) - 1))  # the log-odds of classes that are all alike
    np.testing.assert_allclose(model.decision_function(np.zeros((2, 30))), nothing, atol=1e-14)
    assert make(random_state=0).fit(X, y).intercept_.all()


def test_parameters_reach_the_learner():
    asked = {
        "link": "probit",
        "mean_update": "newton",
        "variance_update": "peak",
        "prior_mean": 0.25,
        "prior_variance": 2.0,
        "memory": 0.125,
        "predictive": "quadrature",
        "intercept_variance": 7.0,
        "dtype": "float64",
    }
    model = MarginalClassifier(temper=(0.5, 0.75), **asked).fit(np.eye(2), [0, 1])
    got = model.learner_.parameters
    assert {name: got[name] for name in asked} == asked
    assert list(got["temper"]) == [0.5, 0.75]
    got = AdaGradClassifier(learning_rate=0.125, l2=0.5).fit(np.eye(2), [0, 1]).learner_.parameters
    assert (got["learning_rate"], got["l2"], got["dtype"]) == (0.125, 0.5, "float32")


def test_a_refused_fit_leaves_the_old_model_as_it_was():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = MarginalClassifier(random_state=0).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[:, :5], np.zeros(len(y)))
    np.testing.assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(ValueError, match="5 features"):
        model.predict_proba(X[:, :5])


@pytest.mark.parametrize(
    "spoiled",
    [
        {"sample_weight": 1e308}, {"sample_weight": 10**400}, {"classes": []}, {"classes": [0, "a", None]},
        {"X": np.full((4, 2), 1e300)},
    ],
)  # fmt: skip
def test_a_refused_partial_fit_leaves_everything_as_it_was(spoiled):
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), [0, 1, 0, 1]
    classifier = SpikeSlabClassifier().fit(X, y)
    learner = classifier.learner_
    header, before = contents_of(learner)[0], {k: a.tobytes() for k, a in learner._arrays().items()}
    with pytest.raises(BadInput):
        classifier.partial_fit(**{"X": X, "y": y} | spoiled)
    assert contents_of(learner)[0] == header
    assert {k: a.tobytes() for k, a in learner._arrays().items()} == before


@pytest.mark.parametrize("classes", [csr_array((3, 1 << 30)), np.zeros((2, 2)), 3, {1, 2}], ids=str)
def test_classes_are_a_list_of_labels(classes):
    with pytest.raises(BadInput, match="it must be a list of all labels"):
        MarginalClassifier().partial_fit([[1.0], [0.0]], [0, 1], classes=classes)


def test_a_frozen_bank_is_not_fooled_by_the_order_of_labels():
    """Labels 1, 0, 1, 0: who follows them closely predicts the next row, and no later ones."""
    rng = np.random.default_rng(0)
    X, y = (rng.random((6000, 5)) < 0.5).astype(float), np.arange(6000) % 2
    model = BankClassifier().partial_fit(X[:2000], y[:2000], classes=[0, 1])
    model.partial_fit(X[2000:4000], y[2000:4000])
    losses = {}
    for horizon in ("later", "next"):
        p = model.set_params(horizon=horizon).predict_proba(X[4000:])[:, 1]
        losses[horizon] = -np.log(np.where(y[4000:] == 1, p, 1.0 - p)).mean()
    assert losses["later"] < 0.695 < 0.7 < losses["next"]  # a coin costs 0.693


def test_fit_hands_over_many_rows_at_a_time_however_wide_they_are(monkeypatch):
    """So that the bank can look ahead; and then `partial_fit` goes on with that."""
    monkeypatch.setattr(base, "_BLOCK", 1)
    X, y = np.eye(4)[np.arange(9000) % 4], np.arange(9000) % 3 == 0
    sizes = []
    monkeypatch.setattr(Bank, "learn", lambda learner, batch: sizes.append(len(batch)))
    BankClassifier().fit(X, y)
    assert set(sizes[:-1]) == {1024}
    sizes.clear()
    BankClassifier().fit(X[:800], y[:800])
    assert set(sizes) == {100}
    monkeypatch.undo()
    model = BankClassifier(passes=2, random_state=0).fit(X, y)
    known = model.learner_.later_loss()
    assert model.learner_.supports_later
    assert 4000 < known.rows < 6000  # the last half of one pass
    assert model.partial_fit(X, y).learner_.later_loss().rows > known.rows
