"""What a report is made of: a run, its data, and what follows from them. No words and no pictures yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import entr

from bayou.meter import Evaluation
from bayou.report.influence import Features, Influence
from bayou.report.recorder import STRETCHES, Recorder, Sample
from bayou.report.uncertainty import Split, split
from bayou.sources import Source
from bayou.sources.answers import answers
from bayou.sources.names import Names, collision_rate

# How many features are named in words, how many are drawn.
NAMED, DRAWN = 12, 24
# How many predictions are shown that it is unsure of, or was surprised by.
SHOWN = 8


@dataclass(frozen=True)
class Data:
    """Where the examples came from, and what was wrong with them."""

    files: Sequence[str] = ()
    lines: int | None = None
    skipped: int = 0
    bad: Sequence[str] = ()  # the first few of those, as sentences
    folded: int = 0
    names: Names | None = None
    hashed: bool = False
    negative_rate: float = 1.0

    @classmethod
    def of(cls, source: Source, files: Sequence[str], skipped: int | None = None, bad: Sequence[str] = ()) -> Data:
        """What a source knows of itself; a learner may have refused more lines than the source."""
        return cls(
            files=[os.path.basename(name) or name for name in files],
            lines=source.lines,
            skipped=source.skipped if skipped is None else skipped,
            bad=list(bad) or list(source.bad),
            folded=source.folded,
            names=source.carried.names,
            hashed=source.recipe.kind != "svmlight" and not source.recipe.exact,
            negative_rate=source.recipe.negative_rate,
        )


@dataclass(frozen=True)
class Run:
    """A learner's way through the data: what was recorded, and how good its predictions were."""

    recorder: Recorder
    result: Evaluation
    held_out: Evaluation | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Facts:
    """All that words and figures need, worked out when first asked for."""

    run: Run
    data: Data = field(default_factory=Data)

    @property
    def learner(self) -> Any:
        return self.run.recorder.learner

    @property
    def result(self) -> Evaluation:
        return self.run.result

    @cached_property
    def sample(self) -> Sample:
        return self.run.recorder.sample()

    @cached_property
    def late(self) -> Sample:
        """The second half of the run: what it is like when most is learned."""
        return self.sample.second_half()

    @property
    def link(self) -> str:
        return str(self.learner.parameters.get("link", "logistic"))

    # --- how good ---------------------------------------------------------------------------------------------------

    @property
    def rate(self) -> float | None:
        """The share of positives, by weight."""
        reliability = self.result.reliability
        mass = reliability["mass"].sum()
        return float(reliability["rate"] @ reliability["mass"] / mass) if mass > 0 else None

    @property
    def base_loss(self) -> float | None:
        """The loss of somebody who knows this share and nothing else."""
        return None if self.rate is None else float(entr(self.rate) + entr(1.0 - self.rate))

    @property
    def late_loss(self) -> float | None:
        """The mean loss since half of the examples were over."""
        curve = self.result.curve
        if len(curve["example"]) < 2 or self.result.examples < 100:
            return None
        half = int(np.argmin(np.abs(curve["example"] - self.result.examples / 2)))
        weight = curve["weight"][-1] - curve["weight"][half]
        return float((curve["cumulative_loss"][-1] - curve["cumulative_loss"][half]) / weight) if weight > 0 else None

    # --- how sure ---------------------------------------------------------------------------------------------------

    @property
    def has_posterior(self) -> bool:
        return bool(self.learner.record.posterior) and len(self.sample) > 0

    @cached_property
    def split(self) -> Split:
        """Of each row of the sample, by the part of its variance that the learner goes by when it predicts."""
        believed = self.learner.parameters.get("temper", (1.0, 1.0))[1]
        return split(self.sample.mean, self.sample.variance * believed, self.link)

    @property
    def late_split(self) -> Split:
        """Of each row of the second half."""
        earlier = len(self.sample) - len(self.late)
        return Split(self.split.aleatoric[earlier:], self.split.epistemic[earlier:])

    @cached_property
    def over_time(self) -> dict[str, np.ndarray]:
        """In each stretch of the run: its last example, the split of uncertainty, and the loss that was met."""
        sample = self.sample
        # Stretches of a few rows are drawn together: ten per tenfold number of rows, and none of a single row.
        stretch = np.floor(np.log10(np.maximum(sample.row + 1, 8)) * STRETCHES / 2).astype(np.int64)
        _, stretch = np.unique(stretch, return_inverse=True)
        mass = np.bincount(stretch, sample.mass)
        chance = np.clip(np.where(sample.label > 0, sample.probability, 1.0 - sample.probability), 1e-300, None)

        def average(values: np.ndarray) -> np.ndarray:
            return np.bincount(stretch, sample.mass * values) / mass

        last = np.zeros(len(mass))
        np.maximum.at(last, stretch, sample.row + 1)
        return {
            "example": last,
            "aleatoric": average(self.split.aleatoric),
            "epistemic": average(self.split.epistemic),
            "loss": average(-np.log(chance)),
        }

    @property
    def late_means(self) -> tuple[float, float]:
        """Mean aleatoric and epistemic uncertainty in the second half of the run."""
        mass = self.late.mass / self.late.mass.sum()
        return float(self.late_split.aleatoric @ mass), float(self.late_split.epistemic @ mass)

    @cached_property
    def unsure(self) -> Sample:
        """Predictions of the second half with the largest epistemic uncertainty."""
        return self.late[np.argsort(-self.late_split.epistemic, kind="stable")[:SHOWN]]

    @cached_property
    def surprising(self) -> Sample:
        """Predictions of the second half that were most wrong."""
        late = self.late
        chance = np.where(late.label > 0, late.probability, 1.0 - late.probability)
        order = np.argsort(chance, kind="stable")[:SHOWN]
        return late[order[chance[order] < 0.5]]

    def interval(self, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
        """The middle 95 % of what the probability of each row may have been; as `bayou predict` says it."""
        from bayou.learner import Prediction

        predicted = Prediction(sample.probability, sample.mean, sample.variance, self.learner.name)
        table = answers(self.learner, predicted)
        return table[3], table[4]

    # --- which features ---------------------------------------------------------------------------------------------

    @cached_property
    def influence(self) -> Influence:
        return Influence(self.learner, self.late, self.data.names)

    @cached_property
    def top(self) -> Features:
        return self.influence.first(DRAWN, self.influence.share)

    @property
    def load(self) -> float:
        """The share of the table of weights that is taken."""
        return len(self.influence.touched) / self.learner.n_features

    @property
    def collisions(self) -> float:
        """The chance that a feature shares its weight with another."""
        return collision_rate(len(self.influence.touched), self.learner.n_features)

    # --- the parts of a bank ----------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> list[dict[str, Any]]:
        """How the parts of the learner are at the end."""
        return [part for part in self.learner.parts() if "weight" in part]

    @cached_property
    def storeys(self) -> list[dict[str, Any]]:
        return [part for part in self.learner.parts() if "share" in part]
