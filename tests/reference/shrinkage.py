"""The online Bayesian lasso (oslog, Algorithm 1, corrected) in plain NumPy, from all rows anew after every example."""

import numpy as np


class Shrinkage:
    """What `bayou.learners.shrinkage` answers to. `intercept` is "centring", "column" or None."""

    def __init__(self, n_features, penalty=1.0, iterations=1, floor=1e-6, ramp=0, intercept="centring"):
        self.penalty, self.iterations, self.floor, self.ramp = penalty, iterations, floor, ramp
        self.intercept = intercept
        self.size = n_features + (intercept == "column")
        self.w, self.d = np.zeros(self.size), np.ones(self.size)
        self.rows, self.labels, self.weights = np.zeros((0, self.size)), np.zeros(0), np.zeros(0)
        self.squares, self.weight, self.began = 0.0, 0.0, False

    @property
    def a(self):
        """The penalty: a t / T up to example T."""
        t = max(len(self.labels), 1)
        return self.penalty * (min(t / self.ramp, 1.0) if self.ramp else 1.0)

    @property
    def noise(self):
        return (1e-6 + self.squares) / (1e-6 + self.weight)

    def means(self):
        """Of the rows and labels so far, which centring takes away; and how sure that is."""
        if self.intercept != "centring":
            return np.zeros(self.size), 0.0, 0.0
        if not len(self.labels):
            return np.zeros(self.size), 0.0, 1e6
        total = self.weights.sum()
        return self.weights @ self.rows / total, self.weights @ self.labels / total, 1.0 / total

    def predict(self, x):
        """(mean, x'A^-1 x), Theorem 1 with its variance put right."""
        x = np.append(x, 1.0) if self.intercept == "column" else np.asarray(x, float)
        middle, label, doubt = self.means()
        x = x - middle
        rows = self.rows - middle
        A = rows.T @ (self.weights[:, None] * rows) + self.a * np.diag(1.0 / self.d)
        return label + self.w @ x, x @ np.linalg.solve(A, x) + doubt

    def learn(self, x, y, c=1.0):
        """(mean, variance of the mean, noise) predicted; then learned."""
        mean, spread = self.predict(x)
        told = mean, self.noise * spread, self.noise
        if c == 0:
            return told
        self.squares += c * (y - mean) ** 2 / (1 + c * spread)
        self.weight += c
        x = np.append(x, 1.0) if self.intercept == "column" else np.asarray(x, float)
        self.rows, self.labels = np.vstack([self.rows, x]), np.append(self.labels, y)
        self.weights = np.append(self.weights, c)
        middle, label, _ = self.means()
        rows = self.rows - middle
        M, b = rows.T @ (self.weights[:, None] * rows), rows.T @ (self.weights * (self.labels - label))
        for _ in range(self.iterations):
            d = np.maximum(np.abs(self.w), self.floor) if self.began else np.ones(self.size)
            w = np.linalg.solve(M + self.a * np.diag(1.0 / d), b)
            w[np.abs(w) <= self.floor] = 0.0
            self.began |= w.any()
            if self.began:  # before that nothing is known, and d stays 1
                self.w, self.d = w, d
        return told
