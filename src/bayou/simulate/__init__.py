"""Streams with known true weights: the generators of marginal-gaussian, section 4 and appendix E.

    random       each of d features is active with the same probability, independently; values 1
    nonbinary    like `random`, with values uniform in [0, 1]
    categorical  some features drawn from each of several categories, evenly or with weights exp(-n / decay)
    longtail     one feature from each of 22 categories of 2^j features, by Zipf's law: 8,388,606 features
    groups       like `random`, with different standard deviations of the true weights for groups of features

True weights are normal or uniform around 0. Labels follow P(y = 1) = F(sum_i x_i w_i), F logistic or probit.

**Example t of a seed is always the same**, regardless of the batch size and of where a stream starts, so a stream can
be cut, resumed and shared among workers. Each example has its own splitmix64 sequence of random numbers, which starts
at a hash of (seed, t). The true weights come from NumPy's generator with the same seed.

>>> stream = random(n_features=200, active=0.1, seed=7)
>>> whole = next(stream.batches(100))
>>> later = next(stream.batches(40, start=60))
>>> bool((later.indices == whole[60:].indices).all() and (later.labels == whole[60:].labels).all())
True
"""

from bayou.simulate.generators import GENERATORS, categorical, groups, longtail, nonbinary, random
from bayou.simulate.stream import BATCH_SIZE, Simulation

__all__ = ["BATCH_SIZE", "GENERATORS", "Simulation", "categorical", "groups", "longtail", "nonbinary", "random"]
