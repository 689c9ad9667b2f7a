"""`DeploymentPlan`: a partitioned plan with everything a run needs to know about its surroundings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from millstream.errors import InvalidPlan
from millstream.graph.model import OnStop, checked_on_stop
from millstream.model.ids import StepId
from millstream.model.mode import Mode
from millstream.plan.flink_keys import refuse_flink_key
from millstream.plan.option_values import Milliseconds, milliseconds, of_kind, path_or_url, settings, whole, wrong
from millstream.plan.partitioned import PartitionedPlan
from millstream.redaction import SecretText, SecretUrl, shown_setting
from millstream.tracebacks import public

StateBackend = Literal["rocksdb", "memory"]
STATE_BACKENDS = ("rocksdb", "memory")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceFlow:
    """How much of one source an epoch may admit, and what becomes of the rest."""

    source: StepId
    strategy: str = "buffer"
    credit: int
    """Rows of an epoch, at most."""
    capacity_rows: int | None = None
    capacity_bytes: int | None = None
    target: int | None = None
    """Milliseconds that an epoch may take."""
    key: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EdgeConfig:
    """What the sender of an exchange holds before it packs rows."""

    port: int
    payload_bytes: int
    memory_share: float
    """Of what a task holds for all exchanges that leave its level."""


@public
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Sizes that bound what a task holds at once."""

    payload_bytes: int = 16 << 20
    exchange_bytes: int = 256 << 20
    """Rows that all senders of a task hold at once; where it is less than a payload for each, payloads are smaller."""
    epoch_bytes: int = 1 << 30
    """What one epoch admits of all sources together, by the size that rows turned out to have."""
    page_bytes: int = 128 << 10
    state_bytes: int = 64 << 20
    """Decoded state that a keyed step holds at once; what an epoch touches beyond that is written and let go on the way."""
    cache_bytes: int = 256 << 20
    """Pages that each worker keeps between epochs with the state backend `memory`."""
    driver_mb: int = 1024

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            whole(field.name, getattr(self, field.name))
        if min(dataclasses.astuple(self)) < 1:
            msg = "memory budget must be above zero"
            raise InvalidPlan(msg, code="PLAN-030", found=dataclasses.asdict(self), hint="correct the budget")


@public
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, init=False)
class EpochPolicy:
    """How epochs are cut, kept and given up. Times are durations such as `10s`, or milliseconds, which is what is kept."""

    min_pause: int = 0
    """Between the end of an epoch and the start of the next; savepoints and the terminal epoch do not wait."""
    timeout: int = 600_000
    """An epoch that takes longer is aborted."""
    retained: int = 50
    """Durable epochs whose manifest and state are kept."""
    tolerated_failures: int = 0
    """Failures in a row, each without an epoch between them, after which the run starts again by itself."""
    lease_term: int = 15_000
    """A silent owner is replaced after that time."""

    def __init__(
        self,
        *,
        min_pause: Milliseconds = 0,
        timeout: Milliseconds = 600_000,
        retained: int = 50,
        tolerated_failures: int = 0,
        lease_term: Milliseconds = 15_000,
    ) -> None:
        values = {
            "min_pause": (milliseconds("min_pause", min_pause), 0),
            "timeout": (milliseconds("timeout", timeout), 1),
            "retained": (whole("retained", retained), 1),
            "tolerated_failures": (whole("tolerated_failures", tolerated_failures), 0),
            "lease_term": (milliseconds("lease_term", lease_term), 100),
        }
        for name, (value, lowest) in values.items():
            if value < lowest:
                msg = f"epochs: {name} is too small"
                raise InvalidPlan(msg, code="PLAN-032", found=value, known=f"{lowest} or more", hint=f"correct {name}=")
            object.__setattr__(self, name, value)


@public
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What the person who starts a job may choose, apart from the job itself."""

    master: str = "local[*]"
    checkpoint: str | None = None
    """A directory: Spark's own checkpoint, source logs and, unless `manifests` says otherwise, manifests."""
    manifests: str | None = None
    """Another store for manifests, head and lease: `s3://…`, `postgresql://…` or `sqlite:///…`."""
    state_backend: StateBackend = "rocksdb"
    memory: MemoryBudget = MemoryBudget()
    epochs: EpochPolicy = EpochPolicy()
    confs: tuple[tuple[str, str], ...] = ()
    on_stop: OnStop | None = None
    """What a signal to stop does, instead of what the job says."""
    params: Mapping[str, Any] | None = None
    """What the run is given; `None` for a plan that is only looked at, in which parameters stay open."""

    def __post_init__(self) -> None:
        self._read_options()
        for key, _ in self.confs:
            refuse_flink_key(key)
        self._check_places()
        if self.state_backend not in STATE_BACKENDS:
            msg = "unknown state backend"
            raise InvalidPlan(
                msg,
                code="PLAN-031",
                found=repr(self.state_backend),
                known=STATE_BACKENDS,
                hint="use state_backend='rocksdb'",
            )

    def _check_places(self) -> None:
        """What is kept needs a directory; manifests alone may have another store."""
        if self.on_stop is not None and checked_on_stop(self.on_stop) == "suspend" and self.checkpoint is None:
            msg = "a run that is suspended needs a place for its savepoint"
            raise InvalidPlan(msg, code="RUN-021", found="on_stop='suspend'", hint="pass checkpoint=DIR too")
        if self.checkpoint is not None and "://" in self.checkpoint:
            msg = "Spark's checkpoint and the logs of sources need a directory"
            raise InvalidPlan(
                msg,
                code="PLAN-033",
                found=self.checkpoint,
                known="a local or mounted path",
                hint="pass checkpoint=DIR, and the store of the manifests as manifests=URL",
            )
        if self.checkpoint is not None and (file := _file_in(self.checkpoint)) is not None:
            msg = "a checkpoint is a directory, and there is a file"
            raise InvalidPlan(msg, code="PLAN-033", found=file, hint="pass checkpoint=DIR, or move the file away")
        if self.manifests is not None and self.checkpoint is None:
            msg = "a store for manifests needs a checkpoint directory beside it"
            raise InvalidPlan(msg, code="PLAN-033", found=self.manifests, hint="pass checkpoint=DIR too")

    def _read_options(self) -> None:
        """Options in the forms in which people write them. What may hold a password does not show it when it is printed."""
        if not isinstance(self.master, str) or not self.master:
            name = "master"
            raise wrong(name, self.master, "a Spark master such as 'local[*]'")
        of_kind("memory", self.memory, MemoryBudget, "MemoryBudget(driver_mb=2048)")
        of_kind("epochs", self.epochs, EpochPolicy, "EpochPolicy(timeout='10m')")
        manifests = path_or_url("manifests", self.manifests)
        read = {
            "checkpoint": path_or_url("checkpoint", self.checkpoint),
            "manifests": None if manifests is None else SecretUrl(manifests),
            "confs": tuple((key, _guarded(key, value)) for key, value in settings("confs", self.confs)),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)


def _file_in(path: str) -> str | None:
    """The file that stands where a directory is to be, or one above it."""
    whole = Path(path).absolute()
    # A path that may not be looked at is refused where it is used, with what is wrong.
    return next((str(part) for part in (whole, *whole.parents) if os.path.isfile(part)), None)  # noqa: PTH113


def _guarded(key: str, value: str) -> str:
    return value if shown_setting(key, value) == value else SecretText(value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """What `spark/` and `local/` execute."""

    plan: PartitionedPlan
    master: str
    checkpoint: str | None
    manifests: str | None
    state_backend: StateBackend
    flow: tuple[SourceFlow, ...]
    edges: tuple[EdgeConfig, ...]
    memory: MemoryBudget
    epochs: EpochPolicy
    confs: tuple[tuple[str, str], ...]
    is_bounded: bool
    mode: Mode
    epoch_interval: int
    on_stop: OnStop
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The values of a run, defaults included."""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.plan.graph.name
