"""How the splits of an epoch are shared by its tasks."""

from __future__ import annotations

from millstream.contract.source import Split
from millstream.plan.epoch import EpochPlan
from millstream.runtime.messages import RunIdentity, TaskInput


def spread(splits: list[tuple[str, Split]], tasks: int) -> list[list[tuple[str, Split]]]:
    """Consecutive splits per task, with about equal rows; order is kept across tasks."""
    weights = [max(1, split.rows) for _, split in splits]
    whole, before = max(1, sum(weights)), 0
    shares: list[list[tuple[str, Split]]] = [[] for _ in range(tasks)]
    for named, weight in zip(splits, weights, strict=True):
        # The share that the middle of the split falls into.
        shares[min(tasks - 1, (before + weight // 2) * tasks // whole)].append(named)
        before += weight
    return [share for share in shares if share] or [[]]


def level_0_tasks(
    splits: list[tuple[str, Split]], plan: EpochPlan, run: RunIdentity, parallelism: int
) -> list[TaskInput]:
    """The tasks that read the splits of an epoch; always at least one."""
    shares = spread(splits, parallelism)
    return [
        TaskInput(
            task=number,
            tasks=len(shares),
            plan=plan,
            splits=[(name, split.partition, split.body) for name, split in share],
            run=run,
        )
        for number, share in enumerate(shares)
    ]
