"""The vectorized kernel of the first pass; the equations are in `learner`."""

from __future__ import annotations

import math

import numpy as np

from bayou.core import links
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import POWERS_32, POWERS_64, exp2_within
from bayou.kernels.gather import gather_sums, prefetch, scatter_add_half
from bayou.kernels.row_layout import copy_row, padded_row_length, prefetch_start
from bayou.kernels.vector import LANES, broadcast, extract_lane, load, replace_lane, sqrt, store, sum_lanes, where_above
from bayou.learners.spike_slab.weights import (
    COLUMNS,
    COUNT,
    LEAST_VARIANCE,
    LONGEST_ODDS,
    MOST,
    MOST_REPEATS,
    NATURAL_MEAN,
    NEGATIVE,
    PRECISION,
    intercept_posterior,
)

LOG2E = 1.0 / math.log(2.0)
# Non-zeros between a row and the one whose weights are prefetched: about two rows of forty.
AHEAD = 80


@kernel
def stream(examples, weights, example, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0.

    A row is laid out in vectors of LANES slots; slot 0 is the intercept, and slots after the last feature have x = 0:

        slot       0           1          2         ...
        features   spare       feature    feature         rows of the state, whose columns are those of `weights`
        xs         1 or 0      x          x               values
        slabs      variance of the slab part                theres   its mean
        powers     log2 of the odds' exponential            roots    their factor
        means, variances                                    of the weight, slab and spike combined

    An example of weight c > 1 is learned `repeats` times, each time with a share of its weight.
    """
    state, intercept, selects = weights.state, weights.intercept, weights.selects
    inclusion_prior, slab_variance = weights.inclusion_prior, weights.slab_variance
    dtype = state.dtype.type
    spare = np.uint32(len(state) - 1)
    room = padded_row_length(examples.max_row_length)
    numbers, features = zeros((7, room), state.dtype), zeros(room, np.uint32)
    xs, means, variances, slabs = numbers[0], numbers[1], numbers[2], numbers[3]
    theres, powers, roots = numbers[4], numbers[5], numbers[6]
    xs[0], features[0] = weights.has_intercept, spare
    zero = broadcast(load(xs, 0), 0.0)
    most = dtype(MOST)
    far = math.sqrt(most)
    lowest = dtype(POWERS_32[0] if state.itemsize == 4 else POWERS_64[0])
    precision_0 = dtype(1.0 / slab_variance)
    # exp(-log-odds) = odds sqrt(Lr + 1/tau0) exp(-Lh mt / 2)
    odds = dtype((1.0 - inclusion_prior) / inclusion_prior * math.sqrt(slab_variance))
    for row in range(examples.indptr.size - 1):
        size = copy_row(examples, row, 1, xs, features, spare)
        ahead = prefetch_start(examples, row, size, AHEAD)
        c = examples.weights[row]
        sign, half = (1.0, 0) if examples.labels[row] > 0 else (-1.0, 1)
        repeats = 1 if c <= 1.0 else int(min(math.ceil(c), MOST_REPEATS))
        share = dtype(c / repeats)
        example += np.uint64(c != 0.0)
        for repeat in range(repeats):
            fetch = repeat == 0 and ahead >= 0
            bias, bias_variance = intercept_posterior(weights)
            m = s2 = chosen_m = chosen_s2 = zero
            # Phase 1: gather the sums of factors, and compute the slab part of each posterior.
            for k in range(0, size, LANES):
                if fetch:
                    for lane in range(LANES):
                        prefetch(state, np.intp(examples.indices[ahead + k + lane]) * COLUMNS)
                precision, shift = gather_sums(state, features, k)
                precision = precision + precision_0
                slab = 1.0 / precision
                there = min(max(slab * shift, -far), far)
                store(slabs, k, slab)
                store(theres, k, there)
                store(powers, k, max(shift * there * (-0.5 * LOG2E), lowest))
                store(roots, k, sqrt(precision) * odds)
            # Phase 2: inclusion, mean and variance of each weight, and their sums over the row. A separate loop:
            # short chains of operations overlap with their neighbors better than a long one.
            for k in range(0, size, LANES):
                x, slab, there = load(xs, k), load(slabs, k), load(theres, k)
                against = min(load(roots, k) * exp2_within(load(powers, k)), LONGEST_ODDS)
                inclusion = 1.0 / (against + 1.0)
                mean = inclusion * there
                variance = max(inclusion * (slab + (against * inclusion) * (there * there)), LEAST_VARIANCE)
                if k == 0:
                    mean = replace_lane(mean, 0, bias)
                    variance = replace_lane(variance, 0, bias_variance)
                    against = replace_lane(against, 0, 0.0)
                xm, xxv = x * mean, x * (x * variance)
                m = m + xm
                s2 = s2 + xxv
                if selects:
                    chosen = 1.0 - against
                    chosen_m = chosen_m + where_above(chosen, 0.0, xm, zero)
                    chosen_s2 = chosen_s2 + where_above(chosen, 0.0, xxv, zero)
                store(means, k, mean)
                store(variances, k, variance)
            # Phase 3: predict.
            if repeat == 0:
                score_mean[row] = sum_lanes(chosen_m) if selects else sum_lanes(m)
                score_variance[row] = sum_lanes(chosen_s2) if selects else sum_lanes(s2)
            if c == 0.0:
                break

            others = sum_lanes(s2)
            spread = math.sqrt(1.0 + np.float64(others))
            slope, curvature = links.slope_and_curvature(links.PROBIT, sign * np.float64(sum_lanes(m)) / spread)
            pull = dtype(sign * slope * spread)
            bend, rest = dtype(curvature), dtype(1.0 - curvature)
            count = example + np.uint64(repeat << 24)
            # Phase 4: compute the example's factor for each weight, and add it to the sums of its class.
            for k in range(0, size, LANES):
                x, mean = load(xs, k), load(means, k)
                xx = x * x
                own = xx * load(variances, k)
                d = 1.0 / ((max(others - own, 0.0) + own * rest) + 1.0)
                precision = xx * bend * d
                shift, push = mean * precision, x * pull * d
                if state.itemsize == 4:  # in float64 no product of valid inputs overflows
                    shift, push = min(max(shift, -most), most), min(max(push, -most), most)
                shift = shift + push
                precision, shift = precision * share, shift * share
                if k == 0 and weights.has_intercept:
                    column = NEGATIVE * half
                    intercept[column + PRECISION] = min(
                        intercept[column + PRECISION] + extract_lane(precision, 0), MOST
                    )
                    intercept[column + NATURAL_MEAN] = max(
                        min(intercept[column + NATURAL_MEAN] + extract_lane(shift, 0), MOST), -MOST
                    )
                    intercept[column + COUNT] += share
                scatter_add_half(state, features, k, half, precision, shift, share, most, count)
    state[spare] = 0
