"""The script that compares two commits: what it takes for a difference, and what it lets pass."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bayou
from bayou import Batch
from bayou.learners import Marginal

FOLDER = Path(__file__).parent.parent / "benchmarks"
SOURCES = Path(bayou.__file__).parents[1]


@pytest.fixture
def script(monkeypatch):
    """`benchmarks/compare_commits.py` as a module, which imports those beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import compare_commits

    return compare_commits


@pytest.fixture
def compared(script, tmp_path):
    """A function of what two sides wrote, name to bytes: (lines, how many differences are not allowed)."""

    def compare(base, own, allowed=""):
        for side, files in {"base": base, "own": own}.items():
            (tmp_path / side).mkdir()
            for name, content in files.items():
                (tmp_path / side / name).write_bytes(content)
        (tmp_path / "allowed.toml").write_text(allowed)
        differences = script.Differences(tmp_path / "allowed.toml")
        return differences.compare("case", tmp_path / "base", tmp_path / "own"), differences.refused

    return compare


def arrays(path, **found):
    np.savez(path, **found)
    return path.read_bytes()


def model(path, **parameters):
    learner = Marginal(8, **parameters)
    learner.learn(Batch.from_csr(np.eye(8), np.array([1.0, -1.0] * 4)))
    learner.save(path)
    return path.read_bytes()


def test_the_last_bit_of_one_number_is_found(compared, tmp_path):
    x = np.linspace(0, 1, 50)
    y = x.copy()
    y[7] = np.nextafter(y[7], 2)
    lines, refused = compared({"a.npz": arrays(tmp_path / "x.npz", p=x)}, {"a.npz": arrays(tmp_path / "y.npz", p=y)})
    assert refused == 1
    assert "p: 1 of 50, the first [7]" in lines[1]


@pytest.mark.parametrize(("old", "new"), [(0.0, -0.0), (1, 1.0), ([1, 2], [1, 2, 3]), (0.1, 0.1 + 2**-56)])
def test_values_of_json_are_compared_as_they_are_written(compared, old, new):
    base, own = (json.dumps({"x": [{"y": value}]}).encode() for value in (old, new))
    _, refused = compared({"a.json": base}, {"a.json": own})
    assert refused == 1


def test_seconds_may_differ_and_the_order_of_keys(compared):
    lines, refused = compared(
        {"a.json": b'{"seconds": 1.5, "loss": 2, "n": 3}'}, {"a.json": b'{"n": 3, "loss": 2, "seconds": 9}'}
    )
    assert (lines, refused) == ([], 0)


def test_models_differ_by_arrays_and_by_what_their_header_says(compared, tmp_path):
    base, own = model(tmp_path / "a"), model(tmp_path / "b", prior_variance=1.001)
    lines, refused = compared({"m.bayou": base}, {"m.bayou": own})
    said = "\n".join(lines)
    assert refused >= 2
    assert "array state: " in said
    assert "header.parameters.prior_variance: '1.0' became '1.001'" in said


def test_a_file_that_only_one_side_wrote_is_a_difference(compared):
    lines, refused = compared({"a.csv": b"x\n1\n"}, {})
    assert (refused, lines[1]) == (1, "    : only the base has it")


def test_a_case_that_fails_on_both_sides_is_no_success(compared):
    _, refused = compared({"failed.error": b"the same"}, {"failed.error": b"the same"})
    assert refused == 1


def test_an_option_that_is_gone_is_a_difference_and_a_new_one_is_none(compared):
    lines, refused = compared({"a.names": b"bayou train --old\n"}, {"a.names": b"bayou train --new\n"})
    assert refused == 1
    assert "gone: bayou train --old" in lines[1]


def test_what_is_allowed_is_said_with_its_reason_and_counts_for_nothing(compared):
    allowed = """
        [differences]
        "case: a.json: loss*" = "blocks are cut otherwise"
        [removals]
        "bayou * --old" = "it did nothing"
    """
    base = {"a.json": b'{"loss": 1}', "a.names": b"bayou train --old\n"}
    lines, refused = compared(base, {"a.json": b'{"loss": 2}', "a.names": b""}, allowed)
    assert refused == 0
    assert "allowed: blocks are cut otherwise" in lines[1]
    assert "allowed: it did nothing" in lines[3]


def test_words_may_change_where_their_numbers_do_not(compared):
    before, after = b"seen 1,200 rows, log loss 0.61", b"1,200 examples were seen; their log loss is 0.61"
    assert compared({"a.txt": before}, {"a.txt": after}) == ([], 0)


def run(*arguments):
    command = [sys.executable, FOLDER / "compare_commits.py", "--no-install", sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_same_sources_do_not_differ():
    done = run("--quick", "--sources", SOURCES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differences that are not allowed" in done.stdout
    assert "not covered" not in done.stdout


@pytest.mark.long
def test_a_constant_that_changed_is_found(tmp_path):
    shutil.copytree(SOURCES / "bayou", tmp_path / "bayou", ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "bayou" / "learners" / "marginal.py"
    text = changed.read_text(encoding="utf-8")
    assert text.count("prior_variance: Any = 1.0,") == 1
    changed.write_text(text.replace("prior_variance: Any = 1.0,", "prior_variance: Any = 1.001,"), encoding="utf-8")
    done = run("--only", "python/Marginal()", "--sources", tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DIFFERS  python/Marginal()" in done.stdout
