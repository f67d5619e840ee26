"""Table 4: what the room for active features does, on Reuters 'earn', gamma = 10 (quadratic-l1, section 7.1)."""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.reproduce.experiment import Experiment, Findings, Options, TextTable
from bayou.reproduce.files import write_csv
from bayou.reproduce.quadratic_l1 import PAPER, data, picture, solutions, table3
from bayou.reproduce.quadratic_l1.solutions import EXACT, after, shown, weights_of

PENALTY = 10.0
PASSES = 8
PAPER_NONZEROS, PAPER_ONLINE = 150, 28.290
# k, and the L1 norm after eight passes.
PRINTED = {3120: 1.4e-3, 2000: 0.047, 1000: 0.044, 600: 0.048, 300: 1.269}


def run(options: Options) -> Findings:
    X, y, names = data.reuters(options)
    batch, width = Batch.from_csr(X, y), X.shape[1]
    options.say(f"l1-table4: {len(y):,} documents, {width:,} stems, gamma = {PENALTY:.0f}")
    exact = weights_of(solutions.solved(batch, width, PENALTY))
    online = weights_of(solutions.online(batch, width, PENALTY))
    gap = float(np.abs(online - exact).sum())
    rows, lines, curves = [("online", shown(PAPER_ONLINE), shown(gap), "")], [("online", 1, gap)], {}
    for done, (room, paper) in enumerate(PRINTED.items()):
        gaps = solutions.gaps(batch, width, "reduced", PENALTY, exact, max_active=room)
        rows.append((f"RMMP, k = {room}", shown(paper), shown(after(gaps, PASSES)), f"{len(gaps)}"))
        lines += [(f"RMMP {room}", z + 1, one) for z, one in enumerate(gaps)]
        curves[f"k = {room}"] = picture.by_pass(gaps)
        options.watch(done + 1, len(PRINTED))
    counts = f"{PAPER_NONZEROS} weights are not 0 in the paper, {np.count_nonzero(exact)} here."
    columns = ("what", f"paper, z = {PASSES}", f"ours, z = {PASSES}", f"passes to {EXACT:g}")
    table = TextTable("l1-table4: L1 distance from the batch solution", columns, tuple(rows))
    title = "Reuters 'earn', gamma = 10"
    files = (
        write_csv(options.out, "l1-table4", ("method", "pass", "l1_gap"), lines),
        picture.draw(
            options.out, "l1-table4", {title: curves}, ("passes", "L1 distance"),
            marks={title: [(PASSES, one) for one in PRINTED.values()]},
        ),
    )  # fmt: skip
    return Findings((table, table3.largest(exact, online, names)), (counts,), files)


RECORD = Experiment(
    "l1-table4", PAPER, run=run, minutes=(0.3, 1.0), takes_data=True,
    what="Reuters 'earn', gamma = 10: reduced memory with k from 300 to 3120, against batch",
)  # fmt: skip
