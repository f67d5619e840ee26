"""The bank's lanes of pairs answer to the reference, and everything that holds for a bank holds with them."""

import pickle

import numpy as np
import pytest

from bayou import BadInput, Batch, rounds
from bayou.kernels.random import GOLDEN, mix
from bayou.kernels.row_layout import batch_arrays
from bayou.learners import Bank
from bayou.learners.bank import crosses, factors, pairs
from tests.reference.pairs import CrossesReference, FactorsReference

WIDTH = 60


def some_rows(seed: int, n: int, sizes=(-1.0, 1.0), lengths=(0, 1, 3, 8, 9, 20), groups: int = 20):
    """Batches of n rows with groups and labels, and what each weighs."""
    rng = np.random.default_rng(seed)
    size, of = rng.uniform(*sizes, WIDTH), rng.integers(0, groups, WIDTH)
    found = []
    for _ in range(n):
        i = rng.choice(WIDTH, rng.choice(lengths), replace=False)
        x = rng.choice([-1.0, 1.0], len(i)) * 10 ** (size[i] + rng.uniform(-0.5, 0.5, len(i)))
        found.append((i, np.where(rng.random(len(i)) < 0.3, 1.0, x)))
    indptr = np.cumsum([0] + [len(i) for i, _ in found])
    indices, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    labels, weights = rng.choice([-1.0, 1.0], n), rng.choice([0.0, 0.3, 1.0, 1.0, 7.0], n)
    return Batch.from_arrays(indptr, indices, values, labels, weights, groups=of[indices])


def run(kernel, into, batch, column, width=3, dtype="float64"):
    said = np.full((len(batch), 2, width), np.nan, dtype)
    rows = batch_arrays(batch, batch.labels.astype(dtype), batch.weights.astype(dtype))
    kernel(rows, batch.groups, into, 0, len(batch), 0, column, said)
    return said


def answers(reference, batch):
    """Of each row the mean and variance of its score before it was learned."""
    found = []
    for row in range(len(batch)):
        at = slice(batch.indptr[row], batch.indptr[row + 1])
        i, x, groups = batch.indices[at].astype(int), batch.values[at], batch.groups[at].astype(int)
        found.append(reference.learn_example(i, x, groups, batch.labels[row], batch.weights[row])[:2])
    return np.array(found)


@pytest.mark.parametrize("sizes", [(-1.0, 1.0), (-9.0, 3.0), (2.0, 5.0)])
@pytest.mark.parametrize("intercept", [True, False])
def test_crosses_answer_to_the_reference(sizes, intercept):
    batch = some_rows(1, 120, sizes)
    crossed = np.random.default_rng(2).random((crosses.GROUPS, crosses.GROUPS)) < 0.7
    crossed |= crossed.T
    lane = crosses.new_crosses(crossed, intercept, 22, "float64")
    said = run(crosses.run_crosses, lane, batch, 1)
    reference = CrossesReference(lambda g, h: crossed[g, h], intercept)
    np.testing.assert_allclose(said[:, :, 1], answers(reference, batch), rtol=1e-9, atol=1e-12)
    # Every weight, and the features that it is of.
    for names, mean in reference.mean.items():
        place = crosses.weight_indices(np.array(names[:1]), np.array(names[1:] or (-1,)), lane.bits)[0]
        np.testing.assert_allclose(lane.weights[place], [mean, reference.gained[names]], rtol=1e-8, atol=1e-13)
        kept = [k - 1 for k in lane.features[place].tolist() if k]
        assert sorted(kept) == list(names)
    np.testing.assert_allclose(lane.scale, [reference.log_scale, reference.scale_gained], rtol=1e-8, atol=1e-12)


def test_a_row_gives_neighbours_first_and_no_more_pairs_than_stated():
    n = 100
    batch = Batch.from_arrays([0, n], np.arange(n), np.ones(n), [1.0], [1.0], groups=np.zeros(n, int))
    lane = crosses.new_crosses(np.ones((crosses.GROUPS, crosses.GROUPS), bool), True, 22, "float32")
    run(crosses.run_crosses, lane, batch.astype("float32"), 0)
    used = lane.features[lane.features[:, 1] > 0].astype(int)
    assert crosses.MOST_PAIRS - 3 <= len(used) <= crosses.MOST_PAIRS  # some may share a place
    assert np.abs(used[:, 0] - used[:, 1]).max() == 11  # 99 + ... + 90 are 945 of them


def starts(machine):
    signs = machine * 8 + np.arange(7 if machine == factors.P else 8)

    def start(feature):
        with np.errstate(over="ignore"):
            bits = int(mix(np.uint64(feature) + GOLDEN)) & 0xFFFF
        return np.where(bits >> signs & 1, 1.0, -1.0)

    return start


@pytest.mark.parametrize("sizes", [(-1.0, 1.0), (-4.0, 1.0)])
@pytest.mark.parametrize("intercept", [True, False])
def test_factors_answer_to_the_reference(sizes, intercept):
    batch = some_rows(3, 120, sizes)
    lanes = factors.new_factors(WIDTH, intercept, "float64")
    said = run(factors.run_factors, lanes, batch, 1)
    signs = factors._pair_signs()
    expected = [
        FactorsReference(starts(factors.P), signs[0, :, :, :7], 0.1, alone=True, intercept=intercept),
        FactorsReference(starts(factors.Q), signs[1], 1.0, alone=False, memory=0.01),
    ]
    of_16 = batch.with_groups(batch.groups % 16)
    for machine, reference in enumerate(expected):
        np.testing.assert_allclose(said[:, :, 1 + machine], answers(reference, of_16), rtol=1e-7, atol=1e-9)
        for feature, means in reference.a.items():
            at = 16 * machine
            found = lanes.state[feature, at : at + len(means)] + starts(machine)(feature)
            np.testing.assert_allclose(found, means, rtol=1e-7, atol=1e-9)
        upper = np.triu_indices(16)
        np.testing.assert_allclose(1.0 + lanes.pairs[machine, 0][upper], reference.ratio[upper], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(lanes.pairs[machine, 0], lanes.pairs[machine, 0].T)


def test_weights_of_pairs_go_on_where_steps_are_smaller_than_a_last_place():
    """In float32 as in float64: what they gain is rounded so that it is right on average, and stays symmetric."""
    batch, known, grown = some_rows(4, 3000, lengths=(8, 9, 20)), 1.5 * 2.0**24, {}  # float32 knows it to 2
    for dtype in ("float64", "float32"):
        lanes = factors.new_factors(WIDTH, True, dtype)
        lanes.pairs[:, 1] = known
        run(factors.run_factors, lanes, batch, 1, dtype=dtype)
        np.testing.assert_array_equal(lanes.pairs, lanes.pairs.swapaxes(2, 3))
        grown[dtype] = (lanes.pairs[:, 1] - known).mean(axis=(1, 2))
    assert (grown["float64"] < 3000 / 100).all()
    np.testing.assert_allclose(grown["float32"], grown["float64"], rtol=0.1)


def test_predicting_leaves_what_float32_cannot_say():
    """Weights of pairs in files of earlier versions have the places of float64."""
    batch, lanes = some_rows(5, 20), factors.new_factors(WIDTH, True, "float32")
    lanes.pairs[:] = np.random.default_rng(6).random((16, 16))
    before = lanes.pairs.copy()
    run(factors.run_factors, lanes, batch.with_labels(batch.labels, np.zeros(20)), 1, dtype="float32")
    np.testing.assert_array_equal(lanes.pairs, before)


# --- in the bank ------------------------------------------------------------------------------------------------------


def xor(seed: int, n: int, noise: float = 0.1, weigh=None):
    """Two columns of four values, and two that say nothing: the label is whether just one of the two is large."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, (n, 4))
    labels = ((cells[:, 0] > 1) ^ (cells[:, 1] > 1) ^ (rng.random(n) < noise)).astype(float)
    indices = (cells + 4 * np.arange(4)).ravel()
    groups = np.tile(np.arange(1, 5), n)
    return Batch.from_arrays(4 * np.arange(n + 1), indices, np.ones(4 * n), labels, weigh, groups=groups)


def loss(p, y) -> float:
    return float(-np.mean(np.log(np.where(y > 0, p, 1 - p))))


@pytest.mark.parametrize("kind", ["crosses", "factors"])
def test_pairs_learn_what_matters_only_together(kind):
    batch, later = xor(1, 4000), xor(2, 2000)
    plain, bank = Bank(16, head=0), Bank(16, pairs=kind, head=0)
    assert loss(plain.learn(batch), batch.labels) > 0.68
    bank.learn(batch)
    told = bank.predict(later, horizon="later")
    assert loss(told.probability, later.labels) < 0.36  # knowing everything it would be .325
    assert loss(plain.predict(later, horizon="later").probability, later.labels) > 0.68
    assert [str(output.lane) for output in bank.lanes][9:] == [str(lane) for lane in bank._pairs.lanes]


def test_only_pairs_that_were_asked_for_are_crossed():
    batch = xor(1, 2000)
    bank = Bank(16, pairs="crosses", cross=[[1, 2]], head=0)
    bank.learn(batch)
    met = bank._pairs.crosses.features
    columns = (met[met[:, 1] > 0].astype(int) - 1) // 4
    assert {tuple(sorted(pair)) for pair in columns.tolist()} == {(0, 1)}
    assert loss(bank.predict(xor(2, 1000), horizon="later").probability, xor(2, 1000).labels) < 0.36
    with pytest.raises(BadInput, match="pairs of groups such as"):
        Bank(16, pairs="crosses", cross=[[1, 2, 3]], head=0)
    with pytest.raises(BadInput, match="it must be one of 'crosses'"):
        Bank(16, pairs="every", head=0)


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_auto_drops_lanes_that_do_not_pay(noise, monkeypatch):
    """Where labels are noise no lane of pairs is left; where pairs matter the crosses stay. Saved and loaded so."""
    monkeypatch.setattr(pairs, "FIRST_CHECK_EXAMPLE", 1024)
    bank, batch = Bank(16, pairs="auto", head=0), xor(3, 3000, noise)
    split = Bank(16, pairs="auto", head=0)
    bank.learn(batch)
    for start in range(0, 3000, 700):
        split.learn(batch[start : start + 700])
    assert bank._pairs.live == split._pairs.live == [noise < 0.5]
    again = pickle.loads(pickle.dumps(bank))
    assert again._pairs.live == bank._pairs.live
    np.testing.assert_array_equal(again.learn(xor(4, 100)), bank.learn(xor(4, 100)))


def test_rounds_make_one_bank_of_shards_with_pairs():
    """The sum of what shards have gained predicts as one bank does, and pairs have their features."""
    batch, later, held = xor(5, 8000), xor(6, 2000), xor(7, 2000)
    whole, base = Bank(16, pairs="factors", head=0), Bank(16, pairs="factors", head=0)
    whole.learn(batch)
    rounds.learn_mergeable(base, batch[:2000])
    gains = [rounds.learn_shard(base, [batch[2000 + 2000 * k : 4000 + 2000 * k]], 3.0, k) for k in range(3)]
    rounds.apply(base, rounds.add(gains), 3.0)
    base.recombine([held])
    expected = loss(whole.predict(later, horizon="later").probability, later.labels)
    assert loss(base.predict(later, horizon="later").probability, later.labels) < expected + 0.01
    mine, theirs = (lane._pairs.crosses for lane in (base, whole))
    assert {*map(frozenset, mine.features.tolist())} == {*map(frozenset, theirs.features.tolist())}
    np.testing.assert_allclose(mine.weights[:, 1], theirs.weights[:, 1], rtol=0.2, atol=2.0)


def test_parts_with_pairs_merge():
    batch, later = xor(8, 8000), xor(9, 2000)
    parts = [Bank(16, pairs="factors", head=0) for _ in range(2)]
    for k, part in enumerate(parts):
        part.learn(batch[4000 * k : 4000 * (k + 1)])
    merged = parts[0].merge(parts[1])
    alone = [loss(part.predict(later, horizon="later").probability, later.labels) for part in parts]
    assert loss(merged.predict(later, horizon="later").probability, later.labels) < max(alone) + 0.005
