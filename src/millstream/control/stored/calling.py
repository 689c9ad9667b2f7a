"""How servers ask about what is stored: the node that has the run or had it last, then others, until one can see it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select

from millstream.control.act import Act, reading
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.nodes import node
from millstream.control.nodes.calling import last_owner
from millstream.control.stored.places import savepoint_of
from millstream.control.stored.questions import ChannelQuestion, StateAsked
from millstream.control.stored.readers import SECONDS, error_in
from millstream.errors import ExternalFailure, MillstreamError

_NOT_SEEN = frozenset({"CKPT-016", "CTL-145"})
"""There is no such folder on that node, or the node cannot be reached: another may see it."""
_TRAVEL_SECONDS = 10.0


class NodeDoor(NamedTuple):
    """How a node is reached."""

    id: str
    address: str
    key: str


class StoredCalls:
    """Asks a node that can see what is meant."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def ask(self, asked: ChannelQuestion) -> dict[str, Any]:
        """The answer of the first node that can see it.

        Raises:
            ExternalFailure: (CTL-145) no node answers.
            MillstreamError: what the node met.
        """
        problem: MillstreamError | None = None
        for door in self._doors(asked):
            try:
                return _answered(door, asked)
            except MillstreamError as met:
                if met.code not in _NOT_SEEN:
                    raise
                # What a node says of its disk tells more than that another does not answer.
                problem = met if problem is None or problem.code == "CTL-145" else problem
        raise problem or _nobody()

    def _doors(self, asked: ChannelQuestion) -> list[NodeDoor]:
        with reading(self._metadata) as act:
            run = _run(act, asked)
            first = None if run is None else last_owner(act, run_of(act, run))[0]
            rows = act.connection.execute(select(node).where(node.c.state != "GONE", node.c.address.is_not(None)))
            doors = [NodeDoor(row.id, row.address, row.channel_key) for row in rows.all()]
        return sorted(doors, key=lambda door: (door.id != first, door.id))


def _run(act: Act, asked: ChannelQuestion) -> str | None:
    if not isinstance(asked, StateAsked):
        return asked.run
    return asked.of.run if asked.of.savepoint is None else savepoint_of(act, asked.of.savepoint).execution_id


def _answered(door: NodeDoor, asked: ChannelQuestion) -> dict[str, Any]:
    import httpx2

    try:
        answer = httpx2.post(
            f"{door.address}/stored",
            content=msgspec.json.encode(asked),
            headers={"Authorization": f"Bearer {door.key}", "Content-Type": "application/json"},
            timeout=SECONDS + _TRAVEL_SECONDS,
            trust_env=False,
        )
        body = answer.json()
    except (httpx2.HTTPError, ValueError) as problem:
        raise _silent(door, str(problem)) from None
    if answer.status_code != 200:
        raise _silent(door, f"status {answer.status_code}")
    if "error" in body:
        raise error_in(body["error"])
    value: dict[str, Any] = body["value"]
    return value


def _silent(door: NodeDoor, what: str) -> ExternalFailure:
    msg = "the node that could read it does not answer"
    return ExternalFailure(
        msg, code="CTL-145", found=f"{door.id}: {what}", hint="see whether it lives: millstream node list"
    )


def _nobody() -> ExternalFailure:
    msg = "there is no node that could read it"
    return ExternalFailure(msg, code="CTL-145", found="no node", hint="start one: millstream node start")
