"""From rows to messages as columns: body, address and headers of each. They wait in the checkpoint for their epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats.encode import encoder
from millstream.connectors.formats.options import check_format
from millstream.connectors.staged_rows import StagedRows, staged_path
from millstream.contract.sink import SinkTask
from millstream.errors import InvalidStep, StepFailed
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.types import type_name

_HEADERS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema([("body", pa.binary()), ("address", pa.string()), ("headers", _HEADERS)])


class OutgoingMessage(NamedTuple):
    """A message that is to be sent."""

    body: bytes
    address: str | None
    """Its subject or routing key; `None` where the sink has one for all."""
    headers: dict[str, str]


def checked_headers(value: Mapping[str, str]) -> dict[str, str]:
    """The check of an option `headers`: header → column."""
    if not all(isinstance(text, str) and text for pair in value.items() for text in pair):
        msg = "{header: column}"
        raise ValueError(msg)
    return dict(value)


def value_columns(schema: Schema, address: str | None, headers: Mapping[str, str]) -> list[str]:
    """The columns that go into the body: those without another part."""
    steering = {address, *headers.values()}
    return [name for name in schema.names if name not in steering]


def check_outgoing(options: Options, schema: Schema, step: str, *, address: str, code: str) -> None:
    """Refuse columns that are not there or cannot play their part, and formats that cannot hold theirs.

    Args:
        options: those of the sink, with `headers`.
        schema: of its rows.
        step: the step that is built.
        address: the option that names the column with the address.
        code: of the errors.
    """
    named = [(address, options[address])] if options[address] is not None else []
    for option, column in [*named, *(("headers", column) for column in options["headers"].values())]:
        if column not in schema:
            msg = f"{option}= names {column!r}, which is not a column of the rows"
            raise InvalidStep(msg, code=code, step=step, known=list(schema.names), hint=f"correct {option}=")
        kind = schema[column].type
        if pa.types.is_nested(kind) or (option == address and not pa.types.is_string(kind)):
            msg = f"{option}= names {column!r}, which has another type"
            known = "string" if option == address else "a column that is not nested"
            found = type_name(kind)
            raise InvalidStep(
                msg, code=code, step=step, found=found, known=known, hint=f"cast it, or correct {option}="
            )
    inside = value_columns(schema, options[address], options["headers"])
    if not inside:
        msg = "no column is left for the body of a message"
        raise InvalidStep(msg, code=code, step=step, hint=f"leave a column out of headers= and {address}=")
    check_format(options, schema.select(inside), step, writes=True)


class MessageRoles(NamedTuple):
    """Which columns do not go into the body, and which addresses no message can be sent to."""

    address: str | None
    headers: Mapping[str, str]
    unfit: str = r"^$|[\s*>]"
    """A regular expression."""
    longest: int = 1 << 16
    """Bytes of an address, at most."""


class RowEncoder:
    """Makes messages of the rows of one sink."""

    def __init__(
        self, options: Options, schema: Schema, roles: MessageRoles, *, format: str, step: str, code: str
    ) -> None:
        """`options` are those of the sink, among which are those of its format; `code` is of the errors."""
        self._roles, (self._address, self._headers) = roles, roles[:2]
        self._step, self._code = step, code
        self._inside = value_columns(schema, self._address, self._headers)
        self._encode = encoder(format, schema.select(self._inside), options, step=step)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The messages of rows, one for each."""
        bodies = self._encode(batch.select(self._inside)).fill_null(b"")
        return pa.RecordBatch.from_arrays([bodies, self._addresses(batch), self._of_headers(batch)], schema=_SCHEMA)

    def _addresses(self, batch: pa.RecordBatch) -> pa.Array:
        if self._address is None:
            return pa.nulls(batch.num_rows, pa.string())
        addresses = batch.column(self._address)
        texts = addresses.fill_null("")
        is_long = pc.greater(pc.binary_length(texts), self._roles.longest)
        is_wrong = pc.or_(pc.match_substring_regex(texts, self._roles.unfit), is_long)
        if pc.any(is_wrong).as_py():
            msg = "a row has an address that no message can be sent to"
            found = repr(addresses.filter(is_wrong)[0].as_py())
            hint = "mend or filter such rows before the sink"
            raise StepFailed(msg, code=self._code, step=self._step, found=found, hint=hint)
        return addresses

    def _of_headers(self, batch: pa.RecordBatch) -> pa.Array:
        if not self._headers:
            return pa.nulls(batch.num_rows, _HEADERS)
        texts = {name: batch.column(column).cast(pa.string()).to_pylist() for name, column in self._headers.items()}
        rows = zip(*texts.values(), strict=True)
        pairs = [[pair for pair in zip(texts, row, strict=True) if pair[1] is not None] for row in rows]
        return pa.array(pairs, _HEADERS)


class StagingWriter:
    """Stages the messages of one task, encoded: a row that cannot be sent fails here, before its epoch is durable."""

    def __init__(self, rows: RowEncoder, task: SinkTask) -> None:
        self._rows, self._task = rows, task
        self._staged: StagedRows | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the messages of rows to the file of this attempt."""
        if not batch.num_rows:
            return
        messages = self._rows.encode(batch)
        if self._staged is None:
            self._staged = StagedRows(self._task, _SCHEMA)
        self._staged.write(messages)

    def finish(self) -> Any:
        """Make the messages durable and name their file."""
        return None if self._staged is None else self._staged.finish()

    def abort(self) -> None:
        """Remove the file."""
        if self._staged is not None:
            self._staged.abort()


def messages_of(batch: pa.RecordBatch) -> Iterator[OutgoingMessage]:
    """Staged messages, one by one."""
    columns = (batch.column(name).to_pylist() for name in _SCHEMA.names)
    for body, address, headers in zip(*columns, strict=True):
        yield OutgoingMessage(body, address, dict(headers or ()))


def staged_addresses(folder: str, files: Iterable[Any]) -> set[str]:
    """The addresses that staged messages name themselves; `files` are described as their writers did it."""
    found: set[str] = set()
    for file in files:
        with pa.memory_map(str(staged_path(folder, file["file"]))) as mapped:
            reader = pa.ipc.open_file(mapped)
            for number in range(reader.num_record_batches):
                named = pc.unique(reader.get_batch(number).column("address")).to_pylist()
                found.update(each for each in named if each is not None)
    return found


def readable_name(*parts: str) -> str:
    """A name of letters, digits, `-` and `_` that tells these parts from any others."""
    told_apart = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    plain = "-".join("".join(each if each.isalnum() and each.isascii() else "_" for each in part) for part in parts)
    return f"{plain[:100]}-{told_apart}"
