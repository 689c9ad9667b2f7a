"""The user's own metrics: what functions counted in a task, an epoch and a run.

They travel in the report of their task, so that a task that is tried again and an epoch that is replayed count once.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping

_WHOLE = 2**53
DEFAULT_BUCKETS = (*(float(f"{digit}e{exponent}") for exponent in range(-3, 4) for digit in (1, 2.5, 5)), 10_000.0)


@dataclasses.dataclass(slots=True, kw_only=True)
class Spread:
    """The values of a histogram: how many fell at or below each bound, and above the bound before it."""

    bounds: tuple[float, ...]
    counts: list[int]
    """One more than there are bounds: the last one is above all of them."""
    sum: float = 0.0
    least: float | None = None
    most: float | None = None

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """One more value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value
        self._reach(value, value)

    def add(self, other: Spread) -> None:
        """The values of another task or epoch too; the bounds of a name are the same wherever its function runs."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum
        if other.least is not None and other.most is not None:
            self._reach(other.least, other.most)

    def _reach(self, least: float, most: float) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)


def empty_spread(bounds: tuple[float, ...]) -> Spread:
    """A histogram without values."""
    return Spread(bounds=bounds, counts=[0] * (len(bounds) + 1))


def counted(before: float, more: float) -> int | float:
    """A sum: whole as long as every reader of JSON takes it to the last digit."""
    together = before + more
    return together if together < _WHOLE else float(together)


@dataclasses.dataclass(slots=True, kw_only=True)
class StepMetrics:
    """What the functions of one step counted, by name."""

    counters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    gauges: dict[str, dict[int, float]] = dataclasses.field(default_factory=dict)
    """The newest value of each subtask."""
    histograms: dict[str, Spread] = dataclasses.field(default_factory=dict)

    def add(self, other: StepMetrics) -> None:
        """Take in what another task or a later epoch counted."""
        for name, amount in other.counters.items():
            self.counters[name] = counted(self.counters.get(name, 0), amount)
        for name, values in other.gauges.items():
            self.gauges.setdefault(name, {}).update(values)
        for name, spread in other.histograms.items():
            self.histograms.setdefault(name, empty_spread(spread.bounds)).add(spread)


UserMetrics = dict[str, StepMetrics]
"""By step."""


def gathered(parts: Iterable[Mapping[str, StepMetrics]]) -> UserMetrics:
    """Several tasks or epochs together, the later ones last."""
    together: UserMetrics = {}
    for part in parts:
        for step, metrics in part.items():
            together.setdefault(step, StepMetrics()).add(metrics)
    return together
