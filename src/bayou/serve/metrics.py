"""Prometheus metrics, computed at each scrape from existing counts."""

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
from bayou.serve.label_joins import LabelJoins
from bayou.serve.owner import Owner
from bayou.serve.service import ModelService
from bayou.serve.telemetry import Telemetry

_Value = float | Mapping[str, float] | None
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily


class _View(NamedTuple):
    """State of a model at the time of a scrape. `ids` is None for a replica, which joins no labels."""

    served: ModelService
    owner: Owner
    live: Mapping[str, Any]
    ids: LabelJoins | None


class _Metric(NamedTuple):
    """Metric with a value per model, or one per value of `label`; None if it has no value now."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    about: str
    value: Callable[[_View], _Value]
    label: str | None = None


def _counter(name: str, about: str, value: Callable[[_View], _Value], label: str | None = None) -> _Metric:
    return _Metric(_COUNTER, name, about, value, label)


def _gauge(name: str, about: str, value: Callable[[_View], _Value], label: str | None = None) -> _Metric:
    return _Metric(_GAUGE, name, about, value, label)


def _of_ids(value: Callable[[LabelJoins], Any]) -> Callable[[_View], Any]:
    return lambda of: None if of.ids is None else value(of.ids)


def _drift_alarm(of: _View) -> float:
    drift = of.live["drift"]
    return float(bool(drift and drift["alarm"]))


_METRICS = (
    _counter("predicted_rows", "Rows that were predicted.", lambda of: of.served.live.counts["predicted"]),
    _counter("learned_rows", "Rows that were learned.", lambda of: of.served.live.counts["learned"]),
    _counter("labels", "Labels and rows with ids, by what became of them.", _of_ids(lambda ids: ids.counts), "outcome"),
    _gauge("version", "The last entry of the log that the model knows.", lambda of: of.served.model.version),
    _gauge("snapshot_version", "The entry of the newest snapshot.", lambda of: max(of.served.snapshot_version, 0)),
    _gauge(
        "snapshot_timestamp_seconds",
        "When the newest snapshot was written, in unix time.",
        lambda of: of.served.snapshot_at or None,
    ),
    _gauge("snapshot_seconds", "How long the newest snapshot took to write.", lambda of: of.served.snapshot_seconds),
    _counter("snapshot_failures", "Snapshots that could not be written.", lambda of: of.served.snapshot_failures),
    _gauge(
        "loss",
        "Mean loss of predictions, each made before its row was learned.",
        lambda of: of.served.model.counters.mean_loss,
    ),
    _gauge("loss_hour", "The same over the last hour.", lambda of: of.live["loss_hour"]),
    _gauge("drift_alarm", "1 if a model that learns no more would lose clearly more.", _drift_alarm),
    _gauge("waiting_requests", "Requests that wait for the model.", lambda of: len(of.owner.waiting)),
    _gauge("open_rows", "Rows that wait for their label.", _of_ids(lambda ids: ids.n_pending)),
    _gauge("early_labels", "Labels that wait for their row.", _of_ids(lambda ids: ids.n_early)),
    _gauge(
        "oldest_open_row_timestamp_seconds",
        "When the oldest row that waits for its label was predicted, in unix time.",
        _of_ids(lambda ids: ids.oldest_pending()),
    ),
    _gauge("label_wait_seconds", "How long rows wait for their label.", _of_ids(lambda ids: ids.wait)),
    _gauge(
        "label_delay_seconds",
        "Seconds from a row to its label, of the last 10,000 that came.",
        _of_ids(lambda ids: {f"{percent / 100:g}": delay for percent, delay in ids.delay_quantiles().items()}),
        "quantile",
    ),
    _counter(
        "log_commits",
        "Transactions of the log.",
        lambda of: None if of.owner.log_writer is None else of.owner.log_writer.commits,
    ),
    _gauge("log_writable", "0 if what is learned cannot be logged.", lambda of: float(of.served.log_writable)),
    _gauge("log_damaged", "1 if the log was found to be damaged.", lambda of: float(bool(of.served.log_damage))),
    _gauge("log_bytes", "Bytes of the log.", lambda of: of.served.log_bytes),
    _gauge("disk_free_bytes", "Free bytes of the disk that holds the model's state.", lambda of: of.served.disk_free()),
)
_TIMES = {
    "queue": "Wait of requests for the model's thread, the oldest of those taken together.",
    "log_wait": "Wait for a transaction of the log, the oldest of what is committed together.",
    "log_commit": "Duration of transactions of the log, most of it until they are on disk.",
}


def _build() -> dict[str, str]:
    """Return versions and processor of this process. The processor is the one that kernels are compiled for."""
    return {
        "version": bayou.__version__,
        "python": platform.python_version(),
        "numba": version("numba"),
        "processor": os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(),
    }


class _Collector:
    def __init__(self, models: Mapping[str, ModelService], telemetry: Telemetry) -> None:
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
        for name, about in _TIMES.items():
            times = HistogramMetricFamily(f"bayou_{name}_seconds", about, labels=["model"])
            for model in self._models:
                histogram = self._telemetry.times[model][name]
                times.add_metric([model], histogram.buckets(), histogram.total)
            yield times
        views = {
            name: _View(served, served.owner, served.live.live_status(), served.ids)
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

    def __init__(self, models: Mapping[str, ModelService], telemetry: Telemetry) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(models, telemetry))
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> tuple[bytes, str]:
        """Return the text of the metrics, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
