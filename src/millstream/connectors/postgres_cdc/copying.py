"""Copies a table as one snapshot shows it, so that it fits the changes of the slot exactly.

The slot is there first. The snapshot is any later one, in which every transaction has ended that began before the slot had its
first change: such a transaction may have committed before that change, and is visible then. Of the changes that the slot gives,
those are left out whose transaction the snapshot shows. So each transaction is in the copy or in the changes, and none in both;
and a copy that is broken off is simply made again, by any owner, with the same slot.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
from pyarrow import csv

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.postgres_cdc.positions import SeenBy, lsn_number
from millstream.connectors.postgres_cdc.preparation import PreparedTable
from millstream.connectors.postgres_cdc.publication import quoted
from millstream.connectors.postgres_cdc.server import CdcServer
from millstream.connectors.postgres_cdc.table_copy import CopyFolder, TableCopy
from millstream.model.schema import Schema

_FILE_ROWS = 65_536
_FILE_BYTES = 32 << 20
_PAUSE_SECONDS = 0.1
_NEXT_XID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
_SNAPSHOT = """
SELECT pg_snapshot_xmin(pg_current_snapshot())::text, pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"""


class TableCopying:
    """Copies one table. `doing` says how far it is, for people."""

    def __init__(self, server: CdcServer, folder: CopyFolder, columns: Schema) -> None:
        self._server, self._folder, self._columns = server, folder, columns
        self.doing = "waits for the server"

    def copy(self, table: PreparedTable) -> TableCopy:
        """Copy the table, unless that is done; the copy that is believed may be another owner's."""
        known = self._folder.copy()
        if known is not None:
            return known
        ((next_xid,),) = self._server.rows(_NEXT_XID)
        while (made := self._server.session.run(lambda cursor: self._attempt(cursor, table, int(next_xid)))) is None:
            self.doing = "waits for transactions to end that began before the slot was made"
            time.sleep(_PAUSE_SECONDS)
        failpoint("table_copied")
        self._folder.complete(made)
        return self._folder.whole()

    def _attempt(self, cursor: psycopg.Cursor[Any], table: PreparedTable, next_xid: int) -> TableCopy | None:
        """One snapshot; `None` when it is too early for one."""
        self._server.refuse_closed()
        cursor.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        row = cursor.execute(_SNAPSHOT.encode()).fetchone()
        assert row is not None, "it selects one row"
        lowest, snapshot, inserted, taken_at = row
        if int(lowest) < next_xid:
            return None
        files = tuple(
            self._folder.write(number, texts)
            for number, texts in enumerate(self._texts(cursor, table))
            if texts.num_rows
        )
        seen = SeenBy(snapshot, lsn_number(inserted))
        return TableCopy(oid=table.oid, lsn=table.lsn, seen=seen, taken_at=taken_at, files=files)

    def _texts(self, cursor: psycopg.Cursor[Any], table: PreparedTable) -> Iterator[pa.RecordBatch]:
        """The rows in batches, every value as the server writes it."""
        # A column that no change brings is null in the copy too.
        names = ", ".join(quoted(name) if name in table.columns else "NULL" for name in self._columns.names)
        only = "" if table.has_partitions else "ONLY "
        where = "" if table.row_filter is None else f" WHERE {table.row_filter}"
        statement = f"COPY (SELECT {names} FROM {only}{table.name}{where}) TO STDOUT (FORMAT csv)"
        lines: list[bytes] = []
        held, copied = 0, 0
        with cursor.copy(statement.encode()) as rows:
            for line in rows:
                lines.append(bytes(line))
                held += len(line)
                if len(lines) >= _FILE_ROWS or held >= _FILE_BYTES:
                    self._server.refuse_closed()
                    yield self._parsed(lines)
                    copied, held, lines = copied + len(lines), 0, []
                    self.doing = f"copies the table: {copied} rows so far"
        if lines:
            yield self._parsed(lines)

    def _parsed(self, lines: list[bytes]) -> pa.RecordBatch:
        """Rows of csv as PostgreSQL writes it: null is nothing, and a text without characters stands in quotes."""
        kinds = dict.fromkeys(self._columns.names, pa.binary())
        table = csv.read_csv(
            io.BytesIO(b"".join(lines)),
            read_options=csv.ReadOptions(column_names=self._columns.names, use_threads=False, block_size=1 << 30),
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        assert table.num_rows == len(lines), f"{table.num_rows} rows of {len(lines)} lines"
        (batch,) = table.combine_chunks().to_batches()
        return batch
