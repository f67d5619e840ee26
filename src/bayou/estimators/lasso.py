"""scikit-learn estimator of the lasso: exact in a few passes, online, a whole path, or a cross-validated penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.checks import check_int, check_iterable, check_positive
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.estimators import validation
from bayou.estimators.base import OnlineClassifier
from bayou.estimators.documented import estimator
from bayou.learners.classes import Classes
from bayou.rounds.exact_shards import one_pass

# Number of penalties of a default path, from the one that leaves only the intercept down to a fraction of it.
PATH_LENGTH, PATH_END = 30, 1e-3
# From this number of non-zeros on, two threads read half of the rows each.
LARGE = 5_000_000


class PathPoint(NamedTuple):
    """Solution at one penalty, with its certificate.

    `coef`, `intercept`, `objective` and `kkt_violation` have one row or entry for two classes, else one for each class.
    """

    penalty: float
    coef: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    kkt_violation: np.ndarray
    passes: int
    converged: bool

    @property
    def active_size(self) -> int:
        """Number of weights that are not 0, without intercepts."""
        return int(np.count_nonzero(self.coef))


@estimator
class LassoClassifier(OnlineClassifier):
    """L1-penalized logistic or probit regression: the certified batch solution, by passes over the rows.

    The learner, with its equations, is `bayou.learners.Lasso`. With penalize_intercept=True it is scikit-learn's
    LogisticRegression(l1_ratio=1, solver="liblinear") with C = 1 / penalty, otherwise that of solver="saga". There is
    no posterior.

    Args:
        algorithm: "auto" is "reduced" for `fit`, which is exact, and "online" for `partial_fit`; or always "online",
            "multipass" or "reduced".
        penalty: gamma; a number, or one for each feature (0 is free), "lookahead" (online: learned), or "cv": the best
            on held-out rows (`fit` only), of the penalties of `path`.
        penalize_intercept: whether the intercept is penalized as well.
        max_active: the number of features whose curvature "reduced" stores; raised if it proves too small.
        slack: "reduced" also tracks features whose gradient is at least this fraction of the penalty.
        ramp, block, shoot_every: online; see the learner.
        tolerance: the largest violation allowed at the end, as a fraction of the penalty.
        passes: the maximum number of passes of `fit`; it ends once the weights are certified.
        folds: the number of folds of "cv".
        random_state: seeds the order in which `fit` takes the rows online, and the folds.
        dtype: of the weights shown, "float64" (also for None) or "float32".

    Attributes:
        kkt_violation_, objective_, n_passes_, active_size_: see the properties; one number for two classes, else an
            array with one for each. A violation is in the units of the penalty; NaN online.
        penalty_: the penalty in force.
        cv_penalties_, cv_losses_: for "cv", the penalties tried and the mean log loss of each on held-out rows.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LassoClassifier(penalty=5.0).fit(scale(X), y)
    >>> model.active_size_, model.kkt_violation_ < 1e-6
    (10, True)
    """

    _learner_name = "lasso"
    _learns_in_order = False

    learners_: list[Any] = field(init=False)

    algorithm: str = "auto"
    penalty: Any = 1.0
    link: str = "logistic"
    penalize_intercept: bool = False
    max_active: int = 400
    slack: float = 0.8
    ramp: int | None = None
    block: int = 0
    shoot_every: int = 10
    tolerance: float = 1e-7
    passes: int = 100
    folds: int = 5

    # --- learning -------------------------------------------------------------------------------------------

    def _can_go_on(self) -> bool:
        if hasattr(self, "learners_") and self.learners_[0].parameters["algorithm"] != "online":
            raise AttributeError(
                'fit has solved the problem in several passes; partial_fit can continue only after algorithm="online".'
            )
        return True

    @available_if(_can_go_on)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn online from more rows, in their order. The first call must name all classes that will ever occur."""
        return super().partial_fit(X, y, classes, sample_weight)

    def _learner_parameters(self, streaming: bool) -> dict[str, Any]:
        parameters = super()._learner_parameters(streaming)
        del parameters["folds"]
        if isinstance(self.algorithm, str) and self.algorithm == "auto":
            online = streaming or (isinstance(self.penalty, str) and self.penalty == "lookahead")
            ramp = 0 if self.ramp is None else check_int("ramp", self.ramp, 1)
            block = check_int("block", self.block, 0)
            parameters["algorithm"] = "online" if online or ramp or block else "reduced"
        elif streaming and self.algorithm != "online":
            raise BadInput(
                f'algorithm="{self.algorithm}" needs several passes; partial_fit is for "auto" and "online".'
            )
        if isinstance(self.penalty, str) and self.penalty == "cv":
            if streaming or parameters["algorithm"] == "online":
                raise BadInput('penalty="cv" needs all data at once; for online learning, use penalty="lookahead".')
            parameters["penalty"] = 1.0
        return parameters

    def _run_passes(self, learner: Any, X: Any, targets: np.ndarray, weights: Any, passes: int) -> Any:
        if learner.parameters["algorithm"] == "online":
            return super()._run_passes(learner, X, targets, weights, passes)
        batch = validation.batch(X)  # the order of rows does not matter: nothing is shuffled
        learners = self._chosen(_of_classes(learner), batch, targets, weights, passes)
        _solve(learners, batch, targets, weights, passes)
        return learner.divided(learners) if isinstance(learner, Classes) else learners[0]

    # --- many penalties -------------------------------------------------------------------------------------

    def path(
        self, X: Any, y: Any, penalties: Sequence[float] | None = None, sample_weight: Any = None
    ) -> list[PathPoint]:
        """Return solutions at several penalties, largest first, each started from the one before and certified alone.

        The default is 30 penalties, from the one that leaves only intercepts down to a thousandth of it. The classifier
        itself is not changed.
        """
        passes = check_int("passes", self.passes, 1, 2**31)
        X, classes, indices, weights = self._examples(X, y, sample_weight)
        learners = _of_classes(self._learner_of(classes))
        if learners[0].parameters["algorithm"] == "online":
            raise BadInput('a path needs several passes: use algorithm="multipass" or "reduced".')
        batch = validation.batch(X)
        path_penalties = _grid(learners, batch, indices, weights, passes) if penalties is None else penalties
        return [point for point, _ in _walk(learners, batch, indices, weights, path_penalties, passes)]

    def _chosen(self, learners: list[Any], batch: Batch, indices: np.ndarray, weights: Any, passes: int) -> list[Any]:
        """Return the learners to fit: unchanged, or for penalty="cv" with the penalty that is best on held-out rows."""
        if not (isinstance(self.penalty, str) and self.penalty == "cv"):
            return learners
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        folds = StratifiedKFold(check_int("folds", self.folds, 2), shuffle=True, random_state=seed)
        penalties = _grid(learners, batch, indices, weights, passes)
        X = batch.to_csr(learners[0].n_features)
        losses = np.zeros(len(penalties))
        row_weights = np.ones(len(indices)) if weights is None else weights
        for training_rows, held_out_rows in folds.split(np.zeros(len(indices)), indices):
            inner, outer = validation.batch(X[training_rows]), validation.batch(X[held_out_rows])
            walk = _walk(learners, inner, indices[training_rows], row_weights[training_rows], penalties, passes)
            for k, (_, solutions) in enumerate(walk):
                against_rest = _against_rest(solutions, indices[held_out_rows])
                losses[k] += sum(
                    _loss(learner, outer, positive, row_weights[held_out_rows]) for learner, positive in against_rest
                )
        self.cv_penalties_, self.cv_losses_ = penalties, losses / row_weights.sum()
        return [learner.at_penalty(penalties[losses.argmin()]) for learner in learners]

    # --- looking inside -------------------------------------------------------------------------------------

    def _each(self, values: list[Any]) -> Any:
        return values[0] if len(values) == 1 else np.array(values)

    @property
    def kkt_violation_(self) -> Any:
        """Largest violation of the optimality conditions, in the units of the penalty."""
        return self._each([learner.kkt_violation for learner in self.learners_])

    @property
    def objective_(self) -> Any:
        """Negative log-likelihood plus the penalty."""
        return self._each([learner.objective for learner in self.learners_])

    @property
    def n_passes_(self) -> Any:
        """Number of passes over the data."""
        return self._each([learner.n_passes for learner in self.learners_])

    @property
    def active_size_(self) -> Any:
        """Number of weights that are not 0, without the intercept."""
        return self._each([int(np.count_nonzero(learner.mean)) for learner in self.learners_])

    @property
    def penalty_(self) -> Any:
        """Penalty in force."""
        return self._each([learner.penalty_in_force for learner in self.learners_])


def _of_classes(learner: Any) -> list[Any]:
    """Return the learner of each class against the rest; of two classes there is only one."""
    return learner.learners if isinstance(learner, Classes) else [learner]


def _against_rest(learners: Sequence[Any], indices: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Return each learner with a mask of the rows of its class; a single learner is that of class 1."""
    return [(learner, indices == (1 if len(learners) == 1 else k)) for k, learner in enumerate(learners)]


def _shards(batch: Batch, labels: np.ndarray, weights: Any) -> list[Batch]:
    labelled = batch.with_labels(labels, weights)
    middle = len(batch) // 2
    return [labelled[:middle], labelled[middle:]] if batch.nonzeros >= LARGE else [labelled]


def _solve(learners: Sequence[Any], batch: Batch, indices: np.ndarray, weights: Any, passes: int) -> bool:
    """Make up to `passes` passes with each learner, and return whether all have converged."""
    converged = []
    for learner, labels in _against_rest(learners, indices):
        shards = [[shard] for shard in _shards(batch, labels, weights)]
        converged.append(any(one_pass(learner, shards) for _ in range(passes)))
    return all(converged)


def _walk(learners: Sequence[Any], batch: Batch, indices: np.ndarray, weights: Any, penalties: Any, passes: int) -> Any:
    """Yield (point, learners) at each penalty, from the largest down."""
    values = check_iterable("penalties", penalties, "some numbers > 0")
    penalties = sorted((check_positive("penalties", penalty) for penalty in values), reverse=True)
    if not penalties:
        raise BadInput("penalties is empty; give at least one number.")
    for penalty in penalties:
        learners = [learner.at_penalty(penalty) for learner in learners]
        converged = _solve(learners, batch, indices, weights, passes)
        yield (
            PathPoint(
                penalty,
                np.stack([learner.mean for learner in learners]),
                np.array([learner.intercept[0] for learner in learners]),
                np.array([learner.objective for learner in learners]),
                np.array([learner.kkt_violation for learner in learners]),
                max(learner.n_passes for learner in learners),
                converged,
            ),
            learners,
        )


def _grid(learners: Sequence[Any], batch: Batch, indices: np.ndarray, weights: Any, passes: int) -> np.ndarray:
    """Return penalties, evenly spaced in their logarithm, from the smallest that leaves only intercepts."""
    max_gradient = 0.0
    alone = [learner.at_penalty(1e30) for learner in learners]
    _solve(alone, batch, indices, weights, passes)
    for learner, labels in _against_rest(alone, indices):
        for shard in _shards(batch, labels, weights):
            learner.learn(shard)
        max_gradient = max(max_gradient, learner.largest_gradient)
    if max_gradient == 0.0:
        raise BadInput("no feature is related to the labels, so there is no path to fit.")
    return max_gradient * np.logspace(0.0, np.log10(PATH_END), PATH_LENGTH)


def _loss(learner: Learner, batch: Batch, positive: np.ndarray, weights: np.ndarray) -> float:
    score = np.where(positive, 1.0, -1.0) * learner.predict(batch).mean
    return -float(weights @ links.find(learner.parameters["link"]).log_cdf(score))
