"""The report's figures, as plotly reads them: plain dictionaries.

Colours are names, such as "@blue" or "@blue/40" (40% of it): page.js puts in those of the light or the dark page. All
text of users is escaped, since plotly reads a little HTML.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayou.core.prediction import reach
from bayou.report import words
from bayou.report.facts import DRAWN, Facts, Run
from bayou.report.influence import Features

# A dot for each of so many predictions at most.
DOTS = 1500
BINS = 48
# A lane is drawn on its own if it is among so many heaviest; PALETTE has as many colours.
LANES = 9
PALETTE = [f"@c{k}" for k in range(LANES)]
OTHERS = "@grey"
# Probabilities at which a log-odds axis may have a tick.
TICKS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-5, 1 - 1e-6)
FINE_TICKS = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.35,
    0.5,
    0.65,
    0.8,
    0.9,
    0.95,
    0.98,
    0.99,
    0.995,
    0.998,
)


@dataclass(frozen=True)
class View:
    """One way to look at a figure."""

    name: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    how: str  # to read it
    views: list[View]
    height: int = 340
    wide: bool = False

    def plain(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "views": [
                {"name": v.name, "data": v.data, "layout": {**v.layout, "height": self.height}} for v in self.views
            ],
        }


def all_of(facts: Facts) -> list[Figure]:
    """Those that there is something to show in."""
    if not facts.result.examples:
        return []
    made: list[Figure | None] = [_loss(facts)]
    if facts.regress:
        made.append(_predicted(facts))
    else:
        made += [_reliability(facts), _scores(facts)]
    if facts.has_posterior:
        made += [_split_over_time(facts), _deviations(facts), _split_scatter(facts)]
    made += [_features(facts), _inclusion(facts), _lanes(facts)]
    return [figure for figure in made if figure is not None]


def compared(runs: Sequence[Run]) -> Figure:
    """The learning curves of several learners, the best first."""
    data, heights, last = [], [], 1
    for k, run in enumerate(runs):
        curve = run.result.curve
        shown = curve["example"] >= min(10, run.result.examples)
        name = f"{_escaped(run.name)} · {words.number(run.loss)}"
        # Nine colours, then the same again, dashed.
        dash = "solid" if k < len(PALETTE) else "dash"
        loss = curve[run.loss_name]
        data.append(_line(curve["example"][shown], loss[shown], name, PALETTE[k % len(PALETTE)], width=2.2, dash=dash))
        heights += list(loss[curve["example"] >= min(100, run.result.examples)])
        last = max(last, run.result.examples)
    room = 0.08 * (max(heights) - min(heights)) or 0.05
    layout = {
        "xaxis": _examples_axis(min(10, last), last),
        "yaxis": {
            "title": {"text": runs[0].loss_name.replace("_", " ")},
            "range": _plain([max(min(heights) - room, 0.0), max(heights) + room]),
        },
        "hovermode": "x unified",
    }
    how = "The mean loss of all predictions so far; all learners saw the same examples in the same order."
    return Figure("compared", "Loss of each", how, [View("", data, layout)], height=400, wide=True)


# --- how good ---------------------------------------------------------------------------------------------------------


def _loss(facts: Facts) -> Figure:
    curve = facts.result.curve
    example, loss = curve["example"], curve[facts.run.loss_name]
    last = facts.result.examples
    lately = example >= min(100, last)  # before, a point stands for a handful of examples
    if len(example) > 2 and 4 * (example[-1] - example[-2]) < example[-2] - example[-3]:
        lately[-1] = False  # and so does a last one that came soon
    data = [
        _line(example[lately], curve["window_loss"][lately], "lately", "@blue/55", width=1.2, mode="lines+markers"),
        _line(example, loss, "so far", "@blue", width=2.6),
    ]
    heights = list(loss[example >= min(50, last)]) + list(curve["window_loss"][lately])
    if facts.base_loss:
        heights.append(facts.base_loss)
        guess = "the mean of those before" if facts.regress else "always the share of positives"
        ends = np.array([example[0], last])
        data.append(_line(ends, np.full(2, facts.base_loss), guess, "@grey", dash="dash"))
    held = facts.run.loss_of(facts.run.held_out)
    if held is not None:
        heights.append(held)
        data.append(_line(np.array([example[0], last]), np.full(2, held), "held out", "@orange", dash="dot"))
    low, high = min(heights), max(heights)
    room = 0.08 * (high - low) or 0.05
    layout = {
        "xaxis": _examples_axis(min(10, last), last),
        "yaxis": {
            "title": {"text": facts.run.loss_name.replace("_", " ")},
            "range": _plain([max(low - room, 0.0), high + room]),
        },
        "hovermode": "x unified",
    }
    how = (
        "The mean loss of all predictions so far, and of those since the last point. Lower is better. Each example "
        "was predicted before it was learned from, so this is how it does on examples it has not seen."
    )
    return Figure("loss", "Loss over time", how, [View("", data, layout)], wide=True)


def _reliability(facts: Facts) -> Figure:
    groups = facts.result.reliability
    p, rate, mass = groups["probability"], groups["rate"], groups["mass"]
    # Weights count as so many examples of the average weight.
    n = mass * (facts.result.examples / mass.sum())
    low, high = _wilson(rate, n)
    top = min(1.0, 1.08 * max(float(p.max()), float(high.max())))
    custom = [
        [words.percent(a), words.percent(b), words.percent(c), words.percent(d), f"{e:,.0f}"]
        for a, b, c, d, e in zip(p, rate, low, high, n, strict=True)
    ]
    axis = {"range": _plain([0.0, top]), "tickformat": ".0%" if top > 0.1 else ".1%" if top > 0.01 else ".2%"}
    views = [View("plain", _groups(p, rate, low, high, custom, top), _against(axis))]
    least = 0.5 / n.sum()  # a rate of 0 has no log-odds
    p, rate, low, high = (logit(np.clip(column, least, 1.0 - least)) for column in (p, rate, low, high))
    ends = float(min(p.min(), rate.min())) - 0.5, float(max(p.max(), rate.max())) + 0.5
    axis = {"range": _plain(ends)} | _odds_ticks(*ends)
    views.append(View("log-odds", _groups(p, rate, low, high, custom, ends[1], ends[0]), _against(axis)))
    how = (
        "Predictions in groups of equal size, from low to high: what was predicted, and how often it happened. On "
        "the dashed line a probability means what it says. Bars: where the true rate lies with 95% certainty."
    )
    return Figure("reliability", "Do the probabilities hold?", how, views)


def _against(axis: dict[str, Any]) -> dict[str, Any]:
    return {
        "xaxis": axis | {"title": {"text": "predicted"}},
        "yaxis": axis | {"title": {"text": "happened"}},
        "showlegend": False,
        "hovermode": "closest",
    }


def _groups(
    p: np.ndarray,
    rate: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    custom: list[Any],
    top: float,
    bottom: float = 0.0,
) -> list[dict[str, Any]]:
    ends = np.array([bottom, top])
    return [
        _line(ends, ends, "perfect", "@grey", dash="dash") | {"hoverinfo": "skip", "hovertemplate": None},
        {
            "type": "scatter",
            "x": _plain(p),
            "y": _plain(rate),
            "mode": "markers",
            "name": "predictions",
            "cliponaxis": False,
            "marker": {"color": "@blue", "size": 8},
            "error_y": {
                "type": "data",
                "array": _plain(high - rate),
                "arrayminus": _plain(rate - low),
                "color": "@blue/55",
                "thickness": 1.6,
                "width": 0,
            },
            "customdata": custom,
            "hovertemplate": "predicted %{customdata[0]}<br>happened %{customdata[1]} (%{customdata[2]} to "
            "%{customdata[3]})<br>%{customdata[4]} examples<extra></extra>",
        },
    ]


def _wilson(rate: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95% interval of a rate seen in n trials."""
    z = reach(0.95)
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return np.minimum(np.clip(middle - half, 0.0, 1.0), rate), np.maximum(np.clip(middle + half, 0.0, 1.0), rate)


def _predicted(facts: Facts) -> Figure | None:
    """Of a regressor: what was predicted, and what came."""
    sample = facts.late[_some(facts)]
    if not len(sample):
        return None
    ends = np.quantile(np.concatenate([sample.expected, sample.label]), [0.0, 1.0])
    dots = {
        "type": "scatter",
        "x": _plain(sample.expected),
        "y": _plain(sample.label),
        "mode": "markers",
        "name": "predictions",
        "marker": {"color": "@blue/55", "size": 5},
        "customdata": [
            words.row_name(sample.line[k], sample.row[k]) + _tag(sample.tags[k]) for k in range(len(sample))
        ],
        "hovertemplate": "%{customdata}<br>predicted %{x:.4g}, was %{y:.4g}<extra></extra>",
    }
    data = [_line(ends, ends, "perfect", "@grey", dash="dash") | {"hoverinfo": "skip", "hovertemplate": None}, dots]
    layout = {
        "xaxis": {"title": {"text": "predicted"}},
        "yaxis": {"title": {"text": "was"}},
        "showlegend": False,
        "hovermode": "closest",
    }
    how = "One dot for each of some predictions of the second half of the run. On the dashed line they were right."
    return Figure("predicted", "Predicted and actual numbers", how, [View("", data, layout)], wide=True)


def _scores(facts: Facts) -> Figure | None:
    sample = facts.sample
    if not len(sample):
        return None
    odds = logit(np.clip(sample.expected, 1e-9, 1 - 1e-9))
    edges = _edges(odds)
    data = []
    for name, chosen, colour in (
        ("negatives", sample.label == 0, "@orange"),
        ("positives", sample.label > 0, "@blue"),
    ):
        if chosen.any():
            data.append(_bars(edges, odds[chosen], sample.mass[chosen], name, colour, expit))
    layout = {
        "barmode": "overlay",
        "bargap": 0.0,
        "xaxis": {"title": {"text": "predicted probability, on a log-odds scale"}} | _odds_ticks(edges[0], edges[-1]),
        "yaxis": {"title": {"text": "share of its label"}, "tickformat": ".0%"},
    }
    how = (
        "Which probabilities were given to examples that turned out positive, and which to the negative ones. The "
        "further the two hills stand apart, the better they are told apart."
    )
    return Figure("scores", "Predictions by label", how, [View("", data, layout)])


# --- how sure ---------------------------------------------------------------------------------------------------------


def _deviations(facts: Facts) -> Figure:
    sample = facts.sample
    sd = np.sqrt(sample.variance)
    edges = _edges(sd, low=0.0, most=0.985)
    rows = facts.run.recorder.rows
    parts = [
        ("first tenth of the run", sample.row < rows / 10, "@orange"),
        ("second half", sample.row >= rows / 2, "@blue"),
    ]
    data = [_bars(edges, sd[c], sample.mass[c], name, colour) for name, c, colour in parts if c.any()]
    logistic = facts.link == "logistic" and not facts.regress
    of = "what is expected" if facts.regress else "the score" + " (log-odds)" * logistic
    layout = {
        "barmode": "overlay",
        "bargap": 0.0,
        "xaxis": {"title": {"text": f"standard deviation of {of}"}},
        "yaxis": {"title": {"text": "share of predictions"}, "tickformat": ".0%"},
    }
    how = "How unsure it was of its predictions, early and late in the run. The last bar holds all that lies beyond."
    if logistic:
        how += " An sd of 1 means that odds of 1 : 1 may as well be 1 : 7 or 7 : 1."
    return Figure("deviations", "How unsure it is", how, [View("", data, layout)], wide=facts.regress)


def _split_over_time(facts: Facts) -> Figure:
    time = facts.over_time
    example = time["example"]
    stacked = {"type": "scatter", "x": _plain(example), "mode": "lines", "stackgroup": "one"}
    number = "%{y:.4g}"
    data = [
        stacked
        | {
            "y": _plain(time["aleatoric"]),
            "name": "chance (aleatoric)",
            "line": {"width": 0.5, "color": "@blue"},
            "fillcolor": "@blue/35",
            "hovertemplate": number,
        },
        stacked
        | {
            "y": _plain(time["epistemic"]),
            "name": "want of examples (epistemic)",
            "line": {"width": 0.5, "color": "@orange"},
            "fillcolor": "@orange/60",
            "hovertemplate": number,
        },
        _line(example, time["loss"], "loss that was met", "@ink", width=1.6, dash="dot"),
    ]
    # The first few examples may be off by any number.
    total, settled = time["aleatoric"] + time["epistemic"], example >= min(30.0, example[-1])
    top = 1.1 * max(float(total[settled].max()), float(np.median(time["loss"][settled])))
    layout = {
        "xaxis": _examples_axis(float(example[0]), float(example[-1])),
        "yaxis": {
            "title": {"text": "squared loss" if facts.regress else "nats per example"},
            "range": _plain([0.0, top or 1.0]),
        },
        "hovermode": "x unified",
    }
    how = (
        "The loss it expected, in two parts. Chance stays however many such examples come; what is for want of "
        "examples goes away as they do. Where the dotted loss lies above both, it was too sure."
    )
    return Figure("split", "What it does not know, over time", how, [View("", data, layout)], wide=True)


def _some(facts: Facts) -> np.ndarray:
    """Which rows of the second half get a dot."""
    mass = facts.late.mass
    if len(mass) <= DOTS:
        return np.arange(len(mass))
    return np.sort(np.random.default_rng(0).choice(len(mass), DOTS, replace=False, p=mass / mass.sum()))


def _split_scatter(facts: Facts) -> Figure | None:
    if facts.regress:
        return None  # noise is nearly the same for all
    keep = _some(facts)
    aleatoric, epistemic = (part[keep] for part in facts.late_split)
    sample = facts.late[keep]
    low, high = facts.interval(sample)
    data = []
    for name, label, colour in (("negative", 0, "@orange"), ("positive", 1, "@blue")):
        chosen = sample.label == label
        if not chosen.any():
            continue
        custom = [
            [
                words.row_name(sample.line[k], sample.row[k]) + _tag(sample.tags[k]),
                words.percent(sample.expected[k]),
                f"{words.percent(low[k])} to {words.percent(high[k])}",
            ]
            for k in np.flatnonzero(chosen)
        ]
        data.append(
            {
                "type": "scatter",
                "x": _plain(aleatoric[chosen]),
                "y": _plain(epistemic[chosen]),
                "mode": "markers",
                "name": name,
                "marker": {"color": f"{colour}/55", "size": 5},
                "customdata": custom,
                "hovertemplate": "%{customdata[0]}: %{customdata[1]}<br>95%: %{customdata[2]}<br>"
                "aleatoric %{x:.3f}, epistemic %{y:.3f}",
            }
        )
    layout = {
        "xaxis": {"title": {"text": "chance in the label (aleatoric), nats"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "want of examples (epistemic), nats"}, "rangemode": "tozero"},
        "hovermode": "closest",
    }
    how = (
        "One dot for each of some predictions of the second half. Far right: nearly a coin toss, and known to be one. "
        "High up: something in the example is new; labels for such examples teach the most."
    )
    return Figure("dots", "Coin tosses and new things", how, [View("", data, layout)])


def _tag(tag: str) -> str:
    return f", {_escaped(words.shortened(tag, 40))}" if tag else ""


# --- which features ---------------------------------------------------------------------------------------------------


def _features(facts: Facts) -> Figure | None:
    influence = facts.influence
    orders = [("carry the most", facts.top), ("largest", influence.first(DRAWN, np.abs(influence.mean)))]
    if influence.surety is not None:
        orders.append(("surest", influence.first(DRAWN, influence.surety)))
    views = [_weights_view(name, features) for name, features in orders if len(features)]
    if not views:
        return None
    intervals = " with 95% intervals" if influence.sd is not None else ""
    pull = "make the number larger" if facts.regress else "make a positive more likely"
    how = (
        f"Weights{intervals}. Right of 0 they {pull}, left of it the opposite. “Carry the most”: by the part "
        " of the scores' spread that goes back to a feature; a large weight of a feature that hardly ever comes "
        "carries little."
    )
    if not facts.learner.record.linear:
        how += f" The {facts.learner.name}'s score is not just their sum: they are a linear picture of it."
    height = 110 + 22 * max(len(view.data[0]["y"]) for view in views)
    return Figure("features", "Features", how, views, height=height, wide=True)


def _weights_view(name: str, features: Features) -> View:
    n = len(features)
    sd = features.sd
    custom = [
        [
            _escaped(words.shortened(features.name[k], 80)),
            "" if sd is None else f" ± {sd[k]:.3g} (sd)",
            words.percent(features.seen[k]),
            words.percent(features.share[k]),
        ]
        for k in range(n)
    ]
    trace = {
        "type": "scatter",
        "x": _plain(features.mean),
        "y": list(range(n)),
        "mode": "markers",
        "marker": {"color": ["@blue" if mean >= 0 else "@orange" for mean in features.mean], "size": 8},
        "customdata": custom,
        "hovertemplate": "<b>%{customdata[0]}</b><br>weight %{x:+.3g}%{customdata[1]}<br>in %{customdata[2]} of the "
        "examples<br>carries %{customdata[3]}<extra></extra>",
    }
    if sd is not None:
        trace["error_x"] = {
            "type": "data",
            "array": _plain(reach(0.95) * sd),
            "color": "@ink/45",
            "thickness": 1.6,
            "width": 0,
        }
    return View(name, [trace], _named_rows(features.name) | {"xaxis": {"title": {"text": "weight"}, "zeroline": True}})


def _named_rows(names: list[str]) -> dict[str, Any]:
    return {
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": [_escaped(words.shortened(name, 42)) for name in names],
            "range": [len(names) - 0.4, -0.6],
            "automargin": True,
            "fixedrange": True,
            "zeroline": False,
        },
        "hovermode": "closest",
        "showlegend": False,
    }


def _inclusion(facts: Facts) -> Figure | None:
    influence = facts.influence
    if influence.inclusion is None or not len(influence.inclusion):
        return None
    top = influence.first(DRAWN, influence.inclusion)
    axis = {"title": {"text": "probability that the feature is needed"}, "range": [-0.02, 1.02], "tickformat": ".0%"}
    layout = {"xaxis": {"title": {"text": "weight"}, "zeroline": True}, "yaxis": axis, "showlegend": False}
    views = [View("all", [_needed(influence.first(DOTS, influence.inclusion))], layout | {"hovermode": "closest"})]
    if len(top):
        dots = _needed(top)
        dots["x"], dots["y"] = dots["y"], list(range(len(top)))
        dots["hovertemplate"] = dots["hovertemplate"].replace("%{y", "%{x")
        views.append(View("by name", [dots], _named_rows(top.name) | {"xaxis": axis}))
    expected = float(influence.inclusion.sum())
    how = (
        "How probable it is that a feature is needed at all, beside its weight. Of "
        f"{words.count(len(influence.inclusion), 'feature')} that were seen, {expected:,.0f} are expected to be."
    )
    height = 110 + 22 * max(len(top), 8)
    return Figure("inclusion", "Which features are needed", how, views, height=height, wide=True)


def _needed(features: Features) -> dict[str, Any]:
    """A dot for each feature: its weight, and the probability that it is needed."""
    return {
        "type": "scatter",
        "x": _plain(features.mean),
        "y": _plain(features.inclusion),
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"color": "@blue/65", "size": 8},
        "customdata": [
            [_escaped(words.shortened(name, 80)), words.signed(mean)]
            for name, mean in zip(features.name, features.mean, strict=True)
        ],
        "hovertemplate": "<b>%{customdata[0]}</b><br>needed with probability %{y:.3f}<br>weight %{customdata[1]}"
        "<extra></extra>",
    }


# --- the lanes of a bank ----------------------------------------------------------------------------------------------


def _lanes(facts: Facts) -> Figure | None:
    looks = list(facts.run.recorder.looks)
    if facts.parts and (not looks or looks[-1][0] < facts.run.recorder.examples):
        looks.append((facts.run.recorder.examples, facts.learner.parts()))
    if not facts.parts or not looks:
        return None
    example = np.array([examples for examples, _ in looks])
    names = list(dict.fromkeys(part["name"] for _, parts in looks for part in parts if "weight" in part))
    weight = np.array([_column(parts, "weight", names, 0.0) for _, parts in looks])
    loss = np.array([_column(parts, "loss", names, math.nan) for _, parts in looks])
    order = sorted(range(len(names)), key=lambda k: -float(weight[:, k].max()))
    shown = sorted(order[:LANES])
    rest = sorted(order[LANES:])
    axis = _examples_axis(float(example[0]), float(example[-1]))
    views = [
        View(
            "weight",
            _lane_areas(example, weight, names, shown, rest),
            {
                "xaxis": axis,
                "yaxis": {"title": {"text": "weight in the mixture"}, "range": [0, 1], "tickformat": ".0%"},
                "hovermode": "x unified",
            },
        )
    ]
    whole = [next((p["loss"] for p in parts if "share" in p), math.nan) for _, parts in looks]
    if np.isfinite(whole).all():
        views.append(_lane_losses(example, loss - np.array(whole)[:, None], names, shown, axis))
    how = (
        "The lanes are learners with different priors, side by side. Weight: how far each is believed, by how well it "
        "has predicted. Loss: its own mean loss so far above that of the whole; above 0 it does worse."
    )
    return Figure("lanes", f"Inside the {facts.learner.name}", how, views, height=400, wide=True)


def _column(parts: list[dict[str, Any]], what: str, names: list[str], absent: float) -> list[float]:
    there = {part["name"]: part[what] for part in parts if "weight" in part and what in part}
    return [float(there.get(name, absent)) for name in names]


def _lane_areas(
    example: np.ndarray, weight: np.ndarray, names: list[str], shown: list[int], rest: list[int]
) -> list[dict[str, Any]]:
    bands = [(names[k], weight[:, k], PALETTE[place]) for place, k in enumerate(shown)]
    if rest:
        bands.append((f"{len(rest)} others", weight[:, rest].sum(axis=1), OTHERS))
    return [
        {
            "type": "scatter",
            "x": _plain(example),
            "y": _plain(height),
            "name": _escaped(name),
            "mode": "lines",
            "stackgroup": "one",
            "line": {"width": 0.6, "color": colour},
            "fillcolor": f"{colour}/65",
            "hovertemplate": "%{y:.1%}",
        }
        for name, height, colour in bands
    ]


def _lane_losses(
    example: np.ndarray, above: np.ndarray, names: list[str], shown: list[int], axis: dict[str, Any]
) -> View:
    data = [
        _line(example, above[:, k], _escaped(names[k]), PALETTE[place], width=1.8) | {"hovertemplate": "%{y:+.4f}"}
        for place, k in enumerate(shown)
    ]
    settled = above[example >= example[-1] / 30][:, shown]
    settled = settled[np.isfinite(settled)]
    low, high = (float(settled.min()), float(settled.max())) if settled.size else (0.0, 1.0)
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.08 * (high - low) or 0.01
    layout = {
        "xaxis": axis,
        "yaxis": {
            "title": {"text": "loss above the whole"},
            "range": _plain([low - room, high + room]),
            "zeroline": True,
        },
        "hovermode": "x unified",
    }
    return View("loss", data, layout)


# --- parts of figures -------------------------------------------------------------------------------------------------


def _line(
    x: np.ndarray, y: np.ndarray, name: str, colour: str, width: float = 1.5, dash: str = "solid", mode: str = "lines"
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "x": _plain(x),
        "y": _plain(y),
        "name": name,
        "mode": mode if len(x) > 1 else "markers",
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 4},
        "hovertemplate": "%{y:.4f}",
    }


def _examples_axis(first: float, last: float) -> dict[str, Any]:
    """Examples seen, on a logarithmic axis that has some width also for a run of one example."""
    room = 0.02 * math.log10(max(last / first, 2.0))
    return {
        "type": "log",
        "title": {"text": "examples seen"},
        "range": _plain([math.log10(first) - room, math.log10(last) + room]),
        "dtick": 1,
        "hoverformat": ",d",
        "tickformat": "~s",
    }


def _odds_ticks(low: float, high: float) -> dict[str, Any]:
    """Of an axis of log-odds, with probabilities for people."""
    ticks = [p for p in TICKS if low <= logit(p) <= high]
    if len(ticks) < 4:
        ticks = [p for p in FINE_TICKS if low <= logit(p) <= high]
    return {"tickvals": _plain(logit(np.array(ticks))), "ticktext": [f"{100 * p:.10g}%" for p in ticks], "tickangle": 0}


def _edges(values: np.ndarray, low: float | None = None, most: float = 0.998) -> np.ndarray:
    """Bins for nearly all of some values; the last ones take what lies beyond."""
    first, last = np.quantile(values, [1.0 - most, most])
    first = float(first) if low is None else low
    if last - first < 1e-6:
        first, last = first - 0.5, last + 0.5
    return np.linspace(first, last, BINS + 1)


def _bars(
    edges: np.ndarray, values: np.ndarray, mass: np.ndarray, name: str, colour: str, shown: Any = None
) -> dict[str, Any]:
    """A histogram of some values, as shares of their mass."""
    heights = np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=mass)[0] / mass.sum()
    middle = (edges[1:] + edges[:-1]) / 2
    spans = [
        (words.percent(a), words.percent(b)) if shown is expit else (f"{a:.3g}", f"{b:.3g}")
        for a, b in zip(*((end if shown is None else shown(end)) for end in (edges[:-1], edges[1:])), strict=True)
    ]
    return {
        "type": "bar",
        "x": _plain(middle),
        "y": _plain(heights),
        "width": _plain(np.diff(edges)),
        "name": name,
        "marker": {"color": f"{colour}/55", "line": {"width": 0}},
        "customdata": [f"{a} to {b}" for a, b in spans],
        "hovertemplate": "%{customdata}: %{y:.1%}",
    }


def _plain(values: Any) -> list[float | None]:
    """Numbers as JSON can say them, five digits each: more than a screen shows."""
    return [
        float(f"{value:.5g}") if math.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()
    ]


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
