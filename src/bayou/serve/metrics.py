"""What Prometheus scrapes: counts that are kept anyway, worded when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from bayou.serve.served import Served


class _Collector:
    def __init__(self, models: Mapping[str, Served], refused: Mapping[int, int]) -> None:
        self._models, self._refused = models, refused

    def collect(self) -> Iterable[Any]:
        refused = CounterMetricFamily("bayou_refused", "Requests that were refused, by status.", labels=["status"])
        for status, count in sorted(self._refused.items()):
            refused.add_metric([str(status)], count)
        yield refused
        yield from self._of_models()

    def _of_models(self) -> Iterator[Any]:
        def family(kind: Any, name: str, about: str, *labels: str) -> Any:
            return kind(f"bayou_{name}", about, labels=["model", *labels])

        counter, gauge = CounterMetricFamily, GaugeMetricFamily
        predicted = family(counter, "predicted_rows", "Rows that were predicted.")
        learned = family(counter, "learned_rows", "Rows that were learned.")
        labels = family(counter, "labels", "Labels and rows with ids, by what became of them.", "outcome")
        version = family(gauge, "version", "The last entry of the log that the model knows.")
        snapshot = family(gauge, "snapshot_version", "The entry of the newest snapshot.")
        wrote = family(gauge, "snapshot_seconds", "How long the newest snapshot took to write.")
        loss = family(gauge, "loss", "Mean loss of predictions, each made before its row was learned.")
        hour = family(gauge, "loss_hour", "The same over the last hour.")
        waiting = family(gauge, "waiting_requests", "Requests that wait for the model.")
        opened = family(gauge, "open_rows", "Rows that wait for their label.")
        early = family(gauge, "early_labels", "Labels that wait for their row.")
        commits = family(counter, "log_commits", "Transactions of the log.")
        drifts = family(gauge, "drift_alarm", "1 if a model that learns no more would lose clearly more.")
        damaged = family(gauge, "log_damaged", "1 if the log was found to be damaged.")
        for name, served in self._models.items():
            owner = served.owner
            if owner is None:
                continue
            told, counters = served.live.picture(), served.model.counters
            predicted.add_metric([name], served.live.counts["predicted"])
            learned.add_metric([name], served.live.counts["learned"])
            version.add_metric([name], served.model.version)
            snapshot.add_metric([name], max(served.snapshot_version, 0))
            wrote.add_metric([name], served.snapshot_seconds)
            waiting.add_metric([name], len(owner.waiting))
            damaged.add_metric([name], float(bool(served.log_damage)))
            drifts.add_metric([name], float(bool(told["drift"] and told["drift"]["alarm"])))
            for which, value in ((loss, counters.mean_loss), (hour, told["loss_hour"])):
                if value is not None:
                    which.add_metric([name], value)
            if served.log is not None and served.log.ids is not None:
                for outcome, count in sorted(served.log.ids.counts.items()):
                    labels.add_metric([name, outcome], count)
                opened.add_metric([name], served.log.ids.open)
                early.add_metric([name], served.log.ids.early)
            if owner.committer is not None:
                commits.add_metric([name], owner.committer.commits)
        yield from (predicted, learned, labels, version, snapshot, wrote, loss, hour, waiting, opened, early, commits)
        yield from (drifts, damaged)


def metrics(models: Mapping[str, Served], refused: Mapping[int, int]) -> tuple[bytes, str]:
    """The text, and what it is written in."""
    registry = CollectorRegistry()
    registry.register(_Collector(models, refused))
    return generate_latest(registry), CONTENT_TYPE_LATEST
