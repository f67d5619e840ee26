"""Counts of requests and latencies, what Prometheus scrapes of them, and the rules and the dashboard made for that."""

import asyncio
import contextlib
import json
import re
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import bayou
from bayou.serve.http_request import HttpRequest
from bayou.serve.messages import Messages
from bayou.serve.telemetry import REQUEST_BOUNDS, Telemetry
from bayou.serve.tokens import Tokens
from tests.serve.promql import Parser
from tests.serve.serving import learner, running

PACKAGING = Path(__file__).parents[2] / "packaging"


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def telemetry(clock):
    return Telemetry(clock)


def count(telemetry, clock, latencies, *, route="/predict", model="m", status=200, every=0.0):
    for seconds in latencies:
        clock.now += every
        telemetry.count(route, model, status, clock.now - seconds)


# --- counting ---------------------------------------------------------------------------------------------------------


def test_the_histogram_of_a_route_has_each_latency_in_its_bucket(telemetry, clock):
    latencies = np.concatenate([np.random.default_rng(1).lognormal(-5.0, 2.0, 2000), [0.0, 20.0, 500.0]])
    count(telemetry, clock, latencies, every=0.01)
    count(telemetry, clock, [0.3], route="/learn")
    telemetry.fold()
    histogram = telemetry.latencies["/predict"]
    expected = [int((latencies <= bound).sum()) for bound in REQUEST_BOUNDS]
    assert [n for _, n in histogram.buckets()] == [*expected, len(latencies)]
    assert histogram.total == pytest.approx(latencies.sum())
    assert telemetry.latencies["/learn"].buckets()[-1] == ("+Inf", 1)


def test_quantiles_of_the_last_minute_are_those_of_its_latencies(telemetry, clock):
    latencies = np.random.default_rng(2).lognormal(-5.0, 1.0, 5000)
    count(telemetry, clock, [3.0] * 5000, every=0.01)  # the 50 seconds before are long over by then
    clock.now += 60.0
    count(telemetry, clock, latencies, every=0.01)
    summary = telemetry.summary("m")
    assert summary["p50"] == pytest.approx(np.quantile(latencies, 0.5), rel=0.06)
    assert summary["p99"] == pytest.approx(np.quantile(latencies, 0.99), rel=0.1)


def test_requests_per_second_are_those_of_the_last_minute(telemetry, clock):
    count(telemetry, clock, [0.001] * 9000, every=1 / 30)
    assert telemetry.summary("m")["requests_per_second"] == pytest.approx(30.0, rel=0.02)
    assert telemetry.summary("another")["requests_per_second"] == 0.0
    clock.now += 30.0
    assert telemetry.summary("m")["requests_per_second"] == pytest.approx(15.0, rel=0.05)
    clock.now += 31.0
    summary = telemetry.summary("m")
    assert (summary["requests_per_second"], summary["p50"], summary["p99"]) == (0.0, None, None)


def test_a_young_server_divides_by_the_time_that_it_runs(telemetry, clock):
    count(telemetry, clock, [0.001] * 100, every=0.1)
    assert telemetry.summary("m")["requests_per_second"] == pytest.approx(10.0)


def test_what_an_operator_asks_is_no_part_of_the_latencies_of_rows(telemetry, clock):
    count(telemetry, clock, [0.001] * 10)
    for route in ("/features", "/snapshot", "/info", "/events"):
        count(telemetry, clock, [5.0] * 10, route=route)
    assert telemetry.summary("m")["p99"] == pytest.approx(0.001, rel=0.1)


def test_refusals_are_those_of_the_last_hour(telemetry, clock):
    count(telemetry, clock, [0.0] * 3, status=422)
    clock.now += 1800.0
    count(telemetry, clock, [0.0] * 2, status=429)
    count(telemetry, clock, [0.0], status=422, model="another")
    count(telemetry, clock, [0.0], status=404, model="", route="other")
    count(telemetry, clock, [0.0], status=503, model="", route="/readyz")  # an answer, and no refusal
    assert telemetry.summary("m")["refused"] == {404: 1, 422: 3, 429: 2}
    clock.now += 1900.0
    assert telemetry.summary("m")["refused"] == {404: 1, 429: 2}
    clock.now += 3600.0
    assert telemetry.summary("m")["refused"] == {}
    assert telemetry.refusals() == {404: 1, 422: 4, 429: 2}  # since the start


def test_the_time_that_a_client_takes_to_send_is_not_counted(telemetry, clock):
    parts = [{"body": b"{", "more_body": True}, {"body": b"}", "more_body": False}]

    async def receive():
        clock.now += 7.0
        return parts.pop(0)

    async def send(message):
        pass

    async def exchange():
        one = HttpRequest(telemetry, Messages(print), {"headers": []}, receive, send, ("/predict", "m"))
        await one.receive()
        await one.receive()
        clock.now += 0.25
        await one.respond(b"{}")

    asyncio.run(exchange())
    telemetry.fold()
    assert telemetry.latencies["/predict"].total == pytest.approx(0.25)


# --- scraped ----------------------------------------------------------------------------------------------------------


def samples(server):
    text = server.client.get("/metrics").text
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def values(server, name):
    return {frozenset(one.labels.items()): one.value for one in samples(server) if one.name == name}


@contextlib.contextmanager
def not_ready(served):
    served.state = "starting"
    yield
    served.state = "ready"


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server that has met whatever rules and dashboards speak of."""
    with running(tmp_path_factory.mktemp("state"), {"default": learner(bits=8)}, max_waiting=64) as server:
        for k in range(20):
            server.post("/learn", {"a": k, "label": k % 2})
            server.post("/predict", {"a": k, "id": f"row {k}"})
        server.post("/label", [{"id": f"row {k}", "label": 1} for k in range(10)])
        server.post("/learn", {"a": [1]})
        server.post("/snapshot", b"")
        server.client.get("/readyz")
        server.client.get("/secret/../../etc")
        with not_ready(server.served):
            server.post("/predict", {"a": 1})
        waiting = server.served.owner.waiting
        waiting |= set(range(64))
        server.post("/predict", {"a": 1})
        waiting -= set(range(64))
        until = time.monotonic() + 30.0
        while not values(server, "bayou_oldest_open_row_timestamp_seconds") and time.monotonic() < until:
            time.sleep(0.05)  # the log's thread looks once a second
        yield server


def test_requests_are_counted_by_route_status_and_model(busy):
    counts = values(busy, "bayou_requests_total")
    of_model = {(dict(key)["route"], dict(key)["status"]): n for key, n in counts.items() if dict(key)["model"]}
    assert of_model == {
        ("/learn", "200"): 20, ("/learn", "422"): 1, ("/predict", "200"): 20, ("/label", "200"): 1,
        ("/snapshot", "200"): 1, ("/predict", "503"): 1, ("/predict", "429"): 1,
    }  # fmt: skip
    assert {dict(key)["model"] for key in counts} == {"default", ""}
    # Whatever clients make up is one route.
    assert counts[frozenset({("route", "other"), ("status", "404"), ("model", "")})] == 1
    assert "secret" not in busy.client.get("/metrics").text


def test_latencies_commits_and_waits_are_histograms(busy):
    latencies = values(busy, "bayou_request_seconds_count")
    assert latencies[frozenset({("route", "/predict")})] == 22
    assert values(busy, "bayou_request_seconds_sum")[frozenset({("route", "/learn")})] > 0.0
    for name in ("bayou_log_commit_seconds", "bayou_log_wait_seconds", "bayou_queue_seconds"):
        [n] = values(busy, f"{name}_count").values()
        buckets = [one.value for one in samples(busy) if one.name == f"{name}_bucket"]
        assert n >= 40
        assert buckets == sorted(buckets)
        assert buckets[-1] == n


def test_what_an_operator_must_know_is_exposed(busy):
    def one(name):
        [value] = values(busy, name).values()
        return value

    assert one("bayou_ready") == one("bayou_log_writable") == 1.0
    assert one("bayou_snapshot_failures_total") == 0.0
    assert one("bayou_log_bytes") >= (busy.served.folder.path / "log.sqlite").stat().st_size
    assert one("bayou_disk_free_bytes") > 0
    newest = busy.served.folder.snapshot(busy.served.snapshot_version)
    assert one("bayou_snapshot_timestamp_seconds") == pytest.approx(newest.stat().st_mtime, abs=2.0)
    assert one("bayou_oldest_open_row_timestamp_seconds") == pytest.approx(busy.server.telemetry.started, abs=60.0)
    assert one("bayou_label_wait_seconds") == 7 * 86400
    assert {dict(key)["quantile"] for key in values(busy, "bayou_label_delay_seconds")} == {"0.5", "0.9", "0.99"}
    assert one("process_resident_memory_bytes") > 1e6
    [build] = values(busy, "bayou_build_info")
    assert dict(build).keys() == {"version", "python", "numba", "processor"}
    assert dict(build)["version"] == bayou.__version__


def test_a_summary_says_how_the_server_is(busy):
    summary = busy.server.telemetry.summary("default")
    assert summary.keys() == {
        "started", "uptime", "version", "host", "requests_per_second", "p50", "p99", "refused", "last_error",
    }  # fmt: skip
    assert summary["refused"] == {404: 1, 422: 1, 429: 1, 503: 1}
    assert summary["last_error"] is None
    assert 0.0 < summary["p50"] <= summary["p99"]


def test_each_model_has_its_own_numbers(tmp_path):
    with running(tmp_path, {"a": learner(), "b": learner()}) as server:
        for _ in range(3):
            server.post("/models/a/predict", {"x": 1})
        server.post("/models/none/predict", {"x": 1})
        counts = {
            (dict(key)["route"], dict(key)["model"]): n for key, n in values(server, "bayou_requests_total").items()
        }
        assert counts["/predict", "a"] == 3
        assert counts["/predict", ""] == 1
        assert ("/predict", "b") not in counts
        assert server.server.telemetry.summary("b")["requests_per_second"] == 0.0
        assert {dict(key)["model"] for key in values(server, "bayou_ready")} == {"a", "b"}


def test_a_snapshot_is_as_old_after_a_restart_as_before(tmp_path):
    with running(tmp_path) as server:
        server.post("/learn", {"a": 1, "label": 1})
    with running(tmp_path) as server:
        written = server.served.folder.snapshot(server.served.snapshot_version).stat().st_mtime
        [shown] = values(server, "bayou_snapshot_timestamp_seconds").values()
        assert shown == pytest.approx(written)


def test_refusals_for_want_of_a_token_are_counted(tmp_path):
    token = "0123456789abcdef"
    path = tmp_path / "tokens"
    path.write_text(f"write {token}\n")
    path.chmod(0o600)
    with running(tmp_path / "state", tokens=Tokens.of(path)) as server:
        assert server.post("/predict", {"x": 1}).status_code == 401
        server.client.headers["authorization"] = f"Bearer {token}"
        key = frozenset({("route", "/predict"), ("status", "401"), ("model", "default")})
        assert values(server, "bayou_requests_total")[key] == 1
        assert values(server, "bayou_refused_total")[frozenset({("status", "401")})] == 1


def test_a_request_that_never_came_whole_is_counted(tmp_path):
    with running(tmp_path, timeout=0.2) as server:
        with socket.create_connection(("127.0.0.1", server.server.port), timeout=30.0) as client:
            client.sendall(b"POST /predict HTTP/1.1\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 408")
        key = frozenset({("route", "other"), ("status", "408"), ("model", "")})
        assert values(server, "bayou_requests_total")[key] == 1
    assert "a request was refused with 408: the request did not arrive in time." in server.said


# --- rules and the dashboard ------------------------------------------------------------------------------------------


def rules():
    groups = yaml.safe_load((PACKAGING / "prometheus" / "bayou.rules.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard():
    return json.loads((PACKAGING / "grafana" / "bayou.json").read_text())


def expressions():
    """(where, expression, labels of its legend)"""
    for alert, rule in rules().items():
        said = " ".join(rule["annotations"].values())
        yield alert, rule["expr"], re.findall(r"\$labels\.(\w+)", said)
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "5m")
            yield panel["title"], text, re.findall(r"{{(\w+)}}", target["legendFormat"])
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"], []


# Given by Prometheus to whatever it scrapes.
OF_TARGETS = {"job": "bayou", "instance": "localhost:8642"}


@pytest.mark.parametrize(("where", "text", "shown"), [*expressions()])
def test_what_rules_and_dashboard_ask_for_is_exposed(busy, where, text, shown):
    exposed = samples(busy)
    parsed = Parser(text)
    labels = set()
    for selector in parsed.selectors:
        found = [sample.labels | OF_TARGETS for sample in exposed if sample.name == selector.metric]
        assert found, f"{where}: there is no {selector.metric}"
        for label, operator, value in selector.matchers:
            assert label in found[0], f"{where}: {selector.metric} has no label {label}"
            if operator in ("=", "=~") and not value.startswith("$"):
                # Each of the alternatives is met by something.
                for one in value.split("|"):
                    assert any(re.fullmatch(one, sample[label]) for sample in found), f"{where}: no {label} is {one}"
        labels |= found[0].keys()
    assert parsed.selectors
    assert {*parsed.labels, *shown} <= labels, where


@pytest.mark.parametrize("alert", rules().values(), ids=rules().keys())
def test_an_alert_says_how_grave_it_is_and_what_to_do(alert):
    assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"].keys() == {"summary", "description"}
    assert re.fullmatch(r"\d+[mhd]", alert.get("for", "0m"))


@pytest.mark.parametrize(
    "text",
    [
        "rate(a)",
        "sum by (x rate(a[5m])",
        "a{b=1}",
        'a{b="1"',
        "a > ",
        "rate(a[5m], 2)",
        "a b",
        "sum(a",
        "a[5]",
        "a{b~'c'}",
    ],
)
def test_what_is_no_promql_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        Parser(text)


def test_panels_of_the_dashboard_do_not_overlap():
    cells = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not mine & cells, panel["title"]
        cells |= mine
