"""Which run of a job a lineage belongs to: a bounded job may be run again and again in one checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Checkpoints from before there were several say nothing: theirs is the first."""

    number: int = 1
    id: str = ""
    """Chosen by whoever started it. A start of that id belongs to the run, however often it is tried."""
    carry: str = ""
    """What it took over from the run before; empty for the first, and for one that a person restored."""
    params: dict[str, Any] = {}
    """What it was given."""
    since: int = 0
    """How many lineages of the history belong to earlier runs."""
