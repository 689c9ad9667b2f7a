"""How many runs of one job a schedule may have at once, and what becomes of a fire that finds no free slot."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple

from millstream.errors import InvalidStep

Result = Literal["FIRED", "SKIPPED", "QUEUED"]
MOST_RUNS = 100
"""The most runs at once, and the most fires that wait."""
_FORM = re.compile(r"(skip|cancel_running|queue|allow)(?:\(\s*([0-9]{1,3})\s*\))?")
_WITH_NUMBER = frozenset({"queue", "allow"})


class Concurrency(NamedTuple):
    """`skip`, `queue(n)`, `cancel_running` or `allow(n)`."""

    kind: str
    number: int

    @property
    def slots(self) -> range:
        """The numbers that its runs may have."""
        return range(self.number if self.kind == "allow" else 1)

    @property
    def places(self) -> int:
        """How many fires may wait."""
        return {"queue": self.number, "cancel_running": 1}.get(self.kind, 0)


class Admission(NamedTuple):
    """What becomes of a fire: it starts in a slot, waits, or is skipped."""

    result: Result
    slot: int | None = None
    reason: str | None = None
    cancels: bool = False
    """Whether the runs that hold the slots are to be cancelled, and fires that wait are skipped in favour of this one."""


def concurrency_named(text: str) -> Concurrency:
    """Read a policy.

    Raises:
        InvalidStep: (CTL-206) there is no such policy.
    """
    match = _FORM.fullmatch(text.strip())
    has_number = match is not None and match[2] is not None
    if (
        match is None
        or has_number != (match[1] in _WITH_NUMBER)
        or (has_number and not 1 <= int(match[2]) <= MOST_RUNS)
    ):
        msg = "schedule: concurrency is no policy"
        known = f"skip, cancel_running, queue(n), allow(n) with n from 1 to {MOST_RUNS}"
        raise InvalidStep(msg, code="CTL-206", found=repr(text), known=known, hint="write for example 'queue(3)'")
    return Concurrency(match[1], int(match[2] or 1))


def admission(limit: Concurrency, busy: Collection[int], waiting: int) -> Admission:
    """What becomes of a fire, with the slots that are held and the number of fires that wait already."""
    free = next((slot for slot in limit.slots if slot not in busy), None)
    if free is not None and (waiting == 0 or limit.kind == "allow"):
        return Admission("FIRED", slot=free)
    if limit.kind == "cancel_running":
        return Admission("QUEUED", reason="the run before it is cancelled first", cancels=True)
    if waiting < limit.places:
        return Admission("QUEUED", reason=f"waits behind {waiting + 1}")
    if limit.kind == "queue":
        return Admission("SKIPPED", reason=f"{waiting} fires wait already, and no more may")
    return Admission("SKIPPED", reason=f"{len(limit.slots)} run(s) of the job are active, and no more may be")
