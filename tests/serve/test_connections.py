"""What comes from the network: heads, bodies and pipelined requests are bounded, and what is ambiguous is refused."""

import contextlib
import json
import socket
import sys
import time

import pytest

from bayou.serve.tokens import Tokens
from tests.serve.serving import answers, process, running, token_file

ROW = b'{"a": 1.0, "label": 1}'
HOST = b"Host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
POST = b"POST /predict HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
KB, MB = 1 << 10, 1 << 20
measured = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state")) as started:
        yield started


def connect(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server.port), timeout=30)


def exchange(server, *parts: bytes) -> list[tuple[int, dict, bytes]]:
    """What is answered until the server closes the connection, or the last request asks it to."""
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
        return answers(connection)


def lines(n: int, size: int = 10) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (k, b"a" * size) for k in range(n))


# --- heads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /" + b"a" * 70 * KB + b" HTTP/1.1\r\n" + HOST + b"\r\n"],
        [b"GET /healthz?" + b"a" * 63 * MB],
        [GET + b"X: " + b"a" * 70 * KB + b"\r\n\r\n"],
        [GET + b"X: " + b"a" * MB],
        [GET, *[b"X: a\r\n"] * 20_000],
        [GET + lines(100) + b"\r\n"],  # and Host
        [GET + lines(10, 7 * KB) + b"\r\n"],
        [GET + b"\r\n" + GET + lines(50) + b"\r\n" + GET + lines(100) + b"\r\n"],
        [CHUNKED, b"2\r\n{}\r\n0\r\n" + lines(101) + b"\r\n"],
        [CHUNKED, b"2\r\n{}\r\n0\r\nX: " + b"a" * 70 * KB],
        [CHUNKED, b"2;" + b"a" * 100 * KB],
        [b"\r\n" * 70 * KB],
    ],
    ids=[
        *("line of 70 KB", "line of 63 MB", "header of 70 KB", "header of 1 MB", "20,000 headers", "101 lines"),
        *("70 KB in lines", "third of three", "101 trailers", "trailer of 70 KB", "chunk extension", "line ends"),
    ],
)
def test_a_head_that_is_too_large_is_refused_before_it_is_whole(server, parts):
    told = exchange(server, *parts)
    status, headers, body = told[-1]
    assert status == 431
    assert "the limits are 65,536 bytes and 100 header lines" in json.loads(body)["error"]
    assert headers["connection"] == "close"
    assert all(status == 200 for status, _, _ in told[:-1])


def test_large_heads_are_counted_anew_for_each_request(server):
    requests = [GET + b"X: " + b"a" * 60 * KB + b"\r\n\r\n", GET + lines(99) + b"\r\n"] * 3
    requests += [POST + b"Content-Length: 100000\r\n\r\n{" + b" " * 99_998 + b"}"] * 2
    requests += [CHUNKED + b"186a0\r\n{" + b" " * 99_998 + b"}\r\n0\r\nTrailer: 1\r\n\r\n"] * 2
    told = exchange(server, *requests, GET + b"Connection: close\r\n\r\n")
    assert [status for status, _, _ in told] == [200] * (len(requests) + 1)
    together = exchange(server, b"".join(requests) + GET + b"Connection: close\r\n\r\n")
    assert [status for status, _, _ in together] == [200] * (len(requests) + 1)


def test_trailers_are_no_headers(server):
    with connect(server) as connection:
        connection.sendall(b"POST /learn HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"%x\r\n%s\r\n0\r\nIdempotency-Key: k\r\nHost: evil\r\n\r\n" % (len(ROW), ROW))
        connection.sendall(GET + b"Connection: close\r\n\r\n")
        told = answers(connection)
    assert [status for status, _, _ in told] == [200, 200]
    again = server.client.post("/learn", content=ROW, headers={"idempotency-key": "k"})
    assert "duplicate" not in again.json()


def test_a_connection_without_requests_is_closed_and_one_that_is_answered_is_not(tmp_path):
    def answered(connection: socket.socket) -> socket.socket:
        connection.sendall(GET + b"\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        return connection

    with running(tmp_path) as server, answered(connect(server)) as idle:
        server.server._uvicorn.config.timeout_keep_alive = 0.3  # of connections that are made from now on
        with answered(connect(server)) as short, answered(connect(server)) as listening:
            listening.sendall(b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n")
            assert short.recv(1000) == b""
            received = b""
            while received.count(b"data: ") < 3:
                part = listening.recv(1 << 16)
                assert part
                received += part
        idle.sendall(GET + b"Connection: close\r\n\r\n")
        assert [status for status, _, _ in answers(idle)] == [200]


# --- what can be read in two ways -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", "one Host header; this one has none"),
        (GET + b"Host: evil\r\n\r\n", "one Host header; this one has 2"),
        (GET + HOST + b"\r\n", "one Host header"),
        (b"GET /healthz HTTP/1.0\r\n" + HOST + HOST + b"\r\n", "one Host header"),
        (POST + b"Transfer-Encoding: xchunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"),
        (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"),
        (POST + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", ""),
        (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", ""),
        (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""),
        (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", ""),
        (POST + b"Content-Length: 2, 3\r\n\r\n{}", ""),
        (POST + b"Content-Length: +2\r\n\r\n{}", ""),
        (POST + b"Content-Length : 2\r\n\r\n{}", ""),
        (b"POST /predict HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"),
        (POST + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\n{}", "Upgrade"),
        (GET + b"X: a\r\n b\r\n\r\n", ""),
        (b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n", "HTTP/2.0 is not supported"),
        (b"GET /healthz\r\n\r\n", "HTTP/0.9 is not supported"),
        (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", "the address of the request cannot be read"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\rX: b\r\n\r\n", "this is not an HTTP request"),
    ],
)
def test_what_a_proxy_could_read_differently_is_refused_and_ends_the_connection(server, request_, words):
    before = server.served.model.version
    told = exchange(server, request_ + b"POST /learn HTTP/1.1\r\n" + HOST + b"Content-Length: 22\r\n\r\n" + ROW)
    assert [status for status, _, _ in told] == [400]
    assert words in json.loads(told[0][2])["error"]
    assert server.served.model.version == before


def test_what_is_unusual_and_clear_is_answered(server):
    for request_ in (
        b"GET /healthz HTTP/1.0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHOST: localhost\r\nConnection: close\r\n\r\n",
        POST + b"Transfer-Encoding: Chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        GET + b"Upgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        b"GET http://localhost/healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
    ):
        assert [status for status, _, _ in exchange(server, request_)] == [200], request_


def test_a_wrong_request_is_answered_after_those_before_it(server):
    good = b"POST /learn HTTP/1.1\r\n" + HOST + b"Content-Length: 22\r\n\r\n" + ROW
    for wrong, status in ((b"GET /healthz HTTP/1.1\r\n\r\n", 400), (b"nonsense\r\n\r\n", 400)):
        before = server.served.model.version
        told = exchange(server, good * 3 + wrong + good)
        assert [status for status, _, _ in told] == [200, 200, 200, status]
        assert server.served.model.version == before + 3
    told = exchange(server, good * 2 + POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + good)
    assert [status for status, _, _ in told] == [200, 200, 400]
    refused = server.client.get("/metrics").text
    assert 'bayou_refused_total{status="400"}' in refused


# --- bodies -----------------------------------------------------------------------------------------------------------


def test_unfinished_bodies_are_bounded_over_all_connections(tmp_path):
    with running(tmp_path, max_body=4 * MB, max_unfinished=8 * MB) as server, contextlib.ExitStack() as stack:
        head, part = POST + b"Content-Length: 3145728\r\n\r\n", b"{" + b" " * (3 * MB - 3)
        connections = [stack.enter_context(connect(server)) for _ in range(4)]
        for connection in connections[:2]:
            connection.sendall(head + part)
        unfinished = server.server.app.unfinished
        while unfinished.n_bytes < 2 * len(part):
            time.sleep(0.01)
        with contextlib.suppress(ConnectionError):
            connections[2].sendall(head + part)
        ((status, headers, body),) = answers(connections[2])
        assert (status, headers["retry-after"]) == (503, "1")
        assert "the limit for all clients together is 8,388,608" in json.loads(body)["error"]
        while unfinished.n_bytes > 2 * len(part):
            time.sleep(0.01)
        assert server.post("/predict", {"a": 1}).status_code == 200  # small ones are answered all the same
        connections[0].sendall(b" }")  # one is answered, and there is room
        assert connections[0].recv(1000).startswith(b"HTTP/1.1 200")
        connections[3].sendall(head + part + b" }")
        assert connections[3].recv(1000).startswith(b"HTTP/1.1 200")
        connections[1].close()
        while unfinished.n_bytes:
            time.sleep(0.01)


def test_what_was_packed_counts_as_it_is_unpacked(tmp_path):
    import gzip

    with running(tmp_path, max_body=4 * MB, max_unfinished=2 * MB) as server:
        packed = gzip.compress(b"{" + b" " * 3 * MB + b"}")
        told = server.post("/predict", packed, headers={"content-encoding": "gzip"})
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert server.server.app.unfinished.n_bytes == 0


def test_a_body_without_a_token_is_not_kept(tmp_path):
    tokens = Tokens.of(token_file(tmp_path, "write " + "w" * 20))
    with running(tmp_path / "state", tokens=tokens) as server, connect(server) as connection:
        connection.sendall(b"POST /learn HTTP/1.1\r\n" + HOST + b"Content-Length: 30000000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401")
        connection.sendall(b"{" * 20_000_000)
        kept = [len(one.cycle.body) for one in server.server._uvicorn.server_state.connections if one.cycle]
        assert max(kept) == 0
        assert server.server.app.unfinished.n_bytes == 0


# --- memory of a real process -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def separate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("process")
    with process(folder / "state", "--tokens", str(token_file(folder, "write " + "w" * 20))) as started:
        yield started


def headers_for_ever(separate, n_connections: int, n_bytes: int) -> int:
    """By how much memory grows while connections without a token send headers, each so many bytes at most."""
    before = separate.forget_peak()
    part = b"X-a: " + b"b" * 60_000 + b"\r\n"
    with contextlib.ExitStack() as stack:
        connections = {stack.enter_context(separate.connect()): 0 for _ in range(n_connections)}
        for connection in connections:
            connection.sendall(GET)
            connection.setblocking(False)
        until = time.monotonic() + 60
        while connections and time.monotonic() < until:
            for connection in list(connections):
                try:
                    connections[connection] += connection.send(part)
                except BlockingIOError:
                    continue
                except ConnectionError:
                    del connections[connection]
                    continue
                if connections[connection] > n_bytes:
                    del connections[connection]
        assert separate.get("/healthz") == 200
    return separate.memory(peak=True) - before


@measured
def test_headers_for_ever_take_no_memory(separate):
    assert headers_for_ever(separate, 40, 10 * MB) < 40 * MB


@measured
@pytest.mark.long
def test_a_thousand_connections_that_send_headers_for_ever_take_no_memory(separate):
    assert headers_for_ever(separate, 1000, 10 * MB) < 150 * MB
    assert headers_for_ever(separate, 1000, 10 * MB) < 50 * MB  # what it took is used again


@measured
def test_requests_that_are_sent_ahead_wait_unparsed(separate):
    before = separate.forget_peak()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(separate.connect()) for _ in range(4)]
        for connection in connections:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(40):
                    connection.send((GET + b"\r\n") * 2000)
        for connection in connections:
            connection.setblocking(True)
            received = 0
            while received < 100_000:
                received += len(connection.recv(1 << 16))
        assert separate.memory(peak=True) - before < 40 * MB


@measured
@pytest.mark.long
def test_unfinished_bodies_take_no_more_memory_than_the_limit(tmp_path):
    with process(tmp_path / "state") as server, contextlib.ExitStack() as stack:
        before = server.forget_peak()
        connections = [stack.enter_context(server.connect()) for _ in range(25)]
        for connection in connections:
            with contextlib.suppress(ConnectionError):
                connection.sendall(POST + b"Content-Length: 32505856\r\n\r\n" + b" " * 32_000_000)
        assert server.get("/healthz") == 200
        assert server.memory(peak=True) - before < 330 * MB
