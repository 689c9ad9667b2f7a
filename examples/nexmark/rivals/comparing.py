"""Queries on several engines over the same files, one after the other: one table, and a file that a later run goes on from."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from examples.nexmark.rivals import inputs, pyflink_install
from examples.nexmark.rivals.expected import expected_values
from examples.nexmark.rivals.measuring import OURS, RIVALS, Measurement, measured
from examples.nexmark.rivals.process import ALL as QUERIES
from examples.nexmark.rivals.setting import MASTER, Setting

INPUTS = ("files", "generator")
__all__ = ["INPUTS", "QUERIES", "RIVALS", "Comparison", "Results", "epoch_events_for", "table", "wrong"]
Key = tuple[str, str]
"""A query and a side."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared, and how."""

    queries: tuple[str, ...]
    rivals: tuple[str, ...]
    events: int
    epoch_events: int
    input: str = "files"
    data: Path
    timeout: float = 900.0

    @property
    def file_events(self) -> int:
        """Two files an epoch: one for each core."""
        return max(1, self.epoch_events // 2)

    @property
    def settings(self) -> dict[str, Any]:
        """What must be equal for a result to be used again."""
        return {"events": self.events, "epoch_events": self.epoch_events, "input": self.input, "master": MASTER}


def epoch_events_for(events: int) -> int:
    """A million; less for short runs, so that they have several epochs too."""
    return min(1_000_000, max(100, events // 5))


class Results:
    """What is measured so far, kept in a file after every side."""

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self._path, self._settings = path, settings
        self.found: dict[Key, Measurement] = {}
        if path is not None and path.exists():
            self._take(json.loads(path.read_text()))

    def _take(self, content: dict[str, Any]) -> None:
        if content["settings"] != self._settings:
            msg = f"{self._path} holds results of {content['settings']}, not of {self._settings}"
            raise ValueError(msg)
        for query, sides in content["results"].items():
            for side, values in sides.items():
                one = Measurement(**{**values, "notes": tuple(values["notes"])})
                if one.is_measured:
                    self.found[query, side] = one

    def add(self, key: Key, one: Measurement) -> None:
        """Note a measurement; a run that is interrupted later leaves it in the file."""
        self.found[key] = one
        if self._path is None:
            return
        results: dict[str, dict[str, Any]] = {}
        for (query, side), measurement in self.found.items():
            results.setdefault(query, {})[side] = dataclasses.asdict(measurement)
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
        content = {"settings": self._settings, "machine": machine, "results": results}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}")
        beside.write_text(json.dumps(content, indent=1))
        beside.replace(self._path)


def measurements(comparison: Comparison, results: Results) -> Iterator[tuple[Key, Measurement]]:
    """Every side of every query, ours first; what the results hold already is not run again."""
    inputs.prepared(comparison.data, comparison.events, comparison.file_events)
    missing = {rival: _not_ready(rival, comparison) for rival in comparison.rivals}
    for query in comparison.queries:
        for side in (OURS, *comparison.rivals):
            key = (query, side)
            if key not in results.found:
                results.add(key, _one(comparison, query, side, missing.get(side, "")))
            yield key, results.found[key]


def _not_ready(rival: str, comparison: Comparison) -> str:
    """Why a rival cannot run on this machine; it is installed when it can be."""
    if rival != "pyflink":
        return ""
    inputs.halves(comparison.data)
    return pyflink_install.installed()


def _one(comparison: Comparison, query: str, side: str, missing: str) -> Measurement:
    if missing:
        return Measurement(failure=missing)
    expected = expected_values(query, comparison.events, comparison.data)
    with tempfile.TemporaryDirectory(prefix="nexmark-", ignore_cleanup_errors=True) as work:
        setting = Setting(
            query=query,
            events=comparison.events,
            epoch_events=comparison.epoch_events,
            file_events=comparison.file_events,
            data=str(comparison.data.resolve()),
            work=str(Path(work) / side),
            input=comparison.input if side == OURS else "files",
            jars=tuple(map(str, pyflink_install.jars())) if side == "pyflink" else (),
        )
        return measured(side, setting, expected, timeout=comparison.timeout)


HEADING = (
    f"{'query':7} {'engine':7} {'events/s':>10} {'core-s':>8} {'RSS MB':>7} {'state MB':>8} "
    f"{'speed':>6} {'CPU':>6}  result"
)
LEGEND = "speed: ours to the engine's events/s; CPU: the engine's core-seconds to ours; above 1, ours is better"


def line(key: Key, one: Measurement, ours: Measurement | None, events: int) -> str:
    """A line of the table."""
    query, side = key
    head = f"{query:7} {side:7}"
    if not one.is_measured:
        return f"{head} {'':>10} {'':>8} {'':>7} {'':>8} {'':>6} {'':>6}  {one.failure}"
    ratios = f"{'':>6} {'':>6}"
    if side != OURS and ours is not None and ours.is_measured:
        ratios = f"{one.seconds / ours.seconds:6.2f} {one.cpu / ours.cpu:6.2f}"
    notes = "".join(f"; {note}" for note in one.notes)
    sizes = f"{one.resident / 1e6:7,.0f} {one.state / 1e6:8,.1f}"
    return f"{head} {events / one.seconds:10,.0f} {one.cpu:8.1f} {sizes} {ratios}  {one.exactness}{notes}"


def table(comparison: Comparison, results: Results) -> Iterator[str]:
    """The table, line by line as it becomes known."""
    yield HEADING
    for key, one in measurements(comparison, results):
        yield line(key, one, results.found.get((key[0], OURS)), comparison.events)
    yield LEGEND


def wrong(comparison: Comparison, results: Results) -> Sequence[str]:
    """The queries that failed or differ on our side."""
    return [query for query in comparison.queries if results.found[query, OURS].is_wrong]
