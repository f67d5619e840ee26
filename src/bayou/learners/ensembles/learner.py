"""The base class of ensembles: learners with a live combination of their members, and one for later rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.learner import Learner
from bayou.learners.ensembles.delayed import N_PASSES, DelayedRows, LaterLoss


class Ensemble(Learner):
    """A learner that combines several by evidence, and estimates its loss once it has stopped learning.

    A subclass sets `_combination` and `_later_combination`, both combinations of its members' outputs, and `_delayed`.
    """

    _combination: Any
    _later_combination: Any
    _delayed: DelayedRows

    def _combination_arrays(self, *sizes: int) -> dict[str, np.ndarray]:
        """Return the learned arrays of both combinations, keyed by their names in the model file."""
        later = self._later_combination.arrays(*sizes)
        return self._combination.arrays(*sizes) | {f"later {name}": array for name, array in later.items()}

    @property
    def _used_later(self) -> Any:
        """The combination that predicts later rows."""
        return self._later_combination

    @property
    def supports_later(self) -> bool:
        """True if the combination for later rows has learned enough to be used."""
        with self._lock:
            return self._delayed.has_learned_enough(self._examples)

    def later_loss(self) -> LaterLoss | None:
        """Return the online loss over the last half of the stream, and the expected loss on later rows.

        None before anything was learned, and for a stream that came row by row or was only repeated.
        """
        with self._lock:
            return self._delayed.loss()

    def end_pass(self) -> bool:
        """Count a pass. Rows repeat from now on, and say nothing about unseen ones. Return False."""
        with self._lock:
            self._delayed.progress[N_PASSES] += 1.0
        return False

    def new_stream(self) -> None:
        with self._lock:
            self._delayed.progress[N_PASSES] = 0.0


def frozen_combination(ensemble: Ensemble) -> Any:
    """Return the combination that predicts once learning has stopped."""
    return ensemble._used_later if ensemble.supports_later else ensemble._combination
