"""Figure 2: a long tail of eight million features, and a Criteo file of the user's (marginal-gaussian, section 4).

The right half is a protocol: predict each example of the file, add up its loss, learn from it, and show the summed loss
relative to that of the best AdaGrad. Columns are hashed to 2^22 features and numbers cut into 20 quantiles, as in
`bayou train`; the paper does not describe its encoding. All learners have an intercept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayou import plots
from bayou.core.errors import BadInput
from bayou.reproduce.experiment import ExperimentOptions, Report
from bayou.reproduce.marginal_gaussian import methods, picture, results, study
from bayou.reproduce.marginal_gaussian.streams import PRIOR, Method, Panel, Trace, one_pass

BITS = 22
FILE = "right: file"
# Real data have no true prior: every Gaussian learner chooses from the same variances.
VARIANCES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FILE_METHODS = (
    Method("Marginal", "Marginal", {}, PRIOR, VARIANCES),
    Method("Joint", "Joint", {}, PRIOR, VARIANCES),
    Method("Moment probit", "Moment", {"link": "probit", "expectation": "probit"}, PRIOR, VARIANCES),
    Method("Moment probit step", "Moment", {"expectation": "probit"}, PRIOR, VARIANCES),
    Method("Moment exact", "Moment", {"expectation": "exact"}, PRIOR, VARIANCES),
    Method("AdaGrad", "AdaGrad", {}, "learning_rate", (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)),
    methods.BANK,
)
BASE = "AdaGrad"
# The paper's results on its 45 million examples.
PAPER_LOSS = {"Marginal": 0.465}


def panels() -> list[Panel]:
    return [
        Panel(
            name="left: long tail",
            title="22 categories of 2^j features, Zipf, std 2",
            generator="longtail",
            settings={"weight_std": 2.0},
            n_features=2**23 - 2,
            methods=methods.figure_methods(2.0),
            active=22,
            examples=(1_000_000, 100_000),
        )
    ]


def run(report: Report) -> None:
    traces: list[Trace] = []
    best: dict[str, results.Best] = {}
    if report.options.data:
        traces = file_traces(report.options)
        best = results.best(FILE_METHODS, traces, lambda trace: float(trace.loss[-1]))
    shown_traces = [trace for method_best in best.values() for trace in method_best.traces]
    title, draws = "Figure 2 left: long tail", (1, 2)
    study.run(report, title, panels(), draw_with(best), draws=draws, more=traces, more_shown=shown_traces)
    if best:
        report_file(report, best)
    else:
        report.notes.append("Figure 2 right, the Criteo protocol, needs a file: --data FILE.")


def file_traces(options: ExperimentOptions) -> list[Trace]:
    """Return the curves of all learners over one reading of the user's files."""
    from bayou import sources

    source = sources.open(list(options.data), recipe={"bits": BITS}, on_error="skip")
    contestants = [
        contestant for method in FILE_METHODS for contestant in method.contestants(1 << BITS, 1.0, intercept=True)
    ]
    options.say(f"figure2 right: {', '.join(options.data)}, {len(contestants)} learners over one reading")
    done = 0

    def on_batch(examples: int) -> None:
        nonlocal done
        done += examples
        if source.bytes_total:
            options.watch(source.bytes_done / source.bytes_total)

    traces = one_pass(contestants, source, panel=FILE, on_batch=on_batch)
    if not done:
        raise BadInput(f"{', '.join(options.data)}: there are no examples in it.")
    if source.skipped:
        options.say(f"{source.skipped:,} bad lines were skipped; the first: {source.bad_lines[0]}")
    return traces


def relative(best: Mapping[str, results.Best], method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples seen, and by how many per cent the summed loss exceeds that of the best AdaGrad."""
    (trace,), (base,) = best[method].traces, best[BASE].traces
    return trace.example, 100.0 * (trace.loss / base.loss - 1.0)


def report_file(report: Report, best: Mapping[str, results.Best]) -> None:
    rows = []
    for method, method_best in best.items():
        (trace,) = method_best.traces
        setting = method_best.setting + " (edge of the grid)" * method_best.at_edge
        printed = f"{PAPER_LOSS[method]:.3f}" if method in PAPER_LOSS else ""
        loss, difference = trace.loss[-1] / trace.example[-1], relative(best, method)[1][-1]
        rows.append((method, setting, printed, f"{loss:.4f}", f"{difference:+.2f}%", results.seconds(trace.seconds)))
    examples = best[BASE].traces[0].example[-1]
    columns = ("method", "setting", "paper, 45 million", "log loss", f"against {BASE}", "CPU time")
    report.table(f"Figure 2 right: loss over {examples:,} examples of the file", columns, rows)


def draw_with(best: Mapping[str, results.Best]) -> study.Draw:
    """Return a function that draws the long tail, and beside it the user's file if there is one."""

    def draw(report: Report, panels: Sequence[Panel], scores: Sequence[results.Score]) -> None:
        columns = 2 if best else 1
        with report.picture(5.2 * columns + 1.6 * (not best), 4.8) as figure:
            axes = figure.subplots(1, columns, squeeze=False)
            picture.regret_panel(axes[0, 0], panels[0], scores)
            axes[0, 0].set(xlabel="examples seen, t", ylabel="regret / ln t")
            if best:
                _draw_file(axes[0, 1], best)
            picture.legend(figure, axes, 5 if best else 4)

    return draw


def _draw_file(axes: Any, best: Mapping[str, results.Best]) -> None:
    order = list(picture.LINES)
    for method in sorted(best, key=order.index):
        seen, height = relative(best, method)
        is_drawn = seen >= min(picture.FIRST, seen[-1] // 10)
        colour, dashes, width = picture.LINES[method]
        axes.plot(seen[is_drawn], height[is_drawn], color=colour, linestyle=dashes, linewidth=width, label=method)
    plots.grid(axes)
    title, ylabel = "the file: loss against the best AdaGrad", "summed loss, % above AdaGrad's"
    axes.set(xscale="log", title=title, xlabel="examples seen, t", ylabel=ylabel)
