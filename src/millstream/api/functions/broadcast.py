"""Broadcast state: what every subtask holds whole, changed only by rows that reach all of them."""

from __future__ import annotations

from typing import Protocol, TypeVar

from millstream.api.functions.process import Context, Row, Rows
from millstream.api.functions.state import MapState, StateCell, states_of
from millstream.graph.state import StateDescriptor

K = TypeVar("K")
V = TypeVar("V")


class BroadcastCell(StateCell, Protocol):
    """The slot of a broadcast state."""

    def require_writable(self) -> None:
        """Refuse unless a row of the broadcast stream is being handled."""
        ...


class BroadcastState(MapState[K, V]):
    """A map that every subtask holds whole. `process_broadcast` changes it, `process` and `on_timer` read it.

    Example: `rules = ms.BroadcastState(str, Rule)`.
    """

    _cell: BroadcastCell | None = None

    def put(self, key: K, value: V) -> None:
        """Set the value of a map key."""
        self._require_writable()
        super().put(key, value)

    def remove(self, key: K) -> None:
        """Remove a map key, if it is there."""
        self._require_writable()
        super().remove(key)

    def clear(self) -> None:
        """Remove everything."""
        self._require_writable()
        super().clear()

    def _require_writable(self) -> None:
        self._current()
        assert self._cell is not None, "a state in use is bound to a cell"
        self._cell.require_writable()


class BroadcastFunction:
    """Handles the rows of a stream beside a broadcast one, such as rules or settings that apply to all keys.

    Within a phase of an epoch broadcast rows come first, in their order. On a keyed stream `process` may use keyed state and
    timers; without keys it has broadcast state only.
    """

    def process(self, row: Row, ctx: Context) -> Rows | None:
        """Handle a row of the stream that `connect` was called on."""
        msg = f"{type(self).__name__} must define process(self, row, ctx)"
        raise TypeError(msg)

    def process_broadcast(self, row: Row, ctx: Context) -> Rows | None:
        """Handle a row of the broadcast stream: called in every subtask, so that each has the same broadcast state.

        Rows it returns are emitted once, by the first subtask. There is no key, hence no keyed state and no timer.
        """
        msg = f"{type(self).__name__} must define process_broadcast(self, row, ctx)"
        raise TypeError(msg)

    def on_timer(self, timestamp: int, ctx: Context) -> Rows | None:
        """Handle a due timer; the default does nothing."""

    def state_descriptors(self) -> list[StateDescriptor]:
        """The declared states per key."""
        return [state.describe() for state in states_of(self).values() if not isinstance(state, BroadcastState)]

    def broadcast_descriptors(self) -> list[StateDescriptor]:
        """The declared broadcast states."""
        return [state.describe() for state in states_of(self).values() if isinstance(state, BroadcastState)]
