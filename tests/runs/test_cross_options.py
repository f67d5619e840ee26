"""Pairs that somebody asks for: in lanes of the bank's own, by name, in every kind of data; features of others."""

import numpy as np
import pyarrow as pa
import pytest

import bayou
from bayou import BadInput, sources
from bayou.outputs.explanations import Explainer
from bayou.outputs.features import feature_strengths
from bayou.outputs.pair_features import has_pairs, pair_strengths
from bayou.runs.compare import compare


def clicks(n: int = 3000, seed: int = 0) -> dict[str, list]:
    """Users of one kind click on ads of the same kind; the hour says nothing."""
    rng = np.random.default_rng(seed)
    user, ad = rng.choice(["young", "old"], n), rng.choice(["game", "tea"], n)
    clicked = ((user == "young") == (ad == "game")) ^ (rng.random(n) < 0.1)
    return {"user": list(user), "ad": list(ad), "hour": [f"h{h}" for h in rng.integers(0, 5, n)], "clicked": clicked}


@pytest.fixture(scope="module")
def trained():
    return bayou.train(pa.table(clicks()), label="clicked", cross=[("user", "ad")], bits=12).learner


def test_a_cross_is_a_lane_of_the_bank_and_a_feature_of_others(trained):
    recipe = trained.extras.recipe
    assert (recipe.cross, recipe.pairs) == ((), (("user", "ad"),))
    assert trained.parameters["pairs"] == "crosses"
    assert trained.parameters["cross"] == [[1, 2]]
    (batch,) = sources.open(pa.table(clicks(50, seed=1)), extras=trained.extras, groups=True)
    assert np.diff(batch.indptr).max() == 3
    p = trained.predict(batch, horizon="later").probability
    assert ((p > 0.5) == (batch.labels > 0)).mean() > 0.8
    other = bayou.train(pa.table(clicks(100)), label="clicked", cross=[("user", "ad")], bits=12, learner="marginal")
    assert other.learner.extras.recipe.cross == (("user", "ad"),)
    assert other.evaluation.nonzeros == 400


def test_pairs_have_names_and_explain(trained):
    shown = pair_strengths(trained)
    assert has_pairs(trained)
    found = {shown.name(k): shown.mean[k] for k in shown.top(4)}
    weights = feature_strengths(trained)  # of features alone
    assert 0.001 < weights.sd.min() < weights.sd.max() < 0.5
    assert trained.variance[weights.features].min() > 1e-6
    assert {name for name, mean in found.items() if mean > 0} == {"user=young & ad=game", "user=old & ad=tea"}
    (batch,) = sources.open(pa.table(clicks(40, seed=2)), extras=trained.extras, groups=True)
    told = trained.predict(batch, horizon="later")
    explainer = Explainer(trained, 3)
    why, by, others = explainer.explain(batch, told)
    rows = clicks(40, seed=2)
    for row in range(40):
        assert why[0][row] == f"user={rows['user'][row]} & ad={rows['ad'][row]}"
    np.testing.assert_allclose(by.sum(axis=0) + others + explainer.average, told.log_odds, atol=1e-9)
    assert np.abs(by[0]).min() > 5 * np.abs(by[1]).max()


def test_resuming_keeps_the_pairs_and_takes_the_option_again(trained, tmp_path):
    trained.save(tmp_path / "m.bayou")
    more = bayou.train(pa.table(clicks(50)), resume=tmp_path / "m.bayou", cross=[("user", "ad")]).learner
    assert more.examples == trained.examples + 50
    with pytest.raises(bayou.BadModel, match=r"cross=.*'hour'.* was given, but the recipe"):
        bayou.train(pa.table(clicks(50)), resume=tmp_path / "m.bayou", cross=[("user", "hour")])


def test_numbers_have_no_lanes_of_pairs():
    """Whoever asks for them, and however; nothing is said of an option that was not given."""
    prices = pa.table({"site": ["a", "b"] * 50, "price": [k % 9 + 0.5 for k in range(100)]})
    model = bayou.train(prices, label="price", bits=4).learner
    said = (
        "lanes of pairs need two classes; for several classes or numbers, "
        "cross= and interactions= make features of pairs."
    )
    for options in ({}, {"learner": "gaussian"}, {"like": model}):
        named = {} if "like" in options else {"label": "price", "bits": 4}
        for settings in (["pairs=factors"], {"pairs": "factors"}):
            with pytest.raises(BadInput) as error:
                bayou.train(prices, settings=settings, **options, **named)
            assert str(error.value) == said
    with pytest.raises(BadInput) as error:
        compare(prices, ["bank:pairs=factors"], label="price", bits=4)
    assert str(error.value) == f"learners='bank:pairs=factors': {said}"


def test_all_pairs_of_columns_are_the_default_and_several_classes_are_refused():
    learner = bayou.train(pa.table(clicks(300)), label="clicked", settings={"pairs": "auto"}, bits=12).learner
    assert (learner.parameters["pairs"], learner.parameters["cross"]) == ("auto", "columns")
    assert len(pair_strengths(learner).mean) == 4 + 2 * 10
    with pytest.raises(BadInput, match="lanes of pairs need two classes"):
        bayou.train(pa.table(clicks(300)), label="hour", settings={"pairs": "auto"}, bits=12)
    several = bayou.train(pa.table(clicks(300)), label="hour", cross=[("user", "ad")], bits=12).learner
    assert several.extras.recipe.cross == (("user", "ad"),)


@pytest.mark.parametrize("format", ["vw", "svm"])
def test_namespaces_and_ranges_are_crossed_in_the_lane(format, tmp_path):
    rows, path = clicks(1500), tmp_path / f"rows.{format}"
    lines, options = [], {"cross": [("user", "ad")]}
    for user, ad, hour, label in zip(*rows.values(), strict=True):
        numbers = [1 + (user == "old"), 3 + (ad == "tea"), 5 + int(hour[1])]
        label = 1 if label else -1
        lines.append(
            f"{label} |user {user} |ad {ad} |when {hour}"
            if format == "vw"
            else f"{label} " + " ".join(f"{k}:1" for k in numbers)
        )
    path.write_text("\n".join(lines) + "\n")
    if format == "svm":
        options["ranges"] = [("user", 1, 2), ("ad", 3, 4)]
    learner = bayou.train(path, bits=12, **options).learner
    shown = pair_strengths(learner)
    assert len(shown.mean) == 4
    signs = {shown.name(k): bool(shown.mean[k] > 0) for k in range(4)}
    expected = (
        {
            "user^young & ad^game": True,
            "user^old & ad^tea": True,
            "user^young & ad^tea": False,
            "user^old & ad^game": False,
        }
        if format == "vw"
        else {"1 & 3": True, "2 & 4": True, "1 & 4": False, "2 & 3": False}
    )
    assert signs == expected
