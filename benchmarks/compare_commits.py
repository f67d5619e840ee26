"""Does the working tree do, byte for byte, what another commit does? On this machine, since bits differ by processor.

    python benchmarks/compare_commits.py --base COMMIT [--only 'csv/*'] [--quick] [--keep FOLDER]

Both sides run the cases of `commit_cases.py` on the same small data, at the same time: model files, predictions for the
next and for later rows, `--json`, features, what a server answers, logs replayed (each side its own, and the working
tree that of the base), numbers of reports. Every option, endpoint, metric and public name of the base must be
there, too; new ones may be.

Prints one line for each case, and what differs. What may differ stands in `allowed_differences.toml` with its reason.
The exit code is 1 if anything else does. Texts for people are compared by the numbers in them alone.

The first run compiles the kernels of both sides, which takes minutes; then it takes two to three.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import commit_cases
import commit_inputs
import numpy as np
import side_environments

HERE = Path(__file__).resolve().parent
QUICK = ["names/*", "csv/binary/marginal", "format/vw/marginal", "python/Marginal()", "server/marginal"]
# What differs from run to run, in all JSON: durations.
VOLATILE = {"seconds"}
VOLATILE_CARDS = {"time"}  # of a report
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", re.IGNORECASE)
LEARNER_CASE, ESTIMATOR_CASE = "python/{}(", "estimator/{}"
MOST_PRINTED = 4  # differences of one output


class Differences:
    """What was found, and whether it is allowed."""

    def __init__(self, allowed: Path) -> None:
        told = tomllib.loads(allowed.read_text()) if allowed.exists() else {}
        self._differences, self._removals = told.get("differences", {}), told.get("removals", {})
        self._renames: dict[str, str] = told.get("renames", {})
        self.used: set[str] = set()
        self.refused = 0

    def reason(self, where: str) -> str | None:
        return self._look_up(self._differences, where)

    def reason_of_removal(self, name: str, names: set[str]) -> str | None:
        """Return why a name may be gone: it is renamed to one of `names`, or its removal is listed; None if neither."""
        for old, new in self._renames.items():
            if name.endswith(old) and name.removesuffix(old) + new in names:
                self.used.add(old)
                return name.removesuffix(old) + new
        return self._look_up(self._removals, name)

    def unused(self) -> list[str]:
        return [each for each in [*self._differences, *self._removals, *self._renames] if each not in self.used]

    def _look_up(self, table: dict[str, str], what: str) -> str | None:
        for pattern, reason in table.items():
            if fnmatch.fnmatchcase(what, pattern):
                self.used.add(pattern)
                return reason
        return None

    def compare(self, case: str, base: Path, own: Path) -> list[str]:
        """Compare what a case left in two folders; return a line for each output that differs, none if all is well."""
        lines: list[str] = []
        names = sorted({str(path.relative_to(side)) for side in (base, own) for path in outputs(side)})
        for name in names:
            old, new = base / name, own / name
            if name.endswith(".error"):
                lines += [
                    f"{side} FAILED: {(side / name).read_text()}" for side in (base, own) if (side / name).exists()
                ]
                self.refused += 1
            elif not (old.exists() and new.exists()):
                side = "base" if old.exists() else "working tree"
                lines += self._judge(f"{case}: {name}", {"": f"only the {side} has it"})
            elif old.read_bytes() == new.read_bytes():
                continue
            elif name.endswith(".names"):
                lines += self._names(f"{case}: {name}", old, new)
            else:
                lines += self._judge(f"{case}: {name}", differing(leaves(old), leaves(new)))
        return lines

    def _names(self, where: str, old: Path, new: Path) -> list[str]:
        before, after = (set(path.read_text().splitlines()) for path in (old, new))
        lines = []
        for name in sorted(before - after):
            reason = self.reason_of_removal(name, after)
            self.refused += reason is None
            lines.append(f"    gone: {name}" + (f" (allowed: {reason})" if reason else ""))
        added = sorted(after - before)
        if added:
            lines.append(f"    new, which is no difference: {', '.join(added[:10])}" + " ..." * (len(added) > 10))
        return [f"  {where}", *lines]

    def _judge(self, where: str, found: dict[str, str]) -> list[str]:
        lines, more = [], 0
        for leaf, words in found.items():
            reason = self.reason(f"{where}: {leaf}" if leaf else where)
            self.refused += reason is None
            if len(lines) >= MOST_PRINTED:
                more += 1
            else:
                lines.append(f"    {leaf}: {words}" + (f" (allowed: {reason})" if reason else ""))
        return [f"  {where}", *lines, *([f"    and {more} more"] if more else [])] if found else []


def outputs(folder: Path) -> Iterator[Path]:
    """Yield the files of a case that are compared: not logs, nor the server's own folder."""
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        if path.is_file() and not path.name.startswith(".") and path.suffix != ".log":
            yield path


def leaves(path: Path) -> dict[str, Any]:
    """Return what a file holds, part by part: arrays, columns, values of JSON, numbers of a text."""
    match path.suffix:
        case ".bayou":
            return model_leaves(path.read_bytes())
        case ".json":
            return dict(json_leaves(json.loads(path.read_text())))
        case ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        case ".csv":
            with path.open(newline="") as file:
                head, *rows = csv.reader(file)
            return dict(zip(head, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(head, ())
        case ".parquet":
            import pyarrow.parquet as pq

            return pq.read_table(path).to_pydict()
        case ".html":
            return report_leaves(path.read_text())
        case ".txt":
            return {"numbers": NUMBER.findall(path.read_text())}
        case _:
            return {"lines": path.read_text().splitlines()}


def model_leaves(content: bytes) -> dict[str, Any]:
    """Return header values and arrays of a safetensors file, read without bayou."""
    length = int.from_bytes(content[:8], "little")
    described = json.loads(content[8 : 8 + length])
    metadata = described.pop("__metadata__", {})
    metadata.pop("checksums", None)  # of what is compared here anyway
    found = {}
    for name, text in metadata.items():
        try:
            found |= dict(json_leaves(json.loads(text), name))
        except ValueError:
            found[name] = text
    types = {"BOOL": "?", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
    for name, about in described.items():
        kind = types.get(about["dtype"]) or f"<{about['dtype'][0].lower()}{int(about['dtype'][1:]) // 8}"
        start, stop = (8 + length + offset for offset in about["data_offsets"])
        found[f"array {name}"] = np.frombuffer(content[start:stop], kind).reshape(about["shape"])
    return found


def json_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value); a list of plain values is one."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in VOLATILE:
                yield from json_leaves(below, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for k, below in enumerate(value):
            yield from json_leaves(below, f"{name}.{k}" if name else str(k))
    else:
        yield name, value


def report_leaves(page: str) -> dict[str, Any]:
    """Return the numbers of a report: what its figures draw, its cards, its tables."""
    figures = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = {}
    for figure in json.loads(figures[1]) if figures else ():
        for k, view in enumerate(figure["views"]):
            drawn = json_leaves(view["data"], f"figure {figure['key']}.{k}")
            found |= {name: value for name, value in drawn if not isinstance(value, str)}
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    for name, value in re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", body):
        if name not in VOLATILE_CARDS:
            found[f"card {name}"] = NUMBER.findall(value)
    for k, table in enumerate(re.findall(r"<table>.*?</table>", body, re.DOTALL)):
        found[f"table {k}"] = re.findall(r'<td class="number">([^<]*)</td>', table)
    return found


def differing(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    """Return, for each part that is not the same, in words how it differs."""
    found = dict.fromkeys(old.keys() - new.keys(), "gone") | dict.fromkeys(new.keys() - old.keys(), "new")
    for name in old.keys() & new.keys():
        if words := difference(old[name], new[name]):
            found[name] = words
    return dict(sorted(found.items()))


def difference(old: Any, new: Any) -> str:
    """Return in words how two values differ, "" if they do not. NaN is NaN, -0.0 is not 0.0, 1 is not 1.0."""
    if isinstance(old, np.ndarray):
        if old.dtype != new.dtype or old.shape != new.shape:
            return f"{old.dtype}{list(old.shape)} became {new.dtype}{list(new.shape)}"
        old, new = old.reshape(-1), new.reshape(-1)
        if old.tobytes() == new.tobytes():
            return ""
        rows = np.flatnonzero(old.view(np.uint8).reshape(old.size, -1) != new.view(np.uint8).reshape(old.size, -1))
        rows = np.unique(rows // old.dtype.itemsize)
        if old.dtype.kind not in "fiu":
            return f"{rows.size:,} of {old.size:,} values"
        apart = np.abs(old[rows].astype(np.float64) - new[rows].astype(np.float64))
        first = f"[{rows[0]}] {old[rows[0]]} became {new[rows[0]]}"
        return f"{rows.size:,} of {old.size:,}, the first {first}, at most {np.nanmax(apart):.3g} apart"
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        if len(old) != len(new):
            return f"{len(old)} values became {len(new)}"
        rows = [k for k, (a, b) in enumerate(zip(old, new, strict=True)) if repr(a) != repr(b)]
        return (
            f"{len(rows)} of {len(old)}, the first [{rows[0]}] {old[rows[0]]!r} became {new[rows[0]]!r}" if rows else ""
        )
    return "" if repr(old) == repr(new) else f"{str(old)[:200]!r} became {str(new)[:200]!r}"


class Side(threading.Thread):
    """One side at its work; puts the name of each case that is done into a queue."""

    def __init__(self, python: Path | str, folder: Path, inputs: Path, cases: list[str]) -> None:
        super().__init__(daemon=True)
        self.python, self.folder, self.env = python, folder, side_environments.variables()
        self.done: Queue[str | None] = Queue()
        self.seconds: dict[str, float] = {}
        self._command = [str(python), str(HERE / "commit_cases.py"), str(inputs), str(folder), *cases]

    def run(self) -> None:
        errors = self.folder.with_suffix(".log").open("w")
        process = subprocess.Popen(self._command, env=self.env, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            name, seconds = json.loads(line)
            self.seconds[name] = seconds
            self.done.put(name)
        process.wait()
        self.done.put(None)


def not_covered(own: Path) -> list[str]:
    """Return the learners and estimators that no case runs."""
    folder, cases = own / "names" / "covered", list(commit_cases.cases())
    missing = []
    for file, pattern in (("learners", LEARNER_CASE), ("estimators", ESTIMATOR_CASE)):
        path = folder / f"{file}.names"
        names = path.read_text().splitlines() if path.exists() else []
        missing += [name for name in names if not any(case.startswith(pattern.format(name)) for case in cases)]
    return missing


def replay_of_base(case: str, base: Side, own: Side) -> None:
    """The working tree replays the log that the base wrote."""
    state, out = base.folder / case / "state", own.folder / case / "replayed of the base.bayou"
    run = [str(own.python), "-m", "bayou", "replay", str(state), "--out", str(out)]
    done = subprocess.run(run, env=own.env, capture_output=True, text=True, check=False)
    if done.returncode:
        (own.folder / case / "replay of the base failed.error").write_text(done.stderr)
    (base.folder / case / out.name).write_bytes((base.folder / case / "replayed.bayou").read_bytes())


def compare(base: Side, own: Side, cases: list[str], differences: Differences) -> None:
    """Print a line for each case as soon as both sides have done it, and below it what differs."""
    for side in (base, own):
        side.start()
    for case in cases:
        finished = [side.done.get() for side in (base, own)]
        if None in finished:
            side = (base, own)[finished.index(None)]
            said = side.folder.with_suffix(".log").read_text()
            sys.exit(f"the {side.folder.name} side ended in {case}: {said[-3000:]}")
        if case.startswith("server/"):
            replay_of_base(case, base, own)
        before = differences.refused
        lines = differences.compare(case, base.folder / case, own.folder / case)
        word = "DIFFERS" if differences.refused > before else "allowed" if lines else "same"
        count = sum(1 for _ in outputs(own.folder / case))
        print(f"{word:8} {case} ({count} outputs, {base.seconds[case]:.1f} and {own.seconds[case]:.1f} s)", flush=True)
        for line in lines:
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--base", metavar="COMMIT", help="the commit to compare with; it is installed once")
    which.add_argument("--no-install", metavar="PYTHON", help="compare with the bayou of this Python")
    parser.add_argument("--sources", type=Path, default=HERE.parent / "src", help="in the place of the working tree")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cases, as in 'csv/*'")
    parser.add_argument("--quick", action="store_true", help="a few cases, in seconds")
    parser.add_argument("--allow", type=Path, default=HERE / "allowed_differences.toml")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what both sides wrote")
    options = parser.parse_args()
    start = time.perf_counter()
    python = options.no_install or side_environments.install_commit(options.base)
    patterns = options.only + QUICK * options.quick
    cases = list(commit_cases.chosen(patterns))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        if folder.exists() and any(folder.iterdir()):
            sys.exit(f"{folder} is not empty; name a new folder.")
        inputs = folder / "inputs"
        commit_inputs.write(inputs)
        base = Side(python, folder / "base", inputs, patterns)
        own = Side(side_environments.install_sources(options.sources), folder / "own", inputs, patterns)
        differences = Differences(options.allow)
        compare(base, own, cases, differences)
        for name in not_covered(own.folder):
            print(f"not covered: {name}; add it to commit_cases.py")
    if not patterns:
        for each in differences.unused():
            print(f"allowed, but not found: {each}")
    seconds = time.perf_counter() - start
    print(f"{len(cases)} cases, {differences.refused} differences that are not allowed, {seconds:.0f} s")
    sys.exit(1 if differences.refused else 0)


if __name__ == "__main__":
    main()
