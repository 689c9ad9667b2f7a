"""How servers ask nodes: the address and the key of a node stand in its row."""

from __future__ import annotations

import base64
import codecs
import re
from typing import Any, NamedTuple

from sqlalchemy import Row, select

from millstream.control.act import Act, acting, reading
from millstream.control.dispatcher.stopping import run_of
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import run_event
from millstream.control.refusals import UnknownName
from millstream.errors import ExternalFailure

_SECONDS = 15.0
_CHARACTER_BYTES = 4
"""The longest one: parts that are shorter might have none."""
_ACTOR = re.compile(r"node:(.+)")


class RunPlace(NamedTuple):
    """Where a run is, or was last."""

    run: str
    token: int
    address: str
    key: str


class ChannelCalls:
    """Asks the node that has a run what only it knows."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def sight(self, run: str, seconds: float) -> dict[str, Any]:
        """All that is known of a run now, its epochs of so many seconds among it."""
        found: dict[str, Any] = self._ask(self._place(run), "sight", seconds=seconds)
        return found

    def pulse(self, run: str, after: int | None) -> dict[str, Any]:
        """How far a run is, and its epochs behind one; without one the newest."""
        found: dict[str, Any] = self._ask(self._place(run), "pulse", **({} if after is None else {"after": after}))
        return found

    def epochs(self, run: str, limit: int) -> list[dict[str, Any]]:
        """Its newest epochs, oldest first."""
        found: list[dict[str, Any]] = self._ask(self._place(run), "epochs", limit=limit)
        return found

    def log(self, run: str, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """A part of a log of its newest attempt, where the next part begins, and how long the log is now."""
        place = self._place(run)
        most = max(limit, _CHARACTER_BYTES)
        return _in_characters(
            self._ask(place, "log", token=place.token, name=f"{stream}.log", offset=offset, limit=most)
        )

    def logs(self, run: str) -> list[str]:
        """The names of its logs."""
        place = self._place(run)
        found: list[str] = self._ask(place, "logs", token=place.token)
        return found

    def dump(self, run: str) -> dict[str, Any]:
        """What every thread of its driver does."""
        found: dict[str, Any] = self._ask(self._place(run), "dump")
        return found

    def metrics(self, run: str) -> list[dict[str, Any]]:
        """Its figures, those of its own functions among them."""
        found: list[dict[str, Any]] = self._ask(self._place(run), "metrics")
        return found

    def page(self, identifier: str) -> str:
        """The figures of all runs of a node, for Prometheus."""
        with acting(self._metadata) as act:
            row = act.connection.execute(select(node).where(node.c.id == identifier, node.c.state != "GONE")).first()
        if row is None or row.address is None:
            msg = "there is no such node"
            hint = "see what there is: millstream node list"
            raise UnknownName(msg, code="CTL-041", found=repr(identifier), hint=hint)
        page: str = answered_by(f"{row.address}/metrics", row.channel_key)
        return page

    def _place(self, run: str) -> RunPlace:
        """The node that has the run, or claimed it last."""
        with reading(self._metadata) as act:
            found = run_of(act, run)
            owner, token = last_owner(act, found)
            row = None if owner is None else act.connection.execute(select(node).where(node.c.id == owner)).first()
        if row is None or row.address is None:
            msg = "no node has had this run"
            raise UnknownName(msg, code="CTL-044", found=repr(run), hint="wait until it is claimed")
        return RunPlace(found.execution_id, token, row.address, row.channel_key)

    def _ask(self, place: RunPlace, question: str, **asked: object) -> Any:
        return answered_by(f"{place.address}/runs/{place.run}/{question}", place.key, **asked)


def _in_characters(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a log up to its last whole character; the next one begins there. Where the log ends so does what there is."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(base64.b64decode(part["content"]))
    behind, size, held = part["next_offset"], part["size"], len(decoder.getstate()[0])
    return {"text": text, "next": behind - held, "size": size - held if behind == size else size}


def last_owner(act: Act, run: Row[Any]) -> tuple[str | None, int]:
    """Node and token of the newest claim. The row says it while a node has the run: events are forgotten after a while."""
    if run.node_id is not None:
        return run.node_id, run.token
    claimed = run_event.c.execution_id == run.execution_id, run_event.c.to_status == "INITIALIZING"
    claims = select(run_event.c.actor, run_event.c.token).where(*claimed).order_by(run_event.c.seq.desc())
    last = act.connection.execute(claims.limit(1)).first()
    name = None if last is None else _ACTOR.fullmatch(last.actor)
    return (None, 0) if last is None or name is None else (name[1], last.token)


def answered_by(url: str, key: str, **asked: object) -> Any:
    """What a node answers.

    Raises:
        UnknownName: it refused.
        ExternalFailure: (CTL-045) it does not answer.
    """
    import httpx2

    try:
        answer = httpx2.get(
            url,
            params={name: str(value) for name, value in asked.items()},
            headers={"Authorization": f"Bearer {key}"},
            timeout=_SECONDS,
            trust_env=False,
        )
        body = answer.json()
    except (httpx2.HTTPError, ValueError) as problem:
        msg = "the node of the run does not answer"
        hint = "see whether it lives: millstream node list"
        raise ExternalFailure(msg, code="CTL-045", found=f"{url}: {problem}", hint=hint) from None
    if answer.status_code != 200:
        fields = {name: body.get(name) for name in ("code", "found", "known", "hint")}
        raise UnknownName(body.get("message", "the node refused"), **fields)
    return body["value"]
