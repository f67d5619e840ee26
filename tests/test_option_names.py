"""Messages name options as their reader writes them: below the command nobody speaks in flags."""

import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bayou
from bayou.cli import app
from bayou.core.spelling import as_flags, flags_are_spoken, option, setting
from bayou.runs.compare import compare

SOURCE = Path(__file__).parent.parent / "src" / "bayou"
FLAG = re.compile(r"(?<![\w!-])--[a-z{][a-z-]*")
# Whole commands may be quoted anywhere: "`bayou train --model` writes one".
COMMAND = re.compile(r"bayou (--debug )?[a-z]+( (\{\}|[A-Z_]+|-?-[a-z-]+))*")


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (id(stmt.value) for stmt in node.body if isinstance(stmt, ast.Expr))


def texts(tree):
    """Strings with what is put into them as {}, and their lines; no docstrings."""
    skip = set(docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skip.update(id(part) for part in node.values)
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skip:
            yield node.lineno, node.value


def test_nothing_below_the_command_speaks_in_flags():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ("cli", "reproduce"):  # whose options are the command's alone
            continue
        for line, text in texts(ast.parse(path.read_text())):
            if FLAG.search(COMMAND.sub("", text)):
                found.append(f"{path.relative_to(SOURCE)}:{line}: {text[:200]}")
    assert not found, "\n" + "\n".join(found)


def test_an_option_is_spelled_as_its_reader_writes_it():
    assert option("label_above"), option("missing", ["NA", "-"]) == ("label_above=", "missing=['NA', '-']")
    assert setting("prior_variance", 2) == "settings={'prior_variance': 2}"
    with as_flags():
        assert option("label_above", 3) == "--label-above 3"
        assert option("missing", ["NA", "a b"]) == "--missing NA --missing 'a b'"
        assert setting("prior_variance", 2) == "--set prior_variance=2"
        with as_flags(False):
            assert option("resume") == "resume="
        assert flags_are_spoken()
    assert not flags_are_spoken()


# (what to run, options as keywords, what is said, in which {x} is the option x)
ERRORS = [
    ("train", {"resume": "a.bayou", "like": "b.bayou"}, "{resume} and {like} cannot be combined"),
    ("train", {"checkpoint": "10"}, "{checkpoint} needs {model}"),
    ("train", {"checkpoint": "soon", "model": "m.bayou"}, "{checkpoint:soon}: expected a number of examples"),
    ("train", {"checkpoint": "9", "model": "m.bayou", "delay": 3}, "{checkpoint} and {delay} cannot be combined"),
    ("train", {"holdout": "2"}, "{holdout:2}: it must be a share"),
    ("train", {"processes": 2, "holdout": "0.1"}, "{holdout} follows rows one after another; {processes} does not"),
    ("train", {"report": "r.txt"}, "{report} is r.txt; its name must end in .html"),
    ("train", {"model": "x.csv"}, "{model} is x.csv, which is also read"),
    ("train", {"label": "kind", "positive": "a", "task": "regression"}, "need the task binary, but it is regression"),
    ("train", {"label": "kind", "learner": "gaussian"}, "regression predicts numbers"),
    ("train", {"label": "size", "learner": "marginal"}, "use {learner:bank} or one of"),
    ("train", {"label": "kind", "task": "binary"}, "specify the positive class with {positive} or {label_above}"),
    ("train", {"label": "kind", "label_above": 2.0}, "{label_above} needs numbers"),
    ("train", {"learner": "gaussian", "task": "multiclass"}, "{task:multiclass} was given, but gaussian is for"),
    ("train", {"learner": "gaussian", "positive": "1"}, "{positive} is for two classes"),
    ("train", {"label": "y", "numeric": ["kind"]}, "Remove it from {numeric}"),
    ("compare", {"learners": ["marginal", "marginal"], "label": "y"}, "{learners:marginal} is given twice"),
    ("predict", {"model": "m.bayou", "quantiles": "1.5"}, "{quantiles} has 1.5; give numbers"),
]


@pytest.mark.parametrize(("what", "options", "said"), ERRORS)
def test_the_same_error_names_options_as_each_face_spells_them(tmp_path, monkeypatch, what, options, said):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k % 2},{'abc'[k % 3]},{k * 0.37:.2f},{k % 5}\n" for k in range(60))
    Path("x.csv").write_text("y,kind,size,hour\n" + rows)
    if what == "predict":
        bayou.train("x.csv", label="y", learner="marginal", bits=6, model="m.bayou")

    def spelled(match):
        name, value = match["name"], match["value"]
        return option(name, value)

    pattern = re.compile(r"\{(?P<name>\w+)(:(?P<value>[^}]*))?\}")
    with as_flags():
        told = pattern.sub(spelled, said)
    names = {"settings": "set", "learners": "learner"}
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            words += ["--" + names.get(name, name).replace("_", "-"), str(one)]
    done = CliRunner().invoke(app, [what, "x.csv", *words])
    assert done.exit_code in (1, 2), done.output
    assert told in " ".join(done.stderr.split())
    if what == "predict":
        options = {**options, "quantiles": [float(options["quantiles"])]}
    call = {"train": bayou.train, "predict": bayou.predict, "compare": compare}[what]
    with pytest.raises((bayou.BadInput, bayou.BadModel)) as error:
        call("x.csv", **options)
    assert pattern.sub(spelled, said) in str(error.value)
    assert not FLAG.search(COMMAND.sub("", str(error.value)))
