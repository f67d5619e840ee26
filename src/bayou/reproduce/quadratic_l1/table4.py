"""Table 4: what the room for active features does, on Reuters 'earn', gamma = 10 (quadratic-l1, section 7.1)."""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.reproduce.experiment import Experiment, Options, Outcome, Table
from bayou.reproduce.quadratic_l1 import common as l1
from bayou.reproduce.quadratic_l1 import table3

PENALTY = 10.0
PASSES = 8
PAPER_NONZEROS, PAPER_ONLINE = 150, 28.290
# k, and the L1 norm after eight passes.
PAPER = {3120: 1.4e-3, 2000: 0.047, 1000: 0.044, 600: 0.048, 300: 1.269}


def run(options: Options) -> Outcome:
    X, y, names = l1.reuters(options)
    batch, width = Batch.from_csr(X, y), X.shape[1]
    options.say(f"l1-table4: {len(y):,} documents, {width:,} stems, gamma = {PENALTY:.0f}")
    exact = l1.weights_of(l1.solved(batch, width, PENALTY))
    online = l1.weights_of(l1.online(batch, width, PENALTY))
    gap = float(np.abs(online - exact).sum())
    rows, lines, curves = [("online", l1.shown(PAPER_ONLINE), l1.shown(gap), "")], [("online", 1, gap)], {}
    for done, (room, paper) in enumerate(PAPER.items()):
        gaps = l1.gaps(batch, width, "reduced", PENALTY, exact, max_active=room)
        row = (f"RMMP, k = {room}", l1.shown(paper), l1.shown(l1.after(gaps, PASSES)), f"{len(gaps)}")
        rows.append(row)
        lines += [(f"RMMP {room}", z + 1, one) for z, one in enumerate(gaps)]
        curves[f"k = {room}"] = table3.curve(gaps)
        options.watch(done + 1, len(PAPER))
    counts = f"{PAPER_NONZEROS} weights are not 0 in the paper, {np.count_nonzero(exact)} here."
    columns = ("what", f"paper, z = {PASSES}", f"ours, z = {PASSES}", f"passes to {l1.EXACT:g}")
    table = Table("l1-table4: L1 distance from the batch solution", columns, tuple(rows))
    title = "Reuters 'earn', gamma = 10"
    files = (
        l1.write_csv(options, "l1-table4", ("method", "pass", "l1_gap"), lines),
        l1.draw(
            options, "l1-table4", {title: curves}, ("passes", "L1 distance"),
            marks={title: [(PASSES, one) for one in PAPER.values()]},
        ),
    )  # fmt: skip
    return Outcome((table, table3.largest(exact, online, names)), (counts,), files)


RECORD = Experiment(
    name="l1-table4",
    paper=l1.PAPER,
    what="Reuters 'earn', gamma = 10: reduced memory with k from 300 to 3120, against batch",
    minutes=(0.3, 1.0),
    run=run,
    takes_data=True,
)
