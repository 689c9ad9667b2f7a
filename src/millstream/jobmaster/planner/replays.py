"""Which requests to replay dead letters an epoch serves: at most one of each step, in the order in which they were made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from millstream.checkpoint.replay_log import ReplayLog, waiting
from millstream.contract.source import Split
from millstream.errors import CheckpointRefused
from millstream.graph.step import DEAD
from millstream.jobmaster.connectors import nodes_of
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan
from millstream.runtime.replays import REPLAY

_POLL_SECONDS = 0.5
"""How often requests are looked for."""


class ReplayQueue:
    """The requests of a run; a job without dead letters or without a checkpoint has none."""

    def __init__(self, deployment: DeploymentPlan) -> None:
        self._steps: dict[str, str] = {node.uid: node.id for node in nodes_of(deployment) if DEAD in node.outputs}
        self._log = None
        if deployment.checkpoint is not None and self._steps:
            self._log = ReplayLog(Path(deployment.checkpoint))
        self._polled = float("-inf")
        self._known: dict[str, list[str]] = {}
        self.before = {uid: positions[-1] for uid, positions in self._requests().items()}
        """Where a lineage stands that starts afresh: it reads its input again, and with it what failed."""

    def next(self, replayed: Mapping[str, str], *, at_once: bool = False) -> dict[str, str]:
        """Per step, by uid: the position behind the request that the next epoch serves."""
        if self._log is not None and (at_once or time.monotonic() - self._polled >= _POLL_SECONDS):
            self._polled, self._known = time.monotonic(), self._requests()
        left = {uid: waiting(positions, replayed.get(uid)) for uid, positions in self._known.items()}
        return {uid: positions[0] for uid, positions in left.items() if positions}

    def splits(self, plan: EpochPlan) -> list[tuple[str, Split]]:
        """What the tasks of an epoch read of requests."""
        if not plan.replays:
            return []
        if gone := plan.replays.keys() - self._steps.keys():
            msg = "the epoch that is to be done again replays dead letters of a step that the job no longer has"
            hint = "start the job as it was until that epoch is done, then change it"
            raise CheckpointRefused(msg, code="DLQ-011", found=sorted(gone), known=sorted(self._steps), hint=hint)
        assert self._log is not None, "requests lie in a checkpoint"
        files = {uid: str(self._log.file(uid, position)) for uid, position in plan.replays.items()}
        return [(REPLAY + self._steps[uid], Split("replay", file)) for uid, file in sorted(files.items())]

    def _requests(self) -> dict[str, list[str]]:
        if self._log is None:
            return {}
        return {uid: positions for uid in self._steps if (positions := self._log.requests(uid))}
