"""Facts of a report: a run, its data, and the numbers derived from them; sentences and figures are made elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import entr

from bayou.core.batch import Batch
from bayou.core.class_prediction import class_names
from bayou.core.extras import Extras
from bayou.core.prediction import Scores
from bayou.outputs.class_features import ClassStrengths
from bayou.outputs.explanations import Explainer
from bayou.outputs.features import ColumnStrength, FeatureStrengths, feature_strengths
from bayou.recipe.feature_names import collision_rate
from bayou.recipe.recipe import Recipe
from bayou.report.recorder import STRETCHES, Recorder, Sample, TopClass
from bayou.report.uncertainty import UncertaintySplit, split
from bayou.sources import Source

# Number of features that are drawn.
DRAWN = 24
# Prefix of the index of a feature without a name.
UNNAMED = "feature "
# Number of classes, the commonest, that get a plot each.
CLASSES = 9
# Number of uncertain and of surprising predictions shown, and of features that moved each.
SHOWN, MOVED = 8, 3


@dataclass(frozen=True)
class DataFacts:
    """Data of a run: where the examples came from, and what was wrong with them.

    >>> DataFacts(files=["clicks.csv"], lines=1000, skipped=2, bad_lines=["clicks.csv:7: the label is missing."]).hashed
    False
    """

    files: Sequence[str] = ()
    lines: int | None = None
    skipped: int = 0
    bad_lines: Sequence[str] = ()  # the first few skipped lines, as sentences
    n_wrapped: int = 0
    warnings: Sequence[str] = ()
    names: Any = None  # `FeatureNames`, or anything with its `name_of`
    classes: Sequence[str] = ()  # names of the classes, if multiclass
    recipe: Recipe | None = None
    hashed: bool = False
    negative_rate: float = 1.0

    @classmethod
    def of(cls, source: Source, files: Sequence[str], run: Any = None) -> DataFacts:
        """Return the data of a source; counts and messages are those of `run` if given, which include rejected rows."""
        return cls(
            files=[os.path.basename(name) or name for name in files],
            lines=source.lines,
            skipped=(source if run is None else run).skipped,
            bad_lines=list(source.bad_lines if run is None else run.bad_lines),
            warnings=list(source.warnings if run is None else run.warnings),
            n_wrapped=source.n_wrapped,
            names=source.extras.names,
            classes=source.extras.classes,
            recipe=source.recipe,
            hashed=source.recipe.kind != "svmlight" and not source.recipe.exact,
            negative_rate=source.recipe.negative_rate,
        )


@dataclass(frozen=True)
class ReportedRun:
    """Pass of a learner over the data: the recorder, and the evaluation of its predictions.

    >>> from bayou import evaluate, simulate
    >>> from bayou.learners import Marginal
    >>> recorder = Recorder(Marginal(n_features=50))
    >>> batches = recorder.split_at_recordings(simulate.random(n_features=50).batches(500))
    >>> result = evaluate.progressive(recorder, batches)
    >>> run = ReportedRun(recorder, result)
    >>> run.name, run.loss == result.log_loss
    ('marginal', True)
    """

    recorder: Recorder
    result: Any  # an Evaluation, a ClassEvaluation or a RegressionEvaluation
    held_out: Any = None  # the evaluation on examples that were not learned from
    seconds: float | None = None
    spec: str | None = None  # name of the learner when several are compared
    held_out_rows: str = ""  # description of the held-out rows

    @property
    def name(self) -> str:
        return self.spec or self.recorder.learner.name

    @property
    def loss(self) -> float | None:
        return self.loss_of(self.result)

    @property
    def loss_name(self) -> str:
        return "squared_loss" if self.recorder.record.task == "regression" else "log_loss"

    def loss_of(self, result: Any) -> float | None:
        """Return the loss of an evaluation; None without one."""
        return None if result is None else getattr(result, self.loss_name)


class RunFacts:
    """Numbers that the templates and `figures` need, computed on first use."""

    def __init__(self, run: ReportedRun, data: DataFacts | None = None) -> None:
        self.run, self.data, self.result = run, data or DataFacts(), run.result
        self.learner: Any = run.recorder.learner
        self.is_regression, self.is_multiclass = (run.recorder.record.task == k for k in ("regression", "multiclass"))
        self.link = str(self.learner.parameters.get("link", "logistic"))

    @cached_property
    def sample(self) -> Sample:
        return self.run.recorder.sample()

    @cached_property
    def second_half(self) -> Sample:
        """Sampled rows of the second half of the run, when most is learned."""
        return self.sample.second_half()

    # --- how good ---------------------------------------------------------------------------------------------------

    def class_names(self, labels: Iterable[float]) -> list[str]:
        """Return the names of classes by their labels; "–" for NaN, where no class was known."""
        called = self.data.classes or self.learner.extras.classes
        return ["–" if name == "nan" else name for name in class_names(labels, called)]

    @property
    def rate(self) -> float | None:
        """Weighted fraction of positives; None unless the task is binary."""
        if self.is_regression or self.is_multiclass:
            return None
        reliability = self.result.reliability
        mass = reliability["mass"].sum()
        return float(reliability["rate"] @ reliability["mass"] / mass) if mass > 0 else None

    @property
    def base_loss(self) -> float | None:
        """Loss of always predicting this rate, or the rates of all classes; for regression, the mean so far."""
        if self.is_regression:
            r2, loss = self.result.r2, self.run.loss
            return None if r2 is None or loss is None or r2 >= 1 else loss / (1.0 - r2)
        if self.is_multiclass:
            mass = self.result.classes["mass"]
            return float(entr(mass / mass.sum()).sum()) if mass.sum() > 0 else None
        return None if self.rate is None else float(entr(self.rate) + entr(1.0 - self.rate))

    @property
    def late_loss(self) -> float | None:
        """Mean loss over the second half of the examples."""
        curve = self.result.curve
        if len(curve["example"]) < 2 or self.result.examples < 100:
            return None
        half = int(np.argmin(np.abs(curve["example"] - self.result.examples / 2)))
        weight = curve["weight"][-1] - curve["weight"][half]
        return float((curve["cumulative_loss"][-1] - curve["cumulative_loss"][half]) / weight) if weight > 0 else None

    # --- how sure ---------------------------------------------------------------------------------------------------

    @property
    def has_posterior(self) -> bool:
        return self.learner.has_posterior and len(self.sample) > 0

    @cached_property
    def guess(self) -> TopClass:
        """Most probable class of each sampled row, for multiclass."""
        return TopClass.of(self.sample.guess)

    @cached_property
    def split(self) -> UncertaintySplit:
        """Uncertainty of each sampled row, from the part of its variance that the learner uses to predict.

        For regression, both parts are variances: that of the noise, and that of the mean.
        """
        if self.is_regression:
            return UncertaintySplit(self.sample.noise, self.sample.variance)
        if self.is_multiclass:
            return UncertaintySplit(np.nan_to_num(self.guess.aleatoric), np.nan_to_num(self.guess.epistemic))
        return split(self.sample.mean, self.sample.variance * self.learner.score_rule.predictive_temper, self.link)

    @property
    def late_split(self) -> UncertaintySplit:
        """Uncertainty of each sampled row of the second half."""
        earlier = len(self.sample) - len(self.second_half)
        return UncertaintySplit(self.split.aleatoric[earlier:], self.split.epistemic[earlier:])

    @cached_property
    def stretches(self) -> tuple[np.ndarray, np.ndarray]:
        """Stretch of the run that each sampled row belongs to, and the last example of each stretch."""
        sample = self.sample
        # Coarser than the recorder's: ten stretches per tenfold number of rows, and none of a single row.
        segment = np.floor(np.log10(np.maximum(sample.row + 1, 8)) * STRETCHES / 2).astype(np.int64)
        _, segment = np.unique(segment, return_inverse=True)
        mass = np.bincount(segment, sample.stream_weight)
        if len(mass) > 1 and mass[-1] < mass[-2] / 2:  # the run ended soon after the last one had begun
            segment = np.minimum(segment, len(mass) - 2)
        last = np.zeros(segment.max() + 1)
        np.maximum.at(last, segment, sample.row + 1)
        return segment, last

    @cached_property
    def over_time(self) -> dict[str, np.ndarray]:
        """Last example, mean uncertainty and mean loss of each stretch of the run."""
        return {
            "example": self.stretches[1],
            "aleatoric": self.averages(self.split.aleatoric),
            "epistemic": self.averages(self.split.epistemic),
            "loss": self.averages(self._losses(self.sample)),
        }

    def averages(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted mean of `values`, one per sampled row, in each stretch."""
        segment, mass = self.stretches[0], self.sample.stream_weight
        return np.bincount(segment, mass * values) / np.bincount(segment, mass)

    def _losses(self, sample: Sample) -> np.ndarray:
        """Return the loss of each prediction."""
        if self.is_regression:
            return (sample.label - sample.expected) ** 2
        if self.is_multiclass:
            return -np.log(np.maximum(sample.expected, 1e-300))
        return -np.log(np.clip(np.where(sample.label > 0, sample.expected, 1.0 - sample.expected), 1e-300, None))

    @property
    def late_means(self) -> tuple[float, float]:
        """Mean aleatoric and epistemic uncertainty in the second half of the run."""
        mass = self.second_half.stream_weight / self.second_half.stream_weight.sum()
        return float(self.late_split.aleatoric @ mass), float(self.late_split.epistemic @ mass)

    @cached_property
    def most_uncertain(self) -> Sample:
        """Predictions of the second half with the largest epistemic uncertainty."""
        return self.second_half[np.argsort(-self.late_split.epistemic, kind="stable")[:SHOWN]]

    @cached_property
    def largest_losses(self) -> Sample:
        """Predictions of the second half that were most wrong."""
        losses = self._losses(self.second_half)
        is_wrong = (
            TopClass.of(self.second_half.guess).label != self.second_half.label
            if self.is_multiclass
            else losses > np.log(2.0)
        )
        order = np.argsort(-losses, kind="stable")
        return self.second_half[(order if self.is_regression else order[is_wrong[order]])[:SHOWN]]

    def interval(self, sample: Sample, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval of each probability, or of the number itself, as `bayou predict` does.

        For multiclass, it is the recorded 95% interval of the most probable class, whatever the level.
        """
        if self.is_multiclass:
            return TopClass.of(sample.guess).low, TopClass.of(sample.guess).high
        noise = sample.noise if self.is_regression else None
        tails = sample.tails if self.learner.score_rule.degrees else None
        scores = Scores(sample.expected, sample.mean, sample.variance, noise, tails)
        return self.learner.wrap_scores(scores).interval(level)

    # --- which features ---------------------------------------------------------------------------------------------

    @property
    def strengths(self) -> FeatureStrengths:
        """Feature strengths; for multiclass those of the commonest class."""
        return self.class_strengths[0][1]

    @cached_property
    def class_strengths(self) -> list[tuple[str, FeatureStrengths]]:
        """Names and feature strengths of the commonest classes; a single entry with name "" unless multiclass."""
        if not self.is_multiclass:
            return [("", feature_strengths(self.learner, extras=self._extras))]
        strengths = ClassStrengths(self.learner, extras=self._extras)
        commonest = np.argsort(-self.learner.counts, kind="stable")[:CLASSES].tolist()
        names = self.class_names(self.learner.labels)
        return [(names[k], strengths.of(k)) for k in commonest]

    @cached_property
    def _extras(self) -> Extras:
        """Recipe and names of the data, and feature counts of the model, or else of the run's second half."""
        saved: Extras = self.learner.extras
        uses = saved.uses or self.second_half.feature_counts()
        return replace(saved, recipe=self.data.recipe or saved.recipe, names=self.data.names or saved.names, uses=uses)

    def uncertain_features(self, row: tuple[np.ndarray, np.ndarray] | None, n: int) -> list[str]:
        """Return the n features of a row that make its score most uncertain, by x^2 v."""
        strengths = self.strengths
        if row is None or strengths.sd is None or not len(strengths):
            return []
        indices, values = row[0].astype(np.int64), row[1].astype(np.float64)
        slots = np.minimum(np.searchsorted(strengths.features, indices), len(strengths) - 1)
        seen = strengths.features[slots] == indices
        slots, variance = slots[seen], (values**2 * strengths.sd[slots] ** 2)[seen]
        order = np.argsort(-variance, kind="stable")[:n]
        return [strengths.name(k, UNNAMED) for k in slots[order].tolist()]

    def top_contributions(self, sample: Sample) -> list[list[tuple[str, float]]]:
        """Return (name, amount) of what moved each row's score furthest from the average row's.

        Uses the weights at the end of the run, as `bayou predict --explain` does; empty for very long rows.
        """
        classes, uses = np.zeros(len(sample), np.int64), self._extras.uses
        if self.is_multiclass:
            index_of_label = {label: k for k, label in enumerate(self.learner.labels.tolist())}
            classes = np.array([index_of_label.get(label, -1) for label in TopClass.of(sample.guess).label.tolist()])
        described = [k for k, row in enumerate(sample.features) if row is not None and classes[k] >= 0]
        terms: list[list[tuple[str, float]]] = [[] for _ in range(len(sample))]
        if described and uses is not None and uses.counted:
            explainer = Explainer(self.learner, MOVED, self._extras)
            indices, values = zip(*(sample.features[k] for k in described), strict=True)
            ends = np.cumsum([0, *map(len, indices)])
            batch = Batch.from_arrays(ends, np.concatenate(indices), np.concatenate(values))
            names, amounts = explainer.top_contributions(batch, classes[described])
            for n, k in enumerate(described):
                terms[k] = [(name[n], amount[n]) for name, amount in zip(names, amounts, strict=True) if name[n]]
        return terms

    @cached_property
    def columns(self) -> list[ColumnStrength]:
        """Columns that vary the score most; empty if the data have no columns, or only one."""
        return self.columns_of(self.strengths)

    def columns_of(self, strengths: FeatureStrengths) -> list[ColumnStrength]:
        columns = [column for column in strengths.columns() if column.spread > 0]
        return columns[:DRAWN] if len(columns) > 1 else []

    @cached_property
    def touched(self) -> np.ndarray:
        """Features whose weights differ from the prior."""
        return np.asarray(self.learner.touched)

    @property
    def collisions(self) -> float:
        """Probability that a feature shares its weight with another."""
        return collision_rate(len(self.touched), self.learner.n_features)

    # --- the lanes of a bank ----------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> list[dict[str, Any]]:
        """Lanes of the learner at the end of the run."""
        return [lane for lane in self.learner.parts() if "weight" in lane]

    @cached_property
    def levels(self) -> list[dict[str, Any]]:
        """Stages that combine the lanes, each with its share in the final prediction."""
        return [stage for stage in self.learner.parts() if "share" in stage]
