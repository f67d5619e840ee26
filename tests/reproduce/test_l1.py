"""The L1 paper's tables: its numbers come out where they should, and a missing file is a sentence."""

import gzip
import json
import sys

import numpy as np
import pytest

from bayou import Batch
from bayou.core.errors import BadInput
from bayou.reproduce import ExperimentOptions, find
from bayou.reproduce.quadratic_l1 import data, table1, table2, table6
from bayou.reproduce.quadratic_l1.solutions import online, solved, weights_of


def test_stems_are_porters():
    """From the examples of his paper, step by step."""
    pairs = {
        "caresses": "caress", "ponies": "poni", "cats": "cat", "feed": "feed", "agreed": "agre", "plastered": "plaster",
        "bled": "bled", "motoring": "motor", "sing": "sing", "conflated": "conflat", "troubled": "troubl",
        "sized": "size", "hopping": "hop", "falling": "fall", "hissing": "hiss", "failing": "fail", "filing": "file",
        "happy": "happi", "sky": "sky", "relational": "relat", "conditional": "condit", "digitizer": "digit",
        "operator": "oper", "decisiveness": "decis", "sensibiliti": "sensibl", "triplicate": "triplic",
        "hopeful": "hope", "goodness": "good", "revival": "reviv", "adjustment": "adjust", "adoption": "adopt",
        "irritant": "irrit", "probate": "probat", "rate": "rate", "cease": "ceas", "controll": "control",
    }  # fmt: skip
    stems = data.stems_of()
    assert stems(" ".join(pairs)) == list(pairs.values())
    assert stems("The 1,234 SHARES were re-offered.") == ["the", "1", "234", "share", "were", "re", "offer"]
    # As in his program, words of one or two letters have no ending; nor has one with digits.
    assert stems("as us vs 1980s") == ["as", "us", "vs", "1980s"]


def test_without_the_stemmer_a_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(BadInput, match=r"which is not installed: pip install snowballstemmer\."):
        data.stems_of()


def test_the_online_gap_is_the_papers_in_size():
    X, y = data.simulated(0, 20_000)
    batch = Batch.from_csr(X, y)
    exact = weights_of(solved(batch, 10, table1.PENALTY))
    gap = np.abs(weights_of(online(batch, 10, table1.PENALTY)) - exact).sum()
    assert 0.5 * table1.PAPER_GAPS[0] < gap < 2 * table1.PAPER_GAPS[0]


@pytest.mark.parametrize(("link", "penalty"), table2.HALVES.items())
def test_table_2_comes_out_with_a_variance_of_a_fifth_and_not_with_1(link, penalty):
    paper = table2.PRINTED[link]
    right, wrong = (np.mean([table2.one_draw(s, link, penalty, v) for s in range(3)], axis=0) for v in (0.2, 1.0))
    assert right[:2] == pytest.approx(paper[:2], rel=0.3)
    assert (wrong[:2] > 2 * np.array(paper[:2])).all()
    assert right[3] < 0.005


def write(path, rows):
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_tables_of_texts_run_on_files_that_are_named(tmp_path):
    generator = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(60)])
    reuters, imdb, enron = [], [], []
    for k in range(400):
        positive = int(generator.integers(2))
        text = " ".join(
            [*generator.choice(words, 12), *(["good", "profit"] if generator.random() < 0.8 * positive else [])]
        )
        reuters.append({"text": text, "label": ["earn"] if positive else [], "split": "train"})
        imdb.append({"text": text, "label": positive, "split": "train" if k % 2 else "test"})
        enron.append({"text": text, "label": positive})
    names = ("reuters21578_modapte", "imdb_reviews", "enron_spam")
    for name, rows in zip(names, (reuters, imdb, enron), strict=True):
        write(tmp_path / f"{name}.jsonl.gz", rows)
    options = ExperimentOptions(tmp_path, data=tuple(str(tmp_path / f"{name}.jsonl.gz") for name in names))
    for name in ("l1-table3", "l1-table4", "l1-table5", "l1-table6"):
        outcome = find(name).run(options)
        assert outcome.tables[0].rows
        assert all(path.stat().st_size > 0 for path in outcome.files)


def test_a_text_set_that_is_not_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BAYOU_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"reuters.*was not found: name it with --data FILE, or set BAYOU_DATA"):
        find("l1-table3").run(ExperimentOptions(tmp_path))


def test_figures_draw(tmp_path):
    for name in ("l1-figure3", "l1-figure4"):
        outcome = find(name).run(ExperimentOptions(tmp_path, examples=2000))
        assert all(path.stat().st_size > 0 for path in outcome.files)


def test_the_judge_counts_what_confusion_tables_count():
    point = table6.PathPoint(1.0, np.array([[1.0]]), np.zeros(1), np.zeros(1), np.zeros(1), 1, True)
    X, y = np.array([[2.0], [1.0], [-1.0], [3.0]]), np.array([1.0, 0.0, 1.0, 1.0])
    recall, precision, accuracy, loss = table6.judged(point, X, y)
    assert (recall, precision, accuracy) == pytest.approx((2 / 3, 2 / 3, 1 / 2))
    assert loss == pytest.approx(np.mean(np.logaddexp(0, [-2.0, 1.0, 1.0, -3.0])))
