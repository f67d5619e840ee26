"""How well the untuned bank predicts against peers tuned in hindsight: one pass over real streams, in one run.

    python benchmarks/quality.py [--sets a9a,sms] [--quick] [--processes 2] [--reuse results.json] [--json out.json]
                                 [--markdown out.md] [--picture out.png] [--bank NAME=module:function]
                                 [--data DIR] [--cache DIR]

Every example is predicted before it is learned from. Log loss, AUC and calibration error of: the bank at its defaults
and with its wide preset; every setting of every peer (quality_peers.py says which); and a stack of the best setting of
each tuned peer. "Best" is by log loss over the whole stream, in hindsight. How the features are made: quality_sets.py.

Whenever a set is done, a line is printed and the JSON is written. --reuse takes the peers' results from such a file, so
that only the banks and the missing sets are run; this also continues a run that was stopped. From a page (.md) with
these tables it takes the peers of the main one, which is then all that is printed. --bank names any function from CSR
rows and labels -1 or +1 to probabilities; it may be repeated. --quick takes the first 2,000 rows of each set: to see
that everything runs, not to compare.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import quality_peers
import quality_sets
from scipy import sparse

from bayou import Batch, evaluate

QUICK_ROWS = 2000
AT_ONCE = 4  # settings of one peer over one set that are run together
STACK = "peers stacked"
BANKS = ("bank=quality:slim", "bank wide=quality:wide")
PACKAGES = ("vowpalwabbit", "scikit-learn", "river", "numpy")


def slim(X, y, fields=None) -> np.ndarray:
    return own("slim", X, y, fields)


def wide(X, y, fields=None) -> np.ndarray:
    return own("wide", X, y, fields)


def own(preset: str, X, y, fields=None) -> np.ndarray:
    """`fields` has the column of each feature, where there are columns: readers of tables say it of every cell."""
    from bayou.learners import Bank

    groups = None if fields is None else fields[X.indices]
    batch = Batch.from_arrays(X.indptr, X.indices, X.data, y, groups=groups)
    return Bank(n_features=X.shape[1], preset=preset).learn(batch)


# --- one set --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def rows_of(name: str, data: Path, cache: Path, quick: bool):
    X, y = quality_sets.load(name, data, cache)
    return (X[:QUICK_ROWS], y[:QUICK_ROWS]) if quick else (X, y)


def describe(name: str, *where) -> dict:
    X, y = rows_of(name, *where)
    checksum = zlib.crc32(y.astype(np.int8).tobytes(), zlib.crc32(X.indices.astype(np.int32).tobytes()))
    about = {"rows": len(y), "features": X.shape[1], "nonzeros": X.nnz, "checksum": checksum}
    return about | {"positives": float(np.mean(y > 0))}


def vw_text(name: str, data: Path, cache: Path, quick: bool) -> Path:
    """The text that VW reads, written if it is not there yet."""
    path = cache / (f"{name}.quick.vw" if quick else f"{name}.vw")
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        quality_peers.write_vw(*rows_of(name, data, cache, quick), unfinished)
        unfinished.replace(path)
    return path


def scored(logits, y) -> dict:
    meter = evaluate.Meter()
    meter.add(1.0 / (1.0 + np.exp(-np.clip(logits, -quality_peers.SUREST, quality_peers.SUREST))), y)
    found = meter.result()
    return {"log_loss": found.log_loss, "auc": found.auc, "calibration_error": found.calibration_error}


def run_settings(name: str, which: list[int], *where) -> list[dict]:
    X, y = rows_of(name, *where)
    every, text = quality_peers.settings(), vw_text(name, *where)
    results = []
    for setting in (every[k] for k in which):
        start = time.perf_counter()
        logits = setting.run(X, y, text)
        seconds = time.perf_counter() - start
        about = {"family": setting.family, "setting": setting.name, "default": setting.default}
        results.append(about | scored(logits, y) | {"seconds": seconds})
    return results


def run_stack(name: str, names: list[tuple[str, str]], *where) -> list[dict]:
    """Run the chosen settings again, and one regression on their logits."""
    X, y = rows_of(name, *where)
    chosen = [s for s in quality_peers.settings() if (s.family, s.name) in names]
    start = time.perf_counter()
    logits = np.column_stack([s.run(X, y, vw_text(name, *where)) for s in chosen])
    found = scored(quality_peers.stack(logits, y), y)
    about = {"family": STACK, "setting": ", ".join(f"{s.family} {s.name}" for s in chosen), "default": False}
    return [about | found | {"seconds": time.perf_counter() - start}]


def run_bank(name: str, bank: str, target: str, *where) -> list[dict]:
    X, y = rows_of(name, *where)
    run = function_of(target)
    own_bank = target.startswith("quality:")
    told = {"fields": quality_sets.fields(name, *where[:2])} if own_bank else {}
    run(X[:100], y[:100], **told)  # compiled before the clock starts
    start = time.perf_counter()
    p = np.asarray(run(X, y, **told), dtype=float)
    seconds = time.perf_counter() - start
    about = {"family": bank, "setting": "", "default": True}
    return [about | scored(quality_peers.logit(p), y) | {"seconds": seconds}]


def try_bank(target: str) -> None:
    """Fail if the bank does not exist or does not run."""
    function_of(target)(sparse.csr_matrix([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]))


def function_of(target: str) -> Callable:
    module, function = target.split(":")
    return getattr(importlib.import_module(module), function)


# --- all of them ----------------------------------------------------------------------------------------------------


def run_all(sets: list[str], banks: dict[str, str], processes: int, known: dict, keep: Callable, where) -> dict:
    """{set: {"rows": ..., "results": [...]}}, set by set; `known` has the peers' results of some, `keep` gets all."""
    found: dict = {}
    with ProcessPoolExecutor(processes) as pool:
        for target in banks.values():
            pool.submit(try_bank, target).result()  # better to fail now than after the first set
        for name in sets:
            start = time.perf_counter()
            about = pool.submit(describe, name, *where).result()
            peers = known.get(name) or run_peers(pool, name, where)
            for what in ("rows", "nonzeros", "checksum"):
                if peers.get(what, about[what]) != about[what]:
                    raise SystemExit(f"{name}: the results to reuse are of other rows ({what} differs).")
            tasks = [pool.submit(run_bank, name, bank, target, *where) for bank, target in banks.items()]
            own_results = [result for task in tasks for result in task.result()]
            found[name] = about | {"versions": peers["versions"], "results": peers["results"] + own_results}
            keep(found)
            print(line_of(name, found[name], list(banks), time.perf_counter() - start), flush=True)
    return found


def run_peers(pool: ProcessPoolExecutor, name: str, where) -> dict:
    pool.submit(vw_text, name, *where).result()  # written once, before several processes need it
    tasks = [pool.submit(run_settings, name, which, *where) for which in _groups(quality_peers.settings())]
    results = [result for task in tasks for result in task.result()]
    best = [(r["family"], r["setting"]) for r in best_of_each({"results": results}, tuned_only=True)]
    results += pool.submit(run_stack, name, best, *where).result()
    return {"versions": versions(), "results": results}


def _groups(every: list[quality_peers.Setting]) -> list[list[int]]:
    """Numbers of settings, a few of one family in each group."""
    groups: list[list[int]] = []
    for k, setting in enumerate(every):
        last = groups[-1] if groups else []
        if last and every[last[0]].family == setting.family and len(last) < AT_ONCE:
            last.append(k)
        else:
            groups.append([k])
    return groups


def versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def reusable(path: Path, quick: bool) -> dict:
    """The peers' part of earlier results: of those sets on which all of today's settings were run, and no others."""
    held = json.loads(path.read_text())
    if held["quick"] != quick:
        raise SystemExit(f"{path} has results {'with' if held['quick'] else 'without'} --quick.")
    wanted = {(setting.family, setting.name) for setting in quality_peers.settings()}
    sets = {}
    for name, about in held["sets"].items():
        peers = [r for r in about["results"] if r["family"] in (*families(), STACK)]
        if {(r["family"], r["setting"]) for r in peers if r["family"] != STACK} != wanted:
            print(f"{name}: {path} has other settings; all peers are run again")
            continue
        if about["versions"] != versions():
            print(f"{name}: peers reused from {', '.join(f'{k} {v}' for k, v in about['versions'].items())}")
        sets[name] = about | {"results": peers}
    return sets


def published(path: Path) -> dict:
    """The best peer, VW at its defaults and the stack of each set in the main table of a page."""
    sets = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, rows, best, setting, vw, stack, *_ = [cell.strip(" †") for cell in line.split("|")[1:]] + [""] * 6
        if name in quality_sets.SETS and name not in sets:
            family = next(family for family in families() if setting.startswith(family))
            results = [
                {"family": family, "setting": setting.removeprefix(family).strip(), "log_loss": float(best)},
                {"family": "VW", "setting": "", "log_loss": float(vw), "default": True},
                {"family": STACK, "setting": "", "log_loss": float(stack)},
            ]
            results = [{"default": False} | result for result in results]
            sets[name] = {"rows": int(rows.replace(",", "")), "versions": {}, "results": results}
    return sets


# --- reading the results --------------------------------------------------------------------------------------------


def families(tuned_only: bool = False) -> list[str]:
    names = [setting.family for setting in quality_peers.settings()]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1 or not tuned_only]


def result_of(about: dict, family: str, default: bool = False) -> dict:
    """The best setting of a family in hindsight, or its default one."""
    return min(
        (r for r in about["results"] if r["family"] == family and (r["default"] or not default)),
        key=lambda r: r["log_loss"],
    )


def best_of_each(about: dict, tuned_only: bool = False) -> list[dict]:
    known = {r["family"] for r in about["results"]}
    return [result_of(about, family) for family in families(tuned_only) if family in known]


def best_peer(about: dict) -> dict:
    return min(best_of_each(about), key=lambda r: r["log_loss"])


def ratio(about: dict, family: str, default: bool = False) -> float:
    """Log loss over that of the best single peer."""
    return result_of(about, family, default)["log_loss"] / best_peer(about)["log_loss"]


def geometric_mean(abouts: list[dict], family: str) -> float:
    return math.exp(np.mean([math.log(ratio(about, family)) for about in abouts]))


def line_of(name: str, about: dict, banks: list[str], seconds: float) -> str:
    best = best_peer(about)
    cells = [f"{name:15} {best['log_loss']:.4f} {best['family']} {best['setting']}".ljust(60)]
    cells += [f"{b} {result_of(about, b)['log_loss']:.4f}, ratio {ratio(about, b):.4f}" for b in banks]
    return "   ".join([*cells, f"{seconds:.0f} s"])


# --- tables ---------------------------------------------------------------------------------------------------------


def main_table(found: dict, banks: list[str]) -> list[list[str]]:
    """Log loss of the best peer, of VW at its defaults, of all peers stacked, of the banks; and the banks' ratios."""
    lines = [["set", "rows", "best peer", "", "VW default", STACK]]
    lines[0] += [cell for bank in banks for cell in (bank, "/ best peer")]
    for name, about in found.items():
        best = best_peer(about)
        cells = [marked(name), f"{about['rows']:,}", _digits(best), f"{best['family']} {best['setting']}".strip()]
        cells += [_digits(result_of(about, "VW", default=True)), _digits(result_of(about, STACK))]
        for bank in banks:
            cells += [_digits(result_of(about, bank)), f"{ratio(about, bank):.3f}"]
        lines.append(cells)
    groups = {
        "geometric mean": list(found.values()),
        "of those looked at on the way": [about for name, about in found.items() if name not in quality_sets.ASIDE],
        "of those with no part in it, †": [about for name, about in found.items() if name in quality_sets.ASIDE],
    }
    for group, abouts in groups.items():
        if abouts:
            means = [cell for bank in banks for cell in ("", f"{geometric_mean(abouts, bank):.3f}")]
            lines.append([group, *[""] * 5, *means])
    return lines


def family_table(found: dict) -> list[list[str]]:
    """Log loss of every family at its defaults and at its best."""
    tuned = families(tuned_only=True)
    fixed = [family for family in families() if family not in tuned]
    lines = [["set", *(f"{family} {which}" for family in tuned for which in ("default", "best")), *fixed]]
    for name, about in found.items():
        both = [_digits(result_of(about, family, default)) for family in tuned for default in (True, False)]
        lines.append([marked(name), *both, *(_digits(result_of(about, family)) for family in fixed)])
    return lines


def honesty_table(found: dict, banks: list[str]) -> list[list[str]]:
    """AUC and calibration error of the banks and of the peer with the best log loss."""
    what = {"auc": "AUC", "calibration_error": "calibration error"}
    lines = [["set", *(f"{who} {name}" for name in what.values() for who in (*banks, "best peer"))]]
    for name, about in found.items():
        contenders = [*(result_of(about, bank) for bank in banks), best_peer(about)]
        lines.append([marked(name), *(_digits(r, key) for key in what for r in contenders)])
    return lines


def marked(name: str) -> str:
    return f"{name} †" if name in quality_sets.ASIDE else name


def _digits(result: dict, what: str = "log_loss") -> str:
    return f"{result[what]:.4f}"


def plain(lines: list[list[str]]) -> str:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def markdown(lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


# --- the picture ----------------------------------------------------------------------------------------------------

FARTHEST = 1.5  # what is worse is drawn at the edge, as a triangle


def draw(found: dict, banks: list[str], path: Path) -> None:
    """A line per set, a dot per contender: log loss over that of the best peer. Left of 1 the bank wins."""
    from matplotlib.figure import Figure

    names = sorted(found, key=lambda name: -ratio(found[name], banks[0]))
    figure = Figure(figsize=(9, 0.33 * len(names) + 1.9), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.axvline(1.0, color="0.35", linewidth=1)

    def dots(label: str, family: str, default: bool = False, shift: float = 0.0, **style) -> None:
        values = np.array([ratio(found[name], family, default) for name in names])
        style = {"linestyle": "none", "markersize": 6.5} | style
        near = values <= FARTHEST
        rows = np.arange(len(names))
        axes.plot(values[near], rows[near], label=label, **style)
        style |= {"marker": ">", "markersize": 6, "clip_on": False}
        axes.plot(np.full(len(names) - near.sum(), FARTHEST), rows[~near] + shift, **style)

    looks = {"VW": ("o", "#d98c5f"), "AdaGrad": ("s", "#a9a9a9"), "FTRL": ("D", "#8f7fb5")}
    looks |= {"scikit-learn SGD": ("v", "#7fae7f")}
    for k, (family, (mark, color)) in enumerate(looks.items()):
        dots(f"{family}, tuned", family, marker=mark, color=color, shift=0.3 - 0.15 * k, markeredgewidth=0)
    dots("VW, untuned", "VW", True, marker="o", color="#c4561b", shift=-0.3, markerfacecolor="white")
    own_looks = ("o", "#0b4f6c", 11), ("d", "#5cc3e0", 8), ("h", "black", 6)
    for bank, (mark, color, size) in zip(banks, own_looks, strict=False):
        dots(f"{bank}, untuned", bank, marker=mark, color=color, markersize=size, markeredgecolor="white", zorder=5)
    axes.set_xscale("log")
    ticks = [0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(right=FARTHEST)
    axes.set_yticks(range(len(names)), [marked(name) for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", linewidth=0.4)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("log loss over that of the best peer, tuned in hindsight (left is better; triangles: off scale)")
    note = "† no part in any choice about the bank"
    axes.annotate(note, (0, 0), (0, -46), xycoords="axes fraction", textcoords="offset points", fontsize=9)
    axes.set_title("One pass, nothing tuned, against peers at their best", loc="left", weight="bold")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.115), ncols=4, frameon=False, fontsize=9)
    figure.savefig(path)


# --- all of it ------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", default=",".join(quality_sets.SETS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--bank", action="append", metavar="NAME=module:function")
    parser.add_argument("--reuse", type=Path, help="take the peers' results from this file of earlier results")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--picture", type=Path, help="also draw the picture into this file")
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path("quality-cache"), help="prepared rows, some 100 MB")
    args = parser.parse_args()

    sets = args.sets.split(",")
    unknown = sorted(set(sets) - set(quality_sets.SETS))
    if unknown:
        parser.error(f"no set is called {', '.join(unknown)}; there are {', '.join(quality_sets.SETS)}")
    given = args.bank or BANKS
    if not all("=" in pair and ":" in pair for pair in given):
        parser.error("--bank wants NAME=module:function")
    banks = dict(pair.split("=", 1) for pair in given)
    if clash := sorted(set(banks) & {*families(), STACK}):
        parser.error(f"{', '.join(clash)} is the name of a peer")
    page = args.reuse is not None and args.reuse.suffix == ".md"
    known = published(args.reuse) if page else reusable(args.reuse, args.quick) if args.reuse else {}

    def keep(found: dict) -> None:
        """Sets not run again yet stay in the file, without their banks."""
        if args.json:
            unfinished = args.json.with_suffix(".unfinished")
            whole = {"quick": args.quick, "banks": banks, "sets": known | found}
            unfinished.write_text(json.dumps(whole, indent=1) + "\n")
            unfinished.replace(args.json)

    found = run_all(sets, banks, args.processes, known, keep, (args.data, args.cache, args.quick))
    tables = [main_table(found, list(banks))]
    if not page:
        tables += [family_table(found), honesty_table(found, list(banks))]
    print("", *map(plain, tables), sep="\n\n")
    if args.markdown:
        args.markdown.write_text("\n\n".join(map(markdown, tables)) + "\n")
    if args.picture:
        draw(found, list(banks), args.picture)


if __name__ == "__main__":
    main()
