"""What a reader process and those who ask it say to each other: JSON values, one to a line."""

from __future__ import annotations

import msgspec

from millstream import errors
from millstream.checkpoint.manifest import EpochManifest
from millstream.errors import ExternalFailure, MillstreamError
from millstream.tracebacks import is_debugging


class LevelWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request: the pages of a keyed level at a retained epoch."""

    folder: str
    """Spark's own folder in a checkpoint or native savepoint, absolute: the reader has a working directory of its own."""
    manifest: EpochManifest
    level: int
    prefix: str = ""
    """How the names of the wanted pages begin: `UID/` for those of one step."""


class PageRead(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="page"):
    """One page; those of a subtask follow each other."""

    subtask: int
    page: str
    content: bytes
    """Base64 in JSON."""


class LevelRead(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="end"):
    """The last line of an answer: that was everything."""

    pages: int


class ReadFailed(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", tag="error"):
    """The last line of an answer: an error of ours, by its class and fields."""

    kind: str
    fields: dict[str, str | None]
    account: str
    """How it came about, for those who look for a mistake."""


AnswerLine = PageRead | LevelRead | ReadFailed
_REQUEST = msgspec.json.Decoder(LevelWanted)
_ANSWER: msgspec.json.Decoder[AnswerLine] = msgspec.json.Decoder(AnswerLine)


class ReaderAccount(Exception):
    """How an error came about in the reader process, as text: the frames themselves cannot leave it."""

    def __str__(self) -> str:
        return f"in the reader process\n{self.args[0]}"


def line_of(value: LevelWanted | AnswerLine) -> bytes:
    """A request or a part of an answer, as it travels."""
    return msgspec.json.encode(value) + b"\n"


def request_in(line: bytes) -> LevelWanted:
    """The request in a line."""
    return _REQUEST.decode(line)


def answer_in(line: bytes) -> AnswerLine:
    """The part of an answer in a line."""
    return _ANSWER.decode(line)


def failed_by(problem: Exception, account: str) -> ReadFailed:
    """What the caller is told of a problem; one that is not ours is told as one of ours."""
    if not isinstance(problem, MillstreamError):
        kind = ExternalFailure if isinstance(problem, OSError) else MillstreamError
        problem = kind(f"{type(problem).__name__}: {problem}")
    return ReadFailed(kind=type(problem).__name__, fields=problem.fields(), account=account)


def error_in(failure: ReadFailed) -> MillstreamError:
    """The error as the reader met it, with its class and fields."""
    kind = getattr(errors, failure.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, MillstreamError)):
        kind = MillstreamError
    fields = dict(failure.fields)
    error: MillstreamError = kind(str(fields.pop("message")), **fields)
    error.__cause__ = ReaderAccount(failure.account) if is_debugging() else None
    return error
