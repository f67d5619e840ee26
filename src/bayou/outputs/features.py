"""Feature strengths: the weights of a model in readable form, and the order in which they are listed.

Weights of a table are known only up to a constant for each column: where every row has one value of `origin`, adding 1
to the weights of all origins and taking 1 from the intercept changes no score. So for every column that gives each row
exactly one feature, the mean weight over the rows moves to the intercept:

    w_i -= sum_j u_j w_j        intercept += sum_j u_j w_j        u_j the fraction of rows with value j, sum_j u_j = 1

Scores of rows with seen values do not change. Other features (words, numbers, features of svmlight) keep their weights,
and the intercept shown is the score of the mean row: sum_i w_i E[x_i] is added to it. Variances are those of the
contrasts, for each component of a mixture (`WeightView`), with weights independent within a component:

    Var(w_i - sum_j u_j w_j) = (1 - u_i)^2 v_i + sum_{j != i} u_j^2 v_j

**The contribution of a feature** is the variance over the rows of w x, its part of the score (0 where it is absent): a
large weight of a rare feature contributes little, and so does that of a feature whose value is always the same. Shares
are fractions of the sum over features; correlations between features are ignored. The spread of a column is the
standard deviation over the rows of its part of the score. A number's two features, bin and value, or one of them and a
slope, are added up first (a slope by its mean in a bin). Words of a text count as independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.prediction import JointCovariance, WeightView
from bayou.recipe.feature_counts import FeatureMoments
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.table.binning import SLOPE
from bayou.sources.table.dates import names_of_parts
from bayou.sources.table.encoding_arrays import names_of_bins, raw_name

# A column gives each row one feature if their frequencies add up to 1 within this.
COMPLETE = 0.01
# The most features of a column to list, and the least |mean| / sd of their weights.
MAX_TOP_FEATURES, MIN_Z = 5, 1.64
AND = " & "


class Family(NamedTuple):
    """A column's values, its bins, or a cross of columns. If complete, every row has one of these features."""

    column: str
    kind: str  # "value", "bin", "slope" or a part of a date; for a cross, the kinds of its columns
    complete: bool


@dataclass(frozen=True)
class ColumnStrength:
    """Effect of a column on the score; `top_features` are the rows of its strongest features, largest first.

    >>> ColumnStrength("month", spread=0.5, features=12, top_features=np.array([3, 7])).spread
    0.5
    """

    name: str
    spread: float  # standard deviation over the rows of its part of the score
    features: int
    top_features: np.ndarray


@dataclass(frozen=True)
class FeatureStrengths:
    """The weights of some features, one row per feature, and the intercept.

    Attributes:
        sd: None without a posterior; `intercept_sd` is NaN then.
        inclusion: probability that each feature is needed; None if the learner has none.
        moments: frequencies and moments of the features; None if they were not counted: then nothing is centered.
        family: index of each feature's family in `families`, -1 for none.

    >>> import pyarrow as pa
    >>> import bayou
    >>> flights = pa.table({"origin": ["EWR", "JFK"] * 500, "late": [1, 0, 0, 0] * 250})
    >>> shown = feature_strengths(bayou.train(flights, label="late").learner)
    >>> [name for name, mean in zip(shown.names, shown.mean) if mean > 0]
    ['origin=EWR']
    >>> bool(abs(shown.mean.sum()) < 1e-6), [column.name for column in shown.columns()]
    (True, ['origin'])
    """

    features: np.ndarray
    names: list[str | None]
    mean: np.ndarray
    sd: np.ndarray | None
    intercept: float
    intercept_sd: float
    moments: FeatureMoments | None
    family: np.ndarray
    families: list[Family]
    recipe: Recipe | None
    inclusion: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.features)

    def name(self, row: int, unnamed: str = "") -> str:
        """Return the name of a feature, or its index with the prefix `unnamed` if it has none."""
        name = self.names[row]
        return f"{unnamed}{self.features[row]}" if name is None else name

    @property
    def centred_columns(self) -> list[str]:
        """Columns whose weights are centered."""
        return list(dict.fromkeys(family.column for family in self.families if family.complete))

    @property
    def seen(self) -> np.ndarray:
        """Fraction of the rows that each feature occurred in; 0 if that was not counted."""
        return np.zeros(len(self)) if self.moments is None else self.moments.seen

    @property
    def contribution_variance(self) -> np.ndarray:
        """Variance over the rows of each feature's part of the score; those of a column's values add up."""
        if self.moments is None:
            return np.zeros(len(self))
        complete = _of_complete(self.family, self.families)
        return self.mean**2 * np.where(complete, self.moments.seen, self.moments.square - self.moments.mean**2)

    @cached_property
    def share(self) -> np.ndarray:
        """Contribution variance of each feature as a fraction of their sum."""
        variance = self.contribution_variance
        total = variance.sum()
        return variance / total if total > 0 else np.zeros(len(self))

    def key(self, by: str) -> np.ndarray | None:
        """Return the sort keys ("mean", "z", "inclusion", "share"), largest first in lists; None if unavailable."""
        if by == "mean":
            return np.abs(self.mean)
        if by == "z":
            return None if self.sd is None else z_scores(self.mean, self.sd)
        return self.inclusion if by == "inclusion" else self.share

    def top(self, n: int, by: str = "mean") -> np.ndarray:
        """Return the rows of the n features with the largest keys above 0, the largest first."""
        key = self.key(by)
        return np.empty(0, np.int64) if key is None else top_positive(key, n)

    def columns(self) -> list[ColumnStrength]:
        """Return the columns by spread, largest first; none if features were not counted or data have no columns."""
        if self.moments is None:
            return []
        variances, strengths = self.contribution_variance, []
        for name in dict.fromkeys(family.column for family in self.families):
            own = [k for k, family in enumerate(self.families) if family.column == name]
            rows = np.flatnonzero(np.isin(self.family, own))
            certain = rows if self.sd is None else rows[np.abs(self.mean[rows]) > MIN_Z * self.sd[rows]]
            top_features = certain[np.argsort(-variances[certain], kind="stable")[:MAX_TOP_FEATURES]]
            variance = self._joined(name, own)
            variance = float(variances[rows].sum()) if variance is None else variance
            strengths.append(ColumnStrength(name, float(np.sqrt(max(variance, 0.0))), len(rows), top_features))
        return sorted(strengths, key=lambda column: -column.spread)

    def _joined(self, name: str, own: list[int]) -> float | None:
        """Return the variance of a number's bin, value and slope together; None for other columns."""
        column = _columns(self.recipe).get(name)
        if column is None or self.moments is None or not (column.knots or column.role == "whole"):
            return None
        values, bins, slopes = (
            np.flatnonzero(np.isin(self.family, [k for k in own if self.families[k].kind == kind]))
            for kind in ("value", "bin", "slope")
        )
        # Bins, of which a missing number is the last.
        texts = [] if column.role == "values" else names_of_bins(column)
        position = {text: k for k, text in enumerate(texts)}
        bin_of_feature = np.array([position.get(str(self.names[i]), len(texts)) for i in bins.tolist()], np.int64)
        bin_means, rest = np.zeros(len(texts) + 1), self.moments.seen[bins].copy()
        bin_means[bin_of_feature] = self.mean[bins]
        # Values: a row has its bin's feature, too. The rest of a bin's rows has no feature for its value.
        numbers = np.array([float(str(self.names[i])[len(name) + 1 :] or "nan") for i in values.tolist()])
        bin_of_value = np.searchsorted(column.edges, numbers, side="right")
        for k in range(len(texts)):
            rest[bin_of_feature == k] -= self.moments.seen[values[bin_of_value == k]].sum()
        shares = np.append(self.moments.seen[values], np.maximum(rest, 0.0))
        parts = np.append(self.mean[values] + bin_means[bin_of_value], self.mean[bins])
        if len(slopes):
            reach = column.knots or column.edges or column.raw_knots
            ends = np.array([reach[0], *column.edges, reach[-1]])
            middles = np.append((ends[1:] + ends[:-1]) / 2, np.nan)[bin_of_feature]
            x = np.append(numbers, middles)
        for slope in slopes.tolist():
            raw = self.names[slope] == raw_name(column)
            level = np.interp(x, *(column.raw_knots, column.raw_levels) if raw else (column.knots, column.levels))
            parts += float(self.mean[slope]) * np.where(np.isnan(x), 0.0, SLOPE * (2.0 * level - 1.0))
        return _variance(parts, shares)


def z_scores(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Return |mean| / sd of each weight; 0 where the sd is 0."""
    return np.divide(np.abs(mean), sd, out=np.zeros_like(mean), where=sd > 0)


def top_rows(key: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n largest values in descending order, ties in order of position.

    Only the candidates are sorted, not the whole array.
    """
    last, key = len(key) - n, np.where(np.isnan(key), -np.inf, key)
    candidates = np.flatnonzero(key >= np.partition(key, last)[last]) if 0 < last < len(key) else np.arange(len(key))
    return candidates[np.argsort(-key[candidates], kind="stable")[:n]]


def top_positive(key: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n largest values above 0, in descending order."""
    rows = top_rows(key, n)
    return rows[key[rows] > 0]


def _variance(parts: np.ndarray, shares: np.ndarray) -> float:
    if not shares.sum():
        return 0.0
    centre = np.average(parts, weights=shares)
    return float(np.average((parts - centre) ** 2, weights=shares))


def feature_strengths(learner: Learner, view: str = "model", extras: Extras | None = None) -> FeatureStrengths:
    """Return the strengths of the features that a learner has seen; recipe, names and uses are those of `extras`.

    `view` is "model", or for a bank "associated": see `Learner.weight_view`.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=4)
    >>> p = learner.learn(Batch.from_rows([{2: 1.0}], labels=[1]))
    >>> shown = feature_strengths(learner)  # nothing is known of its rows: weights are as they are
    >>> shown.name(0), bool(shown.mean[0] == learner.mean[2])
    ('2', True)
    """
    seen = seen_features(learner, extras)
    strengths = strengths_of(seen, learner.weight_view(seen.features, view, seen.squares))
    inclusion = getattr(learner, "inclusion", None)
    if inclusion is None:
        return strengths
    return replace(strengths, inclusion=np.asarray(inclusion, np.float64)[seen.features])


class SeenFeatures(NamedTuple):
    """The features that a learner has seen, regardless of their weights: names, counts and families."""

    features: np.ndarray
    names: list[str | None]
    moments: FeatureMoments | None
    family: np.ndarray
    families: list[tuple[str, str]]  # column and kind
    recipe: Recipe | None

    @property
    def squares(self) -> np.ndarray | None:
        """Mean squares of the feature values over the rows; None if not counted."""
        return None if self.moments is None else self.moments.square


def seen_features(learner: Learner, extras: Extras | None = None) -> SeenFeatures:
    """Return the features that a learner has seen; recipe, names and uses are those of `extras`, by default its own."""
    extras = learner.extras if extras is None else extras
    recipe, names, uses = extras.recipe, extras.names, extras.uses
    features = learner.touched
    known_names: list[str | None] = [None] * len(features) if names is None else list(names.name_of(features))
    moments = None if uses is None or not uses.counted else uses.counts_of(features)
    return SeenFeatures(features, known_names, moments, *_families(known_names, recipe), recipe)


def strengths_of(frame: SeenFeatures, reading: WeightView, zeros: bool = True) -> FeatureStrengths:
    """Return the strengths of a view of the weights. With `zeros`, weights of exactly 0 are deliberate and stay 0."""
    moments, family = frame.moments, frame.family
    families = _completed(frame, reading.mean if zeros else None)
    shares = np.zeros(len(frame.features)) if moments is None else moments.mean
    centred = np.where(_of_complete(family, families), family, -1)
    alone = not any(one.complete for one in families)  # nothing to center

    def shown(mean: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        centred_mean = mean if alone else mean - _means(mean, shares, centred)
        return centred_mean, intercept + float(shares @ mean)

    mean, intercept = shown(reading.mean, reading.intercept)
    variance, intercept_variance = np.zeros(len(mean)), 0.0
    top, intercept_first = np.zeros(len(mean)), 0.0
    for share, weights, (bias, bias_variance) in reading.parts:
        assert weights.variance is not None
        theirs, their_intercept = shown(weights.mean, bias)
        away, intercept_away = theirs - mean, their_intercept - intercept
        own = weights.variance
        if not alone:
            others = _sums(shares**2 * own, centred)
            own = np.where(centred >= 0, (1.0 - 2.0 * shares) * own + others, own)
        if reading.joint is not None:
            more, intercept_more = _joint_variance(reading.joint, shares, centred)
            own, intercept_variance = np.maximum(own + more, 0.0), intercept_variance + intercept_more
        top, intercept_first = top + share * away, intercept_first + share * intercept_away
        np.square(away, out=away)  # in place, here and below: with millions of features, allocation dominates
        away += own
        away *= share
        variance += away
        intercept_variance += share * (bias_variance + float(shares**2 @ weights.variance) + intercept_away**2)
    variance -= np.square(top, out=top)
    sd = np.sqrt(np.maximum(variance, 0.0, out=variance), out=variance) if reading.parts else None
    intercept_sd = np.sqrt(max(intercept_variance - intercept_first**2, 0.0)) if reading.parts else np.nan
    return FeatureStrengths(
        *(frame.features, frame.names, mean, sd, intercept, float(intercept_sd), moments, family, families),
        recipe=frame.recipe,
    )


def _sums(values: np.ndarray, family: np.ndarray) -> np.ndarray:
    """Return the sum over each feature's family; 0 for features without one."""
    return np.append(np.bincount(family + 1, values, minlength=1)[1:], 0.0)[family]


def _joint_variance(joint: JointCovariance, shares: np.ndarray, centred: np.ndarray) -> tuple[np.ndarray, float]:
    """Return what correlations add to the variances of centered weights, and of the intercept."""
    in_head, own, family = joint.positions, shares[joint.positions], centred[joint.positions]
    between = joint.covariance[1:, 1:] - np.diag(np.diag(joint.covariance)[1:])
    with_mean = np.where((family[:, None] == family) & (family >= 0), between, 0.0) @ own
    of_mean = np.zeros(len(shares))
    of_mean[in_head] = own * with_mean
    added = np.where(centred >= 0, _sums(of_mean, centred), 0.0)
    added[in_head] -= 2.0 * with_mean
    return added, float(own @ between @ own + 2.0 * own @ joint.covariance[0, 1:])


def _means(mean: np.ndarray, shares: np.ndarray, family: np.ndarray) -> np.ndarray:
    """Return the mean weight of each feature's family."""
    sums = _sums(shares, family)
    return _sums(shares * mean, family) / np.where(sums > 0, sums, 1.0)


def _of_complete(family: np.ndarray, families: Sequence[Family]) -> np.ndarray:
    return np.array([*(one.complete for one in families), False])[family]


# --- columns of features ---------------------------------------------------------------------------------------------


def _families(names: Sequence[str | None], recipe: Recipe | None) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """Return the index of each feature's family (-1 for none), found by its name, and the families."""
    indices: dict[tuple[str, str], int] = {}
    family = np.full(len(names), -1)
    if recipe is not None and recipe.kind != "svmlight":
        by_name = _families_by_name(_columns(recipe))
        for k, name in enumerate(names):
            key = None if name is None else _family_of(name, recipe, by_name)
            if key is not None:
                family[k] = indices.setdefault(key, len(indices))
    return family, list(indices)


def _completed(frame: SeenFeatures, mean: np.ndarray | None) -> list[Family]:
    """Return the families; complete ones have one feature of value 1 in each row, and no weight of 0."""
    moments, family, size = frame.moments, frame.family, len(frame.families)
    if moments is None or not size:
        return [Family(*key, False) for key in frame.families]
    # Squares alone are not enough: a standardized number also has a mean square of 1.
    odd = np.abs(moments.square - moments.seen) + np.abs(moments.mean - moments.seen)
    odd = odd + (0.0 if mean is None else mean == 0.0)
    seen, odd = (np.bincount(family + 1, sums, minlength=size + 1)[1:] for sums in (moments.seen, odd))
    complete = (np.abs(seen - 1.0) < COMPLETE) & (odd < COMPLETE)
    return [Family(*key, bool(yes)) for key, yes in zip(frame.families, complete, strict=True)]


def _columns(recipe: Recipe | None) -> dict[str, Column]:
    return {column.name: column for column in (recipe.columns if recipe is not None else None) or ()}


def _family_of(name: str, recipe: Recipe, by_name: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """Return (column, kind) of a feature name, None if unknown; for VW text, the namespace is the column."""
    for count in sorted({*map(len, recipe.cross), *map(len, recipe.interactions)}) if AND in name else ():
        parts = [_family_of_one(part, recipe, by_name) for part in name.split(AND, count - 1)]
        if len(parts) == count and all(parts):
            columns, kinds = zip(*parts, strict=True)
            return AND.join(columns), AND.join(kinds)
    return _family_of_one(name, recipe, by_name)


def _family_of_one(name: str, recipe: Recipe, by_name: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    if recipe.kind == "vw":
        namespace, mark, _ = name.partition("^")
        return (namespace, "value") if mark else None
    at = name.find("=")
    while name not in by_name and at >= 0:  # a column's name may contain this sign, too
        if name[:at] in by_name and by_name[name[:at]][0] == name[:at]:
            return name[:at], "value"
        at = name.find("=", at + 1)
    return by_name.get(name)


def _families_by_name(columns: dict[str, Column]) -> dict[str, tuple[str, str]]:
    """Return the families by feature name: columns, date parts, bins, and missing numbers (a bin)."""
    by_name = {name: (name, "slope" if column.knots else "value") for name, column in columns.items()}
    for name, column in columns.items():
        for part in column.parts:
            by_name |= dict.fromkeys(names_of_parts(name, part), (name, part))
        if column.role in ("bins", "whole"):
            by_name |= dict.fromkeys([*names_of_bins(column), f"{name}="], (name, "bin"))
        if column.raw_knots:
            by_name[raw_name(column)] = name, "slope"
    return by_name
