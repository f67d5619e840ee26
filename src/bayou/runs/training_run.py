"""Progress and result of a training run, as `bayou.train` reports and returns them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayou.core.errors import BadModel
from bayou.core.learner import Learner
from bayou.evaluate.base_meter import BaseMeter
from bayou.evaluate.binary import Evaluation
from bayou.evaluate.regression import RegressionEvaluation


@dataclass(frozen=True)
class Progress:
    """Progress of a run after a batch.

    Attributes:
        rows: number of rows read in this pass.
        passed: number of finished passes.
        bytes_done, bytes_total: bytes of the files read so far and in all; the total is None if unknown.
    """

    scored: Callable[[], BaseMeter]
    rows: int
    passed: int
    bytes_done: int
    bytes_total: int | None

    @property
    def meter(self) -> BaseMeter:
        """Scores of the predictions so far: `meter.examples`, `meter.loss`. Waits until pending ones are scored."""
        return self.scored()


@dataclass
class TrainingRun:
    """Result of a training run.

    Attributes:
        learner: the trained learner; the recipe and the names are in its `extras`.
        evaluation: evaluation of the predictions made before learning, in the first pass of this run.
        held_out: evaluation of the finished model on the held-out examples; held_out_rows: a description of those.
        learned: number of examples learned in all passes.
        passes: number of finished passes; converged: whether the learner needs no more of them.
        signal: the signal that interrupted the run, if any.
        seconds: time from the first example read to the last learned.
        bad_lines: messages for the first bad lines; error_counts: (count, first message) of each kind, most frequent
            first; n_wrapped: number of feature indices that were too large for the table and wrapped.
        seen_before: whether the scored examples had been learned in an earlier pass.
        save_error: the error that kept the model from being saved, if any.
        later_loss: loss over the last half of the stream (in the first pass) while learning, and the expected loss of
            the frozen model on later rows: `learned`, `expected`, `error`, `differs`; None if the learner does not
            estimate it, or if labels are delayed.
        notes: messages of the run; warnings: those about the data and the results.

    >>> import pyarrow as pa
    >>> from bayou import train
    >>> run = train(pa.table({"site": ["a", "b"] * 50, "y": [1, 0] * 50}), label="y", learner="marginal", bits=10)
    >>> run.passes, run.skipped, run.signal, round(run.evaluation.auc, 1)
    (1, 0, None, 1.0)
    """

    learner: Learner
    evaluation: Evaluation | RegressionEvaluation
    held_out: Evaluation | RegressionEvaluation | None
    passes: int
    converged: bool
    signal: int | None
    seconds: float
    bad_lines: list[str] = field(default_factory=list)
    error_counts: list[tuple[int, str]] = field(default_factory=list)
    n_wrapped: int = 0
    learned: int = 0
    seen_before: bool = False
    save_error: BadModel | None = None
    notes: list[str] = field(default_factory=list)
    held_out_rows: str = ""
    warnings: list[str] = field(default_factory=list)
    later_loss: Any = None

    @property
    def skipped(self) -> int:
        """Number of bad lines and of rows that the learner rejected."""
        return self.evaluation.skipped

    def as_dict(self) -> dict[str, Any]:
        """Return the output of `bayou train --json`."""
        plain = self.evaluation.as_dict() | {
            "learner": self.learner.name,
            "passes": self.passes,
            "converged": self.converged,
            "interrupted": self.signal is not None,
            "seconds": self.seconds,
            "folded": self.n_wrapped,
            "seen_before": self.seen_before,
            "bad": self.bad_lines,
            "kinds": [{"lines": count, "first": first} for count, first in self.error_counts],
            "remarks": self.warnings,
            "later_loss": None if self.later_loss is None else self.later_loss.as_dict(),
        }
        if self.held_out is not None:
            scores = self.held_out.as_dict()
            del scores["skipped"], scores["seconds"]
            plain["holdout"] = scores | {"rows": self.held_out_rows}
        return plain
