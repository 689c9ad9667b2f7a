"""Options of the `nats` sink."""

from __future__ import annotations

import re

from millstream.connectors.formats.options import ENCODE, FORMATS
from millstream.connectors.messaging.outgoing import check_outgoing, checked_headers
from millstream.connectors.nats.client_options import CLIENT_OPTIONS, check_client, checked_subject
from millstream.errors import InvalidStep
from millstream.model.connector import Option, Options, SinkDeclaration
from millstream.model.guarantee import SinkCapability
from millstream.model.schema import Schema

CODE = "NATS-020"
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def _check(options: Options, schema: Schema, step: str) -> None:
    check_client(options, step)
    check_outgoing(options, schema, step, address="subject_field", code=CODE)
    if own := [name for name in options["headers"] if name.lower().startswith("nats-")]:
        msg = f"the header {own[0]!r} is one of the server's own"
        raise InvalidStep(msg, code=CODE, step=step, hint="call it something else in headers=")
    if unfit := [name for name in options["headers"] if not _HEADER.fullmatch(name)]:
        msg = "headers= names one that cannot be sent"
        known = "letters, digits and any of !#$%&'*+-.^_`|~"
        raise InvalidStep(msg, code=CODE, step=step, found=repr(unfit[0]), known=known, hint="correct headers=")


def _optional_subject(value: str | None) -> str | None:
    return None if value is None else checked_subject(value)


def _capability(options: Options) -> SinkCapability:
    return SinkCapability.STAGED_ATOMIC_COMMIT if options.get("atomic") else SinkCapability.IDEMPOTENT


SINK = SinkDeclaration(
    options={
        **CLIENT_OPTIONS,
        **ENCODE,
        "publish_to": Option(
            kind=(str, type(None)),
            default=None,
            doc="the subject to publish to; the name of the stream if not given",
            check=_optional_subject,
        ),
        "subject_field": Option(
            kind=(str, type(None)), default=None, doc="the column that holds the subject of each row"
        ),
        "headers": Option(kind=(dict,), default={}, doc="header → column", check=checked_headers),
        "format": Option(kind=(str,), default="json", choices=FORMATS, doc="how bodies are written"),
        "atomic": Option(
            kind=(bool,), default=False, doc="whether an epoch, of 999 rows at most, appears at once and never twice"
        ),
        "create": Option(kind=(bool,), default=True, doc="whether to create the stream when it is missing"),
    },
    capability=SinkCapability.STAGED_ATOMIC_COMMIT,
    capability_of=_capability,
    writer="millstream.connectors.nats.sink:NatsWriter",
    committer="millstream.connectors.nats.sink:NatsCommitter",
    check=_check,
    variants=({"atomic": False}, {"atomic": True}),
    probe="millstream.connectors.nats.looking:probe_sink",
)
