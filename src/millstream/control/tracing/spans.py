"""The spans of one attempt of a run, from its row and from what its driver reports: values, which need no library.

Ids are computed from the run, its attempt and what a span is of. So every process that knows the run knows its trace, and a node
that adopts a driver goes on with the trace that the node before it began.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Row

from millstream.contract.driver_protocol import DriverReport

Attributes = Mapping[str, str | int | float | bool]
_SAMPLED = "01"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """Something that took its time, in seconds since 1970."""

    name: str
    trace: int
    id: int
    parent: int | None
    start: float
    end: float
    attributes: Attributes
    error: str | None = None
    """A code, if it failed: texts of errors may hold anything."""


def trace_id(run: str, attempt: int) -> int:
    """The trace of an attempt."""
    return _number(16, run, attempt)


def span_id(run: str, attempt: int, what: str) -> int:
    """A span of it."""
    return _number(8, run, attempt, what)


def _number(size: int, *parts: object) -> int:
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=size).digest()
    return int.from_bytes(digest, "big") or 1


def traceparent(run: str, attempt: int) -> str:
    """The trace as the W3C writes it, with the span of the attempt as the parent of what follows."""
    return f"00-{trace_id(run, attempt):032x}-{span_id(run, attempt, 'run'):016x}-{_SAMPLED}"


class AttemptSpans:
    """The spans of one attempt; each is told when it is over."""

    def __init__(self, run: Row[Any], *, every: int) -> None:
        """One epoch of `every` is told, and the last one of a bounded run besides."""
        self._run, self._attempt, self._every = str(run.execution_id), int(run.attempt), every
        self._common: dict[str, str | int] = {
            "millstream.job": run.job_name,
            "millstream.run": self._run,
            "millstream.attempt": self._attempt,
            "millstream.job_version": run.job_version,
        }
        self._submitted, self._due = run.start_time.timestamp(), run.not_before.timestamp()
        self._claimed: float | None = None
        self._is_over = False

    def claimed(self, at: float) -> Iterator[TraceSpan]:
        """A node took it: how long it waited for that, and the first time what came before."""
        self._claimed = at
        if self._attempt == 1:
            yield self._span("submit", self._submitted, self._submitted)
        yield self._span("claim", max(self._submitted, self._due), at)

    def reported(self, report: DriverReport) -> Iterator[TraceSpan]:
        """What a report is the end of."""
        body = report.body
        match report.type:
            case "state" if body["to"] == "RUNNING" and self._claimed is not None:
                yield self._span("start", self._claimed, report.at)
                self._claimed = None
            case "epoch" if body["epoch"] % self._every == 0 or body["terminal"]:
                yield from self._epoch(body, report.at)
            case "result":
                yield from self.ended(report.at, error=_code(body))

    def _epoch(self, body: Mapping[str, Any], at: float) -> Iterator[TraceSpan]:
        number, seconds = body["epoch"], body["seconds"]
        facts = {f"millstream.{name}": body[name] for name in ("epoch", "rows_in", "rows_out", "terminal")}
        epoch = self._span(f"epoch {number}", at - seconds, at, name="epoch", attributes=facts)
        yield epoch
        if "publish" in body.get("phases", {}):
            began = at - min(seconds, body["phases"]["publish"])
            parent = {"parent": epoch.id, "attributes": {"millstream.epoch": number}}
            yield self._span(f"publish {number}", began, at, name="publish", **parent)

    def ended(self, at: float, *, error: str | None = None) -> Iterator[TraceSpan]:
        """The attempt is over, once: its own span, which all others hang from."""
        if not self._is_over:
            self._is_over = True
            began = self._submitted if self._attempt == 1 else self._due
            root = self._span("run", began, at)
            yield dataclasses.replace(root, parent=None, error=error)

    def _span(self, what: str, start: float, end: float, *, name: str = "", **more: Any) -> TraceSpan:
        own = more.pop("attributes", {})
        return TraceSpan(
            name=name or what,
            trace=trace_id(self._run, self._attempt),
            id=span_id(self._run, self._attempt, what),
            start=min(start, end),
            end=end,
            attributes={**self._common, **own},
            **{"parent": span_id(self._run, self._attempt, "run"), **more},
        )


def _code(result: Mapping[str, Any]) -> str | None:
    error = result.get("error")
    return None if not error else str(error.get("code", "MS-000"))
