"""Nothing that was acknowledged is lost, whenever the server is killed, and nothing is learned twice."""

import os

import pytest

from tests.serve.killing import kill_again_and_again

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="servers are forked here")


def test_five_kills_lose_nothing(tmp_path):
    counts = kill_again_and_again(tmp_path, 5)
    assert counts["acknowledged"] > 20


@pytest.mark.long
def test_two_hundred_kills_lose_nothing(tmp_path):
    counts = kill_again_and_again(tmp_path, 200, seed=1, clients=16)
    assert counts["acknowledged"] > 5000
