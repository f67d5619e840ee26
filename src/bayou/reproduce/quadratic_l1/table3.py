"""Table 3: online, all memory and reduced memory on Reuters 'earn', gamma = 100 (quadratic-l1, section 7.1).

Raw counts of Porter's stems in the 9,603 ModApte training documents. The paper's own feature file, of weighted counts,
is not available: 21,989 features there, 21,877 here.
"""

from __future__ import annotations

import numpy as np

from bayou.reproduce.experiment import Report
from bayou.reproduce.quadratic_l1 import data, picture
from bayou.reproduce.quadratic_l1.solutions import EXACT, Problem, after, by_pass, largest, shown

PENALTY = 100.0
ROOM = 300
PAPER_NONZEROS = 31
PRINTED = {
    "online": 4.029,
    "MP z = 3": 1.691,
    "MP z = 5": 0.034,
    "RMMP z = 3": 3.496,
    "RMMP z = 5": 0.4027,
    "RMMP z = 7": 3e-4,
}


def run(report: Report) -> None:
    problem, names = data.reuters(report, PENALTY)
    full, reduced = problem.gaps("multipass"), problem.gaps("reduced", max_active=ROOM)
    gaps = {"online": problem.online_gap}
    gaps |= {f"MP z = {z}": after(full, z) for z in (3, 5)} | {f"RMMP z = {z}": after(reduced, z) for z in (3, 5, 7)}
    columns = ("what", "paper", "ours")
    rows = ((name, shown(PRINTED[name]), shown(gap)) for name, gap in gaps.items())
    report.table(f"l1-table3: L1 distance from the batch solution, k = {ROOM} for RMMP", columns, rows)
    counts = (
        ("weights that are not 0", f"{PAPER_NONZEROS}", f"{np.count_nonzero(problem.exact)}"),
        ("passes of MP to 0.001", "about 6", f"{passes_to(full, 1e-3)}"),
        ("passes of RMMP to 0.001", "about 7", f"{passes_to(reduced, 1e-3)}"),
        (f"passes of RMMP to a violation of {EXACT:g}", "", f"{len(reduced)}"),
        ("its violation, of the penalty", "", f"{problem.learner.kkt_violation / PENALTY:.1e}"),
    )
    report.table("counts", columns, counts)
    report_largest(report, problem, names)
    lines = [*by_pass("online", [problem.online_gap]), *by_pass("MP", full), *by_pass("RMMP", reduced)]
    report.csv(("method", "pass", "l1_gap"), lines)
    title = "Reuters 'earn', gamma = 100"
    panels = {title: {"MP": picture.by_pass(full), f"RMMP, k = {ROOM}": picture.by_pass(reduced)}}
    marks = {title: [(3, 1.691), (5, 0.034), (3, 3.496), (5, 0.4027), (7, 3e-4)]}
    picture.draw(report, panels, ("passes", "L1 distance"), marks=marks)


def passes_to(gaps: list[float], near: float) -> int:
    """Return the number of passes after which the gap is less than `near`."""
    return next((z + 1 for z, gap in enumerate(gaps) if gap < near), len(gaps))


def report_largest(report: Report, problem: Problem, names: list[str]) -> None:
    """Add a table of the largest and smallest weights that are not 0."""
    support = largest(problem.exact, names)
    rows = ((name, f"{problem.exact[j]:.4g}", f"{problem.online[j]:.4g}") for j, name in (*support[:5], *support[-5:]))
    report.table("the five largest and five smallest weights", ("what", "batch", "online"), rows)
