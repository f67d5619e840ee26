"""The client: the same answers, retries that learn once, and refusals as errors."""

import threading
import time

import pytest

from bayou.serve import Client, ResponseError
from tests.serve.serving import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state")) as started:
        yield started


def test_everything_a_server_can_do(server):
    with Client(server.server.url) as client:
        told = client.learn([{"age": 3, "label": 1}, {"age": 4, "label": 0}])
        assert [row["probability"] for row in told] == [row["probability"] for row in told]
        assert client.learn({"age": 3, "label": 1}, request="once")["probability"] > 0
        assert client.learn({"age": 3, "label": 1}, request="once") is None
        assert client.predict({"age": 3}, id="a", level=0.5)["remembered"] == "remembered"
        assert len(client.predict([{"age": 3}, {"age": 4}])) == 2
        assert client.label("a", True) == "joined"
        assert client.labels([{"id": "a", "label": 1}, {"id": "z", "label": 0}]) == ["duplicate", "early"]
        assert client.features(1)[0]["feature"] == "age"
        assert client.info()["examples"] == 4
        assert client.snapshot() == client.info()["version"]
        assert next(client.events())["examples"] == 4


def test_a_refusal_is_an_error_with_its_rows(server):
    with Client(server.server.url) as client, pytest.raises(ResponseError, match="1 of 2 rows are bad") as caught:
        client.learn([{"label": 1}, {"label": "x"}])
    assert caught.value.status == 422
    assert caught.value.rows[0]["index"] == 1


@pytest.mark.long
def test_it_waits_for_a_server_that_starts_again(tmp_path):
    first = Running(tmp_path)
    url, port = first.server.url, first.server.port
    first.stop()
    again = []

    def later():
        time.sleep(0.3)
        from bayou.serve.server import Server
        from bayou.serve.service import ServeOptions

        again.append(Server(tmp_path, {}, ServeOptions(), None, port=port, say=lambda text: None))
        again[0].run()

    thread = threading.Thread(target=later)
    thread.start()
    with Client(url, patience=20.0) as client:
        assert client.learn({"a": 1, "label": 1})["version"] == 1
    again[0].stop()
    thread.join()
    with Client(url, patience=0.1) as client, pytest.raises(ResponseError, match="does not answer"):
        client.info()
