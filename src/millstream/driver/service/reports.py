"""The reports of a driver: numbered, kept for a node that was away, and never a reason for the run to wait."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from millstream.contract.driver_protocol import BadLine, DriverReport, ReportType, RunSpec, encode_line
from millstream.driver.service.journal import JOURNALED, Journal
from millstream.driver.service.mask import Mask

KEPT = 1000
_LESS: tuple[ReportType, ...] = ("progress", "alive", "subtasks")
"""What goes first when there is no room: newer ones say the same."""


class KeptReport(NamedTuple):
    """A report as it is sent."""

    seq: int
    type: ReportType
    line: bytes


class Reports:
    """The last reports of this process; shared between threads."""

    def __init__(
        self,
        spec: RunSpec,
        journal: Journal,
        mask: Mask,
        *,
        kept: int = KEPT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec, self._journal, self._mask, self._most, self._clock = spec, journal, mask, kept, clock
        self._kept: deque[KeptReport] = deque()
        self._changed = threading.Condition()
        self.seq = 0
        self._is_over = False

    def report(self, kind: ReportType, body: dict[str, Any]) -> bytes:
        """Number a report and keep it; whoever is connected gets it soon. Returns it as it is sent.

        Nothing comes behind the result.
        """
        with self._changed:
            if self._is_over:
                return b""
            self._is_over = kind == "result"
            self.seq += 1
            line = self.line(kind, body, seq=self.seq)
            if kind == "subtasks":
                self._forget(kind)
            self._kept.append(KeptReport(self.seq, kind, line))
            if len(self._kept) > self._most:
                self._make_room()
            if kind in JOURNALED:
                self._journal.write(line)
            self._changed.notify_all()
            return line

    def line(self, kind: ReportType, body: dict[str, Any], *, seq: int = 0) -> bytes:
        """A report as it is sent, without secrets; one that is too long keeps its short parts."""
        report = DriverReport(
            type=kind, run=self._spec.run, token=self._spec.token, seq=seq, at=self._clock(), body=body
        )
        try:
            line = encode_line(report)
        except BadLine:
            report = msgspec.structs.replace(report, body=_shortened(body))
            line = encode_line(report)
        if self._mask.hidden(line) == line:
            return line
        # In its texts, not in the line: a secret may be a number, or a word that lines have for themselves.
        return encode_line(msgspec.structs.replace(report, body=self._mask.hidden_in(msgspec.to_builtins(report.body))))

    def _forget(self, kind: ReportType) -> None:
        """A newer report says everything that this one did."""
        self._kept = deque(each for each in self._kept if each.type != kind)

    def _make_room(self) -> None:
        for kind in _LESS:
            oldest = next((each for each in self._kept if each.type == kind), None)
            if oldest is not None:
                self._kept.remove(oldest)
                return
        self._kept.popleft()

    def since(self, seq: int, *, wait: float) -> list[KeptReport]:
        """Kept reports behind a number; waits for the first one, but no longer than told."""
        with self._changed:
            if self.seq <= seq:
                self._changed.wait(wait)
            return [each for each in self._kept if each.seq > seq]

    def missed(self, seq: int) -> list[KeptReport]:
        """All reports behind a number that are still to be had: of those that memory let go, the journaled ones."""
        with self._changed:
            kept = [each for each in self._kept if each.seq > seq]
            have = {each.seq for each in kept}
            older = self._journal.lines(above=seq, below=self.seq + 1) if len(have) < self.seq - seq else ()
            found = [KeptReport(number, "state", line) for number, line in older if number not in have]
        return sorted([*found, *kept])


def _shortened(body: dict[str, Any]) -> dict[str, Any]:
    """The parts that are short, and the names of those that were left out."""
    sizes = {name: len(msgspec.json.encode(value)) for name, value in body.items()}
    short = {name: value for name, value in body.items() if sizes[name] <= 1 << 14}
    return {**short, "left_out": sorted(set(body) - set(short))}
