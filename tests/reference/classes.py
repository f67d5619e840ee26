"""Several classes: K learners, one against the rest, under a softmax stacker whose coefficients all classes share.

On a row, output j of learner k says the logit z_jk, and learner k itself the probability p_k:

    base      l_k  = ln p_k - ln sum_i p_i                       learners divided by their sum
    inputs    L_jk = ln S(z_jk) - ln sum_i S(z_ji)               each output's own answer, normalised over classes
              L_Jk = logit p_k - ln sum_i exp(logit p_i)         the learners' logits through a softmax; all cut at -CUT
    score     m_k  = l_k + b_k + F_k (a, c),   F_k = [l_k, L_jk - l_k], each column less its mean under the base
    belief    (a, c) ~ N(mean, C), at first N(0, diag(.01, 3/J, ..));  b_k ~ N(., v_k), at first N(0, .01)
    answer    q = softmax(m_k sqrt(g_k)),   g_k = 1/(1 + C8 s_k),   s_k = F_k C F_k' + v_k
    learn     d_k = sqrt(g_k) (y_k - q_k);  A = sum g_k q_k F_k'F_k - u'u,  u = sum sqrt(g_k) q_k F_k
              C <- (I + C A)^-1 C;  (a, c) += C sum F_k d_k;  b_k += v_k d_k;  1/v_k += h/max(1 - h v_k, 1/2)
              h = g_k q_k (1 - q_k);  with memory C += 1e-4 (C_0 - C), and the v_k likewise

and the answer of all is the fixed share of {base, stacker, stacker with memory}, share max(1/(t+2), 1e-5).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp, softmax

C8 = math.pi / 8
CUT, LEAST = 15.0, 1e-13
PRIOR_A, PRIOR_C, PRIOR_B, MEMORY = 0.01, 3.0, 0.01, 1e-4
MOST_REPEATS = 8


def inputs(logits: np.ndarray, log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(l, base, F) of one row: `logits` (outputs, K) of the learners' outputs, `log_odds` (K,) of the learners."""
    base = log_expit(log_odds) - logsumexp(log_expit(log_odds))
    each = log_expit(logits)
    normalised = each - logsumexp(each, axis=1, keepdims=True)
    L = np.maximum(np.vstack([normalised, log_softmax(log_odds)]), -CUT)
    l = np.maximum(base, -CUT)  # noqa: E741
    F = np.column_stack([l, (L - l).T])
    return l, np.exp(base), F - np.exp(base) @ F


class Stacker:
    """One of the two; `memory` 0 never forgets."""

    def __init__(self, n_inputs: int, memory: float = 0.0) -> None:
        self.prior = np.diag([PRIOR_A] + [PRIOR_C / n_inputs] * n_inputs)
        self.mean, self.covariance, self.memory = np.zeros(1 + n_inputs), self.prior.copy(), memory
        self.b, self.v = np.zeros(0), np.zeros(0)

    def join(self, n_classes: int) -> None:
        """Classes that were not there before."""
        more = n_classes - len(self.b)
        self.b, self.v = np.append(self.b, np.zeros(more)), np.append(self.v, np.full(more, PRIOR_B))

    def scores(self, l: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: E741
        """Means and variances of the classes' scores."""
        return l + self.b + F @ self.mean, np.einsum("ki,ij,kj->k", F, self.covariance, F) + self.v

    def answer(self, l: np.ndarray, F: np.ndarray) -> np.ndarray:  # noqa: E741
        m, s = self.scores(l, F)
        return np.maximum(softmax(m / np.sqrt(1 + C8 * s)), LEAST)

    def learn(self, l: np.ndarray, F: np.ndarray, y: int, c: float = 1.0) -> None:  # noqa: E741
        """A weight above 1 is several steps, and counts for no more than MOST_REPEATS."""
        c = min(c, MOST_REPEATS)
        for _ in range(math.ceil(c)):
            self._step(l, F, y, c / math.ceil(c))

    def evidence(self, l: np.ndarray, F: np.ndarray, y: int) -> tuple[np.ndarray, ...]:  # noqa: E741
        """What a label tells: (gradient and curvature of (a, c), gradient and curvature of b)."""
        q, (_, s) = self.answer(l, F), self.scores(l, F)
        g = 1 / (1 + C8 * s)
        d = np.sqrt(g) * ((np.arange(len(q)) == y) - q)
        u = (np.sqrt(g) * q) @ F
        return F.T @ d, (F * (g * q)[:, None]).T @ F - np.outer(u, u), d, g * q * (1 - q)

    def _step(self, l: np.ndarray, F: np.ndarray, y: int, c: float) -> None:  # noqa: E741
        gradient, A, d, h = (c * part for part in self.evidence(l, F, y))
        C = np.linalg.solve(np.eye(len(A)) + self.covariance @ A, self.covariance)
        self.covariance = (C + C.T) / 2
        self.mean = self.mean + self.covariance @ gradient
        self.b = self.b + self.v * d
        self.v = 1 / (1 / self.v + h / np.maximum(1 - h * self.v, 0.5))
        self.covariance = self.covariance + self.memory * (self.prior - self.covariance)
        self.v = self.v + self.memory * (PRIOR_B - self.v)


class SharedStack:
    """Base, two stackers, and their fixed share; `learn` answers as it would have predicted."""

    def __init__(self, n_inputs: int) -> None:
        self.stackers = [Stacker(n_inputs), Stacker(n_inputs, MEMORY)]
        self.shares, self.examples = np.full(3, 1 / 3), 0

    def predict(self, logits: np.ndarray, log_odds: np.ndarray) -> np.ndarray:
        return self.shares @ self._answers(logits, log_odds)

    def _answers(self, logits: np.ndarray, log_odds: np.ndarray) -> np.ndarray:
        l, base, F = inputs(logits, log_odds)  # noqa: E741
        for stacker in self.stackers:
            stacker.join(len(l))
        return np.stack([np.maximum(base, LEAST)] + [stacker.answer(l, F) for stacker in self.stackers])

    def learn(self, logits: np.ndarray, log_odds: np.ndarray, y: int, c: float = 1.0) -> np.ndarray:
        answers = self._answers(logits, log_odds)
        predicted = self.shares @ answers
        l, _, F = inputs(logits, log_odds)  # noqa: E741
        for stacker in self.stackers:
            stacker.learn(l, F, y, c)
        alpha = max(1 / (self.examples + 2), 1e-5)
        shares = self.shares * (answers[:, y] / answers[:, y].max()) ** c
        self.shares = (1 - alpha) * shares / shares.sum() + alpha / 3
        self.examples += 1
        return predicted
