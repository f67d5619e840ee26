"""Bank answers to the reference in every option, says what it holds, merges, and does not need float64."""

import copy
import gzip
import json
import math
import multiprocessing

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from bayou import BadInput, Batch, simulate
from bayou.kernels.vector import LANES
from bayou.learners.bank import PRESETS, Bank, Lane, dropping, running
from bayou.learners.bank.inspection import FINALS
from bayou.learners.bank.lanes import HAS_LEARNED_SCALE, STREAM_ROWS
from bayou.learners.bank.linearization import intercept_of, lane_weights, weights_of
from bayou.learners.bank.row_scaling import UNIT_FIT_ROWS
from bayou.learners.bank.updates import LEAST_ROOT
from tests.reference.bank import BankReference, unit_of

WIDTH = 130  # the longest rows have 100 features
TOLERANCE = 1e-9


# --- against the reference --------------------------------------------------------------------------------------


def table(rows: list[tuple[np.ndarray, np.ndarray]], width: int = WIDTH) -> sparse.csr_array:
    """A matrix of rows of (features, values)."""
    indptr = np.cumsum([0] + [len(features) for features, _ in rows])
    indices, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return sparse.csr_array((values.astype(float), indices, indptr), shape=(len(rows), width))


LENGTHS = (0, 1, 7, 8, 9, 100)


def examples(seed: int, rows: int, sizes: tuple[float, float], ones: int = 0, indicators: float = 0.2, lengths=LENGTHS):
    """Rows, labels and weights. Values are about 10^size, with a size for each feature.

    The first rows hold only 1s, and the others hold this share of 1s.
    """
    rng = np.random.default_rng(seed)
    size = rng.uniform(*sizes, WIDTH)
    parts = []
    for row in range(rows):
        features = rng.choice(WIDTH, rng.choice(lengths), replace=False)
        values = rng.choice([-1.0, 1.0], len(features)) * 10 ** (size[features] + rng.uniform(-1, 1, len(features)))
        indicator = rng.random(len(features)) < (1.0 if row < ones else indicators)
        parts.append((features, np.where(indicator, 1.0, values)))
    y = rng.choice([-1.0, 1.0], rows)
    return table(parts), y, rng.choice([0.0, 0.3, 1.0, 1.0, 7.0, 1e4], rows)


STREAMS = {
    "usual": {"sizes": (-1, 1)},
    "all sizes": {"sizes": (-12, 8)},
    "tiny and 1s": {"sizes": (-12, -6)},
    "huge and 1s": {"sizes": (4, 8)},
    "tiny": {"sizes": (-12, -10), "indicators": 0.0},
    "huge": {"sizes": (6, 8), "indicators": 0.0},
    "indicators": {"sizes": (0, 0), "ones": 10**6},
    "indicators, then anything": {"sizes": (-12, 8), "ones": 30},
    "indicators, then near 1": {"sizes": (-1, 1), "ones": 30},
}
streams = pytest.mark.parametrize("stream", STREAMS)


def near(found, expected, size=0.0, tolerance: float = TOLERANCE) -> None:
    """Equal up to the tolerance, relative to the expected number plus `size`."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape
    error = np.abs(found - expected) / np.maximum(np.abs(expected) + size, 1e-300)
    assert error.max(initial=0.0) <= tolerance


def same_inside(bank: Bank, slow: BankReference) -> None:
    """The whole state and all that can be asked of it."""
    K = len(slow.outputs)
    stackers = bank._combination.stacker_mean, bank._combination.stacker_covariance, slow.stackers
    for mean, covariance, stacker in zip(*stackers, strict=True):
        sd = np.sqrt(np.diag(stacker.covariance))
        near(mean[: K + 2], stacker.mean, size=np.maximum(sd, 1e-3))
        near(covariance[: K + 2, : K + 2], stacker.covariance, size=np.outer(sd, sd))

    for k, lane in enumerate(slow.lanes):
        at = k // LANES * 2 * LANES + k % LANES
        variance = lane.variance(slow.square)
        mean, gained = (np.append(bank._lanes.state[:, at + n * LANES], bank._lanes.intercept[n, k]) for n in (0, 1))
        gained[:-1] *= bank._lanes.fade[0, k]
        if lane.lane.learned_prior:  # where precision times mean is kept
            mean[:-1] *= variance[:-1]
        if lane.lane.rate is None:
            near(mean, lane.mean, size=np.sqrt(variance))
            near(gained, lane.gained, size=1.0 / variance)
            prior = lane.prior_precision(np.arange(len(mean)), slow.square)
            near(1.0 / (prior + gained), variance)
        else:
            near(mean, lane.mean, size=lane.lane.rate)
            near(gained, lane.gained, size=LEAST_ROOT**2)
        near(bank._lanes.scale[0, k], lane.log_scale, size=1.0)
        near(bank._lanes.scale[1, k], lane.scale_gained, size=20.0)
    near(bank._lanes.squares[:, 1], slow.uses[:-1])
    near(bank._lanes.squares[:, 0][slow.uses[:-1] > 0], slow.square[:-1][slow.uses[:-1] > 0])

    stacking = np.zeros(K)
    if slow.stackers:
        stacking = np.average([stacker.mean[2:] for stacker in slow.stackers], axis=0, weights=slow.final_shares[1:])
    for o, output in enumerate(bank.lanes):
        lane, temper = slow.outputs[o]
        assert (output.lane, output.temper, output.kept) == (slow.lanes[lane].lane, temper, slow.kept[o])
        near(output.weight, slow.shares[o])
        near(output.stacking, stacking[o], size=1.0)
        if output.kept:  # what a dropped one would lose by saying nothing is nobody's business
            near(output.loss, slow.losses[o] / slow.weight)
        near(output.scale, math.exp(slow.lanes[lane].log_scale))
    assert tuple(bank.levels) == FINALS[: 2 + len(slow.stackers)]
    near([level["share"] for level in bank.levels.values()], [1.0, *slow.final_shares])
    near([level["loss"] for level in bank.levels.values()], slow.final_losses / slow.weight)

    mean, variance = slow.weights()
    unit = unit_of(slow.log_lengths)
    rate = max((lane.lane.rate * unit for lane in slow.lanes if lane.lane.rate is not None), default=0.0)
    any_gaussian = any(lane.lane.rate is None for lane in slow.lanes)
    # Those of the combination for the next row; the ones shown, for later rows, are in test_bank_later.
    found = weights_of(bank._lanes, bank._combination, np.arange(bank.n_features))
    near(found[0], mean[:-1], size=np.sqrt(variance[:-1]) + rate)
    near(found[1], variance[:-1], size=0.0 if any_gaussian else rate**2)
    if slow.has_intercept:
        intercept = intercept_of(bank._lanes, bank._combination)
        near(intercept[0], mean[-1], size=math.sqrt(variance[-1]))
        near(intercept[1], variance[-1])
    else:
        assert bank.intercept == (0.0, 0.0)


def test_mean_squares_do_not_depend_on_the_length_of_rows():
    """Short rows are counted number by number, others in vectors of which the last two overlap: the same bits."""
    values = np.random.default_rng(5).normal(size=(40, 5))
    counted = []
    for length in (5, 8, 13, 19):
        bank = Bank(19, head=0)
        rows = [dict(enumerate([*row, *[2.0] * (length - 5)])) for row in values]
        bank.learn(Batch.from_rows(rows, [1] * len(rows)))
        counted.append(bank._lanes.squares[:5])
        assert (bank._lanes.squares[:length, 1] == len(rows)).all()
        assert not bank._lanes.squares[length:].any()
    np.testing.assert_array_equal(counted[1:], counted[:1] * 3)


def same(bank: Bank, slow: BankReference, X, y, weights=None) -> None:
    """Learn in three pieces, predict in between, and look inside."""
    for rows in np.array_split(np.arange(X.shape[0]), 3):
        part, c = X[rows], None if weights is None else weights[rows]
        before = bank.predict(Batch.from_csr(part[:8]))
        probability, mean, variance = slow.predict(part[:8])
        near(before.probability, probability, size=1e-6)
        near(before.mean, mean, size=np.sqrt(variance))
        near(before.variance, variance, size=1e-12)
        near(bank.learn(Batch.from_csr(part, y[rows], c)), slow.learn(part, y[rows], c), size=1e-6)
    assert bank.examples == slow.learned
    same_inside(bank, slow)


OPTIONS = {
    "slim": {},
    "wide": {"preset": "wide"},
    "share": {"combine": "share"},
    "bare": {"intercept": False},
    "bare and wide": {"intercept": False, "preset": "wide", "combine": "share"},
    "sure intercept": {"intercept_variance": 0.01},
}


def rivals(preset: str = "slim", lanes=None, **options) -> tuple[Bank, BankReference]:
    fast = Bank(WIDTH, preset=preset, lanes=lanes, dtype="float64", **options, head=0)
    return fast, BankReference(WIDTH, preset if lanes is None else lanes, **options)


@streams
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_equal_the_reference_on_any_values_and_weights(preset, stream):
    X, y, weights = examples(0, 75, **STREAMS[stream])
    same(*rivals(preset), X, y, weights)


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_equals_the_reference(option):
    for seed, stream in enumerate(["all sizes", "indicators, then near 1"]):
        X, y, weights = examples(seed, 60, **STREAMS[stream])
        same(*rivals(**OPTIONS[option]), X, y, weights if option != "wide" else None)


@pytest.mark.parametrize("lanes", ["slim", [Lane(), Lane(rate=0.5, normalise=True), Lane(normalise=True, scale=True)]])
def test_features_that_are_no_indicators_once_in_a_while_equal_the_reference(lanes):
    """Few rows hold a value other than 1 or -1: squares are counted of the features that had one, and of no others."""
    X, y, weights = examples(3, 300, (0, 0), ones=10**6, lengths=(0, 1, 7, 8, 9, 30))
    places = np.random.default_rng(1).choice(np.arange(X.indptr[100], X.nnz), 6, replace=False)
    X.data[places] = 2.0, 3.0, 0.5, -2.0, -1.0, 2.0
    bank, slow = rivals(lanes=None if lanes == "slim" else lanes)
    same(bank, slow, X, y, weights)
    counted = bank._lanes.squares[:, 1] > 0
    assert 1 <= counted.sum() <= 5
    for one in (bank, copy.copy(bank), Bank(**bank.parameters).merge(bank)):
        marked = np.unpackbits(one._lanes.tracked, bitorder="little")[:WIDTH]
        np.testing.assert_array_equal(marked > 0, counted)


@pytest.mark.parametrize("preset", PRESETS)
def test_repeated_rows_equal_the_reference(preset):
    """They count less in the lanes, and teach the combination nothing."""
    X, y, weights = examples(4, 60, **STREAMS["usual"])
    bank, slow = rivals(preset)
    for _ in range(4):
        near(bank.learn(Batch.from_csr(X, y, weights)), slow.learn(X, y, weights), size=1e-6)
        bank.end_pass()
        slow.passes += 1
    same_inside(bank, slow)
    bank.new_stream()
    slow.passes = 0
    same(bank, slow, X, y, weights)


MIXED = [
    Lane(),
    Lane(3.0, scale=True, memory=0.05),
    Lane(2.0, normalise=True, memory=0.2),
    Lane(0.5, normalise=True, scale=True),
    Lane(rate=0.1),
    Lane(rate=2.0),
    Lane(0.2, temper=(2.0, 0.5), second=1.5),
    Lane(1e4, temper=(0.3, 0.1), second=0.0, scale=True),
    Lane(1e-4, normalise=True, scale=True, memory=1.0),
    Lane(rate=0.5, second=0.3, scale=True, normalise=True),
]
OWN = {
    "1": MIXED[:1],
    "1 scaled": MIXED[1:2],
    "1 normalised": MIXED[2:3],
    "1 AdaGrad": MIXED[4:5],
    "AdaGrads": [Lane(rate=0.1), Lane(rate=0.5), Lane(rate=2.0)],
    "3": MIXED[1:4],
    "8": MIXED[:8],
    "9": MIXED[:9],
    "17": (MIXED + MIXED)[:17],
}


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("combine", ["stack", "share"])
def test_lanes_of_ones_own_equal_the_reference(own, combine):
    streams = ["all sizes", "indicators, then near 1"]
    X, y, weights = examples(len(own), 48, **STREAMS[streams[combine == "share"]])
    same(*rivals(lanes=OWN[own], combine=combine), X, y, weights)


@pytest.mark.parametrize(
    ("preset", "narrowing"), [("slim", {10: 5, 40: 1}), ("wide", {1: 17, 20: 12, 33: 12, 50: 8}), ("wide", {25: 30})]
)
def test_narrowing_equals_the_reference(preset, narrowing, monkeypatch):
    monkeypatch.setattr(dropping, "NARROWING", narrowing)
    fast = Bank(WIDTH, preset=preset, narrowing=True, dtype="float64", head=0)
    slow = BankReference(WIDTH, preset, narrowing=narrowing)
    for seed, stream in enumerate(["usual", "indicators, then near 1"]):
        same(fast, slow, *examples(seed, 45, **STREAMS[stream]))
    assert sum(output.kept for output in fast.lanes) == min(*narrowing.values(), len(fast.lanes))


def test_a_lane_none_of_whose_outputs_is_kept_rests(monkeypatch):
    monkeypatch.setattr(dropping, "NARROWING", {30: 4})
    fast = Bank(WIDTH, narrowing=True, dtype="float64", head=0)
    X, y, _ = examples(0, 60, **STREAMS["usual"])
    fast.learn(Batch.from_csr(X[:30], y[:30]))
    kept = {output.lane for output in fast.lanes if output.kept}
    at = [k for k, lane in enumerate(PRESETS["slim"]) if lane not in kept]
    before = fast._lanes.state[:, at].copy(), fast._lanes.intercept[:, at].copy(), fast._lanes.scale[:, at].copy()
    fast.learn(Batch.from_csr(X[30:], y[30:]))
    assert len(at) >= 4
    for old, new in zip(before, (fast._lanes.state, fast._lanes.intercept, fast._lanes.scale), strict=True):
        np.testing.assert_array_equal(old, new[:, at])
    assert all(output.weight == 0 and output.stacking == 0 for output in fast.lanes if not output.kept)


@pytest.mark.parametrize(("early", "late"), [(1e-4, 1e-4), (1e3, 1e-3), (1e-3, 1.0)])
def test_the_unit_of_the_stream_equals_the_reference_before_and_after_it_is_settled(early, late):
    lanes = [Lane(scale=True), Lane(2.0, normalise=True), Lane(rate=0.5)]
    rng = np.random.default_rng(0)
    rows = UNIT_FIT_ROWS + 120
    parts = []
    for row in range(rows):
        features = rng.choice(12, rng.integers(0, 4), replace=False)
        parts.append((features, rng.normal(size=len(features)) * (early if row < UNIT_FIT_ROWS // 2 else late)))
    X, y = table(parts), rng.choice([-1.0, 1.0], rows)
    weights = np.where(np.arange(rows) % 9 == 0, 0.0, 1.0)
    fast, slow = rivals(lanes=lanes)
    same(fast, slow, X, y, weights)
    assert len(slow.log_lengths) < UNIT_FIT_ROWS  # empty rows, and rows that are not learned, do not count
    more = rng.permutation(np.flatnonzero(np.diff(X.indptr)))[: UNIT_FIT_ROWS // 2]
    same(fast, slow, X[more], y[more])
    assert len(slow.log_lengths) == UNIT_FIT_ROWS == fast._lanes.stream[STREAM_ROWS]


@pytest.mark.parametrize("sizes", [(-4, -3), (2, 3)])
def test_rows_of_nothing_but_1s_are_in_the_unit_of_the_stream_too(sizes):
    fast, slow = rivals()
    same(fast, slow, *examples(0, 30, sizes=sizes, indicators=0.0, lengths=(1, 7, 9)))
    X, y, _ = examples(1, 30, sizes=(0, 0), ones=30)
    assert Batch.from_csr(X).is_all_ones
    same(fast, slow, X, y)
    assert unit_of(slow.log_lengths) != 1.0


# --- what it says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_one_plain_lane_and_no_stackers_is_a_gaussian_and_says_so(intercept):
    X, y, _ = examples(0, 60, sizes=(0, 0), lengths=(7, 9))
    learner = Bank(WIDTH, lanes=[Lane()], combine="share", intercept=intercept, dtype="float64", head=0)
    learner.learn(Batch.from_csr(X, y))
    (output,), unit = learner.lanes, learner._lanes.factors()[0]
    assert (output.weight, output.stacking, output.scale) == pytest.approx((1.0, 0.0, 1.0))
    assert unit == 1.0
    means, variances = learner._lanes.state[:, 0], 1.0 / (1.0 + learner._lanes.state[:, LANES])
    np.testing.assert_allclose(learner.mean, means, rtol=1e-12)
    np.testing.assert_allclose(learner.variance, variances, rtol=1e-12)
    bias, bias_variance = learner.intercept
    assert (bias != 0.0) == intercept
    said = learner.predict(Batch.from_csr(X))
    np.testing.assert_allclose(said.mean, X @ means + bias, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(said.variance, X**2 @ variances + bias_variance, rtol=1e-10)
    shrink = np.sqrt(1.0 + np.pi / 8 * said.variance)
    np.testing.assert_allclose(said.probability, expit(said.mean / shrink), rtol=1e-12)


def test_weights_are_in_the_units_of_the_features():
    """Rows a thousand times as long, of a stream whose rows are too short either way: a thousandth of the weights."""
    X, y, _ = examples(1, 300, sizes=(-5, -5), lengths=(1, 7))
    short, longer = Bank(WIDTH, dtype="float64", head=0), Bank(WIDTH, dtype="float64", head=0)
    X.data[X.data == 1.0] = 1e-5
    p = short.learn(Batch.from_csr(X, y)), longer.learn(Batch.from_csr(X * 1e3, y))
    np.testing.assert_allclose(*p, rtol=1e-9)
    sd = np.sqrt(short.variance)
    np.testing.assert_allclose(longer.mean * 1e3 / sd, short.mean / sd, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(longer.variance * 1e6, short.variance, rtol=1e-9)


def linear(learner: Bank, X, horizon: str) -> tuple[float, float]:
    """How the bank's scores go with the sum of its weights: their correlation, and the slope."""
    combination = learner._later_combination if horizon == "later" else learner._combination
    weights = weights_of(learner._lanes, combination, np.arange(learner.n_features))[0]
    summed = X @ weights.astype(float) + intercept_of(learner._lanes, combination)[0]
    score = learner.predict(Batch.from_csr(X), horizon).mean
    return float(np.corrcoef(summed, score)[0, 1]), float(np.polyfit(summed, score, 1)[0])


def test_weights_add_up_to_the_score_where_lanes_are_damped_differently():
    """Rare features keep wide lanes unsure: what these say is damped to a tenth, their coefficients are not."""
    rng = np.random.default_rng(0)
    n, width, words = 4000, 20_000, 15
    chances = np.cumsum(1.0 / np.arange(1, width + 1) ** 0.7)
    columns = np.searchsorted(chances, rng.random((n, words)) * chances[-1]).ravel()
    X = sparse.csr_array((np.ones(n * words), (np.repeat(np.arange(n), words), columns)), shape=(n, width))
    X.data[:] = 1.0
    w = rng.normal(0, 3.0, width) * (rng.random(width) < 0.3)
    learner = Bank(width, head=0)
    learner.learn(Batch.from_csr(X, rng.random(n) < expit(X @ w - 3.0)))
    assert linear(learner, X, "later")[0] > 0.99
    correlation, slope = linear(learner, X, "next")
    assert correlation > 0.99
    assert 0.7 < slope < 1.4
    learner._combination.damping[:] = 0.0  # as if damped logits were the lanes' own means
    assert not 0.2 < linear(learner, X, "next")[1] < 5.0


def test_a_word_of_spam_has_a_positive_weight(data_directory):
    with gzip.open(data_directory / "sms_spam.jsonl.gz", "rt", encoding="utf-8") as file:
        messages = [json.loads(line) for line in file]
    counts = CountVectorizer(binary=True)
    X = sparse.csr_array(counts.fit_transform([message["text"] for message in messages]), dtype=float)
    learner = Bank(X.shape[1], head=0)
    learner.learn(Batch.from_csr(X, [float(message["label"]) for message in messages]))
    assert linear(learner, X, "later")[0] > 0.9
    spam, ham = (
        learner.mean[[counts.vocabulary_[word] for word in words]] for words in (("txt", "claim"), ("my", "me"))
    )
    assert (spam > 0).all()
    assert (ham < 0).all()


@pytest.mark.parametrize("unit", [1e-13, 1e-6, 1e6])
def test_normalised_lanes_mind_no_units(unit):
    lanes = [Lane(2.0, normalise=True), Lane(0.3, normalise=True, scale=True, memory=0.01)]
    X, y, _ = examples(2, 200, sizes=(-1, 1), indicators=0.0, lengths=(1, 7))
    one, other = Bank(WIDTH, lanes=lanes, dtype="float64", head=0), Bank(WIDTH, lanes=lanes, dtype="float64", head=0)
    p, q = one.learn(Batch.from_csr(X, y)), other.learn(Batch.from_csr(X * unit, y))
    np.testing.assert_allclose(q, p, rtol=1e-9)
    seen = np.unique(X.indices)
    np.testing.assert_allclose(other.variance[seen] * unit**2, one.variance[seen], rtol=1e-9)


def test_a_fresh_bank_knows_only_its_priors():
    learner = Bank(3, head=0)
    assert {output.loss for output in learner.lanes} == {level["loss"] for level in learner.levels.values()}
    assert learner.lanes[0].loss == pytest.approx(math.log(2))
    assert not learner.mean.any()
    lanes = [output.lane for output in learner.lanes]
    variances = [lane.prior_variance for lane in lanes if lane.rate is None and not lane.memory]
    np.testing.assert_allclose(learner.variance, np.mean(variances), rtol=1e-6)
    assert learner.predict(Batch.from_rows([{0: 1.0}])).probability[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("lanes", "words"),
    [
        ([], "1 to 64 lanes"),
        ([Lane()] * 65, "1 to 64 lanes"),
        ("slim", "list"),
        (3, "list"),
        ([1.0], "not a lane"),
        ([{"variance": 1.0}], "not a lane"),
        ([{"temper": 1.0}], "temper is two numbers"),
        ([{"temper": (1.0,)}], "temper is two numbers"),
        ([{"temper": (1.0, 0.001)}], "temper"),
        ([{"temper": (0.0, 1.0)}], "temper"),
        ([{"temper": (1.0, np.nan)}], "temper"),
        ([{"prior_variance": 0.0}], "prior_variance"),
        ([{"prior_variance": 1e-7}], "prior_variance"),
        ([{"prior_variance": 1e7}], "prior_variance"),
        ([{"prior_variance": None}], "prior_variance"),
        ([{"second": -1.0}], "second"),
        ([{"scale": 1}], "scale"),
        ([{"normalise": "yes"}], "normalise"),
        ([{"memory": -0.1}], "memory"),
        ([{"memory": np.inf}], "memory"),
        ([{"rate": 0.0}], "rate"),
        ([Lane(), {"rate": "fast"}], "rate"),
    ],
    ids=str,
)
def test_bad_lanes_are_refused_with_a_sentence(lanes, words):
    with pytest.raises(BadInput, match=words) as refusal:
        Bank(3, lanes=lanes, head=0)
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize(
    "parameters",
    [
        {"preset": "narrow"},
        {"combine": "vote"},
        {"narrowing": 1},
        {"narrowing": True, "combine": "share"},
        {"intercept_variance": 0.0},
        {"intercept_variance": 1e16},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(parameters):
    with pytest.raises(BadInput, match=next(iter(parameters))):
        Bank(3, **parameters, head=0)


def test_lanes_may_be_given_as_mappings():
    as_lanes, as_mappings = (
        Bank(3, lanes=[Lane(2.0, scale=True)], head=0),
        Bank(3, lanes=[{"prior_variance": 2, "scale": True}], head=0),
    )
    assert as_lanes.lanes == as_mappings.lanes
    assert as_lanes.parameters == as_mappings.parameters


# --- float32 ----------------------------------------------------------------------------------------------------


def simulated(stream: simulate.Simulation, rows: int, start: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    batch = next(stream.batches(rows, batch_size=rows, start=start))
    return batch.to_csr(stream.n_features).astype(float), batch.labels


@pytest.mark.parametrize("generator", [simulate.random, simulate.nonbinary])
def test_float32_loses_next_to_nothing(generator):
    stream = generator(n_features=300)
    X, y = simulated(stream, 20_000)
    single, double = (Bank(300, dtype=dtype, head=0) for dtype in ("float32", "float64"))
    for learner in (single, double):
        learner.learn(Batch.from_csr(X, y))
    for mine, exact in zip(single.lanes, double.lanes, strict=True):
        assert mine.loss == pytest.approx(exact.loss, rel=1e-3)
    for name in FINALS:
        assert single.levels[name]["loss"] == pytest.approx(double.levels[name]["loss"], rel=1e-3)
    assert single.levels["bank"]["loss"] < 0.9 * math.log(2)


def test_a_feature_of_every_row_in_float32_stays_near_float64():
    """As after a hundred million examples at one rate, then some at another: a step is far below a last place of the
    mean, and rounded to nearest it would not move at all."""
    rate, gained, rows = 0.1, 1e7, 250_000
    learners = [Bank(1, dtype=dtype, intercept=False, head=0) for dtype in ("float32", "float64")]
    start = np.float32(math.log(rate / (1 - rate)))
    for learner in learners:
        learner._lanes.state[0, :LANES], learner._lanes.state[0, LANES:] = start, gained
        learner._lanes.state[0, 0] *= gained  # a lane that learns its prior keeps precision times mean
        learner._lanes.scale[1] = 1e12 * (learner._lanes.settings[HAS_LEARNED_SCALE] > 0)  # scales are known and stay
    X = sparse.csr_array(np.ones((rows, 1)))
    y = np.where(np.random.default_rng(0).random(rows) < 2 * rate, 1.0, -1.0)
    for learner in learners:
        learner.learn(Batch.from_csr(X, y))
    sd = 1.0 / math.sqrt(gained)
    assert gained**-1 * rate < 0.1 * np.spacing(abs(start))
    for k, lane in enumerate(PRESETS["slim"]):
        single, double = (float(lane_weights(learner._lanes, k, np.zeros(1, int)).mean[0]) for learner in learners)
        assert double - start > 5 * sd
        assert abs(single - double) < 0.1 * sd
        if not lane.forgets:
            assert learners[0]._lanes.state[0, LANES + k] == pytest.approx(
                learners[1]._lanes.state[0, LANES + k], rel=1e-5
            )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("score", [20.0, 45.0, 55.0, 65.0, 100.0])
def test_a_new_feature_in_a_row_that_adagrad_is_sure_of_moves_by_its_rate_at_most(dtype, score):
    """The square of its gradient may vanish in float32 while the gradient does not."""
    learner = Bank(2, lanes=[Lane(rate=0.8)], combine="share", intercept=False, dtype=dtype, head=0)
    learner.learn(Batch.from_csr(sparse.csr_array(np.ones((30, 1))), np.ones(30)))
    value = score / float(learner.mean[0])
    learner.learn(Batch.from_csr(sparse.csr_array([[value, 1.0]]), [1.0]))
    assert 0.0 <= learner.mean[1] <= 0.8001


# --- merging, and others ----------------------------------------------------------------------------------------


def log_loss(p, y) -> float:
    return float(-np.mean(np.log(np.where(y > 0, p, 1.0 - p))))


@pytest.mark.parametrize("generator", [simulate.random, simulate.nonbinary])
def test_two_halves_merged_are_nearly_as_good_as_the_whole(generator):
    stream = generator(n_features=400)
    first, second, third = (simulated(stream, 10_000, start) for start in (0, 10_000, 20_000))
    one, other, both = (Bank(400, head=0) for _ in range(3))
    for learner, parts in ((one, [first]), (other, [second]), (both, [first, second])):
        for X, y in parts:
            learner.learn(Batch.from_csr(X, y))
    merged = one.merge(other)
    X, y = third
    losses = [log_loss(learner.predict(Batch.from_csr(X)).probability, y) for learner in (one, other, merged, both)]
    assert losses[2] < 1.02 * losses[3]
    assert losses[2] < 0.98 * min(losses[:2])
    assert merged.examples == both.examples
    # Fit by the merged state alone: going on from it is no worse.
    X, y = simulated(stream, 5_000, 30_000)
    assert log_loss(merged.learn(Batch.from_csr(X, y)), y) < 1.05 * log_loss(both.learn(Batch.from_csr(X, y)), y)


@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_what_knows_nothing_adds_nothing_and_the_order_of_merging_does_not_matter(size):
    X, y, weights = examples(5, 300, sizes=(-1, 1), lengths=(1, 7))
    X = X * size
    one, other, fresh = (Bank(WIDTH, dtype="float64", head=0) for _ in range(3))
    one.learn(Batch.from_csr(X[:50], y[:50]))
    ancestor = one.snapshot()
    one.learn(Batch.from_csr(X[50:150], y[50:150], weights[50:150]))
    other.learn(Batch.from_csr(X[150:], y[150:]))
    rows = Batch.from_csr(X)
    for merged in (one.merge(fresh), fresh.merge(one), one.merge(ancestor, base=ancestor)):
        np.testing.assert_allclose(merged.predict(rows).probability, one.predict(rows).probability, rtol=1e-6)
        np.testing.assert_allclose(merged.variance, one.variance, rtol=1e-6)
        assert merged.levels["bank"]["loss"] == pytest.approx(one.levels["bank"]["loss"])
    there, back = one.merge(other), other.merge(one)
    np.testing.assert_allclose(there.predict(rows).probability, back.predict(rows).probability, rtol=1e-6)
    # More than each knows, less than their sum, by which a prior that both have left would count as one left twice.
    at = next(k for k, lane in enumerate(PRESETS["slim"]) if lane.normalise and not lane.forgets)
    both, *each = (lane_weights(learner._lanes, at, np.arange(WIDTH)).variance for learner in (there, one, other))
    assert np.all(both <= np.maximum(*each) * (1 + 1e-9))
    both, *each = (learner._lanes.state[:, LANES + at] for learner in (there, one, other))
    assert (both <= (each[0] + each[1]) * (1 + 1e-9)).all()
    assert (both >= np.maximum(each[0], each[1]) / 2).all()
    assert both.sum() > 0.8 * (each[0] + each[1]).sum()


@pytest.mark.parametrize("preset", PRESETS)
def test_one_pass_is_nearly_as_good_as_logistic_regression_solved(preset):
    stream = simulate.random(n_features=400, active=0.05)
    X, y = simulated(stream, 20_000)
    learner, solved = Bank(400, preset=preset, head=0), LogisticRegression(max_iter=300).fit(X, y)
    learner.learn(Batch.from_csr(X, y))
    X, y = simulated(stream, 20_000, 20_000)
    one_pass = log_loss(learner.predict(Batch.from_csr(X)).probability, y)
    best = log_loss(solved.predict_proba(X)[:, 1], y)
    truth = log_loss(expit(X @ stream.weights), y)
    assert truth < best < 0.8 * math.log(2)
    assert one_pass < 1.02 * best


# --- the combination follows the lanes in another thread ----------------------------------------------------------


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_narrowing_leaves_shares_to_the_outputs_that_stay(seed, monkeypatch):
    """Heavy rows give all shares to one output, and that one may be let go."""
    monkeypatch.setattr(dropping, "NARROWING", {40: 12, 101: 8})
    X, y, weights = examples(seed, 200, (-1, 1))
    batch, learner = Batch.from_csr(X, y, weights), Bank(WIDTH, preset="wide", narrowing=True, head=0)
    for row in range(len(batch)):
        learner.learn(batch[row : row + 1])
        assert learner._later_combination.shares.sum() == pytest.approx(1.0)
        assert np.isfinite(learner.predict(batch[:5], horizon="later").probability).all()
    assert all(np.isfinite(array).all() for array in learner._arrays().values())


@pytest.mark.parametrize("options", [{}, {"combine": "share"}, {"preset": "wide", "narrowing": True}], ids=str)
def test_how_far_the_combination_follows_changes_no_bit(options, monkeypatch):
    monkeypatch.setattr(dropping, "NARROWING", {40: 12, 101: 8})
    X, y, weights = examples(5, 200, (-1, 1))
    batch = Batch.from_csr(X, y, weights)
    answers = []
    for stride in (1, 7, 64, 1000):
        monkeypatch.setattr(running, "STRIDE_ROWS", stride)
        learner = Bank(WIDTH, **options, head=0)
        learned = learner.learn(batch)
        predicted = learner.predict(batch)
        answers.append(
            [learned, predicted.probability, predicted.mean, predicted.variance, *learner._arrays().values()]
        )
    for answer in answers[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(answer, answers[0], strict=True))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs processes that fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking where there are threads: that is the point
def test_a_forked_process_has_a_follower_of_its_own(monkeypatch):
    monkeypatch.setattr(running, "STRIDE_ROWS", 16)
    X, y, _ = examples(6, 100, (-1, 1))
    batch = Batch.from_csr(X, y)
    learner = Bank(WIDTH, head=0)
    learner.learn(batch)
    expected = learner.predict(batch).probability
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(_predicted, (learner, X)).get(timeout=60)
    assert np.array_equal(found, expected)


def _predicted(learner: Bank, X: sparse.csr_array) -> np.ndarray:
    return learner.predict(Batch.from_csr(X)).probability


def test_what_goes_wrong_in_the_follower_is_said(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(running, "STRIDE_ROWS", 16)
    monkeypatch.setattr(running, "combine", broken)
    X, _, _ = examples(6, 100, (-1, 1))
    with pytest.raises(RuntimeError, match="broken"):
        Bank(WIDTH, head=0).predict(Batch.from_csr(X))
