"""A model of several classes, trained from a table."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from bayou import sources
from bayou.learners import Classes
from bayou.recipe.feature_counts import FeatureCounts

NAMES = ["riesling", "pinot", "silvaner"]


def trained(learner="marginal", n=600):
    """Three classes of a table with one column of words."""
    rng = np.random.default_rng(0)
    region = rng.choice(["mosel", "baden", "pfalz"], n, p=[0.5, 0.3, 0.2])
    kind = np.where(rng.random(n) < 0.7, np.select([region == "mosel", region == "baden"], [0, 1], 2), 2)
    source = sources.open(pa.table({"region": region, "y": (kind == 0).astype(int)}), recipe={"label": "y", "bits": 8})
    model, uses, at = Classes(n_features=256, learner=learner), FeatureCounts(), 0
    for batch in source:
        batch = batch.with_labels(kind[at : at + len(batch)].astype(float))
        at += len(batch)
        model.learn(batch)
        uses.count(batch)
    model.extras = replace(source.extras, uses=uses, classes=NAMES)
    return model
