"""When the forests run: they begin with 64 rows, are dropped where they do not pay, and tried again later.

Rows are counted that have codes and a weight above 0. The first 64 rows that a pair of forests sees are kept and then
learned at once; the very first 64 also set the units of numbers, their mean and deviation. Dropped at row r, new
forests begin at row 4 r; dropped again, at 4 times their start plus the rows they ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayou.core.links import sigmoid
from bayou.learners.forest.ring import (
    FIRST_REFIT,
    RING_ROWS,
    RollingForests,
    Settings,
    Trees,
    deep_settings,
    flat_settings,
)
from bayou.learners.forest.stacking import FIRST_MARK, N_MARKS, Combination, combine

# Numbers beyond this many units are held there: their squares, times weights, must not overflow.
MAX_STANDARD = 1e15
MAX_LOG_ODDS = 30.0
MIN_ANSWER = 1e-300  # a probability or a noise of 0 is held there
# Fields of `progress`: rows; the row at which forests start or started again, 0 at first; 1 while they rest.
N_ROWS, START, RESTS = range(3)
UNIT, MEAN = range(3, 5)  # of numbers; a unit of 0 is not set yet
N_PENDING = 5  # rows that wait for the first refit
N_PROGRESS = 6
# Fields of a pending row.
LABEL, BASE, WEIGHT = range(3)


class Answers(NamedTuple):
    """Answers for some rows, in the units of the labels; NaN where the base answers alone.

    Of numbers: mean and noise, the expected squared error. Of two classes: the probabilities of the labels 1 and 0.
    """

    mean: np.ndarray
    other: np.ndarray

    @classmethod
    def none(cls, n: int) -> Answers:
        return cls(*np.full((2, n), np.nan))

    @property
    def log_odds(self) -> np.ndarray:
        return np.log(np.maximum(self.mean, MIN_ANSWER)) - np.log(np.maximum(self.other, MIN_ANSWER))


class ScheduledForests:
    """Two forests above a base, whose answers come as arrays: means of numbers, or log-odds.

    Args:
        n_columns: number of columns of the codes.
        is_logistic: whether there are two classes, with labels 0 and 1, or numbers.
        seed: seed of the draws of columns.
        ring_rows, settings: size of the ring, and settings of the two forests, if not the usual ones.
        drops: whether forests that do not pay are dropped.
    """

    def __init__(
        self,
        n_columns: int,
        is_logistic: bool,
        seed: int = 0,
        ring_rows: int = RING_ROWS,
        settings: tuple[Settings, Settings] | None = None,
        drops: bool = True,
    ) -> None:
        self.n_columns, self._is_logistic, self._drops, self._ring_rows = n_columns, is_logistic, drops, ring_rows
        self._settings = settings or (deep_settings(is_logistic, seed), flat_settings(is_logistic, seed))
        self._progress = np.zeros(N_PROGRESS)
        self._pending_codes = np.zeros((FIRST_REFIT, n_columns), np.uint8)
        self._pending = np.zeros((FIRST_REFIT, 3))
        self.forests: RollingForests | None = None
        self.combination = Combination.new()
        self._copies: list[Trees] = []
        self._share = -1, 0.0  # of the stacker for later rows, and the number of rows it is for

    @property
    def is_running(self) -> bool:
        """Whether there are forests whose outputs count."""
        return self.forests is not None

    @property
    def n_marks(self) -> int:
        """The number of marks that the forests have passed: at each, the base is frozen as well."""
        return int(self.combination.sums[N_MARKS])

    @property
    def rows_to_mark(self) -> int:
        """The number of rows until the caller should freeze a copy of the base, or ask again."""
        if self.is_running:
            return self.combination.next_mark - self.combination.n_rows
        rests = int(self._progress[START] - self._progress[N_ROWS]) if self._progress[RESTS] else 0
        return rests + FIRST_MARK - int(self._progress[N_PENDING])

    def wanted(self, weights: np.ndarray) -> np.ndarray:
        """Return the rows that need the answer of the base's copy."""
        learned = np.flatnonzero(weights)
        return learned[self.combination.wanted(len(learned))] if self._copies else learned[:0]

    # --- learning -------------------------------------------------------------------------------------------------

    def learn(
        self, codes: np.ndarray, labels: np.ndarray, base: np.ndarray, ahead: np.ndarray, weights: np.ndarray
    ) -> Answers:
        """Learn rows in order; return the live answer before each. Rows of weight 0 are predicted alone.

        Args:
            codes, labels, base, weights: of each row; `base`: its live answers.
            ahead: the answers of the base's copy frozen at the last mark, for later rows; used only where `wanted`.
        """
        learned, done, row = np.flatnonzero(weights), 0, 0
        parts = []
        while row < len(labels):
            room = self._rows_to_event()
            stop = learned[done + room - 1] + 1 if done + room <= len(learned) else len(labels)
            part = slice(row, stop)
            parts.append(self._learn_part(codes[part], labels[part], base[part], ahead[part], weights[part]))
            done, row = done + room, stop
        return Answers(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))) if parts else Answers.none(0)

    def _rows_to_event(self) -> int:
        """The number of rows that may be learned at once."""
        if self.is_running:
            return min(self.rows_to_mark, self.combination.rows_to_judgement)
        if self._progress[RESTS]:
            return int(self._progress[START] - self._progress[N_ROWS])
        return FIRST_REFIT - int(self._progress[N_PENDING])

    def _learn_part(
        self, codes: np.ndarray, labels: np.ndarray, base: np.ndarray, ahead: np.ndarray, weights: np.ndarray
    ) -> Answers:
        progress, is_learned = self._progress, weights > 0.0
        n_learned = int(np.count_nonzero(is_learned))
        progress[N_ROWS] += n_learned
        if self.is_running:
            answers = self._learn_combined(codes, labels, base, ahead, weights)
            self._after_rows(n_learned)
            return answers
        if not progress[RESTS]:
            room = slice(int(progress[N_PENDING]), int(progress[N_PENDING]) + n_learned)
            self._pending_codes[room] = codes[is_learned]
            self._pending[room] = np.column_stack([labels, base, weights])[is_learned]
            progress[N_PENDING] += n_learned
            if progress[N_PENDING] == FIRST_REFIT:
                self._begin()
        elif progress[N_ROWS] == progress[START]:
            progress[RESTS] = 0.0
        return Answers.none(len(labels))

    def _begin(self) -> None:
        labels, base, weights = self._pending.T.copy()
        if not self._progress[UNIT]:
            mean = 0.0 if self._is_logistic else np.sum(weights * labels) / np.sum(weights)
            deviation = 1.0 if self._is_logistic else np.sqrt(np.sum(weights * (labels - mean) ** 2) / np.sum(weights))
            self._progress[[MEAN, UNIT]] = mean, deviation if deviation > 0.0 else 1.0
        self.forests = RollingForests(self.n_columns, *self._settings, self._ring_rows)
        self._learn_combined(self._pending_codes, labels, base, base, weights)
        self._progress[N_PENDING] = self._pending[:] = self._pending_codes[:] = 0
        self._after_rows(FIRST_REFIT)

    def _learn_combined(
        self, codes: np.ndarray, labels: np.ndarray, base: np.ndarray, ahead: np.ndarray, weights: np.ndarray
    ) -> Answers:
        assert self.forests is not None
        wanted, columns_ahead = self.wanted(weights), np.zeros((len(labels), 3))
        columns_ahead[:, 0] = self._standard(ahead)
        for k, trees in enumerate(self._copies):
            columns_ahead[wanted, 1 + k] = trees.outputs(codes[wanted])
        targets = labels if self._is_logistic else self._standard(labels)
        columns = np.column_stack([self._standard(base), self.forests.learn(codes, targets, weights)])
        return self._combined(targets, weights, columns, columns_ahead)

    def _combined(
        self, targets: np.ndarray, weights: np.ndarray, columns: np.ndarray, columns_ahead: np.ndarray
    ) -> Answers:
        answers = np.empty((len(targets), 2))
        combine(self._is_logistic, targets, weights, columns, columns_ahead, self.combination, answers)
        return Answers(*answers.T) if self._is_logistic else self._original(*answers.T)

    def _after_rows(self, n_learned: int) -> None:
        """Pass a mark, or judge whether the forests pay, if that is due."""
        if not n_learned:
            return
        assert self.forests is not None
        if self.combination.n_rows == self.combination.next_mark:
            self.combination.hold()
            self._copies = self.forests.copies()
        if self.combination.n_rows & (self.combination.n_rows - 1) or self.combination.n_rows < FIRST_REFIT:
            return
        if not self.combination.judge(self._is_logistic) and self._drops:
            started, ran = self._progress[START], self.combination.n_rows
            self._progress[START] = 4.0 * started + ran if started else 4.0 * self._progress[N_ROWS]
            self._progress[RESTS] = 1.0
            self.forests, self.combination, self._copies, self._share = None, Combination.new(), [], (-1, 0.0)

    # --- predicting -----------------------------------------------------------------------------------------------

    def predict_next(self, codes: np.ndarray, base: np.ndarray) -> Answers:
        """Return what `learn` would return for the next row."""
        if self.forests is None:
            return Answers.none(len(base))
        columns = np.column_stack([self._standard(base), self.forests.predict(codes)])
        nothing = np.zeros(len(base))
        return self._combined(nothing, nothing, columns, columns)

    @property
    def share(self) -> float:
        """The share of the stacker in answers for later rows; the base has the rest."""
        n_rows = self.combination.n_rows
        if self._share[0] != n_rows:
            self._share = n_rows, float(sigmoid(self.combination.log_odds(self._is_logistic)))
        return self._share[1]

    def predict_later(self, codes: np.ndarray, base: np.ndarray) -> Answers:
        """Return the answers for later rows; `base`: the base's, for later rows."""
        if self.forests is None:
            return Answers.none(len(base))
        columns = np.column_stack([self._standard(base), self.forests.predict(codes)])
        scores = np.stack([columns[:, 0], self.combination.later_scores(columns)])
        shares = np.array([1.0 - self.share, self.share])
        if not self._is_logistic:
            error = self.combination.later_error(self.share)
            noise = self.combination.shares @ self.combination.scales if error is None else error
            return self._original(shares @ scores, np.full(len(base), noise))
        return Answers(*(shares @ np.exp(-np.logaddexp(0.0, sign * scores)) for sign in (-1.0, 1.0)))

    def _standard(self, values: np.ndarray) -> np.ndarray:
        if self._is_logistic:
            return np.clip(values, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        return np.clip((values - self._progress[MEAN]) / self._progress[UNIT], -MAX_STANDARD, MAX_STANDARD)

    def _original(self, means: np.ndarray, noise: np.ndarray) -> Answers:
        unit = self._progress[UNIT]
        return Answers(means * unit + self._progress[MEAN], np.maximum(noise * unit**2, MIN_ANSWER))

    # --- files --------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is stored: the schedule, and the forests where there are some."""
        arrays: dict[str, np.ndarray] = {"progress": self._progress.reshape(1, -1)}
        arrays |= {"pending codes": self._pending_codes, "pending": self._pending}
        if self.forests is not None:
            arrays |= self.forests.arrays() | self.combination.arrays()
        for k, trees in enumerate(self._copies):
            arrays |= {f"copy {k} {name}": array for name, array in trees.arrays().items()}
        return arrays

    def make_room(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for forests and copies of these shapes, which are about to be restored."""
        if "codes" in shapes:
            self.forests = RollingForests(self.n_columns, *self._settings, self._ring_rows)
            self.forests.resize(shapes["codes"][1])
        copies = [settings for k, settings in enumerate(self._settings) if f"copy {k} nodes" in shapes]
        self._copies = [
            Trees(
                np.zeros((shapes[f"copy {k} nodes"][0], 1 << settings.depth), np.uint16),
                np.zeros((shapes[f"copy {k} nodes"][0], 1 << settings.depth)),
                np.zeros(1),
            )
            for k, settings in enumerate(copies)
        ]

    def restore(self) -> str | None:
        """Recompute what is not stored; return what is wrong with restored state, if anything is."""
        self._share = -1, 0.0
        n_pending = self._progress[N_PENDING]
        if not 0 <= n_pending < FIRST_REFIT or n_pending % 1 or self._progress[[N_ROWS, START]].min() < 0:
            return "its numbers of rows are not valid"
        if (self._pending_codes > 64).any():
            return "it has codes above 64"
        if self.forests is None:
            return None
        if (self.forests.ring.codes > 64).any():
            return "it has codes above 64"
        if any((trees.nodes & 0xFF).max(initial=0) >= self.n_columns for trees in self._copies):
            return "its trees ask for columns that it does not have"
        if self.combination.n_rows != self.forests.n_rows or self._progress[UNIT] <= 0.0:
            return "its numbers of rows disagree"
        return self.forests.restore() or self.combination.fault()
