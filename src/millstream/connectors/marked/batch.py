"""A batch of an epoch, by a name that is the same whenever it comes."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerContext:
    """What belongs to a batch. All of it is equal when the batch comes again."""

    job: str
    lineage: str
    step: str
    epoch: int
    task: str
    """Which task made the rows: level and subtask."""
    sequence: int
    """Which batch of the task in this epoch, from 0 on."""

    @property
    def key(self) -> str:
        """Names the batch among all that the job will ever write."""
        return f"{self.job}/{self.lineage}/{self.step}/{self.epoch}/{self.task}/{self.sequence}"
