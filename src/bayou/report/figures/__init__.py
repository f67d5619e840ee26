"""Figures of the report, as plain dictionaries for plotly.

Colors are names, such as "@blue" or "@blue/40" (40% opaque); page.js replaces them by those of the light or dark
theme. Text that comes from users is escaped, since plotly interprets some HTML.
"""

from __future__ import annotations

from bayou.report.facts import RunFacts
from bayou.report.figures.classes import class_reliability, confusion
from bayou.report.figures.elements import Figure, View
from bayou.report.figures.features import columns, features, inclusion, pairs
from bayou.report.figures.lanes import lanes
from bayou.report.figures.loss import compared, loss
from bayou.report.figures.numbers import coverage, predicted, residuals
from bayou.report.figures.predictions import reliability, scores
from bayou.report.figures.uncertainty import deviations, split_over_time, split_scatter

__all__ = ["Figure", "View", "all_of", "compared"]


def all_of(facts: RunFacts) -> list[Figure]:
    """Return the figures that have something to show."""
    if not facts.result.examples:
        return []
    made: list[Figure | None] = [loss(facts)]
    if facts.is_regression:
        made += [predicted(facts), residuals(facts), coverage(facts)]
    elif facts.is_multiclass:
        made += [confusion(facts), reliability(facts), class_reliability(facts)]
    else:
        made += [reliability(facts), scores(facts)]
    if facts.has_posterior:
        made += [split_over_time(facts), deviations(facts), split_scatter(facts)]
    made += [columns(facts), features(facts), pairs(facts), inclusion(facts), lanes(facts)]
    return [figure for figure in made if figure is not None]
