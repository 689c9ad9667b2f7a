"""How far runs are: asked of their nodes, once a second for all who listen to a run, and of nobody when nobody does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from starlette.concurrency import run_in_threadpool

from millstream.errors import MillstreamError
from millstream.server.service import NodeChannel
from millstream.server.streams.topics import Announced

_log = logging.getLogger(__name__)
Tell = Callable[[Iterable[Announced]], None]
_LAST_SECONDS = 2.0
_OF_RUN: frozenset[str] = frozenset()
"""Topics of others who are told: none."""


class Pulses:
    """What was asked of each run last; used by the event loop alone."""

    def __init__(self, channel: NodeChannel | None) -> None:
        self._channel = channel
        self._after: dict[str, int | None] = {}
        """The newest epoch that was told, by run."""
        self._progress: dict[str, dict[str, Any] | None] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}

    def ask(self, topics: frozenset[str], tell: Tell) -> None:
        """One question for each run; a node that does not answer holds up nobody else, and is not asked twice at once."""
        runs = {topic.removeprefix("run:") for topic in topics if topic.startswith("run:")}
        self._after = {run: self._after.get(run) for run in runs}
        self._progress = {run: self._progress.get(run) for run in runs}
        self._asked = {run: task for run, task in self._asked.items() if not task.done()}
        if self._channel is not None:
            for run in runs - set(self._asked):
                self._asked[run] = asyncio.create_task(self._one(self._channel, run, tell))

    async def end(self) -> None:
        """Wait a little for those who are asked now."""
        if self._asked:
            _, left = await asyncio.wait(self._asked.values(), timeout=_LAST_SECONDS)
            for task in left:
                task.cancel()

    async def _one(self, channel: NodeChannel, run: str, tell: Tell) -> None:
        try:
            told = await run_in_threadpool(channel.pulse, run, self._after.get(run))
        except MillstreamError as problem:
            # It has ended, or waits for a node: its events say which.
            _log.debug("run %s does not say how far it is: %s", run, problem)
            return
        except Exception:
            _log.warning("the node of run %s could not be asked how far it is", run, exc_info=True)
            return
        epochs, progress = told["epochs"], told["progress"]
        if epochs:
            self._after[run] = epochs[-1]["epoch"]
        tell(Announced(None, "epoch", {"run": run, **each}, run, _OF_RUN) for each in epochs)
        if progress is not None and progress != self._progress.get(run):
            self._progress[run] = progress
            tell([Announced(None, "progress", {"run": run, **progress}, run, _OF_RUN)])
