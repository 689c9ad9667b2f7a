"""What the contract suite needs to know about a sink, and the words its stories are told in."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Sequence
from typing import Any, Protocol

from millstream.contract.sink import SinkCommitter, SinkContext, SinkTask, SinkWriter
from millstream.model.ids import Epoch
from millstream.model.schema import Schema, schema_of
from millstream.records.codecs import Row, rows_to_batch

SCHEMA = schema_of("id long, name string, amount double")


class SinkUnderTest(Protocol):
    """An adapter: opens the sink's halves and looks at it from outside."""

    can_truncate: bool
    """Whether output beyond a savepoint can be removed."""

    def writer(self, task: SinkTask, schema: Schema) -> SinkWriter:
        """A writer, as a worker opens it."""
        ...

    def committer(self, context: SinkContext) -> SinkCommitter:
        """A committer, as a driver opens it."""
        ...

    def visible(self, schema: Schema) -> list[dict[str, Any]]:
        """All rows that a reader sees, of every job and lineage, with the values of `batch_to_rows`."""
        ...

    def staged(self) -> int:
        """How many staged rows or files lie around; 0 always when messages carry the rows."""
        ...

    def lose_staged(self) -> bool:
        """Lose something that is staged; `False` when nothing is staged outside messages."""
        ...


def context(
    *,
    job: str = "job",
    lineage: str = "one",
    step: str = "out",
    token: int = 1,
    schema: Schema = SCHEMA,
    same_run: tuple[tuple[str, int], ...] = (),
) -> SinkContext:
    """Whose sink it is."""
    return SinkContext(job=job, lineage=lineage, step=step, token=token, schema=schema, same_run=same_run)


def rows(first: int, count: int = 10) -> list[Row]:
    """Rows with ids of their own, so that a sink by key holds them all."""
    return [{"id": n, "name": f"n{n}", "amount": n / 4} for n in range(first, first + count)]


def stage(
    sink: SinkUnderTest, owner: SinkContext, epoch: int, *tasks: Sequence[Row], attempt: str = "a", pieces: int = 3
) -> list[Any]:
    """The commit messages of an epoch: each of `tasks` is the rows of one task, written in a few batches."""
    messages = []
    for number, content in enumerate(tasks):
        task = SinkTask(
            job=owner.job,
            lineage=owner.lineage,
            step=owner.step,
            epoch=Epoch(epoch),
            task=f"0-{number}",
            attempt=f"{attempt}{number}",
            token=owner.token,
        )
        writer = sink.writer(task, owner.schema)
        for start in range(0, len(content), -(-len(content) // pieces) or 1):
            writer.write(rows_to_batch(content[start : start + -(-len(content) // pieces)], owner.schema))
        messages.append(writer.finish())
    kept: list[Any] = through_json([message for message in messages if message is not None])
    return kept


def through_json(value: Any) -> Any:
    """A value as it comes back from a manifest."""
    return json.loads(json.dumps(value))


OTHERS: tuple[dict[str, Any], ...] = ({"lineage": "two"}, {"step": "other"}, {"job": "other"})
"""Who else may write to the same target."""


class OpenedSink:
    """A run that owns the sink: it has fenced it with its token."""

    def __init__(self, sink: SinkUnderTest, *, fence: bool = True, **who: Any) -> None:
        self.sink = sink
        self.context = context(**who)
        self.committer = sink.committer(self.context)
        if fence:
            self.committer.fence()

    def stage(self, epoch: int, *tasks: Sequence[Row], attempt: str = "a") -> list[Any]:
        """The commit messages of an epoch."""
        return stage(self.sink, self.context, epoch, *tasks, attempt=attempt)

    def prepare(self, epoch: int, *tasks: Sequence[Row], attempt: str = "a", ends: bool = False) -> Any:
        """Stage an epoch, which may be the last of its run, and turn it into a transaction."""
        messages = [*self.stage(epoch, *tasks, attempt=attempt), *([{"ends_run": True}] if ends else [])]
        return through_json(self.committer.prepare(Epoch(epoch), messages))

    def publish(self, epoch: int, transaction: Any) -> None:
        """Show an epoch."""
        self.committer.publish(Epoch(epoch), transaction)

    def run(self, epoch: int, *tasks: Sequence[Row], attempt: str = "a", ends: bool = False) -> Any:
        """A whole epoch, which may be the last of its run; returns its transaction."""
        transaction = self.prepare(epoch, *tasks, attempt=attempt, ends=ends)
        self.publish(epoch, transaction)
        return transaction

    def close(self) -> None:
        """This owner ends."""
        self.committer.close()


def seen(sink: SinkUnderTest, schema: Schema = SCHEMA) -> list[Row]:
    """What readers see, in the order of ids: equal lists are equal multisets."""
    return sorted(sink.visible(schema), key=lambda row: row["id"])


def ids(sink: SinkUnderTest) -> list[int]:
    """What readers see, by id."""
    return [row["id"] for row in seen(sink)]


def plain(row: Row) -> Row:
    """A row that equals another with the same values: NaN equals itself, and a database may forget the sign of zero."""
    return {name: "NaN" if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


VALUES = schema_of(
    "id long, flag boolean, tiny byte, small short, medium int, single float, real double, text string, raw binary, "
    "day date, at timestamp, wall timestamp_ntz, price decimal(38,10), tags array<string>, counts map<string,long>, "
    "inner struct<a:int,b:string>"
)
_EMPTY = dict.fromkeys(VALUES.names)
_TEXTS = [
    "",
    " ",
    "\\",
    "\\N",
    "\\\\N",
    "a\tb\nc\rd\\e",
    "NULL",
    "'; DROP TABLE x; --",
    'say "hi"',
    "ünïcödé 🦆 \u2028",
    "%s",
]
_REALS = [0.0, -0.0, 1e-320, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf"), 0.1 + 0.2]
_WHOLE = {"id": 100, "flag": True, "tiny": 127, "small": -(2**15), "medium": 2**31 - 1, "single": 1.5, "real": -2.25}
EXTREMES: list[Row] = [
    {**_EMPTY, "id": 0},
    {**_EMPTY, "id": -(2**63), "flag": False, "tiny": -128, "small": 2**15 - 1, "medium": -(2**31)},
    {**_EMPTY, "id": 2**63 - 1, "raw": bytes(range(256)), "single": float("nan")},
    *[{**_EMPTY, "id": 1000 + number, "text": text} for number, text in enumerate(_TEXTS)],
    *[{**_EMPTY, "id": 2000 + number, "real": real} for number, real in enumerate(_REALS)],
    {
        **_WHOLE,
        "text": "all",
        "raw": b"",
        "day": dt.date(1, 1, 1),
        "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        "wall": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - it has no zone
        "price": decimal.Decimal("-9999999999999999999999999999.9999999999"),
        "tags": ["a", None, 'b"\\'],
        "counts": {"x": 1, "y": None},
        "inner": {"a": -1, "b": None},
    },
    {
        **_EMPTY,
        "id": 101,
        "day": dt.date(9999, 12, 31),
        "at": dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        "wall": dt.datetime(2024, 2, 29, 12, 0, 0, 1),  # noqa: DTZ001
        "price": decimal.Decimal("0.0000000001"),
        "tags": [],
        "counts": {},
        "inner": {"a": None, "b": ""},
    },
]
