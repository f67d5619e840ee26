"""What the server refuses, and how: a status, a sentence, and a model that is as it was."""

import gzip
import json
import socket
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import bayou
from bayou.serve.server import Server
from bayou.serve.service import ServeOptions
from bayou.serve.tokens import Tokens
from tests.serve.serving import learner, running, token_file

ROW = {"a": 1.0, "label": 1}
WRITE, READ = "w" * 20, "r" * 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("state"), max_body=100_000, max_rows=50, timeout=0.5) as started:
        yield started


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "words"),
    [
        ("/learn", b"", {}, 422, "the body has no rows"),
        ("/learn", b"[]", {}, 422, "the body has no rows"),
        ("/learn", b'{"a": 1}', {}, 422, "expected a label"),
        ("/learn", b'{"a": 1, "label": 2}', {}, 422, "expected the label 1, 0 or -1, not 2"),
        ("/learn", b'{"a": 1, "label": 1', {}, 422, "expected a JSON object"),
        ("/learn", b"[1, 2]", {}, 422, "2 of 2 rows are bad; nothing was learned."),
        ("/learn", b"[{}", {}, 422, "the body is not a list of JSON rows"),
        ("/learn", b'{"a": 1e12, "label": 1, "weight": -1}', {}, 422, "expected a weight"),
        ("/learn", b'{"a": 1e30, "label": 1}', {}, 422, "row 0"),
        ("/predict", b'{"a": 1}', {"content-type": "image/png"}, 415, "Content-Type 'image/png' is not supported"),
        ("/predict", b'{"a": 1}', {"content-type": "text/x-vw"}, 422, "this model reads JSON rows"),
        ("/predict", b'{"a": 1}', {"content-encoding": "br"}, 415, "use gzip or zstd"),
        ("/predict", b'{"a": 1}', {"content-encoding": "gzip"}, 400, "not what its Content-Encoding says"),
        ("/predict", gzip.compress(b'{"a": 1}', mtime=0)[:-12], {"content-encoding": "gzip"}, 400, "Content-Encoding"),
        ("/predict", gzip.compress(b"\n" * 10**7), {"content-encoding": "gzip"}, 413, "larger than 100,000 bytes"),
        ("/predict", b" " * 100_001, {}, 413, "the body has 100,001 bytes; the limit is 100,000"),
        ("/predict", b"[" + b"{}," * 50 + b"{}]", {}, 413, "the body has 51 rows; the limit is 50"),
        ("/predict", b"{}\n" * 30_000, {"content-type": "application/x-ndjson"}, 413, "30,000 rows; the limit is 50"),
        ("/predict?level=2", b"{}", {}, 422, "level is a number between 0 and 1"),
        ("/predict?level=x", b"{}", {}, 422, "level is a number"),
        ("/predict?id=", b"{}", {}, 422, "an id must have 1 to 256 bytes"),
        ("/predict?id=a", b"[{}, {}]", {}, 422, "?id= is for one row"),
        ("/predict", b'{"id": [1]}', {}, 422, "an id must be text or a whole number"),
        ("/predict", b'{"id": "%s"}' % (b"x" * 300), {}, 422, "an id must have 1 to 256 bytes"),
        ("/predict", b"junk", {"content-type": "application/vnd.apache.arrow.stream"}, 422, "not a valid Arrow stream"),
        ("/label", b"{}", {}, 422, "missing required field `id`"),
        ("/label", b'{"id": "a", "label": "x"}', {}, 422, "expected a label"),
        ("/label", b'{"id": "a", "label": null}', {}, 422, "expected a label"),
        ("/label", b'[{"id": "a", "label": 1}, {"id": "b", "label": 7}]', {}, 422, "1 of 2 rows are bad"),
        ("/label", b'{"id": "a", "label": 1, "weight": -1}', {}, 422, "a weight must be from 0"),
        ("/nowhere", b"", {}, 404, "nothing is served at this address"),
        ("/models/x/predict", b"{}", {}, 404, "there is no model of that name"),
        ("/info", b"", {}, 405, "accepts GET, not POST"),
        ("/features?top=-1", None, {}, 422, "top is a whole number"),
        ("/learn", None, {}, 405, "accepts POST, not GET"),
    ],
)  # fmt: skip
def test_a_bad_request_gets_a_sentence_and_changes_nothing(server, path, body, headers, status, words):
    before = server.client.get("/info").json()
    if body is None:
        told = server.client.get(path)
    else:
        told = server.client.post(path, content=body, headers=headers)
    assert told.status_code == status, told.text
    assert words in told.json()["error"]
    after = server.client.get("/info").json()
    assert (after["version"], after["examples"], after["log"]) == (before["version"], before["examples"], before["log"])


def test_each_bad_row_is_named_and_none_is_learned(server):
    rows = [{"a": 1, "label": 1}] * 20
    for bad in (3, 5, 7, 9, 11, 13, 15):
        rows[bad] = {"a": [bad], "label": 1}
    before = server.served.model.learner.examples
    told = server.post("/learn", rows).json()
    assert told["error"] == "7 of 20 rows are bad; nothing was learned."
    assert [row["index"] for row in told["rows"]] == [3, 5, 7, 9, 11, 13, 15]
    assert all(f"the feature 'a' is [{row['index']}]" in row["error"] for row in told["rows"])
    assert server.served.model.learner.examples == before


def test_a_bad_request_does_not_spoil_those_that_come_at_the_same_time(server):
    from concurrent.futures import ThreadPoolExecutor

    before = server.served.model.learner.examples
    bodies = [ROW if k % 2 else {"a": [1], "label": 1} for k in range(40)]
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda body: server.post("/learn", body).status_code, bodies))
    assert statuses == [200 if k % 2 else 422 for k in range(40)]
    assert server.served.model.learner.examples == before + 20


def test_more_than_the_queue_holds_is_told_to_come_again(tmp_path):
    with running(tmp_path, max_waiting=0) as server:
        told = server.post("/learn", ROW)
        assert (told.status_code, told.headers["retry-after"]) == (429, "1")
        assert "try again in a moment" in told.json()["error"]
        assert server.post("/label", {"id": "a", "label": 1}).status_code == 429


@pytest.mark.long
def test_a_server_that_is_starting_says_so(tmp_path, monkeypatch):

    def slow(model):
        time.sleep(0.5)

    monkeypatch.setattr("bayou.serve.service.warm_up", slow)
    with running(tmp_path, ready=False) as server:
        told = server.post("/predict", {"a": 1})
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert "being loaded" in told.json()["error"]
        assert server.client.get("/readyz").status_code == 503
        assert server.client.get("/healthz").status_code == 200
        server.wait()
        assert server.post("/predict", {"a": 1}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
        {"origin": "null"},
        {"host": "127.0.0.1.evil.example"},
    ],
)
def test_pages_of_other_sites_cannot_teach_the_model(server, headers):
    before = server.served.model.learner.examples
    for path, body in (("/learn", ROW), ("/predict", {"a": 1})):
        assert server.post(path, body, headers=headers).status_code == 403
    assert server.client.get("/info", headers=headers).status_code == 403
    own = {"origin": server.server.url}
    assert server.post("/predict", {"a": 1}, headers=own).status_code == 200
    assert server.served.model.learner.examples == before


def test_an_origin_is_read_whole(server):
    own = server.server.url.removeprefix("http://")
    for origin in (
        f"http://evil.com//{own}", "https://", f"//{own}", own, f"ftp://{own}", f"http://{own}/", f"http://{own}/x",
        f"http://user@{own}", f"http://{own}?x", f"http://{own}#x", f"http://{own} http://evil.com", f"http://{own}0",
        "http://", "null", "",
    ):  # fmt: skip
        told = server.post("/predict", {"a": 1}, headers={"origin": origin})
        assert told.status_code == 403, origin
    for origin in (f"http://{own}", f"https://{own}", f"HTTP://{own}".lower()):
        assert server.post("/predict", {"a": 1}, headers={"origin": origin}).status_code == 200, origin
    no_host = {"host": "", "origin": "https://"}
    assert server.post("/predict", {"a": 1}, headers=no_host).status_code == 403


LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize("site", ["cross-site", "same-site", "else"])
def test_what_a_browser_sends_for_another_site_is_refused_but_for_links_to_the_pages(server, site):
    link, get = LINK | {"sec-fetch-site": site}, server.client.get
    before = server.served.model.learner.examples
    assert [get(path, headers=link).status_code for path in ("/", "/docs")] == [200, 200]
    for path in ("/info", "/features", "/metrics", "/openapi.json", "/healthz", "/models", "/events"):
        assert get(path, headers=link).status_code == 403, path
    for other in ({"sec-fetch-mode": "no-cors"}, {"sec-fetch-mode": "cors"}, {"sec-fetch-dest": "iframe"}):
        assert get("/", headers=link | other).status_code == 403, other
    for path, body in (("/learn", ROW), ("/predict", {"a": 1}), ("/snapshot", {})):
        assert server.post(path, body, headers=link).status_code == 403, path
    assert server.served.model.learner.examples == before


def test_what_a_browser_sends_for_the_servers_own_pages_is_answered(server):
    for site in ("same-origin", "none"):
        own = {"sec-fetch-site": site, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
        assert server.post("/predict", {"a": 1}, headers=own).status_code == 200
        assert server.client.get("/info", headers=own).status_code == 200


# --- slow clients -----------------------------------------------------------------------------------------------------


def connected(server):
    return socket.create_connection(("127.0.0.1", server.server.port), timeout=10)


@pytest.mark.long
def test_clients_that_hang_hold_up_nobody_and_are_cut_off(server):
    silent, half, slow = connected(server), connected(server), connected(server)
    half.sendall(b"POST /learn HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    slow.sendall(b"POST /learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    before = server.served.model.learner.examples
    assert server.post("/learn", ROW).status_code == 200
    for _ in range(40):
        try:
            slow.sendall(b" ")
        except OSError:
            break
        time.sleep(0.05)
        assert server.post("/predict", {"a": 1}).status_code == 200
    else:
        raise AssertionError("whoever sends byte by byte was never cut off")
    for connection in (silent, half, slow):
        told = b""
        try:
            while part := connection.recv(1000):
                told += part
        except ConnectionResetError:
            pass
        assert told == b"" or told.startswith(b"HTTP/1.1 408")
        connection.close()
    assert server.served.model.learner.examples == before + 1


def test_what_is_no_http_is_refused(server):
    with connected(server) as wrong:
        wrong.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        assert wrong.recv(1000).startswith(b"HTTP/1.1 400")
    assert server.post("/predict", {"a": 1}).status_code == 200


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_tokens_have_scopes(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who may\nwrite {WRITE}\nread {READ}\n")
    path.chmod(0o600)
    with running(tmp_path / "state", tokens=Tokens.of(path)) as server:

        def status(path, body, token):
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return server.post(path, body, headers=headers).status_code

        assert [status("/learn", ROW, token) for token in (None, "x", READ, WRITE)] == [401, 401, 403, 200]
        assert [status("/predict", {"a": 1}, token) for token in (None, READ, WRITE)] == [401, 200, 200]
        assert [status("/predict", {"a": 1, "id": "q"}, token) for token in (READ, WRITE)] == [403, 200]
        assert server.client.get("/metrics").status_code == 401
        assert server.client.get("/events").status_code == 401
        assert server.client.get("/healthz").status_code == 200
        assert server.client.get("/").status_code == 200
        told = server.post("/learn", ROW)
        assert told.headers["www-authenticate"] == "Bearer"


def test_names_of_models_are_told_to_those_who_may_read_alone(tmp_path):
    models = {name: learner() for name in ("secret-a", "secret-b")}
    paths = ("/", "/docs", "/openapi.json", "/readyz", "/nowhere", "/predict", "/models/x/info", "/models", "/metrics")
    for names in (["secret-a"], ["secret-a", "secret-b"]):
        folder = tmp_path / str(len(names))
        folder.mkdir()
        tokens = Tokens.of(token_file(folder, f"write {WRITE}", f"read {READ}"))
        with running(folder / "state", {name: models[name] for name in names}, tokens=tokens) as server:
            for headers in ({}, {"authorization": "Bearer " + "x" * 20}):
                for path in (*paths, "/models/secret-a/info", "/models/secret-c/info", "/models/secret-a/events"):
                    told = [server.client.get(path, headers=headers), server.client.post(path, headers=headers)]
                    assert all("secret" not in one.text for one in told), path
                # nor are they told by how others are refused
                for path in ("info", "predict", "events"):
                    ours, others = (
                        server.client.get(f"/models/{name}/{path}", headers=headers) for name in ("secret-a", "x")
                    )
                    assert (ours.status_code, ours.text) == (others.status_code, others.text)
            for token in (READ, WRITE):
                headers = {"authorization": f"Bearer {token}"}
                assert server.client.get("/models", headers=headers).json() == {"models": names}
                assert set(server.client.get("/readyz", headers=headers).json()["models"]) == set(names)
                told = server.client.get("/models/x/info", headers=headers)
                assert "secret-a" in told.json()["error"]
            assert server.client.get("/readyz").json() == {"ready": True}


def test_what_is_wrong_is_told_to_those_who_may_read_alone(tmp_path, monkeypatch):
    tokens = Tokens.of(token_file(tmp_path, f"read {READ}"))
    with running(tmp_path / "state", tokens=tokens) as server:
        monkeypatch.setattr(type(server.served), "broken", "/srv/secret/log.sqlite is gone.")
        monkeypatch.setattr(type(server.served), "condition", "broken")
        monkeypatch.setattr(type(server.served), "reasons", lambda served: [served.broken])
        for path in ("/healthz", "/readyz"):
            told = server.client.get(path)
            assert (told.status_code, "secret" in told.text) == (503, False)
            told = server.client.get(path, headers={"authorization": f"Bearer {READ}"})
            assert told.json()["reasons"] == ["/srv/secret/log.sqlite is gone."]


def test_rows_of_others_are_shown_to_those_who_may_write_alone(tmp_path):
    tokens = Tokens.of(token_file(tmp_path, f"write {WRITE}", f"read {READ}"))
    with running(tmp_path / "state", tokens=tokens) as server:
        server.served.live.add_surprise(9.0, b'{"name": "somebody"}', 1.0, 0.01)
        shown = {}
        for token in (READ, WRITE):
            with server.client.stream("GET", "/events", headers={"authorization": f"Bearer {token}"}) as stream:
                shown[token] = next(stream.iter_lines())
        assert "somebody" in shown[WRITE]
        assert "somebody" not in shown[READ]
        assert json.loads(shown[READ].removeprefix("data: "))["live"]["surprises"] is None


def test_names_of_any_length_are_shown_at_300_characters(tmp_path):
    name = "n" * 100_000
    with running(tmp_path) as server:
        for k in range(20):
            assert server.post("/learn", {name: 1.0, "site": name, "label": k % 2}).status_code == 200
        server.served.owner._looked = 0.0
        for _ in range(500):  # weights are looked at every few seconds
            server.post("/learn", {"a": 1, "label": 1})
            if server.served.live.moved:
                break
            time.sleep(0.01)
        with server.client.stream("GET", "/events") as stream:
            event = json.loads(next(stream.iter_lines()).removeprefix("data: "))
        told = server.client.get("/features").json()["features"]
        for names in ([one["feature"] for one in told], [one["feature"] for one in event["live"]["moved"]]):
            assert "n" * 300 + "…" in names
            assert max(map(len, names)) == 301
        assert len(json.dumps(event)) < 20_000


@pytest.mark.parametrize(
    ("text", "rights", "words"),
    [
        ("write short\n", 0o600, "at least 16 characters"),
        (f"admin {WRITE}\n", 0o600, r"tokens:1: expected `read TOKEN` or `write TOKEN`"),
        ("# nothing\n", 0o600, "holds no tokens"),
        (f"write {WRITE}\n", 0o644, "can be read by others"),
    ],
)
def test_a_bad_token_file_is_refused(tmp_path, text, rights, words):
    (tmp_path / "tokens").write_text(text)
    (tmp_path / "tokens").chmod(rights)
    with pytest.raises(bayou.BadInput, match=words):
        Tokens.of(tmp_path / "tokens")


def test_without_tokens_only_this_machine_is_served(tmp_path):
    for host in ("0.0.0.0", "::", "192.168.1.1"):
        with pytest.raises(bayou.BadInput, match="a token file is needed"):
            Server(tmp_path, {"default": learner()}, ServeOptions(), None, host, 0)


# --- the disk ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_full_disk_refuses_and_loses_nothing(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        server.post("/learn", ROW)
        db = server.served.log._db
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0] + 2}")
        big = [{f"feature{k}": 1.0, "label": 1} for k in range(2000)]
        told = server.post("/learn", big)
        assert told.status_code == 503
        assert "the log cannot be written (database or disk is full)" in told.json()["error"]
        assert server.served.model.learner.examples == 1
        assert server.post("/predict", {"a": 1}).status_code == 200
        db.execute("PRAGMA max_page_count = 1000000")
        assert server.post("/learn", big).status_code == 200
    from bayou.serve.state_folder import replayed

    assert replayed(tmp_path).learner.examples == 2001


def test_a_model_that_broke_leaves_nobody_waiting(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        copying = threading.Event()

        def advance(*_):
            copying.set()
            return True  # busy, and never done

        def fail(*_):
            raise RuntimeError("what nobody foresaw")

        monkeypatch.setattr(server.served.owner._copies, "advance", advance)
        with ThreadPoolExecutor(2) as pool:
            early = [pool.submit(server.client.post, "/snapshot"), pool.submit(server.client.get, "/features")]
            assert copying.wait(20)
            monkeypatch.setattr(server.served.model, "learn", fail)
            answers = [server.post("/learn", {"a": 1, "label": 1}), *(one.result(20) for one in early)]
        answers += [server.client.post("/snapshot"), server.client.get("/features"), server.post("/predict", {})]
        assert [answer.status_code for answer in answers] == [503] * 6
        assert all("out of order: RuntimeError: what nobody foresaw" in answer.json()["error"] for answer in answers)
    assert "default: the model is out of order (RuntimeError: what nobody foresaw)" in server.said
    assert "Traceback (most recent call last):" in server.said


def test_a_log_that_was_damaged_is_not_served(tmp_path):
    with running(tmp_path) as server:
        for _ in range(3):
            server.post("/learn", ROW)
    db = sqlite3.connect(tmp_path / "models/default/log.sqlite")
    db.execute("UPDATE log SET body = x'7b7d' WHERE n = 2")
    db.commit()
    db.close()
    with running(tmp_path, {}) as server:  # the snapshot is sound, so it is served, and the damage is said
        for _ in range(100):
            if server.client.get("/info").json()["log"]["damage"]:
                break
            time.sleep(0.02)
        assert "entry 2 is not whole" in server.client.get("/info").json()["log"]["damage"]
        assert 'bayou_log_damaged{model="default"} 1.0' in server.client.get("/metrics").text
    for path in (tmp_path / "models/default/snapshots").iterdir():
        path.unlink()
    started = Server(tmp_path, {}, ServeOptions(), None, port=0, say=lambda text: None)
    with pytest.raises(bayou.BadModel, match="entry 2 is not whole"):
        started.run()


def test_nothing_of_a_request_is_an_order_to_the_terminal(server, capfd):
    nasty = {"\x1b[31mred": "\u202e<script>alert(1)</script>", "label": 1}
    assert server.post("/learn", nasty).status_code == 200
    assert server.client.get("/features").status_code == 200
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err + "".join(server.said)
    assert json.loads(server.client.get("/info").text)["examples"] > 0
