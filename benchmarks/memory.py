"""Peak resident memory of the driver's Python, the JVM and the workers, during count and sum per key."""

from __future__ import annotations

from benchmarks.measure import Line, Sides

USES = (("keyed_aggregate", "ours"), ("keyed_aggregate", "catalyst"))
_KINDS = {"driver": "driver, Python", "jvm": "driver, JVM", "workers": "Python workers", "total": "all together"}


def lines(sides: Sides, scale: str) -> list[Line]:
    """One line per kind of process; a hand-written query has no Python workers."""
    found = []
    for kind, name in _KINDS.items():
        mine, theirs = (sides[side].memory.get(kind, 0) / 2**20 for side in ("ours", "catalyst"))
        ratio = mine / theirs if theirs else None
        what = f"peak memory, {name}"
        found.append(Line(what=what, unit="MB", ours=mine, rival=theirs, rival_name="Catalyst groupBy", ratio=ratio))
    return found
