"""`/metrics`: what a process of the service knows, in the text format that Prometheus reads."""

from __future__ import annotations

import contextlib
import logging
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from millstream import __version__
from millstream.api.functions.user_metrics import Spread
from millstream.control.act import acting
from millstream.control.metadata.database import Metadata
from millstream.control.metrics.catalogue import FLEET_METRICS, SERVER_METRICS
from millstream.control.metrics.fleet import FleetFigures
from millstream.control.metrics.runs import RunFigures
from millstream.errors import ExternalFailure
from millstream.jobmaster.metrics.catalogue import RUN_METRICS
from millstream.jobmaster.metrics.metric import Figure, Metric, buckets, grouped

_KEPT = 5.0
"""Seconds for which the fleet's figures are told again: whoever scrapes often does not ask the database often."""
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
_log = logging.getLogger(__name__)
_Labelled = tuple[Mapping[str, str], Figure]


def text(registry: CollectorRegistry) -> bytes:
    """What a registry's collectors tell now."""
    return generate_latest(registry)


def families(
    metrics: Iterable[Metric], figures: Iterable[_Labelled], common: tuple[str, ...] = ()
) -> Iterator[MetricFamily]:
    """Samples as the library's families, each with the labels that all have in common."""
    told = list(figures)
    by_figure = {id(figure): labels for labels, figure in told}
    for metric, several in grouped(metrics, (figure for _, figure in told)):
        family = _FAMILIES[metric.kind](metric.shown, metric.text, labels=[*common, *metric.labels])
        for figure in several:
            named = {**by_figure[id(figure)], **figure.labels}
            _add(family, [named[name] for name in (*common, *metric.labels)], figure.value)
        yield family


def _add(family: MetricFamily, labels: list[str], value: float | Spread) -> None:
    if isinstance(value, Spread):
        assert isinstance(family, HistogramMetricFamily), family.name
        family.add_metric(labels, list(buckets(value)), value.sum)
    else:
        assert isinstance(family, CounterMetricFamily | GaugeMetricFamily), family.name
        family.add_metric(labels, value)


class RunCollector(Collector):
    """Figures of the runs of this process's node."""

    def __init__(self, runs: Callable[[], Iterable[RunFigures]], clock: Callable[[], float] = time.time) -> None:
        """`runs` gives those that the node answers for at the time."""
        self._runs, self._clock = runs, clock

    def collect(self) -> Iterator[MetricFamily]:
        """The newest figures."""
        now = self._clock()
        told = [(run.labels, figure) for run in self._runs() for figure in run.figures(now)]
        return families(RUN_METRICS, told, ("job_name", "slot"))


class FleetCollector(Collector):
    """Figures of all jobs and nodes. A database that does not answer takes these figures away, not the page."""

    def __init__(self, metadata: Metadata, clock: Callable[[], float] = time.monotonic) -> None:
        self._metadata, self._clock, self._fleet = metadata, clock, FleetFigures()
        self._lock = threading.Lock()
        self._read: float | None = None
        self._figures: list[Figure] = []

    def collect(self) -> Iterator[MetricFamily]:
        """The figures, a few seconds old at most."""
        with self._lock:
            if self._read is None or self._clock() - self._read >= _KEPT:
                self._figures = self._newest()
                self._read = self._clock()
            return families(FLEET_METRICS, [({}, figure) for figure in self._figures])

    def _newest(self) -> list[Figure]:
        try:
            with acting(self._metadata) as act:
                return self._fleet.figures(act)
        except ExternalFailure as problem:
            _log.warning("no figures of jobs and nodes: %s", problem)
            return []


class ServerMetrics:
    """What a server measures of itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        listed = {metric.name: metric for metric in SERVER_METRICS}
        requests, clients, build = listed["http_request_seconds"], listed["sse_clients"], listed["build_info"]
        self._requests = Histogram(requests.shown, requests.text, requests.labels, buckets=_REQUESTS, registry=registry)
        self._clients = Gauge(clients.shown, clients.text, registry=registry)
        information = Gauge(build.shown, build.text, build.labels, registry=registry)
        information.labels(version=__version__, python=platform.python_version()).set(1)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; `route` is the pattern that matched, not the path that was asked for."""
        # Whoever asks chooses the word: each would be a series of its own.
        shown = method if method in _METHODS else "other"
        self._requests.labels(method=shown, route=route, status=str(status)).observe(seconds)

    @contextlib.contextmanager
    def streaming(self) -> Iterator[None]:
        """A client listens to events in the body."""
        self._clients.inc()
        try:
            yield
        finally:
            self._clients.dec()


class Exposition:
    """Everything that a server tells Prometheus."""

    def __init__(self, metadata: Metadata, runs: Callable[[], Iterable[RunFigures]]) -> None:
        """`runs` of the node in this process; none where there is no node."""
        self._registry = CollectorRegistry()
        self._registry.register(FleetCollector(metadata))
        self._registry.register(RunCollector(runs))
        self.server = ServerMetrics(self._registry)

    def page(self) -> bytes:
        """The figures now."""
        return text(self._registry)
