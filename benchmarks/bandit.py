"""Which item to show? Thompson sampling against epsilon-greedy, where the truth is a model of real clicks.

    python benchmarks/bandit.py [--seeds 50] [--rounds 100000] [--picture docs/images/bandit.png]

The truth is partly real. Visitors (four features of the user, and the position on the page) are drawn from the log of
the campaign "men" of the Open Bandit sample, which is read from the folder BAYOU_DATA. The probability that a
visitor clicks on each of the 34 items comes from scikit-learn's logistic regression on indicators of the item, the
visitor's features and their crosses, fitted once, with its default penalty, to the 20,000 rows of that log. Its 115
clicks say little: by cross-validation the fit is worse than one rate for all, so real visitors differ less than these.
But it has what matters here: clicks as rare as the real ones, and items whose appeal depends on the visitor.

Each policy gets the same visitors, with the same luck. It learns online, only from the clicks on what it has shown, and
receives them after every 50 visitors. All learn from the same indicators and crosses, with the default learner, the
bank, unless the name says otherwise; they differ in how they choose:

    Thompson        the best item under weights drawn from the posterior (`learner.sample`)
    epsilon 0.05    the best item under the mean weights, but with this probability a random item
    epsilon 1000/t  the same with a probability that falls with the number of visitors so far: min(1, 1000 / t)
    greedy          always the best item under the mean weights
    any item        a random item

Regret: how many more clicks always showing the best item would have had, in expectation, summed over rounds. Its mean
has its standard error behind it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from quality_sets import data_folder
from scipy.sparse import csr_array
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

from bayou import Batch
from bayou.core.learner import Learner
from bayou.learners import Bank, Marginal, Moment

VISITOR = ["user_feature_0", "user_feature_1", "user_feature_2", "user_feature_3", "position"]
BATCH = 50  # visitors between two updates
POINTS = 100  # of a curve


@dataclass(frozen=True)
class World:
    """The kinds of visitors, and how likely each is to click on each item."""

    features: np.ndarray  # (visitors, items, active features)
    chance: np.ndarray  # (visitors, items): of a click
    share: np.ndarray  # (visitors,): how often each comes
    n_features: int
    fit: tuple[float, float]  # log loss on the log by cross-validation: of the model, of one rate for all

    @cached_property
    def single(self) -> Batch:
        """A row for each feature."""
        n = self.n_features
        return Batch.from_arrays(np.arange(n + 1), np.arange(n), np.ones(n, np.float32))

    @cached_property
    def deciding(self) -> np.ndarray:
        """The active features that are not the same for all items, shape (features, visitors, items)."""
        differ = (self.features != self.features[:, :1]).any(axis=(0, 1))
        return np.ascontiguousarray(np.moveaxis(self.features[..., differ], -1, 0)).astype(np.intp)

    @property
    def n_items(self) -> int:
        return self.chance.shape[1]

    def batch(self, visitors: np.ndarray, items: np.ndarray | slice, clicks: np.ndarray | None = None) -> Batch:
        """The given items shown to each of the visitors, row by row."""
        rows = self.features[visitors, items].reshape(-1, self.features.shape[2])
        indptr = np.arange(len(rows) + 1) * rows.shape[1]
        return Batch.from_arrays(indptr, rows.reshape(-1), np.ones(rows.size, np.float32), clicks)


def indicators(visitors: np.ndarray, items: np.ndarray, sizes: np.ndarray, n_items: int) -> tuple[np.ndarray, int]:
    """Active features (the item, each of the visitor's, each of these with the item), and how many there are in all."""
    before = np.cumsum(sizes) - sizes
    crosses = n_items + sizes.sum() + n_items * before + items[..., None] * sizes + visitors
    active = np.concatenate([items[..., None], n_items + before + visitors, crosses], axis=-1)
    return active.astype(np.uint32), int(n_items + (1 + n_items) * sizes.sum())


def world(data: Path) -> World:
    log = pd.read_csv(data / "openbandit.sample60k.csv.gz").query("campaign == 'men'")
    visitors = np.column_stack([log[name].astype("category").cat.codes.to_numpy(np.int64) for name in VISITOR])
    sizes = visitors.max(axis=0) + 1
    items = log["item_id"].to_numpy(np.int64)
    n_items = int(items.max()) + 1
    shown, n_features = indicators(visitors, items, sizes, n_items)
    indptr = np.arange(len(shown) + 1) * shown.shape[1]
    X = csr_array((np.ones(shown.size), shown.reshape(-1).astype(np.int32), indptr), shape=(len(shown), n_features))
    clicks = log["click"].to_numpy()
    fitted = LogisticRegression(C=1.0, max_iter=1000).fit(X, clicks)
    foreseen = cross_val_predict(fitted, X, clicks, cv=5, method="predict_proba")[:, 1]
    fit = log_loss(clicks, foreseen), log_loss(clicks, np.full(len(clicks), clicks.mean()))

    kinds, counts = np.unique(visitors, axis=0, return_counts=True)
    each = np.broadcast_to(kinds[:, None, :], (len(kinds), n_items, len(sizes)))
    features, _ = indicators(each, np.broadcast_to(np.arange(n_items), each.shape[:2]), sizes, n_items)
    chance = expit(fitted.coef_[0][features].sum(axis=-1) + fitted.intercept_[0])
    return World(features, chance, counts / counts.sum(), n_features, fit)


# How a policy scores the items for some visitors: (visitors, items). All but what is the same for all items.


def by_draw(world: World, learner: Learner, who: np.ndarray, draw: int, purpose: str = "choose") -> np.ndarray:
    """Under weights drawn from the posterior: what `learner.sample` says of the rows.

    A draw has one weight for each feature, whatever the rows. Drawing each feature once, not once for each row that has
    it, is ten times as fast.
    """
    weights = logit(learner.sample(world.single, n_draws=1, seed=draw, purpose=purpose)[0])
    return weights[world.deciding[:, who]].sum(axis=0)


def by_whole_draw(world: World, learner: Learner, who: np.ndarray, draw: int) -> np.ndarray:
    return by_draw(world, learner, who, draw, purpose="interval")


def by_mean(world: World, learner: Learner, who: np.ndarray, draw: int) -> np.ndarray:
    """Under the mean weights: what `learner.predict` says of the rows' scores."""
    return learner.mean[world.deciding[:, who]].sum(axis=0)


def play(
    world: World,
    learner: Learner,
    score: Callable[[World, Learner, np.ndarray, int], np.ndarray],
    epsilon: Callable[[np.ndarray], np.ndarray],
    rounds: int,
    seed: int,
) -> np.ndarray:
    """Regret summed up to each of the curve's points. A seed gives the same visitors and the same luck to all."""
    luck = np.random.default_rng(seed)
    visitors = luck.choice(len(world.share), size=rounds, p=world.share)
    explores = luck.random(rounds) < epsilon(np.arange(1, rounds + 1))
    any_item, coins = luck.integers(world.n_items, size=rounds), luck.random(rounds)
    regret = np.empty(rounds)
    for start in range(0, rounds, BATCH):
        now = slice(start, min(start + BATCH, rounds))
        who = visitors[now]
        best = score(world, learner, who, seed * rounds + start).argmax(axis=1)
        items = np.where(explores[now], any_item[now], best)
        chance = world.chance[who, items]
        learner.learn(world.batch(who, items, coins[now] < chance))
        regret[now] = world.chance[who].max(axis=1) - chance
    return regret.cumsum()[curve_rounds(rounds) - 1]


def curve_rounds(rounds: int) -> np.ndarray:
    return np.unique(np.linspace(0, rounds, POINTS + 1).astype(int)[1:])


def constant(epsilon: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rounds: np.full(len(rounds), epsilon)


def policies(n_features: int) -> dict[str, tuple[Callable[[], Learner], Callable, Callable]]:
    """By name: how the learner starts, how items are scored, how often chance decides."""
    learners: dict[str, Callable[[], Learner]] = {
        "": lambda: Bank(n_features),
        ", Marginal": lambda: Marginal(n_features, prior_variance=1.0),
        ", Marginal 0.1": lambda: Marginal(n_features, prior_variance=0.1),
    }
    explorers = {f"epsilon {e:g}": constant(e) for e in (0.01, 0.05, 0.1)}
    explorers["epsilon 1000/t"] = lambda rounds: np.minimum(1.0, 1000 / rounds)
    explorers["greedy"] = constant(0.0)
    chosen: dict[str, tuple[Callable[[], Learner], Callable, Callable]] = {}
    for told, learner in learners.items():
        chosen["Thompson" + told] = learner, by_draw, constant(0.0)
        chosen |= {name + told: (learner, by_mean, epsilon) for name, epsilon in explorers.items()}
    chosen["Thompson, whole variance"] = learners[""], by_whole_draw, constant(0.0)
    chosen["Thompson, Moment"] = lambda: Moment(n_features, prior_variance=1.0), by_draw, constant(0.0)
    return chosen


def row(name: str, curves: np.ndarray, thompson: np.ndarray) -> str:
    tenth, end = curves[:, curves.shape[1] // 10 - 1], curves[:, -1]
    low, high = np.quantile(end, (0.1, 0.9))
    worse = "" if name == "Thompson" else f"{np.count_nonzero(end > thompson[:, -1])} of {len(end)}"
    means = (f"{each.mean():,.0f} ± {each.std(ddof=1) / np.sqrt(len(each)):,.0f}" for each in (tenth, end))
    return f"| {name} | {' | '.join(means)} | {low:,.0f} to {high:,.0f} | {worse} |"


def picture(path: Path, rounds: int, found: dict[str, np.ndarray], by_chance: float) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.6), dpi=120, layout="constrained")
    axes = figure.subplots()
    at = curve_rounds(rounds)
    axes.plot(at, at * by_chance, color="#8a8a8a", linestyle=":", linewidth=1.5)
    axes.annotate(
        "any item", (at[-1] * 0.55, at[-1] * 0.55 * by_chance), (-6, 4), textcoords="offset points", ha="right"
    )
    constants = [name for name in found if name.startswith("epsilon 0.")]
    shown = {
        "Thompson": "#1f6f8b",
        min(constants, key=lambda name: found[name][:, -1].mean()): "#d9662b",
        min((name for name in found if "/t" in name), key=lambda name: found[name][:, -1].mean()): "#c9a227",
        min((name for name in found if "greedy" in name), key=lambda name: found[name][:, -1].mean()): "#8a4f9e",
    }
    ends = []
    for name, colour in shown.items():
        low, high = np.quantile(found[name], (0.1, 0.9), axis=0)
        axes.fill_between(at, low, high, color=colour, alpha=0.13, linewidth=0)
        axes.plot(at, found[name].mean(axis=0), color=colour, linewidth=2.4)
        ends.append([found[name][:, -1].mean(), name, colour])
    ends.sort()
    for below, above in pairwise(ends):  # labels must not overlap
        above[0] = max(above[0], below[0] + 0.05 * max(found[name][:, -1].max() for name in shown))
    for height, name, colour in ends:
        axes.annotate(
            name, (at[-1], height), (6, 0), textcoords="offset points", va="center", color=colour, weight="bold"
        )
    axes.set_ylim(0, 1.05 * max(np.quantile(found[name][:, -1], 0.9) for name in shown))
    axes.set_xlim(0, at[-1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("visitors")
    axes.set_ylabel("clicks lost so far")
    seeds = len(found["Thompson"])
    axes.set_title(f"Mean of {seeds} runs, and where 80% of them lie", loc="left", weight="bold")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--curves", type=Path, help=".npz: keeps the runs, so that they are not run again")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()

    men = world(data_folder())
    each = (men.chance.max(axis=1) @ men.share, men.chance.mean(axis=1) @ men.share)
    lost = each[0] - each[1]
    fixed = (men.share @ men.chance).max()
    lines = [
        f"{len(men.share)} kinds of visitors, {men.n_items} items, {men.n_features:,} features. "
        f"Clicks per 1,000: any item {1000 * each[1]:.1f}, the best single item {1000 * fixed:.1f}, "
        f"each visitor's best {1000 * each[0]:.1f}.",
        f"The model on the log, by cross-validation: log loss {men.fit[0]:.4f}; one rate for all: {men.fit[1]:.4f}.",
        "",
        f"| policy | regret after {args.rounds // 10:,} | after {args.rounds:,} | 80% of runs | worse than Thompson |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    found = dict(np.load(args.curves)) if args.curves and args.curves.exists() else {}
    for name, (make, score, epsilon) in policies(men.n_features).items():
        if name not in found:
            runs = [play(men, make(), score, epsilon, args.rounds, seed) for seed in range(args.seeds)]
            found[name] = np.array(runs)
            if args.curves:
                np.savez(args.curves, **found)
        lines.append(row(name, found[name], found["Thompson"]))
        print(lines[-1], flush=True)
    lines.append(f"| any item | {args.rounds // 10 * lost:,.0f} | {args.rounds * lost:,.0f} | | |")
    print(lines[-1])
    if args.markdown:
        args.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if args.picture:
        picture(args.picture, args.rounds, found, lost)


if __name__ == "__main__":
    main()
