"""Weights as people read them: against the same in dense NumPy, and against draws."""

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou import Batch, sources
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.learners import FTRL, Bank, Marginal
from bayou.learners.bank import Lane
from bayou.learners.bank.linearization import lane_component
from bayou.outputs.features import feature_strengths, top_rows


def table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    site, hour = rng.choice(["a", "b", "c=d"], n, p=[0.6, 0.3, 0.1]), rng.integers(0, 24, n)
    words = [" ".join(rng.choice(["red", "blue", "green", "old"], rng.integers(1, 4))) for _ in range(n)]
    score = (site == "b") * 1.5 - 1.0 + 0.05 * hour + np.array(["red" in text for text in words])
    columns = {"site": site, "hour": hour, "size": rng.normal(size=n), "title": words}
    return pa.table({**columns, "y": (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int)})


OPTIONS = {"label": "y", "text": ["title"], "numeric": ["size"], "bits": 12}
NO_HEAD = {"head": 0}  # weights of a head are joint


@pytest.fixture(scope="module")
def data():
    return table()


@pytest.fixture(scope="module", params=["marginal", "bank"])
def learner(data, request):
    settings = NO_HEAD if request.param == "bank" else {}
    return bayou.train(data, learner=request.param, settings=settings, **OPTIONS).learner


@pytest.fixture(scope="module")
def marginal(data):
    return bayou.train(data, learner="marginal", **OPTIONS).learner


def matrix(learner, data) -> np.ndarray:
    batches = sources.open(data, extras=Extras.of(learner).for_predicting())
    return np.concatenate([batch.to_csr(learner.n_features).toarray() for batch in batches])


def families(shown) -> dict:
    return {(family.column, family.kind): family.complete for family in shown.families}


def test_columns_with_one_feature_a_row_are_centred_and_no_score_changes(learner, data):
    shown, X = feature_strengths(learner), matrix(learner, data)[:, learner.touched]
    raw = learner.weight_view(learner.touched, squares=(X**2).mean(axis=0))
    assert families(shown) == {
        ("site", "value"): True,
        ("hour", "bin"): True,
        ("hour", "value"): True,
        ("size", "value"): False,
        ("title", "value"): False,
    }
    site = list(families(shown)).index(("site", "value"))
    assert set(np.array(shown.names)[shown.family == site]) == {"site=a", "site=b", "site=c=d"}
    free = np.isin(shown.family, [k for k, family in enumerate(shown.families) if not family.complete])
    np.testing.assert_allclose(shown.mean[free], raw.mean[free])
    parts = X * shown.mean
    for k, family in enumerate(shown.families):
        if family.complete:
            assert parts[:, shown.family == k].sum(axis=1).mean() == pytest.approx(0.0, abs=1e-6)
    # The intercept is the score of the mean row: words and numbers count from their means.
    score = X @ raw.mean + raw.intercept
    np.testing.assert_allclose(parts.sum(axis=1) - parts.mean(axis=0)[free].sum() + shown.intercept, score, atol=1e-5)
    assert shown.intercept == pytest.approx(score.mean(), abs=1e-6)


def test_variances_are_those_of_the_contrasts(learner, data):
    """By draws: one of the parts, then its weights."""
    shown, X = feature_strengths(learner), matrix(learner, data)[:, learner.touched]
    parts = learner.weight_view(learner.touched, squares=(X**2).mean(axis=0)).parts
    rng, n = np.random.default_rng(0), 40_000
    drawn = []
    for part, times in zip(parts, rng.multinomial(n, [part.share for part in parts]), strict=True):
        w = part.weights.mean + part.weights.sd * rng.normal(size=(times, len(shown.mean)))
        b = part.intercept[0] + np.sqrt(part.intercept[1]) * rng.normal(size=(times, 1))
        centred = w.copy()
        for k, family in enumerate(shown.families):
            if family.complete:
                own = shown.family == k
                centred[:, own] -= (w[:, own] @ X[:, own].mean(axis=0))[:, None]
        drawn.append(np.hstack([b + (w @ X.mean(axis=0))[:, None], centred]))
    sd = np.concatenate(drawn).std(axis=0)
    np.testing.assert_allclose(np.append(shown.intercept_sd, shown.sd), sd, rtol=0.05)


def test_a_banks_weights_add_up_to_the_log_odds(data):
    """Each lane's part damped as in the mean row; before, in the mean of the last thousand rows."""
    bank = bayou.train(data, settings=NO_HEAD, **OPTIONS).learner
    X, touched = matrix(bank, data)[:, bank.touched], bank.touched
    said = bank.predict(Batch.from_csr(matrix(bank, data)), horizon="later").log_odds
    for squares in (X**2).mean(axis=0), None:
        reading = bank.weight_view(touched, squares=squares)
        summed = X @ reading.mean + reading.intercept
        assert np.corrcoef(summed, said)[0, 1] > 0.98
        assert 0.8 < np.polyfit(summed, said, 1)[0] < 1.25
    lane = next(k for k, lane in enumerate(bank._chosen) if lane.normalise)
    own = lane_component(bank._lanes, lane, touched)
    root = np.sqrt(1.0 + np.pi / 8 * ((X**2).mean(axis=0) @ own.weights.variance + own.intercept[1]))
    reading = bank.weight_view(touched, squares=(X**2).mean(axis=0))
    part = next(p for p in reading.parts if np.allclose(p.weights.mean * root, own.weights.mean, rtol=1e-6))
    np.testing.assert_allclose(part.weights.variance * root**2, own.weights.variance, rtol=1e-6)


def test_what_a_column_carries_is_the_spread_of_its_part_of_the_score(marginal, data):
    shown, X = feature_strengths(marginal), matrix(marginal, data)[:, marginal.touched]
    found = {column.name: column for column in shown.columns()}
    parts = X * shown.mean
    for name in ("site", "hour", "size"):
        own = np.array([family.column == name for family in shown.families])[shown.family]
        assert found[name].spread == pytest.approx(parts[:, own].sum(axis=1).std(), rel=1e-5)
        assert found[name].features == own.sum()
    words = np.array([family.column == "title" for family in shown.families])[shown.family]
    assert found["title"].spread == pytest.approx(np.sqrt(parts[:, words].var(axis=0).sum()), rel=1e-5)
    assert list(found) == sorted(found, key=lambda name: -found[name].spread)
    telling = found["site"].top_features
    assert shown.name(telling[0]) == "site=b"
    assert (np.abs(shown.mean[telling]) > 1.6 * shown.sd[telling]).all()


def test_a_stronger_columns_weights_are_not_hidden_by_where_the_level_lies():
    """Labels whose level drifts: the intercept and all sites share it in any way, and the sites differ by 1."""
    rng = np.random.default_rng(0)
    n = 6000
    site, level = rng.integers(0, 2, n), np.where(np.arange(n) % 2000 < 1000, -2.0, 2.0)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-level - site))
    shown = feature_strengths(bayou.train(pa.table({"site": site.astype(str), "y": y.astype(int)}), label="y").learner)
    site0, site1 = (shown.mean[shown.names.index(f"site={k}")] for k in range(2))
    assert -0.7 < site0 < 0.0 < site1 < 0.7
    assert abs(shown.intercept) < 3.0
    assert shown.sd.max() < 0.2


def test_what_was_never_counted_is_shown_as_it_is(marginal):
    marginal = marginal.snapshot()
    marginal.extras = Extras(marginal.extras.recipe, marginal.extras.names)
    shown = feature_strengths(marginal)
    np.testing.assert_array_equal(shown.mean, marginal.weights_at(marginal.touched).mean)
    assert (shown.intercept, shown.moments, shown.columns()) == (marginal.intercept[0], None, [])


def test_weights_of_exactly_0_stay(data):
    learner = bayou.train(data, learner="ftrl", settings={"l1": 3.0}, **OPTIONS).learner
    shown = feature_strengths(learner)
    assert isinstance(learner, FTRL)
    assert (shown.mean == 0).any()
    np.testing.assert_array_equal(shown.mean == 0, learner.weights_at(learner.touched).mean == 0)
    assert shown.sd is None
    assert np.isnan(shown.intercept_sd)


def test_crosses_and_namespaces_are_columns_too(tmp_path):
    data = table(300)
    learner = bayou.train(data, learner="marginal", cross=[("site", "title")], **OPTIONS).learner
    names = {family.column for family in feature_strengths(learner).families}
    assert "site & title" in names
    lines = ["1 |site a |user x y", "-1 |site b |user x", "1 |site a |user z"] * 50
    (tmp_path / "d.vw").write_text("\n".join(lines) + "\n")
    learner = bayou.train(tmp_path / "d.vw", learner="marginal", bits=10).learner
    assert families(feature_strengths(learner)) == {("site", "value"): True, ("user", "value"): False}


def test_the_associated_view_is_the_banks_most_careful_lane(data):
    bank = bayou.train(data, **OPTIONS).learner
    reading = bank.weight_view([1, 2, 3], "associated")
    expected = np.exp(bank._lanes.scale[0, 0]) * bank._lanes.state[1:4, 0]
    np.testing.assert_array_equal(reading.mean, expected)
    squares = np.array([0.0, 0.5, 0.25])
    variance = squares @ reading.parts[0].weights.variance + reading.parts[0].intercept[1]
    damped = bank.weight_view([1, 2, 3], "associated", squares)
    np.testing.assert_allclose(damped.mean, expected / np.sqrt(1.0 + np.pi / 8 * variance), rtol=1e-12)
    with pytest.raises(BadInput, match="only the bank has another"):
        Marginal(4).weight_view([0], "associated")
    plain = Bank(4, lanes=[Lane()])
    with pytest.raises(BadInput, match="no scaled lane"):
        plain.weight_view([0], "associated")


def test_a_standardised_number_keeps_its_weight():
    """It comes with every row and has a mean square of 1, as one value of a column does; it is none."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=600).round(3)
    label = (size + rng.normal(size=600) > 0).astype(int)
    data = pa.table({"size": size, "site": rng.choice(["a", "b"], 600), "y": label})
    learner = bayou.train(data, label="y", learner="marginal", bits=10).learner
    shown = feature_strengths(learner)
    place = shown.names.index("size")
    assert shown.moments.seen[place] == pytest.approx(1.0, abs=0.01)
    assert shown.moments.square[place] == pytest.approx(1.0, abs=0.02)
    assert shown.mean[place] == learner.mean[shown.features[place]]
    assert shown.mean[place] > 1.0


@pytest.mark.parametrize("slope", ["rank", "raw"])
def test_slopes_and_parts_of_dates(slope):
    rng = np.random.default_rng(1)
    n = 900
    when = np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 366 * 24, n).astype("timedelta64[h]")
    step, size = rng.integers(0, 12, n), rng.gamma(2.0, size=n)
    late = rng.random(n) < 1 / (1 + np.exp(2.0 - 0.2 * step - 0.5 * size))
    data = pa.table({"when": pa.array(when), "step": step, "size": size, "y": late.astype(int)})
    learner = bayou.train(data, label="y", learner="marginal", bits=14, slope=slope).learner
    shown, X = feature_strengths(learner), matrix(learner, data)[:, learner.touched]
    assert ("size (raw)" in shown.names) == (slope == "raw")
    assert families(shown) == {
        **{("when", part): True for part in ("hour", "weekday", "month", "weekend hour")},
        **{("step", "value"): True, ("step", "slope"): False, ("size", "bin"): True, ("size", "slope"): False},
    }
    spread = {column.name: column.spread for column in shown.columns()}
    for name, close in {"step": 1e-5, "size": 0.05}.items():  # within a bin a slope is taken at one place
        own = [k for k, feature in enumerate(shown.names) if feature.startswith(name)]
        assert spread[name] == pytest.approx(np.std(X[:, own] @ shown.mean[own]), rel=close)


@pytest.mark.parametrize("n", [0, 1, 4, 5, 6, 9])
def test_the_top_rows_are_those_of_a_stable_sort(n):
    key = np.array([2.0, np.nan, 5.0, 2.0, 5.0, np.inf, 2.0, 0.0, -np.inf])
    assert top_rows(key, n).tolist() == [5, 2, 4, 0, 3, 6, 7, 1, 8][:n]


def test_centred_weights_in_a_head_have_the_variance_of_their_contrast(data):
    learner = bayou.train(data, settings={"head": 128}, **OPTIONS).learner
    shown = feature_strengths(learner)
    assert shown.sd is not None
    assert shown.moments is not None
    shares, diagonal = shown.moments.mean, learner.variance[shown.features]
    checked, ratios = 0, []
    for k, family in enumerate(shown.families):
        rows = np.flatnonzero(shown.family == k)
        for row in rows if family.complete else ():
            factors = (rows == row) - shares[rows]
            own = learner.contrast(shown.features[rows], factors)
            assert shown.sd[row] == pytest.approx(float(own.sd), rel=1e-6), shown.name(row)
            assert shown.mean[row] == pytest.approx(float(own.mean), abs=1e-5)
            ratios.append(shown.sd[row] ** 2 / (factors**2 @ diagonal[rows]))
            checked += 1
    assert checked > 40
    assert min(ratios) < 0.7  # as if weights were independent, the variance would be larger than it is
    joint = bayou.posterior(learner)
    factors = np.append(1.0, shares)
    assert shown.intercept == pytest.approx(factors @ joint["mean"].to_numpy())
    assert shown.intercept_sd**2 == pytest.approx(factors @ np.array(joint["covariance"].to_pylist()) @ factors)
