"""A table of flights as people have them: dates, marks for what is missing, units, ids, free text, a leaked column.

    frame = dirty_flights(rows=2_000, seed=0)          # invented flights, in the order of their time
    frame = dirty_flights(flights=nycflights13)        # the real ones

Both have the columns of COLUMNS; the label is `late`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

MARKS = ("NA", "n/a", "", "-", "unknown", "?")
REMARKS = ("all well", "gate changed twice before the door was closed", "crew late", "")
COLUMNS = (
    "booking", "departs", "carrier", "flight", "tailnum", "origin", "dest", "miles", "fare", "seats", "remark",
    "refund", "late",
)  # fmt: skip
# What is known only with the label, or says nothing of any row but its own; a person would leave these out as well.
LEAKED = "refund"


def dirty_flights(rows: int = 2_000, seed: int = 0, flights: pd.DataFrame | None = None) -> pd.DataFrame:
    """The table; cells are texts, as they would stand in a CSV file."""
    rng = np.random.default_rng(seed)
    clean = _invented(rows, rng) if flights is None else _real(flights)
    n = len(clean)
    miles = clean["distance"].astype(int).astype(str).to_numpy(object)
    units = rng.random(n) < 0.02
    miles[units] = [f"{int(text):,} mi" for text in miles[units]]
    miles[rng.random(n) < 0.03] = "NA"
    tails = clean["tailnum"].fillna("").astype(str).to_numpy(object)
    lost = rng.random(n) < 0.02
    tails[lost] = rng.choice(MARKS, lost.sum())
    late = clean["late"].to_numpy(int)
    table = pd.DataFrame(
        {
            "booking": [f"B{k:08x}" for k in rng.permutation(n)],
            "departs": clean["departs"].dt.strftime("%Y-%m-%d %H:%M:%S"),
            "carrier": clean["carrier"],
            "flight": clean["flight"],
            "tailnum": tails,
            "origin": clean["origin"],
            "dest": clean["dest"],
            "miles": miles,
            "fare": np.round(60 + 0.11 * clean["distance"].to_numpy(float) + rng.gamma(2.0, 20.0, n), 2),
            "seats": rng.choice(["50", "76", "149", "189", *MARKS[:2]], n),
            "remark": rng.choice(REMARKS, n),
            "refund": np.where(late == 1, "yes", "no"),
            "late": late,
        }
    )
    return table[list(COLUMNS)]


def _invented(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """A year in which evenings, winters and one carrier are late."""
    departs = pd.Timestamp("2013-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 365 * 24 * 60, rows)), unit="min")
    carrier = rng.choice(["UA", "AA", "B6", "EV"], rows)
    distance = rng.choice(rng.integers(100, 2600, 300), rows)
    score = -2.0 + 0.09 * departs.hour + 0.6 * np.isin(departs.month, (6, 7, 12)) + 0.7 * (carrier == "EV")
    return pd.DataFrame(
        {
            "departs": departs,
            "carrier": carrier,
            "flight": rng.integers(1, 400, rows),
            "tailnum": [f"N{k}" for k in rng.integers(100, 400, rows)],
            "origin": rng.choice(["EWR", "JFK", "LGA"], rows),
            "dest": [f"D{k}" for k in rng.integers(0, 60, rows)],
            "distance": distance,
            "late": rng.random(rows) < 1 / (1 + np.exp(-score)),
        }
    )


def _real(flights: pd.DataFrame) -> pd.DataFrame:
    """nycflights13 in the order of its time, without flights that never arrived."""
    known = flights.dropna(subset=["arr_delay"]).sort_values(["month", "day", "sched_dep_time"], kind="stable")
    minute = known["sched_dep_time"] % 100
    departs = pd.to_datetime(known[["year", "month", "day"]]) + pd.to_timedelta(
        known["sched_dep_time"] // 100 * 60 + minute, unit="min"
    )
    return known.assign(departs=departs, late=known["arr_delay"] > 15).reset_index(drop=True)
