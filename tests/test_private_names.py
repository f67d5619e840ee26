"""Names that begin with an underscore are used in the package that defines them, and nowhere else."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "bayou"
# Public, whatever they begin with: methods of named tuples, and a function of the standard library.
NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
STANDARD = {("os", "_exit")}
# Files that need private names of other libraries; each says which, and what happens without them.
OTHER_LIBRARIES = {
    "kernels/numba_private.py": "Numba, fenced in there",
    "kernels/allocate.py": "what Numba's own way to make an array returns",
    "spark/broadcasts.py": "Spark: a broadcast is deleted once Java no longer refers to it",
}
# The base class of learners is there to be extended: its hooks and fields are known to the learners' package.
EXTENDS = {"learners": {"core"}}
# Variables that hold learners: packages that have such a name themselves must not use a learner's either.
LEARNERS = {"learner", "bank", "base", "model"}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def definitions(tree: ast.Module) -> Iterator[str]:
    """Private names that a module defines: functions, classes, fields, attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and own(node.value):
            yield node.attr


def own(value: ast.expr) -> bool:
    """Whether an expression is the object itself, or its class."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id == "super" or (value.func.id == "type" and own(value.args[0]))
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def uses(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, what it is asked of, private name) of each use of such a name of another object, or of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            value = ast.unparse(node.value)
            if not own(node.value) and node.attr not in NAMED_TUPLES and (value, node.attr) not in STANDARD:
                yield node.lineno, value, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayou"):
            for name in node.names:
                if name.name.startswith("_") and not name.name.startswith("__"):
                    yield node.lineno, node.module or "", name.name


def offences(sources: dict[str, tuple[str, str]]) -> list[str]:
    """Uses of private names outside the packages that define them; `sources`: (package, text) by file."""
    trees = {file: (package, ast.parse(text)) for file, (package, text) in sources.items()}
    defined = defaultdict(set)
    for package, tree in trees.values():
        for name in definitions(tree):
            defined[name].add(package)
    found = []
    for file, (package, tree) in trees.items():
        known = {package} | EXTENDS.get(package, set())
        for line, value, name in uses(tree):
            learners = value.rpartition(".")[2] in LEARNERS and not known & {"core", "learners"}
            in_package = defined[name] & known and not (learners and "core" in defined[name])
            if file not in OTHER_LIBRARIES and not in_package:
                found.append(f"{file}:{line}: {value}.{name} belongs to {', '.join(sorted(defined[name])) or 'others'}")
    return found


def test_private_names_are_used_in_their_own_package_alone():
    sources = {
        str(path.relative_to(SOURCES)): (package_of(path), path.read_text(encoding="utf-8"))
        for path in sorted(SOURCES.rglob("*.py"))
    }
    assert OTHER_LIBRARIES.keys() <= sources.keys()
    assert offences(sources) == []


def test_what_is_found():
    core = "class Learner:\n    def _check(self): ...\n    def _lock(self): ...\n    def save(self): self._check()\n"
    other = "def f(learner, x):\n    x._lock()\n    learner._lock()\n    learner._check()\ndef _lock(): ...\n"
    learners = "def g(one):\n    one._check()\n"
    taken = "from bayou.core import _secret\n"
    found = offences(
        {
            "core/a.py": ("core", core),
            "serve/b.py": ("serve", other),
            "learners/c.py": ("learners", learners),
            "runs/d.py": ("runs", taken),
        }
    )
    assert [line.partition(" belongs")[0] for line in found] == [
        "serve/b.py:3: learner._lock",
        "serve/b.py:4: learner._check",
        "runs/d.py:1: bayou.core._secret",
    ]
