"""The half that runs on the driver: publishes an epoch in one transaction with its fence and its marker."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.jdbc.cells import HASHES, joined_checksum
from millstream.connectors.jdbc.database import Cursor
from millstream.connectors.jdbc.fence import check_fence, raise_fence
from millstream.connectors.jdbc.layout import Layout, layout_of, open_database, prepare_tables, waiting_table
from millstream.connectors.jdbc.merge import LAST_FIRST, merge_statements
from millstream.connectors.jdbc.parts import delete_parts, part_number, parts_beyond
from millstream.connectors.jdbc.replacing import check_run, show_result
from millstream.connectors.jdbc.succession import refuse_newer, take_over
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused, Fenced
from millstream.model.connector import NewerOutput, Options
from millstream.model.ids import Epoch

KEPT_MARKERS = 1000
_PRUNE_EVERY = 100


class JdbcCommitter:
    """Publishes what the writers staged. With direct writers there is nothing to publish; the fence is kept all the same."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._context = context
        self._database = open_database(options, job=context.job, step=context.step)
        self._layout = layout_of(options, context.schema, self._database, step=context.step)
        self._sink = (context.job, context.lineage, context.step)
        self._is_checked = False
        try:
            prepare_tables(self._database, self._layout, create=options["create"], step=context.step)
        except BaseException:
            self._database.close()
            raise

    def fence(self) -> None:
        """Raise the fence to this run's token."""
        self._database.run(lambda cursor: raise_fence(cursor, self._layout, self._context))

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """Raise when another lineage published beyond the history. What is replaced at the end of the run is not in its way."""
        if self._layout.replaces:
            return
        self._database.run(lambda cursor: refuse_newer(cursor, self._layout, self._context, dict(history)))

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Close all other lineages of this job and step, and deal with what they published beyond the history."""
        database, layout = self._database, self._layout
        database.run(lambda cursor: take_over(cursor, database, layout, self._context, dict(history), newer))

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """List the parts. The digest leaves the attempts out: a replay gives the same rows under other attempts."""
        if self._context.is_direct:
            return {"rows": sum(message["rows"] for message in messages)}
        parts = sorted(_parts_of(messages), key=lambda part: (part["task"], part["attempt"]))
        content = [[part["task"], part["rows"], part["hash"]] for part in parts]
        return {
            "digest": hashlib.sha256(json.dumps(content).encode()).hexdigest(),
            "rows": sum(part["rows"] for part in parts),
            "hash": sum(part["hash"] for part in parts) % HASHES,
            "parts": parts,
            "place": self._layout.place_table,
            "columns": list(self._layout.names),
            **({} if self._layout.op is None else {"op": self._layout.op}),
            **({"ends_run": True} if any("ends_run" in message for message in messages) else {}),
        }

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Publish an epoch in one transaction.

        1. Check the fence.  2. Write the marker; if it is there, compare and stop.  3. Check the staged rows.
        4. Show them, or at the end of a run that replaces, all of it.  5. Prune old markers.
        A lost reply is resolved by step 2 of the same transaction on a new connection. Until the server has ended the old
        one it holds the fence row, so the two cannot overlap.
        """
        if self._context.is_direct:
            return
        self._database.run(lambda cursor: self._publish(cursor, epoch, transaction))

    def _publish(self, cursor: Cursor, epoch: Epoch, transaction: Any) -> None:
        numbers = self._numbers(transaction["parts"])
        layout = self._layout_of(cursor, transaction)
        # Step 1. Check the fence
        check_fence(cursor, self._layout, self._context)
        # Step 2. Write the marker
        if not self._write_marker(cursor, epoch, transaction):
            self._drop_unpublished(cursor, layout, numbers)
            return
        # Step 3. Check the staged rows
        self._check_run(cursor, epoch)
        self._check_staged(cursor, layout, epoch, transaction)
        # Step 4. Show them
        if numbers:
            _show(cursor, layout, numbers)
        if "ends_run" in transaction:
            show_result(cursor, self._database, self._layout, self._context, epoch)
        failpoint("sink_transaction")
        # Step 5. Prune old markers
        if epoch % _PRUNE_EVERY == 0:
            self._prune(cursor, epoch)

    def _check_run(self, cursor: Cursor, epoch: Epoch) -> None:
        """Once, before the first epoch that this owner publishes."""
        if not self._is_checked:
            check_run(cursor, self._layout, self._context, epoch - 1)
            self._is_checked = True

    def _layout_of(self, cursor: Cursor, transaction: Any) -> Layout:
        """The tables as they were when the rows were staged: the job may have other columns by now."""
        place = waiting_table(cursor, self._database, self._layout, transaction["place"])
        names, op = tuple(transaction["columns"]), transaction.get("op")
        there = self._database.name(place)
        return dataclasses.replace(self._layout, place_table=place, place=there, names=names, op=op)

    def _numbers(self, messages: Sequence[Any]) -> list[int]:
        return [part_number(self._sink, each["epoch"], each["task"], each["attempt"]) for each in messages]

    def _write_marker(self, cursor: Cursor, epoch: Epoch, transaction: Any) -> bool:
        """Whether the epoch is new. The same epoch with other rows is refused."""
        layout, mark = self._layout, self._layout.mark
        cursor.execute(f"SELECT low_water FROM {layout.fence} WHERE {layout.same_sink()}", self._sink)
        if epoch <= cursor.fetchone()[0]:
            return False
        cursor.execute(
            f"INSERT INTO {layout.marker} (job, lineage, step, epoch, token, digest, rows) VALUES ({layout.marks(7)}) "
            "ON CONFLICT (job, step, lineage, epoch) DO NOTHING",
            (*self._sink, epoch, self._context.token, transaction["digest"], transaction["rows"]),
        )
        if cursor.rowcount:
            return True
        cursor.execute(
            f"SELECT digest, rows FROM {layout.marker} WHERE {layout.same_sink()} AND epoch = {mark}4",
            (*self._sink, epoch),
        )
        digest, rows = cursor.fetchone()
        if digest != transaction["digest"]:
            msg = f"epoch {epoch} is already published with other rows"
            raise CheckpointRefused(
                msg,
                code="SINK-001",
                step=self._context.step,
                found=f"{transaction['rows']} rows",
                known=f"{rows} published rows",
                hint="the job is not deterministic, or two jobs share a lineage; start a new lineage",
            )
        return False

    def _check_staged(self, cursor: Cursor, layout: Layout, epoch: Epoch, transaction: Any) -> None:
        count, checksum = 0, 0
        numbers = self._numbers(transaction["parts"])
        if numbers:
            cursor.execute(
                "SELECT count(*), coalesce(sum(ms_hash >> 32), 0), coalesce(sum(ms_hash & 4294967295), 0) "
                f"FROM {layout.place} WHERE ms_part IN ({layout.marks(len(numbers))})",
                numbers,
            )
            count, high, low = cursor.fetchone()
            checksum = joined_checksum(int(high), int(low))
        if (count, checksum) != (transaction["rows"], transaction["hash"]):
            msg = f"the staged rows of epoch {epoch} are not those that were written"
            raise CheckpointRefused(
                msg,
                code="JDBC-010",
                step=self._context.step,
                found=f"{count} rows" + (" with another checksum" if count == transaction["rows"] else ""),
                known=f"{transaction['rows']} rows",
                hint=f"somebody changed {layout.place_table!r}; restore it, or restore the job from a savepoint",
            )

    def _drop_unpublished(self, cursor: Cursor, layout: Layout, numbers: Sequence[int]) -> None:
        """Rows of a replay whose epoch another attempt has published; published parts of an outbox stay."""
        if not numbers:
            return
        cursor.execute(
            f"SELECT part FROM {layout.part} WHERE part IN ({layout.marks(len(numbers))}) AND NOT is_published", numbers
        )
        delete_parts(cursor, layout, layout.place, [part for (part,) in cursor.fetchall()])

    def _prune(self, cursor: Cursor, epoch: Epoch) -> None:
        """Epochs are published in order, so what lies far behind is published; nothing at or below is written again."""
        layout, mark = self._layout, self._layout.mark
        low = epoch - KEPT_MARKERS
        if low < 0:
            return
        cursor.execute(
            f"UPDATE {layout.fence} SET low_water = {mark}4 WHERE {layout.same_sink()} AND low_water < {mark}4",
            (*self._sink, low),
        )
        cursor.execute(
            f"DELETE FROM {layout.marker} WHERE {layout.same_sink()} AND epoch <= {mark}4", (*self._sink, low)
        )

    def discard(self, messages: Sequence[Any]) -> None:
        """Drop the parts of an epoch that will never be published.

        Once a later owner has fenced this one, it decides: the parts may belong to an epoch that it publishes.
        """
        if not messages or self._context.is_direct:
            return
        numbers = self._numbers(_parts_of(messages))

        def work(cursor: Cursor) -> None:
            raise_fence(cursor, self._layout, self._context)
            self._drop_unpublished(cursor, self._layout, numbers)

        with contextlib.suppress(Fenced):
            self._database.run(work)

    def recover(self, durable: Epoch | None) -> None:
        """Drop parts beyond the durable epoch, and those that a published epoch did not list."""

        def work(cursor: Cursor) -> None:
            # A late owner would take the staged rows of the one that replaced it for leftovers.
            raise_fence(cursor, self._layout, self._context)
            for stored, parts in parts_beyond(cursor, self._layout, self._sink, durable).items():
                place = waiting_table(cursor, self._database, self._layout, stored)
                delete_parts(cursor, self._layout, self._database.name(place), parts)

        self._database.run(work)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def _parts_of(messages: Sequence[Any]) -> list[Any]:
    return [message for message in messages if "task" in message]


def _show(cursor: Cursor, layout: Layout, numbers: Sequence[int]) -> None:
    listed = f"({layout.marks(len(numbers))})"
    if layout.mode == "outbox" or layout.replaces:
        cursor.execute(f"UPDATE {layout.part} SET is_published = TRUE WHERE part IN {listed}", numbers)
        return
    if layout.keys:
        waiting = f"{layout.place} s JOIN {layout.part} p ON p.part = s.ms_part"
        for statement in merge_statements(layout, waiting, LAST_FIRST, f"WHERE s.ms_part IN {listed}"):
            cursor.execute(statement, numbers)
    else:
        cursor.execute(
            f"INSERT INTO {layout.target} ({layout.columns}) SELECT {layout.columns} FROM {layout.place} "
            f"WHERE ms_part IN {listed}",
            numbers,
        )
    delete_parts(cursor, layout, layout.place, numbers)
