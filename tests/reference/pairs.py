"""The bank's lanes of pairs in plain NumPy float64, one example at a time: X, and the factorisation machines P and Q.

The kernels answer to this file; this file answers to ``test_pairs.py``. Pairs are written out one by one, factors as
derivatives of a score that is written as a sum over pairs of features.
"""

from itertools import combinations

import numpy as np

from bayou.learners.bank.crosses import MOST_PAIRS
from bayou.learners.bank.row_scaling import UNIT_FIT_ROWS
from tests.reference.bank import SCALE_FARTHEST, SCALE_STEP, SCALE_VARIANCE, score_step, told, unit_of


class CrossesReference:
    """Lane X. `crossed(g, h)` tells whether features of two groups are; weights go by the set of their features."""

    def __init__(self, crossed=lambda g, h: True, intercept: bool = True):
        self.crossed, self.intercept = crossed, intercept
        self.mean, self.gained = {}, {}
        self.bias, self.bias_gained = 0.0, 0.0
        self.log_scale, self.scale_gained = np.zeros(2), np.zeros(2)
        self.log_lengths = []

    def parts(self, i, x, groups):
        """Of features, then of pairs: the names of their weights and their values, in units of the stream."""
        lengths = self.log_lengths
        if len(lengths) < UNIT_FIT_ROWS and len(i):
            lengths = [*lengths, 0.5 * np.log(np.sum(x**2))]
        x = x * unit_of(lengths)
        pairs = sorted(combinations(range(len(i)), 2), key=lambda pair: (pair[1] - pair[0], pair[0]))
        pairs = [(a, b) for a, b in pairs if self.crossed(groups[a], groups[b])][:MOST_PAIRS]
        return [
            ([(int(k),) for k in i], x),
            ([tuple(sorted((int(i[a]), int(i[b])))) for a, b in pairs], np.array([x[a] * x[b] for a, b in pairs])),
        ]

    def score(self, i, x, groups):
        """Mean and variance of the score, and of each part its names, scaled values, variances and own mean."""
        m, s = self.bias, 1.0 / (1.0 / 3.0 + self.bias_gained) if self.intercept else 0.0
        seen = []
        for part, (names, values) in enumerate(self.parts(i, x, groups)):
            values = np.exp(self.log_scale[part]) * values
            mean = np.array([self.mean.get(name, 0.0) for name in names])
            variance = np.array([1.0 / (10.0 + self.gained.get(name, 0.0)) for name in names])
            own, v_l = float(np.sum(values * mean)), 1.0 / (1.0 / SCALE_VARIANCE + self.scale_gained[part])
            m, s = m + own, s + float(np.sum(values**2 * variance)) + own**2 * v_l
            seen.append((names, values, variance, own, v_l))
        return m, s, seen

    def learn_example(self, i, x, groups, y, weight=1.0):
        m, s, seen = self.score(i, x, groups)
        if weight == 0.0:
            return m, s
        dm, dv = score_step(m, s, y, weight)
        for part, (names, values, variance, own, v_l) in enumerate(seen):
            for name, value, v in zip(names, values, variance, strict=True):
                self.mean[name] = self.mean.get(name, 0.0) + value * v * dm
                self.gained[name] = self.gained.get(name, 0.0) + told(v, value**2 * dv)
            step = np.clip(own * v_l * dm, -SCALE_STEP, SCALE_STEP)
            self.log_scale[part] = np.clip(self.log_scale[part] + step, -SCALE_FARTHEST, SCALE_FARTHEST)
            self.scale_gained[part] += told(v_l, own**2 * dv)
        if self.intercept:
            v = 1.0 / (1.0 / 3.0 + self.bias_gained)
            self.bias, self.bias_gained = self.bias + v * dm, self.bias_gained + told(v, dv)
        if len(self.log_lengths) < UNIT_FIT_ROWS and len(i):
            self.log_lengths.append(0.5 * np.log(np.sum(x**2)))
        return m, s


class FactorsReference:
    """Lane P (`alone`: seven factors and a weight of the feature alone) or Q (eight factors, memory).

    `start(i)` has the signs of a feature's factors, `signs[g, h]` those of a pair of groups.
    """

    def __init__(self, start, signs, ratio_variance, alone, memory=0.0, intercept=True):
        self.start, self.signs, self.ratio_variance = start, signs, ratio_variance
        self.alone, self.memory, self.intercept = alone, memory, intercept and alone
        self.a, self.p, self.w, self.g = {}, {}, {}, {}
        self.ratio, self.k = np.ones(signs.shape[:2]), np.zeros(signs.shape[:2])
        self.bias, self.bias_gained = 0.0, 0.0
        self.log_lengths = []

    def score(self, i, x, groups):
        lengths = self.log_lengths
        if len(lengths) < UNIT_FIT_ROWS and len(i):
            lengths = [*lengths, 0.5 * np.log(np.sum(x**2))]
        t = x * np.exp(-np.mean(lengths)) if lengths else x
        a = [self.a.get(int(k), self.start(int(k))) for k in i]
        v = [1.0 / (0.1 + self.p.get(int(k), np.zeros(len(row)))) for k, row in zip(i, a, strict=True)]
        slopes, products = [np.zeros(len(row)) for row in a], np.zeros_like(self.ratio)
        for one, other in combinations(range(len(i)), 2):
            g, h = groups[one], groups[other]
            c = self.signs[g, h] * t[one] * t[other]
            product = float(np.sum(c * a[one] * a[other]))
            products[min(g, h), max(g, h)] += product
            r = self.ratio[min(g, h), max(g, h)]
            slopes[one] += r * c * a[other]
            slopes[other] += r * c * a[one]
        m = float(np.sum(self.ratio * products))
        s = float(np.sum(products**2 / (1.0 / self.ratio_variance + self.k)))
        s += sum(float(np.sum(j**2 * each)) for j, each in zip(slopes, v, strict=True))
        if self.alone:
            m += self.bias + sum(value * self.w.get(int(k), 0.0) for k, value in zip(i, x, strict=True))
            s += sum(value**2 / (1.0 + self.g.get(int(k), 0.0)) for k, value in zip(i, x, strict=True))
            s += 1.0 / (1.0 / 3.0 + self.bias_gained) if self.intercept else 0.0
        return m, s, (a, v, slopes, products)

    def learn_example(self, i, x, groups, y, weight=1.0):
        m, s, (a, v, slopes, products) = self.score(i, x, groups)
        if weight == 0.0:
            return m, s
        dm, dv = score_step(m, s, y, weight, temper_update=0.3)
        for k, value, means, variance, j in zip(i.tolist(), x, a, v, slopes, strict=True):
            self.a[k] = means + j * variance * dm
            gained = self.p.get(k, np.zeros(len(means))) + told(variance, j**2 * dv)
            self.p[k] = np.maximum((0.1 + gained) / (1.0 + self.memory) - 0.1, 0.0)
            if self.alone:
                own = 1.0 / (1.0 + self.g.get(k, 0.0))
                self.w[k] = self.w.get(k, 0.0) + value * own * dm
                self.g[k] = self.g.get(k, 0.0) + told(own, value**2 * dv)
        unsure = 1.0 / (1.0 / self.ratio_variance + self.k)
        self.ratio, self.k = self.ratio + products * unsure * dm, self.k + told(unsure, products**2 * dv)
        if self.intercept:
            own = 1.0 / (1.0 / 3.0 + self.bias_gained)
            self.bias, self.bias_gained = self.bias + own * dm, self.bias_gained + told(own, dv)
        if len(self.log_lengths) < UNIT_FIT_ROWS and len(i):
            self.log_lengths.append(0.5 * np.log(np.sum(x**2)))
        return m, s
