"""Options of the `kafka` source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millstream.connectors.formats.debezium.options import changelog_of, check_told
from millstream.connectors.formats.options import DECODE, FORMATS, check_format
from millstream.connectors.kafka.beginnings import checked_start, checked_until, named_offsets
from millstream.connectors.kafka.client_options import CLIENT_OPTIONS, check_client
from millstream.errors import InvalidStep
from millstream.model.changelog import Changelog
from millstream.model.connector import Option, Options, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import Schema
from millstream.model.time import duration_ms
from millstream.model.types import type_name

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
METADATA: dict[str, tuple[pa.DataType, ...]] = {
    "topic": (pa.string(),),
    "partition": (pa.int32(), pa.int64()),
    "offset": (pa.int64(),),
    "timestamp": (pa.timestamp("us", tz="UTC"), pa.int64()),
    "key": (pa.binary(), pa.string()),
    "headers": (_HEADERS,),
}
"""What a column may hold beside the value, and the types it may have then."""


def value_schema(options: Options, schema: Schema) -> Schema:
    """The columns that are in the value."""
    elsewhere = {*options["metadata"], *options["key_fields"]}
    return Schema(tuple(field for field in schema if field.name not in elsewhere))


def key_schema(options: Options, schema: Schema) -> Schema:
    """The columns that are in the key."""
    return schema.select(options["key_fields"])


def _topics(value: str | list[str]) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) for name in names):
        msg = "names of topics: letters, digits, '.', '_' and '-'"
        raise ValueError(msg)
    if len(set(names)) != len(names):
        msg = "different topics"
        raise ValueError(msg)
    return names


def _pattern(value: str | None) -> str | None:
    if value is not None:
        try:
            re.compile(value)
        except re.error as problem:
            msg = f"a regular expression ({problem})"
            raise ValueError(msg) from None
    return value


def _partitions(value: Mapping[str, Any]) -> dict[str, list[int]]:
    checked = {str(topic): sorted(numbers) for topic, numbers in value.items()}
    if not all(type(number) is int and number >= 0 for numbers in checked.values() for number in numbers):
        msg = "partition numbers by topic, such as {'orders': [0, 1]}"
        raise ValueError(msg)
    return checked


def _duration(value: Any) -> Any:
    if duration_ms(value, what="discover") < 0:
        msg = "a duration such as '30s', or 0 for never"
        raise ValueError(msg)
    return value


def _group(value: str | None) -> str | None:
    if value == "":
        msg = "the name of a group"
        raise ValueError(msg)
    return value


def _poll(value: int) -> int:
    if not 1 <= value <= _MOST_POLLED:
        msg = f"a whole number from 1 to {_MOST_POLLED}"
        raise ValueError(msg)
    return value


def _metadata(value: Mapping[str, Any]) -> dict[str, str]:
    for column, kind in value.items():
        if kind not in METADATA:
            msg = f"column → one of {', '.join(METADATA)}, not {column!r}: {kind!r}"
            raise ValueError(msg)
    return dict(value)


def _check(options: Options, schema: Schema, step: str) -> None:
    check_client(options, "consumer", step)
    named = [name for name in ("topics", "pattern") if options[name]]
    if len(named) != 1:
        msg = "a Kafka source reads named topics, or those that fit a pattern"
        found = "both" if named else "neither"
        raise _unfit(msg, step, found=found, hint="pass topics or pattern=")
    if strangers := [topic for topic in options["partitions"] if topic not in options["topics"]]:
        msg = f"partitions= names topic {strangers[0]!r}, which is not read"
        raise _unfit(msg, step, known=options["topics"], hint="correct partitions=")
    if options["group"] is None and "group" in (options["start"], options["until"]):
        msg = "offsets of a group need the name of a group"
        raise _unfit(msg, step, hint="pass group=")
    for option in ("start", "until"):
        _check_offsets(option, options, step)
    _check_columns(options, schema, step)


def _check_offsets(option: str, options: Options, step: str) -> None:
    """Offsets of what is not read are a mistake: what was meant would be read from its first record."""
    for topic, at in named_offsets(options[option]).items():
        pattern = options["pattern"]
        is_read = topic in options["topics"] if pattern is None else re.fullmatch(pattern, topic)
        if not is_read:
            msg = f"{option}= names topic {topic!r}, which is not read"
            raise _unfit(msg, step, known=options["topics"] or pattern, hint=f"correct {option}=")
        numbers = options["partitions"].get(topic)
        strangers = [number for number in at if numbers is not None and int(number) not in numbers]
        if strangers:
            msg = f"{option}= names partition {strangers[0]} of topic {topic!r}, which is not read"
            raise _unfit(msg, step, known=numbers, hint=f"correct {option}= or partitions=")


def _check_columns(options: Options, schema: Schema, step: str) -> None:
    for option in ("metadata", "key_fields"):
        for column in options[option]:
            if column not in schema:
                msg = f"{option}= names {column!r}, which is not a column of the schema"
                raise _unfit(msg, step, known=schema.names, hint=f"add it to schema=, or correct {option}=")
    for column, kind in options["metadata"].items():
        if schema[column].type not in METADATA[kind]:
            msg = f"column {column!r} is to hold the {kind} of messages and has another type"
            known = " or ".join(type_name(each) for each in METADATA[kind])
            raise _unfit(msg, step, found=type_name(schema[column].type), known=known, hint="correct schema=")
    if not value_schema(options, schema).fields:
        msg = "no column is left for the value of messages"
        raise _unfit(msg, step, hint="add one, such as 'value binary'")
    check_format(options, value_schema(options, schema), step)
    if options["format"] == "debezium":
        check_told(options, step)
    if options["key_fields"]:
        check_format({"format": options["key_format"]}, key_schema(options, schema), step)


def _unfit(msg: str, step: str, *, hint: str, found: object = None, known: object = None) -> InvalidStep:
    return InvalidStep(msg, code="KAFKA-010", step=step, found=found, known=known, hint=hint)


def _changelog(options: Options, schema: Schema) -> Changelog | None:
    """The key of a message is that of the row."""
    del schema
    return changelog_of(options, options["key_fields"]) if options["format"] == "debezium" else None


def _is_bounded(options: Options) -> bool:
    return options["until"] is not None


_TEXT = (str, type(None))
_MOST_POLLED = 1_000_000
"""The client takes no larger number."""
SOURCE = SourceDeclaration(
    options={
        "topics": Option(kind=(str, list, tuple), default=[], doc="one topic or several", check=_topics),
        "pattern": Option(
            kind=_TEXT, default=None, doc="topics whose whole name fits, also later ones", check=_pattern
        ),
        "partitions": Option(kind=(dict,), default={}, doc="only these partitions, by topic", check=_partitions),
        **CLIENT_OPTIONS,
        "start": Option(
            kind=(object,),
            doc="where to begin: 'earliest', 'latest', 'group', a time with its zone, or offsets by topic and partition",
            check=checked_start,
        ),
        "until": Option(
            kind=(object,),
            default=None,
            doc="where to end, decided once: 'latest', a time or offsets",
            check=checked_until,
        ),
        "group": Option(
            kind=_TEXT, default=None, doc="a group to which published offsets are committed, for monitors", check=_group
        ),
        "discover": Option(
            kind=(str, int, float),
            default="30s",
            doc="how often to look for new partitions and topics",
            check=_duration,
        ),
        "format": Option(kind=(str,), default="json", choices=FORMATS, doc="what values are"),
        **DECODE,
        "key_fields": Option(kind=(list, tuple), default=[], doc="columns that are in the key", check=list),
        "key_format": Option(kind=(str,), default="raw", choices=FORMATS, doc="what keys are"),
        "metadata": Option(
            kind=(dict,),
            default={},
            doc="column → topic, partition, offset, timestamp, key or headers",
            check=_metadata,
        ),
        "on_data_loss": Option(
            kind=(str,), default="fail", choices=("fail", "skip"), doc="when records are gone before they were read"
        ),
        "isolation": Option(
            kind=(str,),
            default="read_committed",
            choices=("read_committed", "read_uncommitted"),
            doc="whether records of open and aborted transactions are read",
        ),
        "poll_messages": Option(kind=(int,), default=20_000, doc="messages that one poll takes at most", check=_poll),
    },
    capability=SourceCapability.REPLAYABLE,
    enumerator="millstream.connectors.kafka.source:KafkaEnumerator",
    reader="millstream.connectors.kafka.reader:KafkaReader",
    is_bounded=_is_bounded,
    batch_option=lambda _: ("poll_messages",),
    check=_check,
    changelog=_changelog,
    decode_again="millstream.connectors.kafka.letters:decode_again",
)
