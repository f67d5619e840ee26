"""What a newcomer is told when something is wrong: a sentence that names what was found and says what to do.

Each row is (what is wrong, what is done, words that the sentence must have). Of a command it is also checked that the
exit code is not 0, that there is no traceback, and that no file is made, changed or removed.
"""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

import bayou
from bayou import Batch
from bayou.cli import app
from bayou.core import model_file
from bayou.learners import FTRL, Joint, Marginal, Shrinkage

# What is said of every run, before anything can be wrong with it.
NOTES = re.compile(
    r"^(compiling the kernels;.*|.* weights( each)?, up to .* of memory|.* bytes of memory for every feature.*)\n",
    re.MULTILINE,
)

COMMANDS = [
    ("missing file", "train nosuch.csv --label clicked",
     "nosuch.csv: there is no such file; check its name and folder."),
    ("missing file, nearly", "train click.csv --label clicked", "no such file; Did you mean clicks.csv?"),
    ("missing file of a glob", "train no*.csv", "no file matches 'no*.csv'; check the pattern"),
    ("missing model", "predict clicks.csv --model no.bayou",
     "no.bayou: there is no such model file; bayou train --model"),
    ("empty table", "train empty.csv --label clicked --model x.bayou", "empty.csv has no rows; its columns cannot"),
    ("table of a header", "train header.csv --label clicked", "header.csv has no rows; its columns cannot be inferred"),
    ("empty text", "train empty.svm --model x.bayou", "empty.svm has no examples to learn from; check"),
    ("empty text compared", "compare empty.svm --learner marginal", "empty.svm has no examples to learn from; check"),
    ("empty text selected from", "select empty.svm --bits 4", "empty.svm has no examples to learn from; check"),
    ("empty model", "info empty.bayou", "empty.bayou is not a bayou model; give a file that bayou train --model wrote"),
    ("no format to be told", "train letter.txt",
     "letter.txt: the format cannot be inferred; specify it with --format svmlight"),
    ("unknown format", "train clicks.csv --format cvs", "'cvs'; one of svmlight parquet; Did you mean csv?"),
    ("table as svmlight", "train clicks.csv --format svmlight",
     "clicks.csv:1:1: expected a label read as svmlight --format"),
    ("table as JSON", "train clicks.csv --format jsonl --label clicked",
     "clicks.csv:1:1: expected a JSON object one per line"),
    ("table as Parquet", "train clicks.csv --format parquet --label clicked", "clicks.csv: not a parquet file"),
    ("table as Criteo's", "train clicks.csv --format criteo",
     "clicks.csv:1 expected 40 cells, found 1; check --format"),
    ("numbers for a header", "train numbers.csv --label a", "numbers.csv: the first line must name the columns 1,2,3"),
    ("a column's name", "train clicks.csv --label click",
     "label 'click' the columns are age, clicked; Did you mean clicked?"),
    ("a column's case", "train clicks.csv --label Clicked", "label 'Clicked' not exist Did you mean clicked?"),
    ("a feature's name", "train clicks.csv --label clicked --numeric agee", "numeric 'agee' Did you mean age?"),
    ("a crossed name", "train clicks.csv --label clicked --cross age,citi", "cross 'citi' Did you mean city?"),
    ("a predicted column", "predict other.csv --model table.bayou",
     "other.csv: no column 'city' the columns are age, town"),
    ("no label named", "train clicks.csv", "specify the column with --label; the columns are age, city, clicked"),
    ("no labels", "train unlabelled.csv --label clicked --model x.bayou --quiet",
     "unlabelled.csv:2: expected a label in column clicked"),
    ("no labels in text", "train unlabelled.svm --on-error raise", "unlabelled.svm:1:1: expected a label"),
    ("a label of columns", "train clicks.svm --label clicked", "label 'clicked' svmlight data have no columns"),
    ("three labels", "train grades.csv --label grade --task binary", "'grade' low, mid, high; specify with --positive"),
    ("three numbers", "train three.csv --label grade --task binary", "'grade' 0, 1, 2; --positive or --label-above"),
    ("three labels in text", "train three.svm --on-error raise", "three.svm:3:1: not 2; --positive, --task"),
    ("text for a number", "train clicks.csv --label clicked --numeric city",
     "'city' 'oslo' is not a number. Remove it from --numeric"),
    ("text for a date", "train clicks.csv --label clicked --date city",
     "'city' cannot be a date 'oslo' expected dates such as 2013-01-31. Remove it from --date"),
    ("text for a value", "train typo.svm --on-error raise", "typo.svm:1:5: expected a number after ':'"),
    ("a way to write numbers", "train clicks.csv --label clicked --decimal dot", "'dot' one of point, comma"),
    ("text for a weight", "train clicks.csv --label clicked --weight city --quiet",
     "clicks.csv:2: expected a weight in column city, not 'oslo'"),
    ("text for a parameter", "train clicks.svm --learner marginal --set prior_variance=abc",
     "prior_variance is 'abc'; give a number"),
    ("text for an option", "train clicks.svm --bits many", "--bits valid int"),
    ("folder of data", "train folder --label clicked", "folder is a folder; name the files in it, such as 'folder/*'"),
    ("folder for a model", "predict clicks.csv --model folder", "folder: it is a folder; name the file in it"),
    ("folder to write", "train clicks.svm --model folder", "--model is folder, which is a folder; Name a file in it"),
    ("binary table", "train binary.csv --label clicked", "binary.csv is a binary file, not text; save the data as CSV"),
    ("binary file", "train binary --label clicked", "binary is a binary file, not text; save the data as CSV"),
    ("binary text", "train binary.svm", "binary.svm is a binary file, not text; save the data as CSV"),
    ("UTF-16", "train wide.csv --label clicked", "wide.csv is UTF-16 text; save it as UTF-8"),
    ("Excel", "train sheet.xlsx --label clicked", "sheet.xlsx Excel sheet; save it as CSV"),
    ("data for a model", "predict clicks.csv --model clicks.csv",
     "clicks.csv is not a bayou model; bayou train --model wrote"),
    ("other arrays", "info other.bayou", "other.bayou is not a bayou model: safetensors file of another kind"),
    ("model of a table", "predict clicks.svm --model table.bayou",
     "clicks.svm svmlight table; give such data, or train a new model"),
    ("model of text", "predict clicks.csv --model text.bayou",
     "clicks.csv table svmlight; give such data, or train a new model"),
    ("another recipe resumed", "train clicks.csv --resume table.bayou --bits 9",
     "--bits 9 was given table.bayou has 6; omit the option"),
    ("another learner resumed", "train clicks.csv --resume table.bayou --learner ftrl",
     "marginal model ftrl. Omit --learner"),
    ("recipes merged", "merge table.bayou text.bayou --out x.bayou",
     "different recipes: table svmlight; Train one of them --like"),
    ("learners merged", "merge text.bayou ftrl.bayou --out x.bayou",
     "marginal ftrl cannot be merged; use the same learner"),
    ("one model merged", "merge text.bayou --out x.bayou", "at least two models; name one more"),
    ("newer model", "predict clicks.csv --model newer.bayou",
     "newer.bayou format 99; reads up to format 1. Upgrade bayou"),
    ("newer learner", "info learner.bayou", "learner.bayou 'quantum' upgrade"),
    ("newer parameter", "info parameter.bayou", "parameter.bayou 'hyper' upgrade"),
    ("truncated model", "predict clicks.csv --model cut.bayou", "cut.bayou is cut short or damaged; copy it again"),
    ("truncated model resumed", "train clicks.csv --resume cut.bayou --model x.bayou",
     "cut.bayou is cut short; copy it again"),
    ("unknown command", "trian clicks.csv", "'trian' Did you mean 'train'?"),
    ("unknown option", "train clicks.csv --lable clicked", "--lable --label"),
    ("unknown learner", "train clicks.svm --learner bnak", "'bnak'; there are: bank, marginal, Did you mean bank?"),
    ("unknown learner compared", "compare clicks.svm --learner FTLR", "'FTLR'; there are: bank, Did you mean ftrl?"),
    ("unknown parameter", "train clicks.svm --set presett=wide",
     "'presett'; there are: preset, lanes Did you mean preset?"),
    ("parameter without value", "train clicks.svm --set preset", "--set preset: expected name=value, such as"),
    ("unknown stream", "simulate randm --out x.svm", "'randm'; there are: random, Did you mean random?"),
    ("unknown table", "reproduce tabel1", "'tabel1'; there are: table1, Did you mean table1?"),
    ("bits out of range", "train clicks.svm --bits 40", "--bits 31"),
    ("variance out of range", "train clicks.svm --learner marginal --set prior_variance=-1",
     "prior_variance is -1; it must be > 0"),
    ("rate out of range", "train clicks.svm --negative-rate 2", "negative_rate is 2.0; it must be > 0 and at most 1"),
    ("word out of range", "train clicks.svm --set preset=slimm",
     "preset is 'slimm'; 'slim', 'wide' Did you mean slim?"),
    ("too little memory", "train clicks.svm --bits 31",
     "2,147,483,648 weights of a bank 262 GB; 1 GB are free. Use a smaller --bits"),
    ("dense learner", "train clicks.svm --learner shrinkage",
     "shrinkage TB of memory; Use a smaller --bits, or a learner that keeps no matrix"),
    ("place below a file", "train clicks.svm --model clicks.csv/m.bayou",
     "--model is clicks.csv/m.bayou clicks.csv is a file; choose"),
    ("place in no folder", "predict clicks.svm --model text.bayou --out no/p.csv",
     "--out is no/p.csv; there is no folder no; create it first"),
    ("interval without posterior", "features ftrl.bayou --by z", "ftrl models have no sd order them by mean"),
]  # fmt: skip

# Where nothing can be written, not even by root; said before the work, so with nothing on standard output.
NOWHERE = [
    "train clicks.svm --model {}/m.bayou",
    "train clicks.svm --report {}/r.html",
    "compare clicks.svm --csv {}/c.csv",
    "compare clicks.svm --out {}/c.png",
    "predict clicks.svm --model text.bayou --out {}/p.csv",
    "features text.bayou --out {}/f.csv",
    "select clicks.svm --out {}/f.csv",
    "select clicks.svm --picture {}/f.png",
    "merge text.bayou text.bayou --out {}/m.bayou",
    "simulate random --out {}/x.svm",
    "demo --out {}/x.png",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Files of a newcomer, sound and otherwise."""
    here = tmp_path_factory.mktemp("newcomer")
    rng = np.random.default_rng(0)
    rows = [f"{20 + k},{('oslo', 'rome', 'lima')[k % 3]},{k % 2}" for k in range(40)]
    texts = {
        "clicks.csv": "\n".join(["age,city,clicked", *rows, ""]),
        "clicks.svm": "".join(f"{2 * (k % 2) - 1} {k}:1\n" for k in range(40)),
        "empty.csv": "",
        "empty.svm": "",
        "empty.bayou": "",
        "header.csv": "age,clicked\n",
        "letter.txt": "Dear all\nthere are no data in here\n",
        "numbers.csv": "1,2,3\n4,5,6\n",
        "other.csv": "age,town\n20,oslo\n",
        "unlabelled.csv": "age,clicked\n20,\n21,\n",
        "unlabelled.svm": "1:1 2:1\n",
        "grades.csv": "age,grade\n" + "".join(f"{k},{('low', 'mid', 'high')[k % 3]}\n" for k in range(30)),
        "three.csv": "age,grade\n" + "".join(f"{k},{k % 3}\n" for k in range(30)),
        "three.svm": "".join(f"{k} {k}:1\n" for k in range(3)),
        "typo.csv": "age,clicked\n20,1\nold,0\n",
        "typo.svm": "1 3:abc\n",
        "ages.csv": "age,clicked\n20,1\n30,0\n40,1\n",
        "late.csv": "age,clicked\n20,1\nold,0\n",
    }
    for name, text in texts.items():
        (here / name).write_text(text)
    noise = rng.integers(0, 256, 4000, dtype=np.uint8).tobytes()
    for name in ("binary", "binary.csv", "binary.svm"):
        (here / name).write_bytes(noise)
    (here / "wide.csv").write_bytes(texts["clicks.csv"].encode("utf-16"))
    (here / "sheet.xlsx").write_bytes(b"PK\x03\x04" + noise)
    (here / "folder").mkdir()
    trained = {
        "table": "clicks.csv --label clicked --learner marginal",
        "numeric": "ages.csv --label clicked --learner marginal --numeric age",
        "text": "clicks.svm --learner marginal",
        "ftrl": "clicks.svm --learner ftrl",
    }
    for name, how in trained.items():
        data, *options = how.split()
        said = CliRunner().invoke(
            app, ["train", str(here / data), *options, "--bits", "6", "--model", str(here / f"{name}.bayou")]
        )
        assert said.exit_code == 0, said.output
    _spoil(here)
    return here


def _spoil(here: Path) -> None:
    """Models that something is wrong with, made of a good one."""
    good = here / "table.bayou"
    (here / "cut.bayou").write_bytes(good.read_bytes()[:-200])
    with safe_open(good, "numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header = metadata["header"]
    for name, change in {
        "newer": {"version": "99"},
        "learner": {"header": header.replace('"marginal"', '"quantum"')},
        "parameter": {"header": header.replace('"prior_mean"', '"hyper"')},
    }.items():
        assert change.items() - metadata.items()
        sums = {name: one for name, one in json.loads(metadata["checksums"]).items() if name}
        save_file(arrays, here / f"{name}.bayou", metadata=model_file.sign(metadata | change, sums))
    save_file(arrays, here / "other.bayou")


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def told(folder: Path, command: str, monkeypatch) -> str:
    """What the command says on standard error, having failed as it should."""
    monkeypatch.chdir(folder)
    before = contents(folder)
    said = CliRunner().invoke(app, shlex.split(command))
    assert said.exit_code in (1, 2), said.output
    assert isinstance(said.exception, SystemExit), said.exception  # anything else would be a traceback
    assert said.stdout == ""
    assert contents(folder) == before
    return NOTES.sub("", said.stderr)


def is_sentence(message: str) -> None:
    """One, or a few, in one line."""
    assert "\n" not in message.strip()
    assert re.search(r"[.?]$", message.strip()), message
    assert len(message) < 500, message


def has(message: str, words: str) -> None:
    """Word after word, in this order, whatever stands between them; what ends a word does not count."""
    at = 0
    for word in (word.rstrip(";,.") for word in words.split()):
        found = message.find(word, at)
        assert found >= 0, f"{word!r} is not, or not so late, in: {message}"
        at = found + len(word)


@pytest.mark.parametrize(("command", "words"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_a_command_says_what_is_wrong(folder, command, words, monkeypatch):
    monkeypatch.setattr("bayou.runs.memory.free_memory", lambda: 10**9)
    message = told(folder, command, monkeypatch)
    has(message, words)
    if not message.startswith("Usage:"):  # which is the command line's own way, with a line that points to the help
        is_sentence(message)


@pytest.mark.parametrize("command", NOWHERE)
def test_a_place_that_cannot_be_written_to_is_said_before_the_work(folder, command, monkeypatch):
    if not Path("/proc").is_dir():
        pytest.skip("there is no /proc here, a folder in which even root can make no file")
    message = told(folder, command.format("/proc"), monkeypatch)
    has(message, f"{command.split()[-2]} is /proc/ no file can be written there Choose another folder")
    is_sentence(message)


def test_a_folder_without_the_right_to_write(folder, monkeypatch):
    closed = folder / "closed"
    closed.mkdir(mode=0o500)
    try:
        if os.access(closed, os.W_OK):
            pytest.skip("whoever runs this may write anywhere")
        message = told(folder, "train clicks.svm --model closed/m.bayou", monkeypatch)
        has(message, "--model is closed/m.bayou; no file can be written there Choose another folder")
    finally:
        closed.rmdir()


# --- from Python ----------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "income": [1.0, 2.0, 3.0, 4.0]})
LABELS = [0, 1, 0, 1]
ONE = Batch.from_rows([{0: 1.0}], labels=[1])

CALLS = [
    ("predict before fit", lambda: bayou.MarginalClassifier().predict(TABLE),
     "MarginalClassifier not fitted yet. Call 'fit'"),
    ("interval before fit", lambda: bayou.BankClassifier().predict_interval(TABLE),
     "BankClassifier not fitted yet. Call 'fit'"),
    ("other columns",
     lambda: bayou.MarginalClassifier().fit(TABLE, LABELS).predict(TABLE.rename(columns={"age": "years"})),
     "feature names should match passed during fit years age"),
    ("fewer columns", lambda: bayou.MarginalClassifier().fit(TABLE, LABELS).predict(TABLE[["age"]]),
     "feature names income"),
    ("fewer numbers", lambda: bayou.MarginalClassifier().fit(TABLE.values, LABELS).predict([[1.0]]),
     "1 features expecting 2"),
    ("text for numbers", lambda: bayou.MarginalClassifier().fit(pd.DataFrame({"city": ["oslo", "rome"]}), [0, 1]),
     "'oslo'"),
    ("one class", lambda: bayou.MarginalClassifier().fit(TABLE, [1, 1, 1, 1]),
     "only one class, 1; at least two classes"),
    ("interval of FTRL", lambda: bayou.FTRLClassifier().fit(TABLE, LABELS).predict_interval(TABLE),
     "FTRLClassifier has no posterior intervals; use MarginalClassifier"),
    ("variance of FTRL", lambda: FTRL(4).predict(ONE).variance, "ftrl has no posterior; use marginal"),
    ("draws of FTRL", lambda: FTRL(4).sample(ONE, 1), "ftrl has no posterior; use marginal"),
    ("dense learner", lambda: Shrinkage(2**22), "shrinkage with 4194304 features GB; Use gaussian, or fewer features"),
    ("dense covariance", lambda: Joint(2**22, covariance="full"),
     'full covariance 4194304 GB; Use covariance="diagonal"'),
    ("three labels", lambda: Marginal(4).learn(Batch.from_rows([{0: 1.0}], labels=[2])),
     "row 0 label is 2; 1 for positive -1 or 0"),
    ("no labels", lambda: Marginal(4).learn(Batch.from_rows([{0: 1.0}])),
     "no labels to learn from; give them: Batch.from_csr"),
    ("feature out of range", lambda: Marginal(4).learn(Batch.from_rows([{9: 1.0}], labels=[1])),
     "row 0: feature 9 n_features=4"),
    ("variance out of range", lambda: Marginal(4, prior_variance=0.0), "prior_variance is 0.0; it must be > 0"),
    ("variances out of range", lambda: Marginal(2, prior_variance=[1.0, -1.0]), "prior_variance must be > 0"),
    ("unknown link", lambda: Marginal(4, link="logit"), "link is 'logit'; 'logistic', 'probit'"),
    ("matrix for a batch", lambda: Marginal(4).learn(np.ones((1, 4))), "expected a bayou.Batch; Batch.from_csr(X, y)"),
    ("no model", lambda: bayou.load("nosuch.bayou"), "nosuch.bayou: there is no such model file; save writes one"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "words"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_python_is_told_what_is_wrong(action, words):
    with pytest.raises((ValueError, AttributeError)) as caught:
        action()
    has(str(caught.value), words)
