"""What becomes of records that cannot be handled: `on_error=`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.outputs import OnError
from millstream.model.connector import ConnectorSpec


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetter:
    """Bad records go to this sink, committed with the epoch."""

    sink: ConnectorSpec


def dead_letter(sink: ConnectorSpec) -> DeadLetter:
    """Send bad records to a sink: `on_error=ms.dead_letter(ms.files("dead/"))`."""
    return DeadLetter(sink)


OnErrorLike = Literal["fail", "skip"] | DeadLetter


def policy(on_error: OnErrorLike, step: str) -> OnError:
    """The policy as it stands in the plan."""
    if isinstance(on_error, DeadLetter):
        return "dead_letter"
    if on_error == "fail" or on_error == "skip":  # noqa: PLR1714
        return on_error
    msg = "unknown error policy"
    raise InvalidStep(
        msg,
        code="STEP-062",
        step=step,
        found=repr(on_error),
        known="fail, skip, ms.dead_letter(sink)",
        hint="correct on_error=",
    )
