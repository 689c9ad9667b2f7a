"""What travels between a node and the driver process of one run: what a run is, and lines of JSON in both directions.

A line is one JSON object of at most 1 MiB with `v`, `type`, `run` and `token`. Lines down say what the node wants; lines up are
reports, numbered from 1 in each driver process. Either side refuses what it cannot read, with an error that says why.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from millstream.contract.reach import Reach
from millstream.errors import Domain, Fenced, MillstreamError

VERSION = 1
LINE_BYTES = 1 << 20
Engine = Literal["spark", "local"]
ReportType = Literal[
    "hello",
    "fenced",
    "refused",
    "state",
    "graph",
    "ack",
    "answer",
    "progress",
    "epoch",
    "subtasks",
    "dead_letters",
    "alive",
    "result",
]
FENCED: ReportType = "fenced"
"""Says that the other side has another token; the connection ends behind it, as behind `refused`: a line was no line."""


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """How the process of a run came to be."""

    is_warm: bool = False
    """Whether it was there before the run."""
    why: str = ""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver process is to run. Written by the node before it starts one; holds no secret, only their names."""

    run: str
    """The execution's id."""
    token: int
    """The claim on the run; it is also the claim on the checkpoint's lease."""
    job: str
    version: int = 1
    attempt: int = 1
    definition: dict[str, Any]
    """`{"kind": "declarative", "document": {…}}`, or `{"kind": "code", "entry": "orders.py:job" or "module:variable"}`."""
    artifact: str | None = None
    """The digest of the code that it brings."""
    code: str | None = None
    """The folder of an unpacked artifact, which is put on the module path."""
    engine: Engine = "spark"
    master: str = "local[*]"
    parallelism: int | None = None
    checkpoint: str
    manifests: str | None = None
    expects_state: bool = False
    """Earlier epochs of the job are known: a checkpoint that is not there is lost, and not one that is yet to begin."""
    state_backend: Literal["rocksdb", "memory"] = "rocksdb"
    start: dict[str, Any] = {}
    """`from_savepoint`, `on_newer_output`, `allow_dropped_state`, `ignore_state_once`, `carry`."""
    params: dict[str, Any] = {}
    confs: dict[str, str] = {}
    epochs: dict[str, Any] = {}
    """What an `EpochPolicy` is to have other than by default."""
    reach: Reach = Reach()
    """What a definition that is data may reach."""
    config: dict[str, Any] = {}
    """Settings of the job that change its steps: `source.batch.size` and others of `plan/job_config.py`."""
    on_stop: Literal["cancel", "suspend", "drain"] | None = None
    memory_limit: int | None = None
    """Bytes that all processes of the run may hold together."""
    secret_names: list[str] = []
    secrets_within: float = 60.0
    """Seconds in which the node has to send the values of the secrets."""
    hold_after: float = 10.0
    """Seconds without a renewal after which nothing more is published."""
    end_after: float = 120.0
    """Seconds without a renewal after which the run ends."""
    alive_every: float = 5.0
    """Seconds between two signs of life, and between two looks at the memory."""
    beginning: Beginning = Beginning()
    trace: str = ""
    """The trace of this attempt, in the form of the W3C's `traceparent`."""


class DriverIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """`driver.json`: the process of a run, unmistakable over restarts of machine and process."""

    pid: int
    started: str
    boot: str
    namespace: str = ""
    host: str = ""
    token: int = 0


class _Down(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    v: int = VERSION
    run: str
    token: int


class NodeHello(_Down, frozen=True, kw_only=True, tag="hello"):
    """The first line of a connection."""

    from_seq: int = 0
    """The number of the newest report that the node has: those behind it come again."""


class SecretValues(_Down, frozen=True, kw_only=True, tag="secrets"):
    """The values of the secrets that the run names; once."""

    values: dict[str, str]

    def __repr__(self) -> str:
        return f"SecretValues({', '.join(self.values)})"


class Renewed(_Down, frozen=True, kw_only=True, tag="renewed"):
    """The node still holds the run."""

    left_ms: int
    """Of its lease, when the line was sent."""
    sent: float | None = None
    """When that was, in seconds since the machine started (`CLOCK_BOOTTIME`): a driver that slept reads old lines late."""


class RunRequest(_Down, frozen=True, kw_only=True, tag="request"):
    """Something is asked of the run; the same id again asks for nothing new."""

    id: str
    action: Literal["cancel", "drain", "suspend", "savepoint"]
    to: str = ""
    form: Literal["canonical", "native"] = "canonical"


class DumpRequest(_Down, frozen=True, kw_only=True, tag="dump"):
    """What every thread of the driver does now is asked for."""

    id: str = "dump"


class LogLevelWish(_Down, frozen=True, kw_only=True, tag="level"):
    """How much is logged from now on."""

    level: Literal["debug", "info", "warning", "error"]


class Ping(_Down, frozen=True, kw_only=True, tag="ping"):
    """A sign of life is asked for."""


class Bye(_Down, frozen=True, kw_only=True, tag="bye"):
    """The node goes; the run does not."""


NodeLine = NodeHello | SecretValues | Renewed | RunRequest | DumpRequest | LogLevelWish | Ping | Bye


class DriverReport(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a driver."""

    v: int = VERSION
    type: ReportType
    run: str
    token: int
    seq: int = 0
    """Its number; 0 for what is of its connection alone: `hello`, `fenced`, `refused`."""
    at: float = 0.0
    """Seconds since 1970 by the driver's clock."""
    body: dict[str, Any] = {}


class BadLine(MillstreamError, ValueError):
    """A line between node and driver that cannot be taken."""

    code = "CTL-101"
    domain: Domain = "internal"


_DOWN: msgspec.json.Decoder[NodeLine] = msgspec.json.Decoder(NodeLine)
_UP = msgspec.json.Decoder(DriverReport)
T = TypeVar("T")


def encode_line(line: NodeLine | DriverReport) -> bytes:
    """A line with its end.

    Raises:
        BadLine: (CTL-100) it is longer than lines may be.
    """
    content = msgspec.json.encode(line)
    if len(content) >= LINE_BYTES:
        raise _too_long(len(content))
    return content + b"\n"


def decode_node_line(content: bytes, *, run: str, token: int) -> NodeLine:
    """A line of the node, as the driver of a run reads it.

    Raises:
        BadLine: it is too long, no such line, or of another run.
        Fenced: its token is another: the run was given to somebody else.
    """
    line = _decoded(_DOWN, content)
    _check_origin(line.v, line.run, run)
    if line.token != token:
        msg = "the run was given away under another token"
        raise Fenced(msg, code="CTL-104", found=line.token, known=token, hint="ask for the run's present node")
    return line


def decode_report(content: bytes, *, run: str) -> DriverReport:
    """A line of the driver, as the node reads it.

    Raises:
        BadLine: it is too long, no such line, or of another run.
    """
    report = _decoded(_UP, content)
    _check_origin(report.v, report.run, run)
    return report


def _decoded(decoder: msgspec.json.Decoder[T], content: bytes) -> T:
    if len(content) > LINE_BYTES:
        raise _too_long(len(content))
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        # What stands in the line is not shown: it may be a secret.
        msg = "a line between node and driver cannot be read"
        raise BadLine(msg, found=problem, hint="see that both run the same version of millstream") from None


def _check_origin(version: int, run: str, known: str) -> None:
    if version != VERSION:
        msg = "a line between node and driver has another version"
        hint = "see that both run the same version of millstream"
        raise BadLine(msg, code="CTL-102", found=version, known=VERSION, hint=hint)
    if run != known:
        msg = "a line between node and driver is of another run"
        raise BadLine(msg, code="CTL-103", found=run, known=known, hint="connect to the socket in that run's folder")


def _too_long(size: int) -> BadLine:
    msg = "a line between node and driver is too long"
    known, hint = f"less than {LINE_BYTES} bytes", "ask for less at once"
    return BadLine(msg, code="CTL-100", found=f"{size} bytes", known=known, hint=hint)
