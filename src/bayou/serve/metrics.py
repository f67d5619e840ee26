"""Prometheus metrics, computed at each scrape from existing counts."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from bayou.serve.label_joins import LabelJoins
from bayou.serve.owner import Owner
from bayou.serve.service import ModelService
from bayou.serve.telemetry import Telemetry
from bayou.serve.writers import this_writer

_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily


class _View(NamedTuple):
    """State of a model at the time of a scrape. `ids` is None for a replica, which joins no labels."""

    served: ModelService
    owner: Owner
    live: Mapping[str, Any]
    ids: LabelJoins | None


class _Metric(NamedTuple):
    """Metric with a value per model, or one per value of `label`; None if it has no value now."""

    name: str
    about: str
    value: Callable[[_View], Any]
    label: str | None = None


_COUNTERS = (
    _Metric("predicted_rows", "Rows that were predicted.", lambda of: of.served.live.counts["predicted"]),
    _Metric("learned_rows", "Rows that were learned.", lambda of: of.served.live.counts["learned"]),
    _Metric(
        "labels", "Labels and rows with ids, by what became of them.", lambda of: of.ids and of.ids.counts, "outcome"
    ),
    _Metric("snapshot_failures", "Snapshots that could not be written.", lambda of: of.served.snapshot_failures),
    _Metric("log_commits", "Transactions of the log.", lambda of: of.owner.log_writer and of.owner.log_writer.commits),
)
_GAUGES = (
    _Metric("version", "The last entry of the log that the model knows.", lambda of: of.served.model.version),
    _Metric("snapshot_version", "The entry of the newest snapshot.", lambda of: max(of.served.snapshot_version, 0)),
    _Metric(
        "snapshot_timestamp_seconds",
        "When the newest snapshot was written, in unix time.",
        lambda of: of.served.snapshot_at or None,
    ),
    _Metric("snapshot_seconds", "How long the newest snapshot took to write.", lambda of: of.served.snapshot_seconds),
    _Metric(
        "loss",
        "Mean loss of predictions, each made before its row was learned.",
        lambda of: of.served.model.counters.mean_loss,
    ),
    _Metric("loss_hour", "The same over the last hour.", lambda of: of.live["loss_hour"]),
    _Metric(
        "drift_alarm",
        "1 if a model that learns no more would lose clearly more.",
        lambda of: bool(of.live["drift"] and of.live["drift"]["alarm"]),
    ),
    _Metric("waiting_requests", "Requests that wait for the model.", lambda of: len(of.owner.waiting)),
    _Metric("open_rows", "Rows that wait for their label.", lambda of: of.ids and of.ids.n_pending),
    _Metric("early_labels", "Labels that wait for their row.", lambda of: of.ids and of.ids.n_early),
    _Metric(
        "oldest_open_row_timestamp_seconds",
        "When the oldest row that waits for its label was predicted, in unix time.",
        lambda of: of.ids and of.ids.oldest_pending(),
    ),
    _Metric("label_wait_seconds", "How long rows wait for their label.", lambda of: of.ids and of.ids.wait),
    _Metric(
        "label_delay_seconds",
        "Seconds from a row to its label, of the last 10,000 that came.",
        lambda of: of.ids and {f"{percent / 100:g}": delay for percent, delay in of.ids.delay_quantiles().items()},
        "quantile",
    ),
    _Metric("log_writable", "0 if what is learned cannot be logged.", lambda of: of.served.log_writable),
    _Metric("log_damaged", "1 if the log was found to be damaged.", lambda of: bool(of.served.log_damage)),
    _Metric("log_bytes", "Bytes of the log.", lambda of: of.served.log_bytes),
    _Metric(
        "disk_free_bytes", "Free bytes of the disk that holds the model's state.", lambda of: of.served.disk_free()
    ),
)
_TIMES = {
    "queue": "Wait of requests for the model's thread, the oldest of those taken together.",
    "log_wait": "Wait for a transaction of the log, the oldest of what is committed together.",
    "log_commit": "Duration of transactions of the log, most of it until they are on disk.",
}


def _build() -> dict[str, str]:
    """Return the software versions of this process, and the processor that its kernels are compiled for."""
    writer = this_writer()
    return {"version": writer["bayou"], "python": platform.python_version()} | {
        name: writer[name] for name in ("numba", "processor")
    }


class Metrics:
    """The metrics of a server, its models and its process."""

    def __init__(self, models: Mapping[str, ModelService], telemetry: Telemetry) -> None:
        self._models, self._telemetry, self._build = models, telemetry, _build()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> tuple[bytes, str]:
        """Return the text of the metrics, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

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
        for kind, metric in [(_COUNTER, metric) for metric in _COUNTERS] + [(_GAUGE, metric) for metric in _GAUGES]:
            family = kind(f"bayou_{metric.name}", metric.about, labels=["model", *filter(None, [metric.label])])
            for name, view in views.items():
                value = metric.value(view)
                if isinstance(value, Mapping):
                    for label, value_of_label in sorted(value.items()):
                        family.add_metric([name, label], value_of_label)
                elif value is not None:
                    family.add_metric([name], float(value))
            yield family
