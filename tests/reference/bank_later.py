"""The bank's combination for later rows in plain NumPy, row by row, and how it is fed: delayed, from a sample of rows.

It reads the lanes of a `BankReference` and never changes them. Answers to `test_bank_later.py`.
"""

import numpy as np

from tests.reference.bank import (
    C8,
    DAMPED_MEMORY,
    BankReference,
    Look,
    Stacker,
    damping_of,
    linear_weights,
    mixed_logit,
)
from tests.reference.common import active_features, label_signs, log_sigmoid, sigmoid

SUREST = 30.0


def softmax(logs):
    weights = np.exp(logs - np.max(logs))
    return weights / np.sum(weights)


class LaterReference:
    """Bayes over the outputs of lanes without memory, one stacker that never forgets, Bayes over the two."""

    def __init__(self, bank: BankReference):
        self.bank = bank
        static = [o for o, (k, _) in enumerate(bank.outputs) if not bank.lanes[k].lane.memory]
        self.outputs = np.array(static or range(len(bank.outputs)))
        K = len(self.outputs)
        self.knows = np.array([bank.lanes[bank.outputs[o][0]].lane.rate is None for o in self.outputs])
        self.log_evidence = np.zeros(K)
        self.stackers = [Stacker(K, 0.0, bank.has_intercept)] if bank.stackers else []
        self.log_finals = np.zeros(1 + len(self.stackers))
        self.learned = 0
        self.damping = np.zeros(K)  # of each output, and of the score, in the mean of the last examples; less 1
        self.score_damping = 0.0
        self.loss = 0.0  # summed, as it learned

    def levels(self, look: Look):
        """Output logits, the stackers' input and scores, and the final logits."""
        z = look.z[self.outputs]
        zm = mixed_logit(softmax(self.log_evidence), z)
        f = Stacker.features(zm, z)
        stacked = [stacker.score(*f) for stacker in self.stackers]
        q = np.array([zm] + [np.clip(m / np.sqrt(1.0 + C8 * s), -SUREST, SUREST) for m, s in stacked])
        return z, f, stacked, q

    def logit(self, look: Look) -> float:
        return mixed_logit(softmax(self.log_finals), self.levels(look)[3])

    def learn(self, look: Look, y: float, weight: float) -> float:
        """From what lanes said of a row before its block; the log loss of what this one said of it."""
        z, f, _, q = self.levels(look)
        loss = -float(log_sigmoid(y * self.logit(look)))
        damping = damping_of([self.bank.outputs[o] for o in self.outputs], look, 0.0)
        score_damping = np.sqrt(1.0 + C8 * self.score(look)[1]) - 1.0
        for stacker in self.stackers:
            stacker.learn(*f, y, weight)
        self.log_evidence += weight * log_sigmoid(y * z)
        self.log_finals += weight * log_sigmoid(y * q)
        self.learned += 1
        latest = max(1.0 / self.learned, DAMPED_MEMORY)
        self.damping += (damping - self.damping) * latest
        self.score_damping += (score_damping - self.score_damping) * latest
        self.loss += weight * loss
        return loss

    def score(self, look: Look) -> tuple[float, float]:
        """Mean and variance, as those of the live combination."""
        z, _, stacked, q = self.levels(look)
        w, u = softmax(self.log_evidence), softmax(self.log_finals)
        s = np.array([look.seen[self.bank.outputs[o][0]].s for o in self.outputs])
        own = np.sum(self.mixing() * s) if np.any(self.knows) else 0.0
        apart = u[0] * np.sum(w * (z - np.sum(w * z)) ** 2) + np.sum(u * (q - np.sum(u * q)) ** 2)
        variance = float(own + apart + np.sum(u[1:] * [v for _, v in stacked]))
        return self.logit(look) * float(np.sqrt(1.0 + C8 * variance)), variance

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Those that a bank shows: of this combination, linearised."""
        of = [self.bank.outputs[o][0] for o in self.outputs]
        shares, finals = softmax(self.log_evidence), softmax(self.log_finals)
        damping = (1.0 + self.damping) / (1.0 + self.score_damping) - 1.0
        return linear_weights(self.bank, of, shares, finals, self.stackers, damping, self.mixing())

    def mixing(self) -> np.ndarray:
        """Of the outputs that know their variance, by their evidence, however far AdaGrad is ahead; of all, if none."""
        known = self.knows if np.any(self.knows) else np.ones(len(self.outputs), dtype=bool)
        mixing = np.zeros(len(self.outputs))
        mixing[known] = softmax(self.log_evidence[known])
        return mixing


def learn_both(bank: BankReference, later: LaterReference, X, y, weights, kept) -> np.ndarray:
    """Rows at hand: each block is looked at before it is learned. `kept(t)` says whether example t is in the sample.

    The delayed losses of all rows, NaN where a row was not kept.
    """
    signs, losses, row = label_signs(y), np.full(len(y), np.nan), 0
    while row < len(signs):
        size, end = max(1, min(bank.learned // 8, 8192)), row
        while end < len(signs) and np.count_nonzero(weights[row:end]) < size:
            end += 1
        rows = [active_features(X, r, bank.n_features, bank.has_intercept) for r in range(row, end)]
        looks = [bank.look(*each) for each in rows]
        t = bank.learned
        for r in range(row, end):
            if weights[r] > 0:
                t += 1
                if kept(t):
                    losses[r] = later.learn(looks[r - row], signs[r], weights[r])
        for r in range(row, end):
            bank.learn_example(*rows[r - row], signs[r], weights[r])
        row = end
    return losses


def predict_later(bank: BankReference, later: LaterReference, X):
    """P(y = 1), and the mean and variance of the score, of each row."""
    looks = [bank.look(*active_features(X, r, bank.n_features, bank.has_intercept)) for r in range(X.shape[0])]
    scores = np.array([later.score(look) for look in looks])
    return np.array([sigmoid(later.logit(look)) for look in looks]), scores[:, 0], scores[:, 1]
