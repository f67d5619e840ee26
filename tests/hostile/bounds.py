"""Every kernel with bounds checks, over small random batches and nasty ones: none reads or writes beside its arrays.

Numba leaves such checks out, and compiles kernels that have them into a folder of their own. Loads and stores of whole
vectors have none in any case; those are held to theirs by tests/kernels.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bayou
from bayou import Batch, evaluate, simulate, sources
from tests.conftest import kernel_folder
from tests.hostile import apart, formats
from tests.hostile.counts import Counts, rounds
from tests.laws.cases import CASES, WIDTH, Case, stream
from tests.sources.mutate import mutated


def _nasty(rng: np.random.Generator) -> Iterator[Batch]:
    """Empty batches and rows, rows of all features, the first and the last feature alone, tiny and large values."""
    every = dict.fromkeys(range(WIDTH), 1.0)
    yield Batch.from_rows([], labels=[])
    yield Batch.from_rows([{}], labels=[1])
    yield Batch.from_rows([{}] * 9 + [every] + [{}] * 8, labels=[1, -1] * 9)
    yield Batch.from_rows([{WIDTH - 1: 1.0}, {0: 1.0}, {0: -1.0, WIDTH - 1: 2.0}], labels=[1, -1, 1])
    yield Batch.from_rows([every] * 17, labels=[1] * 17, weights=[0.0, 3.0] * 8 + [1.0])
    yield Batch.from_rows([{0: 1e-30, 1: 1e12}, {2: 1e-300}, {3: -1e12}], labels=[1, -1, 1])
    yield Batch.from_rows([{WIDTH: 1.0}], labels=[1])  # refused
    yield stream(int(rng.integers(2**32)), rows=int(rng.integers(1, 70)), longest=WIDTH)


def _learner(case: Case, rng: np.random.Generator, folder: Path) -> None:
    learner = case.new()
    for batch in _nasty(rng):
        try:
            learner.learn(case.taught(batch))
            learner.predict(batch)
            if case.record.posterior:
                learner.sample(batch, 3)
        except bayou.BadInput:
            pass
        learner.end_pass()
    learner.save(folder / "m.bayou")
    again = bayou.load(folder / "m.bayou")
    if case.merges:
        again.merge(learner).predict(stream(1))


def _readers(rng: np.random.Generator, folder: Path) -> None:
    seed = int(rng.integers(2**31))
    header = ",".join(column.name for column in formats.TABLE.columns or ()).encode() + b"\n"
    svmlight, vw = sources.Recipe(kind="svmlight", bits=10), sources.Recipe(kind="vw", bits=10)
    for name, lines, recipe in (
        ("a.svm", formats.SVMLIGHT, svmlight),
        ("a.vw", formats.VW, vw),
        ("a.csv", formats.CSV, formats.TABLE),
        ("a.jsonl", formats.JSON, formats.TABLE),
    ):
        path = folder / name
        path.write_bytes((header if name == "a.csv" else b"") + mutated(lines, 200, seed))
        kind = {".svm": "svmlight"}.get(path.suffix, path.suffix[1:])
        for batch in sources.open(path, recipe=recipe, format=kind, on_error="skip", labels=False):
            meter = evaluate.Meter()
            meter.add(np.full(len(batch), 0.5), np.ones(len(batch)), batch.weights)
    for name, make in simulate.GENERATORS.items():
        next((make(n_categories=3, seed=seed) if name == "longtail" else make(seed=seed)).batches(50))


def sweep(seconds: float, seed: int, say: Callable[[str], Any]) -> Counts:
    """A round is every learner in every variant, and every reader."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks: list[tuple[str, Callable[[np.random.Generator], None]]] = [
            (str(case), lambda rng, case=case: _learner(case, rng, folder)) for case in CASES if case.usual
        ]
        tasks.append(("readers", lambda rng: _readers(rng, folder)))
        for number in rounds(seconds):
            for k, (what, task) in enumerate(tasks):
                say(f"{what}, seed {seed}, round {number}")
                try:
                    task(np.random.default_rng([seed, number, k]))
                except Exception:
                    counts.check(False, f"{what}, seed {seed}, round {number}: {traceback.format_exc(limit=-3)}")
                counts.add("batches", 8)
    return counts


def attack(seconds: float, seed: int) -> Counts:
    cache = os.environ.get("NUMBA_CACHE_DIR", kernel_folder()) + "-bounds"
    return apart.run("bounds", seconds, seed, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=cache)
