"""The kernel of a diagonal covariance; the equations are in `learner`."""

from __future__ import annotations

import math

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.gather import scatter_pairs
from bayou.kernels.rounding import add_dithered
from bayou.kernels.vector import LANES, extract_lane, load
from bayou.learners.bases.diagonal import LIMIT_32, LIMIT_64, MEAN_SHIFT, PRECISION_GAIN, read_row, row_scratch
from bayou.learners.joint.peak import newton_peak, taylor_peak


@kernel
def stream(examples, beliefs, taylor, example, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0."""
    state, intercept = beliefs.state, beliefs.intercept
    dtype = state.dtype.type
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    far = math.sqrt(most)
    row = row_scratch(examples.max_row_length, beliefs, beliefs.state.dtype)
    for n in range(examples.indptr.size - 1):
        mean, variance, size, _ = read_row(examples, beliefs, row, n, 1, dtype(1), True)
        score_mean[n], score_variance[n] = mean, variance
        c = np.float64(examples.weights[n])
        if c == 0.0:
            continue
        example += np.uint64(1)
        sign = examples.labels[n]
        label_score, tau = sign * np.float64(mean), c * np.float64(variance)
        pull, r = taylor_peak(label_score, tau) if taylor else newton_peak(label_score, tau)
        slope = dtype(sign * c * pull)
        curve = dtype(c * r)
        for k in range(0, size, LANES):
            x, xv = load(row.xs, k), load(row.xvs, k)
            step = slope * xv
            more = (curve * x) * x / (curve * max(variance - x * xv, 0.0) + 1.0)
            if k == 0:
                intercept[MEAN_SHIFT] = max(min(intercept[MEAN_SHIFT] + extract_lane(step, 0), far), -far)
                intercept[PRECISION_GAIN] += extract_lane(more, 0)
            moved = add_dithered(load(row.means, k), step, row.features, k, example)
            gained = add_dithered(load(row.gains, k), more, row.features, k, example)
            scatter_pairs(state, row.features, k, max(min(moved, far), -far), min(gained, most))
    state[-1] = 0
