"""The contract of keyed operators: what one is given in an epoch, and what it says at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from millstream.contract.pages import PageStore
from millstream.plan.epoch import EpochTimes
from millstream.records.batch import Batch
from millstream.runtime.chain.ledger import Ledger
from millstream.state.pages import STATE_BYTES, Due

CHUNK = 16_384
"""Rows an operator turns into Python objects at a time."""
Emit = Callable[[str, Batch, int], None]
"""Takes an output name, rows and the phase they belong to."""


class WorkIdentity(NamedTuple):
    """For whom, and how often, a keyed step does an epoch."""

    job: str = ""
    lineage: str = ""
    token: int = 0
    epoch: int = 0
    attempt: int = 0
    """How often the engine had tried the task before."""


class EpochWork(NamedTuple):
    """What one keyed step has to do in one epoch in one subtask: rows, times, its state, and where results go."""

    times: EpochTimes
    before: list[pa.Table]
    """Rows that upstream made before the watermark moved."""
    after: list[pa.Table]
    """Rows that came after it."""
    store: PageStore
    emit: Emit
    ledger: Ledger
    other_before: list[pa.Table] = []
    """As `before`, of the second input of a step that takes two."""
    other_after: list[pa.Table] = []
    subtask: int = 0
    state_bytes: int = STATE_BYTES
    """How much decoded state to hold at once."""
    params: Mapping[str, Any] = MappingProxyType({})
    """What the run was given."""
    identity: WorkIdentity = WorkIdentity()


class KeyedOperator(Protocol):
    """Runs the same in every engine: rows before the watermark, then due timers, then rows after it."""

    def run(self, work: EpochWork) -> Due:
        """Handle one epoch; returns when the step next has something due."""
        ...
