"""`DeploymentPlan`: a partitioned plan with everything a run needs to know about its surroundings."""

from __future__ import annotations

import dataclasses
from typing import Literal

from millstream.errors import InvalidPlan
from millstream.model.ids import StepId
from millstream.plan.partitioned import PartitionedPlan

StateBackend = Literal["rocksdb", "memory"]
STATE_BACKENDS = ("rocksdb", "memory")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl:
    """How much of one source an epoch may admit. Strategy `buffer` leaves the rest at the source."""

    source: StepId
    strategy: Literal["buffer"] = "buffer"
    credit: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Sizes that bound what a task holds at once."""

    payload_bytes: int = 16 << 20
    page_bytes: int = 128 << 10
    driver_mb: int = 1024

    def __post_init__(self) -> None:
        if min(self.payload_bytes, self.page_bytes, self.driver_mb) < 1:
            msg = "memory budget must be above zero"
            raise InvalidPlan(msg, code="PLAN-030", found=dataclasses.asdict(self), hint="correct the budget")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What the person who starts a job may choose, apart from the job itself."""

    master: str = "local[*]"
    checkpoint: str | None = None
    state_backend: StateBackend = "rocksdb"
    memory: MemoryBudget = MemoryBudget()
    confs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.state_backend not in STATE_BACKENDS:
            msg = "unknown state backend"
            raise InvalidPlan(
                msg,
                code="PLAN-031",
                found=repr(self.state_backend),
                known=STATE_BACKENDS,
                hint="use state_backend='rocksdb'",
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """What `spark/` and `local/` execute."""

    plan: PartitionedPlan
    master: str
    checkpoint: str | None
    state_backend: StateBackend
    flow: tuple[FlowControl, ...]
    memory: MemoryBudget
    confs: tuple[tuple[str, str], ...]
    is_bounded: bool
    epoch_interval: int

    @property
    def name(self) -> str:
        """The job's name."""
        return self.plan.graph.name
