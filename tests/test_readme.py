"""What README and how-to pages show is run: their Python as it stands; the README's commands by .ci/run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bayou
from bayou import Batch, simulate
from bayou.cli import app
from bayou.core import registry

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def run_python_blocks(page: Path, names: dict) -> None:
    """In order and in one place, as a reader would type them."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        # A file of its own: Numba caches kernels beside their source, and looks for it.
        source = Path.cwd() / f"{page.stem}_{len(names)}.py"
        source.write_text(block, encoding="utf-8")
        exec(compile(block, str(source), "exec"), names)


def test_readme_shell_and_python_run(tmp_path, monkeypatch):
    """The four commands, in the process, and then the Python, which reads what they made."""
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^bayou (.*?)(?:\s+#.*)?$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["simulate", "train", "predict", "features"]
    for command in commands:
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code == 0, done.output
    by_command = bayou.load("clicks.bayou")
    names = {"__name__": "readme"}
    run_python_blocks(README, names)
    np.testing.assert_array_equal(by_command.mean, names["run"].learner.mean)
    assert names["table"].num_rows == 50_000
    assert names["table"].column_names == ["probability", "mean", "variance", "low", "high"]


def test_the_front_page_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 90


def test_commands_have_their_markers():
    text = README.read_text(encoding="utf-8")
    for name in ("demo", "test"):
        assert re.search(rf"^<!-- {name} -->\n```sh\n\S.*\n```$", text, re.MULTILINE)


def test_local_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


@pytest.fixture
def sgd(tmp_path):
    """A folder with the learner of the page."""
    page = (ROOT / "docs/howto/add-a-learner.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "sgd.py").write_text(block, encoding="utf-8")


@pytest.mark.usefixtures("sgd")
def test_the_learner_of_the_page_keeps_the_laws(tmp_path):
    plugin = f"import bayou.learners\nbayou.learners.__path__.append({str(tmp_path)!r})\n"
    (tmp_path / "with_sgd.py").write_text(plugin, encoding="utf-8")
    laws = ["tests/laws", "-k", "sgd-default-float32", "-p", "with_sgd", "-p", "no:cacheprovider"]
    python_path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *laws],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert passed
    assert int(passed[1]) > 40


@pytest.mark.usefixtures("sgd")
def test_add_a_learner(tmp_path, monkeypatch):
    """The page's file, put into the folder, is a learner: found, learning, resuming; nothing else is touched."""
    monkeypatch.setattr(bayou.learners, "__path__", [*bayou.learners.__path__, str(tmp_path)])
    caches = registry._modules, registry._own, registry.records
    try:
        for found in caches:
            found.cache_clear()
        assert "sgd" in registry.records()
        assert "Sgd" in dir(bayou.learners)
        assert "| sgd | `Sgd` |" in registry.as_table()

        stream = simulate.random(n_features=50)
        learner = bayou.learners.Sgd(n_features=50)
        batch = next(stream.batches(5000))
        p = learner.learn(batch[:4000])
        assert np.mean((p[2000:] > 0.5) == (batch.labels[2000:4000] > 0)) > 0.6
        learner.save(tmp_path / "sgd.bayou")
        rest = batch[4000:]
        np.testing.assert_array_equal(bayou.load(tmp_path / "sgd.bayou").learn(rest), learner.learn(rest))
        assert isinstance(learner.predict(Batch.from_rows([{0: 1.0}])).probability[0], float)
    finally:
        sys.modules.pop("bayou.learners.sgd", None)
        vars(bayou.learners).pop("sgd", None)
        for found in caches:
            found.cache_clear()
