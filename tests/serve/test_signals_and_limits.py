"""What the system tells a server: to reload, and how many files it may open."""

import os
import signal
import threading
import time

import pytest

from bayou.core.errors import BadInput
from bayou.serve import server as serving
from bayou.serve.server import Server
from bayou.serve.service import ServeOptions
from bayou.serve.tokens import Tokens
from tests.serve.serving import learner, running

OLD, NEW = "o" * 20, "n" * 20


def write(path, text):
    path.write_text(text)
    path.chmod(0o600)


def status(server, token):
    return server.post("/predict", {"a": 1}, headers={"authorization": f"Bearer {token}"}).status_code


def reloads(server):
    return [text for text in server.said if "SIGHUP" in text]


def test_tokens_are_read_again_and_a_bad_file_changes_nothing(tmp_path):
    path = tmp_path / "tokens"
    write(path, f"read {OLD}\n")
    with running(tmp_path / "state", tokens=Tokens.of(path)) as server:
        assert (status(server, OLD), status(server, NEW)) == (200, 401)
        write(path, f"read {NEW}\nwrite {NEW}more\n")
        server.server.reload()
        assert (status(server, OLD), status(server, NEW)) == (401, 200)
        assert "2 tokens are known now" in reloads(server)[-1]
        for text, mode in (("nonsense\n", 0o600), ("", 0o600), (f"read {OLD}\n", 0o644)):
            path.write_text(text)
            path.chmod(mode)
            server.server.reload()
            assert (status(server, OLD), status(server, NEW)) == (401, 200)
            assert "the tokens stay as they were" in reloads(server)[-1]
        path.unlink()
        server.server.reload()
        assert status(server, NEW) == 200


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
def test_sighup_reloads_and_does_not_end_the_server(tmp_path):
    """In the main thread, which alone hears signals."""
    said, unheard = [], []
    server = Server(tmp_path, {"default": learner()}, ServeOptions(), None, port=0, say=said.append)

    def drive():
        try:
            until = time.monotonic() + 60
            while not any("is ready" in text for text in said) and time.monotonic() < until:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGHUP)
            while not unheard and not any("SIGHUP" in text for text in said) and time.monotonic() < until:
                time.sleep(0.01)
            assert not server._uvicorn.should_exit
        finally:
            server.stop()

    before = signal.signal(signal.SIGHUP, lambda *unused: unheard.append(1))  # or it would end the tests
    thread = threading.Thread(target=drive)
    try:
        thread.start()
        server.run()
        thread.join()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert unheard == []
    assert any("nothing to reload without tokens=" in text for text in said)


# --- open files -------------------------------------------------------------------------------------------------------

resource = pytest.importorskip("resource")


def test_as_many_files_are_allowed_as_the_models_need(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (150, before[1]))
        with running(tmp_path, {f"m{k}": learner(bits=4) for k in range(40)}) as server:
            assert server.post("/models/m39/learn", {"a": 1, "label": 1}).status_code == 200
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            assert soft >= 40 * 5 + 100
            assert hard == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_models_than_files_allow_are_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(serving.resource, "getrlimit", lambda kind: (256, 256))
    with pytest.raises(BadInput, match=r"300 models need 1,600 open files.* allows 256: .*`ulimit -n 1600`"):
        Server(tmp_path / "state", {f"m{k}": learner(bits=4) for k in range(300)}, ServeOptions(), None, port=0)
    assert not (tmp_path / "state").exists()


def test_a_limit_that_is_high_enough_is_left_alone(monkeypatch):
    wanted = []
    monkeypatch.setattr(serving.resource, "setrlimit", lambda kind, limits: wanted.append(limits))
    for limits in ((1 << 20, 1 << 20), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
        monkeypatch.setattr(serving.resource, "getrlimit", lambda kind, limits=limits: limits)
        serving._allow_files(10)
    assert wanted == []
    monkeypatch.setattr(serving.resource, "getrlimit", lambda kind: (256, resource.RLIM_INFINITY))
    serving._allow_files(1000)
    assert wanted[0][0] >= 5100
