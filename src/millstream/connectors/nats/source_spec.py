"""Options of the `nats` source."""

from __future__ import annotations

from millstream.connectors.formats.options import DECODE, FORMATS
from millstream.connectors.messaging.beginnings import checked_start, checked_until
from millstream.connectors.messaging.received import check_columns, checked_metadata
from millstream.connectors.nats.client_options import CLIENT_OPTIONS, check_client, checked_filter
from millstream.errors import InvalidStep
from millstream.model.connector import Option, Options, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import Schema

METADATA = ("subject", "sequence", "timestamp", "headers")
"""What a column may hold beside the body."""


def _check(options: Options, schema: Schema, step: str) -> None:
    check_client(options, step)
    if options["start"] is None:
        msg = "a source needs a beginning"
        hint = "pass start='earliest', 'latest', a sequence or a time"
        raise InvalidStep(msg, code="NATS-010", step=step, hint=hint)
    check_columns(options, schema, step, code="NATS-010")


def _is_bounded(options: Options) -> bool:
    return options["until"] is not None


SOURCE = SourceDeclaration(
    options={
        **CLIENT_OPTIONS,
        "start": Option(
            kind=(object,),
            doc="where to begin: `earliest`, `latest`, a sequence, or a time with its zone",
            check=checked_start,
        ),
        "until": Option(
            kind=(object,),
            default=None,
            doc="where to end, decided once: `latest`, a sequence or a time",
            check=checked_until,
        ),
        "subjects": Option(
            kind=(str, list, tuple), default=[], doc="only messages of these subjects", check=checked_filter
        ),
        "format": Option(kind=(str,), default="json", choices=FORMATS, doc="what bodies are"),
        **DECODE,
        "metadata": Option(
            kind=(dict,),
            default={},
            doc="column → `subject`, `sequence`, `timestamp` or `headers`",
            check=checked_metadata(METADATA),
        ),
        "on_data_loss": Option(
            kind=(str,), default="fail", choices=("fail", "skip"), doc="when messages are gone before they were read"
        ),
    },
    capability=SourceCapability.REPLAYABLE,
    enumerator="millstream.connectors.nats.source:NatsEnumerator",
    reader="millstream.connectors.nats.reader:NatsReader",
    is_bounded=_is_bounded,
    check=_check,
    probe="millstream.connectors.nats.looking:probe_source",
)
