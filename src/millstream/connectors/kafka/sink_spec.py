"""Options of the `kafka` sink."""

from __future__ import annotations

import re
from collections.abc import Mapping

from millstream.connectors.formats.options import ENCODE, FORMATS
from millstream.connectors.kafka.client_options import CLIENT_OPTIONS, check_client
from millstream.connectors.kafka.outgoing.roles import OP_FIELD, check_roles
from millstream.errors import InvalidStep
from millstream.model.changelog import Changelog, check_applied_by
from millstream.model.connector import Option, Options, SinkDeclaration
from millstream.model.guarantee import Guarantee, SinkCapability
from millstream.model.schema import Schema
from millstream.model.time import duration_ms

MODES = ("append", "upsert")
KEY_FORMATS = ("json", "csv", "raw")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,60}")


def check_together(options: Options, schema: Schema, step: str) -> None:
    """Refuse options that make no sense side by side, or for rows of that schema."""
    problem = None
    if len(options["topics"]) > 1:
        problem = ("a sink writes to one topic", "pass one topic, or topic_field= with the column that names it")
    elif not options["topics"] and options["topic_field"] is None:
        problem = ("a sink needs a topic", "pass a topic, or topic_field= with the column that names it")
    elif options["mode"] == "upsert" and not options["key_fields"]:
        problem = ("mode 'upsert' needs a key", "pass key_fields=[...] with the columns that identify a row")
    elif options["key_format"] is not None and not options["key_fields"]:
        problem = ("key_format= is the format of a key, and there is none", "pass key_fields= too")
    elif options["mode"] != "upsert" and options["op_field"] != OP_FIELD:
        problem = (f"mode {options['mode']!r} deletes no rows", "pass mode='upsert' or leave op_field= out")
    elif options["partition_by"] and options["partition_field"] is not None:
        problem = ("partition_by= and partition_field= both choose the partition", "leave one of them out")
    if problem:
        raise InvalidStep(problem[0], code="KAFKA-020", step=step, hint=problem[1])
    check_client(options, "producer", step)
    check_roles(options, schema, step)


def _topics(value: str | list[str]) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) and _TOPIC.fullmatch(name) for name in names):
        msg = "names of topics: at most 249 letters, digits, '.', '_' and '-'"
        raise ValueError(msg)
    return names


def _columns(value: str | list[str]) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        msg = "different column names"
        raise ValueError(msg)
    return names


def _headers(value: str | Mapping[str, str]) -> str | dict[str, str]:
    if isinstance(value, str):
        return value
    if not all(isinstance(text, str) for pair in value.items() for text in pair):
        msg = "a column, or {header: column}"
        raise ValueError(msg)
    return dict(value)


def _prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        msg = "at most 60 letters, digits, '.', '_' and '-'"
        raise ValueError(msg)
    return value


def _timeout(value: str) -> str:
    try:
        if duration_ms(value) < 1000:
            raise ValueError
    except ValueError:
        msg = "a duration of at least 1s, such as '5m'"
        raise ValueError(msg) from None
    return value


def take_changes(options: Options, changelog: Changelog, step: str) -> Options:
    """A topic holds the newest row of each key, or the changes themselves as Debezium writes them."""
    if options["mode"] == "upsert":
        check_applied_by(changelog, options["key_fields"], step, option="key_fields")
        return {"op_field": changelog.op}
    if options["format"] == "debezium" and options["envelope"].get(changelog.op) == "op":
        return {}
    msg = f"mode {options['mode']!r} adds messages, and these are changes of rows"
    hint = (
        f"pass mode='upsert' and key_fields=[...]; or format='debezium', envelope={{{changelog.op!r}: 'op'}}; or call .as_rows() "
        "before the sink, to send each change as a row"
    )
    raise InvalidStep(msg, code="CHANGE-008", step=step, found=changelog.describe(), hint=hint)


def _writes_directly(options: Options, guarantee: Guarantee) -> bool:
    """Transactions are left out where rows may repeat, or where a repeated row replaces itself."""
    if guarantee is Guarantee.EXACTLY_ONCE:
        return False
    return guarantee is not Guarantee.EFFECTIVELY_ONCE or options["mode"] == "upsert"


_COLUMN = (str, type(None))
_OPTIONS = {
    "topics": Option(kind=(str, list, tuple), default=[], doc="the topic to write to", check=_topics),
    "format": Option(kind=(str,), default="json", choices=FORMATS, doc="how values are written"),
    "value_fields": Option(
        kind=(list, tuple, type(None)),
        default=None,
        doc="columns of the value; those without another part if not given",
    ),
    "key_fields": Option(kind=(str, list, tuple), default=[], doc="columns that make the key", check=_columns),
    "key_format": Option(
        kind=(str, type(None)),
        default=None,
        choices=(None, *KEY_FORMATS),
        doc="how keys are written: raw for one column of text or bytes, json otherwise if not given",
    ),
    "mode": Option(kind=(str,), default="append", choices=MODES, doc="whether a row replaces the one with its key"),
    "op_field": Option(
        kind=(str,), default=OP_FIELD, doc="for upsert: the column that tells deletes, where there is one"
    ),
    "topic_field": Option(kind=_COLUMN, default=None, doc="the column that names the topic of each row"),
    "partition_by": Option(
        kind=(str, list, tuple), default=[], doc="columns whose values choose the partition", check=_columns
    ),
    "partition_field": Option(kind=_COLUMN, default=None, doc="the column that holds the number of the partition"),
    "timestamp": Option(kind=_COLUMN, default=None, doc="the column that holds the time of the message"),
    "headers": Option(
        kind=(str, dict), default={}, doc="the column that holds headers, or a column for each", check=_headers
    ),
    "transaction_timeout": Option(kind=(str,), default="5m", doc="how long sending an epoch may take", check=_timeout),
    "prefix": Option(
        kind=(str,), default="millstream", doc="how the mark topic and transactional ids begin", check=_prefix
    ),
    "create": Option(kind=(bool,), default=True, doc="whether to create the topic when it is missing"),
}

SINK = SinkDeclaration(
    options={**CLIENT_OPTIONS, **ENCODE, **_OPTIONS},
    capability=SinkCapability.TWO_PHASE_COMMIT,
    writer="millstream.connectors.kafka.sink:KafkaWriter",
    committer="millstream.connectors.kafka.committer:KafkaCommitter",
    direct_writer="millstream.connectors.kafka.direct:KafkaDirectWriter",
    writes_directly=_writes_directly,
    takes_changes=take_changes,
    batch_option=lambda _: ("client", "batch.num.messages"),
    check=check_together,
    variants=tuple({"mode": mode} for mode in MODES),
    read_back="millstream.connectors.kafka.letters:read_back",
)
