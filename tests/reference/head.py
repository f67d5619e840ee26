"""The head in plain NumPy: a joint Gaussian over the features used most and the intercept, all others diagonal.

Beliefs, with slot 0 for the intercept and e^l a common scale of all weights, its own included:

    head   w ~ e^l N(mu, S)         S = (P + H)^-1, mu = S b    P of the prior, H of the examples
    tail   w_j ~ e^l N(m_j, 1/(P_j + g_j))

Matrices are matrices, inverses are inverses. `test_head.py` checks the rule against the exact update of a dense
Gaussian, against Gaussian elimination, and against the posterior of a batch.
"""

import copy

import numpy as np

from tests.reference.bank import score_step
from tests.reference.number_bank import Columns

INTERCEPT_PRECISION = 0.1
PRIOR_SCORE_VARIANCE = 10.0  # the prior says that the score of an example has this variance
MAX_FIRST_VARIANCE = 100.0
PSEUDO_COUNT = 4.0  # of the prior variance that all groups share, and of each group's
WIDENING = 1.1  # of the standard deviations of weights outside the head, where they are shown
MIN_VARIANCE, MAX_GROWTH = 1e-4, 100.0  # learned prior variances stay above one, and within the other of the first
MAX_INFORMATION = 0.2  # an example that tells more than that conditions S at once
MAX_WAITING = 0.3  # gradients wait until examples have told that much
REFRESH = 0.2  # a refresh is due when each slot has been told that much
MAX_EXCESS = 2.0  # examples that told more than is usual may have told that much together
REST = 4  # examples per slot between refreshes that an excess, or a failed factorization, asks for
ALREADY = 0.98  # of what an example told that conditioned S at once, this much needs no refresh
FADE = 1e-3  # of the second answer, per example
FADING_FROM = 0.5  # examples times FADE
STAYS = 1.25  # a feature in the head counts so many times
SCALE_PRECISION, SCALE_DECAY = 20.0, 0.03
MAX_SCALE_STEP, MAX_SCALE, MAX_TOTAL_SCALE = 0.1, 0.5, 3.0
FIRST_MARK = 8


class Head:
    """One learner of two answers: answer 0 remembers every example, answer 1 fades. Examples have labels +1 and -1.

    `group` has the group of each feature, which share a prior variance.
    """

    def __init__(self, n_features, n_slots, group=None, intercept=True, answers=2):
        n = min(n_slots, n_features) + 1
        self.n_slots, self.answers = n - 1, answers
        self.group = np.zeros(n_features, int) if group is None else np.asarray(group)
        self.group_variance = np.ones(self.group.max() + 1)
        self.columns = Columns(n_features)
        self.slot = np.full(n_features, -1)
        self.features = [-1]  # of each slot; slot 0 is the intercept's
        self.has_intercept = intercept
        self.H, self.b, self.P = np.zeros((n, n)), np.zeros(n), np.ones(n)
        self.S, self.mu, self.waiting = np.zeros((2, n, n)), np.zeros((2, n)), np.zeros((2, n))
        self.P[0] = INTERCEPT_PRECISION
        self.S[:, 0, 0] = intercept / INTERCEPT_PRECISION
        self.tail_mean, self.tail_gain = np.zeros((2, n_features))
        self.scale, self.scale_gain, self.scale_total = 0.0, 0.0, 0.0
        self.told, self.pending, self.excess = 0.0, np.zeros(2), np.zeros(2)
        self.since_refresh, self.mark, self.retry_at = 0, FIRST_MARK, 0
        self.fading, self.faded_at = False, 0

    @property
    def rows(self):
        return self.columns.rows

    def prior_spread(self):
        """The unit r of each feature: the square of its only value, or the variance of a column with several."""
        c = self.columns
        n, unit = np.maximum(c.uses, 1), np.where(c.unit > 0, c.unit, 1.0)
        alike = np.abs(c.square - n) <= 1e-12 * n  # values are counted in units of the first one
        alike &= np.abs(np.abs(c.sum) - n) <= 1e-12 * n
        return np.where(alike | (c.uses == 0), 1.0, c.spread()) / unit**2

    def prior_precision(self):
        return self.prior_spread() / self.group_variance[self.group]

    def _count(self, x):
        self.columns.count(x)
        if self.rows == 1:
            self.group_variance[:] = self._first_variance()
        for j in np.flatnonzero((x != 0) & (self.slot < 0)):
            if len(self.features) <= self.n_slots:
                self._fill(len(self.features), j)

    def _first_variance(self):
        return min(MAX_FIRST_VARIANCE, PRIOR_SCORE_VARIANCE * self.rows / max(self.columns.nonzeros, 1))

    def _fill(self, slot, j):
        """Give a slot to a feature, with what is known of it."""
        if slot == len(self.features):
            self.features.append(j)
        self.features[slot], self.slot[j] = j, slot
        prior, gain, mean = self.prior_precision()[j], self.tail_gain[j], self.tail_mean[j]
        self.P[slot], self.H[slot, slot], self.b[slot] = prior, gain, (gain + prior) * mean
        self.S[:, slot, slot], self.mu[:, slot] = 1.0 / (prior + gain), mean

    def _split(self, x):
        """Values of all slots, and of the features in the tail."""
        inside = np.zeros(len(self.b))
        inside[0] = self.has_intercept * np.exp(self.scale)
        for slot, j in enumerate(self.features[1:], start=1):
            inside[slot] = x[j] * np.exp(self.scale)
        return inside, np.where(self.slot < 0, x, 0.0) * np.exp(self.scale)

    def _look(self, answer, inside, outside):
        """Mean and variance of the score: of the head, of the scale, and of all."""
        tail_variance = 1.0 / (self.prior_precision() + self.tail_gain)
        head_mean, head_variance = inside @ self.mu[answer], max(inside @ self.S[answer] @ inside, 0.0)
        mean = head_mean + outside @ self.tail_mean
        scale_variance = 1.0 / (SCALE_PRECISION + self.scale_gain + SCALE_DECAY * self.rows)
        variance = head_variance + outside**2 @ tail_variance + mean**2 * scale_variance
        return head_mean, head_variance, scale_variance, tail_variance, mean, variance

    def predict(self, x):
        """Mean and variance of the score in each answer. An example is counted before it is predicted."""
        trial = copy.deepcopy(self)
        trial._count(x)
        inside, outside = trial._split(x)
        looks = [trial._look(answer, inside, outside) for answer in range(2 if self.fading else 1)]
        return [(look[-2], look[-1]) for look in looks] * (1 if self.fading else 2)

    def learn(self, x, y, weight=1.0):
        """Learn an example; one of weight 0 changes nothing."""
        if weight == 0:
            return
        self._count(x)
        self.since_refresh += 1
        n, t = len(self.features), self.rows
        inside, outside = self._split(x)
        due = False
        looks = [self._look(answer, inside, outside) for answer in range(2 if self.fading else 1)]
        for answer, look in enumerate(looks):
            head_mean, head_variance, scale_variance, tail_variance, mean, variance = look
            dm, dv = score_step(mean, variance, y, weight)
            information = dv * head_variance
            curvature = dv / max(1.0 - information, 0.1)
            if answer == 0:
                self.H += curvature * np.outer(inside, inside)
                self.b += inside * (dm + curvature * (head_mean + head_variance * dm))
                self.told += information
                self._learn_scale(mean, scale_variance, dm, dv)
                self.tail_mean += outside * tail_variance * dm
                gain = outside**2 * dv
                self.tail_gain += gain / np.maximum(1.0 - gain * tail_variance, 0.5)
            self.waiting[answer] += inside * dm
            usual, most = 2.0 * n * max(1.0 / t, answer * FADE), np.inf if answer else MAX_INFORMATION
            at_once = information > most
            if usual < information <= most:
                if self.excess[answer] <= MAX_EXCESS:
                    self.excess[answer] += information - usual
                elif self.since_refresh < REST * n:
                    at_once = True
                else:
                    due = True
            self.pending[answer] += information
            if at_once:
                along = self.S[answer] @ inside
                self._flush(answer)
                # dv, or for heavy examples what the curvature leaves of a positive variance
                fall = curvature / (1.0 + curvature * head_variance) if information > 0.9 else dv
                self.S[answer] -= fall * np.outer(along, along)
                if answer == 0:
                    self.told -= ALREADY * information
            elif self.pending[answer] > MAX_WAITING:
                self._flush(answer)
        if t >= self.retry_at and (self.told > REFRESH * n or t == self.mark or due):
            self.refresh()
        if t == self.mark:
            self.mark *= 2

    def _learn_scale(self, moving, variance, dm, dv):
        step = np.clip(moving * variance * dm, -MAX_SCALE_STEP, MAX_SCALE_STEP)
        low, high = (
            max(-MAX_TOTAL_SCALE - self.scale_total, -MAX_SCALE),
            min(MAX_TOTAL_SCALE - self.scale_total, MAX_SCALE),
        )
        self.scale = float(np.clip(self.scale + step, low, high))
        gain = moving**2 * dv
        self.scale_gain += gain / max(1.0 - gain * variance, 0.5)

    def _flush(self, answer):
        self.mu[answer] += self.S[answer] @ self.waiting[answer]
        self.waiting[answer], self.pending[answer] = 0.0, 0.0

    def refresh(self):
        n, t = len(self.features), self.rows
        for answer in range(2):
            self._flush(answer)
        if t == self.mark and n > self.n_slots:
            self._choose()
        before = copy.deepcopy(self.__dict__)
        self._fold()
        for slot, j in enumerate(self.features[1:], start=1):
            self.P[slot] = self.prior_precision()[j]
        try:
            covariance = _inverse(self.H[:n, :n] + np.diag(self.P[:n]), self.has_intercept)
        except np.linalg.LinAlgError:
            self.__dict__.update(before)
            self.retry_at = t + REST * n
            return
        self.S[0, :n, :n] = covariance
        self.mu[0, :n] = covariance @ self.b[:n]
        if self.answers == 2 and t * FADE >= FADING_FROM:
            if not self.fading:
                self.fading, self.mu[1], self.faded_at = True, self.mu[0], t
            phi = -np.expm1(-FADE * t) / (FADE * t)
            gone = min(FADE * (t - self.faded_at), 0.5)
            self.S[1, :n, :n] = _inverse(phi * self.H[:n, :n] + np.diag(self.P[:n]), self.has_intercept)
            self.mu[1] -= gone * self.S[1] @ (self.P * self.mu[1])
            self.faded_at = t
        self._learn_priors()
        self.told, self.excess[:], self.since_refresh = 0.0, 0.0, 0

    def _fold(self):
        """Take the scale into weights and precisions."""
        e = np.exp(self.scale)
        self.H /= e**2
        self.b /= e
        self.mu[1] *= e
        self.tail_mean *= e
        self.tail_gain /= e**2
        self.scale_total += self.scale
        self.scale = 0.0

    def _learn_priors(self):
        slots = np.arange(1, len(self.features))
        j = np.array(self.features[1:], int)
        squares = self.prior_spread()[j] * self.mu[0, slots] ** 2
        known = 1.0 - np.minimum(self.P[slots] * self.S[0, slots, slots], 1.0)
        first = self._first_variance()
        low, high = MIN_VARIANCE, MAX_GROWTH * first
        shared = np.clip((PSEUDO_COUNT * first + squares.sum()) / (PSEUDO_COUNT + known.sum()), low, high)
        for group in range(len(self.group_variance)):
            own = self.group[j] == group
            variance = (PSEUDO_COUNT * shared + squares[own].sum()) / (PSEUDO_COUNT + known[own].sum())
            self.group_variance[group] = np.clip(variance, low, high)

    def _choose(self):
        """Let the features used most outside take the slots of those used least inside."""
        uses = self.columns.uses
        slots = sorted(range(1, len(self.features)), key=lambda p: (STAYS * uses[self.features[p]], p))
        rivals = sorted(np.flatnonzero((self.slot < 0) & (uses > 0)), key=lambda j: (-uses[j], j))
        for slot, j in zip(slots, rivals, strict=False):
            if uses[j] <= STAYS * uses[self.features[slot]]:
                break
            self._take_out(slot)
            self._fill(slot, j)

    def _take_out(self, slot):
        """Marginalize over the weight in a slot; the tail keeps what is known of it."""
        j = self.features[slot]
        self.tail_mean[j] = self.mu[0, slot]
        self.tail_gain[j] = max(1.0 / self.S[0, slot, slot] - self.P[slot], 0.0)
        self.slot[j] = -1
        column = self.H[:, slot].copy()
        column[slot] = 0.0
        q = self.H[slot, slot] + self.P[slot]
        self.b -= column / q * self.b[slot]
        self.H -= np.outer(column, column) / q
        self.H[slot], self.H[:, slot] = 0.0, 0.0
        self.S[:, slot], self.S[:, :, slot] = 0.0, 0.0

    def settled(self):
        """A copy in which nothing waits: S = (P + H)^-1 now."""
        twin = copy.deepcopy(self)
        twin.retry_at = 0
        twin.refresh()
        return twin

    def weights(self):
        """Means and variances of all weights, and of the intercept's in front.

        Standard deviations outside the head are shown 1.1 times as large, but never above that of the prior.
        """
        e = np.exp(self.scale)
        prior = np.maximum(self.prior_precision(), 1e-30)
        mean, variance = self.tail_mean.copy(), np.minimum(WIDENING**2 / (prior + self.tail_gain), 1.0 / prior)
        for slot, j in enumerate(self.features[1:], start=1):
            mean[j], variance[j] = self.mu[0, slot], self.S[0, slot, slot]
        mean, variance = e * np.r_[self.mu[0, 0], mean], e**2 * np.r_[self.S[0, 0, 0], variance]
        return mean, variance + mean**2 / (SCALE_PRECISION + self.scale_gain + SCALE_DECAY * self.rows)


def _inverse(precision, has_intercept):
    """Invert by Cholesky's factors of the matrix with a unit diagonal; without an intercept its slot stays empty."""
    out = np.zeros_like(precision)
    own = slice(None) if has_intercept else slice(1, None)
    inner = precision[own, own]
    unit = 1.0 / np.sqrt(np.diagonal(inner))
    scaled = inner * np.outer(unit, unit) + 1e-12 * np.eye(len(inner))
    factor = np.linalg.inv(np.linalg.cholesky(scaled))
    out[own, own] = factor.T @ factor * np.outer(unit, unit)
    return out
