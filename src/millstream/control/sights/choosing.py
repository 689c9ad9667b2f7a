"""Some figures of a run, as they are or over all of their labels."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.jobmaster.metrics.catalogue import RUN_METRICS
from millstream.jobmaster.metrics.metric import PREFIX

AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": statistics.fmean,
    "sum": sum,
}
_KNOWN = {metric.name for metric in RUN_METRICS}


def chosen(figures: Sequence[Mapping[str, Any]], names: Collection[str]) -> list[dict[str, Any]]:
    """Figures by their names, with or without the prefix that Prometheus sees; all without names.

    Raises:
        InvalidStep: (CTL-154) there is no such figure.
    """
    wanted = [name.removeprefix(PREFIX) for name in names]
    unknown = [name for name in wanted if name not in _KNOWN]
    if unknown:
        msg = "there is no such figure of a run"
        raise InvalidStep(
            msg, code="CTL-154", found=unknown, known=sorted(_KNOWN), hint="see docs/reference/metrics.md"
        )
    return [dict(each) for each in figures if not wanted or each["name"] in wanted]


def aggregated(figures: Sequence[Mapping[str, Any]], aggregates: Collection[str]) -> list[dict[str, Any]]:
    """For each name, the aggregates of its samples; of a histogram those of its means.

    Raises:
        InvalidStep: (CTL-155) there is no such aggregate.
    """
    unknown = [name for name in aggregates if name not in AGGREGATES]
    if unknown:
        msg = "figures have no such aggregate"
        raise InvalidStep(msg, code="CTL-155", found=unknown, known=sorted(AGGREGATES), hint="use known aggregates")
    samples: dict[str, list[float]] = {}
    for each in figures:
        samples.setdefault(each["name"], []).extend(_values(each))
    found = {name: values for name, values in samples.items() if values}
    return [
        {"name": name, "samples": len(values), **{each: AGGREGATES[each](values) for each in aggregates}}
        for name, values in found.items()
    ]


def _values(figure: Mapping[str, Any]) -> list[float]:
    if "value" in figure:
        return [figure["value"]]
    return [figure["sum"] / figure["count"]] if figure["count"] else []
