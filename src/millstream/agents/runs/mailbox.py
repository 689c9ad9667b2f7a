"""The mailbox: runs of one key one after the other, runs of different keys at once while actions wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from millstream.agents.runs.run import ActionFailed, AgentRun

MOST_KEYS = 1000
"""Keys of a subtask whose runs go on at once."""
Begin = Callable[[], AgentRun]
Ended = Callable[[AgentRun, ActionFailed | None], None]
_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def run_in_place(by_key: Iterable[Iterable[Begin]], ended: Ended) -> None:
    """Where no action can wait, runs are done one after the other."""
    for begins in by_key:
        for begin in begins:
            run = begin()
            ended(run, _to_its_end(run))


def _to_its_end(run: AgentRun) -> ActionFailed | None:
    try:
        while (due := run.next()) is not None:
            run.call(due[1])
    except ActionFailed as problem:
        return problem
    return None


def run_together(by_key: Sequence[Iterable[Begin]], ended: Ended) -> None:
    """Runs of many keys on the loop of this process: one that waits holds nobody back but later inputs of its key."""
    asyncio.run_coroutine_threadsafe(_all(by_key, ended), worker_loop()).result()


def worker_loop() -> asyncio.AbstractEventLoop:
    """One loop for each process, in a thread of its own; it lives on between epochs, so that open connections do."""
    with _lock:
        if not _loops or _loops[0].is_closed():
            made: Future[asyncio.AbstractEventLoop] = Future()
            threading.Thread(target=_serve, args=(made,), name="millstream-agents", daemon=True).start()
            _loops[:] = [made.result()]
        return _loops[0]


def _serve(made: Future[asyncio.AbstractEventLoop]) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    made.set_result(loop)
    loop.run_forever()


async def _all(by_key: Sequence[Iterable[Begin]], ended: Ended) -> None:
    """As many keys at once as may be; who comes to its end makes room for the next."""
    waiting = iter(by_key)

    async def serve() -> None:
        for begins in waiting:
            for begin in begins:
                run = begin()
                ended(run, await _awaited(run))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(MOST_KEYS, len(by_key))):
            group.create_task(serve())


async def _awaited(run: AgentRun) -> ActionFailed | None:
    """One run: actions in the order of their events; one that waits goes on when its wait is over."""
    pending: set[asyncio.Task[Any]] = set()
    try:
        while (due := run.next()) is not None or pending:
            if due is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            elif due[0].is_async:
                pending.add(asyncio.create_task(run.wait_for(due[1])))
                await asyncio.sleep(0)  # until it waits for the first time
                done = {each for each in pending if each.done()}
                pending -= done
            else:
                run.call(due[1])
                continue
            for each in done:
                each.result()
    except ActionFailed as problem:
        await _ended(pending)
        return problem
    return None


async def _ended(pending: set[asyncio.Task[Any]]) -> None:
    """What still waits for a run that failed is called off."""
    for each in pending:
        each.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
