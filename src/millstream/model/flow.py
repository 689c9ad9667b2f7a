"""Flow control: how much of a source an epoch admits, and what becomes of rows that come faster than a job works."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from millstream.errors import InvalidStep
from millstream.model.time import DurationLike, positive_ms

STRATEGIES = ("buffer", "drop", "latest", "error")
_EARLIER = {"BLOCKING_QUEUE": "buffer", "CREDIT_BASED": "buffer", "ACK_WINDOW": "buffer"}
"""Names that others have for leaving the backlog at the source: a queue that blocks its writer, a credit, a window of acks."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, init=False)
class FlowControl:
    """How a source is slowed down, or cut short, when its job does not keep up.

    `buffer` leaves the backlog where it is. `drop` reads what an epoch may admit and jumps over what waits behind it, `latest`
    reads everything and keeps the newest row of each key, `error` fails the job: these three once more rows wait than
    `capacity_rows` or `capacity_bytes` allow.
    """

    strategy: str = "buffer"
    capacity_rows: int | None = None
    capacity_bytes: int | None = None
    target: str | int | float | None = None
    key: tuple[str, ...] = ()
    window: int = 1

    def __init__(
        self,
        strategy: str = "buffer",
        *,
        capacity_rows: int | None = None,
        capacity_bytes: int | None = None,
        target: DurationLike | None = None,
        key: str | Sequence[str] = (),
        window: int = 1,
    ) -> None:
        """What is given here is checked here.

        Args:
            strategy: `buffer`, `drop`, `latest` or `error`; also BLOCKING_QUEUE, CREDIT_BASED and ACK_WINDOW, which are `buffer`.
            capacity_rows: rows that may wait at the source; with `buffer`, rows that an epoch admits at most.
            capacity_bytes: the same in bytes, by the size that rows turned out to have.
            target: how long an epoch may take: the credit follows the rate at which epochs were worked off.
            key: with `latest`, the columns whose newest row stays; without it, one row of each split stays.
            window: epochs in flight. There is one: the next is planned when it is published.
        """
        given = {
            "strategy": _strategy(strategy),
            "capacity_rows": _whole("capacity_rows", capacity_rows),
            "capacity_bytes": _whole("capacity_bytes", capacity_bytes),
            "target": _target(target),
            "key": (key,) if isinstance(key, str) else tuple(key),
            "window": _window(window),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self._check_together()

    def _check_together(self) -> None:
        if self.strategy != "buffer" and self.capacity_rows is None and self.capacity_bytes is None:
            msg = f"strategy {self.strategy!r} needs a capacity, behind which it acts"
            raise InvalidStep(msg, code="FLOW-001", hint="pass capacity_rows= or capacity_bytes=")
        if self.key and self.strategy != "latest":
            msg = "key= is for strategy 'latest'"
            raise InvalidStep(msg, code="FLOW-001", found=self.strategy, hint="leave key= out")

    @property
    def target_ms(self) -> int | None:
        """The target in milliseconds."""
        return None if self.target is None else positive_ms(self.target, what="target")


def _strategy(value: object) -> str:
    if isinstance(value, str) and _EARLIER.get(value, value) in STRATEGIES:
        return _EARLIER.get(value, value)
    msg = "unknown strategy of flow control"
    known = (*STRATEGIES, *_EARLIER)
    raise InvalidStep(msg, code="FLOW-001", found=repr(value), known=known, hint="use strategy='buffer'")


def _whole(name: str, value: object) -> object:
    if value is not None and (type(value) is not int or value < 1):
        msg = f"{name} is not a whole number above zero"
        raise InvalidStep(msg, code="FLOW-001", found=repr(value), hint=f"correct {name}=")
    return value


def _window(value: object) -> object:
    if value != 1:
        msg = "one epoch is in flight at a time"
        hint = "leave window= out: epochs follow each other without a pause, and larger ones admit more rows"
        raise InvalidStep(msg, code="FLOW-002", found=repr(value), known=1, hint=hint)
    return 1


def _target(value: DurationLike | None) -> str | int | float | None:
    if value is not None:
        positive_ms(value, what="target")
    return f"{round(value.total_seconds() * 1000)}ms" if isinstance(value, dt.timedelta) else value
