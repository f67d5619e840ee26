"""How fast bayou learns from files compared with its peers, in one run on the same rows.

    python benchmarks/streams.py [--rows 1000000] [--repeats 5] [--json out.json] [--picture out.png] [--folder DIR]
    python benchmarks/streams.py --only "marginal, VW text" "bank, VW text" "VW, text" waiting

Rows have 39 indicators over 2^22 columns, each field following Zipf's law; columns are numbered by frequency, or with
--scattered by a hash, as most users have them. The same rows are written as svmlight text,
as VW text with numbers and with names, and as Parquet with 39 columns of text; other rows, of a label, five numbers and
eight words, as CSV and as JSON lines. Times are from the first example to the last one: bayou reports it itself; for
the peers, and for `bayou predict`, the time of a run on a file of one row is subtracted. Contenders alternate, so that
a busy machine is as busy for all; medians. Each is also shown as a share of the machine's limits: copying the bytes in
memory, and the learner's arithmetic with all weights in the cache. At the end, what people wait for besides: `bayou
info` and `bayou features` of a bank of 2^24 weights, and its file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from speed import BITS, FIELDS, cached_ns, click_rows

BAYOU = [sys.executable, "-m", "bayou", "train", "--bits", str(BITS), "--quiet", "--json"]
VW = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "-b", str(BITS), "--quiet"]
SPARSE = ["--set", "inclusion_prior=0.001"]
CHUNK = 200_000  # rows made at a time


# --- the data -------------------------------------------------------------------------------------------------------


def write_files(rows: int, folder: Path, scattered: bool) -> dict[str, Path]:
    """The same rows in every format; files written by an earlier run are reused."""
    stem = f"{rows}.scattered" if scattered else f"{rows}"
    files = {name: folder / f"{stem}.{name}" for name in ("svm", "numbers.vw", "names.vw", "csv", "jsonl", "parquet")}
    ones = {name: folder / f"one.{name}" for name in files}
    everything = files | {f"one {name}": path for name, path in ones.items()}
    whole = folder / f"{stem}.written"
    if whole.exists():
        return everything
    print(f"writing {rows:,} rows in every format ...", file=sys.stderr)
    tables: list[pa.Table] = []
    handles = {name: path.open("wb") for name, path in files.items() if name != "parquet"}
    for seed, start in enumerate(range(0, rows, CHUNK)):
        X, y = click_rows(min(CHUNK, rows - start), seed=seed)
        tables.append(_table(X, y))
        if scattered:
            X, y = click_rows(min(CHUNK, rows - start), hashed=True, seed=seed)
        labels = pa.array(y).cast(pa.string())
        numbers = pa.array(X.indices).cast(pa.string())
        features = pa.ListArray.from_arrays(pa.array(X.indptr), pc.binary_join_element_wise(numbers, "1", ":"))
        text = pc.binary_join(features, " ")
        _write(handles["svm"], pc.binary_join_element_wise(labels, text, " "))
        _write(handles["numbers.vw"], pc.binary_join_element_wise(labels, text, " | "))
        names = _names(X.indices)
        text = pc.binary_join(pa.ListArray.from_arrays(pa.array(X.indptr), names), " ")
        _write(handles["names.vw"], pc.binary_join_element_wise(labels, text, " | "))
        _write_columns(min(CHUNK, rows - start), seed, handles)
    # Row groups of a million rows, as Arrow makes them by default.
    pq.write_table(pa.concat_tables(tables).unify_dictionaries(), files["parquet"], row_group_size=1 << 20)
    for handle in handles.values():
        handle.close()
    for name, path in files.items():
        if name == "parquet":
            first = pq.ParquetFile(path).read_row_group(0)[:1]
            pq.write_table(pa.Table.from_pylist(first.to_pylist()), ones[name])
        else:
            with open(path, "rb") as file:
                ones[name].write_bytes(b"".join(file.readline() for _ in range(1 + (name == "csv"))))
    whole.touch()
    return everything


def _write_columns(rows: int, seed: int, handles: dict) -> None:
    """A label, five numbers and eight words of fifty thousand, as CSV and as JSON lines."""
    rng = np.random.default_rng(seed)
    words = _words(np.minimum(rng.zipf(1.3, (8, rows)), 50_000).ravel())
    columns = {"clicked": pa.array((rng.random(rows) < 0.3).astype(np.int8)).cast(pa.string())}
    for k, numbers in enumerate(rng.lognormal(1, 2, (5, rows)).round(2)):
        columns[f"n{k}"] = pa.array(numbers).cast(pa.string())
    for k in range(8):
        columns[f"c{k}"] = words[k * rows : (k + 1) * rows]
    if not seed:
        handles["csv"].write(",".join(columns).encode() + b"\n")
    _write(handles["csv"], pc.binary_join_element_wise(*columns.values(), ","))
    cells = []
    for name, texts in columns.items():
        mark = '"' if name.startswith("c") and name != "clicked" else ""
        cells.append(pc.binary_join_element_wise(f'"{name}":{mark}', texts, mark, ""))
    _write(handles["jsonl"], pc.binary_join_element_wise("{", pc.binary_join_element_wise(*cells, ","), "}", ""))


def _write(file, lines: pa.Array) -> None:
    file.write(pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)]), lines), "\n")[0].as_py().encode())
    file.write(b"\n")


def _names(columns: np.ndarray) -> pa.Array:
    """A name of about ten letters for each column: its field and a word."""
    kinds, codes = np.unique(columns, return_inverse=True)
    field = pa.array(kinds % FIELDS).cast(pa.string())
    names = pc.binary_join_element_wise(field, _words(kinds // FIELDS), "_")
    return names.take(pa.array(codes))


def _words(values: np.ndarray) -> pa.Array:
    """Eight letters for each number, like Criteo's categories."""
    mixed = (values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    shifts = np.arange(28, -4, -4, dtype=np.uint64)
    letters = digits[((mixed[:, None] >> shifts) & np.uint64(15)).astype(np.int64)]
    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32) * 8)
    return pa.StringArray.from_buffers(len(values), offsets.buffers()[1], pa.py_buffer(letters.tobytes()))


def _table(X, y) -> pa.Table:
    """One column of text per field; a field whose column is taken by another one is empty."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    columns: dict[str, pa.Array] = {"label": pa.array(np.maximum(y, 0).astype(np.int8))}
    for field in range(FIELDS):
        there = X.indices % FIELDS == field
        values = np.full(X.shape[0], -1, np.int64)
        values[rows[there]] = X.indices[there] // FIELDS
        kinds, codes = np.unique(values, return_inverse=True)
        words = _words(kinds)
        codes = pa.array(codes.astype(np.int32), mask=values < 0)
        columns[f"C{field + 1}"] = pa.DictionaryArray.from_arrays(codes, words)
    return pa.table(columns)


# --- the contenders -------------------------------------------------------------------------------------------------


def seconds_of(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def bayou_seconds(learner: str, path: Path, *more: str) -> tuple[float, float]:
    """(from first to last example, whole process)."""
    command = [*BAYOU, "--learner", learner, str(path), *more]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)["seconds"], time.perf_counter() - start


def predict_seconds(model: Path, path: Path, one: Path) -> tuple[float, float]:
    """(from first to last example, whole process) of writing predictions as CSV."""
    command = [
        sys.executable,
        "-m",
        "bayou",
        "predict",
        "--model",
        str(model),
        "--out",
        str(path.with_suffix(".out.csv")),
    ]
    whole = seconds_of([*command, str(path)])
    return whole - seconds_of([*command, str(one)]), whole


def vw_seconds(path: Path, one: Path, *more: str) -> tuple[float, float]:
    whole = seconds_of([*VW, "-d", str(path), *more])
    return whole - seconds_of([*VW, "-d", str(one), *more]), whole


SKLEARN = """
import sys, time
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier
start = time.perf_counter()
X, y = load_svmlight_file(sys.argv[1], n_features=2**22, zero_based=True)
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
SGDClassifier(loss="log_loss").partial_fit(X, y, classes=[-1, 1])
print(time.perf_counter() - start)
"""

RIVER = """
import sys, time
from river.linear_model import LogisticRegression
model, start = LogisticRegression(), time.perf_counter()
for line in open(sys.argv[1]):
    label, *features = line.split()
    x = {int(k): float(v) for k, v in (feature.split(":") for feature in features)}
    model.predict_proba_one(x)
    model.learn_one(x, label == "1")
print(time.perf_counter() - start)
"""


def script_seconds(code: str, path: Path) -> float:
    return float(subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True).stdout)


def first_rows(path: Path, rows: int) -> Path:
    """A file with the first rows of another."""
    few = path.with_name(f"first{rows}.svm")
    with open(path, "rb") as source, open(few, "wb") as target:
        for _, line in zip(range(rows), source, strict=False):
            target.write(line)
    return few


# --- the machine's limits -------------------------------------------------------------------------------------------


def copy_rate() -> float:
    """Bytes per second of copying in memory, one core."""
    a, b = np.zeros(1 << 28, np.uint8), np.zeros(1 << 28, np.uint8)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        b[:] = a
        times.append(time.perf_counter() - start)
    return len(a) / statistics.median(times)


def peak_memory(command: list[str]) -> int:
    """The peak memory of a command, in bytes."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=-3, stderr=-3);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    return int(subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True).stdout) * 1024


# --- all of it ------------------------------------------------------------------------------------------------------


def measure(rows: int, repeats: int, folder: Path, only: list[str], scattered: bool) -> dict:
    files = write_files(rows, folder, scattered)
    few = first_rows(files["svm"], min(rows, 100_000))
    very_few = first_rows(files["svm"], min(rows, 5_000))
    if not only or "VW, its cache".startswith(tuple(only)):
        for name in ("numbers.vw", "one numbers.vw"):
            seconds_of([*VW, "-d", str(files[name]), "-c"])  # writes the cache

    models = {name: folder / f"{rows}.{name}.bayou" for name in ("bank", "marginal")}
    for name, model in models.items():
        if any(f"{name}, predict".startswith(start) for start in only or [""]):
            bayou_seconds(name, files["svm"], "--model", str(model))

    def vw(name: str, *more: str) -> Callable[[], tuple[float, float]]:
        return lambda: vw_seconds(files[name], files[f"one {name}"], *more)

    contenders: dict[str, Callable[[], tuple[float, float]]] = {
        "bank, svmlight": lambda: bayou_seconds("bank", files["svm"]),
        "marginal, svmlight": lambda: bayou_seconds("marginal", files["svm"]),
        "VW, text, numbers": vw("numbers.vw"),
        "VW --ftrl, text, numbers": vw("numbers.vw", "--ftrl", "--l1", "1e-6"),
        "ftrl, VW text, numbers": lambda: bayou_seconds("ftrl", files["numbers.vw"], "--set", "l1=1"),
        "spike-slab, VW text, numbers": lambda: bayou_seconds("spike-slab", files["numbers.vw"], *SPARSE),
        "spike-slab, svmlight": lambda: bayou_seconds("spike-slab", files["svm"], *SPARSE),
        "VW, its cache": vw("numbers.vw", "-c"),
        "bank, VW text, numbers": lambda: bayou_seconds("bank", files["numbers.vw"]),
        "bank, VW text, names": lambda: bayou_seconds("bank", files["names.vw"]),
        "marginal, VW text, numbers": lambda: bayou_seconds("marginal", files["numbers.vw"]),
        "marginal, VW text, names": lambda: bayou_seconds("marginal", files["names.vw"]),
        "VW, text, names": vw("names.vw"),
        "marginal, Parquet": lambda: bayou_seconds("marginal", files["parquet"], "--label", "label"),
        "marginal, CSV, 14 columns": lambda: bayou_seconds("marginal", files["csv"], "--label", "clicked"),
        "marginal, JSON lines, 14 columns": lambda: bayou_seconds("marginal", files["jsonl"], "--label", "clicked"),
        "bank, predict, svmlight": lambda: predict_seconds(models["bank"], files["svm"], files["one svm"]),
        "marginal, predict, svmlight": lambda: predict_seconds(models["marginal"], files["svm"], files["one svm"]),
    }
    if only:
        contenders = {name: run for name, run in contenders.items() if name.startswith(tuple(only))}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            print(f"turn {turn} of {repeats}: {name}          ", end="\r", file=sys.stderr)
            found = run()
            if turn:  # the first warms up
                times[name].append(found)
    rate = {name: rows / statistics.median(t for t, _ in found) for name, found in times.items()}
    whole = {name: statistics.median(t for _, t in found) for name, found in times.items()}
    waited = waiting(files["svm"], folder, repeats) if not only or "waiting" in only else {}
    if only:
        found = {"rows": rows, "rows per second": rate, "whole process, seconds": whole, "limits": {}, "memory": {}}
        return found | {"waiting": waited}
    rate["scikit-learn, load + partial_fit"] = min(rows, 100_000) / script_seconds(SKLEARN, few)
    rate["river, learn_one + predict_one"] = min(rows, 5_000) / script_seconds(RIVER, very_few)
    start_up = statistics.median(bayou_seconds("bank", files["one svm"])[1] for _ in range(repeats))
    copied = copy_rate()
    arithmetic = 1e9 / (cached_ns(100_000)["Marginal"] * FIELDS)
    limits = {
        name: {
            "copying its bytes, rows/s": copied * rows / files[file].stat().st_size,
            "the arithmetic alone, rows/s": arithmetic,
        }
        for name, file in {
            "marginal, svmlight": "svm",
            "marginal, VW text, numbers": "numbers.vw",
            "marginal, VW text, names": "names.vw",
            "marginal, Parquet": "parquet",
        }.items()
    }
    once = [str(files["svm"])]
    marginal = [*BAYOU, "--learner", "marginal"]
    memory = {f"{rows * times:,} rows": peak_memory([*marginal, *once * times]) for times in (1, 10)}
    selecting = [*BAYOU, "--learner", "spike-slab", "--bits", "20", *SPARSE, *once * 10]
    memory[f"{rows * 10:,} rows, spike-slab over 2^20 features"] = peak_memory(selecting)
    return {
        "rows": rows,
        "rows per second": rate,
        "whole process, seconds": whole,
        "start-up, seconds": start_up,
        "limits": limits,
        "memory": memory,
        "waiting": waited,
    }


def waiting(data: Path, folder: Path, repeats: int) -> dict[str, float]:
    """Seconds that people wait for a bank of 2^24 weights, and what its file takes; in turns, medians."""
    import bayou

    model, again = folder / "waiting.bayou", folder / "again.bayou"
    seconds_of([*BAYOU, "--bits", "24", "--learner", "bank", "--model", str(model), str(data)])
    learner, content = bayou.load(model), model.read_bytes()

    def write() -> None:
        with open(again, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def seconds(work: Callable[[], None]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    works: dict[str, Callable[[], None]] = {
        "bayou info": lambda: seconds_of([*BAYOU[:3], "info", str(model)]),
        "bayou features": lambda: seconds_of([*BAYOU[:3], "features", str(model)]),
        "bayou.load": lambda: bayou.load(model),
        "save": lambda: learner.save(again),
        "its bytes written to the disk": write,
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(seconds(work))
    found = {name: statistics.median(each) for name, each in times.items()}
    return found | {"megabytes": len(content) / 1e6, "touched": len(learner.touched)}


OURS = ("bank", "marginal", "ftrl", "spike-slab")
RIVALS = {
    "bank, svmlight": ["VW, text, numbers", "VW, its cache"],
    "bank, VW text, numbers": ["VW, text, numbers"],
    "bank, VW text, names": ["VW, text, names"],
    "ftrl, VW text, numbers": ["VW --ftrl, text, numbers"],
    "spike-slab, VW text, numbers": ["VW --ftrl, text, numbers", "ftrl, VW text, numbers"],
    "spike-slab, svmlight": ["VW --ftrl, text, numbers"],
    "marginal, svmlight": ["VW, text, numbers", "VW, its cache"],
    "marginal, VW text, numbers": ["VW, text, numbers"],
    "marginal, VW text, names": ["VW, text, names"],
    "bank, predict, svmlight": ["bank, svmlight"],
    "marginal, predict, svmlight": ["marginal, svmlight"],
}


def show(found: dict) -> None:
    rate, whole = found["rows per second"], found["whole process, seconds"]
    print(f"\n{found['rows']:,} rows, {FIELDS} non-zeros each, 2^{BITS} weights; medians")
    print(f"{'':36}{'rows/s':>12}{'ns/feature':>12}{'process, s':>12}{'of a copy':>11}{'of arithmetic':>15}")
    for name, value in rate.items():
        limits = list(found["limits"].get(name, {}).values())
        shares = "".join(f"{value / limit:>{width}.0%}" for limit, width in zip(limits, (11, 15), strict=False))
        process = f"{whole[name]:12.2f}" if name in whole else " " * 12
        each = "" if name.endswith("columns") else f"{1e9 / value / FIELDS:.1f}"
        print(f"{name:36}{value:12,.0f}{each:>12}{process}{shares}")
    print()
    for name, rivals in RIVALS.items():
        for rival in rivals:
            if name not in rate or rival not in rate:
                continue
            ratio, process = rate[name] / rate[rival], whole[rival] / whole[name]
            print(f"{name} / {rival}: {ratio:.1f} times; whole process {process:.1f} times")
    if "start-up, seconds" in found:
        print(f"start-up to the end of a file of one row: {found['start-up, seconds']:.2f} s")
    for what, size in found["memory"].items():
        print(f"peak memory, {what}: {size / 1e6:.0f} MB")
    if waited := found["waiting"]:
        told = ", ".join(f"{name} {value:.2f} s" for name, value in list(waited.items())[:-2])
        print(f"A bank of 2^24 weights, {waited['touched']:,} met, {waited['megabytes']:.0f} MB: {told}")


def draw(found: dict, path: str) -> None:
    from matplotlib.figure import Figure

    rate = {name: value / 1e6 for name, value in sorted(found["rows per second"].items(), key=lambda pair: pair[1])}
    figure = Figure(figsize=(9, 4.2), dpi=120, layout="constrained")
    axes = figure.subplots()
    colours = ["#1f6f8b" if name.startswith(OURS) else "#b9b9b9" for name in rate]
    names = [f"bayou {name}" if name.startswith(OURS) else name for name in rate]
    bars = axes.barh(names, list(rate.values()), color=colours)
    axes.bar_label(bars, [f"{value:.2f}" for value in rate.values()], padding=4, fontsize=9)
    axes.set_xlabel("million examples learned per second, each predicted first (predict: predicted alone)")
    figure.suptitle(
        "From file to model: 39 indicators a row, 2^22 weights, two cores", x=0.01, ha="left", weight="bold"
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.12)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--picture", help="also draw the picture into this file")
    parser.add_argument("--only", nargs="+", default=[], help="only contenders whose names begin with one of these")
    parser.add_argument("--scattered", action="store_true", help="columns scattered by a hash, not by frequency")
    parser.add_argument("--folder", help="where to keep the data, some GB; a temporary folder if not given")
    args = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands start as users' do, whose modules are compiled
    with contextlib.ExitStack() as stack:
        folder = Path(args.folder or stack.enter_context(tempfile.TemporaryDirectory()))
        found = measure(args.rows, args.repeats, folder, args.only, args.scattered)
    show(found)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))
    if args.picture:
        draw(found, args.picture)


if __name__ == "__main__":
    main()
