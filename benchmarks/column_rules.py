"""What the rules of columns are worth: tables of numbers and classes, learned with a rule and without it.

The first 75% of the rows are learned by `bayou.train` (live: each row predicted before it is learned), the last 25%
are predicted by the model that has stopped learning (later). Log loss for classes, root mean squared error for numbers.

A rule is an edited recipe (the fitted roles of the columns, less or more what the rule gives):

    ids      before: whole numbers whose values have indicators by evidence are bins alone. After: today's recipe
    still    before: a month or a day of the month that has one value in the first rows has no slope
    beside   after: columns with an indicator for each value of many (whole) have a rank slope, too
    raw      after: bins and whole columns also have a raw slope (`--slope raw`)
    passes   after: three passes instead of one
    later    before: the last 25% predicted for the next row, by the combination of a model that keeps learning. After:
             for later rows. Only the columns `later` differ

Options of the learner are for two classes alone. Sets are cut to `--rows` rows, evenly. ~: rows shuffled first.
`frappe codes` has its users and apps renumbered at random, as ids come; in the file, apps are numbered nearly by
popularity.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file

import bayou
from bayou import sources
from bayou.evaluate.meters import meter_for
from bayou.recipe.recipe import FIT_ROWS, Column, Recipe
from bayou.sources.table import column_roles, value_evidence
from bayou.sources.table.binning import knots_and_levels
from bayou.sources.table.value_evidence import MAX_BIN_EVIDENCE

LABEL = "label"
# The reason given for columns whose values have indicators by evidence ends so.
BY_EVIDENCE = "values besides bins"
LEARNED = 0.75


# --- sets -------------------------------------------------------------------------------------------------------------


def _csv(name: str, label: str | int, ignore: tuple[str, ...] = (), above: bool = False) -> Callable:
    def read(data: Path) -> pd.DataFrame:
        frame = pd.read_csv(data / f"{name}.csv.gz")
        frame = frame.rename(columns={frame.columns[label] if isinstance(label, int) else label: LABEL})
        if above:
            frame[LABEL] = (frame[LABEL] > frame[LABEL].median()).astype(int)
        return frame.drop(columns=list(ignore))

    return read


def _named(read: Callable, positive: Callable[[pd.Series], Any]) -> Callable:
    def changed(data: Path) -> pd.DataFrame:
        frame = read(data)
        frame[LABEL] = positive(frame[LABEL])
        return frame

    return changed


def _svmlight(name: str, label: Callable[[np.ndarray], np.ndarray]) -> Callable:
    def read(data: Path) -> pd.DataFrame:
        X, y = load_svmlight_file(str(data / f"{name}.svm.gz"), zero_based=False)
        frame = pd.DataFrame(X.toarray(), columns=[f"x{k}" for k in range(X.shape[1])])
        frame[LABEL] = label(y)
        return frame

    return read


def _flights(label: Callable[[pd.Series], pd.Series]) -> Callable:
    def read(data: Path) -> pd.DataFrame:
        frame = pd.read_csv(data / "nycflights13.csv.gz").dropna(subset=["arr_delay"])
        frame = frame.sort_values(["month", "day", "sched_dep_time"], kind="stable").reset_index(drop=True)
        frame[LABEL] = label(frame["arr_delay"])
        return frame.drop(columns=["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"])

    return read


def _frappe(codes: bool) -> Callable:
    """Column j is the j-th index of a row, less the smallest at that place."""

    def read(data: Path) -> pd.DataFrame:
        X, y = load_svmlight_file(str(data / "frappe.train58k.svm.gz"), zero_based=False)
        indices = np.sort(X.indices.reshape(len(y), -1), axis=1)
        indices -= indices.min(axis=0)
        rng = np.random.default_rng(0)
        for column in range(2) if codes else ():
            indices[:, column] = rng.permutation(indices[:, column].max() + 1)[indices[:, column]]
        frame = pd.DataFrame(indices, columns=[f"x{k}" for k in range(indices.shape[1])])
        frame[LABEL] = (y > 0).astype(int)
        return frame

    return read


def _criteo(data: Path) -> pd.DataFrame:
    names = [LABEL, *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27))]
    return pd.read_csv(data / "criteo.raw8k.tsv.gz", sep="\t", names=names)


LATE = _flights(lambda delay: (delay > 15).astype(int))
MINUTES = _flights(lambda delay: delay)
HOUSING = _csv("california_housing", "medianHouseValue")
BIKE = _csv("bike_sharing_hourly", "cnt", ("casual", "registered"))
BANK = _named(_csv("bank_marketing", "y", ("duration",)), lambda y: (y == "yes").astype(int))
COVTYPE = _svmlight("covtype.sample20k", lambda y: (y == 2).astype(int))
YEARS = _svmlight("yearmsd.sample6k.reg", lambda y: y)
ABALONE = _csv("abalone", "Rings")

NUMBERS: dict[str, Callable] = {
    "kin40k ~": _csv("uci_kin40k", "y"),
    "protein ~": _csv("uci_protein", "y"),
    "pol ~": _csv("uci_pol", "y"),
    "elevators ~": _csv("uci_elevators", "y"),
    "california": HOUSING,
    "california ~": HOUSING,
    "bike": BIKE,
    "bike ~": BIKE,
    "abalone": ABALONE,
    "abalone ~": ABALONE,
    "yearmsd": YEARS,
    "yearmsd ~": YEARS,
    "minutes": MINUTES,
    "minutes ~": MINUTES,
    "diabetes ~": _csv("diabetes", "target"),
}
CLASSES: dict[str, Callable] = {
    "adult": _named(_csv("adult", "income", ("split",)), lambda income: (income == ">50K").astype(int)),
    "bank_marketing": BANK,
    "bank_marketing ~": BANK,
    "flights": LATE,
    "flights ~": LATE,
    "covtype": COVTYPE,
    "covtype ~": COVTYPE,
    "nsl_kdd": _named(_csv("nsl_kdd", "class", ("split",)), lambda name: (name != "normal").astype(int)),
    "frappe": _frappe(codes=False),
    "frappe codes": _frappe(codes=True),
    "criteo": _criteo,
    "openbandit": _csv("openbandit.sample60k", "click", ("propensity_score",)),
    "talking": _csv("talkingdata.sample100k", "is_attributed", ("attributed_time",)),
    "higgs": _svmlight("higgs.train7k", lambda y: (y > 0).astype(int)),
    "letter": _csv("letterrecognition", "lettr"),
    "satellite ~": _csv("satellite", -1),
    "shuttle ~": _named(_csv("shuttle", -1), lambda y: y.map("class {}".format)),
    "vowel ~": _named(_csv("vowel", -1), lambda y: y.map("class {}".format)),
    "soybean ~": _csv("soybean", 0),
}


def load(name: str, data: Path, rows: int) -> pd.DataFrame:
    frame = (NUMBERS | CLASSES)[name](data)
    if name.endswith("~"):
        frame = frame.sample(frac=1.0, random_state=0)
    every = np.linspace(0, len(frame) - 1, min(len(frame), rows)).astype(int)
    return frame.iloc[every].reset_index(drop=True)


# --- rules ------------------------------------------------------------------------------------------------------------


def without_ids(frame: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, Recipe]:
    return frame, _changed(recipe, lambda c: replace(c, role="bins") if BY_EVIDENCE in c.why else c)


def without_calendar(frame: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, Recipe]:
    def change(column: Column) -> Column:
        stands_still = column.role == "values" and frame[column.name][:FIT_ROWS].nunique() == 1
        return replace(column, knots=(), levels=()) if stands_still else column

    return frame, _changed(recipe, change)


def beside(frame: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, Recipe]:
    def change(column: Column) -> Column:
        if column.role != "whole" or column.knots:
            return column
        x = pd.to_numeric(frame[column.name], errors="coerce").to_numpy(float)
        knots, levels = knots_and_levels(x[~np.isnan(x)][:FIT_ROWS])
        return replace(column, knots=knots, levels=levels)

    return frame, _changed(recipe, change)


def raw(frame: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, Recipe]:
    options = {"label": LABEL, "task": recipe.task, "slope": "raw"}
    return frame, sources.open(frame[: int(LEARNED * len(frame))], recipe=options).fit_recipe()


def _changed(recipe: Recipe, change: Callable[[Column], Column]) -> Recipe:
    return replace(recipe, columns=tuple(change(column) for column in recipe.columns or ()))


def same(frame: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, Recipe]:
    return frame, recipe


class Rule(NamedTuple):
    """What is done to the table and its recipe before a rule and after, the passes after it, the horizon before it."""

    before: Callable = same
    after: Callable = same
    passes: int = 1
    horizon: str = "later"


RULES = {
    "ids": Rule(before=without_ids),
    "still": Rule(before=without_calendar),
    "beside": Rule(after=beside),
    "raw": Rule(after=raw),
    "passes": Rule(passes=3),
    "later": Rule(horizon="next"),
}


# --- runs -------------------------------------------------------------------------------------------------------------


def losses(
    frame: pd.DataFrame, change: Callable, task: str, passes: int, horizon: str, settings: list[str]
) -> tuple[float, float, float]:
    """Return the loss while learning, that of the last rows, and the seconds of the training."""
    first = frame[: int(LEARNED * len(frame))]
    source = sources.open(first, recipe={"label": LABEL, "task": task})
    fitted = source.fit_recipe()
    frame, recipe = change(frame, fitted)
    like = bayou.train(first[:2], label=LABEL, task=task, settings=settings).learner
    like.extras = replace(like.extras, recipe=recipe)
    start = time.perf_counter()
    run = bayou.train(frame[: len(first)], like=like, passes=passes)
    seconds = time.perf_counter() - start
    meter = meter_for(task)
    for batch in sources.open(frame[len(first) :], extras=run.learner.extras):
        later = run.learner.predict(batch, horizon).without_sampling_correction()
        meter.add_prediction(later, batch.labels, batch.weights)
    live, frozen = (_loss(evaluation) for evaluation in (run.evaluation, meter.result()))
    return live, frozen, seconds


def _loss(evaluation: Any) -> float:
    return evaluation.squared_loss**0.5 if hasattr(evaluation, "squared_loss") else evaluation.log_loss


def compare(name: str, rule: Rule, data: Path, rows: int, settings: list[str]) -> dict[str, Any] | None:
    """Return both losses before the rule and after it; None if it changes nothing."""
    frame = load(name, data, rows)
    n_classes = frame[LABEL].nunique()
    task = "regression" if name in NUMBERS else "binary" if n_classes == 2 else "multiclass"
    fitted = sources.open(frame[: int(LEARNED * len(frame))], recipe={"label": LABEL, "task": task}).fit_recipe()
    columns = [change(frame, fitted)[1].columns for change in (rule.before, rule.after)]
    if columns[0] == columns[1] and rule[2:] == Rule()[2:]:
        return None
    settings = settings if task == "binary" else []
    before = losses(frame, rule.before, task, 1, rule.horizon, settings)
    after = losses(frame, rule.after, task, rule.passes, "later", settings)
    return {"rows": len(frame), "task": task, "before": before, "after": after}


def cost(name: str, data: Path, rows: int) -> dict[str, float]:
    """Return the CPU seconds of `bayou.train`, with and without ids by evidence, and those of the evidence alone."""
    frame, spent = load(name, data, rows), [0.0]

    def timed(*arguments: Any) -> Any:
        start = time.thread_time()
        evidence = value_evidence.value_evidence(*arguments)
        spent[0] += time.thread_time() - start
        return evidence

    task = "regression" if name in NUMBERS else "auto"
    never = value_evidence.ValueEvidence(0, 0.0, MAX_BIN_EVIDENCE)
    seconds: dict[str, float] = {}
    for kind, function in ("warm", timed), ("without", lambda *unused: never), ("with", timed):
        best = math.inf
        for _ in range(7 if kind != "warm" else 1):
            column_roles.value_evidence, spent[0], start = function, 0.0, time.process_time()
            run = bayou.train(frame, label=LABEL, task=task)
            best = min(best, time.process_time() - start)
            seconds[f"evidence {kind}"] = min(seconds.get(f"evidence {kind}", math.inf), spent[0])
        seconds[kind] = best
    columns = run.learner.extras.recipe.columns or ()
    ids = sum(BY_EVIDENCE in column.why for column in columns)
    return {"ids": ids, "evidence": seconds["evidence with"], **{k: seconds[k] for k in ("without", "with")}}


COST_HEADER = ["set", "id columns", "train without, s", "with, s", "evidence, ms", "share of evidence", "more time"]


def cost_row(name: str, found: dict[str, float]) -> list[str]:
    without, whole, evidence = found["without"], found["with"], found["evidence"]
    cells = [name, str(found["ids"]), f"{without:.2f}", f"{whole:.2f}", f"{1000 * evidence:.1f}"]
    return [*cells, f"{100 * evidence / whole:.1f}%", f"{100 * (whole / without - 1):+.1f}%"]


HEADER = ["set", "live: before", "after", "change", "later: before", "after", "change"]


def row(name: str, found: dict[str, Any]) -> list[str]:
    cells = [name]
    for k in range(2):
        before, after = found["before"][k], found["after"][k]
        cells += [f"{before:.4g}", f"{after:.4g}", f"{100 * (after / before - 1):+.1f}%"]
    return cells


def mean_row(results: list[dict[str, Any]]) -> list[str]:
    """The mean change, of all sets that a rule changes."""
    cells = ["mean"]
    for k in range(2):
        logs = [np.log(found["after"][k] / found["before"][k]) for found in results]
        cells += ["", "", f"{100 * np.expm1(np.mean(logs)):+.1f}%" if logs else ""]
    return cells
