"""Random and spoiled requests: whatever is sent, the answer is a sentence, and what is refused changes nothing."""

import contextlib
import gzip
import http.client
import json
import random
import re
import socket

PATHS = ("/predict", "/learn", "/label", "/features", "/info", "/snapshot", "/healthz", "/", "/docs", "/openapi.json")
TYPES = (
    None, "application/json", "application/x-ndjson", "text/x-vw", "text/x-svmlight", "text/plain", "x", "\u00ff",
    "application/vnd.apache.arrow.stream",
)  # fmt: skip
VALUES = (
    0, 1, -1, 0.5, 1e300, 1e-320, True, False, None, "a", "", "ü", "\x00", "\ud800", "x" * 2000, [], [1], {}, {"b": 1},
    {"b": {"c": [None]}}, 10**30, "\u202e<script>", float("nan"), float("inf"),
)  # fmt: skip
NAMES = ("a", "b", "label", "weight", "id", "", "ü", "\x1b[31m", "x" * 500, "a.b", "\ud800")
CHUNKED = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
FRAMING = (
    b"Content-Length: 2", b"Content-Length: 02", b"Content-Length: -5", b"Content-Length: 1, 1", b"Content-Length: 9e9",
    b"Content-Length: 99999999999999999999", b"Content-Length : 2", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: identity", b"Upgrade: h2c\r\nConnection: upgrade", b"Expect: 100-continue",
    b"Connection: close", b"Host: localhost", b"Host: evil.example",
)  # fmt: skip
SENDERS = (
    b"Origin: null", b"Origin: https://", b"Origin: http://evil//localhost", b"Origin: http://localhost",
    b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Site: same-origin", b"Authorization: Bearer", b"Cookie: " + b"c" * 9000,
)  # fmt: skip
BODIES = (b"", b"{}", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b"0\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
QUERIES = (
    "", "", "", "?id=q1", "?id=", "?level=0.5", "?level=nan", "?level=-1", "?request=r1", "?request=%00", "?top=3",
    "?top=x", "?%ff=%fe", "?id=" + "x" * 300, "?a=b&a=c&level=0.9",
)  # fmt: skip


def row(rng: random.Random):
    if rng.random() < 0.1:
        return rng.choice(VALUES)
    return {rng.choice(NAMES): rng.choice(VALUES) for _ in range(rng.randrange(5))}


def body(rng: random.Random) -> bytes:
    kind = rng.randrange(6)
    if kind == 0:
        made = json.dumps({"a": rng.random(), "b": "c", "label": rng.randrange(2)}).encode()
    elif kind == 1:
        made = json.dumps([row(rng) for _ in range(rng.randrange(6))]).encode("utf-8", "surrogatepass")
    elif kind == 2:
        made = b"\n".join(json.dumps(row(rng)).encode() for _ in range(rng.randrange(6)))
    elif kind == 3:
        made = json.dumps(
            {"id": rng.choice(VALUES), "label": rng.choice(VALUES), "weight": rng.choice(VALUES)}
        ).encode()
    elif kind == 4:
        made = rng.randbytes(rng.randrange(200))
    else:
        made = json.dumps(row(rng), ensure_ascii=False).encode("utf-8", "surrogatepass")
    if made and rng.random() < 0.3:  # a byte changed, a piece cut out
        place = rng.randrange(len(made))
        made = made[:place] + rng.randbytes(1) * rng.randrange(3) + made[place + rng.randrange(1, 4) :]
    return made


def request(rng: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    headers = {}
    made = body(rng)
    if (kind := rng.choice(TYPES)) is not None:
        headers["content-type"] = kind
    if rng.random() < 0.2:
        encoding = rng.choice(("gzip", "zstd", "br", "identity"))
        headers["content-encoding"] = encoding
        if encoding == "gzip" and rng.random() < 0.7:
            made = gzip.compress(made)[: rng.choice((None, None, 10))]
    if rng.random() < 0.1:
        headers["idempotency-key"] = rng.choice(("k1", "k2", "x" * 300))
    if rng.random() < 0.05:
        headers["authorization"] = rng.choice(("Bearer x", "Basic eDp4", "Bearer"))
    path = rng.choice(
        PATHS[:3] if rng.random() < 0.8 else (*PATHS, "/nowhere", "/models/default/predict", "/%ff", "//")
    )
    return rng.choice(("POST",) * 8 + ("GET", "PUT")), path + rng.choice(QUERIES), made, headers


def state_of(server) -> tuple[int, int, int]:
    model, log = server.served.model, server.served.log
    return model.learner.examples, model.version, log.last


def spoil(port: int, n: int, seed: int = 0, state=lambda: None) -> dict[int, int]:
    """Send so many requests, and what is hardly any, to a server that nobody else uses.

    Returns how often each status came. `state` tells what no refused request may change.
    """
    rng, counts, raws = random.Random(seed), {}, set()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(n):
        if rng.random() < 0.2:
            statuses = raw(port, rng)
            assert all(status < 500 for status in statuses), statuses
            raws.update(statuses)
        method, path, made, headers = request(rng)
        before = state()
        connection.request(method, path, made, headers)
        answer = connection.getresponse()
        text = answer.read()
        counts[answer.status] = counts.get(answer.status, 0) + 1
        assert answer.status < 500, (method, path, made, headers, text)
        if answer.status != 200:
            said = json.loads(text) if answer.headers["content-type"] == "application/json" else {}
            assert isinstance(said.get("error"), str), (method, path, made, text)
            assert state() == before, (method, path, made, headers, text)
    connection.close()
    assert raws >= {100, 200, 400, 403, 405, 431} or n < 5000, raws
    return counts


def head(rng: random.Random) -> bytes:
    """The head of a request, with more or less wrong of it."""
    method = rng.choice(
        (b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PRI", b"get", b"", b"X" * 99)
    )
    path = rng.choice(
        (b"/predict", b"/learn", b"/", b"*", b"//", b"/%00", b"http://evil/", b"localhost:80", b"/" + b"a" * 70_000)
    )
    version = rng.choice((b"HTTP/1.1",) * 6 + (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"HTP/1.1", b""))
    lines = [
        rng.choice((b"Host: localhost",) * 6 + (b"Host: evil.example", b"Host:", b"Host: a b", b"Host: [::1", b""))
    ]
    others = (*FRAMING, *SENDERS, b"X: " + rng.randbytes(9), b" folded", b"No colon", b": no name")
    lines += rng.choices(others, k=rng.randrange(4))
    if rng.random() < 0.1:  # a flood
        lines += [b"X-%d: %s" % (k, b"a" * rng.choice((1, 1000))) for k in range(rng.choice((90, 101, 2000)))]
    rng.shuffle(lines)
    return b"%s %s %s\r\n%s\r\n\r\n" % (method, path, version, b"\r\n".join(filter(None, lines)))


def raw(port: int, rng: random.Random) -> list[int]:
    """What is hardly HTTP: half a request, a wrong length, chunks, one request in another; the statuses of answers."""
    sent = b"".join(head(rng) + rng.choice(BODIES) for _ in range(rng.choice((1, 1, 1, 3))))
    sent = rng.choice(
        (
            rng.randbytes(50) + b"\r\n\r\n",
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{}",
            CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
            CHUNKED + b"zz\r\n{}",
            CHUNKED + b"2;" + b"a" * 70_000,
            b"POST /learn HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
            *[sent] * 12,
        )
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        received = b""
        with contextlib.suppress(OSError):  # closed by the server already
            connection.sendall(sent[: rng.choice((None, None, len(sent) // 2))])
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                received += part
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d+) ", received, re.MULTILINE)]
