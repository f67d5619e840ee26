"""What a report holds, that it is text whatever it holds, and that nothing breaks it."""

import base64
import gzip
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from plotly import graph_objects

import bayou
from bayou import BadInput, Batch, evaluate, simulate
from bayou.learners import AdaGrad, Bank, Gaussian, Marginal, SpikeSlab
from bayou.report import DataFacts, Recorder, ReportedRun, page, sentences, write
from bayou.report.facts import RunFacts
from tests.report.runs import NASTY, ODD, ordinary, run


class Parsed(HTMLParser):
    """The elements of a page, their text, and every attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[dict, str]] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data):
        inside = self._inside[-1] if self._inside else ""
        if inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif inside == "style":
            self.styles.append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def script(self, key: str) -> str:
        (found,) = [text for attributes, text in self.scripts if attributes.get("id") == key]
        return found

    @property
    def figures(self) -> dict:
        return {figure["key"]: figure["views"] for figure in json.loads(self.script("figures"))}


@pytest.fixture(scope="module")
def report():
    run, data = ordinary()
    return Parsed(page.render(run, data)), RunFacts(run, data)


def test_single_predictions_say_what_moved_them():
    """By the weights at the end, nearly those of the mean row of a bank; a head has weights of its own."""
    run, data = ordinary(learner=Bank(40, head=0))
    parsed, facts = Parsed(page.render(run, data)), RunFacts(run, data)
    weights = facts.strengths  # without columns nothing is centred
    mean = dict(zip(weights.features.tolist(), zip(weights.mean, weights.moments.mean, strict=True), strict=True))
    for sample in (facts.largest_losses, facts.most_uncertain):
        for row, moved in zip(sample.features, facts.top_contributions(sample), strict=True):
            parts = [w * (x - m) for i, x in zip(*row, strict=True) for w, m in [mean[int(i)]]]
            largest = sorted(parts, key=lambda part: -abs(part))[:3]
            np.testing.assert_allclose([by for _, by in moved], largest, rtol=0.02)  # weights are those of the row
            assert all(name.startswith("f") for name, _ in moved)
            shown = sentences.shortened(moved[0][0], 40) + " " + sentences.signed(moved[0][1])
            assert re.sub(r"\s+", " ", shown) in parsed.text
    assert "moved most by" in parsed.text


def everything(value):
    """All texts in something made of lists and dictionaries."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for part in value:
            yield from everything(part)
    elif isinstance(value, str):
        yield value


# --- what it holds ----------------------------------------------------------------------------------------------------


def test_the_summary_says_in_words_what_was_found(report) -> None:
    parsed, facts = report
    result = facts.result
    assert f"After 4,000 examples the log loss is {result.log_loss:.3f}" in parsed.text
    assert f"AUC {result.auc:.3f}" in parsed.text
    heaviest = max(facts.parts, key=lambda part: part["weight"])
    assert f"“{heaviest['name']}”" in parsed.text
    assert "The 12 strongest features carry" in parsed.text
    assert "it was least certain of line" in parsed.text
    for what in (
        "lines read 4,002",
        "skipped lines 2",
        "hash collisions",
        "features with a name 40",
        "2,667 examples per second",
    ):
        assert what in parsed.text, what


@pytest.mark.parametrize(
    ("std", "n_features", "rows", "is_said"),
    [(20.0, 40, 8000, True), (20.0, 10, 60_000, False), (1.0, 40, 1000, False), (1.0, 400, 1000, False)],
)
def test_it_says_when_the_classes_are_nearly_separable_and_rows_few_for_that(std, n_features, rows, is_said) -> None:
    stream = simulate.random(n_features=n_features, active=8 / n_features, weight_std=std, seed=1)
    reported = run(Marginal(n_features, prior_variance=std**2), stream.batches(rows))
    text = Parsed(page.render(reported, DataFacts())).text
    assert ("nearly separable" in text) == is_said
    if is_said:
        uncertain = round(reported.result.brier * rows)
        assert f"about {uncertain} labels could have been different, for 40 weights" in text


def test_numbers_in_the_figures_are_those_of_the_run(report) -> None:
    parsed, facts = report
    views = parsed.figures
    assert list(views) == ["loss", "reliability", "scores", "split", "deviations", "dots", "features", "lanes"]
    so_far = next(trace for trace in views["loss"][0]["data"] if trace["name"] == "so far")
    assert so_far["x"] == facts.result.curve["example"].tolist()
    assert so_far["y"] == pytest.approx(facts.result.curve["log_loss"], rel=1e-4)
    groups = views["reliability"][0]["data"][1]
    assert groups["y"] == pytest.approx(facts.result.reliability["rate"], rel=1e-4)
    for trace in views["scores"][0]["data"] + views["deviations"][0]["data"]:
        assert sum(trace["y"]) == pytest.approx(1.0, abs=1e-3)
    weights = views["features"][0]["data"][0]
    learner = facts.learner
    shown = facts.strengths
    places = shown.top(24, "share")
    assert np.corrcoef(shown.mean, learner.mean[shown.features])[0, 1] > 0.999
    assert weights["x"] == pytest.approx(shown.mean[places], rel=1e-3)
    assert weights["error_x"]["array"] == pytest.approx(1.96 * shown.sd[places], rel=1e-2)
    lanes = views["lanes"][0]["data"]
    assert np.sum([trace["y"] for trace in lanes], axis=0) == pytest.approx(1.0, abs=1e-3)
    weights = {part["name"]: part["weight"] for part in facts.parts}
    *largest, others = lanes
    assert others["name"] == f"{len(weights) - len(largest)} others"
    for trace in largest:
        assert trace["y"][-1] == pytest.approx(weights.pop(trace["name"]), rel=1e-3)
    assert others["y"][-1] == pytest.approx(sum(weights.values()), rel=1e-3)


def test_the_expected_loss_is_met_where_the_model_is_right(report) -> None:
    """On a stream that is as the model says, both parts together are the loss, up to chance."""
    _, facts = report
    time = facts.over_time
    late = time["example"] > 500
    expected = (time["aleatoric"] + time["epistemic"])[late].mean()
    assert time["loss"][late].mean() == pytest.approx(expected, rel=0.1)
    assert time["epistemic"][-1] < 0.2 * time["epistemic"][:5].max()


def test_figures_are_what_plotly_takes(report) -> None:
    for views in report[0].figures.values():
        for view in views:
            # Its colours are names of the page's, which only the page can look up.
            plain = json.loads(re.sub(r'"@\w+(/\d+)?"', '"#123456"', json.dumps(view)))
            graph_objects.Figure(plain["data"], plain["layout"])


def test_without_a_posterior_it_says_so() -> None:
    run, data = ordinary(500, AdaGrad(40))
    parsed = Parsed(page.render(run, data))
    assert "adagrad keeps no posterior" in parsed.text
    assert list(parsed.figures) == ["loss", "reliability", "scores", "features"]
    assert "95% interval" not in parsed.text


def test_inclusion_is_shown_where_there_is_one() -> None:
    parsed = Parsed(page.render(ODD["inclusion"]()))
    everywhere, named = (view["data"][0] for view in parsed.figures["inclusion"])
    assert everywhere["y"] == named["x"] == pytest.approx([1.0, 2 / 3, 1 / 3], abs=1e-4)
    assert "Which features are needed" in parsed.text


@pytest.mark.parametrize("what", ODD)
def test_odd_runs_do_not_break_it(what) -> None:
    run = ODD[what]()
    text = page.render(run)
    parsed = Parsed(text)
    assert f"{run.result.examples:,}" in parsed.text
    assert "nan" not in re.sub(r"[^a-z]+", " ", parsed.text.lower()).split()
    for views in parsed.figures.values():
        assert all(view["data"] for view in views)


def test_a_spike_and_slab_learner_has_one() -> None:
    run, data = ordinary(800, SpikeSlab(40))
    (needed, *_), *_ = (view["data"] for view in Parsed(page.render(run, data)).figures["inclusion"])
    assert needed["y"] == pytest.approx(np.sort(run.recorder.learner.inclusion)[::-1], abs=1e-4)


def test_numbers_are_predicted_as_well() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = X @ rng.normal(size=6) + 5.0 + rng.normal(size=3000) * 0.5
    recorder = Recorder(Gaussian(6))
    result = evaluate.progressive(recorder, recorder.split_at_recordings([Batch.from_csr(X, y)]), task="regression")
    run = ReportedRun(recorder, result)
    parsed = Parsed(page.render(run))
    assert list(parsed.figures) == ["loss", "predicted", "residuals", "coverage", "split", "deviations", "features"]
    assert f"the squared loss is {result.squared_loss:.3f}" in parsed.text
    facts = RunFacts(run)
    assert facts.late_means[0] == pytest.approx(0.25, rel=0.15)  # the noise that was drawn
    assert facts.late_means[1] < 0.02
    assert facts.second_half.label.max() > 5.0
    low, high = facts.interval(facts.second_half)
    assert np.mean((low < facts.second_half.label) & (facts.second_half.label < high)) == pytest.approx(0.95, abs=0.03)


def test_of_several_runs_the_best_is_shown_in_full() -> None:
    runs = [ordinary(600, learner)[0] for learner in (AdaGrad(40, learning_rate=5.0), Marginal(40))]
    runs = [replace(run, spec=f"<i>{k}") for k, run in enumerate(runs)]
    parsed = Parsed(page.render(runs))
    assert "<i>1 did best" in parsed.text
    curves = parsed.figures["compared"][0]["data"]
    assert [curve["name"].split()[0] for curve in curves] == ["&lt;i&gt;1", "&lt;i&gt;0"]
    assert curves[1]["y"][-1] == pytest.approx(runs[0].result.log_loss, rel=1e-4)
    assert f"<i>0 {runs[0].result.log_loss:.5f}" in parsed.text
    assert "split" in parsed.figures  # of Marginal; AdaGrad has none


def test_held_out_examples_are_told_of() -> None:
    run, data = ordinary(500)
    held = replace(run, held_out=run.result)
    parsed = Parsed(page.render(held, data))
    assert "held-out log loss" in parsed.text
    assert "held out" in [trace["name"] for trace in parsed.figures["loss"][0]["data"]]


# --- that it is text, and complete ------------------------------------------------------------------------------------


def test_a_nasty_name_is_text_everywhere(report) -> None:
    parsed, _ = report
    assert NASTY in parsed.text.replace("  ", " ")
    # The page has its own elements and no other: no script of a name, no picture, no handler of an event.
    assert len(parsed.scripts) == 3
    assert not [found for found in parsed.attributes if found[0] == "img" or found[1].startswith("on")]
    shown = [text for text in everything(parsed.figures) if "onerror" in text]
    assert shown
    own = re.compile(r"</?(b|br|extra)>")  # what our own templates have
    for text in shown:
        assert "<" not in own.sub("", text)


def test_text_and_data_cannot_end_the_element_they_are_in() -> None:
    text = page._json([NASTY, "<!--", "]]>"])
    assert not set("<>&") & set(text)
    assert json.loads(text) == [NASTY, "<!--", "]]>"]


def test_nothing_is_fetched(report) -> None:
    parsed, _ = report
    assert not [
        found for found in parsed.attributes if found[1] in ("src", "href", "srcset", "action", "data", "poster")
    ]
    assert not re.search(r"url\(|@import", " ".join(parsed.styles))
    (policy,) = [value for tag, name, value in parsed.attributes if tag == "meta" and "default-src" in value]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]


def test_the_policy_allows_the_two_scripts_and_no_other(report) -> None:
    parsed, _ = report
    own = [text for attributes, text in parsed.scripts if not attributes]
    library = gzip.decompress(base64.b64decode(parsed.script("library"))).decode()
    assert "plotly.js" in library[:200]
    (policy,) = [value for _, _, value in parsed.attributes if "default-src" in value]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (*own, library)}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert len(digests) == 2


# --- the file ---------------------------------------------------------------------------------------------------------


def test_it_is_written_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    run, data = ordinary(300)
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr(os, "replace", lambda *unused: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(BadInput, match=r"could not be written to .*report.html \(No space left on device\)"):
        write(path, run, data)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["report.html"]
    monkeypatch.undo()
    write(path, run, data)
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert path.stat().st_size < 2_500_000


def test_columns_of_a_table_come_before_their_values(tmp_path) -> None:
    rng = np.random.default_rng(0)
    site, hour = rng.choice(["a", "<b>"], 500), rng.choice(["night", "day"], 500)
    late = rng.random(500) < np.where(site == "a", 0.8, 0.2)
    bayou.train(
        pa.table({"site": site, "hour": hour, "late": late.astype(int)}),
        label="late", learner="marginal", bits=10, report=tmp_path / "r.html",
    )  # fmt: skip
    text = (tmp_path / "r.html").read_text()
    parsed = Parsed(text)
    assert list(parsed.figures).index("columns") < list(parsed.figures).index("features")
    bars = parsed.figures["columns"][0]["data"][0]
    assert len(bars["x"]) == 2
    assert bars["x"][0] > 3 * bars["x"][1]
    assert bars["customdata"][0][0] == "site"
    assert "<b>" not in bars["customdata"][0][2]
    assert re.search(r"move the score the most .*: site \(\d\.\d+; most telling: site=", text)
    assert [view["name"] for view in parsed.figures["columns"]] == ["spread"]  # this learner is told its prior


def test_columns_by_the_scale_of_their_priors(tmp_path) -> None:
    rng = np.random.default_rng(1)
    site, word = rng.integers(0, 50, 3000), rng.integers(0, 50, 3000)
    late = rng.random(3000) < 1 / (1 + np.exp(-4.0 * rng.normal(size=50)[site]))
    bayou.train(
        pa.table({"word": np.char.mod("w%d", word), "<site>": np.char.mod("s%d", site), "late": late.astype(int)}),
        label="late", bits=10, report=tmp_path / "r.html",
    )  # fmt: skip
    spread, priors = Parsed((tmp_path / "r.html").read_text()).figures["columns"]
    assert (spread["name"], priors["name"]) == ("spread", "prior scale")
    (bars,) = priors["data"]
    assert [name for name, _ in bars["customdata"]] == ["&lt;site&gt;", "word"]
    assert bars["x"][0] > 3 * bars["x"][1] > 0
