"""What happens to a run, as lines of the logging module: one for each start, epoch, restart, takeover, savepoint and end."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from millstream.api.running.result import EpochSummary, RunResult
from millstream.errors import MillstreamError
from millstream.model.time import instant_text
from millstream.redaction import redacted

if TYPE_CHECKING:
    from millstream.checkpoint.lease_record import LeaseRecord

RUN = logging.getLogger("millstream.run")
"""Starts, epochs, savepoints and ends. Programs learn of an end by themselves, so nothing is printed unless someone listens."""
RUN.addHandler(logging.NullHandler())
RECOVERY = logging.getLogger("millstream.recovery")
"""Restarts and takeovers; the logging module shows its warnings on stderr when nobody listens."""
CONTEXT = ("job", "run", "lineage", "token", "epoch")
"""Fields of every line."""


class Fields(dict[str, Any]):
    """Fields of a line; as text, what is known of them."""

    def __str__(self) -> str:
        return " ".join(f"{name}={_word(value)}" for name, value in self.items() if value is not None)


class RunLog:
    """The lines of one run. Its id stays the same when the run starts again by itself."""

    def __init__(self) -> None:
        self._context: dict[str, Any] = {**dict.fromkeys(CONTEXT), "run": uuid.uuid4().hex[:12]}

    def at(self, **context: object) -> None:
        """Where the run is now: `job`, `lineage`, `token`, `epoch`."""
        self._context.update(context)

    def started(self, result: RunResult, engine: str) -> None:
        """An attempt owns the checkpoint and goes on from its newest epoch."""
        known = {"resumed_from": result.resumed_from, "failures": result.failures}
        self._say("run started", {"engine": engine, "guarantee": str(result.guarantee), **known})

    def restores(self, epoch: int | None, *, savepoint: str | None) -> None:
        """An attempt owns the checkpoint and is about to take up what is there: its newest epoch, or a savepoint."""
        self._say("run restores", {"from_epoch": epoch, "from_savepoint": savepoint}, level=logging.DEBUG)

    def taken_over(self, earlier: LeaseRecord) -> None:
        """An earlier owner had not given the checkpoint back: it was killed, or fell silent and may still run somewhere."""
        level = logging.INFO if earlier.process.is_gone else logging.WARNING
        owner = f"{earlier.process.pid} on {earlier.process.host}"
        self._say("checkpoint taken over", {"from_token": earlier.token, "owner": owner}, to=RECOVERY, level=level)

    def published(self, summary: EpochSummary) -> None:
        """An epoch is published."""
        self.at(epoch=summary.epoch)
        figures = {name: getattr(summary, name) for name in ("rows_in", "rows_out", "seconds", "lag", "terminal")}
        self._say("epoch published", {**figures, "watermark": instant_text(summary.watermark)})

    def savepoint(self, identifier: str, path: str, form: str) -> None:
        """A savepoint is valid."""
        self._say("savepoint taken", {"id": identifier, "path": path, "form": form})

    def savepoint_failed(self, identifier: str, problem: Exception) -> None:
        """A savepoint could not be taken; the run goes on."""
        self._say("savepoint failed", {"id": identifier, **_told(problem)}, level=logging.WARNING)

    def restarts(self, problem: Exception, *, in_a_row: int, tolerated: int) -> None:
        """The run gets over a failure."""
        told = {"in_a_row": in_a_row, "tolerated": tolerated, **_told(problem)}
        self._say("run restarts", told, to=RECOVERY, level=logging.WARNING)

    def ended(self, result: RunResult) -> None:
        """The run has ended in one of the ways it may."""
        names = ("ended", "epochs", "rows_in", "rows_out", "failures", "seconds", "savepoint")
        self._say("run ended", {name: getattr(result, name) for name in names})

    def failed(self, problem: Exception) -> None:
        """The run has failed for good."""
        self._say("run failed", _told(problem), level=logging.ERROR)

    def _say(
        self, event: str, more: Mapping[str, object], *, to: logging.Logger = RUN, level: int = logging.INFO
    ) -> None:
        """One line: a constant text, and everything that varies as a field of the record."""
        if to.isEnabledFor(level):
            fields = Fields({name: _shown(value) for name, value in {**self._context, **more}.items()})
            to.log(level, f"{event} %s", fields, extra={"event": event, **fields})


def _told(problem: Exception) -> dict[str, object]:
    """An error as fields of a line."""
    if isinstance(problem, MillstreamError):
        return {"code": problem.code, "domain": problem.domain, "step": problem.step, "error": str(problem)}
    return {"domain": "internal", "error": f"{type(problem).__name__}: {problem}"}


def _shown(value: object) -> object:
    return redacted(value) if isinstance(value, str) else value


def _word(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return f'"{text}"' if not text or any(letter in text for letter in ' "=') else text
