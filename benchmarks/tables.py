"""Tables as people have them: `bayou train` with no option but the label, against what a person writes in an hour.

    python benchmarks/tables.py [--sets dirty_flights,adult] [--before SRC] [--options=--pairs=auto] [--no-peer]
                                [--json out.json] [--markdown out.md] [--bins 20] [--data DIR]
    python benchmarks/tables.py --rule ids [--sets "california,bike ~"] [--rows 20000] [--options=--set=head=256]

Each set is written as two CSV files; `bayou train` learns the first and `bayou predict` says what it makes of the
second: its log loss there. `--before SRC` does the same with other sources of bayou, the folder src of an older one;
`--options` are given to `bayou train` besides.

The peer is scikit-learn's LogisticRegression over columns that a person has looked at: numbers standardised and cut
into 20 quantiles (one-hot if they are whole and at most 60), missing ones as the mean and an indicator, texts one-hot
(at least 3 uses), units taken off, ids left out, dates as the same parts that bayou makes; C by cross-validation in
three folds of the training rows. base: always the share of positives so far.

dirty_flights is the table of tests/dirty_flights.py, of which the command is told nothing (the column that it remarks
on as leaked is taken out). flights: the columns that are known before departure. Both: January to September, then
October to December. bike: more rentals than the median hour, the last fifth; bike_date: the same with a date-time as
the only column that tells the time. bank_marketing without duration: the last fifth. adult, nsl_kdd: their own split.
housing: above the median. A ~ stands for rows that were shuffled first.

--rule compares tables of numbers and classes with a rule of columns and without it instead (column_rules.py);
--rule cost says what share of the training the evidence for ids takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import column_rules
import numpy as np
import pandas as pd
from quality import markdown
from quality_sets import data_folder

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.dirty_flights import LEAKED, dirty_flights

LABEL = "label"
CHOICES = (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
FOLDS, FEW_WHOLE, USES = 3, 60, 3
IDS = ("booking",)


class Table(NamedTuple):
    """Rows in order, with a column LABEL of 0 and 1, of which those from `split` on are predicted."""

    frame: pd.DataFrame
    split: int


# --- tables -----------------------------------------------------------------------------------------------------------


def _flights(data: Path) -> pd.DataFrame:
    frame = pd.read_csv(data / "nycflights13.csv.gz").dropna(subset=["arr_delay"])
    return frame.sort_values(["month", "day", "sched_dep_time"], kind="stable").reset_index(drop=True)


def flights(data: Path) -> Table:
    frame = _flights(data)
    frame[LABEL] = (frame["arr_delay"] > 15).astype(int)
    known_too_late = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
    return Table(frame.drop(columns=known_too_late), int(np.count_nonzero(frame["month"] <= 9)))


def dirty(data: Path) -> Table:
    frame = dirty_flights(flights=pd.read_csv(data / "nycflights13.csv.gz"))
    split = int(np.count_nonzero(frame["departs"] < "2013-10"))
    return Table(frame.drop(columns=LEAKED).rename(columns={"late": LABEL}), split)


def _last_fifth(frame: pd.DataFrame) -> Table:
    return Table(frame, int(0.8 * len(frame)))


def bike(data: Path) -> Table:
    frame = pd.read_csv(data / "bike_sharing_hourly.csv.gz")
    frame[LABEL] = (frame["cnt"] > frame["cnt"].median()).astype(int)
    return _last_fifth(frame.drop(columns=["casual", "registered", "cnt"]))


def bike_date(data: Path) -> Table:
    frame = bike(data).frame
    when = pd.to_datetime(frame["dteday"]) + pd.to_timedelta(frame["hr"], unit="h")
    told = ["instant", "dteday", "hr", "season", "yr", "mnth", "weekday", "workingday", "holiday"]
    frame = frame.drop(columns=told)
    frame.insert(0, "when", when.dt.strftime("%Y-%m-%d %H:%M:%S"))
    return _last_fifth(frame)


def bank_marketing(data: Path) -> Table:
    frame = pd.read_csv(data / "bank_marketing.csv.gz")
    frame[LABEL] = (frame["y"] == "yes").astype(int)
    return _last_fifth(frame.drop(columns=["y", "duration"]))


def _own_split(frame: pd.DataFrame, label: str, positive: Callable[[pd.Series], pd.Series]) -> Table:
    frame = frame.sort_values("split", key=lambda split: split != "train", kind="stable")
    split = int(np.count_nonzero(frame["split"] == "train"))
    frame[LABEL] = positive(frame[label]).astype(int)
    return Table(frame.drop(columns=["split", label]).reset_index(drop=True), split)


def adult(data: Path) -> Table:
    return _own_split(pd.read_csv(data / "adult.csv.gz"), "income", lambda income: income == ">50K")


def nsl_kdd(data: Path) -> Table:
    frame = pd.read_csv(data / "nsl_kdd.csv.gz")
    label = next(name for name in frame.columns[::-1] if name != "split")
    return _own_split(frame, label, lambda label: label != "normal")


def housing(data: Path) -> Table:
    frame = pd.read_csv(data / "california_housing.csv.gz")
    value = frame["medianHouseValue"]
    frame[LABEL] = (value > value.median()).astype(int)
    return _last_fifth(frame.drop(columns="medianHouseValue"))


def shuffled(make: Callable[[Path], Table]) -> Callable[[Path], Table]:
    def read(data: Path) -> Table:
        frame, split = make(data)
        return Table(frame.sample(frac=1.0, random_state=0).reset_index(drop=True), split)

    return read


SETS: dict[str, Callable[[Path], Table]] = {
    "dirty_flights": dirty,
    "flights": flights,
    "bank_marketing": bank_marketing,
    "bank_marketing ~": shuffled(bank_marketing),
    "adult": adult,
    "bike": bike,
    "bike ~": shuffled(bike),
    "bike_date": bike_date,
    "bike_date ~": shuffled(bike_date),
    "nsl_kdd": nsl_kdd,
    "nsl_kdd ~": shuffled(nsl_kdd),
    "housing ~": shuffled(housing),
}


# --- who predicts -----------------------------------------------------------------------------------------------------


def loss(p: np.ndarray, y: np.ndarray) -> float:
    """Mean log loss; nothing is surer than 1e-13."""
    p = np.clip(p, 1e-13, 1 - 1e-13)
    return float(-np.mean(np.where(y > 0, np.log(p), np.log1p(-p))))


def by_command(table: Table, sources: Path | None, options: list[str]) -> dict[str, float]:
    """`bayou train`, then `bayou predict`."""
    command = [sys.executable, "-m", "bayou"]
    path = {} if sources is None else {"PYTHONPATH": str(sources)}
    with tempfile.TemporaryDirectory() as name:
        train, test, model, out = (str(Path(name) / part) for part in ("train.csv", "test.csv", "m.bayou", "p.csv"))
        table.frame[: table.split].to_csv(train, index=False)
        table.frame[table.split :].drop(columns=LABEL).to_csv(test, index=False)
        begin = time.perf_counter()

        def run(*words: str) -> str:
            done = subprocess.run([*command, *words], env=os.environ | path, check=True, capture_output=True, text=True)
            return done.stdout

        told = json.loads(run("train", train, "--label", LABEL, "--model", model, "--json", *options))
        run("predict", test, "--model", model, "--out", out)
        p = pd.read_csv(out)["probability"].to_numpy()
        weights = json.loads(run("info", model, "--json"))["touched"]
    return {
        "loss": loss(p, table.frame[LABEL].to_numpy()[table.split :]),
        "progressive": told["log_loss"],
        "weights": weights,
        "seconds": time.perf_counter() - begin,
    }


def by_scikit_learn(table: Table, n_bins: int) -> dict[str, float]:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

    warnings.simplefilter("ignore")  # of equal quantiles, and of what later versions will do
    begin = time.perf_counter()
    frame = _as_a_person_reads(table.frame.drop(columns=LABEL))
    y = table.frame[LABEL].to_numpy()
    numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    few = [
        name
        for name in numbers
        if frame[name].nunique() <= FEW_WHOLE and (frame[name].dropna() == frame[name].dropna().round()).all()
    ]
    numbers = [name for name in numbers if name not in few]
    texts = [name for name in frame if name not in numbers]
    frame[texts] = frame[texts].astype(str)
    one_hot = OneHotEncoder(min_frequency=USES, handle_unknown="infrequent_if_exist")
    bins = KBinsDiscretizer(n_bins, quantile_method="averaged_inverted_cdf", subsample=None)
    both = make_union(StandardScaler(), bins)
    columns = ColumnTransformer(
        [("texts", one_hot, texts), ("numbers", make_pipeline(SimpleImputer(add_indicator=True), both), numbers)]
    )
    X = columns.fit_transform(frame[: table.split])
    model = LogisticRegressionCV(Cs=CHOICES, cv=FOLDS, scoring="neg_log_loss", max_iter=300, n_jobs=1)
    model.fit(X, y[: table.split])
    p = model.predict_proba(columns.transform(frame[table.split :]))[:, 1]
    told = {"loss": loss(p, y[table.split :]), "C": float(model.C_[0]), "weights": X.shape[1]}
    return told | {"seconds": time.perf_counter() - begin}


def _as_a_person_reads(frame: pd.DataFrame) -> pd.DataFrame:
    """Ids left out, units taken off, dates as their parts."""
    frame = frame.drop(columns=[name for name in IDS if name in frame])
    for name in list(frame):
        if pd.api.types.is_numeric_dtype(frame[name]):
            continue
        text = frame[name].astype(str)
        plain = pd.to_numeric(text.str.replace(r"[, ]|mi$", "", regex=True), errors="coerce")
        if plain.notna().mean() > 0.6:
            frame[name] = plain
        elif text.str.fullmatch(r"\d{4}-\d\d-\d\d.*").mean() > 0.9:
            when = pd.to_datetime(text, errors="coerce", utc=True)
            frame = frame.drop(columns=name)
            frame[f"{name} weekday"], frame[f"{name} month"] = when.dt.day_of_week, when.dt.month
            if when.dt.hour.nunique() > 1:
                frame[f"{name} hour"] = when.dt.hour
                frame[f"{name} weekend hour"] = when.dt.hour + 24 * (when.dt.day_of_week >= 5)
    return frame


# --- the table --------------------------------------------------------------------------------------------------------


def row(name: str, found: dict) -> list[str]:
    after, before, peer = found["after"], found.get("before"), found.get("peer")
    cells = [name, f"{found['base']:.4f}"]
    cells += [f"{before['loss']:.4f}" if before else "", f"{after['loss']:.4f}", f"{peer['loss']:.4f}" if peer else ""]
    cells.append(f"{after['loss'] / peer['loss']:.3f}" if peer else "")
    cells.append(f"{before['weights']:,} → {after['weights']:,}" if before else f"{after['weights']:,}")
    cells.append(
        f"{before['progressive']:.4f} → {after['progressive']:.4f}" if before else f"{after['progressive']:.4f}"
    )
    return cells


WIDTHS = (18, 7, 7, 7, 7, 6, 18, 18)
HEADER = ["set", "base", "before", "bayou", "LogisticRegression", "ratio", "weights", "progressive"]


def compare_rule(options: argparse.Namespace) -> None:
    """Print both losses of each set that the rule changes, before it and after."""
    settings = [text.removeprefix("--set=") for text in options.options]
    results, rows = {}, []
    for name in options.sets.split(",") if options.sets else column_rules.NUMBERS | column_rules.CLASSES:
        if options.rule == "cost":
            rows.append(column_rules.cost_row(name, column_rules.cost(name, options.data, options.rows)))
            print("  ".join(f"{text:>10}" for text in rows[-1]), flush=True)
            continue
        found = column_rules.compare(name, column_rules.RULES[options.rule], options.data, options.rows, settings)
        if found is None:
            print(f"{name}: nothing changes", flush=True)
            continue
        results[name] = found
        rows.append(column_rules.row(name, found))
        print("  ".join(f"{text:>10}" for text in rows[-1]), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1))
    if options.rule != "cost":
        rows.append(column_rules.mean_row(list(results.values())))
        print("  ".join(f"{text:>10}" for text in rows[-1]))
    if options.markdown is not None:
        header = column_rules.COST_HEADER if options.rule == "cost" else column_rules.HEADER
        options.markdown.write_text(markdown([header, *rows]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets")
    parser.add_argument("--rule", choices=[*column_rules.RULES, "cost"])
    parser.add_argument("--rows", type=int, default=20_000, help="of a set, at most, with --rule")
    parser.add_argument("--before", type=Path, help="the folder src of an older bayou")
    parser.add_argument("--options", type=str.split, default=[], help="of `bayou train`, besides")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--bins", type=int, default=20, help="of the peer's numbers")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--data", type=Path, default=data_folder())
    options = parser.parse_args()
    if options.rule:
        compare_rule(options)
        return
    results, rows = {}, []
    for name in options.sets.split(",") if options.sets else SETS:
        table = SETS[name](options.data)
        y = table.frame[LABEL].to_numpy()
        share = y[: table.split].mean()
        found: dict = {"rows": len(y), "base": loss(np.full(len(y) - table.split, share), y[table.split :])}
        found["after"] = by_command(table, None, options.options)
        if options.before is not None:
            found["before"] = by_command(table, options.before, [])
        if not options.no_peer:
            found["peer"] = by_scikit_learn(table, options.bins)
        results[name] = found
        rows.append(row(name, found))
        print("  ".join(f"{text:>{width}}" for text, width in zip(rows[-1], WIDTHS, strict=True)), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1))
    if options.markdown is not None:
        options.markdown.write_text(markdown([HEADER, *rows]) + "\n")


if __name__ == "__main__":
    main()
