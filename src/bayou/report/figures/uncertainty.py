"""Figures of uncertainty: chance (aleatoric) and lack of examples (epistemic)."""

from __future__ import annotations

import numpy as np

from bayou.core import links
from bayou.report import sentences
from bayou.report.facts import RunFacts
from bayou.report.figures import elements as draw
from bayou.report.figures.elements import Figure, View
from bayou.report.recorder import TopClass

HOVER = "%{customdata[0]}: %{customdata[1]}<br>95%: %{customdata[2]}<br>aleatoric %{x:.3f}, epistemic %{y:.3f}"


def split_over_time(facts: RunFacts) -> Figure:
    time = facts.over_time
    example = time["example"]
    data = [
        draw.area(example, time["aleatoric"], "chance (aleatoric)", "@blue", 35, "%{y:.4g}", width=0.5),
        draw.area(example, time["epistemic"], "lack of examples (epistemic)", "@orange", 60, "%{y:.4g}", width=0.5),
        draw.line(example, time["loss"], "actual loss", "@ink", width=1.6, dash="dot"),
    ]
    # The losses of the first few examples may be of any size.
    total, settled = time["aleatoric"] + time["epistemic"], example >= min(30.0, example[-1])
    top = 1.1 * max(float(total[settled].max()), float(np.median(time["loss"][settled])))
    y = draw.axis("squared loss" if facts.is_regression else "nats per example", range=draw.numbers([0.0, top or 1.0]))
    views = [View("", data, draw.layout(draw.examples_axis(float(example[0]), float(example[-1])), y, "x unified"))]
    return Figure("split", "What it does not know, over time", views, wide=True)


def deviations(facts: RunFacts) -> Figure | None:
    sample = facts.sample[~np.isnan(facts.sample.variance)]
    if not len(sample):
        return None
    sd = np.sqrt(sample.variance)
    edges = draw.bin_edges(sd, low=0.0, content=0.985)
    rows = facts.run.recorder.rows
    periods = [
        ("first tenth of the run", sample.row < rows / 10, "@orange"),
        ("second half", sample.row >= rows / 2, "@blue"),
    ]
    data = [draw.bars(edges, sd[c], sample.stream_weight[c], name, colour) for name, c, colour in periods if c.any()]
    logistic = links.find(facts.link).is_log_odds and not facts.is_regression
    of = "the most probable class's log-odds" if facts.is_multiclass else "the score" + " (log-odds)" * logistic
    of = "the expected number" if facts.is_regression else of
    y = draw.axis("share of predictions", tickformat=".0%")
    views = [View("", data, draw.histogram_layout(draw.axis(f"standard deviation of {of}"), y))]
    note = " An sd of 1 means that odds of 1 : 1 may just as well be 1 : 7 or 7 : 1." if logistic else ""
    return Figure("deviations", "How unsure it is", views, wide=facts.is_regression, note=note)


def split_scatter(facts: RunFacts) -> Figure | None:
    if facts.is_regression:
        return None  # noise is nearly the same for all
    keep = draw.dotted(facts)
    aleatoric, epistemic = (uncertainty[keep] for uncertainty in facts.late_split)
    sample = facts.second_half[keep]
    low, high = facts.interval(sample)
    data = []
    series = [("negative", sample.label == 0, "@orange"), ("positive", sample.label == 1, "@blue")]
    if facts.is_multiclass:
        right = TopClass.of(sample.guess).label == sample.label
        series = [("right", right, "@blue"), ("wrong", ~right, "@orange")]
    for name, mask, colour in series:
        if not mask.any():
            continue
        custom = [
            [
                draw.row_label(sample, k),
                draw.escaped(sentences.format_prediction(facts, sample, k)),
                f"{sentences.percent(low[k])} to {sentences.percent(high[k])}",
            ]
            for k in np.flatnonzero(mask).tolist()
        ]
        marker = {"color": f"{colour}/55", "size": 5}
        data.append(draw.dots(aleatoric[mask], epistemic[mask], marker, custom, HOVER, name=name))
    x = draw.axis("chance in the label (aleatoric), nats", rangemode="tozero")
    y = draw.axis("lack of examples (epistemic), nats", rangemode="tozero")
    return Figure("dots", "Coin tosses and new things", [View("", data, draw.layout(x, y))])
