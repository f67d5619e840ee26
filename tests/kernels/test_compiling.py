"""Kernels are compiled once, by whoever comes first, and their files are right or not there."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

import bayou
from bayou.kernels import cache, compiling
from bayou.kernels.compiling import InnerKernel, kernel

SOURCES = Path(bayou.__file__).parents[1]
# Calls a kernel that calls another file's, and says what it gave and what was compiled for it.
TRY = """
import json, sys
import numpy as np
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    from bayou.core import links
    from bayou.evaluate.binary import Meter
    meter = Meter()
    meter.add(np.array([0.25, 0.5]), np.array([1.0, -1.0]))
from bayou.kernels import cache
names = sorted({e.data["dispatcher"].__name__ for _, e in compiled.buffer if e.is_start})
print(json.dumps([meter.log_loss, names, str(cache.writable())]))
"""


def run(code: str, folder: Path, **more: str) -> list:
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(folder, **more), capture_output=True, text=True, check=True
    )
    return [*json.loads(done.stdout), done.stderr]


def environment(folder: Path, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return {**own, "PYTHONPATH": str(folder), "HOME": str(folder), **more}


@pytest.fixture
def copy(tmp_path) -> Path:
    """bayou's sources in a folder of their own, as after an installation."""
    shutil.copytree(SOURCES / "bayou", tmp_path / "bayou", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@kernel
def squared(x):
    return x * x


@kernel
def summed(values):
    total = 0.0
    for value in values:
        total += squared(value)
    return total


def test_what_a_kernel_calls_becomes_part_of_it():
    with event.install_recorder("numba:compile") as compiled:
        assert summed(np.array([1.0, 2.0])) == 5.0
    who = [e.data["dispatcher"] for _, e in compiled.buffer if e.is_start]
    assert [type(each) for each in who if each.__name__ == "squared"] in (
        [],
        [InnerKernel],
    )  # nothing, if it was in a file
    assert squared(3) == 9  # and Python can call it all the same
    assert not squared.part.overloads or squared.part.overloads.keys() != squared.overloads.keys()


def test_zero_divides_as_in_numpy():
    @kernel
    def divided(a, b):
        return a / b

    assert divided(1.0, 0.0) == np.inf


def test_a_second_process_compiles_nothing(copy):
    loss, first, place, said = run(TRY, copy)
    assert "_score" in first
    assert Path(place).parent == copy / "bayou" / "__pycache__" / "kernels"
    assert run(TRY, copy)[:2] == [loss, []]
    # A copied environment takes its kernels along.
    elsewhere = copy / "elsewhere"
    shutil.copytree(copy / "bayou", elsewhere / "bayou")
    assert run(TRY, elsewhere)[:2] == [loss, []]
    assert said in ("", compiling.COMPILING + "\n")


def test_a_change_in_another_file_is_seen(copy):
    run(TRY, copy)
    changed = copy / "bayou" / "core" / "links.py"
    changed.write_text(changed.read_text() + "\nUPGRADED = True\n")
    assert "_score" in run(TRY, copy)[1]
    for name in ("cli/info.py", "runs/train.py", "estimators/lasso.py"):  # have no part in any kernel
        quiet = copy / "bayou" / name
        quiet.write_text(quiet.read_text() + "\nUPGRADED = True\n")
    assert run(TRY, copy)[1] == []


def test_a_change_in_another_package_is_seen(copy):
    code = "import json; from other import f; print(json.dumps([f(1.0)]))"
    for added in (1, 2):
        # Python knows a module by its size and the second of its change: both sizes differ
        (copy / "other.py").write_text(
            f"from bayou.kernels.compiling import kernel\n\n@kernel\ndef f(x):\n    return x{' + 1.0' * added}\n"
        )
        assert run(code, copy)[0] == 1.0 + added


@pytest.mark.long
def test_a_damaged_file_is_compiled_again(copy):
    loss, _, place, _ = run(TRY, copy)
    for file in Path(place).iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    again, compiled, _, _ = run(TRY, copy)
    assert (again, "_score" in compiled) == (loss, True)
    assert run(TRY, copy)[:2] == [loss, []]


@pytest.mark.long
def test_processes_at_once_share_the_work(copy):
    both = [
        subprocess.Popen([sys.executable, "-c", TRY], env=environment(copy), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    (loss, one, place), (same, other, _) = (json.loads(process.communicate()[0]) for process in both)
    assert loss == same
    assert not set(one) & set(other) & {"_score", "_look"}
    assert not [file.name for file in Path(place).iterdir() if file.suffix == ".claim"]


@pytest.mark.long
def test_who_died_while_compiling_is_not_waited_for(copy):
    _, first, place, _ = run(TRY, copy)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for file in list(Path(place).iterdir()):
        file.rename(file.with_name(f"{file.name}.claim"))
        file.with_name(f"{file.name}.claim").write_text(str(dead.pid))
    began = time.monotonic()
    assert run(TRY, copy)[1] == first
    assert time.monotonic() - began < cache.BELIEVED


def test_who_died_before_it_said_who_it_is_is_waited_for_a_moment_alone(tmp_path):
    claim = tmp_path / "kernel.claim"
    claim.write_text("")
    assert cache._still_works(claim)
    os.utime(claim, (time.time() - 2, time.time() - 2))
    assert not cache._still_works(claim)
    claim.write_text(str(os.getppid()))
    os.utime(claim, (time.time() - 2, time.time() - 2))
    assert cache._still_works(claim)


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_where_nothing_can_be_written_a_sentence_says_so_and_it_works(copy):
    loss = run(TRY, copy)[0]
    blocked = copy / "blocked"
    blocked.write_text("a file, not a folder")
    again, compiled, _, said = run(TRY, copy, NUMBA_CACHE_DIR=str(blocked))
    assert (again, "_score" in compiled) == (loss, True)
    assert "compiled kernels cannot be kept" in said
    assert "NUMBA_CACHE_DIR" in said
    shutil.rmtree(copy / "bayou" / "__pycache__")
    (copy / "bayou" / "__pycache__").write_text("in the way")
    assert run(TRY, copy)[2].startswith(str(copy / ".cache" / "bayou" / "kernels"))


def test_it_is_said_once_that_kernels_are_compiled_and_not_if_quiet():
    code = textwrap.dedent("""
        import sys, time, bayou
        from bayou.kernels import compile_notices
        compile_notices.PATIENCE = 0.01
        bayou.quiet = sys.argv[1] == "quiet"
        for _ in range(2):
            with compile_notices.notice_if_slow("wait"):
                time.sleep(0.05)
    """)
    said = [
        subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=True).stderr
        for how in ("loud", "quiet")
    ]
    assert said == ["wait\n", ""]


def test_what_kernels_are_made_of_is_what_they_import():
    """So an edit in `runs`, say, has nothing compiled again, and one that could matter has."""
    package = Path(bayou.__file__).parent
    files = {_module(file.relative_to(package.parent)): file for file in package.rglob("*.py")}
    trees = {name: ast.parse(file.read_text()) for name, file in files.items()}
    made_of, waiting = set(), [name for name, file in files.items() if KERNELS.search(file.read_text())]
    assert len(waiting) > 50
    while waiting:
        name = waiting.pop()
        if name not in made_of:
            made_of.add(name)
            waiting += _imports(trees[name], files)
            waiting += [parent for parent in [name.rpartition(".")[0]] if parent not in ("", "bayou")]
    top = {name.split(".")[1] for name in files if "." in name} | {"__init__"}
    assert cache.WITHOUT_KERNELS == top - {name.split(".")[1] for name in made_of if "." in name}
    kept = {_module(file.relative_to(package.parent)) for file in cache.sources()}
    assert made_of - {"bayou"} <= kept
    assert not any(name.startswith(("bayou.runs", "bayou.estimators", "bayou.serve")) for name in kept)


KERNELS = re.compile(r"^ *@?(\w+ = )?(kernel|inlined|intrinsic|overload)\b", re.MULTILINE)


def _module(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def _imports(tree: ast.Module, modules: dict) -> list[str]:
    """What a module imports as it is loaded."""
    found, waiting = [], list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]
    return [name for name in found if name in modules and name != "bayou"]


def test_the_folder_may_appear_at_any_moment(tmp_path, monkeypatch):
    """Several processes start at once: one of them makes it, and all can write."""
    place = tmp_path / "kernels" / "0123456789abcdef"
    monkeypatch.setattr(cache, "places", lambda: [place])
    place.mkdir(parents=True)
    answers, is_dir = iter([False]), Path.is_dir  # as it was a moment ago
    monkeypatch.setattr(Path, "is_dir", lambda self: next(answers, None) is not False and is_dir(self))
    assert cache.writable() == place


def test_of_folders_for_other_sources_the_latest_stay(tmp_path):
    for number in range(12):
        (tmp_path / f"{number:016x}").mkdir()
        os.utime(tmp_path / f"{number:016x}", (number, number))
    (tmp_path / "another's").mkdir()
    cache._remove_old_caches(tmp_path / f"{11:016x}")
    left = sorted(int(folder.name, 16) for folder in tmp_path.iterdir() if folder.name != "another's")
    assert left == list(range(11 - cache.OTHERS_KEPT, 12))
    assert (tmp_path / "another's").exists()
