"""How a training run goes, and how it went: what `bayou.train` gives back."""

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
    """How far a run is, after a batch.

    Attributes:
        rows: how many were read in this pass.
        passed: how many passes are behind it.
        bytes_done, bytes_total: of the files, as far as that can be known.
    """

    scored: Callable[[], BaseMeter]
    rows: int
    passed: int
    bytes_done: int
    bytes_total: int | None

    @property
    def meter(self) -> BaseMeter:
        """What the predictions were worth so far: `meter.examples`, `meter.loss`. Whoever asks waits for it."""
        return self.scored()


@dataclass
class TrainingRun:
    """How a run went.

    Attributes:
        learner: what has learned; the recipe and the names are in its `extras`.
        evaluation: of predictions made before learning, in the first pass of this run.
        held_out: of the examples that were held out, predicted by the finished model; held_out_rows: which those are.
        learned: how many examples were learned, in all passes.
        passes: how many were finished; converged: whether the learner says that more are of no use.
        signal: what interrupted the run, if anything.
        seconds: from the first example read to the last learned.
        bad: the first bad lines, as sentences; kinds: how many there were of each kind, and the first, the commonest
            before the others; folded: feature numbers that were too large for the table.
        seen_before: the examples that were scored had been learned from in an earlier pass.
        unsaved: why the model could not be written.
        later_loss: the log loss of the last half of the stream (in the first pass) as it was learned, and what is
            expected of later rows: `learned`, `expected`, `error`, `differs`; None where the learner cannot tell, and
            where labels come late.
        notes: what was said on the way; remarks: what is no error, but should be known.

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
    bad: list[str] = field(default_factory=list)
    kinds: list[tuple[int, str]] = field(default_factory=list)
    folded: int = 0
    learned: int = 0
    seen_before: bool = False
    unsaved: BadModel | None = None
    notes: list[str] = field(default_factory=list)
    held_out_rows: str = ""
    remarks: list[str] = field(default_factory=list)
    later_loss: Any = None

    @property
    def skipped(self) -> int:
        """Bad lines, and rows that the learner refused."""
        return self.evaluation.skipped

    def as_dict(self) -> dict[str, Any]:
        """What `bayou train --json` prints."""
        plain = self.evaluation.as_dict() | {
            "learner": self.learner.name,
            "passes": self.passes,
            "converged": self.converged,
            "interrupted": self.signal is not None,
            "seconds": self.seconds,
            "folded": self.folded,
            "seen_before": self.seen_before,
            "bad": self.bad,
            "kinds": [{"lines": count, "first": first} for count, first in self.kinds],
            "remarks": self.remarks,
            "later_loss": None if self.later_loss is None else self.later_loss.as_dict(),
        }
        if self.held_out is not None:
            scores = self.held_out.as_dict()
            del scores["skipped"], scores["seconds"]
            plain["holdout"] = scores | {"rows": self.held_out_rows}
        return plain
