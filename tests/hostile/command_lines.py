"""Random command lines from the command's own grammar: whatever they are, they end with a sentence or a result.

    found = attack(seconds=60, seed=0)

Each line is a command with some of its options, with good values, bad ones and none at all, over the tiny files of
`files`. Lines run in this process. What is expensive (the demo, the papers' experiments) is called up to its work.
"""

import contextlib
import dataclasses
import gzip
import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

import bayou
from bayou.cli import app
from tests.hostile import files
from tests.hostile.counts import Counts

COMMAND = typer.main.get_command(app)
CODES = (0, 1, 2)
# A line that takes longer than this hangs; one that compiles, on a busy machine, does not.
SECONDS = 300
# What no command may print: a traceback, an error that nobody worded, an order to the terminal.
FORBIDDEN = re.compile(
    "Traceback|Unexpected error|the system refuses|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]"
)

OUTPUTS = (
    "m.bayou", "p.csv", "p.csv.gz", "p.csv.zst", "p.parquet", "f.json", "x.svm", "x.svm.gz", "r.html", "c.png", "c.svg",
    "t.npz", "noending",
)  # fmt: skip
WORDS = (
    "", " ", "0", "-1", "1e400", "nan", "-", "--", "=", ",", "*", "[x", "a=b", "a,b", "label", "clicked", "age", "city",
    "ünï", "\u202e", "\x1b[31m", "\udcff", "x" * 5000, "'", "$x$", "%s", "{}", "../..", "/", "~", "true", "None",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "-1", "1e3", "0.5", "nan", "inf", "-inf", "", "many", "0x10", "1e400", "٣", "1_000", "9" * 30)
# What takes time or memory in proportion: sound values are small.
SMALL = {
    "bits": ("3", "4", "5", "5", "5", "31"),
    "passes": ("1", "2"),
    "threads": ("0", "1"),
    "examples": ("0", "1", "20", "1000"),
    "jobs": ("1",),
    "seeds": ("1", "2"),
    "top": ("0", "5", "1000000"),
    "sizes": ("3", "2,5", "1000000"),
    "holdout": ("0", "0.2", "0.9"),
    "bins": ("0", "3", "1000"),
    "seed": ("0", "7", str(2**63)),
    "negative_rate": ("1", "0.1", "0", "2"),
    "label_above": ("0", "0.5"),
}
TEXTS = {
    "format": ("auto", "svmlight", "vw", "csv", "tsv", "criteo", "parquet", "jsonl"),
    "on_error": ("skip", "raise"),
    "label": ("clicked", "grade", files.EVIL, "age"),
    "positive": ("1", "0", "high", "oslo"),
    "weight": ("age", "city"),
    "ignore": ("age", "city,age"),
    "numeric": ("age", "city"),
    "category": ("age", "city"),
    "text": ("city",),
    "date": ("age", "city"),
    "missing": ("", "-999", "oslo"),
    "decimal": ("point", "comma", "dot"),
    "cross": ("age,city", "city,*", "*", "a,u", "age,city,*"),
    "ranges": ("a=0-3", "a=0-1,c=2-9", "a", "a=5-2"),
    "interactions": ("ac", "::", "a", "zz", ":::"),
    "by": ("mean", "z", "inclusion"),
    "checkpoint": ("1", "10", "1min", "0.001s", "0"),
    "kind": ("random", "nonbinary", "categorical", "groups"),  # longtail has millions of features, but for a setting
    "names": ("list", "table1", "figure2", "l1-table3", "olss-figure1"),
}
SETTINGS = (
    "prior_variance=0.1", "prior_variance=-1", "memory=1e-4", "link=probit", "link=x", "intercept=false", "intercept=2",
    "dtype=float64", "dtype=int8", "alpha=0.1", "alpha=nan", "l1=1e400", "prior_mean=1,2", "n_features=5", "seed=1",
    "groups=3:1,2:0.5", "groups=:", "active=2", "n_features=-1", "n_categories=3", "weights=x", "preset=slim", "=", "x",
)  # fmt: skip
# Lines that work; with other options among theirs, or one word less, they often do not.
SOUND = [
    shlex.split(line)
    for line in (
        "train clicks.csv --label clicked --learner marginal --bits 5",
        "train clicks.jsonl --label clicked --learner ftrl --bits 5 --model out/m.bayou",
        "train clicks.svm clicks.svm.gz --learner adagrad --bits 5 --model out/m.bayou",
        "train clicks.vw --learner marginal --bits 4 --json",
        "train clicks.parquet --label clicked --learner marginal --bits 4 --quiet",
        "train clicks.svm --resume text.bayou --model out/m.bayou",
        "train clicks.csv --like table.bayou",
        "train huge.svm --learner ftrl --bits 5",
        "look clicks.csv --label clicked",
        "look clicks.jsonl --json",
        "look clicks.parquet --category age",
        "predict clicks.csv --model table.bayou",
        "predict clicks.svm --model text.bayou --out out/p.csv",
        "predict clicks.vw --model vw.bayou --out out/p.parquet",
        "predict typo.svm --model text.bayou --on-error skip",
        "compare clicks.svm --learner marginal --learner ftrl --bits 5",
        "select clicks.csv --label clicked --bits 4",
        "features table.bayou",
        "features vw.bayou --selected --out out/f.json",
        "info table.bayou",
        "merge table.bayou other.bayou --out out/m.bayou",
        "train clicks.csv --label clicked --learner marginal --bits 5 --processes 2",
        "simulate random --examples 20 --out out/x.svm",
        "simulate groups --examples 20 --out -",
        "simulate longtail --set n_categories=3 --examples 20 --out out/x.svm",
        "reproduce table1 --quick --out out/r",
        "demo --examples 1000 --out out/c.png",
        "serve --learner marginal --bits 5 --data out/state",
        "serve --model table.bayou --data out/state --port 0",
        "replay out/state --out out/m.bayou",
    )
]
LEARNERS = ("marginal", "ftrl", "adagrad", "gaussian", "marginal:prior_variance=.1", "ftrl:alpha=x", "marginal:", ":")


class Grammar:
    """Command lines, drawn from what the command's parser knows of its commands and options."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self._rng = rng
        self._commands = COMMAND.commands
        names = sorted(os.listdir(folder))
        self._models = [name for name in names if name.endswith(".bayou")]
        self._data = [name for name in names if name not in self._models]
        self._sound = [n for n in self._data if n.startswith(("clicks.", "one", "numbers", "grades", "link"))]

    def line(self) -> list[str]:
        rng = self._rng
        if rng.random() < 0.02:
            return [rng.choice(WORDS) for _ in range(rng.randrange(4))]
        if rng.random() < 0.5:
            line = list(rng.choice(SOUND))
            extra = [part for parameter in self._commands[line[0]].params for part in self._given(parameter, 0.25)]
        else:
            line = [rng.choice(list(self._commands))]
            extra = [part for parameter in self._commands[line[0]].params for part in self._given(parameter)]
        rng.shuffle(extra)
        line += [word for option in extra for word in option]
        if rng.random() < 0.05:
            line.insert(rng.randrange(1, len(line) + 1), rng.choice(WORDS))
        if rng.random() < 0.03 and len(line) > 1:
            del line[rng.randrange(1, len(line))]
        return line

    def _given(self, parameter, often: float = 1.0) -> list[list[str]]:
        """No, one or several mentions of a parameter, each as words."""
        rng, option = self._rng, parameter.param_type_name == "option"
        if parameter.name == "help" and rng.random() < 0.99:
            return []
        wanted = often == 1.0 and (parameter.required or parameter.name in ("bits", "learner", "examples"))
        if rng.random() > (0.95 if wanted else often * (0.3 if parameter.name in ("label", "model", "out") else 0.12)):
            return []
        several = parameter.multiple or parameter.nargs != 1
        count = rng.choice((1, 1, 1, 2)) if several else 1
        count += parameter.name == "models"
        spelled = rng.choice(parameter.opts + parameter.secondary_opts) if option else None
        if option and parameter.is_flag:
            return [[spelled]]
        values = [self._value(parameter) for _ in range(count)]
        return [[spelled, value] for value in values] if option else [values]

    def _value(self, parameter) -> str:
        rng, name = self._rng, parameter.name
        if rng.random() < 0.06:
            # A thousand passes are no mistake; they only take their time.
            return rng.choice(WORDS if rng.random() < 0.5 else NUMBERS[:-2] if name == "passes" else NUMBERS)
        if name in ("model", "resume", "like", "models", "base") and not (name == "model" and not parameter.required):
            return self._path(self._models[:4] if rng.random() < 0.5 else self._models)
        if name == "data":
            return self._path(self._sound if rng.random() < 0.7 else self._data)
        if name in ("model", "out", "csv", "report", "picture", "truth"):
            return self._output()
        if name == "learner":
            return rng.choice(LEARNERS[:3] if rng.random() < 0.8 else LEARNERS)
        if name == "set_":
            return rng.choice(SETTINGS)
        known = TEXTS.get(name) or SMALL.get(name)
        return rng.choice(known or NUMBERS)

    def _path(self, names: list[str]) -> str:
        rng = self._rng
        if rng.random() < 0.08:
            return rng.choice(
                ("nosuch", "folder", "closed", "closed/x", "-", "*.svm", "c*", "/dev/null", "no*such", "")
            )
        name = rng.choice(names)
        return name if rng.random() < 0.9 else rng.choice((f"./{name}", f"folder/../{name}", os.path.abspath(name)))

    def _output(self) -> str:
        rng = self._rng
        if rng.random() < 0.15:
            there = ("folder", "closed/x.csv", "no/such/p.csv", "-", "/dev/null", "/dev/full", "/proc/x.csv", "")
            return rng.choice((*there, *self._data, *self._models))
        return f"out/{rng.choice(OUTPUTS)}"


@dataclasses.dataclass
class Outcome:
    """How a line ended."""

    code: object
    output: str
    warned: list[str]


def run(line: list[str]) -> Outcome:
    """Run a line as the command would."""
    said, told = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in range(2))
    with warnings.catch_warnings(record=True) as warned, _limited():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        with mock.patch.object(sys, "stdout", said), mock.patch.object(sys, "stderr", told):
            try:
                code = COMMAND.main(line, "bayou", standalone_mode=False)
            except BaseException as error:  # what no edge has caught
                code = repr(error)
            said.flush()
            told.flush()
    out, err = (stream.buffer.getvalue() for stream in (said, told))
    binary = "-" in line  # a table or a model may have been asked for there
    text = ("" if binary else out.decode("utf-8", "replace")) + err.decode("utf-8", "surrogateescape")
    own = [str(one.message) for one in warned if "bayou" in one.filename]
    return Outcome(code, text, own)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """A line that hangs is interrupted; where there are no alarms it is not."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number, frame):
        raise RuntimeError("the line hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def complaints(line: list[str], outcome: Outcome, before: dict[str, object], folder: Path) -> list[str]:
    """What is wrong with how a line ended."""
    found = []
    if outcome.code not in CODES:
        found.append(f"exit code {outcome.code}")
    if strange := FORBIDDEN.search(outcome.output):
        found.append(f"printed {strange[0]!r}")
    if outcome.code in CODES[1:] and not outcome.output.strip():
        found.append("failed without a word")
    found += [f"warned: {text}" for text in outcome.warned]
    named = Counter(os.path.basename(os.path.realpath(word)) for word in line)
    resumed = {"--resume", "--like"} & set(line)
    for name in sorted({name for name, _ in stamps(folder).items() ^ before.items()}):
        if named[name] != 1 and not (named[name] and (resumed or name not in before)):  # once: an output, no more
            found.append(f"changed {name}")
    for path in (folder / "out").iterdir():
        if path.is_dir():
            found += [f"left {path.name} behind"] if path.name.endswith(".part") else []
        elif outcome.code == 2:
            found.append(f"wrote {path.name} although it was called wrongly")
        elif not whole(path):
            found.append(f"{path.name} is not whole")
    return found


def stamps(folder: Path) -> dict[str, object]:
    """What changes when a file does."""
    with os.scandir(folder) as entries:
        states = {
            entry.name: entry.stat(follow_symlinks=False)
            for entry in entries
            if not entry.is_dir(follow_symlinks=False)
        }
    return {name: (state.st_mtime_ns, state.st_size, state.st_ino) for name, state in states.items()}


def restore(folder: Path, before: dict[str, object]) -> dict[str, object]:
    """Undo what a line did; the stamps of what is there then."""
    for path in (folder / "out").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    now = stamps(folder)
    if now == before:
        return before
    for name in {name for name, _ in now.items() ^ before.items()}:
        path, kept = folder / name, folder.parent / "kept" / name
        path.unlink(missing_ok=True)
        if kept.is_symlink():
            path.symlink_to(os.readlink(kept))
        elif kept.exists():
            shutil.copy2(kept, path)
    return stamps(folder)


def whole(path: Path) -> bool:
    """Whether a file is all that its name promises."""
    data = path.read_bytes()
    try:
        if data.startswith(b"PAR1"):
            pq.read_table(path)
        elif data[8:10] == b'{"':  # safetensors
            bayou.load(path)
        elif data.startswith(b"\x1f\x8b"):
            gzip.decompress(data)
        elif data.startswith(b"\x28\xb5\x2f\xfd"):
            pa.CompressedInputStream(pa.py_buffer(data), "zstd").read()
        elif data.startswith(b"PK"):
            np.load(path)
        elif data.startswith(b"{"):
            json.loads(data)
        elif data.startswith(b"\x89PNG"):
            return data.endswith(b"IEND\xaeB`\x82")
        elif data.lstrip().startswith(b"<"):
            return data.rstrip().endswith((b"</html>", b"</svg>"))
        elif data:
            return data.endswith(b"\n")
    except Exception:
        return False
    return True


@contextlib.contextmanager
def arena() -> Iterator[Path]:
    """A folder of hostile files to be in, a standard input without end or beginning, and nothing expensive."""
    from bayou import reproduce
    from bayou.cli.demo import narration as demo_words
    from bayou.cli.demo import plot, study
    from bayou.serve.served_model import ServedModel
    from bayou.serve.service import new_learner

    find = reproduce.find

    def cheap(name: str):
        findings = {"tables": (), "files": ()}
        return SimpleNamespace(
            **vars(find(name)), run=lambda options: SimpleNamespace(**findings, notes=[str(options.data)])
        )

    here, place = os.getcwd(), Path(tempfile.mkdtemp())
    folder = place / "here"
    kept, null = os.dup(0), os.open(os.devnull, os.O_RDWR)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        stack.callback(os.chdir, here)
        stack.callback(lambda: [os.dup2(kept, 0), os.close(kept), os.close(null)])
        stack.enter_context(mock.patch("bayou.runs.memory.free_memory", return_value=50_000_000))
        stack.enter_context(mock.patch.object(reproduce, "find", cheap))
        stack.enter_context(mock.patch("bayou.runs.warmup.run_all"))
        stack.enter_context(mock.patch("bayou.serve.server.Server.run"))
        stack.enter_context(mock.patch("bayou.serve.server._bound"))
        served = ServedModel(new_learner("marginal", [], 5, {}))
        stack.enter_context(mock.patch("bayou.serve.state_folder.replayed", return_value=served))
        for module, names in ((study, ("warm_up", "run", "write_report")), (plot, ["draw"]), (demo_words, ["show"])):
            for name in names:
                stack.enter_context(mock.patch.object(module, name, return_value=None))
        os.dup2(null, 0)
        for made in (folder, place / "kept"):
            made.mkdir()
            files.make(made)
        (folder / "out").mkdir()
        os.chdir(folder)
        yield folder


def attack(seconds: float, seed: int) -> Counts:
    """As all sweeps have it: how many lines were tried, and what went wrong."""
    told: dict[str, Any] = try_lines(seconds, seed)
    return Counts(Counter({"lines": told["lines"]}), [f"{what}\n{line}" for what, line in told["findings"].items()])


def try_lines(seconds: float = 60.0, seed: int = 0, lines: int | None = None) -> dict[str, object]:
    """Run random command lines for some time, or that many.

    Returns:
        counts of "lines" and of exit codes by command, and "findings": what went wrong, each with a line that shows it.
    """
    counts: Counter[str] = Counter()
    findings: dict[str, str] = {}
    with arena() as folder:
        grammar, ends, before = Grammar(random.Random(seed), folder), time.monotonic() + seconds, stamps(folder)
        while counts["lines"] < lines if lines is not None else time.monotonic() < ends:
            line = grammar.line()
            outcome = run(line)
            counts["lines"] += 1
            counts[f"exit {outcome.code}"] += 1
            counts[f"{line[0] if line and line[0] in COMMAND.commands else 'none'}: exit {outcome.code}"] += 1
            for complaint in complaints(line, outcome, before, folder):
                shown = outcome.output.strip().rpartition("\n")[2][:300]
                findings.setdefault(
                    f"{complaint} | {re.sub(r'[0-9]+', '#', shown)[:90]}", f"{shlex.join(line)}\n  {shown}"
                )
            before = restore(folder, before)
    return {**dict(sorted(counts.items())), "findings": findings}


if __name__ == "__main__":
    told = try_lines(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for what, line in told.pop("findings").items():
        print(f"{what}\n  {line}\n".encode("utf-8", "backslashreplace").decode())
    print(json.dumps(told, indent=1))
