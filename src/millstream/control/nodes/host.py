"""What a node needs of driver processes, so that what it decides can be tried without any."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from millstream.contract.driver_protocol import DriverReport, RunSpec

OnReport = Callable[[DriverReport], None]


def boot_seconds() -> float:
    """A clock that counts while the machine sleeps, and is one for all processes of it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Link(Protocol):
    """A connection to one driver. Nothing of it waits for the driver."""

    @property
    def is_connected(self) -> bool:
        """Whether the driver answers now."""
        ...

    @property
    def last_heard(self) -> float:
        """When it last said something, by the clock that only rises."""
        ...

    def secrets(self, values: Mapping[str, str]) -> None:
        """Send what the run may know."""
        ...

    def renewed(self, left_ms: int, sent: float) -> bool:
        """The node held the run at `sent` (`boot_seconds`), for so long; whether that could be said."""
        ...

    def request(self, id: str, action: str, *, to: str = "", form: str = "canonical") -> None:
        """Ask something of the run."""
        ...

    def dump(self, id: str) -> bool:
        """Ask what every thread does; whether that could be asked."""
        ...

    def close(self) -> None:
        """Leave the driver; its run goes on."""
        ...


class DriverHost(Protocol):
    """Starts, finds and ends drivers on this machine, by run and token."""

    def launch(self, spec: RunSpec) -> None:
        """Start a process for a run."""
        ...

    def link(self, run: str, token: int, *, from_seq: int, on_report: OnReport) -> Link:
        """Connect to the driver of a run, and stay connected while it lives."""
        ...

    def is_alive(self, run: str, token: int) -> bool | None:
        """Whether its process lives; `None` while it has not said who it is."""
        ...

    def last_words(self, run: str, token: int, *, after: int) -> list[DriverReport]:
        """What a driver that ended left behind: reports behind a number, the result last; of one that was killed without it."""
        ...

    def stop(self, run: str, token: int) -> None:
        """Tell its process to stop, as its job wishes to be stopped."""
        ...

    def dump(self, run: str, token: int) -> None:
        """Let a process that answers nobody write down what its threads do."""
        ...

    def kill(self, run: str, token: int) -> None:
        """End all of its processes now."""
        ...
