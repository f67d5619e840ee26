"""The facts of `common.LINKS` again, from scipy: what the references of the links and of the rules are held to."""

import numpy as np
from scipy import special

CDF = {"logistic": special.expit, "probit": special.ndtr}
LOG_CDF = {"logistic": special.log_expit, "probit": special.log_ndtr}
SLOPE = {
    "logistic": lambda z: special.expit(-z),
    "probit": lambda z: np.exp(-(z**2) / 2 - np.log(2 * np.pi) / 2 - special.log_ndtr(z)),
}
# C: averaging over a normal score of variance v divides the score by sqrt(1 + C v).
C = {"logistic": np.pi / 8, "probit": 1.0}
