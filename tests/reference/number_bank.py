"""The bank for numbers, row by row in plain NumPy: what `bayou.learners.number_bank` answers to.

Rows are dense arrays here, every lane is an object of its own, and every lane has its own head and columns. The
equations are in the docstring of `bayou.learners.number_bank.learner`.
"""

import math

import numpy as np
from scipy.special import gammaln
from scipy.stats import t as student

HEAD = 128
WIDE = 1e6
FAR = 1e30  # no value is further from the first of its column
LANES = [  # (kind, S, walk of weights, walk of the intercept, first share, share of a coefficient for later rows)
    ("block", 1, 0.0, 0.0, 6.0, 1.0),
    ("block", 1, 0.01, 0.01, 0.4, 0.0),
    ("block", 1, 0.0, 0.1, 0.4, 1.0),
    ("block", 1, 0.0, 1.0, 0.4, 1.0),
    ("diagonal", 1, 0.1, 0.01, 0.4, 0.0),
    ("diagonal", 10, 0.3, 0.1, 0.4, 0.0),
    ("raw", 1, 0.0, 0.0, 0.4, 1.0),
    ("raw", 10, 0.01, 0.01, 0.4, 0.1),
]
SHAPES = [(degrees, memory) for memory in (0.0, 0.01, 0.05) for degrees in (3, 6, 30)]


def is_round(rows):
    """Whether rows is 2, 3, 4, 6, 8, 12, 16, ...: a power of two, or one and a half times one."""
    return rows >= 2 and rows in (2 ** int(math.log2(rows)), 3 * 2 ** int(math.log2(rows)) // 2)


class Columns:
    """What is known of the columns: unit, uses, sums, spread. A row is counted before it is predicted."""

    def __init__(self, width):
        self.rows, self.nonzeros, self.squares = 0, 0, 0.0
        self.unit, self.uses, self.sum, self.square = np.zeros((4, width))

    def copy(self):
        twin = Columns(0)
        twin.__dict__.update({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()})
        return twin

    def count(self, x):
        there = x != 0
        self.rows += 1
        self.nonzeros += there.sum()
        self.squares += x @ x
        new = there & (self.unit == 0)
        self.unit[new] = 1 / np.abs(x[new])
        z = self.scaled(x)
        self.uses += there
        self.sum += z
        self.square += z**2

    def scaled(self, x):
        return np.clip(x * self.unit, -FAR, FAR)

    @property
    def length(self):
        """Mean number of non-zeros in a row."""
        return max(self.nonzeros / self.rows, 1.0)

    def spread(self):
        """Variance of a dense column, mean square of a rare one."""
        n = np.maximum(self.uses, 1)
        variance, floor = np.maximum(self.square - self.sum**2 / self.rows, 0) / n, self.square / n**2
        known = (n > 15) & (variance > 1e-12 * self.square / n)
        return variance + np.where(known, np.minimum(np.maximum(10 * variance, floor / 100), floor), floor)

    def middle(self):
        """Means of the columns in more than half of the rows, 0 of others."""
        return np.where(self.uses > 0.5 * self.rows, self.sum / np.maximum(self.uses, 1), 0.0)


class DiagonalLane:
    def __init__(self, width, S, walk, drift, raw=False, intercept=True):
        self.S, self.keep, self.drift, self.raw, self.has_intercept = S, 1 - walk, drift, raw, intercept
        self.mean, self.gained, self.prior = np.zeros((3, width))
        self.bias, self.bias_variance = 0.0, WIDE if intercept else 0.0

    def priors(self, columns):
        if self.raw:
            return np.full(len(self.mean), columns.squares / columns.rows / self.S)
        return columns.spread() * columns.length / self.S

    def _see(self, x, columns, skip=None):
        """Values, means and precisions as they are for this row."""
        there = (x != 0) if skip is None else (x != 0) & ~skip
        z = columns.scaled(x) - (columns.middle() if self.has_intercept else 0.0)
        z = np.where(there, z / np.where(there, columns.unit, 1) if self.raw else z, 0.0)
        prior = np.where(there, self.priors(columns), 1.0)
        grown = there & (self.prior > 0) & (prior > self.prior)
        shrink = np.where(grown, (self.prior + self.gained) / (prior + self.gained), 1.0)
        gained = np.maximum(self.gained * self.keep - prior * (1 - self.keep), 0.0)
        return there, z, self.mean * shrink, np.where(there, gained, self.gained), prior

    def predict(self, x, columns):
        self.seen = _, z, mean, gained, prior = self._see(x, columns)
        return self.bias + z @ mean, self.bias_variance + z**2 @ (1 / (prior + gained))

    def learn(self, x, columns, dm, dv):
        there, z, mean, gained, prior = self.seen
        v = 1 / (prior + gained)
        gain = z**2 * dv
        self.mean[there] = (mean + z * v * dm)[there]
        self.gained[there] = (gained + gain / np.maximum(1 - gain * v, 1e-9))[there]
        self.prior[there] = prior[there]
        self.bias += self.bias_variance * dm
        self.bias_variance += self.drift * self.has_intercept - self.bias_variance**2 * dv


class BlockLane:
    """Full covariance over the intercept (place 0) and a head of columns, diagonal over the others."""

    def __init__(self, width, S, walk, drift, head=HEAD, intercept=True, learns=False):
        self.S, self.walk, self.drift, self.room, self.has_intercept = S, walk, drift, min(head, width), intercept
        self.learns, self.misfit = learns, 0.0  # whether S is learned, from n times the estimated noise
        self.tail = DiagonalLane(width, S, walk, 0.0, intercept=intercept)
        self.tail.bias_variance = 0.0
        self.head = []  # the columns in places 1, 2, ...
        self.prior = np.zeros(0)
        self.weights, self.covariance = np.zeros(1), np.full((1, 1), WIDE if intercept else 0.0)

    @property
    def is_exact(self):
        """Whether all columns of the last row are in the head: then it is learned by exact algebra."""
        return not self.tail.seen[0].any()

    def predict(self, x, columns):
        self.new = [j for j in np.flatnonzero((x != 0) & (self.tail.prior == 0)).tolist() if j not in self.head]
        self.new = self.new[: self.room - len(self.head)]
        inside = np.zeros(len(x), bool)
        inside[self.head + self.new] = True
        self.tail.seen = self.tail._see(x, columns, inside)
        _, z, mean, gained, prior = self.tail.seen
        places = self.head + self.new
        for j in self.new:
            self.prior = np.append(self.prior, columns.spread()[j] * columns.length / self.S)
        size, room = len(self.weights), 1 + len(places)
        self.grown = np.zeros((room, room))
        self.grown[:size, :size] = self.covariance
        for k in range(size, room):
            self.grown[k, k] = 1 / self.prior[k - 1]
        self.h = np.append(float(self.has_intercept), columns.scaled(x)[places])
        self.along = self.grown @ self.h
        if len(self.new):  # not before it is learned
            self.new_priors, self.prior = self.prior[size - 1 :], self.prior[: size - 1]
        else:
            self.new_priors = np.zeros(0)
        m = self.h[:size] @ self.weights + z @ mean
        return m, max(self.h @ self.along, 0.0) + z**2 @ (1 / (prior + gained))

    def learn(self, x, columns, dm, dv):
        self.head = self.head + self.new
        self.prior = np.append(self.prior, self.new_priors)
        self.weights = np.append(self.weights, np.zeros(len(self.new))) + self.along * dm
        self.covariance = self.grown - np.outer(self.along, self.along) * dv
        there = self.tail.seen[0]
        last = self.tail.prior.copy()
        bias, self.tail.bias = self.tail.bias, 0.0
        self.tail.learn(x, columns, dm, dv)
        self.tail.bias, self.tail.bias_variance = bias, 0.0
        self.tail.prior = np.where(there, self.tail.prior, last)
        inside = [j for j in self.head if x[j] != 0]
        self.tail.prior[inside] = self.tail.priors(columns)[inside]  # at their last use
        if self.walk:
            for i, j in enumerate(self.head):
                if x[j] != 0 and self.covariance[i + 1, i + 1] * self.prior[i] < 1:
                    self.covariance[i + 1, i + 1] += self.walk / self.prior[i]
        self.covariance[0, 0] += self.drift * self.has_intercept

    def renew(self, columns):
        """Learn S, choose the head anew, and bring its priors to the spreads known now."""
        last, places = self.S, len(self.head)
        if self.learns and self.misfit > 0 and (columns.rows > places or np.count_nonzero(columns.uses) == places):
            gamma = np.clip(1 - self.prior * np.diag(self.covariance)[1:], 0, 1).sum()
            strength = (self.prior * last * self.weights[1:] ** 2).sum() * columns.rows / self.misfit
            self.S = float(np.clip((16 + strength) / (16 + gamma), 0.01, 100))
        if np.count_nonzero(columns.uses) > self.room:
            key = columns.uses.copy()
            key[self.head] *= 1.25  # who is in stays, unless another is used a quarter more
            first = np.ones(len(key))
            first[self.head] = 0
            best = set(np.lexsort((np.arange(len(key)), first, -key))[: self.room].tolist())
            leave = [i for i, j in enumerate(self.head) if j not in best]
            join = sorted(best - set(self.head), key=lambda j: (-columns.uses[j], j))
            for i, j in zip(
                sorted(leave, key=lambda i: (columns.uses[self.head[i]], -self.head[i])), join, strict=True
            ):
                self._swap(i, j, columns)
        for i, j in enumerate(self.head):
            now = (columns.spread()[j] * columns.length) / self.S
            more = now - self.prior[i]
            if not (self.walk and more < 0):
                self._observe(i + 1, more)
            self.prior[i] = now
        self.tail.S, self.tail.prior = self.S, self.tail.prior * last / self.S

    def _observe(self, place, precision):
        """The weight there is 0, with this precision more (or less)."""
        along = self.covariance[place].copy()
        f = precision / (1 + precision * along[place])
        self.misfit += f * self.weights[place] ** 2
        self.weights = self.weights - along * f * self.weights[place]
        self.covariance = self.covariance - np.outer(along, along) * f

    def _swap(self, i, j, columns):
        """Column j takes the place of the one that is at i."""
        P, w, tail, middle, p = self.covariance, self.weights, self.tail, columns.middle(), i + 1
        if not self.has_intercept:
            middle = np.zeros(len(middle))
        old = self.head[i]
        # intercept + w x = (intercept + w middle) + w (x - middle)
        shift = np.eye(len(w))
        shift[0, p] = middle[old]
        P, w = shift @ P @ shift.T, shift @ w
        tail.mean[old], tail.gained[old] = w[p], max(1 / P[p, p] - tail.prior[old], 0.0)
        P[p], P[:, p] = 0.0, 0.0
        P[p, p], w[p] = 1 / (tail.prior[j] + tail.gained[j]), tail.mean[j]
        shift[0, p] = -middle[j]
        self.covariance, self.weights = shift @ P @ shift.T, shift @ w
        tail.mean[j] = tail.gained[j] = 0.0
        self.head[i], self.prior[i] = j, tail.prior[j]


class Labels:
    """The labels so far, relative to the first."""

    def __init__(self, intercept=True):
        self.rows, self.mean, self.scatter, self.low, self.high = 0, 0.0, 0.0, math.inf, -math.inf
        self.origin, self.has_intercept = 0.0, intercept

    @property
    def variance(self):
        return self.scatter / self.rows if self.rows else 0.0

    def cut(self, m, wider=0.0):
        room = wider * (self.high - self.low)
        return np.clip(m, self.low - room, self.high + room) if self.rows else m

    def add(self, y):
        self.rows += 1
        away = y - self.mean
        self.mean += away / self.rows
        self.scatter += away * (y - self.mean)
        self.low, self.high = min(self.low, y), max(self.high, y)


def log_density(error, scale2, degrees):
    """Of a Student-t, but for what depends on the degrees alone."""
    return -0.5 * math.log(scale2) - 0.5 * (degrees + 1) * math.log1p(error**2 / scale2 / degrees)


def normal_density(error, scale2):
    """Logarithm of a normal density, up to a constant."""
    return -0.5 * math.log(scale2) - 0.5 * error**2 / scale2


def rate(each, c):
    """What `each` is for c rows at once."""
    return 1 - (1 - each) ** c


class Share:
    """Fixed share with unequal first shares; without a leak Bayes' rule, but for a floor that no share falls below."""

    def __init__(self, first, floor=1e-4, leak=1.0):
        self.first, self.floor, self.leak = np.asarray(first, float) / np.sum(first), floor, leak
        self.shares = self.first.copy()

    def learn(self, logs, rows, c):
        with np.errstate(divide="ignore"):
            s = np.log(self.shares) + c * np.asarray(logs)
        s = np.exp(s - s.max())
        a = max(self.leak / (rows + 1), self.floor)
        self.shares = (1 - a) * s / s.sum() + a * self.first


class Stacker:
    def __init__(self, stacked, memory, degrees, intercept=True):
        self.memory, self.degrees = memory, degrees
        self.prior = np.diag([0.01 * intercept, 0.01, *(0.1 / np.count_nonzero(stacked) * np.asarray(stacked))])
        self.mean, self.covariance = np.zeros(len(self.prior)), self.prior.copy()

    def predict(self, f, z):
        self.f, self.along = f, self.covariance @ f
        self.spread = max(f @ self.along, 0.0)
        return z + self.mean @ f

    def learn(self, error, noise, c):
        if self.degrees:  # an outlier counts less
            noise = noise * (self.degrees + error**2 / (noise + self.spread)) / (self.degrees + 1)
        whole = noise / c + self.spread
        self.mean = self.mean + self.along * error / whole
        self.covariance = self.covariance - np.outer(self.along, self.along) / whole
        self.covariance = self.covariance + self.memory * (self.prior - self.covariance)
        for i, most in enumerate(np.diag(self.prior)):  # rounding, where labels of all magnitudes mix
            own = self.covariance[i, i]
            if not 0.0 <= own <= most * (1 + 1e-9):
                self.covariance[i] = self.covariance[:, i] = 0.0
                self.covariance[i, i] = most if own > most else 0.0


class Shapes:
    """Student-t's for e / sqrt(1 + q), and a factor that is steered to the coverage of 90% intervals."""

    def __init__(self, later=False):
        self.later, self.share = later, Share(np.ones(9), *([1e-300, 0.0] if later else [1e-3]))
        self.scale2, self.told, self.log_factor = np.zeros(9), 0, 0.0

    def scales(self, q):
        """Of the label around its mean, one for each shape."""
        scale2 = self.scale2 if self.told else np.ones(9)
        return np.exp(self.log_factor) * np.sqrt(scale2 * (1 + min(q, 1e3)))

    def coverage(self, error, q):
        """How probable a smaller error was."""
        inside = [2 * student.cdf(abs(error) / s, nu) - 1 for s, (nu, _) in zip(self.scales(q), SHAPES, strict=True)]
        return float(self.share.shares @ inside)

    def learn(self, error, q, rows, c):
        u2 = error**2 / (1 + min(q, 1e3))
        if rows < 1 or (not self.told and u2 == 0):
            return
        if not self.told:
            self.scale2[:], self.told = u2, 1
            return
        if rows >= 3:
            missed = float(self.coverage(error, q) > 0.9)
            step = min(0.1, 5 / (rows + 1)) if self.later else max(0.02, min(0.1, 0.5 / math.sqrt(rows + 1)))
            self.log_factor += min(c, 1.0) * step * (missed - 0.1)
        constants = [gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * math.log(nu) for nu, _ in SHAPES]
        logs = [
            k + log_density(math.sqrt(u2), s, nu) for k, s, (nu, _) in zip(constants, self.scale2, SHAPES, strict=True)
        ]
        self.told += 1
        self.share.learn(logs, rows, c)
        for k, (nu, memory) in enumerate(SHAPES):
            counts = (nu + 1) / (nu + u2 / self.scale2[k])
            memory = 0.0 if self.later else memory
            self.scale2[k] += rate(max(1 / self.told, memory), c) * (counts * u2 - self.scale2[k])


class Combination:
    """From what the lanes say to a mean, in three levels, and the shapes of what is left.

    For later rows nothing is forgotten or shared, and the last level is judged by squared errors.
    """

    def __init__(self, first, intercept=True, stacked=None, later=False):
        stacked = np.ones(len(first)) if stacked is None else stacked
        self.labels, self.later, floor = Labels(intercept), later, [1e-300, 0.0] if later else [1e-4]
        self.share, self.last = Share(first, *floor), Share([0.9, 0.05, 0.05], *floor)
        self.stackers = [Stacker(stacked, 0.0, 5, intercept), Stacker(stacked, 0.0 if later else 0.001, 0, intercept)]
        self.noise, self.last_noise = np.zeros(len(first)), np.zeros(3)
        self.shapes = Shapes(later)

    def predict(self, means, spreads):
        labels = self.labels
        self.means, self.spreads = labels.cut(np.asarray(means)), np.asarray(spreads)
        z = float(self.share.shares @ self.means)
        self.q = float(self.share.shares @ self.spreads)
        far = 4 * math.sqrt(self.last_noise[0]) if self.last_noise[0] > 0 else math.inf
        middle = labels.mean if labels.has_intercept else 0.0
        seen = np.diag(self.stackers[0].prior)[2:] > 0
        f = np.array([math.sqrt(labels.variance), z - middle, *np.where(seen, np.clip(self.means - z, -far, far), 0.0)])
        said = [labels.cut(s.predict(f, z), 0.25) for s in self.stackers]
        self.finals = np.array([z, *(said if labels.rows >= 20 else [labels.cut(z, 0.25)] * 2)])
        self.mean = float(labels.cut(self.last.shares @ self.finals))
        return self.mean, self.q

    def learn(self, y, c):
        labels, rows, variance = self.labels, self.labels.rows, self.labels.variance
        self.shapes.learn(y - self.mean, self.q, rows, c)
        if rows > 1 and variance > 0:
            if self.last_noise[0] == 0:
                self.noise[:], self.last_noise[:] = variance, variance
            errors, spread = y - self.means, 1 + self.spreads
            self.share.learn([log_density(e, s, 5) for e, s in zip(errors, self.noise * spread, strict=True)], rows, c)
            each = rate(max(1 / (rows + 2), 0.0 if self.later else 0.001), c)
            self.noise = np.maximum(
                self.noise + each * (errors**2 / (1 + c * self.spreads) - self.noise), 1e-12 * variance
            )
            errors, spread = y - self.finals, np.array([0.0, *(s.spread for s in self.stackers)])
            judge = normal_density if self.later else (lambda e, s: log_density(e, s, 5))
            self.last.learn([judge(e, s) for e, s in zip(errors, self.last_noise + spread, strict=True)], rows, c)
            if rows >= 20:
                for stacker, error, noise in zip(self.stackers, errors[1:], self.last_noise[1:], strict=True):
                    stacker.learn(error, noise, c)
            e2 = errors**2 * self.last_noise / (self.last_noise + c * spread)
            self.last_noise = np.maximum(self.last_noise + each * (e2 - self.last_noise), 1e-12 * variance)
        labels.add(y)


class NumberBank:
    def __init__(self, width, head=HEAD, intercept=True):
        self.columns, self.combination = Columns(width), Combination([lane[4] for lane in LANES], intercept)
        self.lanes = [
            BlockLane(width, S, walk, drift, head, intercept, learns=k == 0)
            if kind == "block"
            else DiagonalLane(width, S, walk, drift, kind == "raw", intercept)
            for k, (kind, S, walk, drift, _, _) in enumerate(LANES)
        ]

    def learn(self, x, y, c=1.0):
        """(mean, q, scales of the shapes, their shares) as predicted; then learned."""
        x = np.asarray(x, float)
        columns, labels = self.columns.copy(), self.combination.labels
        columns.count(x)
        said = [lane.predict(x, columns) for lane in self.lanes]
        means = [float(labels.cut(m, 0.25)) for m, _ in said]
        mean, q = self.combination.predict(means, [min(q, 1e30) for _, q in said])
        told = labels.origin + mean, q, self.combination.shapes.scales(q), self.combination.shapes.share.shares.copy()
        if c == 0:
            return told
        self.columns = columns
        if labels.rows == 0 and labels.has_intercept:
            labels.origin = y
        y = y - labels.origin
        for lane, m, (uncut, q_lane) in zip(self.lanes, means, said, strict=True):
            trusted = c
            if isinstance(lane, BlockLane) and lane.is_exact:  # not another error, but perhaps a smaller weight
                trusted = c * abs(y - m) / abs(y - uncut) if abs(y - uncut) > abs(y - m) else c
                m = uncut
            dv = trusted / (1 + trusted * min(q_lane, 1e30))
            if isinstance(lane, BlockLane):
                lane.misfit += dv * (y - m) ** 2
            lane.learn(x, columns, dv * (y - m), dv)
        self.combination.learn(y, c)
        rows = columns.rows
        if is_round(rows):
            for lane in self.lanes[:4]:
                lane.renew(columns)
        return told


def later_combination(intercept=True):
    """The combination for later rows: a mixture of what does not walk, and of the walkers one in the stackers."""
    stacked = np.array([lane[5] for lane in LANES])
    first = np.array([lane[4] for lane in LANES]) * (stacked == 1)
    return Combination(first, intercept, stacked, later=True)
