"""The `print` sink: rows travel in the commit messages, as many as will be shown, and are printed on the driver."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from millstream.contract.sink import SinkContext, SinkTask
from millstream.model.connector import NewerOutput, Options
from millstream.model.ids import Epoch
from millstream.model.schema import Schema
from millstream.records.codecs import Row, batch_to_rows, batch_to_text, table_from_text

_WIDEST = 40


class PrintWriter:
    """Counts the rows of one task and keeps those that will be shown."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        self._limit: int | None = options["limit"]
        self._schema = schema.arrow
        self._kept: list[pa.RecordBatch] = []
        self._kept_rows = 0
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep the first rows."""
        self._rows += batch.num_rows
        shown = batch if self._limit is None else batch.slice(0, max(0, self._limit - self._kept_rows))
        if shown.num_rows:
            self._kept.append(shown)
            self._kept_rows += shown.num_rows

    def finish(self) -> Any:
        """The rows to show, and how many there were."""
        if not self._rows:
            return None
        return {"rows": self._rows, "data": batch_to_text(pa.Table.from_batches(self._kept, self._schema))}

    def abort(self) -> None:
        """Forget the rows."""
        self._kept.clear()


class PrintCommitter:
    """Prints each published epoch; one published again is printed again.

    Standard output remembers nothing, so there is no fence and nothing to take back: a stale owner prints too. That is why
    the sink is `AT_LEAST_ONCE` and no job that asks for more may use it.
    """

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._limit: int | None = options["limit"]
        self._is_json = options["format"] == "json"
        self._context = context

    def fence(self) -> None:
        """Hold off nobody: other owners have an output of their own."""

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """What was printed is not kept, so nothing can be found beyond the history."""

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Leave what is printed, whatever is asked for."""

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """The rows to show, in the order of messages."""
        tables = [table_from_text(message["data"]) for message in messages]
        table = pa.concat_tables([self._context.schema.arrow.empty_table(), *tables]).slice(0, self._limit)
        return {"rows": sum(message["rows"] for message in messages), "data": batch_to_text(table)}

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Print the epoch; one without rows prints nothing."""
        if not transaction["rows"]:
            return
        rows = batch_to_rows(table_from_text(transaction["data"]))
        if self._is_json:
            text = msgspec.json.Encoder().encode_lines(rows).decode()
        else:
            head = f"-- {self._context.step}, epoch {epoch}: {transaction['rows']} rows\n"
            text = head + _aligned(rows, self._context.schema, more=transaction["rows"] - len(rows))
        sys.stdout.write(text)
        sys.stdout.flush()

    def discard(self, messages: Sequence[Any]) -> None:
        """Messages hold the only copy, so nothing is left behind."""

    def recover(self, durable: Epoch | None) -> None:
        """Nothing is staged outside messages."""

    def close(self) -> None:
        """Nothing is open."""


def _aligned(rows: Sequence[Row], schema: Schema, *, more: int) -> str:
    """Columns with their names; numbers stand right."""
    columns = []
    for field in schema:
        cells = [field.name, *(_cell(row[field.name]) for row in rows)]
        width = max(map(len, cells))
        is_number = (
            pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        )
        columns.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([*lines, f"... {more} more"] if more else lines) + "\n"


def _cell(value: Any) -> str:
    text = "null" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
