"""What a server finds in its folder, and what it is told when that does not fit."""

import pytest

from bayou.core.errors import BadInput, BadModel
from bayou.serve.state_folder import replayed
from tests.serve.serving import Running, learner, running


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_base_that_is_gone_is_not_made_anew(tmp_path, snapshots):
    with running(tmp_path) as server:
        server.post("/learn", {"age": 1, "label": 1})
    folder = server.served.folder
    folder.base.unlink()
    if not snapshots:
        for version in folder.versions():
            folder.snapshot(version).unlink()
    for begin in ({}, {"default": learner()}):
        with pytest.raises(BadModel, match=r"base\.bayou is gone") as told:
            Running(tmp_path, begin)
        assert ("or begin a new log: bayou serve --model" in str(told.value)) == snapshots
    with pytest.raises(BadModel, match="is gone"):
        replayed(tmp_path)
    assert not folder.base.exists()


def test_a_folder_of_another_learner_is_refused(tmp_path):
    with running(tmp_path):
        pass
    with pytest.raises(BadInput, match="was started with marginal, not number-bank; give another data="):
        Running(tmp_path, {"default": learner("number-bank")})


def test_a_default_label_that_cannot_be_learned_leaves_no_model_behind(tmp_path):
    with pytest.raises(BadInput, match="default_label='maybe': expected a label"):
        Running(tmp_path, default="maybe")
    with running(tmp_path, {"default": learner("number-bank")}, default=3) as server:
        assert server.served.model.learner.name == "number-bank"


def test_who_listens_is_let_go_when_the_server_stops(tmp_path, monkeypatch):
    monkeypatch.setattr("bayou.serve.server.SHUTDOWN_SECONDS", 600)
    server = Running(tmp_path)
    with server.client.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        server.server.stop()
        server.thread.join(60)
        assert not server.thread.is_alive()
    server.client.close()
