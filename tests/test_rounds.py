"""Rounds: what shards gain adds up, whoever learns them and in whatever order; the same bits every time."""

import copy
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bayou import BadInput, BadModel, Batch, rounds, simulate
from bayou.core.extras import Extras
from bayou.learners import FTRL, AdaGrad, Bank, Marginal, Moment, NumberBank
from bayou.recipe.feature_names import NewNames
from bayou.sources import Recipe

FEATURES = 10_000  # three blocks
LEARNERS = {
    "bank": lambda: Bank(FEATURES),
    "bank in float64": lambda: Bank(FEATURES, dtype="float64"),
    "marginal": lambda: Marginal(FEATURES),
    "marginal that forgets": lambda: Marginal(FEATURES, memory=0.01),
    "adagrad": lambda: AdaGrad(FEATURES),
}
SLOW = {"bank in float64": pytest.mark.long}  # kernels of another type
each = pytest.mark.parametrize(
    "make", [pytest.param(make, id=name, marks=SLOW.get(name, ())) for name, make in LEARNERS.items()]
)


def rows(n: int, seed: int, values: bool = True, width: int = FEATURES) -> Batch:
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(99).normal(size=width)
    features = np.minimum((width * rng.random((n, 6)) ** 3).astype(np.int64), width - 1)
    x = np.exp(rng.normal(size=(n, 6))) if values else np.ones((n, 6))
    labels = rng.random(n) < 1 / (1 + np.exp(-(x * weights[features]).sum(axis=1)))
    each_row = [dict(zip(f, v, strict=True)) for f, v in zip(features.tolist(), x.tolist(), strict=True)]
    return Batch.from_rows(each_row, labels=labels.astype(float))


def bits(learner) -> bytes:
    return rounds.to_bytes(learner)


def loss(learner, batch: Batch, horizon: str = "next") -> float:
    p = learner.predict(batch, horizon=horizon).probability
    return float(-np.log(np.where(batch.labels > 0, p, 1 - p)).mean())


# --- gains --------------------------------------------------------------------------------------------------------


@each
def test_one_shard_of_weight_1_is_learning_on(make):
    base = make()
    rounds.learn_mergeable(base, rows(1200, 0))
    on = copy.copy(base)
    rounds.learn_mergeable(on, rows(500, 1))
    rounds.apply(base, rounds.add([rounds.learn_shard(base, [rows(500, 1)], 1.0)]), 1.0)
    assert base.examples == on.examples == 1700
    for name, mine in base._arrays().items():
        if not name.startswith("head "):  # shards refresh a head at other rows, and leave its features as they are
            np.testing.assert_allclose(mine, on._arrays()[name], rtol=2e-4, atol=3e-4)
    if base.has_posterior:
        assert (np.abs(base.mean - on.mean) < 0.01 * np.sqrt(on.variance) + 3e-4).all()
        np.testing.assert_allclose(base.variance, on.variance, rtol=2e-3, atol=1e-4)


@each
def test_neither_the_order_of_arrival_nor_who_learns_changes_a_bit(make):
    base = make()
    rounds.learn_mergeable(base, rows(1200, 0))
    before = bits(base)
    gains = [rounds.learn_shard(base, [rows(200, k)], 3.0, task=k) for k in range(1, 4)]
    elsewhere = rounds.from_bytes(rounds.to_bytes(base))
    again = [rounds.learn_shard(elsewhere, [rows(200, k)[:90], rows(200, k)[90:]], 3.0, task=k) for k in (3, 1, 2)]
    assert bits(base) == before
    assert rounds.add(gains).equals(rounds.add(again))
    # Where an engine brings together what is of one block.
    whole = pa.concat_tables(again)
    blocks = [whole.filter(pc.equal(whole["block"], block)) for block in sorted(set(whole["block"].to_pylist()))]
    parts = [rounds.add([block]) for block in blocks]
    assert pa.concat_tables(parts).equals(rounds.add(gains))
    rounds.apply(base, rounds.add(gains), 3.0)
    rounds.apply(elsewhere, pa.concat_tables(parts), 3.0)
    assert bits(base) == bits(elsewhere) != before


@each
def test_a_shard_goes_back_to_its_base_and_what_it_refuses_leaves_no_trace(make):
    base = make()
    rounds.learn_mergeable(base, rows(1200, 0))
    shard, other = (rounds.Shard(copy.copy(base)) for _ in range(2))
    for part, seed in ((shard, 1), (other, 2)):
        part.learn(rows(300, seed), 2.0)
    refused = [Batch.from_rows([{5: 1.0, FEATURES: 1.0}], labels=[1]), Batch.from_rows([{17: 1e300}], labels=[1])]
    alone = shard.gain(0)
    for batch in refused:
        with pytest.raises(BadInput, match="row 0"):
            shard.learn(batch, 2.0)
    assert shard.gain(0).equals(alone)
    assert alone.equals(rounds.learn_shard(base, [rows(300, 1)], 2.0, 0))
    summed = rounds.add([alone, other.gain(1)])
    rounds.apply(base, summed, 2.0)
    for part in (shard, other):
        part.apply(summed, 2.0)
        assert bits(part.part) == bits(base)


def test_of_independent_weights_rounds_are_exact():
    """Each row has one feature and no intercept: what rows tell of a weight adds up, but for where they are told."""
    base = Marginal(FEATURES, dtype="float64", intercept=False, prior_variance=1e-4)
    feature = Batch.from_rows([{k % 7: 1.0} for k in range(700)], labels=[k % 3 == 0 for k in range(700)])
    one = copy.copy(base)
    one.learn(feature)
    shards = [feature.take(np.arange(k, 700, 4)) for k in range(4)]
    rounds.apply(base, rounds.add(rounds.learn_shard(base, [s], 4.0, k) for k, s in enumerate(shards)), 4.0)
    np.testing.assert_allclose(base.mean[:7], one.mean[:7], rtol=1e-3)
    np.testing.assert_allclose(base.variance[:7], one.variance[:7], rtol=1e-3)


@pytest.mark.long
def test_corrections_that_all_shards_make_are_made_once():
    """Weight 16 and a mean, against weight 1 and a sum: where features come together, each shard repairs all of it."""
    together = dict.fromkeys(range(20), 1.0)
    base = Bank(20, lanes=[{"prior_variance": 1.0}], combine="share", head=0)
    truth = Batch.from_rows([together] * 16_000, labels=[1.0] * 14_400 + [0.0] * 1_600)
    truth = truth.take(np.random.default_rng(0).permutation(16_000))
    base.learn(Batch.from_rows([together] * 20, labels=[0, 1] * 10))
    found = {}
    for weight in (16.0, 1.0):
        learner = copy.copy(base)
        for first in range(0, 16_000, 1_600):
            shards = [truth.take(np.arange(first + k, first + 1_600, 16)) for k in range(16)]
            gains = [rounds.learn_shard(learner, [shard], weight, k) for k, shard in enumerate(shards)]
            rounds.apply(learner, rounds.add(gains), weight)
        found[weight] = loss(learner, truth)
    one = copy.copy(base)
    one.learn(truth)
    assert found[16.0] < 1.01 * loss(one, truth)
    assert found[1.0] > 1.1 * found[16.0]


def grouped(n: int, seed: int) -> Batch:
    """Two columns, of large and of small weights."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(7).normal(size=400) * np.repeat([2.0, 0.1], 200)
    features = rng.integers(0, 200, (n, 2)) + np.array([0, 200])
    labels = rng.random(n) < 1 / (1 + np.exp(-weights[features].sum(axis=1)))
    ones = np.ones(2 * n, np.float32)
    groups = np.tile([1, 2], n)
    return Batch.from_arrays(np.arange(0, 2 * n + 1, 2), features.ravel(), ones, labels, groups=groups)


def test_shards_leave_priors_alone_and_weights_that_have_come_together_tell_them():
    base, parts = Bank(400), [grouped(3000, k) for k in range(1, 9)]
    rounds.learn_mergeable(base, grouped(2000, 0))
    before, shard = copy.copy(base), rounds.Shard(copy.copy(base))
    shard.learn(parts[0], 8.0)
    np.testing.assert_array_equal(shard.part._arrays()["priors"], before._arrays()["priors"])
    assert [prior.features for prior in before.priors()] == [200, 200]
    rounds.apply(base, rounds.add(rounds.learn_shard(base, [one], 8.0, k) for k, one in enumerate(parts)), 8.0)

    # The sums of MacKay's rule, from the weights before and after: lane 0 keeps precision times mean.
    def told(bank: Bank, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eta, gained = bank._lanes.state[:, [0, 8]].astype(float).T
        groups = np.repeat([1, 2], 200)
        precision = held[groups] + gained
        return np.bincount(groups, (eta / precision) ** 2), -np.bincount(groups, held[groups] / precision)

    held = before._lanes.prior_precisions[:, 0].astype(float)
    for now, then, sums, was in zip(
        told(base, held), told(before, held), base._lanes.priors[0], before._lanes.priors[0], strict=False
    ):
        np.testing.assert_allclose((sums - was)[1:3], (now - then)[1:3], rtol=1e-4, atol=1e-4)
    one = Bank(400)
    rounds.learn_mergeable(one, Batch.concatenate([grouped(2000, 0), *parts]))
    for mine, theirs in zip(base.priors(), one.priors(), strict=True):
        assert 2 / 3 < mine.sd / theirs.sd < 3 / 2  # after one round, twelve times as large as the base


def test_lanes_alone_learn_as_with_the_combination():
    both, alone = Bank(FEATURES), Bank(FEATURES)
    batch = rows(9000, 5)
    both.learn(batch)
    assert np.isnan(alone.learn(batch, combine=False)).all()
    for name in ("state", "squares", "intercept", "scale", "stream"):
        assert both._arrays()[name].tobytes() == alone._arrays()[name].tobytes()
    assert alone.examples == both.examples
    with pytest.raises(BadInput, match="snapshot"):
        alone.snapshot().learn(batch, combine=False)


def test_recombining_leaves_the_lanes_and_repairs_the_rest():
    learned, held, test = rows(6000, 1), rows(1500, 2), rows(3000, 3)
    one, parts = Bank(FEATURES), Bank(FEATURES)
    one.learn(learned)
    parts.learn(learned, combine=False)
    lanes = {name: parts._arrays()[name].tobytes() for name in ("state", "squares", "intercept", "scale")}
    assert not parts.supports_later
    told = parts.recombine([held[:700], held[700:]])
    assert {name: parts._arrays()[name].tobytes() for name in lanes} == lanes
    assert told == pytest.approx(loss(parts, held), rel=0.1)
    assert parts.supports_later
    for horizon in ("next", "later"):
        assert loss(parts, test, horizon) < 1.03 * loss(one, test, horizon)
    again = rounds.from_bytes(rounds.to_bytes(parts))
    assert again.recombine([held[:700], held[700:]]) == told  # afresh: what it was before does not matter
    assert bits(again) == bits(parts)
    with pytest.raises(BadInput, match="no row"):
        parts.recombine([])
    assert bits(again) == bits(parts)


def test_lanes_learn_held_out_rows_while_the_combination_does():
    def lanes_alone(*batches: Batch) -> Bank:
        bank = Bank(FEATURES)
        for batch in batches:
            bank.learn(batch, combine=False)
        return bank

    learned, held = rows(6000, 1), rows(9000, 2)
    held = held.with_labels(held.labels, np.tile([1.0, 0.0, 2.0], 3000))
    both, frozen, lanes = lanes_alone(learned), lanes_alone(learned), lanes_alone(learned, held)
    # Each row is predicted before it is learned: of the first one nothing is known either way.
    assert lanes_alone(learned).recombine([held[:1]], learn=True) == frozen.recombine([held[:1]])
    assert both.recombine([held[:700], held[700:]], learn=True) < frozen.recombine([held])
    for name in ("state", "squares", "intercept", "scale", "stream"):
        assert both._arrays()[name].tobytes() == lanes._arrays()[name].tobytes()
    assert both.examples == lanes.examples == 12_000
    assert both.supports_later


def test_a_further_pass_counts_what_is_known_half():
    base = Bank(FEATURES, head=0)
    base.learn(rows(2000, 0))
    mean, variance = base.mean, base.variance
    rounds.discount(base, 0.5)
    np.testing.assert_allclose(base.mean, mean, rtol=3e-7)  # a lane that learns its prior keeps precision times mean
    assert (base.variance >= variance).all()
    touched = base.touched
    assert (base.variance[touched] > variance[touched]).all()
    plain = Marginal(FEATURES)
    plain.learn(rows(2000, 0))
    gained = 1 / plain.variance - 1
    rounds.discount(plain, 0.5)
    np.testing.assert_allclose(1 / plain.variance - 1, gained / 2, rtol=1e-4, atol=1e-6)


def test_names_travel_in_blocks():
    base = Marginal(FEATURES)
    base.extras = Extras.new(Recipe(kind="vw", task="binary", bits=4))
    base.extras.names.n_features = FEATURES
    base.extras.names.known = np.zeros(FEATURES, np.uint8)
    shards = [copy.copy(base) for _ in range(2)]
    for shard, texts in zip(shards, ({5: b"five", 9000: b"far"}, {5: b"other", 6: b"\xff"}), strict=True):
        for feature, text in texts.items():
            data = np.frombuffer(text, np.uint8)
            shard.extras.names.add(NewNames(np.uint32([feature]), np.array([[-1, -1, 0, len(text)]]), data, data, b""))
    rounds.apply(base, rounds.add(rounds.gain(s, base, k) for k, s in enumerate(shards)), 1.0)
    assert base.extras.names.bytes_of(np.array([5, 6, 7, 9000])) == [b"five", b"\xff", None, b"far"]


# --- the whole of it ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["random", "longtail"])
def test_doubling_rounds_are_within_a_few_thousandths_of_one_pass(name):
    generator = simulate.random(n_features=200) if name == "random" else simulate.longtail(n_categories=12)
    whole = Batch.concatenate(list(generator.batches(440_000)))
    learned, held, test = whole[:380_000], whole[380_000:400_000], whole[400_000:]
    one, base, told = Bank(generator.n_features), Bank(generator.n_features), []
    one.learn(learned)
    for first, last, shards in rounds.plan(len(learned), 16):
        if shards == 1:
            rounds.learn_mergeable(base, learned[first:last])
        else:
            parts = (learned.take(np.arange(first + k, last, shards)) for k in range(shards))
            gains = [rounds.learn_shard(base, [part], shards, k) for k, part in enumerate(parts)]
            rounds.apply(base, rounds.add(gains), shards)
        told.append(base.recombine([held]))
    assert base.examples == one.examples
    for horizon in ("next", "later"):
        assert loss(base, test, horizon) < 1.003 * loss(one, test, horizon)
    assert all(after < 1.003 * before for before, after in pairwise(told))


def test_a_plan_takes_every_row_once():
    for n, shards, base in ((1, 4, None), (4_999, 4, None), (63_000, 16, None), (10**9, 128, None), (50_000, 3, 7)):
        planned = rounds.plan(n, shards, base)
        assert [r.first for r in planned] == [0, *(r.last for r in planned[:-1])]
        assert planned[-1].last == n
        assert all(
            1 <= r.shards <= shards and (r.last - r.first) // r.shards >= rounds.MIN_SHARD_ROWS
            for r in planned
            if r.shards > 1
        )
        sizes = [r.last - r.first for r in planned[1:-1]]  # the last one takes what is left
        assert sizes == [r.first for r in planned[1:-1]]
    assert [r.last for r in rounds.plan(100_000, 2, 5_000, growth=3.0)] == [5_000, 20_000, 80_000, 100_000]


@each
def test_a_driver_does_what_its_steps_do(make):
    """Sequence, shards, and a further pass, in which what is known counts half and each row half again."""
    driver, base = rounds.LoopDriver(make()), make()
    parts = [rows(200, k) for k in range(3)]
    driver.learn_round([rows(300, 9)], 1)
    driver.learn_round(parts, 3)
    driver.learn_round(parts, 3, is_repeated=True)
    rounds.learn_mergeable(base, rows(300, 9))
    for weight, share in ((3.0, None), (1.5, 0.5)):
        if share:
            rounds.discount(base, share)
        gains = [rounds.learn_shard(base, [part], weight, task) for task, part in enumerate(parts)]
        rounds.apply(base, rounds.add(gains), 3.0)
    assert bits(driver.learner) == bits(base)


def test_passes_follow_the_plan_with_one_round_each():
    found = rounds.plan_passes(1_000_000, 16, None, 5_000, passes=2)
    planned = rounds.plan(1_000_000, 16, least=5_000)
    assert [tuple(r) for r in planned] == [(r.first, r.last, r.shards) for r in found[:-1]]
    assert found[-1] == rounds.PlannedRound(0, 1_000_000, 16, passed=1)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_cannot_add_up_gets_a_sentence():
    base = Bank(16)
    for other in (FTRL(16), NumberBank(16)):
        with pytest.raises(BadModel, match="cannot learn in shards; bank, adagrad, marginal"):
            rounds.learn_shard(other, [], 2.0)
    with pytest.raises(BadModel, match="a bank model and a marginal model"):
        rounds.gain(base, Marginal(16))
    later = Bank(16)
    later.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    with pytest.raises(BadModel, match="base knows more"):
        rounds.gain(base, later)
    gain = rounds.gain(later, base, task=1)
    with pytest.raises(BadInput, match="same task number"):
        rounds.add([gain, gain])
    with pytest.raises(BadInput, match="not a gain"):
        rounds.add([pa.table({"a": [1]})])
    with pytest.raises(BadInput, match="lacks its first block"):
        rounds.apply(base, rounds.add([gain])[1:], 1.0)
    with pytest.raises(BadInput, match="snapshot"):
        rounds.apply(base.snapshot(), rounds.add([gain]), 1.0)
    spoiled = rounds.add([gain]).to_pylist()
    spoiled[1]["numbers"][0] = float("nan")
    for other, summed in ((Marginal(16), rounds.add([gain])), (base, pa.Table.from_pylist(spoiled, rounds.SUM))):
        with pytest.raises(BadInput, match="does not fit the model"):
            rounds.apply(other, summed, 1.0)
    spoiled[1]["numbers"][0] = None
    with pytest.raises(BadInput, match="has gaps"):
        rounds.apply(base, pa.Table.from_pylist(spoiled, rounds.SUM), 1.0)
    wide = Bank(64)
    wide.learn(Batch.from_rows([{40: 1.0}], labels=[1]))
    with pytest.raises(BadInput, match="does not fit the model"):
        rounds.apply(base, rounds.add([rounds.gain(wide, Bank(64))]), 1.0)
    with pytest.raises(BadModel, match="what these bytes hold"):
        rounds.from_bytes(b"nothing")
    with pytest.raises(BadInput, match="weight"):
        rounds.learn_shard(base, [], -1.0)
    assert base.examples == 0


def test_moments_can_add_up():
    base = Moment(16)
    rounds.apply(base, rounds.add([rounds.learn_shard(base, [Batch.from_rows([{3: 1.0}], labels=[1])], 2.0)]), 2.0)
    assert base.touched.tolist() == [3]
