"""Multiclass: K learners, one for each class against the rest, under a softmax whose coefficients all share.

The learners are banks, or any other binary learner. For a row, output j of bank k gives the logit z_jk, and the bank
itself the probability p_k; S is the sigmoid, C8 = pi/8.

    base      l_k  = ln p_k - ln sum_i p_i                       the banks divided by their sum
    inputs    L_jk = ln S(z_jk) - ln sum_i S(z_ji)               each output's own answer, normalized over classes
              L_Jk = logit p_k - ln sum_i exp(logit p_i)         the banks' logits through a softmax;  all cut at -15
    score     m_k  = l_k + b_k + a l_k + sum_j c_j (L_jk - l_k)
    belief    (a, c) ~ N(., C), at first N(0, diag(.01, 3/J, ..));  b_k ~ N(., v_k), at first N(0, .01)
    answer    F_k = [l_k, L_jk - l_k], columns less their mean under the base;  s_k = F_k C F_k' + v_k
              g_k = 1/(1 + C8 s_k);  q = softmax(m_k sqrt(g_k))
    learn     d_k = sqrt(g_k) (y_k - q_k);  A = sum g_k q_k F_k'F_k - u'u,  u = sum sqrt(g_k) q_k F_k
              C <- (I + C A)^-1 C;  (a, c) += C sum F_k d_k;  b_k += v_k d_k;  1/v_k += h/max(1 - h v_k, 1/2)
              h = g_k q_k (1 - q_k)
    memory    a second stacker with C += 1e-4 (C_0 - C), and the v_k likewise
    all       fixed share over {base, stacker, stacker with memory}, share max(1/(t+2), 1e-5)

An example of weight c takes one step of weight c up to 1, and several above, of total weight 8 at most. Learners other
than banks have one output, themselves: J = 1; so have `light` banks.

**Classes join** at their first row, with a new learner and b_k = 0. That row is predicted without them: while classes
may still join, a probability of 1/(t+1) is reserved for unseen ones after t examples (plus one for each class that was
given at the start).

**The score** of a class, its log-odds against all others, has the variance of its learner's score and that of the
stackers' (averaged by their shares), and the mean that gives the probability back. A draw has a weight vector for
each class (`sampling`).

**Later rows.** Banks have predictions for a model that has stopped learning. A second stack, of these alone (J = 1, one
stacker that never forgets, Bayes' rule in place of fixed share), learns from the banks' predictions of rows before
their block was learned, and is used by `predict(batch, horizon="later")`. Its loss on these rows, compared to their
online loss, estimates the loss on later rows (`later_loss`), as in a bank.

Paper: none, it is ours.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bayou.core import registry
from bayou.core.batch import Batch, Example
from bayou.core.checks import check_bool, check_choice, check_int, shortened_repr
from bayou.core.class_prediction import ClassPrediction, ClassScores, class_names
from bayou.core.errors import BadInput
from bayou.core.learner import cast_batch, check_rows, run_next
from bayou.core.prediction import WeightView, no_posterior
from bayou.core.sampling import PURPOSES, allocate_draws
from bayou.core.validation import feature_numbers
from bayou.learners.bank import Bank
from bayou.learners.bank.head import AUTOMATIC
from bayou.learners.classes.class_labels import MAX_CLASSES, numbers_of, own_classes
from bayou.learners.classes.members import ALL_CLASSES, OWN_CLASS, Members
from bayou.learners.classes.running import ClassRunner, StackedOutputs
from bayou.learners.classes.sampling import drawn_logits, stacked_draws
from bayou.learners.classes.stack_inputs import new_stack
from bayou.learners.ensembles.delayed import N_PASSES, DelayedRows
from bayou.learners.ensembles.learner import Ensemble
from bayou.recipe.crosses import no_lanes

# Maximum bytes of the stack's lines at a time.
MAX_STACK_BYTES = 64 << 20


class Classes(Ensemble):
    """Multiclass learner: one bank per class against the rest, combined by a shared softmax.

    Labels are any whole numbers, one for each class. Probabilities have a column for each class, in the order of
    `labels`: first `classes`, then new ones in the order in which they joined.

    Args:
        n_features: number of weights of each class; feature indices start at 0. Banks use memory only for features
            seen.
        learner: the learner that separates a class from the rest: "bank", or any other binary learner.
        classes: the classes known from the start: a list of labels, or their number (labeled from 0).
        max_classes: maximum number of classes; those not in `classes` join with their first row.
        light: stack only the learners' own predictions, not those of their lanes; for hundreds of classes.
        intercept: whether to add a weight whose feature is always 1.
        dtype: type of the learners' state, "float32" or "float64".
        own: parameters of the learner.

    >>> from bayou import Batch
    >>> learner = Classes(n_features=10)
    >>> rows = Batch.from_rows([{0: 1.0}, {1: 1.0}, {2: 1.0}] * 5, labels=[7, 8, 9] * 5)
    >>> p = learner.learn(rows)  # made before learning
    >>> learner.labels, p.shape
    (array([7., 8., 9.]), (15, 3))
    >>> learner.predict(rows[:3]).best
    array([7., 8., 9.])
    """

    name = "classes"

    def __init__(
        self,
        n_features: int,
        *,
        learner: str = "bank",
        classes: Any = None,
        max_classes: int = 1000,
        light: bool = False,
        intercept: bool = True,
        dtype: Any = None,
        **own: Any,
    ) -> None:
        self._inner = registry.find(learner)
        if self._inner.task != "binary":
            raise BadInput(f"learner is {learner!r}, which is not a binary classifier; use 'bank' or 'marginal'.")
        if own.get("pairs") is not None:
            raise BadInput(no_lanes())
        if learner == "bank" and own.pop("head", AUTOMATIC) not in (0, AUTOMATIC):
            raise BadInput("a head is for two classes; the weights of several have a diagonal posterior: use head=0.")
        self._max_classes = check_int("max_classes", max_classes, 1, MAX_CLASSES)
        labels = own_classes(classes, self._max_classes)
        super().__init__(
            n_features=n_features,
            dtype=self._inner.dtype if dtype is None else dtype,
            intercept=intercept,
            learner=learner,
            classes=None if classes is None else labels,
            max_classes=self._max_classes,
            light=check_bool("light", light),
            **own,
        )
        make = self._inner.load()
        self._banks, self._certain = issubclass(make, Bank), not self._inner.posterior
        own |= {"dtype": self._dtype, "intercept": self._has_intercept} | ({"head": 0} if self._banks else {})
        self._members = Members(make, self._n_features, self._banks, own)
        like = self._members.like
        self._widest, self.wants_groups, self._no_target = like._widest, like.wants_groups, -1
        self.has_posterior = self._inner.posterior
        if own.get("lanes") is None:
            self._stored_parameters = like._stored_parameters
        elif like._parameters["lanes"] is None:  # those of the preset, as files have them
            del self._parameters["lanes"]
            self._stored_parameters = like._stored_parameters
        stacked = StackedOutputs.of(self._members.like, light)
        self._combination = new_stack(stacked.lane_of.size, self._max_classes, self._has_intercept)
        self._later_combination = new_stack(0, self._max_classes, self._has_intercept, n_stackers=1)
        self._delayed = DelayedRows()
        stacks = self._combination, self._later_combination, self._delayed
        self._runner = ClassRunner(self._members, stacked, *stacks, self._certain, self._max_classes, len(labels))
        self._members.check_room(len(labels), self._members.index.n_rows_used)
        for label in labels:
            self._members.join(label)

    # --- learning and predicting --------------------------------------------------------------------------------

    def _targets(self, batch: Batch, weights: np.ndarray) -> tuple[np.ndarray, None]:
        """Return the class indices of the rows, including those of new classes."""
        if batch.labels is None:
            raise BadInput("the batch has no labels to learn from; give them: Batch.from_csr(X, y).")
        numbers = numbers_of(batch.labels, weights, self._members.labels, self._max_classes)
        n_classes = max(len(self._members.labels), int(numbers.max(initial=-1)) + 1)
        self._members.check_room(n_classes, self._members.index.n_rows_after(batch, weights))
        return numbers, None

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Any:
        """Run as many rows at a time as the stack has lines for; `signs` are class indices."""
        n_classes = max(len(self._members.labels), int(signs.max(initial=0)) + 1)
        size = max(1, MAX_STACK_BYTES // (8 * self._combination.prior.size * n_classes))
        chunks, examples = [], self._examples
        for start in range(0, max(len(batch), 1), size):
            rows = slice(start, start + size)
            part = batch if len(batch) <= size else batch[rows]
            chunks.append(self._runner.learn(part, signs[rows], weights[rows], examples))
            examples += int(np.count_nonzero(weights[rows]))
        return chunks[0] if len(chunks) == 1 else ClassScores.concatenate(chunks)

    def _predict_later(self, batch: Batch) -> Any:
        """Predict later rows with the banks' combinations and the stack for them; other learners as for next rows."""
        if not self._banks or not self._members.learners or not self.supports_later:
            return run_next(self, batch)
        return self._runner.predict_later(batch, self._examples)

    @property
    def supports_later(self) -> bool:
        """True if all learners support later rows; banks must have learned enough for that."""
        return all(learner.supports_later for learner in self._members.learners)

    def learn_example(self, row: Example, label: float, weight: float = 1.0) -> Any:
        """Learn from one row and return its class probabilities, predicted before; with weight 0 only predict."""
        if weight == 0.0:
            return self.predict(row.batch()).expected[0]
        return self.learn(row.batch([label], [weight]))[0]

    def wrap_scores(self, scores: Any) -> Any:
        return ClassPrediction(self._members.labels[: scores.expected.shape[1]], scores, self._inner.name)

    def sample(self, batch: Batch, n_draws: int, seed: int = 0, purpose: str = "choose") -> np.ndarray:
        """Return probabilities under drawn weights, shape (n_draws, rows, classes); a draw has weights for each class.

        As in binary tasks, a draw depends only on (seed, draw, feature).

        >>> from bayou import Batch
        >>> learner = Classes(n_features=2, learner="marginal", classes=3)
        >>> learner.sample(Batch.from_rows([{0: 1.0}, {1: 1.0}]), n_draws=5).shape
        (5, 2, 3)
        """
        if not self._inner.posterior:
            raise no_posterior(self._inner.name)
        check_choice("purpose", purpose, PURPOSES)
        seed = check_int("seed", seed, 0, 2**64 - 1)
        with self._lock:
            check_rows(self, batch)
            batch = cast_batch(self, batch)
            allocate_draws(n_draws, len(batch) * max(len(self._members.learners), 1))
            logits = drawn_logits(
                self._members.learners, batch, self._members.index.rows_of(batch.indices), seed, purpose, n_draws
            )
            return stacked_draws(logits, self._combination)

    def end_pass(self) -> bool:
        """Stop training the stacks, as rows are repeated; return True once all learners have converged."""
        with self._lock:
            super().end_pass()
            converged = [learner.end_pass() for learner in self._members.learners]
            return bool(converged) and all(converged)

    def new_stream(self) -> None:
        with self._lock:
            super().new_stream()
            for learner in self._members.learners:
                learner.new_stream()

    def divided(self, learners: list[Any], rests: bool = True) -> Self:
        """Replace the learners with others, trained elsewhere, whose probabilities are only normalized; return self."""
        self._examples = max(learner.examples for learner in learners)
        self._members.learners, self._members.learned[:, ALL_CLASSES] = list(learners), self._examples
        self._members.resize()
        self._delayed.progress[N_PASSES] = float(rests)
        for shares in (self._combination.shares, self._later_combination.shares):
            shares[:] = np.arange(shares.size) == 0
        return self

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def labels(self) -> np.ndarray:
        """The label of each class so far, in the order of the columns of probabilities."""
        return self._members.labels.copy()

    @property
    def class_names(self) -> list[str]:
        """Names of the classes in the data, in the order of `labels`; the label itself if the model has no name."""
        return class_names(self._members.labels, self.extras.classes)

    @property
    def counts(self) -> np.ndarray:
        """Number of examples learned of each class, in the order of `labels`."""
        return self._members.learned[:, OWN_CLASS].copy()

    @property
    def learners(self) -> list[Any]:
        """The learner of each class. In banks of many features, features are renumbered; see `places`."""
        return list(self._members.learners)

    @property
    def levels(self) -> dict[str, float]:
        """Shares of the base (learners divided by their sum), of the stacker, and of the stacker that forgets."""
        with self._lock:
            return dict(
                zip(("normalised", "stacker", "stacker with memory"), self._combination.shares.tolist(), strict=True)
            )

    def parts(self) -> list[dict[str, Any]]:
        """Return `levels` as mappings for the command."""
        return [{"name": name, "share": share} for name, share in self.levels.items()]

    @property
    def touched(self) -> np.ndarray:
        with self._lock:
            return self._members.touched()

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._members.ask(lambda learner, places: learner._mean_at(places), features)

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._members.ask(lambda learner, places: learner._variance_at(places), features)

    @property
    def intercept(self) -> tuple[Any, Any]:
        """Means and variances of the classes' intercepts."""
        with self._lock:
            pairs = np.array([learner.intercept for learner in self._members.learners]).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def reading_of(self, label: float, features: Any, view: str = "model", squares: Any = None) -> WeightView:
        """Return the `reading` of the class with this label: changes of its log-odds against the rest.

        >>> from bayou.learners import Classes
        >>> learner = Classes(n_features=4, learner="marginal", classes=[7, 8])
        >>> learner.reading_of(8, [0, 3]).mean
        array([0., 0.])
        """
        labels = self._members.labels.tolist()
        if label not in labels:
            raise BadInput(f"label is {shortened_repr(label)}, which is not one of the classes seen.")
        features = feature_numbers(features, self._n_features)
        with self._lock:
            return self._members.learners[labels.index(label)].weight_view(
                self._members.index.rows_of(features), view, squares
            )

    def places(self, features: np.ndarray) -> np.ndarray:
        """Return the indices of some features in the classes' own learners."""
        with self._lock:
            return self._members.index.rows_of(features)

    def placed(self, batch: Batch) -> Batch:
        """Return the same rows, with features indexed as in the classes' own learners."""
        with self._lock:
            return self._members.index.reindex(batch, np.zeros(len(batch), self._dtype))

    def _reading(self, features: np.ndarray, squares: np.ndarray | None, associated: bool) -> WeightView:
        raise BadInput("each class has its own weights: ask for those of one, as in reading_of(labels[0], features).")

    # --- files --------------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, np.ndarray]:
        members, progress = self._members, self._delayed.progress[::-1]  # in files, N_PASSES comes first
        own = {"labels": members.labels, "learned": members.learned, "progress": progress, "ids": members.ids}
        own |= {"tally": self._delayed.tally} | self._combination_arrays(len(members))
        return own | members.arrays()

    @property
    def _per_feature_arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._members.named(self._members.like._per_feature_arrays)

    @property
    def _by_rows_at_hand(self) -> tuple[str, ...]:  # type: ignore[override]
        later = tuple(f"later {name}" for name in self._later_combination.arrays(0))
        return (*later, "progress", "tally", *self._members.named(self._members.like._by_rows_at_hand))

    def _nbytes_for(self, n_features: int) -> int:
        own = sum(array.nbytes for name, array in self._arrays().items() if ":" not in name)
        return own + len(self._members) * self._members.like.nbytes_for(n_features)

    def _make_room(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self._members.make_room(shapes, self._max_classes)

    def _check_state(self) -> None:
        self._members.restore()
