"""Do 90% intervals hold the truth as often as they say, and where do they not?

    python benchmarks/uncertainty.py [--long] [--seeds 5]
    python benchmarks/uncertainty.py --designs [a9a,adult] [--rows 10000 100000] [--seeds 5] [--bank head=64]
                                     [--only CONTENDER] [--reuse results.json] [--again CONTENDER]
                                     [--published docs/lab/results.md]
                                     [--json out.json] [--markdown out.md] [--picture out.png]
    python benchmarks/uncertainty.py --heads [--seeds 5]

With --designs: coverage and root mean square error of weights, of contrasts within columns (a weight less the mean of
its column) and of the scores of 20,000 later rows, on ten sets of real rows with labels drawn from a linear truth, and
on simulated streams. uncertainty_designs.py has the problems, uncertainty_peers.py the contenders. Weights of features
that fewer than 50 of the learned rows have are not judged. Each result is written to the JSON at once; --reuse goes on
from there, and --again runs one contender again, as after a change to it. --published takes what is not in the JSON
from the tables of a page, so that a change to one contender does not take hours. --bank adds a bank with that option.

With --heads: coverage of the weights inside and outside a head that is smaller than the number of features, on
simulated streams and some of the designs, and the factor that the standard deviations outside would need.

Without it: Marginal, with the true prior and with a quarter of its variance, the same with a learned scale, and the
bank, at its defaults, on simulated streams (--only runs one of them). For each, how often the 90% intervals (mean +-
1.645 standard deviations) hold the true weights, and the true scores of 20,000 later examples; and how far the
predicted probabilities are from the rates (calibration error of the stream's second half).

Features that are rarely active together have correct intervals. Where features keep occurring together, or the stream
is very long, a diagonal posterior becomes overconfident, while its probabilities stay calibrated. --long adds the
longest stream.

Then a long tail, where most features are rare: the coverage of the scores by how often the example's rarest feature was
seen before.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import quality
import quality_sets
import uncertainty_peers as peers
from uncertainty_designs import (
    DESIGNS,
    MISFIT_ROWS,
    MISFITS,
    Problem,
    draw_misfit,
    draw_problem,
    load_design,
    simulate_problem,
)

from bayou import Batch, evaluate, plots, simulate
from bayou.learners import Bank, Marginal

# (features, active on average, standard deviation of the true weights, examples)
SETTINGS = [
    (200, 5, 1.0, 100_000),
    (2000, 20, 1.0, 300_000),
    (200, 20, 1.0, 100_000),
    (200, 40, 2.0, 300_000),
]
LONG = [(200, 20, 1.0, 1_000_000)]
SHORT = [(200, 40, 2.0, 100_000)]
LATER = 20_000
NORMAL_90 = 1.6448536269514722
TAIL_EXAMPLES = (3000, 30_000, 300_000)
TIMES_MET = (0, 1, 10, 100, 1000)
MIN_USES = 50  # weights of features that the learned rows use less often are not judged
BANKS: list[dict[str, Any]] = [{"head": 0}, {"head": "auto"}, {"head": 256}]
QUANTITIES = "weights", "contrasts", "scores", "next scores"


def learners(stream: simulate.Simulation) -> dict[str, Marginal | Bank]:
    return {
        "Marginal": Marginal(stream.n_features, prior_variance=stream.prior_variance, intercept=False),
        "bank": Bank(stream.n_features, intercept=False),
    }


def scores_inside(learner: Marginal | Bank, stream: simulate.Simulation, batch: Batch) -> np.ndarray:
    """Whether each true score is inside its 90% interval."""
    told = learner.predict(Batch.from_arrays(batch.indptr, batch.indices, batch.values))
    true = batch.to_csr(stream.n_features) @ stream.weights
    return np.abs(told.mean - true) <= NORMAL_90 * np.sqrt(told.variance)


def contenders_on(stream: simulate.Simulation) -> dict[str, Marginal | Bank]:
    """Return `learners`, and `Marginal` with too narrow a prior and with a learned scale."""
    found = learners(stream)
    for name, fraction, scale in (
        ("narrow", 0.25, "fixed"),
        ("scale", 1.0, "learned"),
        ("narrow, scale", 0.25, "learned"),
    ):
        prior_variance = fraction * stream.prior_variance
        found[name] = Marginal(stream.n_features, prior_variance=prior_variance, intercept=False, scale=scale)
    return found


def honesty(
    features: int, active: int, std: float, examples: int, seed: int, only: list[str] | None = None
) -> dict[str, tuple[float, float, float]]:
    """By learner: shares of true weights and of true scores inside their intervals, calibration error."""
    stream = simulate.random(n_features=features, active=active / features, weight_std=std, seed=seed)
    later = next(stream.batches(LATER, batch_size=LATER, start=examples))
    half = examples // 2
    found = {}
    for name, learner in contenders_on(stream).items():
        if only and name not in only:
            continue
        evaluate.progressive(learner, stream.batches(half))
        second = evaluate.progressive(learner, stream.batches(examples - half, start=half))
        inside = np.abs(learner.mean - stream.weights) <= NORMAL_90 * np.sqrt(learner.variance)
        assert second.calibration_error is not None
        found[name] = (inside.mean(), scores_inside(learner, stream, later).mean(), second.calibration_error)
    return found


def tail(examples: int, seeds: int) -> None:
    """Coverage of scores where features are rare, by how often the example's rarest feature was seen."""
    inside: dict[str, list[np.ndarray]] = {"Marginal": [], "bank": []}
    rarest = []
    for seed in range(seeds):
        stream = simulate.longtail(n_categories=14, weight_std=1.0, seed=seed)
        met = np.zeros(stream.n_features, np.int64)
        both = learners(stream)
        for batch in stream.batches(examples):
            met += np.bincount(batch.indices, minlength=stream.n_features)
            for learner in both.values():
                learner.learn(batch)
        later = next(stream.batches(LATER, batch_size=LATER, start=examples))
        rarest.append(np.minimum.reduceat(met[later.indices], later.indptr[:-1]))
        for name, learner in both.items():
            inside[name].append(scores_inside(learner, stream, later))
    group = np.searchsorted(TIMES_MET, np.concatenate(rarest), side="right") - 1
    for name, each in inside.items():
        right = np.concatenate(each)
        cells = [
            f"{right[group == g].mean():8.3f}" if np.count_nonzero(group == g) > 100 else f"{'':8}"
            for g in range(len(TIMES_MET))
        ]
        print(f"{examples:9,}  {name:10}" + "".join(cells) + f"{right.mean():8.3f}", flush=True)


# --- designs --------------------------------------------------------------------------------------------------------


def contenders(banks: list[dict[str, Any]]) -> dict[str, Callable[[Problem], peers.Posterior | None]]:
    """Return what learns each problem, by name."""
    optional = {
        "bank, " + ", ".join(f"{name} {value}" for name, value in options.items()): partial(peers.learn_bank, **options)
        for options in [*BANKS, *banks]
    }
    return {
        "Marginal": peers.learn_marginal,
        "Marginal, scale": partial(peers.learn_marginal, scale="learned"),
        "Joint, full": peers.learn_joint,
        **optional,
        "batch": peers.fit_batch,
        "BayesianGLM": peers.fit_bayesian_glm,
        "EmpiricalBayesGLM": peers.fit_empirical_glm,
        "AdPredictor": peers.fit_ad_predictor,
        "AdPredictor 1 0": partial(peers.fit_ad_predictor, beta=1.0, epsilon=0.0),
    }


def simulated_name(features: int, active: int, std: float, examples: int) -> str:
    return f"{features}/{active}/{std:g}/{examples // 1000}k"


SIMULATED = {simulated_name(*setting): setting for setting in (*SHORT, *SETTINGS, *LONG)}


def problems(names: list[str], rows: list[int], *folders: Path) -> Iterator[tuple[str, int, Callable[[int], Problem]]]:
    """Yield the name of each problem, its rows, and a function from a seed to the problem."""
    for name in names:
        if name in SIMULATED:
            yield name, SIMULATED[name][-1], partial(simulate_problem, *SIMULATED[name])
        elif name in MISFITS:
            yield name, MISFIT_ROWS, partial(draw_misfit, *MISFITS[name])
        else:
            design = load_design(name, *folders)
            yield from ((name, n_rows, partial(draw_problem, design, n_rows)) for n_rows in rows)


def run_designs(args: argparse.Namespace) -> None:
    longest = [simulated_name(*setting) for setting in LONG if not args.long]
    names = (
        args.designs.split(",")
        if args.designs
        else [*DESIGNS, *(name for name in SIMULATED if name not in longest), *MISFITS]
    )
    if unknown := sorted(set(names) - {*DESIGNS, *SIMULATED, *MISFITS}):
        all_names = ", ".join([*DESIGNS, *SIMULATED, *MISFITS])
        raise SystemExit(f"no design is called {', '.join(unknown)}; there are {all_names}")
    methods = contenders([dict([read_option(text)]) for text in args.bank])
    selected = args.only or list(methods)
    if unknown := sorted(set(selected) - set(methods)):
        raise SystemExit(f"no contender is called {', '.join(unknown)}; there are {', '.join(methods)}")
    runs = json.loads(args.reuse.read_text())["runs"] if args.reuse and args.reuse.exists() else []
    runs = [run for run in runs if run["contender"] not in args.again]
    done = {(run["problem"], run["rows"], run["seed"], run["contender"]) for run in runs}
    for name, n_rows, problem_of in problems(names, args.rows, args.data, args.cache):
        for seed in range(args.seeds):
            missing = [contender for contender in selected if (name, n_rows, seed, contender) not in done]
            problem = problem_of(seed) if missing else None
            for contender in missing:
                start = time.perf_counter()
                posterior = methods[contender](problem)
                if posterior is None:
                    continue
                seconds = round(time.perf_counter() - start, 2)
                run = {"problem": name, "rows": n_rows, "seed": seed, "contender": contender}
                runs.append(run | measure(problem, posterior) | {"seconds": seconds})
                print(line_of(runs[-1]), flush=True)
                if args.json:
                    write_runs(args.json, runs)
    if args.published:
        own = {(run["problem"], run["rows"], run["contender"]) for run in runs}
        known = [run for run in read_tables(args.published) if run["contender"] in methods]
        runs += [run for run in known if (run["problem"], run["rows"], run["contender"]) not in own]
    runs.sort(key=lambda run: list(methods).index(run["contender"]))
    tables = [summary_table(runs, group) for group in groups_of(runs) if group != "misfit"]
    tables += [table_of(runs, group, quantity) for group in groups_of(runs) for quantity in QUANTITIES]
    if args.markdown:
        args.markdown.write_text("\n\n".join(f"{title}\n\n{quality.markdown(lines)}" for title, lines in tables) + "\n")
    for title, lines in tables:
        print(f"\n{title}\n\n{quality.plain(lines)}")
    if args.picture:
        draw(runs, args.picture)


def read_option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value) if value.lstrip("-").isdigit() else value


def write_runs(path: Path, runs: list[dict]) -> None:
    packages = {"numpy": "numpy", "scipy": "scipy", "scikit-learn": "sklearn"}
    packages |= {name: name for name in ("river", "bayesianbandits") if find_spec(name)}
    text = ",\n".join(json.dumps(run) for run in runs)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(
        f'{{"versions": {json.dumps({name: version(name) for name in packages})}, "runs": [\n{text}\n]}}\n'
    )
    unfinished.replace(path)


def read_tables(page: Path) -> list[dict]:
    """Return the means that the tables of `table_of` on a page have, as one run for each problem and contender."""
    found: dict[tuple[str, int, str], dict] = {}
    quantity = rows = contenders = None
    for line in page.read_text().splitlines():
        if heading := re.match(r"(\w+), (simulated|misfit|[\d,]+ rows): coverage of 90% intervals \(root mean", line):
            quantity, rows, contenders = heading[1].lower(), heading[2], None
        elif quantity and line.startswith("| design |"):
            contenders = [name.strip() for name in line.split("|")[2:-1]]
        elif contenders and line.startswith("| "):
            problem, *cells = (cell.strip() for cell in line.split("|")[1:-1])
            simulated = {name: setting[-1] for name, setting in SIMULATED.items()} | dict.fromkeys(MISFITS, MISFIT_ROWS)
            n_rows = simulated.get(problem) or int(rows.split()[0].replace(",", ""))
            for contender, cell in zip(contenders, cells, strict=True):
                run = {"problem": problem, "rows": n_rows, "seed": -1, "contender": contender}
                if cell:
                    values = [float(number) for number in re.findall(r"[\d.]+", cell)]
                    found.setdefault((problem, n_rows, contender), run)[quantity] = values
        elif contenders and not line.startswith("|--"):
            quantity = contenders = None
    return list(found.values())


# --- measures -------------------------------------------------------------------------------------------------------


def measure(problem: Problem, posterior: peers.Posterior) -> dict[str, list[float]]:
    """Return `summary` of each quantity."""
    uses = problem.uses
    judged = uses >= MIN_USES
    error = posterior.mean - problem.weights
    is_linear = problem.known_scores is None
    measured = {"weights": summary(error[judged], posterior.variance[judged])} if is_linear else {}
    columns = contrasted_columns(problem.columns, judged)
    if columns:
        contrasts = [contrast_errors(np.flatnonzero(problem.columns == k), uses, posterior, error) for k in columns]
        measured["contrasts"] = summary(*map(np.concatenate, zip(*contrasts, strict=True)))
    truth = problem.later_scores
    for name, (mean, variance) in {"scores": posterior.later, "next scores": posterior.next or posterior.later}.items():
        measured[name] = summary(mean - truth, variance)
    return measured


def summary(error: np.ndarray, variance: np.ndarray) -> list[float]:
    """Return coverage of 90% intervals, root mean square error, and that of errors in standard deviations."""
    deviations = error / np.sqrt(np.maximum(variance, 1e-300))
    values = (np.abs(deviations) <= NORMAL_90).mean(), np.sqrt((error**2).mean()), np.sqrt((deviations**2).mean())
    return [round(float(value), 5) for value in values]


def contrasted_columns(columns: np.ndarray, judged: np.ndarray) -> list[int]:
    """Return the columns of which at least two features are judged."""
    return [int(column) for column in np.flatnonzero(np.bincount(columns[judged]) >= 2) if column > 0]


def contrast_errors(
    indices: np.ndarray, uses: np.ndarray, posterior: peers.Posterior, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return errors and variances of the weights of a column less their mean, which is weighted by uses."""
    indices = indices[uses[indices] > 0]
    uses = uses[indices]
    centering = (np.eye(len(indices)) - uses / uses.sum())[uses >= MIN_USES]
    variance = np.einsum("ij,jk,ik->i", centering, posterior.covariance(indices), centering, optimize=True)
    return centering @ error[indices], variance


# --- weights outside the head ---------------------------------------------------------------------------------------

# (problem, rows, slots of the head)
HEADS = [
    *(
        ((2000, 20, std, rows), slots)
        for std, rows, slots in ((1.0, 300_000, 256), (1.0, 100_000, 128), (2.0, 100_000, 256))
    ),
    *(((200, 5, 1.0, 100_000), slots) for slots in (128, 64)),
    *(((200, 20, 1.0, 100_000), slots) for slots in (128, 64)),
    ((200, 40, 1.0, 100_000), 128),
    ((200, 40, 2.0, 100_000), 128),
    *(((name, 100_000), 256) for name in ("imdb", "frappe")),
    *(((name, 100_000), 64) for name in ("a9a", "adult", "w8a")),
]


def print_heads(args: argparse.Namespace) -> None:
    print(f"{'problem':18} {'rows':>9} slots outside   weights inside   outside   factor +- over seeds")
    for setting, slots in HEADS:
        if isinstance(setting[0], str):
            name, problem_of = (
                setting[0],
                partial(draw_problem, load_design(setting[0], args.data, args.cache), setting[1]),
            )
        else:
            name, problem_of = simulated_name(*setting), partial(simulate_problem, *setting)
        runs = np.array([outside_coverage(problem_of(seed), slots) for seed in range(args.seeds)])
        n_outside, inside, outside, factor = runs.mean(axis=0)
        line = f"{name:18} {setting[-1]:9,} {slots:5} {n_outside:7.0f} {inside:16.3f} {outside:9.3f}"
        print(f"{line} {factor:8.2f} +- {runs[:, 3].std():.2f}", flush=True)


def outside_coverage(problem: Problem, slots: int) -> tuple[float, float, float, float]:
    """Return how many weights are outside the head, coverage inside and outside, and the factor that would give 90%."""
    bank = Bank(len(problem.weights), intercept=problem.intercept is not None, head=slots)
    bank.learn(peers.batch_of(problem.X, problem, problem.y))
    every = np.arange(len(problem.weights))
    judged = problem.uses >= MIN_USES
    inside = np.zeros(len(every), bool)
    inside[bank.weight_view(every).joint.positions] = True
    errors = np.abs(bank.mean - problem.weights) / np.sqrt(bank.variance)
    own, outside = errors[judged & inside], errors[judged & ~inside]
    factor = np.quantile(outside, 0.9) / NORMAL_90
    return len(outside), (own <= NORMAL_90).mean(), (outside <= NORMAL_90).mean(), factor


# --- tables and the picture -----------------------------------------------------------------------------------------


def line_of(run: dict) -> str:
    cells = [
        f"{name} {run[name][0]:.3f} ({run[name][1]:.3f}, {run[name][2]:.2f})" for name in QUANTITIES if name in run
    ]
    problem = f"{run['problem']:16} {run['rows']:9,} {run['seed']} {run['contender']:17}"
    return f"{problem} {'  '.join(cells)} {run['seconds']} s"


def group_of(run: dict) -> str:
    groups = {"simulated": SIMULATED, "misfit": MISFITS}
    return next((name for name, group in groups.items() if run["problem"] in group), f"{run['rows']:,} rows")


def groups_of(runs: list[dict]) -> list[str]:
    """Return what tables are about: real designs by their number of rows, simulated streams, and misfits."""
    ordered = sorted(runs, key=lambda run: (run["problem"] in MISFITS, run["problem"] in SIMULATED, run["rows"]))
    return list(dict.fromkeys(map(group_of, ordered)))


def means_of(runs: list[dict], group: str, quantity: str) -> dict[str, dict[str, np.ndarray]]:
    """Return, by problem and contender, the means over seeds of what was measured."""
    values: dict[str, dict[str, list]] = {name: {} for name in (*DESIGNS, *SIMULATED, *MISFITS)}
    for run in runs:
        if group_of(run) == group and quantity in run:
            values[run["problem"]].setdefault(run["contender"], []).append(run[quantity])
    return {
        problem: {contender: np.mean(each, axis=0) for contender, each in row.items()}
        for problem, row in values.items()
        if row
    }


def names_of(runs: list[dict], prefix: str = "") -> list[str]:
    """Return the contenders whose names begin with `prefix`, in the order of their first run."""
    return [name for name in dict.fromkeys(run["contender"] for run in runs) if name.startswith(prefix)]


def table_of(runs: list[dict], group: str, quantity: str) -> tuple[str, list[list[str]]]:
    """Return a title and lines: coverage, and the root mean square error in brackets."""
    means = means_of(runs, group, quantity)
    names = [name for name in names_of(runs) if any(name in row for row in means.values())]
    lines = [["design", *names]]
    for problem, row in means.items():
        lines.append([problem, *(f"{row[name][0]:.3f} ({row[name][1]:.3f})" if name in row else "" for name in names)])
    return f"{quantity}, {group}: coverage of 90% intervals (root mean square error)", lines


def summary_table(runs: list[dict], group: str) -> tuple[str, list[list[str]]]:
    """Return a title and lines: all three coverages of the main contenders, and the bank's error over the batch's."""
    panels = [means_of(runs, group, quantity) for quantity in PANELS]
    banks = names_of(runs, "bank")
    names = ["Marginal", *banks, "Joint, full", "EmpiricalBayesGLM", "batch"]
    lines = [["design", *names, *(f"error of weights, {name} / batch" for name in banks)]]
    for problem, row in panels[0].items():
        cells = []
        for name in names:
            values = [means[problem][name][0] if name in means.get(problem, {}) else None for means in panels]
            covered = ["-" if value is None else f"{value:.2f}" for value in values]
            cells.append(" / ".join(covered) if name in row else "")
        ratios = [f"{row[name][1] / row['batch'][1]:.2f}" if {name, "batch"} <= set(row) else "" for name in banks]
        lines.append([problem, *cells, *ratios])
    return f"{group}: coverage of 90% intervals of weights / contrasts / scores", lines


# Color, marker and size of each contender; banks have one of BANK_COLORS each.
MARKERS = {
    "batch": (plots.INK, "|", 13),
    "Joint, full": (plots.GREEN, "D", 5),
    "EmpiricalBayesGLM": (plots.PURPLE, "s", 5),
    "Marginal": (plots.GOLD, "v", 6),
}
BANK_COLORS = plots.SKY, plots.ORANGE, plots.BLUE, plots.PINK
PANELS = {"weights": "weights", "contrasts": "contrasts within columns", "scores": "scores of later rows"}


def draw(runs: list[dict], path: Path) -> None:
    """Draw a panel for each quantity, a line per real design, a dot per contender."""
    group = [group for group in groups_of(runs) if group.endswith(" rows")][-1]
    banks = {name: (color, "o", 8) for name, color in zip(names_of(runs, "bank"), BANK_COLORS, strict=False)}
    weights = means_of(runs, group, "weights")
    problems = list(weights)[::-1]
    with plots.picture(path, 10.5, 0.33 * len(problems) + 1.7) as figure:
        panels = figure.subplots(1, len(PANELS), sharey=True)
        for axes, (quantity, title) in zip(panels, PANELS.items(), strict=True):
            means = means_of(runs, group, quantity)
            axes.axvline(0.9, color=plots.GREY, linewidth=1)
            for name, (color, marker, size) in (MARKERS | banks).items():
                if any(name in row for row in weights.values()):
                    lines = [k for k, problem in enumerate(problems) if name in means.get(problem, {})]
                    covered = [means[problems[k]][name][0] for k in lines]
                    style = {"color": color, "marker": marker, "markersize": size, "linestyle": "none"}
                    axes.plot(covered, lines, label=name, zorder=3, **style)
            axes.set_xlim(-0.02, 1.02)
            axes.set_yticks(range(len(problems)), problems)
            axes.tick_params(axis="y", length=0)
            axes.set_title(title)
            plots.grid(axes)
        panels[1].set_xlabel(f"fraction of true values inside their 90% interval, {group}")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--designs", nargs="?", const="", metavar="a9a,adult", help="real designs, and peers")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000], help="of the real designs")
    parser.add_argument("--only", action="append", metavar="CONTENDER", help="may be repeated")
    parser.add_argument("--bank", action="append", default=[], metavar="head=256", help="a bank with this option too")
    parser.add_argument("--reuse", type=Path, help="runs that this file of earlier results has are not run again")
    parser.add_argument("--published", type=Path, metavar="PAGE", help="contenders without runs: from a page's tables")
    parser.add_argument("--heads", action="store_true", help="weights inside and outside a small head")
    parser.add_argument("--again", action="append", default=[], metavar="CONTENDER", help="but those of this one are")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--picture", type=Path, help="also draw the picture into this file")
    parser.add_argument("--data", type=Path, default=quality_sets.data_folder())
    parser.add_argument("--cache", type=Path, default=Path("quality-cache"), help="prepared rows, some 100 MB")
    args = parser.parse_args()
    if args.heads:
        print_heads(args)
        return
    if args.designs is not None:
        run_designs(args)
        return

    print(f"{'':44}90% intervals hold the true")
    print(f"features active  std  examples  {'learner':13} {'weights':17}{'scores':17}calibration error")
    for setting in SETTINGS + (LONG if args.long else []):
        runs = [honesty(*setting, seed, args.only) for seed in range(args.seeds)]
        features, active, std, examples = setting
        for name in runs[0]:
            each = np.array([run[name] for run in runs])
            cells = [f"{m:.3f} +- {s:.3f}" for m, s in zip(each.mean(axis=0), each.std(axis=0), strict=True)][:2]
            error = f"{each[:, 2].mean():.4f} +- {each[:, 2].std():.4f}"
            print(
                f"{features:8} {active:6} {std:4.1f} {examples:9,}  {name:13} {cells[0]}   {cells[1]}   {error}",
                flush=True,
            )
    if args.only:
        return
    print("\nlong tail, 32,766 features, 14 active, std 1: scores, by how often the rarest feature was seen before")
    headings = [f"{low:,}+" if low else "never" for low in TIMES_MET]
    print(f"{'examples':>9}  {'learner':10}" + "".join(f"{heading:>8}" for heading in headings) + f"{'all':>8}")
    for examples in TAIL_EXAMPLES:
        tail(examples, args.seeds)


if __name__ == "__main__":
    main()
