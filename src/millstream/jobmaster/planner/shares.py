"""How the splits of an epoch are shared by its tasks."""

from __future__ import annotations

from millstream.contract.source import Split


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
