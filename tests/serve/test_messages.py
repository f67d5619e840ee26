"""What the server says: to people and to machines, of refusals some, of failures all there is to know."""

import contextlib
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from datetime import UTC, datetime

import httpx
import pytest

from bayou.serve.messages import MAX_BACKLOG, MAX_REFUSALS_PER_SECOND, MAX_SENTENCE, Messages
from bayou.serve.tokens import Tokens
from tests.serve.serving import running

NOON = datetime(2026, 1, 2, 12, 0, 0, 250_000, UTC).timestamp()


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines():
    return []


@pytest.fixture
def said(lines, clock):
    """Messages as JSON."""
    messages = Messages(lines.append, "json", clock=clock)
    yield messages
    messages.close()


def refuse(messages, n=1, status=422, sentence="no.", request_id="r", **more):
    for _ in range(n):
        about = {"method": "POST", "route": "/learn", "model": "m"}
        messages.refused(sentence, status=status, request_id=request_id, **about | more)


def test_a_line_of_json_has_time_level_model_and_request(said, lines):
    said.say("all is well", model="m", request_id="r1")
    said.say("the disk is full", level="error")
    assert [json.loads(line) for line in lines] == [
        {
            "time": "2026-01-02T12:00:00.250Z",
            "level": "info",
            "message": "all is well",
            "model": "m",
            "request_id": "r1",
        },
        {"time": "2026-01-02T12:00:00.250Z", "level": "error", "message": "the disk is full"},
    ]


def test_text_is_the_sentence(lines, clock):
    Messages(lines.append, clock=clock).say("all is well", model="m", level="warning")
    assert lines == ["all is well"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_is_said_is_a_line_without_orders_to_a_terminal(lines, log_format):
    Messages(lines.append, log_format).say("red\x1b[31m\nnew \u202e\x7f\x9b")
    [line] = lines
    assert re.fullmatch("[ -~]*", line)
    if log_format == "json":
        assert json.loads(line)["message"] == r"red\x1b[31m\nnew \u202e\x7f\x9b"


def test_a_failure_is_said_with_its_traceback(said, lines, clock):
    try:
        raise ValueError("odd\x1b")
    except ValueError as error:
        said.say("it failed", level="error", error=error)
        Messages(lines.append, clock=clock).say("it failed", level="error", error=error)
    about = json.loads(lines[0])
    assert about["traceback"].startswith("Traceback (most recent call last):\n")
    assert about["traceback"].endswith(r"ValueError: odd\x1b")
    assert lines[1:] == ["it failed", *about["traceback"].split("\n")]


def test_errors_are_remembered(lines):
    errors = []
    messages = Messages(lines.append, "json", errors.append)
    messages.say("fine")
    messages.say("not fine", level="error")
    refuse(messages, error=ValueError("odd"), status=500, sentence="it broke")
    messages.close()
    assert errors == ["not fine", "POST /learn of m was refused with 500: it broke"]


def test_of_many_refusals_some_are_said_and_the_rest_is_counted(said, lines, clock):
    refuse(said, 1500)
    refuse(said, 3, status=401)
    clock.now += 1.0
    refuse(said, 2)
    said.close()
    told = [json.loads(line) for line in lines]
    kinds = [(one["status"], one.get("suppressed", 0)) for one in told]
    rest = 1500 - MAX_REFUSALS_PER_SECOND
    assert kinds == [(422, 0)] * MAX_REFUSALS_PER_SECOND + [(401, 0)] * 3 + [(422, rest)] + [(422, 0)] * 2
    assert told[-3]["message"] == f"{rest:,} more requests were refused with 422"


def test_the_rest_is_counted_also_when_nothing_follows(said, lines, clock):
    refuse(said, MAX_REFUSALS_PER_SECOND + 1)
    clock.now += 1.0
    said.tick()
    said.tick()
    said.close()
    assert [json.loads(line)["message"] for line in lines[MAX_REFUSALS_PER_SECOND:]] == [
        "1 more request was refused with 422"
    ]


def test_a_long_sentence_is_cut(said, lines):
    refuse(said, sentence="x" * 10_000)
    said.close()
    assert len(lines[0]) < MAX_SENTENCE + 300


def test_a_pipe_that_nobody_reads_holds_up_no_request(clock):
    reads, lines = threading.Event(), []

    def write(line):
        reads.wait()
        lines.append(line)

    messages = Messages(write, "json", clock=clock)
    n = MAX_BACKLOG + 500
    for _ in range(n):
        refuse(messages)
        clock.now += 1.0
    reads.set()
    messages.close()
    told = [json.loads(line) for line in lines]
    dropped = sum(one.get("suppressed", 0) for one in told)
    assert len(lines) < n
    assert sum("suppressed" not in one for one in told) + dropped == n


def test_what_ends_a_thread_and_warnings_are_said(said, lines):
    def fail():
        raise ValueError("odd")

    with said.uncaught():
        thread = threading.Thread(target=fail, name="bayou-some")
        thread.start()
        thread.join()
        warnings.warn("look out", RuntimeWarning, stacklevel=1)
    told = [json.loads(line) for line in lines]
    assert told[0]["message"] == "the thread bayou-some has ended (ValueError: odd)"
    assert told[0]["traceback"].endswith("ValueError: odd")
    assert (told[1]["level"], told[1]["message"]) == ("warning", "RuntimeWarning: look out")


# --- of a server ------------------------------------------------------------------------------------------------------


def of_status(server, status, n=1):
    """The lines about refusals of that status, once there are so many."""
    until = time.monotonic() + 30.0
    found = []
    while len(found) < n and time.monotonic() < until:
        found = [line for line in server.said if f"was refused with {status}: " in line]
    assert len(found) == n
    return found


def test_a_refusal_is_said_with_the_id_that_the_client_is_given(tmp_path):
    with running(tmp_path) as server:
        answer = server.post("/learn", {"age": [4], "label": 1})
        assert answer.status_code == 422
        sentence, request_id = answer.json()["error"], answer.headers["x-request-id"]
        assert of_status(server, 422) == [
            f"POST /learn of default was refused with 422: {sentence} (request {request_id})"
        ]
        # Most requests are not refused, and need no id.
        assert "x-request-id" not in server.post("/predict", {"age": 4}).headers


def test_the_id_of_a_request_is_the_one_that_it_came_with(tmp_path):
    with running(tmp_path) as server:
        for path, status in (("/learn", 422), ("/learn?request=7", 422), ("/nothing", 404)):
            answer = server.post(path, {"age": [4], "label": 1}, headers={"x-request-id": "abc-123"})
            assert (answer.status_code, answer.headers["x-request-id"]) == (status, "abc-123")
        assert all("(request abc-123)" in line for line in of_status(server, 422, 2))
        for unfit in (b"a b", b"x" * 129, b"\xff\xfe", b""):
            answer = server.post("/nothing", {}, headers={"x-request-id": unfit})
            assert re.fullmatch("[0-9a-f]{16}", answer.headers["x-request-id"])


def test_neither_tokens_nor_bodies_nor_addresses_are_said(tmp_path):
    secret = "S3CRET" * 4
    path = tmp_path / "tokens"
    path.write_text("write 0123456789abcdef\n")
    path.chmod(0o600)
    with running(tmp_path / "state", tokens=Tokens.of(path)) as server:
        wrong, right = ({"authorization": f"Bearer {token}"} for token in (secret, "0123456789abcdef"))
        server.post("/learn", {secret: 1, "label": 1}, headers=wrong)
        server.post(f"/{secret}", {}, headers=wrong)
        server.post(f"/models/{secret}/learn?x={secret}", {}, headers=right)
        server.post("/learn", [{secret: 1, "label": {}}], headers=right)
        of_status(server, 401)
        of_status(server, 404, 2)
        of_status(server, 422)
    assert secret not in "".join(server.said)


def test_an_unexpected_failure_is_said_with_its_traceback_and_shown(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        monkeypatch.setattr(server.served, "info", lambda: 1 / 0)
        answer = server.client.get("/info", headers={"x-request-id": "abc"})
        assert answer.status_code == 500
        [line] = of_status(server, 500)
        assert "(request abc)" in line
        assert "ZeroDivisionError" not in answer.text
        said = server.said[server.said.index(line) :]
        assert said[1] == "Traceback (most recent call last):"
        assert "ZeroDivisionError: division by zero" in said
        error = server.server.telemetry.summary("default")["last_error"]
        assert error["text"].startswith("GET /info of default was refused with 500: ")
        assert error["at"] == pytest.approx(time.time(), abs=60.0)


def test_a_failure_on_the_short_way_is_said(tmp_path, monkeypatch):
    with running(tmp_path) as server:

        def fail(*_):
            raise ZeroDivisionError("short")

        monkeypatch.setattr(server.served.owner, "submit", fail)
        assert server.post("/predict", {"a": 1}).status_code == 500
        assert "ZeroDivisionError: short" in server.said
        assert server.server.telemetry.summary("default")["last_error"] is not None


def test_many_refusals_over_http_are_bounded(tmp_path):
    with running(tmp_path) as server:
        for _ in range(300):
            server.post("/nothing", {})
    told = [line for line in server.said if "refused with 404" in line]
    counted = sum(int(line.split()[0].replace(",", "")) for line in told if " more request" in line)
    one_by_one = sum(" more request" not in line for line in told)
    assert one_by_one + counted == 300
    assert counted > 0


def test_the_command_says_all_as_json(tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "bayou", "serve", "--learner", "marginal", "--bits", "8", "--data", tmp_path / "s"]
    command += ["--port", str(port), "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        told = []
        for line in process.stderr:
            told.append(json.loads(line))
            if "is ready" in told[-1]["message"]:
                break
        answer = httpx.post(f"http://127.0.0.1:{port}/learn", json={"age": [4]}, headers={"x-request-id": "abc"})
        process.send_signal(signal.SIGTERM)
        told += [json.loads(line) for line in process.stderr]
        assert process.wait(60) == 0
    assert all({"time", "level", "message"} <= one.keys() for one in told)
    assert all(datetime.fromisoformat(one["time"]).tzinfo == UTC for one in told)
    [refused] = [one for one in told if "status" in one]
    assert refused | {"time": ""} == {
        "time": "", "level": "warning", "message": refused["message"], "model": "default", "request_id": "abc",
        "status": 422, "method": "POST", "route": "/learn",
    }  # fmt: skip
    assert answer.json()["error"] in refused["message"]
    assert {one.get("model") for one in told if "ready" in one["message"]} == {"default"}


def test_an_unknown_format_is_wrong_usage(tmp_path):
    command = [
        sys.executable,
        "-m",
        "bayou",
        "serve",
        "--learner",
        "marginal",
        "--data",
        tmp_path,
        "--log-format",
        "xml",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "--log-format is xml; expected text or json.\n")


def test_a_start_that_fails_is_said_in_the_format_that_was_asked_for(tmp_path):
    with running(tmp_path / "state") as server:
        server.post("/learn", {"a": 1, "label": 1})
        folder = server.served.folder
    folder.snapshot(1).unlink()
    with contextlib.closing(sqlite3.connect(folder.path / "log.sqlite")) as db, db:
        db.execute("UPDATE log SET body = x'7b7d'")
    command = [sys.executable, "-m", "bayou", "serve", "--data", tmp_path / "state", "--port", "0"]
    done = subprocess.run([*command, "--log-format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = [json.loads(line) for line in done.stderr.splitlines()][-1]
    assert last["level"] == "error"
    assert "entry 1 is not whole" in last["message"]
