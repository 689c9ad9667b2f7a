"""Calls about dead letters."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from millstream.client.pages import paged, plain
from millstream.client.runs import Opened
from millstream.client.transport import Query, Transport, decoded, escaped
from millstream.client.values import LetterInfo


class LetterGroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Bad records of one step with one kind of error."""

    step: str
    sink: str
    reason: str
    count: int
    new: int
    waiting: int
    replayed: int
    first: dt.datetime | None
    last: dt.datetime | None


class LetterGroupsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """All groups of a job, the largest first; `unreadable` are steps whose letters cannot be read back."""

    job: str
    state: str
    groups: list[LetterGroupInfo]
    more: int
    unreadable: list[dict[str, str]]


class ReadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One bad record; `cut` names texts that are longer than what is shown, with their bytes."""

    id: str
    step: str
    state: str
    at: dt.datetime | None
    attempt: int
    reason: str
    error: str
    record: str
    origin: str | None
    raw: str | None
    cut: dict[str, int]


class EpochLetters(LetterInfo, frozen=True, kw_only=True):
    """Bad records of one epoch and step, with the records."""

    letters: list[ReadLetter]
    total: int


class TriedLetters(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done, and whether the job runs, is stopped or complete."""

    job: str
    state: str
    replayed: int = 0
    before: int = 0
    refused: int = 0
    refusals: list[dict[str, str]] = []
    removed: int = 0
    waiting: int = 0


class DeadLetterCalls:
    """`client.dead_letters`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, run: str | None = None, job: str | None = None) -> Iterator[LetterInfo]:
        """Where bad records are, by epoch and step, newest first."""
        return paged(self._transport, "/dead-letters", LetterInfo, {"run": run, "job": job})

    def get(self, row: int, *, whole: bool = False) -> EpochLetters:
        """The bad records of one row of the list."""
        query: Query = {"whole": "true" if whole else None}
        return self._transport.get(f"/dead-letters/{row}", EpochLetters, query)

    def groups(self, *, job: str | None = None, run: str | None = None, step: str | None = None) -> LetterGroupsInfo:
        """Counts by step and reason."""
        return self._transport.get("/dead-letters/groups", LetterGroupsInfo, {"job": job, "run": run, "step": step})

    def read(
        self,
        job: str,
        *,
        step: str | None = None,
        reason: str | None = None,
        error: str = "",
        ids: Sequence[str] = (),
        run: str | None = None,
        whole: bool = False,
    ) -> Iterator[ReadLetter]:
        """Bad records of a job, newest first."""
        query: Query = {"step": step, "reason": reason, "error": error, "run": run, "whole": "true" if whole else None}
        query = {**query, "ids": [*ids]} if ids else query
        return paged(self._transport, f"/jobs/{escaped(job)}/dead-letters", ReadLetter, query)

    def try_replay(self, **meant: Any) -> TriedLetters:
        """What a replay would do; `meant` is `job` or `run`, and `step`, `reason`, `error`, `ids`."""
        return self._try("replay", meant)

    def replay(self, **meant: Any) -> str:
        """Give letters to their step again, each once; gives the operation to wait for. `meant` as for `try_replay`."""
        return self._ask("replay", meant)

    def try_purge(self, **meant: Any) -> TriedLetters:
        """What `purge` would do."""
        return self._try("purge", meant)

    def purge(self, **meant: Any) -> str:
        """Remove letters from their sinks; gives the operation. Also `replayed` (only those) and `older_than`, in seconds."""
        return self._ask("purge", meant)

    def _try(self, what: str, meant: dict[str, Any]) -> TriedLetters:
        answer = self._transport.send("POST", f"/dead-letters/{what}", body={**_body(meant), "dry_run": True})
        return decoded(answer, TriedLetters)

    def _ask(self, what: str, meant: dict[str, Any]) -> str:
        return self._transport.post(f"/dead-letters/{what}", _body(meant), Opened).operation


def _body(meant: dict[str, Any]) -> dict[str, Any]:
    said = plain(**meant)
    older = said.pop("older_than", None)
    return said if older is None else {**said, "older_than_seconds": older}
