"""Reads changes out of a slot without taking them: the same stretch of the log gives the same messages each time."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import psycopg

from millstream.connectors.postgres_cdc.messages import MessageBlock, block_of
from millstream.connectors.postgres_cdc.positions import WaitingChanges, lsn_number, lsn_text
from millstream.connectors.postgres_cdc.publication import publication_of
from millstream.connectors.postgres_cdc.server import PATIENCE, CdcLogin, CdcServer
from millstream.database.postgres import Connection, is_passing
from millstream.database.retry import repeated
from millstream.model.connector import Options

_PEEK = (
    "pg_logical_slot_peek_binary_changes({slot}, {upto}, {most}, 'proto_version', '1', 'publication_names', {names})"
)
_COUNT = """
SELECT coalesce(sum(changes) FILTER (WHERE ended > $1::text::pg_lsn), 0)::bigint, max(ended)::text,
       coalesce(sum(messages), 0)::bigint
FROM (SELECT max(lsn) AS ended, count(*) AS messages, count(*) FILTER (WHERE get_byte(data, 0) IN (68, 73, 84, 85)) AS changes
      FROM {peek} GROUP BY xid::text) each"""
_HEAD = 19
"""Bytes before the first row of COPY in its binary form."""
_LSN_AT, _MESSAGE_AT = 6, 18
"""A row is its number of columns in two bytes, then a length in four and the value for each: the place, the message."""
_BLOCK_ROWS = 16_384
_BLOCK_BYTES = 16 << 20


def waiting_changes(server: CdcServer, options: Options, start: int, upto: int, most: int | None) -> WaitingChanges:
    """Count the changes of transactions that commit between two places, or of the first of them.

    The server looks at `most` only between two transactions, so that whole ones are counted; it counts messages, of which a
    transaction has two or three that are no change.
    """
    statement = _COUNT.format(peek=_peek(options, upto, most))
    ((changes, last, messages),) = server.rows(statement, lsn_text(start))
    is_complete = most is None or messages < most
    return WaitingChanges(upto, changes, lsn_number(last) if last else upto, is_complete)


def messages_upto(options: Options, upto: int, *, step: str) -> Iterator[MessageBlock]:
    """Blocks of the messages of all transactions whose commit stands before a place, and maybe of one behind it.

    A server that is away and a slot that somebody else reads are waited for, until the first message is there.
    """
    login = CdcLogin(options, step)
    statement = f"COPY (SELECT lsn, data FROM {_peek(options, upto, None)}) TO STDOUT (FORMAT binary)"
    with contextlib.ExitStack() as opened:
        try:
            first, rest = repeated(lambda: _begun(login, statement, opened), passes=is_passing, patience=PATIENCE)
            for rows in _cut(itertools.chain((first[_HEAD:],), rest)):
                yield block_of(rows, head=_MESSAGE_AT, lsn_at=_LSN_AT)
        except psycopg.Error as problem:
            raise login.explained(problem, is_passing=is_passing(problem)) from problem


def _begun(login: CdcLogin, statement: str, opened: contextlib.ExitStack) -> tuple[bytes, Iterator[bytes]]:
    """The first row, which comes when the server has decoded the last one, and an iterator over the others."""
    with contextlib.ExitStack() as attempt:
        connection: Connection = attempt.enter_context(contextlib.closing(login.connected()))
        cursor = attempt.enter_context(connection.cursor())
        rows = iter(attempt.enter_context(cursor.copy(statement.encode())))
        first = bytes(next(rows))
        opened.enter_context(attempt.pop_all())
    return first, map(bytes, rows)


def _cut(rows: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Rows in pieces that are worth looking at together, and fit into memory."""
    piece: list[bytes] = []
    size = 0
    for row in rows:
        if len(row) <= _MESSAGE_AT:
            continue  # the last one has no columns: it ends the copy
        piece.append(row)
        size += len(row)
        if len(piece) >= _BLOCK_ROWS or size >= _BLOCK_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _peek(options: Options, upto: int, most: int | None) -> str:
    """The call, with literals: COPY takes no values. Names are of checked characters, and quoted all the same."""
    names = '"' + publication_of(options) + '"'
    return _PEEK.format(
        slot=_literal(options["slot"]),
        upto=_literal(lsn_text(upto)),
        most="NULL" if most is None else int(most),
        names=_literal(names),
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
