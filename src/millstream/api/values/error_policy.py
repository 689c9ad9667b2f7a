"""What becomes of records that cannot be handled: `on_error=`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.operations.endpoints import LetterLimits
from millstream.graph.outputs import OnError
from millstream.model.connector import ConnectorSpec


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetter:
    """Bad records go to this sink, committed with the epoch."""

    sink: ConnectorSpec
    limits: LetterLimits | None = None


def dead_letter(sink: ConnectorSpec, *, max_rows: int | None = None, max_ratio: float | None = None) -> DeadLetter:
    """Send bad records to a sink: `on_error=ms.dead_letter(ms.files("dead/"), max_ratio=0.01)`.

    Args:
        sink: where they go, committed with their epoch.
        max_rows: how many rows of the step may become dead letters in one run; more fail it.
        max_ratio: the same as a share of the rows that came into the step, once there are a hundred.
    """
    limits = None if max_rows is None and max_ratio is None else LetterLimits(max_rows=max_rows, max_ratio=max_ratio)
    return DeadLetter(sink, limits)


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
