"""Options of the `http` source and sink."""

from __future__ import annotations

from typing import Any

from millstream.connectors.formats.options import one_character
from millstream.connectors.http.asking.actions import actions_of
from millstream.connectors.http.asking.addresses import checked_hosts
from millstream.connectors.http.asking.auth import auth_of
from millstream.connectors.http.asking.rates import rates_of
from millstream.connectors.http.asking.secrets import json_without_secrets
from millstream.connectors.http.nested import above_zero, checked_by, filled_text, time_span
from millstream.connectors.http.paging.page_request import slice_names
from millstream.connectors.http.paging.paginators import paginator_of
from millstream.connectors.http.paging.paths import steps_of
from millstream.connectors.http.paging.slices import slices_of
from millstream.connectors.http.paging.windows import window_of
from millstream.connectors.http.settings import REQUEST, incremental_of, settings_of
from millstream.connectors.http.sink_settings import BODIES, METHODS, sink_settings
from millstream.errors import InvalidStep
from millstream.model.connector import (
    ConnectorDeclaration,
    ConnectorSpec,
    Extra,
    Option,
    Options,
    SinkDeclaration,
    SourceDeclaration,
)
from millstream.model.guarantee import SinkCapability, SourceCapability
from millstream.model.mode import Mode
from millstream.model.schema import Schema
from millstream.registry import load

FORMATS = ("json", "jsonl", "csv")
_MAPPING = (dict, type(None))
_DURATION = (str, int, float)


def http(url: str, **options: Any) -> ConnectorSpec:
    """Pages of an HTTP API as a source, or an address that rows are sent to as a sink.

    Args:
        url: the address.
        **options: as a source `method`, `params`, `headers`, `json`, `form`, `records`, `format`, `paginator`, `stop`, `window`,
            `slices`, `incremental` and others; as a sink `method`, `headers`, `batch_rows`, `body`, `idempotent` and others; for
            both `auth`, `rate`, `on_status`, `allowed_hosts`, `allow_private`. See the reference.
    """
    return ConnectorSpec("http", {"url": url, **options})


def check_source(options: Options, schema: Schema, step: str) -> None:
    """Refuse options that make no sense side by side."""
    try:
        settings_of(options)
    except ValueError as problem:
        raise InvalidStep(str(problem), code="HTTP-001", step=step, hint="correct the options of ms.http") from None


def check_sink(options: Options, schema: Schema, step: str) -> None:
    """Refuse options that make no sense side by side."""
    try:
        names = slice_names(sink_settings(options).request)
    except ValueError as problem:
        raise InvalidStep(str(problem), code="HTTP-001", step=step, hint="correct the options of ms.http") from None
    if names:
        msg = f"${{slice:{min(names)}}} is of sources: a sink has no slices"
        raise InvalidStep(msg, code="HTTP-001", step=step, hint="write the value itself")


def _sink_capability(options: Options) -> SinkCapability:
    return SinkCapability.IDEMPOTENT if options["idempotent"] else SinkCapability.AT_LEAST_ONCE


def _always(_: Options) -> bool:
    return True


def _page_size(options: Options) -> tuple[str, ...]:
    """Only a paginator that tells the server how many records a page is to have can be told another number."""
    try:
        return ("paginator", "size") if paginator_of(options["paginator"]).size_param is not None else ()
    except ValueError:  # a parameter of the run stands in it
        return ()


def _inferred(options: Options) -> Any:
    """The schema of a test page where the user asks for it; else the user has to say it."""
    return load("millstream.connectors.http.sample:infer_schema")(options) if options["infer_schema"] else None


_SHARED = {
    "auth": Option(
        kind=_MAPPING, default=None, doc="who asks; secrets by name", check=checked_by(auth_of), is_shown=False
    ),
    "rate": Option(kind=(dict,), default={}, doc="how often to ask, and how long to wait", check=checked_by(rates_of)),
    "on_status": Option(
        kind=(list, tuple), default=[], doc="what answers mean, before what is usual", check=checked_by(actions_of)
    ),
    "timeout": Option(
        kind=_DURATION,
        default="30s",
        doc="the longest wait for a connection or a piece of an answer",
        check=checked_by(time_span),
    ),
    "page_timeout": Option(
        kind=_DURATION, default="5m", doc="the longest that a whole answer may take", check=checked_by(time_span)
    ),
    "max_page_bytes": Option(kind=(int,), default=64 << 20, doc="the largest answer, unpacked", check=above_zero),
    "ca_file": Option(kind=(str, type(None)), default=None, doc="certificates to trust in place of the system's"),
    "allowed_hosts": Option(
        kind=(list, tuple),
        default=[],
        doc="further hosts that next pages and redirects may lead to",
        check=checked_hosts,
    ),
    "allow_private": Option(
        kind=(bool,), default=False, doc="whether hosts may lie in private networks or on this machine"
    ),
}
_SOURCE = {
    **REQUEST,
    "format": Option(kind=(str,), default="json", choices=FORMATS, doc="what an answer is"),
    "delimiter": Option(kind=(str,), default=",", doc="what separates csv columns", check=one_character),
    "header": Option(kind=(bool,), default=True, doc="whether csv begins with a line of column names"),
    "paginator": Option(
        kind=(dict,), default={"type": "single"}, doc="how pages are numbered", check=checked_by(paginator_of)
    ),
    "stop": Option(kind=(dict,), default={}, doc="when there is no further page"),
    "window": Option(kind=_MAPPING, default=None, doc="how far pages can be turned", check=checked_by(window_of)),
    "slices": Option(kind=_MAPPING, default=None, doc="the parts that are read apart", check=checked_by(slices_of)),
    "incremental": Option(
        kind=_MAPPING,
        default=None,
        doc="where a further run starts: `field`, `start`",
        check=checked_by(incremental_of),
    ),
    "infer_schema": Option(
        kind=(bool,),
        default=False,
        doc="whether to ask for a page when the job is built, and take its columns if none are given",
    ),
    "ahead_bytes": Option(
        kind=(int,), default=64 << 20, doc="how much is fetched ahead of the epochs", check=above_zero
    ),
}

_SINK = {
    "url": REQUEST["url"],
    "method": Option(kind=(str,), default="POST", choices=METHODS, doc="how to send"),
    "params": REQUEST["params"],
    "headers": REQUEST["headers"],
    "body": Option(
        kind=(str,),
        default="array",
        choices=BODIES,
        doc="rows as a JSON array, as JSON lines, or one object in each request",
    ),
    "records": Option(
        kind=(str,), default="", doc="where in `json` the array goes, as a path", check=checked_by(steps_of)
    ),
    "json": Option(
        kind=(dict, list, type(None)),
        default=None,
        doc="what stands around the array",
        check=json_without_secrets,
        is_shown=False,
    ),
    "batch_rows": Option(kind=(int,), default=100, doc="rows of a request at most", check=above_zero),
    "idempotent": Option(kind=(bool,), default=True, doc="whether the receiver takes a request of one name once"),
    "idempotency_header": Option(
        kind=(str,), default="Idempotency-Key", doc="the header that names a request", check=filled_text
    ),
}

DECLARATION = ConnectorDeclaration(
    name="http",
    extras=(Extra("http", "httpx2"), Extra("jwt", "jwt", "auth of type 'oauth2_jwt'")),
    source=SourceDeclaration(
        options={**_SOURCE, **_SHARED},
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.http.source:HttpEnumerator",
        reader="millstream.connectors.http.decoding:HttpReader",
        is_bounded=_always,
        schema=_inferred,
        sample="millstream.connectors.http.sample:sample",
        mode=Mode.BATCH_ROLLER,
        batch_option=_page_size,
        check=check_source,
    ),
    sink=SinkDeclaration(
        options={**_SINK, **_SHARED},
        capability=SinkCapability.IDEMPOTENT,
        capability_of=_sink_capability,
        variants=({"idempotent": True}, {"idempotent": False}),
        writer="millstream.connectors.http.sink:HttpWriter",
        committer="millstream.connectors.http.sink:HttpCommitter",
        batch_option=lambda _: ("batch_rows",),
        check=check_sink,
    ),
)
