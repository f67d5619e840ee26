"""Table 4: effect of the capacity for active features, on Reuters 'earn', gamma = 10 (quadratic-l1, section 7.1)."""

from __future__ import annotations

import numpy as np

from bayou.reproduce.experiment import Report
from bayou.reproduce.quadratic_l1 import data, picture, table3
from bayou.reproduce.quadratic_l1.solutions import EXACT, after, by_pass, shown

PENALTY = 10.0
PASSES = 8
PAPER_NONZEROS, PAPER_ONLINE = 150, 28.290
# k, and the L1 norm after eight passes.
PRINTED = {3120: 1.4e-3, 2000: 0.047, 1000: 0.044, 600: 0.048, 300: 1.269}


def run(report: Report) -> None:
    problem, names = data.reuters(report, PENALTY)
    rows, curves = [("online", shown(PAPER_ONLINE), shown(problem.online_gap), "")], {}
    lines = by_pass("online", [problem.online_gap])
    for max_active in report.each(list(PRINTED)):
        gaps = problem.gaps("reduced", max_active=max_active)
        rows.append((f"RMMP, k = {max_active}", shown(PRINTED[max_active]), shown(after(gaps, PASSES)), f"{len(gaps)}"))
        lines += by_pass(f"RMMP {max_active}", gaps)
        curves[f"k = {max_active}"] = picture.by_pass(gaps)
    columns = ("what", f"paper, z = {PASSES}", f"ours, z = {PASSES}", f"passes to {EXACT:g}")
    report.table("l1-table4: L1 distance from the batch solution", columns, rows)
    table3.report_largest(report, problem, names)
    counts = f"{PAPER_NONZEROS} weights are not 0 in the paper, {np.count_nonzero(problem.exact)} here."
    report.notes.append(counts)
    report.csv(("method", "pass", "l1_gap"), lines)
    title = "Reuters 'earn', gamma = 10"
    marks = {title: [(PASSES, gap) for gap in PRINTED.values()]}
    picture.draw(report, {title: curves}, ("passes", "L1 distance"), marks=marks)
