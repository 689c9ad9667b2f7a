"""What is loaded so far of a job file: the job, and the stream behind each step."""

from __future__ import annotations

from typing import Any

from millstream.api.job import Job
from millstream.api.jobfile.forms import flag, wrong_form
from millstream.api.jobfile.written_step import WrittenStep
from millstream.api.streams.stream import DataStream
from millstream.errors import InvalidStep


class LoadedSteps:
    """The job, and its streams by the names under which later steps read them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._streams: dict[str, DataStream] = {}
        self._previous: DataStream | None = None

    def take(self, stream: DataStream | None) -> None:
        """The stream behind the newest step; a sink has none."""
        self._previous = stream
        if stream is not None:
            self._streams[stream.step] = stream

    def call(self, name: str, stream: DataStream) -> None:
        """Another name for a stream, beside the id of the step that makes it."""
        self._streams[name] = stream

    def input(self, step: WrittenStep) -> DataStream:
        """The stream a step reads: the one named by `input:`, or that of the step before."""
        stream = self.named(step.options["input"]) if "input" in step.options else self._previous
        if stream is None:
            msg = "there is no stream to read: a sink has no output, and nothing stands before the first step"
            raise InvalidStep(msg, code="DECL-008", known=self._streams, hint="name a step with input:")
        return stream.rebalance() if flag(step.options, "rebalance") else stream

    def named(self, name: Any) -> DataStream:
        """The stream behind a step, or its side output `step.output`."""
        if not isinstance(name, str):
            raise wrong_form(name, "an input", "step or step.output")
        if name in self._streams:
            return self._streams[name]
        step, _, output = name.rpartition(".")
        if step in self._streams:
            return self._streams[step].side_output(output)
        msg = f"unknown input {name!r}"
        raise InvalidStep(msg, code="DECL-007", known=self._streams, hint="name an earlier step, or step.output")
