"""Split of a prediction's uncertainty into a part that more examples could remove and a part that they could not.

The posterior of an example's score z is N(m, s^2); given z, the label is positive with probability F(z). With the
entropy H(p) = -p ln p - (1 - p) ln(1 - p) and means over z,

    total      H(E F(z))               the expected loss of this prediction
    aleatoric  E H(F(z))               what remains once the weights are known: noise in the label itself
    epistemic  total - aleatoric       the cost of not knowing the weights: the mutual information of label and weights

All in nats, the unit of the log loss. Epistemic uncertainty is never negative (H is concave), and goes to 0 as the
posterior narrows. The split is that of Houlsby et al. 2011 (BALD) and Depeweg et al. 2018. Both parts assume that the
model is right; if it is misspecified, the actual loss is larger than the total.

For multiclass, every class has its own score. The probabilities of all classes are sampled jointly and normalized to
estimate the epistemic part; the total is the entropy of the prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from bayou.core import links

# Points of the trapezoid rule, from 8 standard deviations below the mean to 8 above. H(F(z)) is smooth and as wide as a
# few units of z, so this is exact to nine digits up to s = 5, and to two per cent up to s = 50 (tests).
_POINTS = np.linspace(-8.0, 8.0, 257)
_MASS = np.exp(-(_POINTS**2) / 2)
_MASS /= _MASS.sum()
_ROWS = 2048  # per chunk
_DRAWS = 32  # for multiclass


class UncertaintySplit(NamedTuple):
    """Two parts of the uncertainty of each prediction, in nats."""

    aleatoric: np.ndarray
    epistemic: np.ndarray


def split(mean: np.ndarray, variance: np.ndarray, link: str = "logistic") -> UncertaintySplit:
    """Split the uncertainty of predictions whose scores have these means and variances.

    >>> chance, ignorance = split(np.zeros(3), np.array([0.0, 1.0, 400.0]))
    >>> chance.round(3), ignorance.round(3)  # a coin; perhaps a coin; heads or tails for sure, but which?
    (array([0.693, 0.599, 0.065]), array([0.   , 0.094, 0.628]))
    """
    record = links.find(link)
    chunks = [_split(mean[k : k + _ROWS], variance[k : k + _ROWS], record) for k in range(0, max(len(mean), 1), _ROWS)]
    return UncertaintySplit(*np.concatenate(chunks, axis=1))


def split_classes(probability: np.ndarray, mean: np.ndarray, variance: np.ndarray | None) -> UncertaintySplit:
    """Split the uncertainty of multiclass predictions of shape (rows, classes); all aleatoric if variance is None.

    >>> coin, sure = np.array([[0.5, 0.5]]), np.zeros((1, 2))
    >>> known, unknown = split_classes(coin, sure, sure), split_classes(coin, sure, sure + 400.0)
    >>> known.aleatoric.round(3), known.epistemic.round(3), bool(unknown.epistemic[0] > 0.3)
    (array([0.693]), array([0.]), True)
    """
    total = entr(probability).sum(axis=1)
    if variance is None:
        return UncertaintySplit(total, np.zeros(len(total)))
    drawn_entropy, drawn_mean = np.zeros(len(total)), np.zeros(probability.shape)
    random = np.random.default_rng(0)
    for _ in range(_DRAWS):
        chance = expit(mean + np.sqrt(variance) * random.standard_normal(mean.shape)) * (probability > 0.0) + 1e-300
        chance /= chance.sum(axis=1, keepdims=True)
        drawn_mean += chance / _DRAWS
        drawn_entropy += entr(chance).sum(axis=1) / _DRAWS
    epistemic = np.clip(entr(drawn_mean).sum(axis=1) - drawn_entropy, 0.0, total)
    return UncertaintySplit(total - epistemic, epistemic)


def _split(mean: np.ndarray, variance: np.ndarray, link: links.Link) -> np.ndarray:
    scores = mean[:, None] + np.sqrt(variance)[:, None] * _POINTS
    positive, negative = link.cdf(scores), link.negative_cdf(scores)
    aleatoric = (entr(positive) + entr(negative)) @ _MASS
    total = entr(positive @ _MASS) + entr(negative @ _MASS)
    return np.stack([aleatoric, np.maximum(total - aleatoric, 0.0)])
