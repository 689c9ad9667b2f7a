"""How servers ask nodes for the record of a savepoint: only nodes need to see its files."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from sqlalchemy import Row, select

from millstream.checkpoint.savepoint import Savepoint
from millstream.control.act import reading
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import execution, savepoint
from millstream.control.nodes.calling import answered_by
from millstream.control.refusals import UnknownName
from millstream.errors import ExternalFailure

_log = logging.getLogger(__name__)
_NOT_HERE = ("SAVE-001", None)
"""A node that sees no such files, or is of a version that knows no such question."""


def record_at(metadata: Metadata, identifier: int) -> Savepoint:
    """The record of a savepoint of the service, from the first node that sees it.

    Raises:
        UnknownName: (CTL-056) no node that answers sees its files, or its record cannot be read.
        ExternalFailure: (CTL-057) no node answers.
    """
    path, places = _places(metadata, identifier)
    refusals: list[Exception] = []
    for each in places:
        try:
            found = answered_by(f"{each.address}/savepoint", each.channel_key, path=path)
            return msgspec.convert(found, Savepoint)
        except UnknownName as problem:
            refusals.append(problem)
            if problem.code not in _NOT_HERE:
                raise
        except ExternalFailure as problem:
            _log.info("the record of savepoint %s is asked of another node: %s", identifier, problem)
    if refusals:
        msg = "no node sees the files of the savepoint"
        hint = "keep savepoints on storage that every node sees; were they removed by hand, dispose of it"
        raise UnknownName(msg, code="CTL-056", found=path, hint=hint)
    msg = "no node answers that could read the savepoint"
    raise ExternalFailure(msg, code="CTL-057", found=path, hint="see whether they live: millstream node list")


def _places(metadata: Metadata, identifier: int) -> tuple[str, list[Row[Any]]]:
    """Its path, and the nodes that may see it: the one of its run first, the others as they were heard of."""
    taken = savepoint.outerjoin(execution, execution.c.execution_id == savepoint.c.execution_id)
    with reading(metadata) as act:
        wanted = select(savepoint.c.path, execution.c.node_id).select_from(taken).where(savepoint.c.id == identifier)
        row = act.connection.execute(wanted).one()
        living = select(node).where(node.c.state != "GONE", node.c.address.is_not(None))
        nodes = list(act.connection.execute(living.order_by(node.c.heartbeat_at.desc())))
    return row.path, sorted(nodes, key=lambda each: each.id != row.node_id)
