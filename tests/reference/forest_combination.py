"""A base learner and its forests, combined by evidence, in plain NumPy float64: what stands above `forest`.

A row has m columns: the base's answer and the outputs of the forests. For numbers they are means in standard units,
for two classes log-odds, for several classes K numbers each, centered (base: log probabilities). Two answers are made
of them:

- **live**, for the row that is learned next: a stacker of the columns, and a fixed share over columns and stacker;
- **frozen**, for rows after learning has stopped: a mixture of the base and a stacker that has learned nothing but what
  copies frozen at earlier rows predict ahead, by the evidence of those rows.

The base is whatever the caller has: its answers come as arrays.
"""

import math

import numpy as np

from tests.reference.common import sigmoid
from tests.reference.forest import (
    DEEP_CLASSES,
    DEEP_NUMBERS,
    DEEP_STREAM,
    FEW_ROWS,
    FIRST_REFIT,
    FLAT,
    FLAT_STREAM,
    RING,
    SEVERAL_CLASSES,
    Numbers,
    RollingForest,
)

MAX_EVIDENCE_ROWS = 20_480
EVIDENCE_EVERY = 8
LEAST_PROBABILITY = 1e-6


def student_log_density(squared_error, s2):
    """Of 5 degrees of freedom and scale sqrt(s2), but for a constant."""
    return -0.5 * np.log(s2) - 3.0 * np.log1p(squared_error / (5.0 * s2))


def log_likelihood(task, answers, targets):
    """The log probability of the label: answers and targets are [.., K]; two classes have K = 1."""
    p = np.clip(answers, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    if task.n_outputs == 1:
        p = np.where(targets > 0, p, 1.0 - p)
        return np.log(p[..., 0])
    return np.log(np.sum(p * targets, axis=-1))


def is_numbers(task) -> bool:
    return type(task) is Numbers


# ----------------------------------------------------------------------------------------------------
# Live
# ----------------------------------------------------------------------------------------------------


class Stacker:
    """Bayesian least squares or logistic regression of y on (1, base, forests), one row after another.

    Prior mean (0, 1, 0, 0), variances .01 (intercept) and .2. With score q = x'Px, noise variance 1:

        w += c e/(1 + c h q) P x        P -= c h/(1 + c h q) P x x'P        h = 1, or p (1 - p)

    then P grows by 1/(1 - 2/(t + 1000)), and no variance beyond `cap`: it forgets slowly.
    """

    def __init__(self, task, n_columns: int, cap: float = 0.2, memory: float = 1000.0):
        self.task, self.cap, self.memory, self.n_rows = task, cap, memory, 0
        self.w = np.zeros(1 + n_columns)
        self.w[1] = 1.0
        self.P = np.diag([0.01] + [0.2] * n_columns)
        self.held = self.w

    def hold(self) -> None:
        """Keep the weights as they are now, for `held_score`."""
        self.held = self.w.copy()

    @staticmethod
    def features(columns):
        return np.concatenate([np.ones_like(columns[:1]), columns])  # [1 + m, K]

    def score(self, columns) -> np.ndarray:
        return self.w @ self.features(columns)

    def held_score(self, columns) -> np.ndarray:
        return self.held @ self.features(columns)

    def learn(self, columns, target, c: float) -> None:
        x = self.features(columns)[:, 0]
        p = self.task.expected(self.w @ x)
        h = float(self.task.curvature(p, 1e-3))
        Px = self.P @ x
        gain = c / (1.0 + c * h * (x @ Px))
        self.w = self.w + Px * gain * (target[0] - p)
        self.P = self.P - np.outer(Px, Px) * gain * h
        self._forget()

    def _forget(self) -> None:
        self.P = self.P / (1.0 - 2.0 / (self.n_rows + self.memory))
        self.n_rows += 1
        shrink = np.sqrt(np.minimum(1.0, self.cap / np.maximum(np.diag(self.P), 1e-300)))
        self.P = self.P * shrink[:, None] * shrink


class SoftmaxStacker(Stacker):
    """Softmax regression with one weight for each column, shared by the classes: prior mean (1, 0), variances .2.

    A = sum p_k (x_k - mean)(x_k - mean)' over classes is the curvature, x_y - mean the slope.
    """

    def __init__(self, task, n_columns: int, cap: float = 0.2, memory: float = 1000.0):
        super().__init__(task, n_columns, cap, memory)
        self.w, self.P = self.w[1:], self.P[1:, 1:]
        self.held = self.w

    @staticmethod
    def features(columns):
        return columns  # [m, K]

    def learn(self, columns, target, c: float) -> None:
        p = self.task.expected(self.w @ columns)
        centered = columns - (columns @ p)[:, None]
        A = (centered * p) @ centered.T
        self.P = np.linalg.solve(np.eye(len(self.w)) + c * self.P @ A, self.P)
        self.w = self.w + self.P @ (c * centered @ target)
        self._forget()


class Shares:
    """A fixed share over the answers of base, forests and stacker: from 1/2 for the base, the rest in equal parts.

    Shares are multiplied by the likelihood of the label (numbers: Student's t of 5 degrees, about each column's own
    running squared error), then a part max(1/(t + 1), 1e-4) goes back to where they began.
    """

    def __init__(self, task, n_columns: int):
        self.task, self.n_rows, self.weight = task, 0, 0.0
        self.first = np.array([0.5] + [0.5 / (n_columns - 1)] * (n_columns - 1))
        self.shares = self.first.copy()
        self.scale = np.full(n_columns, 0.1)

    def mix(self, answers) -> np.ndarray:
        """answers is [m, K]: means or probabilities."""
        return self.shares @ answers

    def learn(self, answers, target, c: float) -> None:
        if is_numbers(self.task):
            squares = ((target - answers) ** 2)[:, 0]
            log_likelihoods = student_log_density(squares, self.scale)
            self.scale = self.scale + (squares - self.scale) * min(c / min(self.weight + 10.0, 5000.0), 1.0)
            self.scale = np.maximum(self.scale, 1e-12)
        else:
            log_likelihoods = log_likelihood(self.task, answers, target)
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares) + c * log_likelihoods
        shares = np.exp(logs - np.max(logs))
        back = max(1.0 / (self.n_rows + 1.0), 1e-4)
        self.shares = (1.0 - back) * shares / np.sum(shares) + back * self.first
        self.n_rows, self.weight = self.n_rows + 1, self.weight + c


# ----------------------------------------------------------------------------------------------------
# Frozen
# ----------------------------------------------------------------------------------------------------


def mark(k: int) -> int:
    """The learned rows 100, 133, 178, 237, ... after which base and forests are frozen."""
    return round(100 * (4 / 3) ** k)


class Evidence:
    """Rows after the first mark, with what frozen copies predicted for them: all below row 4,096, then every eighth.

    Those of every eighth count eight times. Once there are 20,480, every second goes, and those left and all later ones
    count double.
    """

    def __init__(self):
        self.every, self.rows = 1, []  # of (row, target, c, count, columns[m, K], base answer, stacked answer)

    def wants(self, row: int) -> bool:
        return row >= mark(0) and row % self._stride(row) == 0

    def _stride(self, row: int) -> int:
        return self.every * (EVIDENCE_EVERY if row >= FEW_ROWS else 1)

    def add(self, row, target, c, columns, base, stacked) -> None:
        self.rows.append((row, target, c, self._stride(row), columns, base, stacked))
        if len(self.rows) >= MAX_EVIDENCE_ROWS:
            self.every *= 2
            rows = [row for row in self.rows if row[0] % self._stride(row[0]) == 0]
            self.rows = [(*row[:3], 2 * row[3], *row[4:]) for row in rows]

    def column(self, k: int) -> np.ndarray:
        return np.array([row[k] for row in self.rows])

    def log_odds(self, task, n_rows: int) -> float:
        """g = sum w (log density of stacked - of base)/5 - 3; w = row/n times the row's count and weight."""
        if not self.rows:
            return -3.0
        row, target, c, count, _, base, stacked = (self.column(k) for k in range(7))
        w = row / n_rows * c * count
        if is_numbers(task):
            squares = ((np.stack([base, stacked]) - target) ** 2)[..., 0]
            s2 = max(np.sum(w * np.min(squares, axis=0)) / np.sum(w), 1e-300)
            of_base, of_stacked = student_log_density(squares, s2)
        else:
            of_base, of_stacked = log_likelihood(task, base, target), log_likelihood(task, stacked, target)
        return float(np.sum(w * (of_stacked - of_base)) / 5.0 - 3.0)


class Gain:
    """What the forest takes off the base's live loss, over rows r/2 to r at r = 4,096, 8,192, ...

    It does not pay if the mean gain + 2 standard errors (from means of blocks of 64 rows) is below .4 % of the base's
    mean loss, and the evidence is against it (g < 0). Losses of numbers are 3 log(1 + e^2/(5 s2)), s2 the mean of the
    smaller squared errors in the rows before, so that no row has to be kept.
    """

    def __init__(self, task):
        self.task, self.n_rows, self.s2 = task, 0, 1.0
        self._start()

    def _start(self):
        self.losses, self.squares, self.weight, self.block, self.blocks = 0.0, 0.0, 0.0, np.zeros(2), []

    def add(self, base, live, target, c: float) -> None:
        if is_numbers(self.task):
            squares = ((np.stack([base, live]) - target) ** 2)[:, 0]
            of_base, of_live = 3.0 * np.log1p(squares / (5.0 * self.s2))
            self.squares += c * np.min(squares)
        else:
            of_base, of_live = -log_likelihood(self.task, base, target), -log_likelihood(self.task, live, target)
        self.losses, self.weight = self.losses + c * of_base, self.weight + c
        self.block += c * np.array([of_base - of_live, 1.0])
        self.n_rows += 1
        if self.n_rows % 64 == 0:
            self.blocks.append(self.block[0] / self.block[1])
            self.block = np.zeros(2)

    def is_due(self) -> bool:
        """Whether r is 64 times a power of two: there the sums are judged, if r >= 4,096, and start again."""
        return self.n_rows >= 64 and self.n_rows & (self.n_rows - 1) == 0

    def pays(self, log_odds: float) -> bool:
        blocks = np.array(self.blocks)
        bound = np.mean(blocks) + 2.0 * np.std(blocks, ddof=1) / math.sqrt(len(blocks)) if len(blocks) > 1 else math.inf
        result = self.n_rows < FEW_ROWS or bound >= 0.004 * self.losses / self.weight or log_odds >= 0
        if is_numbers(self.task):
            self.s2 = max(self.squares / self.weight, 1e-12)
        self._start()
        return bool(result)


# ----------------------------------------------------------------------------------------------------
# The whole
# ----------------------------------------------------------------------------------------------------


class Scale:
    """Labels of numbers in standard units: by mean and deviation of the rows before the first refit."""

    def __init__(self, y, c):
        y, c = np.asarray(y, float), np.asarray(c, float)
        self.mean = float(np.sum(c * y) / np.sum(c))
        deviation = float(np.sqrt(np.sum(c * (y - self.mean) ** 2) / np.sum(c)))
        self.unit = deviation if deviation > 0 and math.isfinite(deviation) else 1.0

    def standard(self, values):
        return (values - self.mean) / self.unit

    def original(self, values):
        return values * self.unit + self.mean


class Unscaled:
    """Labels and log-odds of classes."""

    def standard(self, values):
        return values

    def original(self, values):
        return values


class Combination:
    """Forests over one base: the state from its own first row on. Rows are standardized and have weights > 0."""

    def __init__(self, task, n_columns: int, seed: int = 0, ring: int = RING, settings=None):
        several = task.n_outputs > 1
        if settings is None:
            settings = [SEVERAL_CLASSES] if several else [DEEP_NUMBERS if is_numbers(task) else DEEP_CLASSES, FLAT]
        streams = (DEEP_STREAM, FLAT_STREAM)
        self.task, self.n_rows = task, 0
        self.forests = [
            RollingForest(task, s, n_columns, seed, stream, ring) for s, stream in zip(settings, streams, strict=False)
        ]
        m, stacker = 1 + len(self.forests), SoftmaxStacker if several else Stacker
        self.stacker, self.ahead_stacker = stacker(task, m), stacker(task, m)
        self.shares, self.gain = Shares(task, m + 1), Gain(task)
        self.evidence, self.n_marks, self.copies = Evidence(), 0, []

    def columns_of(self, base, outputs) -> np.ndarray:
        """[m, K]; of several classes centered."""
        columns = np.stack([base, *outputs])
        return columns - np.mean(columns, axis=1, keepdims=True) if self.task.n_outputs > 1 else columns

    def learn(self, codes, base, base_ahead, target, c: float) -> np.ndarray:
        """Learn a row; the live answer before. `base_ahead`: the base's copy, frozen at the last mark."""
        expected, label = self.task.expected, self._label(target)
        if self.evidence.wants(self.n_rows):
            columns = self.columns_of(base_ahead, [trees.outputs(codes[None])[0] for trees in self.copies])
            answers = expected(columns[0]), expected(self.ahead_stacker.held_score(columns))
            self.evidence.add(self.n_rows, target, c, columns, *answers)
            self.ahead_stacker.learn(columns, target, c)
        columns = self.columns_of(base, [forest.learn(codes, label, c) for forest in self.forests])
        answers, live = self._live(columns)
        self.gain.add(answers[0], live, target, c)
        self.shares.learn(answers, target, c)
        self.stacker.learn(columns, target, c)
        self.n_rows += 1
        if self.n_rows == mark(self.n_marks):
            self.n_marks += 1
            self.copies = [forest.trees() for forest in self.forests]
            self.ahead_stacker.hold()
        return live

    def _live(self, columns):
        """Answers of the columns and of the stacker, and the mixture of them."""
        answers = self.task.expected(np.concatenate([columns, [self.stacker.score(columns)]]))
        return answers, self.shares.mix(answers)

    def next(self, codes, base) -> np.ndarray:
        """The live answer of a row that is not learned."""
        return self._live(self.columns_of(base, [forest.outputs(codes[None])[0] for forest in self.forests]))[1]

    def _label(self, target):
        return target[0] if self.task.n_outputs == 1 else int(np.argmax(target))

    def log_odds(self) -> float:
        """g, of the stacker against the base, on later rows."""
        return self.evidence.log_odds(self.task, max(self.n_rows, 1))

    def share(self) -> float:
        return float(sigmoid(self.log_odds()))

    def later_columns(self, codes, base) -> np.ndarray:
        """[row, m, K] of later rows."""
        outputs = [forest.outputs(codes) for forest in self.forests]
        return np.array([self.columns_of(b, z) for b, z in zip(base, zip(*outputs, strict=True), strict=True)])

    def later(self, codes, base) -> np.ndarray:
        """The frozen answer of later rows, [row, K]: (1 - s) base + s stacked."""
        columns, s = self.later_columns(codes, base), self.share()
        stacked = self.task.expected(np.array([self.ahead_stacker.score(row) for row in columns]))
        return (1.0 - s) * self.task.expected(columns[:, 0]) + s * stacked


class ForestReference:
    """Forests over a base: begins after 64 rows, is dropped where it does not pay, tried again at four times the rows.

    Answers of the base are means of numbers, log-odds of two classes, log probabilities of several. `base_ahead` are
    those of its copy frozen at the last mark; only those of rows that `Evidence.wants` are used.
    """

    def __init__(self, task, n_columns: int, seed: int = 0, ring: int = RING, settings=None, drops: bool = True):
        self.task, self.drops = task, drops
        self.new = lambda: Combination(task, n_columns, seed, ring, settings)
        self.scale = None
        self.n_rows, self.start, self.starts = 0, 0, []
        self.pending, self.combination = [], None
        self.is_running = True

    def learn(self, codes, y, base, base_ahead=None, weights=None) -> np.ndarray:
        """Learn rows; the live answers before each, as means or probabilities, [row, K]."""
        base = np.asarray(base, float).reshape(len(y), -1)
        base_ahead = base if base_ahead is None else np.asarray(base_ahead, float).reshape(len(y), -1)
        weights = np.ones(len(y)) if weights is None else weights
        return np.array([self._learn_row(*row) for row in zip(codes, y, base, base_ahead, weights, strict=True)])

    def _learn_row(self, codes, y, base, base_ahead, c: float) -> np.ndarray:
        if c == 0.0:
            return self._predict_next(codes, base)
        row, answer = (codes, y, base, base_ahead, c), self.task.expected(base)
        if self.is_running and self.combination is None:
            self.pending.append(row)
            if len(self.pending) == FIRST_REFIT:
                self._begin()
        elif self.is_running:
            answer = self._learn_combined(*row)
        self.n_rows += 1
        if not self.is_running and self.n_rows == self.start:
            self.is_running = True
        elif self.combination is not None and self.combination.gain.is_due():
            self._judge()
        return answer

    def _begin(self) -> None:
        """Learn the rows before the first refit, whose labels tell the scale; the base has answered for them."""
        if self.scale is None:
            scaled = is_numbers(self.task)
            self.scale = Scale([r[1] for r in self.pending], [r[4] for r in self.pending]) if scaled else Unscaled()
        self.combination, pending, self.pending = self.new(), self.pending, []
        for row in pending:
            self._learn_combined(*row)

    def _learn_combined(self, codes, y, base, base_ahead, c: float) -> np.ndarray:
        standard = self.scale.standard
        target = standard(self.task.targets(y)[0])
        return self.scale.original(self.combination.learn(codes, standard(base), standard(base_ahead), target, c))

    def _predict_next(self, codes, base) -> np.ndarray:
        if self.combination is None:
            return self.task.expected(base)
        return self.scale.original(self.combination.next(codes, self.scale.standard(base)))

    def _judge(self) -> None:
        if self.combination.gain.pays(self.combination.log_odds()) or not self.drops:
            return
        ran = self.combination.n_rows
        self.start = 4 * self.n_rows if not self.starts else 4 * self.start + ran
        self.starts.append(self.start)
        self.combination, self.is_running = None, False

    def later(self, codes, base) -> np.ndarray:
        """The answers for later rows, as means or probabilities, [row, K]; `base`: the base's, for later rows."""
        base = np.asarray(base, float).reshape(len(codes), -1)
        if self.combination is None:
            return self.task.expected(base)
        return self.scale.original(self.combination.later(codes, self.scale.standard(base)))
