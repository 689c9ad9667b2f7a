"""The best rows of each key, or of each key and window, as the user asks for them."""

from __future__ import annotations

from typing import Literal

from millstream.api.streams.choices import checked_choice
from millstream.graph.operations.rank import RANK_EMITS, Deduplicate, RankEmit, TopN, reversed_order
from millstream.model.time import DurationLike, positive_ms

Kept = Literal["first", "last"]


def top_n_operation(n: int, by: str, rank: str, emit: RankEmit, *, ties: bool) -> TopN:
    """The first rows of each key in an order."""
    return TopN(n=n, by=by, rank=rank, ties=ties, emit=checked_choice(emit, RANK_EMITS, "emit"))


def deduplicate_operation(keep: Kept, by: str | None, ttl: DurationLike | None, emit: RankEmit) -> Deduplicate:
    """One row of each key."""
    return Deduplicate(
        keep=_checked_keep(keep),
        by=by,
        ttl=None if ttl is None else positive_ms(ttl, what="ttl"),
        emit=checked_choice(emit, RANK_EMITS, "emit"),
    )


def kept_of_window(keep: Kept, by: str | None) -> tuple[str | None, bool]:
    """One row of each window as the first of a ranking: its order, and whether the newest of equal rows comes first."""
    is_last = _checked_keep(keep) == "last"
    return reversed_order(by) if is_last and by else by, is_last


def _checked_keep(keep: Kept) -> Kept:
    checked: Kept = checked_choice(keep, ("first", "last"), "keep")
    return checked
