"""What a function with a life is told when it is opened: where it runs, and metrics of its own.

A class given to a step may define `open(ctx)` and `close()`. `open` runs once per worker process and plan, before the first
row; what it sets on `self` lives across epochs and is not state. `close` runs when the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Counter(Protocol):
    """A number of the user's that only grows; summed over subtasks and epochs."""

    def add(self, amount: float = 1) -> None:
        """Count something."""
        ...


class Gauge(Protocol):
    """A value of the user's that comes and goes; the newest one of each subtask counts."""

    def set(self, value: float) -> None:
        """Say how much it is now."""
        ...


class Histogram(Protocol):
    """How values of the user's are spread; summed over subtasks and epochs."""

    def observe(self, value: float) -> None:
        """Note one value."""
        ...


class FunctionContext(Protocol):
    """Given to `open`, and good until `close`. It may be kept: `subtask` and `attempt` follow the call under way."""

    @property
    def job(self) -> str:
        """The name of the job."""
        ...

    @property
    def step(self) -> str:
        """The id of the step that the function was given to."""
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the run by name, defaults included: dates as `date`, instants as `datetime` of UTC."""
        ...

    @property
    def parallelism(self) -> int:
        """How many subtasks the step has at most."""
        ...

    @property
    def subtask(self) -> int:
        """The subtask of the call under way, from 0."""
        ...

    @property
    def attempt(self) -> int:
        """How often the task of the call under way was tried before."""
        ...

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        ...

    def gauge(self, name: str) -> Gauge:
        """The gauge of that name."""
        ...

    def histogram(self, name: str, *, buckets: Sequence[float] | None = None) -> Histogram:
        """The histogram of that name; `buckets` are rising upper bounds, by default 0.001, 0.0025, 0.005, … 10,000."""
        ...
