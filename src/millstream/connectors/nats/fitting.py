"""Whether the staged messages of an epoch can be published at all: seen before the epoch is durable, when it may still fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.nats.library import Client, JetStreamContext, StreamInfo
from millstream.connectors.nats.links import NatsLink
from millstream.connectors.nats.target import covers, marks_of
from millstream.connectors.staged_rows import staged_path
from millstream.errors import StepFailed
from millstream.model.connector import Options

_FRAME_BYTES = len("NATS/1.0\r\n\r\n")
_LINE_BYTES = len(": \r\n")
_LARGEST_HEADERS = (1 << 16) - 1
"""Of a message in a stream; the server has no setting for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class StreamLimits:
    """What a stream takes."""

    subjects: Sequence[str]
    """Patterns; none where the server does not say."""
    largest: int
    """Bytes of a message."""
    reserved: str = ""
    """Where marks stand, if there are any: a row there would be taken for one."""

    def check(self, folder: str, files: Iterable[Any], subject: str, *, added: int, step: str) -> None:
        """Refuse messages that no attempt would bring into the stream.

        Args:
            folder: where they are staged.
            files: as their writers described them.
            subject: of messages that name none themselves.
            added: bytes of the headers that are sent along with those of a row.
            step: the sink.

        Raises:
            StepFailed: (NATS-021) a subject is none of the stream's, or a message is too large.
        """
        for file in files:
            path = staged_path(folder, file["file"])
            with pa.memory_map(str(path)) as mapped:
                reader = pa.ipc.open_file(mapped)
                for number in range(reader.num_record_batches):
                    self._check(reader.get_batch(number), subject, added, step)

    def _check(self, messages: pa.RecordBatch, subject: str, added: int, step: str) -> None:
        heads = _header_sizes(messages) + added
        if (longest := int(heads.max(initial=0))) > _LARGEST_HEADERS:
            hint, msg = "put less into headers=", "its headers are too large"
            raise _unfit(msg, f"{longest} bytes", f"at most {_LARGEST_HEADERS}", hint, step)
        longest = int((heads + _lengths(messages.column("body"))).max(initial=0))
        if longest > self.largest:
            hint = "change the rows, or raise max_payload of the server and max_msg_size of the stream"
            msg = "a message is too large"
            raise _unfit(msg, f"{longest} bytes with its headers", f"at most {self.largest}", hint, step)
        for named in pc.unique(messages.column("address")).to_pylist():
            self._check_subject(named or subject, step)

    def _check_subject(self, subject: str, step: str) -> None:
        if self.subjects and not any(covers(pattern, subject) for pattern in self.subjects):
            hint = "add it to the subjects of the stream, or filter such rows before the sink"
            msg = "a subject is none of the stream's"
            raise _unfit(msg, subject, ", ".join(self.subjects), hint, step)
        if self.reserved and covers(self.reserved, subject):
            hint = "filter such rows before the sink, or change their subject"
            msg = "a subject is one of marks"
            raise _unfit(msg, subject, f"any but {self.reserved}", hint, step)


def _header_sizes(messages: pa.RecordBatch) -> np.ndarray:
    """The bytes of the headers of each message, as they are written."""
    headers = messages.column("headers")
    lines = _lengths(headers.keys) + _lengths(headers.items) + _LINE_BYTES
    upto = np.concatenate([[0], np.cumsum(lines)])
    offsets = headers.offsets.to_numpy()
    return np.asarray(upto[offsets[1:]] - upto[offsets[:-1]])


def _lengths(texts: pa.Array) -> np.ndarray:
    return np.asarray(pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def header_bytes(headers: Mapping[str, str]) -> int:
    """What a message grows by when these headers go along with it; the frame of all headers is among it."""
    return _FRAME_BYTES + sum(len(name.encode()) + len(value.encode()) + _LINE_BYTES for name, value in headers.items())


def _unfit(what: str, found: str, known: str, hint: str, step: str) -> StepFailed:
    return StepFailed(
        f"a row cannot be published: {what}", code="NATS-021", step=step, found=found, known=known, hint=hint
    )


def limits_of(link: NatsLink, found: StreamInfo, options: Options, *, step: str) -> StreamLimits:
    """What the server takes in a message, and the stream."""

    async def largest(client: Client, _: JetStreamContext) -> int:
        return client.max_payload

    limits = [link.ask(largest, "the server cannot be asked for its limits", step=step)]
    limits += [each for each in (found.config.max_msg_size,) if each is not None and each > 0]
    return StreamLimits(found.config.subjects or (), min(limits), marks_of(options) if options["atomic"] else "")
