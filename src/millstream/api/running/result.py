"""What a run did, in numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from millstream.api.functions.user_metrics import UserMetrics, gathered
from millstream.model.counts import Counts, total

Ending = Literal["finished", "drained", "suspended", "cancelled"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWatermark:
    """How far one partition of an event-time step has come, and what that means for the step."""

    step: str
    partition: str
    watermark: int
    is_idle: bool
    """It had no rows for `idle_after`, and holds nobody back."""
    is_holding: bool
    """The watermark of the step is where it is because of this partition."""
    is_paused: bool
    """It is not read, because it is ahead of others in its alignment group."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VertexLoad:
    """What one vertex did in an epoch, in seconds of its slowest subtask, and how much passed through it."""

    busy: float
    idle: float
    """It waited for what runs before it."""
    blocked: float
    """It waited for what runs behind it: later levels and sinks."""
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    subtasks: int = 0
    """How many of them did it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The step that holds a job back."""

    step: str
    kind: str
    vertex: str
    """The chain it stands in."""
    seconds: float
    """What its slowest subtask took; of a sink, publishing included."""
    share: float
    """Of the epoch."""

    def __str__(self) -> str:
        """In words."""
        return f"{self.kind} {self.step!r} ({self.seconds:.2f} s, {self.share:.0%} of the epoch)"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Where the time of an epoch went."""

    vertices: Mapping[str, VertexLoad] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds of each step: of its slowest subtask, and of a sink with publishing."""
    holder: Holder | None = None
    """The step that took most, unless the epoch's time went elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLoad:
    """What processes of one kind take, as shares of what they may."""

    cpu: float
    """Since the look before."""
    memory: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JvmLoad:
    """What the JVM of a run on Spark holds, in bytes."""

    heap: int
    heap_limit: int
    state: int | None = None
    """What RocksDB holds in memory beside the heap, once Spark has told it of an epoch with state."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpochSummary:
    """An epoch that was published, in numbers."""

    epoch: int
    rows_in: int
    rows_out: int
    lag: int | None
    """Rows that wait at the sources, where they can tell."""
    watermark: int
    """The lowest that a keyed step follows."""
    seconds: float
    terminal: bool
    guarantee: str = "exactly_once"
    """The guarantee in force."""
    token: int = 1
    """Fencing token of the owner."""
    now: int = 0
    """The clock of the epoch."""
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The watermark of each event-time step."""
    watermarks: tuple[PartitionWatermark, ...] = ()
    """How far each partition had come when the epoch was decided, and which of them hold their step back."""
    lags: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Rows that wait in each partition, by source and partition, where sources can tell."""
    blocked: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Partitions that stand still although rows wait there, by source and partition: why."""
    retained: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Bytes that systems outside keep for a source alone until its rows are published, by source and partition."""
    dropped: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    """Rows that were jumped over and are never read, by source and reason."""
    failures: int = 0
    """Failures the run had got over by then."""
    counts: Counts = dataclasses.field(default_factory=dict)
    """What became of the rows of each step, sinks included."""
    metrics: UserMetrics = dataclasses.field(default_factory=dict)
    """What functions of the job counted in this epoch, by step."""
    busy: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds that tasks spent in each vertex, all subtasks together; a vertex is called like the first step of its chain."""
    load: Load = dataclasses.field(default_factory=Load)
    """Where the time went, and which step holds the job back."""
    phases: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds of `tasks` (rows through all steps), `prepare`, `persist` and `publish`, one behind the other."""
    latency: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Per sink that got rows: seconds from their newest event time, or from their admission, until they were published."""
    buffers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Per source: bytes that the epoch admitted and that were fetched ahead of it, as a share of what there is room for."""
    processes: Mapping[str, ProcessLoad] = dataclasses.field(default_factory=dict)
    """What `driver`, `jvm` and `workers` take of what they may, looked at every few seconds."""
    size: int = 0
    """Bytes of state that the epoch wrote, and of what it staged for sinks."""
    shuffled: int | None = None
    """Bytes that passed between subtasks through Spark's shuffle; `None` on an engine without one."""
    jvm: JvmLoad | None = None
    """Of a run on Spark, looked at every few seconds."""

    @property
    def holders(self) -> list[PartitionWatermark]:
        """The partitions that hold the lowest watermark back."""
        holding = [each for each in self.watermarks if each.is_holding]
        lowest = min((each.watermark for each in holding), default=None)
        return [each for each in holding if each.watermark == lowest]


def busy_seconds(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The time that several tasks or epochs spent in each vertex."""
    spent: dict[str, float] = {}
    for part in parts:
        for vertex, seconds in part.items():
            spent[vertex] = spent.get(vertex, 0.0) + seconds
    return spent


def dropped_rows(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """What several epochs jumped over."""
    dropped: dict[str, dict[str, int]] = {}
    for part in parts:
        for source, reasons in part.items():
            counted = dropped.setdefault(source, {})
            for reason, rows in reasons.items():
                counted[reason] = counted.get(reason, 0) + rows
    return dropped


Listener = Callable[[EpochSummary], None]


@dataclasses.dataclass(slots=True, kw_only=True)
class RunResult:
    """What a run did; `counts` covers the epochs of this run only."""

    job: str
    checkpoint: str | None
    epochs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    counts: Counts = dataclasses.field(default_factory=dict)
    resumed_from: int | None = None
    guarantee: str = "exactly_once"
    mode: str = "STREAMING"
    run: int = 1
    """Its number: a job that is complete may be run again."""
    run_id: str = ""
    ended: Ending = "finished"
    savepoint: str | None = None
    """The savepoint it took last."""
    failures: int = 0
    """Failures the run got over by itself."""
    metrics: UserMetrics = dataclasses.field(default_factory=dict)
    """What functions of the job counted, by step."""
    busy: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds that tasks spent in each vertex, all subtasks together."""
    dropped: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    """Rows that were jumped over and are never read, by source and reason."""

    def add(self, summary: EpochSummary, seconds: float) -> None:
        """Count an epoch."""
        self.epochs += 1
        self.rows_in += summary.rows_in
        self.rows_out += summary.rows_out
        self.seconds = seconds
        self.counts = total([self.counts, summary.counts])
        self.metrics = gathered([self.metrics, summary.metrics])
        self.busy = busy_seconds([self.busy, summary.busy])
        self.dropped = dropped_rows([self.dropped, summary.dropped])
