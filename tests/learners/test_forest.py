"""The forest: its kernels against the reference, bits that depend on rows alone, files, hostile rows, its use."""

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayou
from bayou import BadInput, BadModel, Batch, NoPosterior
from bayou.learners import Bank, Classes, Forest, Gaussian, Marginal, NumberBank
from bayou.learners.forest import Cuts, ring, schedule, stacking, tree
from tests.laws.cases import bits
from tests.reference import forest as reference
from tests.reference.forest_combination import ForestReference, mark

seeds = st.integers(0, 2**32 - 1)


# ----------------------------------------------------------------------------------------------------
# Codes
# ----------------------------------------------------------------------------------------------------


def nasty_columns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Columns of few values, of many, with heavy values, with missing and infinite ones, and of one value only."""
    x = rng.normal(size=n)
    heavy = np.where(rng.random(n) < 0.9, 0.0, x)
    holes = np.where(rng.random(n) < 0.3, rng.choice([np.nan, np.inf, -np.inf], n), x)
    sizes = np.sign(x) * 10.0 ** rng.uniform(-300, 300, n)
    few = rng.integers(0, rng.integers(1, 90), n)
    neighbors = np.where(x > 0, 1.0, np.nextafter(1.0, 2.0))
    return np.column_stack([x, heavy, holes, sizes, few, neighbors, np.full(n, 3.0), np.full(n, np.nan)])


@given(seed=seeds, n=st.integers(1, 400))
def test_cuts_and_codes_are_those_of_the_reference(seed, n):
    rng = np.random.default_rng(seed)
    first, rows = nasty_columns(rng, n), nasty_columns(rng, 50)
    cuts = Cuts(first)
    codes = cuts.codes(rows)
    for column in range(rows.shape[1]):
        expected = reference.cuts_of(first[:, column])
        np.testing.assert_array_equal(cuts[column], expected)
        np.testing.assert_array_equal(codes[:, column], reference.codes_of(rows[:, column], expected))


def test_codes_of_other_columns_or_too_many_are_refused():
    with pytest.raises(BadInput, match="3 columns; the cuts are of 2"):
        Cuts([[1.0, 2.0]]).codes([[1.0, 2.0, 3.0]])
    with pytest.raises(BadInput, match="at most 256 columns"):
        Cuts(np.zeros((2, 257)))


# ----------------------------------------------------------------------------------------------------
# A tree
# ----------------------------------------------------------------------------------------------------


def grown(codes, g, h, columns, depth, prior, min_side, need) -> reference.Structure:
    """A tree by the kernel, as the reference returns one; also checks the kernel's leaves."""
    m, d = codes.shape
    scratch = tree.Growth.of(m, depth, d)
    scratch.g[:], scratch.h[:] = g, h
    nodes, leaves, gains = np.zeros(2**depth, np.uint16), np.zeros(m, np.uint8), np.zeros(d)
    rule = tree.SplitRule(depth, float(prior), float(min_side), float(need))
    tree.grow(np.ascontiguousarray(codes.T), m, np.sort(columns), rule, scratch, nodes, leaves, gains)
    structure = reference.Structure((nodes[:-1] & 255).astype(int), (nodes[:-1] >> 8).astype(int), gains)
    np.testing.assert_array_equal(leaves, structure.leaves(codes))
    found = np.zeros((1, m), np.uint8)
    tree.find_leaves(np.ascontiguousarray(codes), 0, m, nodes[None], 1, depth, found)
    np.testing.assert_array_equal(found[0], leaves)
    return structure


@settings(max_examples=200)
@given(seed=seeds, m=st.integers(1, 600), depth=st.integers(1, 8))
def test_a_tree_of_residuals_that_pack_exactly_is_that_of_the_reference(seed, m, depth):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    codes = rng.integers(0, rng.integers(1, 66), (m, d)).astype(np.uint8)
    g, h = rng.integers(-5, 6, m).astype(float), rng.choice([1.0, 2.0, 0.5], m)
    rule = float(rng.integers(0, 3)), float(rng.integers(1, 12)), float(rng.choice([0.0, 1.0]))
    columns = np.sort(rng.permutation(d)[: max(1, d - 1)])
    kernel, exact = (grow(codes, g, h, columns, depth, *rule) for grow in (grown, reference.grow))
    np.testing.assert_array_equal(kernel.columns, exact.columns)
    np.testing.assert_array_equal(kernel.cells, exact.cells)
    np.testing.assert_allclose(kernel.gains, exact.gains, rtol=1e-9, atol=1e-9)


@settings(max_examples=50)
@given(seed=seeds, m=st.integers(1, 500))
def test_a_tree_of_any_residuals_and_weights_gains_what_the_reference_gains(seed, m):
    """Sums are packed with 22 bits for the largest row and for all curvatures: no split loses more than that."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 65, (m, 3)).astype(np.uint8)
    c = 10.0 ** rng.uniform(-2, 2, m)
    size = 10.0 ** rng.uniform(-100, 60)
    g, h = size * c * rng.normal(size=m), c * rng.uniform(0.01, 0.25, m)
    prior = 0.1 * np.sum(h)
    rule = prior, 0.02 * np.sum(h), 0.0
    kernel = grown(codes, g, h, np.arange(3), 1, *rule)
    exact = reference.grow(codes, g, h, np.arange(3), 1, *rule)
    own = np.sum(g) ** 2 / (np.sum(h) + prior)
    side = exact.leaves(codes) if exact.cells[0] < 255 else None
    if side is not None:
        H = np.bincount(side, h, 2)
        if np.min(H) < 1.001 * rule[1]:  # a side that is as small as may be: packed, it may be smaller
            return
    assert np.sum(kernel.gains) >= np.sum(exact.gains) * (1.0 - 1e-3) - 1e-4 * own


def test_no_row_is_too_large_or_too_small_to_pack():
    codes = np.array([[1], [2]], np.uint8)
    for size in (1e-320, 1e-200, 1.0, 1e75, 1e140):
        structure = grown(codes, np.array([size, -size]), np.full(2, 1.0), np.arange(1), 2, 1.0, 1.0, 0.0)
        assert structure.cells[0] == (1 if size > 1e-160 else 255)  # below, its square is 0
    assert grown(codes, np.zeros(2), np.full(2, 1e-300), np.arange(1), 2, 0.0, 0.0, 0.0).cells.tolist() == [255] * 3


# ----------------------------------------------------------------------------------------------------
# The rolling forest
# ----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_the_kernels_trees(monkeypatch):
    """The reference with trees grown by the kernel: all else must then agree to rounding, refit after refit."""
    monkeypatch.setattr(reference, "grow", grown)


def small_settings(is_logistic: bool, seed: int = 3) -> tuple[ring.Settings, ring.Settings]:
    deep = ring.Settings(6, 5, 0.3, 0.5, 0.3, is_logistic, is_logistic, seed, 0)
    return deep, ring.Settings(4, 2, 0.2, 0.3, 0.0, False, is_logistic, seed, 1)


def as_reference(chosen: ring.Settings) -> reference.Settings:
    return reference.Settings(*chosen[:6])


def crossed(n: int, is_logistic: bool, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, codes, and labels that hold the product of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 2.0 * X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n)
    labels = (rng.random(n) < 1.0 / (1.0 + np.exp(-y))).astype(float) if is_logistic else y
    return X, Cuts(X).codes(X), labels


def task_of(is_logistic: bool) -> Any:
    return reference.TwoClasses() if is_logistic else reference.Numbers()


@pytest.mark.usefixtures("with_the_kernels_trees")
@pytest.mark.parametrize("is_logistic", [False, True])
@pytest.mark.parametrize("d", [4, 30])
def test_a_rolling_forest_is_that_of_the_reference(is_logistic, d):
    """Over several turns of a ring of 256 rows, with weights, and with columns drawn where there are 30."""
    _, codes, y = crossed(700, is_logistic, d)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 1.0, 7.0], len(y))
    chosen = small_settings(is_logistic)
    forests = ring.RollingForests(d, *chosen, ring_rows=256)
    outputs = forests.learn(codes, y, weights)
    for k, (own, forest) in enumerate(zip(chosen, forests.forests, strict=True)):
        expected = reference.RollingForest(task_of(is_logistic), as_reference(own), d, own.seed, k, 256)
        z = [expected.learn(*row)[0] for row in zip(codes, y, weights, strict=True)]
        close = {"rtol": 1e-9, "atol": 1e-9}
        np.testing.assert_allclose(outputs[:, k], z, **close)
        np.testing.assert_array_equal(forest.nodes[:, :-1] & 255, expected.columns)
        np.testing.assert_array_equal(forest.nodes[:, :-1] >> 8, expected.cells)
        np.testing.assert_allclose(forest.leaves[..., ring.FITTED], expected.L[..., 0], **close)
        np.testing.assert_allclose(forest.leaves[..., ring.LEARNED], expected.L2[..., 0], **close)
        np.testing.assert_allclose(forest.leaves[..., ring.MASS], expected.W[..., 0], **close)
        np.testing.assert_allclose(forest.fitted, expected.f[:, 0], **close)
        np.testing.assert_allclose(forest.gains, expected.gains, **close)
        assert forest.sums[ring.N_REFITS] == expected.n_refits > 3 * own.n_trees
        np.testing.assert_array_equal(forests.predict(codes[:300])[:, k], ring.Trees.of(forest).outputs(codes[:300]))
        np.testing.assert_allclose(ring.Trees.of(forest).outputs(codes), expected.outputs(codes)[:, 0], **close)


@pytest.mark.parametrize("n_trees", [50, 100])
def test_refits_are_due_at_the_rows_of_the_reference(n_trees):
    rows = [ring.refit_row(refit, n_trees, ring.RING_ROWS) for refit in range(1500)]
    assert rows == [reference.refit_row(refit, n_trees) for refit in range(1500)]
    assert ring.refits_due(4096, n_trees, ring.RING_ROWS) == 12 * n_trees + 1
    assert ring.refits_due(131_072, n_trees, ring.RING_ROWS) == (12 + 4) * n_trees + n_trees // 2 + 1


def test_the_usual_settings_are_those_of_the_reference():
    for is_logistic, deep in ((False, reference.DEEP_NUMBERS), (True, reference.DEEP_CLASSES)):
        assert as_reference(ring.deep_settings(is_logistic, 0)) == deep
        assert as_reference(ring.flat_settings(is_logistic, 0)) == reference.FLAT


# ----------------------------------------------------------------------------------------------------
# Above a base
# ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("with_the_kernels_trees")
@pytest.mark.parametrize("is_logistic", [False, True])
@pytest.mark.parametrize("pays", [True, False])
def test_forests_above_a_base_are_those_of_the_reference(is_logistic, pays):
    """Live and later answers, evidence, marks; forests are dropped and return where there is nothing to find."""
    n = 1500 if pays else 30_000
    X, codes, y = crossed(n, is_logistic)
    rng = np.random.default_rng(2)
    if not pays:
        y = X[:, 2] + 0.3 * rng.normal(size=n)
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-y))).astype(float) if is_logistic else y
    scale = 1.0 if is_logistic else 5.0
    base = scale * (X[:, 2] + 0.01 * rng.normal(size=n))
    ahead = base + 0.02 * rng.normal(size=n)
    weights = rng.choice([0.0, 0.3, 1.0, 1.0, 7.0] if pays else [0.0, 1.0, 1.0, 1.0], n)
    if not is_logistic:
        y, base, ahead = scale * y + 100.0, base + 100.0, ahead + 100.0
    few = small_settings(is_logistic)
    chosen = few if pays else (few[0]._replace(n_trees=2, depth=2), few[1]._replace(n_trees=2, depth=1))
    forests = schedule.ScheduledForests(4, is_logistic, ring_rows=256, settings=chosen)
    expected = ForestReference(task_of(is_logistic), 4, 3, 256, [as_reference(own) for own in chosen])
    parts = [slice(0, 1), slice(1, 40), slice(40, 1000), slice(1000, n)]
    answers = np.concatenate([forests.learn(*(a[s] for a in (codes, y, base, ahead, weights))).mean for s in parts])
    alone = np.where(np.isnan(answers), task_of(is_logistic).expected(base), answers)
    np.testing.assert_allclose(alone, expected.learn(codes, y, base, ahead, weights)[:, 0], rtol=1e-9, atol=1e-9)
    assert bool(expected.starts) is not pays
    assert forests.is_running is (expected.combination is not None)
    if forests.is_running:
        assert forests.share == pytest.approx(expected.combination.share(), rel=1e-9)
        assert forests.combination.n_rows == expected.combination.n_rows
        np.testing.assert_allclose(forests.combination.shares, expected.combination.shares.shares, rtol=1e-9)
        later = forests.predict_later(codes[:99], base[:99])
        np.testing.assert_allclose(later.mean, expected.later(codes[:99], base[:99])[:, 0], rtol=1e-9, atol=1e-9)


def test_evidence_is_thinned_as_in_the_reference(monkeypatch):
    monkeypatch.setattr("tests.reference.forest_combination.MAX_EVIDENCE_ROWS", stacking.MAX_EVIDENCE_ROWS)
    evidence = ForestReference(task_of(False), 1).new().evidence
    state, columns = stacking.Combination.new(), np.ones(3)
    for row in range(100, 170_000):
        stride = int(state.sums[stacking.EVERY]) * (8 if row >= 4096 else 1)
        assert evidence.wants(row) is (row % stride == 0)
        if row % stride == 0:
            evidence.add(row, np.ones(1), 1.0, columns, np.ones(1), np.ones(1))
            stacking.add_evidence(False, row, 1.0, 1.0, columns, state)
    kept = state.evidence[: int(state.sums[stacking.N_EVIDENCE])]
    assert state.sums[stacking.EVERY] == 2.0
    np.testing.assert_array_equal(kept[:, stacking.ROW], evidence.column(0))
    np.testing.assert_array_equal(kept[:, stacking.COUNT], evidence.column(3))
    assert not state.evidence[len(kept) :].any()


def test_marks_are_those_of_the_reference():
    assert [stacking.mark(k) for k in range(60)] == [mark(k) for k in range(60)]
    assert [stacking.marks_before(n) for n in (0, 99, 100, 133, 177, 178)] == [0, 0, 1, 2, 2, 3]


# ----------------------------------------------------------------------------------------------------
# The learner
# ----------------------------------------------------------------------------------------------------

BASES = {"marginal": True, "bank": True, "gaussian": False, "number-bank": False}  # and whether of two classes
every_base = pytest.mark.parametrize("base", BASES)


def table(n: int, base: str, seed: int = 0, weighted: bool = True) -> Batch:
    X, codes, y = crossed(n, BASES[base], seed=seed)
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 1.0, 3.0], n) if weighted else None
    return Batch.from_csr(X, y, weights).with_codes(codes)


@every_base
@settings(max_examples=3)
@given(seed=seeds)
def test_a_batch_equals_a_loop_to_the_bit(base, seed):
    rng = np.random.default_rng(seed)
    rows = table(400, base, seed)
    whole, parts = Forest(4, base=base), Forest(4, base=base)
    expected = whole.observe(rows)
    cuts = np.unique(np.concatenate([[0, 400], rng.integers(0, 400, 100)]))
    told = [parts.observe(rows[start:stop]) for start, stop in itertools.pairwise(cuts)]
    assert np.concatenate([one.expected for one in told]).tobytes() == expected.expected.tobytes()
    assert np.concatenate([one.mean for one in told]).tobytes() == expected.mean.tobytes()
    if not BASES[base]:
        assert np.concatenate([one.noise for one in told]).tobytes() == expected.noise.tobytes()
    assert bits(parts, by_row=True) == bits(whole, by_row=True)
    assert whole.shares["base"] < 0.9


@every_base
@pytest.mark.parametrize("rows", [10, 63, 64, 99, 100, 500, 1500])
def test_a_resumed_forest_continues_bit_for_bit(base, rows, tmp_path):
    learner = Forest(4, base=base)
    learner.learn(table(rows, base, weighted=False))
    learner.save(tmp_path / "m.bayou")
    again = bayou.load(tmp_path / "m.bayou")
    more = table(1200, base, seed=1)
    assert again.predict(more).expected.tobytes() == learner.predict(more).expected.tobytes()
    assert again.learn(more).tobytes() == learner.learn(more).tobytes()
    assert again.to_bytes() == learner.to_bytes()
    assert [p.predict(more, "later").expected.tobytes() for p in (again, learner, learner.snapshot())].count(
        learner.predict(more, "later").expected.tobytes()
    ) == 3


@every_base
def test_learn_returns_what_predict_would_have_returned(base):
    learner = Forest(4, base=base)
    rows = table(400, base)
    for start in range(0, 400, 40):
        snapshot = learner.snapshot()
        predicted, told = learner.predict(rows[start : start + 1]), learner.observe(rows[start : start + 40])
        assert predicted.expected[0] == told.expected[0]
        assert predicted.mean[0] == told.mean[0]
        assert snapshot.predict(rows[start : start + 1]).expected[0] == told.expected[0]


def test_a_row_of_weight_0_changes_nothing():
    rows = table(600, "gaussian")
    learner, without = Forest(4, base="gaussian"), Forest(4, base="gaussian")
    learner.learn(rows)
    without.learn(rows.take(rows.weights > 0))
    assert bits(learner) == bits(without)


@every_base
def test_the_base_learns_as_it_would_alone(base):
    rows = table(600, base)
    learner, alone = Forest(4, base=base), bayou.registry.find(base).load()(n_features=4)
    learner.learn(rows)
    alone.learn(rows)
    np.testing.assert_array_equal(learner.mean, learner.base_learner.mean)
    next_alone, next_base = alone.predict(rows), learner.base_learner.predict(rows)
    np.testing.assert_array_equal(next_base.expected, next_alone.expected)


@pytest.mark.parametrize("base", [Bank(n_features=40, head=6), NumberBank(n_features=40, head=3), Marginal(40)])
def test_a_frozen_base_is_a_copy_to_the_bit(base):
    """Only rows that have changed are copied at a mark; a snapshot at the same row has the same state."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(700, 40)) * (rng.random((700, 40)) < 0.1)
    y = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=700)
    labels = y if isinstance(base, NumberBank) else (y > 0).astype(float)
    rows = Batch.from_csr(X, labels).with_codes(Cuts(X).codes(X))
    learner, n_learned = Forest(base=base), 0
    for k in range(7):
        learner.learn(rows[n_learned : mark(k)])
        n_learned = mark(k)
        expected, frozen = learner._base._arrays(), learner._copy._arrays()
        assert all(frozen[name].tobytes() == array.tobytes() for name, array in expected.items())
        assert learner._copy.examples == learner.examples == n_learned
        predicted = learner._copy.predict(rows[-50:], "later").expected
        assert predicted.tobytes() == learner._base.predict(rows[-50:], "later").expected.tobytes()


def test_rows_without_codes_are_the_bases_alone():
    rows = table(600, "number-bank")
    learner, alone = Forest(base=NumberBank(n_features=4)), NumberBank(n_features=4)
    plain = rows.with_codes(None)
    assert learner.learn(plain).tobytes() == alone.learn(plain).tobytes()
    assert learner.predict(rows).expected.tobytes() == alone.predict(rows).expected.tobytes()
    learner.learn(rows)
    assert learner.shares["base"] < 0.5
    assert learner.predict(plain).expected.tobytes() == learner.base_learner.predict(plain).expected.tobytes()


def test_a_second_pass_teaches_the_base_alone():
    rows = table(600, "gaussian")
    learner = Forest(4, base="gaussian")
    learner.learn(rows)
    before = bits(learner)[1]
    learner.end_pass()
    learner.learn(rows)
    after = bits(learner)[1]
    assert all(before[name] == after[name] for name in before if name.startswith(("forest:", "copy:")))
    assert before["base:state"] != after["base:state"]
    learner.new_stream()
    learner.learn(rows)
    assert bits(learner)[1]["forest:progress"] != after["forest:progress"]


@pytest.mark.parametrize("base", ["bank", "number-bank"])
def test_it_learns_a_product_that_no_base_can(base):
    """Rows predicted before they were learned, and rows predicted by a model that has stopped."""
    rows = table(6000, base, weighted=False)
    learner, alone = Forest(4, base=base), bayou.registry.find(base).load()(n_features=4)

    def loss(expected, labels):
        if not BASES[base]:
            return np.mean((expected - labels) ** 2)
        return -np.mean(np.log(np.where(labels > 0, expected, 1.0 - expected)))

    train, test = rows[:4500], rows[4500:]
    live, of_base = (loss(one.learn(train)[2000:], train.labels[2000:]) for one in (learner, alone))
    assert live < (0.85 if BASES[base] else 0.35) * of_base
    later, of_base = (loss(one.predict(test, "later").expected, test.labels) for one in (learner, alone))
    assert later < (0.85 if BASES[base] else 0.3) * of_base
    assert learner.shares["later"] > 0.99
    if not BASES[base]:
        assert np.mean(learner.predict(test, "later").noise) == pytest.approx(later, rel=0.3)


def hostile_tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Codes, labels and weights of 700 rows."""
    rng = np.random.default_rng(0)
    codes, y = rng.integers(0, 65, (700, 3)).astype(np.uint8), rng.normal(size=700)
    wide = rng.integers(0, 65, (700, 256)).astype(np.uint8)
    return {
        "one value": (np.ones_like(codes), y, None),
        "all missing": (np.zeros_like(codes), y, None),
        "256 columns": (wide, np.where(wide[:, 255] > 30, 1.0, -1.0) + 0.1 * y, None),
        "labels of one kind": (codes, np.ones(700), None),
        "labels of one kind, then others": (codes, np.where(np.arange(700) < 300, 1.0, y), None),
        "labels of any size": (codes, np.sign(y) * 10.0 ** rng.uniform(-70, 74, 700), None),
        "a label out of the blue": (codes, np.where(np.arange(700) == 200, 9e74, y), None),
        "weights of any size": (codes, y, 10.0 ** rng.uniform(-300, 60, 700)),
        "tiny weights": (codes, y, np.full(700, 1e-300)),
    }


@pytest.mark.parametrize("base", ["gaussian", "number-bank", "marginal", "bank"])
@pytest.mark.parametrize("kind", hostile_tables())
def test_nothing_becomes_non_finite_on_hostile_tables(base, kind):
    codes, y, weights = hostile_tables()[kind]
    labels = np.sign(y) if BASES[base] else y
    rows = Batch.from_csr(np.ones((700, 1)), labels, weights).with_codes(codes)
    learner = Forest(1, base=base, dtype="float64")
    live = learner.learn(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the base: too few rows for the later horizon
        later = learner.predict(rows, "later")
    for answers in (live, later.expected, later.mean):
        assert np.isfinite(answers).all()
    assert all(np.isfinite(array).all() for array in learner._arrays().values())
    assert learner.snapshot().predict(rows).expected.tobytes() == learner.predict(rows).expected.tobytes()


# what is refused, in a sentence


def test_codes_are_checked_before_anything_is_learned():
    learner, rows = Forest(4, base="gaussian"), table(200, "gaussian")
    learner.learn(rows)
    before = bits(learner)
    other = rows.with_codes(rows.codes[:, :3])
    for refused in (learner.learn, learner.predict, lambda b: learner.predict(b, "later")):
        with pytest.raises(BadInput, match="codes of 3 columns; the forest has 4"):
            refused(other)
    with pytest.raises(BadInput, match="label is nan"):
        learner.learn(rows.with_labels(np.full(200, math.nan)))
    assert bits(learner) == before


@pytest.mark.parametrize("base", ["classes", "forest", Classes(n_features=3)])
def test_a_base_of_several_classes_is_refused(base):
    with pytest.raises(BadInput, match="two classes or of numbers"):
        Forest(base=base) if isinstance(base, Classes) else Forest(3, base=base)


def test_a_base_is_taken_with_its_parameters_or_refused():
    learner = Forest(base=Gaussian(n_features=7, noise_variance=4.0, dtype="float64"))
    assert learner.parameters == Forest(7, base="gaussian", dtype="float64", noise_variance=4.0).parameters | {
        name: value for name, value in Gaussian(n_features=7, noise_variance=4.0).parameters.items() if name not in
        ("dtype", "noise_variance")
    }  # fmt: skip
    learned = Bank(n_features=4)
    learned.learn(table(10, "bank"))
    with pytest.raises(BadInput, match="must not have learned"):
        Forest(base=learned)
    with pytest.raises(BadInput, match="no other parameters"):
        Forest(4, base=Bank(n_features=4))


def test_what_needs_a_posterior_is_refused():
    learner = Forest(4, base="bank")
    with pytest.raises(NoPosterior):
        learner.predict(table(3, "bank")).variance  # noqa: B018
    with pytest.raises(NoPosterior):
        learner.sample(table(3, "bank"), 2)


DAMAGE: dict[str, Any] = {
    "a column it does not have": (lambda a: a["forest:deep nodes"].__setitem__((0, 0), 4), "columns that it does not"),
    "another number of refits": (lambda a: a["forest:deep sums"].__setitem__((0, ring.N_REFITS), 7), "refits"),
    "more rows than the ring": (lambda a: a["forest:deep sums"].__setitem__((0, 0), 10**7), "disagree"),
    "codes above 64": (lambda a: a["forest:codes"].__setitem__((0, 0), 65), "codes above 64"),
    "pending rows": (lambda a: a["forest:progress"].__setitem__((0, schedule.N_PENDING), 64), "not valid"),
    "evidence": (
        lambda a: a["forest:combination sums"].__setitem__((0, stacking.N_EVIDENCE), 10**6),
        "evidence does not fit",
    ),
    "marks": (lambda a: a["forest:combination sums"].__setitem__((0, stacking.N_MARKS), 1), "marks do not fit"),
    "passes": (lambda a: a["stream"].__setitem__((0, 2), -1), "negative"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_refused(kind, tmp_path):
    """A file whose checksums are right, but whose content kernels could not use."""
    damage, sentence = DAMAGE[kind]
    learner = Forest(4, base="gaussian")
    learner.learn(table(600, "gaussian"))
    damage(learner._arrays())
    learner.save(tmp_path / "m.bayou")
    with pytest.raises(BadModel, match=sentence):
        bayou.load(tmp_path / "m.bayou")


def test_memory_is_stated_before_it_is_taken():
    learner = Forest(4, base="gaussian")
    before = learner.nbytes
    learner.learn(table(300, "gaussian"))
    assert learner.nbytes > before + ring.RING_ROWS * 150
    learner.learn(table(3000, "gaussian", seed=1))
    assert sum(array.nbytes for array in learner._arrays().values()) < learner.nbytes
