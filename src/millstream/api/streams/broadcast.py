"""Broadcast streams: every subtask gets every row."""

from __future__ import annotations

from millstream.api.streams.output import StreamJob
from millstream.errors import InvalidStep
from millstream.graph.step import StepInput


class BroadcastStream:
    """A stream of which every subtask gets every row; `connect` another stream to it."""

    def __init__(self, job: StreamJob, source: StepInput) -> None:
        self._job, self._source = job, source

    def _as_input(self) -> StepInput:
        """This stream as the input of a step."""
        return StepInput(step=self._source.step, output=self._source.output, partition="broadcast")


def updates_input(updates: BroadcastStream, job: StreamJob, step: str | None) -> StepInput:
    """A broadcast stream that brings patterns, as the input of their step."""
    if not isinstance(updates, BroadcastStream) or updates._job is not job:
        msg = "patterns are brought by a broadcast stream of the same job"
        raise InvalidStep(msg, code="STEP-077", step=step, found=repr(updates), hint="pass rules.broadcast()")
    return updates._as_input()
