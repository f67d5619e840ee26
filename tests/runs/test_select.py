"""`runs.select`: the features that matter, from Python."""

import numpy as np
import pytest

import bayou
from bayou.runs.select import select


def test_the_features_that_matter_are_found(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((4000, 20)) < 0.3
    y = rng.random(4000) < 1 / (1 + np.exp(-3.0 * X[:, 3] + 3.0 * X[:, 8]))
    rows = (" ".join(f"{j}:1" for j in np.flatnonzero(row)) for row in X)
    (tmp_path / "x.svm").write_text("".join(f"{2 * label - 1} {row}\n" for label, row in zip(y, rows, strict=True)))
    found = select(tmp_path / "x.svm", [2], bits=5, holdout=0.2)
    assert set(found.sizes[0].features) == {3, 8}
    assert (found.examples, found.held_out) == (4000, 800)
    assert found.as_dict()["sizes"][0]["wanted"] == 2
    with pytest.raises(bayou.BadInput, match="there is no parameter 'inclusion_prior'"):
        select(tmp_path / "x.svm", [2], settings={"inclusion_prior": 0.5})
