"""Nothing that was acknowledged is lost, whenever the server is killed, and nothing is learned twice."""

import os

import pytest

from tests.serve.killing import kill_again_and_again

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="servers are forked here")


def test_five_kills_lose_nothing(tmp_path):
    counts = kill_again_and_again(tmp_path, 5)
    assert counts["acknowledged"] > 20


@pytest.mark.long
def test_many_kills_lose_nothing(tmp_path):
    """40 kills, or as many as BAYOU_KILLS says: 200 before a release."""
    kills = int(os.environ.get("BAYOU_KILLS", "40"))
    counts = kill_again_and_again(tmp_path, kills, seed=1, clients=16)
    assert counts["acknowledged"] > 25 * kills
