"""Interactions of any order in one pass: a base learner and two rolling forests of boosted trees above it.

The base (a bank, or any other learner of two classes or of numbers) learns every row as it would alone. The forests
read a row's codes: the cell of each column of a table (`codes`, `Batch.with_codes`). They are

    deep    100 trees of depth 8        flat    50 trees of depth 4

of which one at a time is refitted on the newest 65,536 rows (`ring`). The answer for the next row is a fixed share over
base, forests and a stacker of the three; the answer for later rows is a mixture of the base and a stacker that has only
learned what frozen copies predicted ahead, by the evidence of these rows (`stacking`). Forests that do not pay are
dropped, and tried again later (`schedule`).

Rows without codes are learned by the base alone, and so are those of a second pass. Nothing is tuned.

Bits depend on how a stream is cut into batches only where those of the base do: a bank's predictions of later rows are
learned in blocks. They teach the answer for later rows, and have a say in whether forests are dropped.

Paper: none, it is ours. Boosted trees with Newton leaves: Friedman 2001, Chen and Guestrin 2016. Fixed share: Herbster
and Warmuth 1998.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from bayou.core import registry
from bayou.core.arrays import MAX_CODE_COLUMNS
from bayou.core.batch import Batch
from bayou.core.checks import check_int
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores
from bayou.core.prediction import Prediction, ScoreRule
from bayou.learners.forest.ring import RING_ROWS
from bayou.learners.forest.schedule import Answers, ScheduledForests
from bayou.learners.forest.stacking import Stacker

# Fields of `_stream`: examples that the base and its frozen copy have learned; passes that have ended.
OF_BASE, OF_COPY, PASSES = range(3)
# Bytes of forests besides codes: trees, their copies and the evidence; leaves, f, label and weight of a row.
FOREST_BYTES, ROW_BYTES = 3_000_000, 150 + 8 * 4


class Forest(Learner):
    """Two rolling forests above a base learner: interactions of any order in one pass, with nothing to tune.

    Args:
        n_features: number of weights of the base; feature indices start at 0. Omit it if `base` is a learner.
        base: the base: its name, such as "bank" or "number-bank", or a learner that has not learned anything, whose
            parameters are taken.
        seed: seed of the draws of columns, for tables of more than 16.
        intercept, dtype, own: parameters of the base.

    >>> from bayou import Batch
    >>> from bayou.learners import NumberBank
    >>> from bayou.learners.forest import Cuts
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> rows = Batch.from_csr(X, X[:, 0] * X[:, 1]).with_codes(Cuts(X[:1000]).codes(X))
    >>> learner = Forest(base=NumberBank(n_features=2))
    >>> errors = learner.learn(rows) - rows.labels  # made before learning
    >>> bool(np.mean(errors[1000:] ** 2) < 0.3 * np.var(rows.labels))  # a product: no linear model would learn it
    True
    """

    name = "forest"

    def __init__(
        self,
        n_features: int | None = None,
        *,
        base: str | Learner = "bank",
        seed: int = 0,
        intercept: bool = True,
        dtype: Any = None,
        **own: Any,
    ) -> None:
        if isinstance(base, Learner):
            if n_features is not None or own or base.examples:
                raise BadInput("base is a learner: it must not have learned anything, and needs no other parameters.")
            own = base.parameters
            n_features, intercept, dtype = (own.pop(name) for name in ("n_features", "intercept", "dtype"))
            base = base.name
        inner = registry.find(base)
        if inner.task == "multiclass" or inner.name == self.name:
            raise BadInput(f"base is {base!r}; a forest stands above a learner of two classes or of numbers.")
        dtype = inner.dtype if dtype is None else dtype
        seed = check_int("seed", seed, 0, 2**63 - 1)
        super().__init__(n_features=n_features, dtype=dtype, intercept=intercept, base=base, seed=seed, **own)  # type: ignore[arg-type]
        if inner.task != self.record.task:
            self.record = replace(self.record, task=inner.task)
        self._is_regression = inner.task == "regression"
        self._base: Any = self._new_base()
        self._no_target, self._takes, self._widest = self._base._no_target, self._base._takes, self._base._widest
        self.wants_groups, self._stored_parameters = self._base.wants_groups, self._base._stored_parameters
        self._copy: Any = None  # of the base, frozen at the last mark
        self._changed: np.ndarray | None = None  # features whose rows the base has changed since; None: unknown
        self._forests: ScheduledForests | None = None  # from the first row with codes on
        self._stream = np.zeros(3, np.int64)

    def _new_base(self) -> Any:
        parameters = {k: v for k, v in self._parameters.items() if k not in ("base", "seed")}
        return registry.find(self._parameters["base"]).load()(**parameters)

    # --- learning and predicting --------------------------------------------------------------------------------

    def _targets(self, batch: Batch, weights: np.ndarray) -> tuple[np.ndarray, int | None]:
        self._check_codes(batch)
        return super()._targets(batch, weights)

    def _check_codes(self, batch: Batch) -> None:
        """Raise BadInput if a batch's codes are of other columns than those before."""
        if batch.codes is not None and self._forests is not None:
            known = self._forests.n_columns
            if batch.codes.shape[1] != known:
                raise BadInput(f"the rows have codes of {batch.codes.shape[1]} columns; the forest has {known}.")

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        if not weights.any():
            return self._predict(batch, "next")
        weights = weights.astype(np.float64)
        batch = batch.replace(labels=signs.astype(np.float64), weights=weights)
        if batch.codes is None:
            return self._scores_of_base(self._observed(batch))
        if self._forests is None:
            self._forests = ScheduledForests(batch.codes.shape[1], not self._is_regression, self._parameters["seed"])
        if self._stream[PASSES]:
            weights = np.zeros(len(batch))
        return Scores.concatenate([self._learn_part(batch[rows], weights[rows]) for rows in self._parts(weights)])

    def _parts(self, weights: np.ndarray) -> Iterator[slice]:
        """Yield slices of the rows that end where the base is to be frozen."""
        forests, learned, done, row = self._forests, np.flatnonzero(weights), 0, 0
        assert forests is not None
        while row < len(weights):
            done += forests.rows_to_mark
            stop = learned[done - 1] + 1 if done <= len(learned) else len(weights)
            yield slice(row, stop)
            row = stop

    def _learn_part(self, batch: Batch, weights: np.ndarray) -> Scores:
        forests = self._forests
        assert forests is not None
        assert batch.codes is not None
        assert batch.labels is not None
        wanted, ahead, n_marks = forests.wanted(weights), np.zeros(len(batch)), forests.n_marks
        if len(wanted):
            ahead[wanted] = self._answers_of(self._predicted(self._copy, batch.take(wanted), "later"))
        prediction = self._observed(batch)
        base = self._answers_of(prediction)
        labels = batch.labels if self._is_regression else (batch.labels > 0.0).astype(np.float64)
        answers = forests.learn(batch.codes, labels, base, ahead, weights)
        if forests.n_marks != n_marks:  # at a mark, or dropped
            self._freeze_base(forests.n_marks > 0)
        return self._scores(answers, prediction)

    def _freeze_base(self, is_used: bool) -> None:
        """Copy the base, or only the rows that have changed since the last copy; drop the copy if it is not used."""
        base, copy, changed = self._base, self._copy, self._changed
        self._stream[OF_COPY], self._copy, self._changed = self._stream[OF_BASE], None, None
        if not is_used:
            return
        if isinstance(type(base)._per_feature_arrays, tuple) and not base.record.dense:
            self._changed = np.zeros(self._n_features, bool)
        own, frozen = base._arrays(), {} if copy is None else copy._arrays()
        if changed is None or {k: a.shape for k, a in own.items()} != {k: a.shape for k, a in frozen.items()}:
            self._copy = base.snapshot()
            return
        rows = np.flatnonzero(changed)
        for name, array in own.items():
            part = rows if name in base._per_feature_arrays else slice(None)
            frozen[name][part] = array[part]
        copy._examples, self._copy = base._examples, copy
        copy._check_state()

    def _observed(self, batch: Batch) -> Prediction:
        if self._changed is not None:
            self._changed[batch.indices] = True
            if self._base.will_change_other_features(len(batch)):
                self._changed = None
        prediction = self._base.observe(batch)
        self._stream[OF_BASE] = self._base.examples
        return prediction

    def _predict_later(self, batch: Batch) -> Scores:
        return self._predict(batch, "later")

    def _predict(self, batch: Batch, horizon: str) -> Scores:
        self._check_codes(batch)
        prediction, forests = self._predicted(self._base, batch, horizon), self._forests
        if forests is None or batch.codes is None or not forests.is_running:
            return self._scores_of_base(prediction)
        base = self._answers_of(prediction)
        if horizon == "later":
            return self._scores(forests.predict_later(batch.codes, base), prediction)
        return self._scores(forests.predict_next(batch.codes, base), prediction)

    def _predicted(self, learner: Any, batch: Batch, horizon: str) -> Prediction:
        """Return the prediction of the base or of its copy, which may not support later rows yet."""
        return learner.predict(batch, horizon if learner.supports_later else "next")

    def _answers_of(self, prediction: Prediction) -> np.ndarray:
        return prediction.expected if self._is_regression else prediction.log_odds

    def _scores_of_base(self, prediction: Prediction) -> Scores:
        answers, noise = self._answers_of(prediction), None
        if self._is_regression:
            noise = prediction.noise + prediction.variance if self._base.has_posterior else prediction.noise
        return Scores(prediction.expected.copy(), answers.copy(), None, noise)

    def _scores(self, answers: Answers, prediction: Prediction) -> Scores:
        """Return the forests' answers, and the base's where it answers alone."""
        base, alone = self._scores_of_base(prediction), np.isnan(answers.mean)
        expected = np.where(alone, base.expected, answers.mean)
        if base.noise is None:
            return Scores(expected, np.where(alone, base.mean, answers.log_odds), None)
        return Scores(expected, expected.copy(), None, np.where(alone, base.noise, answers.other))

    @cached_property
    def score_rule(self) -> ScoreRule:
        return ScoreRule(predictive="plain")

    # --- passes and streams -------------------------------------------------------------------------------------

    @property
    def supports_later(self) -> bool:
        return bool(self._base.supports_later)

    def later_loss(self) -> Any:
        """Return the base's expected loss on later rows; None where forests have a share in its predictions."""
        with self._lock:
            is_running = self._forests is not None and self._forests.is_running
            return None if is_running else self._base.later_loss()

    def end_pass(self) -> bool:
        """Count a pass: from now on the base alone learns, as rows repeat."""
        with self._lock:
            self._stream[PASSES] += 1
            return bool(self._base.end_pass())

    def new_stream(self) -> None:
        with self._lock:
            self._stream[PASSES] = 0
            self._base.new_stream()

    def progress(self) -> str:
        return str(self._base.progress())

    def will_change_other_features(self, examples: int) -> bool:
        return bool(self._base.will_change_other_features(examples))

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def base_learner(self) -> Learner:
        """A copy of the base, as it has learned alone."""
        with self._lock:
            return self._base.snapshot()

    @property
    def shares(self) -> dict[str, float]:
        """Shares in the answer for the next row, and that of the forests in answers for later rows ("later").

        >>> Forest(n_features=2).shares
        {'base': 1.0, 'deep': 0.0, 'flat': 0.0, 'stacker': 0.0, 'later': 0.0}
        """
        with self._lock:
            forests, shares = self._forests, [1.0, 0.0, 0.0, 0.0, 0.0]
            if forests is not None and forests.is_running:
                shares = [*forests.combination.shares.tolist(), forests.share]
        return dict(zip(("base", "deep", "flat", "stacker", "later"), shares, strict=True))

    def parts(self) -> list[dict[str, Any]]:
        """Return `shares` as mappings for the command."""
        return [{"name": name, "share": share} for name, share in self.shares.items()]

    @property
    def touched(self) -> np.ndarray:
        with self._lock:
            return np.asarray(self._base.touched)

    def _mean_at(self, features: Any) -> np.ndarray:
        return np.asarray(self._base._mean_at(features))

    def _intercept(self) -> tuple[float, float]:
        return float(self._base._intercept()[0]), np.nan

    # --- files --------------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"stream": self._stream.reshape(1, -1)}
        arrays |= {f"base:{name}": array for name, array in self._base._arrays().items()}
        if self._copy is not None:
            arrays |= {f"copy:{name}": array for name, array in self._copy._arrays().items()}
        if self._forests is not None:
            arrays |= {f"forest:{name}": array for name, array in self._forests.arrays().items()}
        return arrays

    @property
    def _per_feature_arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        parts = ("base",) if self._copy is None else ("base", "copy")
        return tuple(f"{part}:{name}" for part in parts for name in self._base._per_feature_arrays)

    @property
    def _by_rows_at_hand(self) -> tuple[str, ...]:  # type: ignore[override]
        of_base = self._base._by_rows_at_hand
        if not of_base:
            return ()
        own = ("evidence", *(f"combination later stacker {field}" for field in Stacker._fields))
        return tuple(
            f"{part}:{name}"
            for part, names in (("base", of_base), ("copy", of_base), ("forest", own))
            for name in names
        )

    def _nbytes_for(self, n_features: int) -> int:
        """Return the bytes of the base, its copy and forests with a full ring."""
        n_columns = 0 if self._forests is None else self._forests.n_columns
        own = FOREST_BYTES + RING_ROWS * (ROW_BYTES + n_columns) if n_columns else 0
        return own + (2 if n_columns else 1) * int(self._base.nbytes_for(n_features))

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        def under(prefix: str) -> dict[str, tuple[int, ...]]:
            return {k.removeprefix(prefix): shape for k, shape in shapes.items() if k.startswith(prefix)}

        self._base._make_room(under("base:"))
        if of_copy := under("copy:"):
            self._copy = self._new_base()
            self._copy._make_room(of_copy)
        if of_forest := under("forest:"):
            n_columns = of_forest.get("pending codes", (0, 0))[1]
            if not 1 <= n_columns <= MAX_CODE_COLUMNS:
                raise BadModel(f"the model's forest has {n_columns} columns, which no table of codes has.")
            self._forests = ScheduledForests(n_columns, not self._is_regression, self._parameters["seed"])
            self._forests.make_room(of_forest)

    def _check_state(self) -> None:
        for learner, examples in ((self._base, self._stream[OF_BASE]), (self._copy, self._stream[OF_COPY])):
            if learner is not None:
                learner._examples = int(examples)
                learner._check_state()
        fault = None if self._forests is None else self._forests.restore()
        if fault is None and (self._stream < 0).any():
            fault = "its numbers of examples are negative"
        if fault is None and (self._copy is None) != (self._forests is None or not self._forests.n_marks):
            fault = "its base was not frozen at its marks"
        if fault is not None:
            raise BadModel(f"the model's forest cannot be used: {fault}.")
