"""Several classes: the untuned learner against peers tuned in hindsight, one pass over real streams, in one run.

    python benchmarks/classes.py [--sets digits,news20] [--no-peers] [--reuse results.json] [--json out.json]
                                 [--markdown out.md] [--picture out.png] [--speed] [--data DIR] [--cache DIR]

Every row is predicted before it is learned from; log loss, accuracy and calibration error (of the most probable class,
15 bins) of `Classes` with banks (at its defaults; `light`; with classes that join as they come, what is reserved for
unseen ones counted), of the banks' probabilities divided by their sum, of `learner="marginal"`, and of every setting
of every peer (classes_peers.py). Rows in the order of their file, and shuffled (ours, and the best setting of each
peer). How the sets are made: classes_sets.py.

--speed measures rows a second with 20 classes and 39 features a row instead, beside `vw --oaa 20 --probabilities`.
A set's results are written to the JSON as soon as it is done; --reuse goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path

import classes_peers
import classes_sets
import numpy as np
import quality_sets
from quality import markdown, plain

import bayou
from bayou import Batch
from bayou.evaluate import ClassMeter
from bayou.learners import Bank, Classes

OURS = ("classes", "light", "joining", "divided", "marginal")


def own(which: str, X, y) -> np.ndarray:
    """Probabilities, made before each row was learned."""
    n_classes, batch = int(y.max()) + 1, Batch.from_csr(X, y)
    if which == "divided":
        each = [Bank(n_features=X.shape[1]).learn(batch.with_labels(y == k)) for k in range(n_classes)]
        chances = np.column_stack(each)
        return chances / chances.sum(axis=1, keepdims=True)
    if which == "joining":
        learner = Classes(n_features=X.shape[1])
        said = learner.observe(batch)
        chances = np.zeros((len(y), n_classes))
        chances[:, learner.labels.astype(int)] = said.probability * (1.0 - said.unseen_probability[:, None])
        chances[np.arange(len(y)), y] = said.label_probability(y)
        return chances
    more = {"light": {"light": True}, "marginal": {"learner": "marginal"}}.get(which, {})
    return Classes(n_features=X.shape[1], classes=n_classes, max_classes=n_classes, **more).learn(batch)


def scored(chances: np.ndarray, y: np.ndarray) -> dict:
    meter = ClassMeter()
    meter.add(np.clip(chances, 1e-13, 1.0), y)  # text that peers write may round to 0
    found = meter.result()
    return {"log_loss": found.log_loss, "accuracy": found.accuracy, "ece": found.calibration_error}


def measured(run, X, y, *more) -> dict:
    start = time.perf_counter()
    chances = run(X, y, *more)
    return {"seconds": time.perf_counter() - start} | scored(chances, y)


def run_set(name: str, options: argparse.Namespace, before: dict) -> dict:
    X, y = classes_sets.load(name, options.data, options.cache)
    found = {"rows": len(y), "classes": int(y.max()) + 1, "features": X.shape[1]}
    order = np.random.default_rng(0).permutation(len(y))
    rows = {"ordered": (X, y), "shuffled": (X[order], y[order])}
    for kind, (A, b) in rows.items():
        found[kind] = {which: measured(lambda A, b, which=which: own(which, A, b), A, b) for which in OURS}
        known = before.get(kind, {}).get("peers", {})
        found[kind]["peers"] = dict(known)
        if options.no_peers:
            continue
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "rows.vw"
            classes_peers.write_vw(A, b, text)
            for setting in classes_peers.settings():
                key = f"{setting.family}: {setting.name}"
                if key in known or classes_peers.takes_too_long(setting, A, found["classes"]):
                    continue
                if kind == "shuffled" and key not in best_of_each(found["ordered"]["peers"]):
                    continue
                found[kind]["peers"][key] = measured(setting.run, A, b, text)
    return found


def best_of_each(peers: dict) -> dict[str, float]:
    """The best setting of each family, by log loss in hindsight."""
    best: dict[str, str] = {}
    for key in peers:
        family = key.partition(":")[0]
        if family not in best or peers[key]["log_loss"] < peers[best[family]]["log_loss"]:
            best[family] = key
    return {key: peers[key]["log_loss"] for key in best.values()}


def table(results: dict, kind: str) -> list[list[str]]:
    head = [
        "set",
        "rows",
        "classes",
        "best tuned peer",
        *OURS,
        "to peer",
        "to divided",
        "accuracy",
        "ECE divided, classes",
    ]
    lines = [head]
    for name, found in results.items():
        here = found[kind]
        peers = best_of_each(here["peers"])
        key = min(peers, key=peers.get) if peers else ""
        ours = here["classes"]["log_loss"]
        percent = f"{100 * math.log(ours / peers[key]):+.1f}%" if key else ""
        lines.append(
            [
                *(name, f"{found['rows']:,}", str(found["classes"])),
                f"{peers[key]:.4f} ({key})" if key else "",
                *(f"{here[which]['log_loss']:.4f}" for which in OURS),
                percent,
                f"{100 * math.log(ours / here['divided']['log_loss']):+.1f}%",
                f"{here['classes']['accuracy']:.3f}",
                f"{here['divided']['ece']:.3f} {here['classes']['ece']:.3f}",
            ]
        )
    return lines


def picture(results: dict, path: Path) -> None:
    """Log loss over that of the best peer, or of the plain division where no peers were run."""
    from matplotlib.figure import Figure

    names = list(results)
    figure = Figure(figsize=(9, 0.33 * len(names) + 1.9), dpi=120, layout="constrained")
    axes = figure.subplots()
    for which in ("divided", "light", "classes", "marginal"):
        ratios = []
        for found in results.values():
            peers = best_of_each(found["ordered"]["peers"])
            base = min(peers.values()) if peers else found["ordered"]["divided"]["log_loss"]
            ratios.append(found["ordered"][which]["log_loss"] / base)
        axes.plot(ratios, range(len(names)), "o", label=which)
    axes.axvline(1.0, color="gray", linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0.6, 1.4)
    axes.set_xlabel("log loss over that of the best peer, tuned in hindsight")
    axes.legend()
    figure.savefig(path)


def speed(rows: int = 200_000, n_classes: int = 20, per_row: int = 39) -> dict:
    """Rows a second, and CPU time a row, of one pass, the best of three: ours in memory and from VW text, VW."""
    rng = np.random.default_rng(0)
    columns = np.stack([f * 6000 + np.minimum(rng.zipf(1.3, rows), 5999) for f in range(per_row)], axis=1)
    y = (7 * columns[:, 0] + columns[:, 1]) % n_classes
    indptr = np.arange(0, columns.size + 1, per_row)
    batch = Batch.from_arrays(indptr, columns.ravel(), np.ones(columns.size, np.float32), labels=y)
    found = {}

    def best(run) -> tuple[float, float]:
        seconds, busy = [], []
        for _ in range(3):
            start, before = time.perf_counter(), cpu()
            run()
            seconds.append(time.perf_counter() - start)
            busy.append(cpu() - before)
        return rows / min(seconds), 1e6 * min(busy) / rows

    for name, more in (("classes", {}), ("classes, light", {"light": True}), ("marginal", {"learner": "marginal"})):
        Classes(n_features=1 << 18, classes=n_classes, **more).learn(batch[:2000])  # compiled
        found[name] = best(lambda more=more: Classes(n_features=1 << 18, classes=n_classes, **more).learn(batch))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "rows.vw"
        with text.open("w") as file:
            for label, row in zip(y.tolist(), columns.tolist(), strict=True):
                file.write(f"{label + 1} | {' '.join(map(str, row))}\n")
        found["classes from VW text"] = best(lambda: bayou.train(text, bits=18, task="multiclass"))
        command = classes_peers.vw_command(n_classes, 1 << 18, text)
        found["VW"] = best(lambda: subprocess.run(command, check=True))
    return found


def cpu() -> float:
    """Seconds of CPU so far, those of children that have ended among them."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(classes_sets.SETS))
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "bayou-quality")
    for name in ("reuse", "json", "markdown", "picture"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args()
    if options.speed:
        found = speed()
        for name, (rate, busy) in found.items():
            print(
                f"{name:16} {rate:10,.0f} rows a second, {rate / found['VW'][0]:.2f} of VW; {busy:.1f} us of CPU a row"
            )
        return
    before = json.loads(options.reuse.read_text()) if options.reuse else {}
    results: dict = {}
    for name in options.sets.split(","):
        results[name] = run_set(name, options, before.get(name, {}))
        print(plain(table({name: results[name]}, "ordered")), flush=True)
        if options.json:
            options.json.write_text(json.dumps(before | results, indent=1))
    for kind in ("ordered", "shuffled"):
        print(f"\n{kind}")
        print(plain(table(results, kind)))
    if options.markdown:
        pages = [f"{kind}\n\n{markdown(table(results, kind))}" for kind in ("ordered", "shuffled")]
        options.markdown.write_text("\n\n".join(pages) + "\n")
    if options.picture:
        picture(results, options.picture)


if __name__ == "__main__":
    main()
