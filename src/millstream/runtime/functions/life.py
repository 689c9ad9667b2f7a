"""Functions with a life: opened once per process and plan before their first row, closed at the end."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import logging
from collections.abc import Mapping
from typing import Any

from millstream.api.functions.user_metrics import UserMetrics
from millstream.errors import StepFailed
from millstream.graph.function import FunctionRef, with_functions
from millstream.graph.job_graph import Vertex
from millstream.graph.operations.watermark import EventTime
from millstream.graph.stream_graph import StreamNode
from millstream.runtime.bad_records import USER_PROBLEMS, user_line
from millstream.runtime.chain.async_map import event_loop
from millstream.runtime.functions.context import CallUnderWay, OpenContext

_log = logging.getLogger(__name__)


class LivingFunctions:
    """The functions of a level that define `open` or `close`. Each step that was given one has a copy of its own."""

    def __init__(self, *, job: str, parallelism: int, params: Mapping[str, Any] | None = None) -> None:
        self._job, self._parallelism, self._params = job, parallelism, params
        self._call = CallUnderWay()
        self._waiting: list[_Living] = []
        self._open: list[_Living] = []

    def adopted(self, vertex: Vertex) -> Vertex:
        """The vertex with copies of its living functions; one without any is given back as it is."""
        nodes = tuple(map(self._adopted, vertex.nodes))
        is_same = all(new is old for new, old in zip(nodes, vertex.nodes, strict=True))
        return vertex if is_same else dataclasses.replace(vertex, nodes=nodes)

    def _adopted(self, node: StreamNode) -> StreamNode:
        # A watermark generator also answers in the driver, where no task opens it; it may not define either.
        if isinstance(node.operation, EventTime):
            return node
        context = OpenContext(self._job, node.id, self._parallelism, self._call, self._params)

        def own(function: FunctionRef) -> FunctionRef:
            if not function.is_living:
                return function
            copied = dataclasses.replace(function, target=copy.copy(function.target))
            self._waiting.append(_Living(copied, context))
            return copied

        operation = with_functions(node.operation, own)
        return node if operation is node.operation else dataclasses.replace(node, operation=operation)

    def begin(self, metrics: UserMetrics, *, subtask: int, attempt: int) -> None:
        """A task begins: calls are counted in its metrics from now on, and what is not open yet is opened."""
        self._call.begin(metrics, subtask=subtask, attempt=attempt)
        while self._waiting:
            self._waiting[0].open()
            self._open.append(self._waiting.pop(0))

    def close(self) -> None:
        """Close what is open, the last one first; one that fails is logged and keeps no other from being closed."""
        self._call.end()
        while self._open:
            living = self._open.pop()
            living.close()
            self._waiting.insert(0, living)


class _Living:
    """One function of one step."""

    def __init__(self, function: FunctionRef, context: OpenContext) -> None:
        self._function, self._context = function, context

    def open(self) -> None:
        try:
            self._call("open", self._context)
        except USER_PROBLEMS as problem:
            msg = f"open failed: {type(problem).__name__}: {problem}{user_line(problem)}"
            name = self._function.name.split("@", maxsplit=1)[0]
            hint = "mend open(self, ctx)"
            raise StepFailed(msg, code="STEP-261", step=self._context.step, found=name, hint=hint) from problem

    def close(self) -> None:
        try:
            self._call("close")
        except USER_PROBLEMS as problem:
            where = user_line(problem)
            name = self._function.name.split("@", maxsplit=1)[0]
            _log.warning("step %r: close of %s failed%s", self._context.step, name, where, exc_info=True)

    def _call(self, method: str, *given: Any) -> None:
        answer = getattr(self._function.target, method)(*given) if self._function.defines(method) else None
        if inspect.isawaitable(answer):
            # The loop that the coroutines of `async_map` run in, so that what is opened belongs to it.
            event_loop().run_until_complete(_awaited(answer))


async def _awaited(answer: Any) -> None:
    await answer
