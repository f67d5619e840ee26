"""What Prometheus scrapes: counts that are kept anyway, worded when somebody asks."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from llvmlite import binding
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

import bayou
from bayou.serve.histogram import Histogram
from bayou.serve.ids import Ids
from bayou.serve.owner import Owner
from bayou.serve.served import Served, delay_quantiles
from bayou.serve.telemetry import ModelTimes, Telemetry

_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily


class _View(NamedTuple):
    """A model at the time of a scrape. `ids` is None for a replica, which joins no labels."""

    served: Served
    owner: Owner
    live: Mapping[str, Any]
    ids: Ids | None


class _Metric(NamedTuple):
    """A metric with a value for each model; with `label` a value for each of that label's. None: it has none now."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    about: str
    value: Callable[[_View], float | Mapping[str, float] | None]
    label: str | None = None


def _of_ids(value: Callable[[Ids], Any]) -> Callable[[_View], Any]:
    return lambda view: None if view.ids is None else value(view.ids)


def _drift_alarm(view: _View) -> float:
    drift = view.live["drift"]
    return float(bool(drift and drift["alarm"]))


def _commits(view: _View) -> float | None:
    return None if view.owner.committer is None else view.owner.committer.commits


def _log_bytes(view: _View) -> float | None:
    return None if view.served.log is None else view.served.log.size_bytes()


_METRICS = (
    _Metric(_COUNTER, "predicted_rows", "Rows that were predicted.", lambda view: view.served.live.counts["predicted"]),
    _Metric(_COUNTER, "learned_rows", "Rows that were learned.", lambda view: view.served.live.counts["learned"]),
    _Metric(
        _COUNTER,
        "labels",
        "Labels and rows with ids, by what became of them.",
        _of_ids(lambda ids: ids.counts),
        "outcome",
    ),
    _Metric(
        _GAUGE, "version", "The last entry of the log that the model knows.", lambda view: view.served.model.version
    ),
    _Metric(
        _GAUGE,
        "snapshot_version",
        "The entry of the newest snapshot.",
        lambda view: max(view.served.snapshot_version, 0),
    ),
    _Metric(
        _GAUGE,
        "snapshot_timestamp_seconds",
        "When the newest snapshot was written, in unix time.",
        lambda view: view.served.snapshot_at or None,
    ),
    _Metric(
        _GAUGE,
        "snapshot_seconds",
        "How long the newest snapshot took to write.",
        lambda view: view.served.snapshot_seconds,
    ),
    _Metric(
        _COUNTER,
        "snapshot_failures",
        "Snapshots that could not be written.",
        lambda view: view.served.snapshot_failures,
    ),
    _Metric(
        _GAUGE,
        "loss",
        "Mean loss of predictions, each made before its row was learned.",
        lambda view: view.served.model.counters.mean_loss,
    ),
    _Metric(_GAUGE, "loss_hour", "The same over the last hour.", lambda view: view.live["loss_hour"]),
    _Metric(_GAUGE, "drift_alarm", "1 if a model that learns no more would lose clearly more.", _drift_alarm),
    _Metric(_GAUGE, "waiting_requests", "Requests that wait for the model.", lambda view: len(view.owner.waiting)),
    _Metric(_GAUGE, "open_rows", "Rows that wait for their label.", _of_ids(lambda ids: ids.open)),
    _Metric(_GAUGE, "early_labels", "Labels that wait for their row.", _of_ids(lambda ids: ids.early)),
    _Metric(
        _GAUGE,
        "oldest_open_row_timestamp_seconds",
        "When the oldest row that waits for its label was predicted, in unix time.",
        _of_ids(lambda ids: ids.oldest_pending()),
    ),
    _Metric(
        _GAUGE, "label_wait_seconds", "How long rows wait for their label (--wait).", _of_ids(lambda ids: ids.wait)
    ),
    _Metric(
        _GAUGE,
        "label_delay_seconds",
        "Seconds from a row to its label, of the last 10,000 that came.",
        _of_ids(lambda ids: {f"{percent / 100:g}": delay for percent, delay in delay_quantiles(ids).items()}),
        "quantile",
    ),
    _Metric(_COUNTER, "log_commits", "Transactions of the log.", _commits),
    _Metric(
        _GAUGE, "log_writable", "0 if what is learned cannot be logged.", lambda view: float(view.served.log_writable)
    ),
    _Metric(
        _GAUGE,
        "log_damaged",
        "1 if the log was found to be damaged.",
        lambda view: float(bool(view.served.log_damage)),
    ),
    _Metric(_GAUGE, "log_bytes", "Bytes of the log.", _log_bytes),
    _Metric(
        _GAUGE,
        "disk_free_bytes",
        "Free bytes of the disk that holds the model's state.",
        lambda view: view.served.disk_free(),
    ),
)
_TIMES: tuple[tuple[str, str, Callable[[ModelTimes], Histogram]], ...] = (
    (
        "queue_seconds",
        "Wait of requests for the model's thread, the oldest of those taken together.",
        lambda times: times.queue,
    ),
    (
        "log_wait_seconds",
        "Wait for a transaction of the log, the oldest of what is committed together.",
        lambda times: times.log_wait,
    ),
    (
        "log_commit_seconds",
        "Duration of transactions of the log, most of it until they are on disk.",
        lambda times: times.commit,
    ),
)


def _build() -> dict[str, str]:
    """Return what bayou runs on. The processor is the one that kernels are compiled for."""
    return {
        "version": bayou.__version__,
        "python": platform.python_version(),
        "numba": version("numba"),
        "processor": os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(),
    }


class _Collector:
    def __init__(self, models: Mapping[str, Served], telemetry: Telemetry) -> None:
        self._models, self._telemetry, self._build = models, telemetry, _build()

    def collect(self) -> Iterable[Any]:
        self._telemetry.fold()
        build = _GAUGE("bayou_build_info", "1; its labels say what runs.", labels=list(self._build))
        build.add_metric(list(self._build.values()), 1.0)
        yield build
        yield from self._of_requests()
        yield from self._of_models()

    def _of_requests(self) -> Iterator[Any]:
        refused = _COUNTER("bayou_refused", "Requests that were refused, by status.", labels=["status"])
        for status, count in self._telemetry.refusals().items():
            refused.add_metric([str(status)], count)
        labels = ["route", "status", "model"]
        requests = _COUNTER("bayou_requests", "Requests, by route, status and model.", labels=labels)
        for key, count in sorted(self._telemetry.requests.items()):
            requests.add_metric([key.route, str(key.status), key.model], count)
        about = "Seconds from the last byte of a request to the first of its answer, by route."
        latency = HistogramMetricFamily("bayou_request_seconds", about, labels=["route"])
        for route, histogram in sorted(self._telemetry.latencies.items()):
            latency.add_metric([route], histogram.buckets(), histogram.total)
        yield from (refused, requests, latency)

    def _of_models(self) -> Iterator[Any]:
        ready = _GAUGE("bayou_ready", "1 if the model answers requests.", labels=["model"])
        for name, served in self._models.items():
            ready.add_metric([name], float(served.state == "ready"))
        yield ready
        for metric, about, of in _TIMES:
            times = HistogramMetricFamily(f"bayou_{metric}", about, labels=["model"])
            for name in self._models:
                histogram = of(self._telemetry.times[name])
                times.add_metric([name], histogram.buckets(), histogram.total)
            yield times
        views = {
            name: _View(served, served.owner, served.live.picture(), served.log.ids if served.log is not None else None)
            for name, served in self._models.items()
            if served.owner is not None
        }
        for one in _METRICS:
            family = one.family(f"bayou_{one.name}", one.about, labels=["model", *([one.label] if one.label else [])])
            for name, view in views.items():
                value = one.value(view)
                if isinstance(value, Mapping):
                    for label, part in sorted(value.items()):
                        family.add_metric([name, label], part)
                elif value is not None:
                    family.add_metric([name], value)
            yield family


class Metrics:
    """The metrics of a server, its models and its process."""

    def __init__(self, models: Mapping[str, Served], telemetry: Telemetry) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(models, telemetry))
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> tuple[bytes, str]:
        """Return the text, and what it is written in."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
