"""What a figure is: its name, what it counts in, what tells its samples apart; and the text format that Prometheus reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from millstream.api.functions.user_metrics import Spread

PREFIX = "millstream_"
MetricKind = Literal["counter", "gauge", "histogram"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One line of the list of figures, from which files, servers, documentation and dashboards are made."""

    name: str
    """Without the prefix that all of them have."""
    kind: MetricKind
    text: str
    """What it says, as one sentence."""
    labels: tuple[str, ...] = ()
    """Beside those that every figure of its kind of origin has."""
    unit: str = ""
    origin: str
    """Where it comes from, for those who doubt it."""

    @property
    def shown(self) -> str:
        """Its name as Prometheus knows it."""
        return PREFIX + self.name


class Figure(NamedTuple):
    """One sample: of which metric, of what, and how much."""

    name: str
    value: float | Spread
    labels: Mapping[str, str] = {}


def grouped(metrics: Iterable[Metric], figures: Iterable[Figure]) -> Iterator[tuple[Metric, list[Figure]]]:
    """The figures of each metric, in the order of the list; a figure that is not in the list is a mistake of ours."""
    listed = {metric.name: metric for metric in metrics}
    found: dict[str, list[Figure]] = {name: [] for name in listed}
    for figure in figures:
        assert set(figure.labels) == set(listed[figure.name].labels), figure
        found[figure.name].append(figure)
    yield from ((listed[name], several) for name, several in found.items() if several)


def text_of(metrics: Iterable[Metric], figures: Iterable[Figure], common: Mapping[str, str]) -> str:
    """Figures as text, each metric behind its help, each sample with the labels that all have in common."""
    lines: list[str] = []
    for metric, several in grouped(metrics, figures):
        lines += [f"# HELP {metric.shown} {metric.text}", f"# TYPE {metric.shown} {metric.kind}"]
        for figure in several:
            labels = {**common, **{name: figure.labels[name] for name in metric.labels}}
            lines += _lines(metric.shown, labels, figure.value)
    return "\n".join(lines) + "\n"


def _lines(shown: str, labels: Mapping[str, str], value: float | Spread) -> Iterator[str]:
    if not isinstance(value, Spread):
        yield f"{shown}{_labelled(labels)} {value:.15g}"
        return
    for bound, below in buckets(value):
        yield f"{shown}_bucket{_labelled({**labels, 'le': bound})} {below}"
    yield f"{shown}_sum{_labelled(labels)} {value.sum:.15g}"
    yield f"{shown}_count{_labelled(labels)} {value.count}"


def buckets(spread: Spread) -> Iterator[tuple[str, int]]:
    """How many values are at or below each bound, the bound as text."""
    below = 0
    for bound, count in zip((*spread.bounds, float("inf")), spread.counts, strict=True):
        below += count
        yield "+Inf" if bound == float("inf") else f"{bound:.15g}", below


def _labelled(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
