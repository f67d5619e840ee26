"""Spoiled requests: no 500, no stuck connection, and nothing is changed by one that was refused."""

import sys

import httpx
import pytest

from bayou.serve.state_folder import replayed
from tests.serve.serving import process, running
from tests.serve.spoiling import spoil, state_of


def spoiled(folder, n, seed):
    with running(folder, max_body=50_000, timeout=2.0) as server:
        counts = spoil(server.server.port, n, seed, lambda: state_of(server))
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


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_ten_thousand_spoiled_requests_take_no_memory(tmp_path):
    with process(tmp_path, "--max-body", "50000", "--max-unfinished", "100000") as server:
        spoil(server.port, 1000, 2)  # what is loaded when it is first needed
        before = server.memory()
        spoil(server.port, 10_000, 3)
        assert server.memory() - before < 50 << 20
        told = httpx.post(f"http://127.0.0.1:{server.port}/predict", json={"a": 1})
        assert told.status_code == 200
