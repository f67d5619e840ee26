"""Lanes that learn the prior of each group of features, and lanes that fade by time."""

import copy

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

import bayou
from bayou import BadInput, Batch, rounds
from bayou.core.incremental_snapshot import IncrementalSnapshot
from bayou.learners import Classes
from bayou.learners.bank import PRESETS, Bank, Lane
from bayou.learners.bank.linearization import lane_weights
from bayou.learners.bank.priors import FADE_REBASE_THRESHOLD
from tests.learners.test_bank import STREAMS, WIDTH, examples, near, same_inside
from tests.reference.bank import BankReference

LANES = [
    Lane(0.1, scale=True, learned_prior=True),
    Lane(0.03, normalise=True, fading=1e-2),
    Lane(1.0, temper=(0.3, 0.1), fading=1e-3, second=0.3),
    Lane(rate=0.5),
    Lane(2.0, temper=(0.3, 0.1), learned_prior=True),
]
GROUPS = np.random.default_rng(0).integers(0, 5, WIDTH)


def grouped(X, y=None, weights=None) -> Batch:
    batch = Batch.from_csr(X, y, weights)
    return batch.with_groups(GROUPS[batch.indices])


def stream(rows=1200, sds=(0.1, 3.0), each=30, seed=0):
    """A feature of each group in every row; groups have weights of another size."""
    rng = np.random.default_rng(seed)
    weights = np.concatenate([rng.normal(0, sd, each) for sd in sds])
    columns = rng.integers(0, each, (rows, len(sds))) + each * np.arange(len(sds))
    y = rng.random(rows) < expit(weights[columns].sum(axis=1))
    indptr = np.arange(0, columns.size + 1, len(sds))
    batch = Batch.from_arrays(indptr, columns.ravel().astype(np.uint32), np.ones(columns.size), y.astype(float))
    return batch.with_groups(np.tile(np.arange(len(sds)), rows)), each * len(sds)


@pytest.mark.parametrize("kind", ["usual", "indicators", "indicators, then near 1"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lanes", [LANES, LANES[1:] + LANES + LANES], ids=["5", "14"])
def test_groups_equal_the_reference(kind, weighted, lanes):
    X, y, weights = examples(0, 75, **STREAMS[kind])
    fast, slow = Bank(WIDTH, lanes=lanes, dtype="float64", head=0), BankReference(WIDTH, lanes, groups=GROUPS)
    for rows in np.array_split(np.arange(75), 3):
        c = weights[rows] if weighted else None
        near(fast.learn(grouped(X[rows], y[rows], c)), slow.learn(X[rows], y[rows], c), size=1e-6)
        near(fast.predict(grouped(X[rows])).probability, slow.predict(X[rows])[0], size=1e-6)
    learned = [lane for lane in slow.lanes if lane.lane.learned_prior]
    for found, lane in zip(fast._lanes.priors, learned, strict=True):
        near(found[2, :5], lane.precision[:5])
    met = np.unique(X.indices[np.repeat((weights > 0) | (not weighted), np.diff(X.indptr))])
    np.testing.assert_array_equal(fast._lanes.groups[met], GROUPS[met])
    fast._lanes.groups[:] = GROUPS  # so that the priors of features that were never met are theirs
    same_inside(fast, slow)


def test_the_prior_of_each_group_is_found():
    batch, width = stream(20_000)
    bank = Bank(width, head=0)
    bank.learn(batch)
    narrow, wide = bank.priors()
    assert [(prior.group, prior.features) for prior in (narrow, wide)] == [(0, 30), (1, 30)]
    assert 0.02 < narrow.sd < 0.4
    assert 1.5 < wide.sd < 6.0
    assert Bank(3, lanes=[Lane()], head=0).priors() == []


def test_a_model_knows_the_groups_of_what_it_has_met():
    batch, width = stream()
    bank = Bank(width, head=0)
    bank.learn(batch)
    unsaid = batch.with_groups(None)
    for horizon in ("next", "later"):
        assert np.array_equal(bank.predict(unsaid, horizon).probability, bank.predict(batch, horizon).probability)
    twin = copy.copy(bank)
    assert np.array_equal(bank.learn(unsaid), twin.learn(batch))
    np.testing.assert_array_equal(bank._lanes.state, twin._lanes.state)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_one_by_one_and_a_file_in_between_change_no_bit(tmp_path, dtype):
    batch, width = stream(100)
    whole, by_row = Bank(width, dtype=dtype, head=0), Bank(width, dtype=dtype, head=0)
    p = whole.learn(batch)
    found = []
    for row in range(100):
        if row == 55:  # between two renewals of the priors
            by_row.save(tmp_path / "m.bayou")
            by_row = bayou.load(tmp_path / "m.bayou")
        found.append(by_row.learn(batch[row : row + 1])[0])
    assert np.array_equal(found, p)
    for name in ("state", "priors", "pending_sums", "prior_precisions", "fade", "groups"):
        np.testing.assert_array_equal(getattr(by_row._lanes, name), getattr(whole._lanes, name))


def test_several_classes_keep_groups_where_features_are_numbered():
    batch, width = stream(600)
    learner, few = Classes(1 << 17, classes=[0, 1]), Classes(width, classes=[0, 1])
    p, q = learner.learn(batch), few.learn(batch)
    np.testing.assert_allclose(p, q, atol=1e-5)  # float32 is rounded by the numbers of features
    assert learner.wants_groups
    assert sorted(prior.group for prior in learner.learners[0].priors()) == [0, 1]


# --- fading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_when_a_factor_is_taken_up_changes_no_bit(dtype):
    X, y, _ = examples(1, 90, **STREAMS["usual"])
    lanes = [Lane(2.0, fading=0.2), Lane(0.5, normalise=True, fading=0.45)]
    often, seldom = Bank(WIDTH, lanes=lanes, dtype=dtype, head=0), Bank(WIDTH, lanes=lanes, dtype=dtype, head=0)
    p = np.concatenate([often.learn(Batch.from_csr(X[k : k + 3], y[k : k + 3])) for k in range(0, 90, 3)])
    q = np.concatenate([seldom.learn(Batch.from_csr(X[k : k + 45], y[k : k + 45])) for k in (0, 45)])
    assert often._lanes.fade[1].max() > seldom._lanes.fade[1].max()
    np.testing.assert_allclose(p, q, rtol=1e-6 if dtype == "float32" else 1e-12)
    for lane in range(2):
        one, other = (lane_weights(bank._lanes, lane, np.arange(WIDTH)) for bank in (often, seldom))
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-6)
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-5, atol=1e-7)


def test_all_of_a_large_table_takes_up_its_factor():
    bank = Bank((1 << 16) + 1, lanes=[Lane(1.0), Lane(1.0, fading=0.5)], head=0)
    state = bank._lanes.state
    state[:] = np.random.default_rng(3).random(state.shape, np.float32)
    before, gained = state.copy(), state.shape[1] // 2 + 1  # where the second lane's precisions stand
    bank._lanes.fade[0, 1] = FADE_REBASE_THRESHOLD / 2
    bank._groups.rebase_fade()
    assert bank._lanes.fade[:, :2].tolist() == [[1.0, 0.5], [0.0, 1.0]]
    before[:, gained] *= FADE_REBASE_THRESHOLD
    np.testing.assert_array_equal(state, before)


def test_old_evidence_fades_and_the_intercept_stays():
    bank = Bank(3, lanes=[Lane(1.0, fading=0.05), Lane(1.0)], dtype="float64", head=0)
    bank.learn(Batch.from_rows([{0: 1.0}] * 50, labels=[1, 0] * 25))
    before = [lane_weights(bank._lanes, lane, np.arange(1)) for lane in range(2)]
    gained = bank._lanes.intercept[1, 0]
    bank.learn(Batch.from_rows([{1: 1.0}] * 200, labels=[1, 0] * 100))
    fading, lasting = (lane_weights(bank._lanes, lane, np.arange(1)) for lane in range(2))
    assert before[0].variance[0] < 0.3
    assert fading.variance[0] == pytest.approx(1.0, abs=1e-3)
    assert fading.mean[0] == before[0].mean[0]
    assert lasting.variance[0] == before[1].variance[0]
    assert bank._lanes.intercept[1, 0] > gained
    assert [output.name for output in bank.lanes] == ["plain 1, fading 0.05", "plain 1"]
    assert bank._static.all()  # over so many examples, predictions for later rows take part of it


def test_a_gradual_copy_is_whole_where_factors_are_taken_up_meanwhile():
    rng = np.random.default_rng(0)
    width = 1 << 17
    X = sparse.random_array((3000, width), density=1e-4, format="csr", rng=rng)
    y = rng.integers(0, 2, 3000)
    bank = Bank(width, lanes=[Lane(1.0, fading=0.02), Lane(rate=0.5)], head=0)
    bank.learn(Batch.from_csr(X[:1000], y[:1000]))
    expected, copied = copy.copy(bank), IncrementalSnapshot(bank)
    for start in range(1000, 3000, 200):
        copied.copy_some()
        batch = Batch.from_csr(X[start : start + 200], y[start : start + 200])
        copied.before_learn(batch)
        bank.learn(batch)
    while not copied.copy_some():
        pass
    assert bank._lanes.fade[1, 0] > expected._lanes.fade[1, 0]
    found = copied.to_learner()
    np.testing.assert_array_equal(found._lanes.state, expected._lanes.state)
    assert bank.will_change_other_features(10**6)
    assert not Bank(3, lanes=[Lane()], head=0).will_change_other_features(10**6)


# --- parts as one ---------------------------------------------------------------------------------------------------


def test_a_shard_alone_is_learning_on_also_beyond_where_factors_are_taken_up():
    batch, width = stream(900)
    lanes = [LANES[0], Lane(1.0, fading=0.05), Lane(rate=0.5)]
    base = Bank(width, lanes=lanes, dtype="float64", head=0)
    rounds.learn_mergeable(base, batch[:100])
    on = copy.copy(base)
    rounds.learn_mergeable(on, batch[100:])
    assert on._lanes.fade[0, 1] < FADE_REBASE_THRESHOLD
    rounds.apply(base, rounds.add([rounds.learn_shard(base, [batch[100:]], 1.0)]), 1.0)
    np.testing.assert_allclose(base.predict(batch).mean, on.predict(batch).mean, atol=1e-4)
    np.testing.assert_array_equal(base._lanes.groups, on._lanes.groups)
    for one, other in zip(base.priors(), on.priors(), strict=True):
        assert one.sd == pytest.approx(other.sd, rel=1e-3)


def test_shards_find_groups_and_priors_that_their_base_did_not_know():
    batch, width = stream(8000)
    base = Bank(width, head=0)
    rounds.learn_mergeable(base, batch[:1])
    shards = [rounds.learn_shard(base, [batch.take(np.arange(1 + k, 8000, 4))], 4.0, k) for k in range(4)]
    rounds.apply(base, rounds.add(shards), 4.0)
    alone = Bank(width, head=0)
    rounds.learn_mergeable(alone, batch)
    np.testing.assert_array_equal(base._lanes.groups, alone._lanes.groups)
    for one, other in zip(base.priors(), alone.priors(), strict=True):
        assert one.sd == pytest.approx(other.sd, rel=0.5)
    assert base.priors()[0].sd < base.priors()[1].sd / 4


def test_merging_adds_what_priors_are_learned_from():
    batch, width = stream(4000)
    parts = [Bank(width, head=0), Bank(width, head=0)]
    for k, part in enumerate(parts):
        part.learn(batch.take(np.arange(k, 4000, 2)))
    merged = parts[0].merge(parts[1])
    np.testing.assert_array_equal(merged._lanes.groups, parts[0]._lanes.groups | parts[1]._lanes.groups)
    for one, *both in zip(merged.priors(), parts[0].priors(), parts[1].priors(), strict=True):
        sds = sorted(prior.sd for prior in both)
        assert 0.8 * sds[0] < one.sd < 1.25 * sds[1]
    assert np.array_equal(merged.predict(batch.with_groups(None)).mean, merged.predict(batch).mean)


# --- files, settings ------------------------------------------------------------------------------------------------


def test_a_file_says_which_lanes_a_model_has(tmp_path):
    bank = Bank(5, head=0)
    bank.save(tmp_path / "new.bayou")
    header, arrays = bayou.core.model_file.read(tmp_path / "new.bayou")
    assert header["parameters"]["lanes"][0]["learned_prior"] is True
    assert bayou.load(tmp_path / "new.bayou").parameters == bank.parameters
    assert bank.parameters["lanes"] is None
    # As if the preset had come to be another one.
    header["parameters"]["lanes"][1]["prior_variance"] = 5.0
    bayou.core.model_file.write(tmp_path / "old.bayou", header, arrays)
    old = bayou.load(tmp_path / "old.bayou")
    lanes = [PRESETS["slim"][0], Lane(5.0, scale=True), *PRESETS["slim"][2:]]
    assert [output.lane for output in old.lanes][:8] == lanes
    batch, _ = stream(50, each=2, sds=(1.0, 1.0))
    same = Bank(5, lanes=lanes, head=0)
    assert np.array_equal(old.learn(batch), same.learn(batch))
    old.save(tmp_path / "old.bayou")
    assert bayou.load(tmp_path / "old.bayou").parameters == old.parameters


@pytest.mark.parametrize(
    "lane",
    [
        {"learned_prior": 1},
        {"learned_prior": True, "normalise": True},
        {"learned_prior": True, "memory": 0.1},
        {"learned_prior": True, "fading": 0.1},
        {"learned_prior": True, "rate": 0.1},
        {"fading": -0.1},
        {"fading": 0.9},
    ],
    ids=str,
)
def test_lanes_that_cannot_be_are_refused(lane):
    with pytest.raises(BadInput, match=r"learned_prior|fading"):
        Bank(3, lanes=[lane], head=0)


def test_the_default_has_a_lane_of_each_kind():
    slim = PRESETS["slim"]
    assert len(slim) == 8
    assert sum(lane.learned_prior for lane in slim) == 1
    assert sum(lane.fading > 0 for lane in slim) == 1
