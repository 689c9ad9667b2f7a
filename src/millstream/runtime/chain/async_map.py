"""Coroutine functions over rows: one event loop per thread, a bounded number of rows at a time.

`asyncio` is imported where it is used: it brings `ssl` and forty more modules along, which jobs without coroutines do not need.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.graph.operations.enrich import AsyncMap
from millstream.runtime.bad_records import UserProblem

if TYPE_CHECKING:
    import asyncio

_thread = threading.local()
_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


class AsyncAnswer(NamedTuple):
    """What a coroutine gave for the row at a place: a row, or what went wrong."""

    place: int
    row: Any
    problem: UserProblem | None


def answers(operation: AsyncMap, rows: Sequence[dict[str, Any]]) -> list[AsyncAnswer]:
    """Call the function for each row; answers in the order of the rows, or as they came."""
    given: list[AsyncAnswer] = event_loop().run_until_complete(_all(operation, rows))
    return sorted(given, key=lambda answer: answer.place) if operation.ordered else given


def event_loop() -> asyncio.AbstractEventLoop:
    """The loop of this thread: it lives on between batches, so that clients with open connections keep working."""
    import asyncio

    loop: asyncio.AbstractEventLoop | None = getattr(_thread, "loop", None)
    if loop is None or loop.is_closed():
        loop = _thread.loop = asyncio.new_event_loop()
        _loops.add(loop)
    return loop


async def _all(operation: AsyncMap, rows: Sequence[dict[str, Any]]) -> list[AsyncAnswer]:
    """As many workers as may run at a time take row after row."""
    import asyncio

    waiting = iter(enumerate(rows))
    given: list[AsyncAnswer] = []

    async def work() -> None:
        for place, row in waiting:
            given.append(await _one(operation, place, row))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(operation.concurrency, len(rows))):
            group.create_task(work())
    return given


async def _one(operation: AsyncMap, place: int, row: dict[str, Any]) -> AsyncAnswer:
    """One row: tried again after a failure or a timeout, each time after a longer pause."""
    import asyncio

    function: Callable[[dict[str, Any]], Awaitable[Any]] = operation.function.target
    problem: UserProblem | None = None
    for attempt in range(operation.retries + 1):
        if attempt:
            await asyncio.sleep(operation.backoff * 2 ** (attempt - 1) / 1000)
        try:
            async with asyncio.timeout(None if operation.timeout is None else operation.timeout / 1000):
                return AsyncAnswer(place, await function(dict(row)), None)
        except TimeoutError as late:
            problem = late if str(late) else TimeoutError(f"no answer within {operation.timeout} ms")
        except Exception as failed:
            problem = failed
        except SystemExit as ended:
            return AsyncAnswer(place, None, ended)
    return AsyncAnswer(place, None, problem)


@atexit.register
def _close() -> None:
    for loop in list(_loops):
        if not loop.is_running():
            loop.close()
