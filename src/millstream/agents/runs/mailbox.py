"""The mailbox: runs of one key one after the other, runs of different keys at once while actions wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from millstream.agents.runs.run import ActionFailed, AgentRun
from millstream.connectors.messaging.loop import loop_thread

MOST_KEYS = 1000
"""Keys of a subtask whose runs go on at once."""
Begin = Callable[[], AgentRun | None]
"""Gives nothing for an input that no run can begin with."""
Ended = Callable[[AgentRun, ActionFailed | None], None]


def run_in_place(by_key: Iterable[Iterable[Begin]], ended: Ended) -> None:
    """Where no action can wait, runs are done one after the other."""
    for begins in by_key:
        for begin in begins:
            if (run := begin()) is not None:
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
    # It lives on between epochs, so that open connections do.
    loop_thread("agents").run(_all(by_key, ended), None)


async def _all(by_key: Sequence[Iterable[Begin]], ended: Ended) -> None:
    """As many keys at once as may be; who comes to its end makes room for the next."""
    waiting = iter(by_key)

    async def serve() -> None:
        for begins in waiting:
            for begin in begins:
                if (run := begin()) is not None:
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
