"""Combining: what stands above a base and its two forests: a live answer, and one for rows after learning has stopped.

A row has three columns: the base's answer and the outputs of the deep and the flat forest, standardized numbers or
log-odds. `answers` are those of the columns and of a stacker, as means or probabilities.

**Stacker.** Regression (least squares or logistic) of y on x = (1, base, deep, flat), weights N(w, P) from the prior
mean (0, 1, 0, 0) and variances .01 and .2. With p the prediction, e = y - p, h = 1 or max(p (1 - p), .001), q = x'Px:

    w += c e/(1 + c h q) P x       P -= c h/(1 + c h q) P x x'P
    P /= 1 - 2/(t + 1000), and no variance beyond .2                              so it forgets slowly

**Live.** Fixed share over base, deep, flat and a stacker, first shares 1/2, 1/6, 1/6, 1/6. Shares are multiplied by the
likelihood of the label (numbers: Student's t of 5 degrees, about each column's own running squared error), then a part
max(1/(t + 1), 1e-4) returns to the first shares.

**Later.** What copies of base and forests, frozen at the rows 100, 133, 178, ... (`mark`), predict for later rows
teaches a second stacker, which predicts these rows itself with the weights that it had at that mark. The evidence,

    g = sum w (log density of the stacker's answer - of the base's)/5 - 3          w = c row/n

is taken over all such rows below 4,096, then over every eighth, which counts eight times; once there are 20,480, every
second goes, and those left and later ones count double. The answer is (1 - s) base + s stacker, s = 1/(1 + e^-g).

**Gain** is what the live answer takes off the base's loss, over rows r/2 to r at r = 4,096, 8,192, ... The forests do
not pay if the mean gain + 2 standard errors (from means of 64 rows) is below .4% of the base's mean loss, and g < 0.
The loss of numbers is 3 log(1 + e^2/(5 s2)), s2 the mean of the smaller squared errors over the rows before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import sigmoid
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.learners.forest.ring import FEW_ROWS

N_COLUMNS = 3  # base, deep, flat
N_INPUTS = 1 + N_COLUMNS  # of a stacker
PRIOR_VARIANCE, CONSTANT_VARIANCE = 0.2, 0.01
FIRST_SHARES = np.array([1 / 2, 1 / 6, 1 / 6, 1 / 6])  # of base, deep, flat, stacker
MIN_LEAK = 1e-4
MIN_PROBABILITY = 1e-6
FIRST_MARK, MARK_RATIO = 100, 4 / 3
MAX_EVIDENCE_ROWS, EVIDENCE_EVERY = 20_480, 8
GAIN_BLOCK_ROWS, MIN_RELATIVE_GAIN = 64, 0.004
# Fields of a row of evidence.
ROW, TARGET, WEIGHT, COUNT, OF_BASE, OF_STACKER = range(6)
N_FIELDS = 6
# Fields of `sums`.
N_ROWS, N_MARKS = range(2)
TOTAL_WEIGHT = 2
EVERY, N_EVIDENCE = range(3, 5)  # the stride of evidence rows, and their number
LOSS, SMALLER_SQUARES, GAIN_WEIGHT = range(5, 8)  # sums over rows since the last judgement
BLOCK_GAIN, BLOCK_WEIGHT = range(8, 10)  # sums over the current block of rows
N_BLOCKS, MEAN_GAIN, GAIN_SQUARES = range(10, 13)  # of the blocks' means: number, mean, squares around it
SCALE = 13  # s2 of the loss
N_SUMS = 14


class Stacker(NamedTuple):
    """State of a stacker."""

    mean: np.ndarray  # [input] w
    held: np.ndarray  # [input] w at the last mark
    covariance: np.ndarray  # [input, input] P
    n_rows: np.ndarray  # [1]

    @classmethod
    def new(cls) -> Stacker:
        first = np.arange(N_INPUTS) == 1.0
        variances = np.full(N_INPUTS, PRIOR_VARIANCE)
        variances[0] = CONSTANT_VARIANCE
        return cls(first.astype(float), first.astype(float), np.diag(variances), np.zeros(1))


class Combination(NamedTuple):
    """State of all that is combined."""

    live: Stacker
    later: Stacker
    shares: np.ndarray  # [answer]
    scales: np.ndarray  # [answer] running squared errors
    sums: np.ndarray  # [N_SUMS]
    evidence: np.ndarray  # [row, field]

    @classmethod
    def new(cls) -> Combination:
        sums = np.zeros(N_SUMS)
        sums[[EVERY, SCALE]] = 1.0
        shares, scales = FIRST_SHARES.copy(), np.full(len(FIRST_SHARES), 0.1)
        return cls(Stacker.new(), Stacker.new(), shares, scales, sums, np.zeros((MAX_EVIDENCE_ROWS, N_FIELDS)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is stored."""
        small = {"shares": self.shares, "scales": self.scales, "sums": self.sums}
        for name, stacker in (("live", self.live), ("later", self.later)):
            small |= {f"{name} stacker {field}": array for field, array in stacker._asdict().items()}
        return {f"combination {name}": array.reshape(1, -1) for name, array in small.items()} | {
            "evidence": self.evidence
        }

    def fault(self) -> str | None:
        """Return what is wrong with restored state, if anything is."""
        n_rows, n_marks, every, n_evidence = self.sums[[N_ROWS, N_MARKS, EVERY, N_EVIDENCE]].tolist()
        counts = every >= 1.0 and 0 <= n_evidence < MAX_EVIDENCE_ROWS and n_evidence <= n_rows
        if not counts or any(number % 1 for number in (n_marks, every, n_evidence)):
            return "its evidence does not fit its rows"
        return None if n_marks == marks_before(n_rows) else "its marks do not fit its rows"

    # --- marks and evidence ---------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return int(self.sums[N_ROWS])

    @property
    def next_mark(self) -> int:
        return mark(int(self.sums[N_MARKS]))

    def hold(self) -> None:
        """Pass a mark: from now on the later stacker predicts with its current weights."""
        self.later.held[:] = self.later.mean
        self.sums[N_MARKS] += 1.0

    def wanted(self, n: int) -> np.ndarray:
        """Return which of the next n rows the evidence is taken from, as offsets; a few more if there are many."""
        rows = self.n_rows + np.arange(n)
        stride = np.where(rows < FEW_ROWS, 1, EVIDENCE_EVERY) * int(self.sums[EVERY])
        return np.flatnonzero((rows >= FIRST_MARK) & (rows % stride == 0))

    def log_odds(self, is_logistic: bool) -> float:
        """Return g."""
        rows = self.evidence[: int(self.sums[N_EVIDENCE])]
        if not len(rows):
            return -3.0
        w, target = rows[:, ROW] / self.sums[N_ROWS] * rows[:, WEIGHT] * rows[:, COUNT], rows[:, TARGET]
        if is_logistic:
            answers = np.clip(rows[:, [OF_BASE, OF_STACKER]], MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
            of_base, of_stacker = np.log(np.where(target > 0, answers.T, 1.0 - answers.T))
        else:
            squares = (rows[:, [OF_BASE, OF_STACKER]].T - target) ** 2
            scale = max(float(np.sum(w * np.min(squares, axis=0)) / np.sum(w)), 1e-300)
            of_base, of_stacker = -3.0 * np.log1p(squares / (5.0 * scale))
        return float(np.sum(w * (of_stacker - of_base)) / 5.0 - 3.0)

    def later_error(self, share: float) -> float | None:
        """Return the mean squared error of the mixture on evidence of the newer half of all rows; None without any."""
        rows = self.evidence[: int(self.sums[N_EVIDENCE])]
        w = np.maximum(rows[:, ROW] / max(self.n_rows, 1) - 0.5, 0.0) * rows[:, WEIGHT] * rows[:, COUNT]
        if not w.any():
            return None
        errors = (1.0 - share) * rows[:, OF_BASE] + share * rows[:, OF_STACKER] - rows[:, TARGET]
        return float(np.sum(w * errors**2) / np.sum(w))

    # --- gain -------------------------------------------------------------------------------------------------

    @property
    def rows_to_judgement(self) -> int:
        """The number of rows to go until `judge` is due: at 64 times every power of two."""
        return max(GAIN_BLOCK_ROWS, 1 << self.n_rows.bit_length()) - self.n_rows

    def judge(self, is_logistic: bool) -> bool:
        """Return whether the forests pay, and begin new sums."""
        s, pays = self.sums, True
        if s[N_ROWS] >= FEW_ROWS:
            deviation = math.sqrt(s[GAIN_SQUARES] / (s[N_BLOCKS] - 1.0))
            bound = s[MEAN_GAIN] + 2.0 * deviation / math.sqrt(s[N_BLOCKS])
            pays = bound >= MIN_RELATIVE_GAIN * s[LOSS] / s[GAIN_WEIGHT] or self.log_odds(is_logistic) >= 0.0
        if not is_logistic:
            s[SCALE] = max(s[SMALLER_SQUARES] / s[GAIN_WEIGHT], 1e-12)
        s[LOSS : GAIN_SQUARES + 1] = 0.0
        return bool(pays)

    # --- answers for later rows -------------------------------------------------------------------------------

    def later_scores(self, columns: np.ndarray) -> np.ndarray:
        """Return the later stacker's scores of rows of columns."""
        return self.later.mean[0] + columns @ self.later.mean[1:]


def mark(k: int) -> int:
    """Return the number of rows after which base and forests are frozen for the k-th time.

    >>> [mark(k) for k in range(4)]
    [100, 133, 178, 237]
    """
    return round(FIRST_MARK * MARK_RATIO**k)


def marks_before(n_rows: float) -> int:
    """Return how many marks the first rows pass."""
    k = 0
    while mark(k) <= n_rows:
        k += 1
    return k


@kernel
def combine(is_logistic, targets, weights, columns, ahead, state, answers):
    """Learn rows in order, and fill in the live answer before each; a row of weight 0 changes nothing.

    columns, ahead: [row, (base, deep, flat)]; `ahead` by the frozen copies, only used for rows of the evidence.
    answers: [row, (mean, noise)] of numbers, [row, (probability of 1, probability of 0)] of two classes.
    """
    sums, shares = state.sums, state.shares
    own = empty(N_INPUTS, np.float64)
    for row in range(targets.size):
        y, c = targets[row], weights[row]
        for k in range(N_COLUMNS):
            own[k] = columns[row, k]
        own[N_COLUMNS] = score(state.live.mean, columns[row])
        mean, rest = 0.0, 0.0
        for k in range(N_INPUTS):
            if is_logistic:
                rest += shares[k] * sigmoid(-own[k])
                own[k] = sigmoid(own[k])
            else:
                rest += shares[k] * state.scales[k]
            mean += shares[k] * own[k]
        answers[row, 0], answers[row, 1] = mean, rest
        if c == 0.0:
            continue
        n_rows = np.int64(sums[N_ROWS])
        if n_rows >= FIRST_MARK and n_rows % stride(n_rows, sums) == 0:
            add_evidence(is_logistic, n_rows, y, c, ahead[row], state)
            learn_stacker(is_logistic, y, c, ahead[row], state.later)
        add_gain(is_logistic, y, c, own[0], mean, sums)
        learn_shares(is_logistic, y, c, own, state)
        learn_stacker(is_logistic, y, c, columns[row], state.live)
        sums[N_ROWS] += 1.0


@kernel
def score(weights, columns):
    total = weights[0]
    for k in range(N_COLUMNS):
        total += weights[k + 1] * columns[k]
    return total


@kernel
def learn_stacker(is_logistic, y, c, columns, stacker):
    mean, covariance, n_rows = stacker.mean, stacker.covariance, stacker.n_rows
    p, h = score(mean, columns), 1.0
    if is_logistic:
        p = sigmoid(p)
        h = max(p * (1.0 - p), 1e-3)
    Px = empty(N_INPUTS, np.float64)
    for i in range(N_INPUTS):
        Px[i] = covariance[i, 0]
        for j in range(N_COLUMNS):
            Px[i] += covariance[i, j + 1] * columns[j]
    gain = c / (1.0 + c * h * (Px[0] + Px[1] * columns[0] + Px[2] * columns[1] + Px[3] * columns[2]))
    grown = 1.0 / (1.0 - 2.0 / (n_rows[0] + 1000.0))
    for i in range(N_INPUTS):
        mean[i] += Px[i] * gain * (y - p)
        for j in range(N_INPUTS):
            covariance[i, j] = (covariance[i, j] - Px[i] * Px[j] * gain * h) * grown
    for i in range(N_INPUTS):
        factor = math.sqrt(min(1.0, PRIOR_VARIANCE / max(covariance[i, i], 1e-300)))
        for j in range(N_INPUTS):
            covariance[i, j] *= factor
            covariance[j, i] *= factor
    n_rows[0] += 1.0


@kernel
def log_likelihood(probability, y):
    p = min(max(probability, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p) if y > 0.0 else math.log(1.0 - p)


@kernel
def learn_shares(is_logistic, y, c, answers, state):
    shares, scales, sums = state.shares, state.scales, state.sums
    logs = empty(N_INPUTS, np.float64)
    for k in range(N_INPUTS):
        if is_logistic:
            gain = log_likelihood(answers[k], y)
        else:
            square, scale = (y - answers[k]) ** 2, scales[k]
            gain = -0.5 * math.log(scale) - 3.0 * math.log1p(square / (5.0 * scale))
            rate = min(c / min(sums[TOTAL_WEIGHT] + 10.0, 5000.0), 1.0)
            scales[k] = max(scale + (square - scale) * rate, 1e-12)
        logs[k] = math.log(shares[k]) + c * gain
    top, total = max(max(logs[0], logs[1]), max(logs[2], logs[3])), 0.0
    for k in range(N_INPUTS):
        shares[k] = math.exp(logs[k] - top)
        total += shares[k]
    leak = max(1.0 / (sums[N_ROWS] + 1.0), MIN_LEAK)
    for k in range(N_INPUTS):
        shares[k] = (1.0 - leak) * shares[k] / total + leak * FIRST_SHARES[k]
    sums[TOTAL_WEIGHT] += c


@kernel
def stride(n_rows, sums):
    return np.int64(sums[EVERY]) * (EVIDENCE_EVERY if n_rows >= FEW_ROWS else 1)


@kernel
def add_evidence(is_logistic, n_rows, y, c, columns, state):
    sums, evidence = state.sums, state.evidence
    base, stacked = columns[0], score(state.later.held, columns)
    if is_logistic:
        base, stacked = sigmoid(base), sigmoid(stacked)
    row = evidence[np.int64(sums[N_EVIDENCE])]
    row[ROW], row[TARGET], row[WEIGHT], row[COUNT] = n_rows, y, c, stride(n_rows, sums)
    row[OF_BASE], row[OF_STACKER] = base, stacked
    sums[N_EVIDENCE] += 1.0
    if sums[N_EVIDENCE] < MAX_EVIDENCE_ROWS:
        return
    sums[EVERY] *= 2.0
    n_kept = 0
    for k in range(MAX_EVIDENCE_ROWS):
        number = np.int64(evidence[k, ROW])
        if number % stride(number, sums) == 0:
            for field in range(N_FIELDS):
                evidence[n_kept, field] = evidence[k, field]
            evidence[n_kept, COUNT] *= 2.0
            n_kept += 1
    for k in range(n_kept, MAX_EVIDENCE_ROWS):
        for field in range(N_FIELDS):
            evidence[k, field] = 0.0
    sums[N_EVIDENCE] = n_kept


@kernel
def add_gain(is_logistic, y, c, base, live, sums):
    if is_logistic:
        of_base, of_live = -log_likelihood(base, y), -log_likelihood(live, y)
    else:
        base_square, live_square, scale = (base - y) ** 2, (live - y) ** 2, 5.0 * sums[SCALE]
        of_base, of_live = 3.0 * math.log1p(base_square / scale), 3.0 * math.log1p(live_square / scale)
        sums[SMALLER_SQUARES] += c * min(base_square, live_square)
    sums[LOSS] += c * of_base
    sums[GAIN_WEIGHT] += c
    sums[BLOCK_GAIN] += c * (of_base - of_live)
    sums[BLOCK_WEIGHT] += c
    if (np.int64(sums[N_ROWS]) + 1) % GAIN_BLOCK_ROWS == 0:
        gain = sums[BLOCK_GAIN] / sums[BLOCK_WEIGHT]
        sums[N_BLOCKS] += 1.0
        change = gain - sums[MEAN_GAIN]
        sums[MEAN_GAIN] += change / sums[N_BLOCKS]
        sums[GAIN_SQUARES] += change * (gain - sums[MEAN_GAIN])
        sums[BLOCK_GAIN], sums[BLOCK_WEIGHT] = 0.0, 0.0
