"""Window functions with state, and what a firing is called: panes."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from millstream.api.functions.state import states_of
from millstream.errors import InvalidStep
from millstream.graph.state import StateDescriptor
from millstream.model.time import MAX_TIME

S = TypeVar("S")
_SCOPE = "_window_scope"


class PaneTiming(enum.StrEnum):
    """When a firing came, seen from the end of its window in event time."""

    EARLY = "EARLY"
    """Before the watermark has reached the last instant of the window."""
    ON_TIME = "ON_TIME"
    """The first from then on."""
    LATE = "LATE"
    """The others."""


@dataclasses.dataclass(frozen=True, slots=True)
class PaneInfo:
    """Which firing of a window this is. Whether it is the last cannot be known."""

    index: int
    timing: PaneTiming

    @property
    def is_first(self) -> bool:
        """Whether the window fires for the first time."""
        return self.index == 0


@dataclasses.dataclass(frozen=True, slots=True)
class GlobalWindow:
    """What stands for the window where it has no bounds: count windows and global windows."""

    @property
    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_TIME


class WindowContext(Protocol):
    """What a window function may ask and do."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The current key, one value per key column."""
        ...

    @property
    def window(self) -> Any:
        """The window: a `TimeWindow` or a `GlobalWindow`."""
        ...

    @property
    def pane(self) -> PaneInfo:
        """Which firing of the window this is."""
        ...

    @property
    def watermark(self) -> int:
        """No row before this is expected any more."""
        ...

    @property
    def now(self) -> int:
        """The epoch's clock: the same for every row of the epoch, and the same again on replay."""
        ...

    def output(self, name: str, row: Mapping[str, Any]) -> None:
        """Emit a row to a side output declared with `outputs=`."""
        ...

    def merged(self, state: Any) -> list[Any]:
        """In `on_merge`: what a window state held in each of the sessions that became one, the earliest first."""
        ...


class WindowFunction:
    """Subclass it, declare states as class attributes, and yield rows from `process`.

    A state belongs to the key and outlives the window; one declared as `ms.window_state(ms.ValueState(int))` belongs to
    the window and is gone with it.
    """

    def process(
        self, key: dict[str, Any], window: Any, rows: list[dict[str, Any]], ctx: WindowContext
    ) -> Iterable[Any] | None:
        """A window fires: the key as a dict, the window, its rows."""
        msg = f"{type(self).__name__} must define process(self, key, window, rows, ctx)"
        raise TypeError(msg)

    def clear(self, ctx: WindowContext) -> None:
        """A window is about to be forgotten; the default does nothing."""

    def on_merge(self, window: Any, ctx: WindowContext) -> None:
        """Sessions became one, without window state yet; needed where there is such state."""

    @property
    def merges(self) -> bool:
        """Whether the function says what becomes of merged sessions."""
        return type(self).on_merge is not WindowFunction.on_merge

    def key_descriptors(self) -> list[StateDescriptor]:
        """The states of the key, as they go into the plan."""
        return [state.describe() for state in states_of(self).values() if not is_window_state(state)]

    def window_descriptors(self) -> list[StateDescriptor]:
        """The states of a window, as they go into the plan."""
        return [state.describe() for state in states_of(self).values() if is_window_state(state)]


def window_state(state: S) -> S:
    """A state of a `WindowFunction` that belongs to the window: `seen = ms.window_state(ms.ValueState(int))`."""
    if not hasattr(state, "describe"):
        msg = "window_state takes a declared state"
        raise InvalidStep(msg, code="STEP-130", found=repr(state), hint="write ms.window_state(ms.ValueState(int))")
    if state.describe().ttl is not None:
        msg = "the state of a window is gone with the window and has no time to live"
        raise InvalidStep(msg, code="STEP-130", found="ttl=", hint="remove ttl=")
    setattr(state, _SCOPE, True)
    return state


def is_window_state(state: object) -> bool:
    """Whether a declared state belongs to a window."""
    return bool(getattr(state, _SCOPE, False))
