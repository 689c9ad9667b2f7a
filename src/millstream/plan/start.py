"""What the person who starts a run says about its past."""

from __future__ import annotations

from typing import NamedTuple

from millstream.graph.model import Carry
from millstream.model.connector import NewerOutput


class Start(NamedTuple):
    """What the person who starts a job says about its past.

    Args:
        savepoint: the directory of a savepoint; a checkpoint that was restored from it already is resumed.
        newer_output: what becomes of output beyond the savepoint: `refuse`, `keep` or `truncate`.
        allow_dropped_state: accept that the savepoint holds state that no step of the job takes.
        ignore_state_once: give up the state of the checkpoint and start over; has an effect once per checkpoint.
        carry: what another run begins with, once the last one is complete: `nothing`, `position` or `state`.
        run: names the run. A start of the same name is a retry of it; without one, only starts of this very value are.
        claim: which giving away of the run this start has it by: a later one takes the checkpoint from an earlier one at once.
    """

    savepoint: str | None = None
    newer_output: NewerOutput = "refuse"
    allow_dropped_state: bool = False
    ignore_state_once: bool = False
    carry: Carry | None = None
    run: str = ""
    claim: int = 0
