"""What `open` is given: satisfies `api.function.FunctionContext`, and counts into the report of the task under way."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from millstream.api.functions.user_metrics import DEFAULT_BUCKETS, StepMetrics, UserMetrics, counted, empty_spread
from millstream.errors import StepFailed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
MOST_METRICS = 100
"""Of one step: each is a series of its own, for every subtask perhaps, wherever figures are kept."""


class CallUnderWay:
    """Which task the functions of a level are called by. A process runs one task of a level at a time."""

    def __init__(self) -> None:
        self.subtask = self.attempt = 0
        self._metrics: UserMetrics = {}

    def begin(self, metrics: UserMetrics, *, subtask: int, attempt: int) -> None:
        """A task begins."""
        self._metrics, self.subtask, self.attempt = metrics, subtask, attempt

    def end(self) -> None:
        """No task is under way: what is counted from now on reaches no report."""
        self._metrics = {}

    def of(self, step: str) -> StepMetrics:
        """Where the task counts for a step."""
        metrics = self._metrics.get(step)
        if metrics is None:
            metrics = self._metrics[step] = StepMetrics()
        return metrics


class OpenContext:
    """The context of one step's functions; a metric is known by its name within the step."""

    def __init__(
        self, job: str, step: str, parallelism: int, call: CallUnderWay, params: Mapping[str, Any] | None = None
    ) -> None:
        self.job, self.step, self.parallelism = job, step, parallelism
        self.params = MappingProxyType(dict(params or {}))
        self._call = call
        self._kinds: dict[str, tuple[object, ...]] = {}

    @property
    def subtask(self) -> int:
        """The subtask of the call under way."""
        return self._call.subtask

    @property
    def attempt(self) -> int:
        """How often its task was tried before."""
        return self._call.attempt

    def counter(self, name: str) -> TaskCounter:
        """The counter of that name."""
        return TaskCounter(self._checked(name, "counter"), self._of)

    def gauge(self, name: str) -> TaskGauge:
        """The gauge of that name."""
        return TaskGauge(self._checked(name, "gauge"), self._of, self._call)

    def histogram(self, name: str, *, buckets: Sequence[float] | None = None) -> TaskHistogram:
        """The histogram of that name."""
        bounds = DEFAULT_BUCKETS if buckets is None else tuple(float(bound) for bound in buckets)
        if not bounds or any(low >= high for low, high in itertools.pairwise(bounds)):
            msg = f"the buckets of histogram {name!r} do not rise"
            raise StepFailed(msg, code="STEP-262", step=self.step, found=bounds, hint="give rising upper bounds")
        return TaskHistogram(self._checked(name, "histogram", bounds), self._of, bounds)

    def _of(self) -> StepMetrics:
        return self._call.of(self.step)

    def _checked(self, name: str, *kind: object) -> str:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            msg = "not the name of a metric"
            known = "letters, digits, dots and underscores, at most 100, no digit first"
            raise StepFailed(
                msg, code="STEP-262", step=self.step, found=repr(name), known=known, hint="choose another name"
            )
        if name not in self._kinds and len(self._kinds) >= MOST_METRICS:
            msg = f"metric {name!r} is one too many: names are not for keys, users or other values of rows"
            hint = "count under fewer names, and write what belongs to single rows to a sink"
            raise StepFailed(msg, code="STEP-267", step=self.step, known=f"{MOST_METRICS} of a step at most", hint=hint)
        if self._kinds.setdefault(name, kind) != kind:
            msg = f"metric {name!r} is a {self._kinds[name][0]} of this step already, or has other buckets"
            raise StepFailed(msg, code="STEP-262", step=self.step, found=kind[0], hint="choose another name")
        return name


_Of = Callable[[], StepMetrics]


class TaskCounter:
    """Counts in the task under way."""

    __slots__ = ("_name", "_of")

    def __init__(self, name: str, of: _Of) -> None:
        self._name, self._of = name, of

    def add(self, amount: float = 1) -> None:
        """Count something."""
        more = amount if type(amount) is int else float(amount)
        if not 0 <= more < math.inf:
            msg = f"counter {self._name!r} was given {amount!r}: a counter only grows; use a gauge"
            raise ValueError(msg)
        counters = self._of().counters
        counters[self._name] = counted(counters.get(self._name, 0), more)


class TaskGauge:
    """Sets a value for the subtask under way."""

    __slots__ = ("_call", "_name", "_of")

    def __init__(self, name: str, of: _Of, call: CallUnderWay) -> None:
        self._name, self._of, self._call = name, of, call

    def set(self, value: float) -> None:
        """Say how much it is now."""
        self._of().gauges.setdefault(self._name, {})[self._call.subtask] = _number(self._name, value)


class TaskHistogram:
    """Notes values in the task under way."""

    __slots__ = ("_bounds", "_name", "_of")

    def __init__(self, name: str, of: _Of, bounds: tuple[float, ...]) -> None:
        self._name, self._of, self._bounds = name, of, bounds

    def observe(self, value: float) -> None:
        """Note one value."""
        seen = _number(self._name, value)
        spreads = self._of().histograms
        if self._name not in spreads:
            spreads[self._name] = empty_spread(self._bounds)
        spreads[self._name].observe(seen)


def _number(name: str, value: float) -> float:
    """A value that every reader of figures can take: JSON knows neither infinity nor what is no number."""
    number = float(value)
    if not math.isfinite(number):
        msg = f"metric {name!r} was given {value!r}: it is no finite number; leave such values out"
        raise ValueError(msg)
    return number
