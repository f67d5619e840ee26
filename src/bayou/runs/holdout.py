"""Held-out examples of a run: their selection, and the evaluation of the finished model on them.

`0.1` holds out the last tenth of the data, located by bytes (for a table, by rows): it resembles what a model sees in
use after it was trained on the rest. `random:0.1` is spread evenly over the data, and the same in every pass.
Held-out examples are kept in memory until training ends. Whenever they exceed MOST_VALUES feature values, every other
example is dropped, so that memory is bounded; the remaining ones are still spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import as_number, shortened_repr
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.evaluate.meters import meter_for
from bayou.runs.batching import evenly_spaced_mask
from bayou.sources import Source
from bayou.sources.rejected_rows import RejectedRows

MOST_VALUES = 1 << 24


@dataclass(frozen=True)
class HoldoutSpec:
    """Specification of the held-out examples.

    >>> HoldoutSpec.of("random:.1"), str(HoldoutSpec.of(0.1)), bool(HoldoutSpec.of(None))
    (HoldoutSpec(share=0.1, last=False), '0.1', False)
    """

    share: float = 0.0
    last: bool = True  # the last examples; else spread evenly

    @classmethod
    def of(cls, spec: float | str | None) -> HoldoutSpec:
        """Parse the `holdout` option of a run: 0.1, or "random:0.1"."""
        text = spec.strip() if isinstance(spec, str) else ""
        spread = text.startswith("random:")
        try:
            fraction = float(text.removeprefix("random:")) if text else as_number(0 if spec is None else spec)
        except ValueError:
            fraction = -1.0
        if not 0.0 <= fraction <= 0.9:
            value = spec if isinstance(spec, str | int | float) else shortened_repr(spec)
            raise BadInput(
                f"{option('holdout', value)}: it must be a share from 0 to 0.9, such as 0.1 for the last tenth, or "
                "random:0.1 for a tenth spread evenly."
            )
        return cls(fraction, not spread) if fraction else cls()

    def __bool__(self) -> bool:
        return self.share > 0.0

    def __str__(self) -> str:
        return f"{'' if self.last else 'random:'}{self.share:g}"

    def check(self, source: Source) -> None:
        """Raise BadInput if the last rows are to be held out but the length of the data is unknown."""
        if self and self.last and source.progress_span is None:
            raise BadInput(
                f"{option('holdout', self.share)} needs to know which rows are last, but the length of a pipe or an "
                f"iterator is unknown; read a file or a table, or use {option('holdout', f'random:{self.share:g}')}."
            )

    def mask(self, first: int, batch: Batch, span: tuple[float, float] | None) -> np.ndarray:
        """Return a mask of the held-out rows of a batch.

        `first` is the number of its first row in the data, `span` the fraction of the data where it begins and ends.
        """
        if not self.last or span is None:
            return evenly_spaced_mask(first, len(batch), self.share)
        start, end = span
        return start + (end - start) * (np.arange(len(batch)) + 0.5) / max(len(batch), 1) > 1.0 - self.share


@dataclass
class HoldoutRows:
    """Held-out examples, collected during a pass.

    Attributes:
        seen: number of held-out examples; rows: number of rows read in this pass, held out or not.
        kept: the held-out examples that are in memory.
    """

    which: HoldoutSpec
    seen: int = 0
    rows: int = 0
    kept: list[Batch] = field(default_factory=list)
    _step: int = 1

    def training_batches(self, source: Source, keep: bool) -> Iterator[Batch]:
        """Yield the batches of the source without the held-out rows; if `keep`, store those for `evaluate`."""
        self.rows = 0
        for batch in source:
            is_held_out = self.which.mask(self.rows, batch, source.progress_span)
            self.rows += len(batch)
            if not is_held_out.any():
                yield batch
                continue
            if keep:
                self._keep(batch.take(np.flatnonzero(is_held_out)))
            if not is_held_out.all():
                yield batch.take(np.flatnonzero(~is_held_out))

    def _keep(self, batch: Batch) -> None:
        # Held-out row k is kept if k is a multiple of the step.
        self.kept.append(_every(batch, -self.seen % self._step, self._step))
        self.seen += len(batch)
        while sum(rows.nonzeros + len(rows) for rows in self.kept) > MOST_VALUES and sum(map(len, self.kept)) > 1:
            self.kept = _thinned(self.kept)
            self._step *= 2

    def evaluate(self, learner: Learner, refused: RejectedRows) -> Any:
        """Return the evaluation of the frozen learner on the held-out examples, None if there are none."""
        meter = meter_for(learner.record.task)

        def predict(rows: Batch) -> Any:
            return learner.predict(rows, "later").without_sampling_correction()

        for batch in self.kept:
            for _, chunk, predicted in refused.accepted(batch, predict):
                meter.add_prediction(predicted, chunk.labels, chunk.weights)
        return meter.result() if meter.examples else None

    @property
    def in_words(self) -> str:
        """Description of the held-out rows, such as "the last 10%"."""
        fraction = f"{100 * self.seen / max(self.rows, 1):.2g}%"
        return f"the last {fraction}" if self.which.last else f"{fraction}, spread evenly"


def _every(batch: Batch, first: int, step: int) -> Batch:
    return batch if step == 1 else batch.take(np.arange(first, len(batch), step))


def _thinned(batches: Iterable[Batch]) -> list[Batch]:
    """Return every other row, counted across all batches."""
    thinned, first = [], 0
    for batch in batches:
        thinned.append(_every(batch, first, 2))
        first = (first + len(batch)) % 2
    return thinned
