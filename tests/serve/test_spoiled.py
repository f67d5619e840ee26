"""Spoiled requests: no 500, no stuck connection, and nothing is changed by one that was refused."""

import pytest

from bayou.serve.folder import replayed
from tests.serve.serving import running
from tests.serve.spoiling import spoil


def spoiled(folder, n, seed):
    with running(folder, body=50_000, timeout=2.0) as server:
        counts = spoil(server, n, seed)
        assert server.post("/predict", {"a": 1}).status_code == 200
        assert not server.served.owner.waiting
        learned = server.served.model.learner
        assert counts[200] > n / 25
        assert counts[422] > n / 10
    assert replayed(folder).learner.mean.tobytes() == learned.mean.tobytes()


def test_some_hundred_spoiled_requests(tmp_path):
    spoiled(tmp_path, 200, 0)


@pytest.mark.long
def test_ten_thousand_spoiled_requests(tmp_path):
    spoiled(tmp_path, 10_000, 1)
