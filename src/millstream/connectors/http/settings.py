"""What the checked options of a source mean, read once where it runs; and what does not go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.connectors.http.asking.actions import StatusRule, actions_of, needs_window
from millstream.connectors.http.asking.addresses import AllowedHosts, allowed_hosts, checked_url
from millstream.connectors.http.asking.auth import AuthRules, auth_of
from millstream.connectors.http.asking.rates import RateRules, rates_of
from millstream.connectors.http.asking.secrets import json_without_secrets, refuse_written, without_secrets
from millstream.connectors.http.nested import Fields, checked_by, kept_as_given, nested
from millstream.connectors.http.paging.page_request import slice_names
from millstream.connectors.http.paging.pages import BodyFormat
from millstream.connectors.http.paging.paths import Steps, steps_of
from millstream.connectors.http.paging.slices import ParentSlices, Slices, names_of, slices_of
from millstream.connectors.http.paging.turning import PagingPlan, paging_of
from millstream.model.connector import Option
from millstream.model.time import duration_ms

METHODS = ("GET", "POST")
SINCE = "since"
"""What the value that a further run starts from is called in `${slice:NAME}`."""

_OURS = ("host", "content-length", "transfer-encoding", "connection")
"""Headers that follow from the address and the body."""


def _free_headers(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Headers without secrets as text, and without those that are not for options to say."""
    checked = without_secrets(values)
    for name in checked or {}:
        if name.lower() in _OURS:
            msg = f"headers without {name!r}, which follows from url= and the body"
            raise ValueError(msg)
    return checked


REQUEST: dict[str, Option] = {
    "url": Option(kind=(str,), doc="the address, with `${slice:NAME}` where a slice fills it", check=checked_url),
    "method": Option(kind=(str,), default="GET", choices=METHODS, doc="how to ask"),
    "params": Option(kind=(dict,), default={}, doc="parameters of the query", check=without_secrets, is_shown=False),
    "headers": Option(kind=(dict,), default={}, doc="headers", check=_free_headers, is_shown=False),
    "json": Option(
        kind=(dict, list, type(None)), default=None, doc="the body, as JSON", check=json_without_secrets, is_shown=False
    ),
    "form": Option(
        kind=(dict, type(None)), default=None, doc="the body, as a form", check=without_secrets, is_shown=False
    ),
    "records": Option(
        kind=(str,),
        default="",
        doc="the path of the records in an answer; the whole answer when empty",
        check=checked_by(steps_of),
    ),
}
PARENT_REQUEST: Fields = {
    **REQUEST,
    "paginator": Option(kind=(dict,), default={"type": "single"}, doc="how pages of parents are numbered"),
    "stop": Option(kind=(dict,), default={}, doc="when there are no further parents"),
    "window": Option(kind=(dict, type(None)), default=None, doc="how far pages of parents can be turned"),
}
INCREMENTAL: Fields = {
    "field": Option(kind=(str,), doc="the field whose largest value a further run starts from", check=steps_of),
    "start": Option(kind=(str, int, float), doc="what the first run starts from", check=kept_as_given),
}


@dataclasses.dataclass(frozen=True, slots=True)
class ClientLimits:
    """How long and how much: seconds for a step of a connection and for a whole answer, and bytes of one."""

    step_seconds: float
    answer_seconds: float
    answer_bytes: int
    ca_file: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class IncrementalRule:
    """By what a further run knows where the last one ended."""

    field: Steps
    start: str | int | float


@dataclasses.dataclass(frozen=True, slots=True)
class SourceSettings:
    """All that the options say."""

    paging: PagingPlan
    body: BodyFormat
    slices: Slices
    parent: PagingPlan | None
    parent_body: BodyFormat | None
    incremental: IncrementalRule | None
    rules: tuple[StatusRule, ...]
    rates: RateRules
    auth: AuthRules | None
    allowed: AllowedHosts
    limits: ClientLimits
    ahead_bytes: int


def limits_of(options: Mapping[str, Any]) -> ClientLimits:
    """How long and how much a client may take."""
    return ClientLimits(
        duration_ms(options["timeout"]) / 1000,
        duration_ms(options["page_timeout"]) / 1000,
        options["max_page_bytes"],
        options["ca_file"],
    )


def body_of(options: Mapping[str, Any]) -> BodyFormat:
    """How an answer holds its records."""
    return BodyFormat(options["format"], steps_of(options["records"]), options["delimiter"], options["header"])


def settings_of(options: Mapping[str, Any]) -> SourceSettings:
    """Read checked options.

    Raises:
        ValueError: they do not go together.
    """
    slices, paging, auth = slices_of(options["slices"]), paging_of(options), auth_of(options["auth"])
    parent, parent_body = _parent_of(slices)
    settings = SourceSettings(
        paging=paging,
        body=body_of(options),
        slices=slices,
        parent=parent,
        parent_body=parent_body,
        incremental=incremental_of(options["incremental"]),
        rules=actions_of(options["on_status"]),
        rates=rates_of(options["rate"]),
        auth=auth,
        allowed=hosts_of(options, [paging.request.url, *([parent.request.url] if parent else [])], auth),
        limits=limits_of(options),
        ahead_bytes=options["ahead_bytes"],
    )
    _check(settings)
    return settings


def _parent_of(slices: Slices) -> tuple[PagingPlan | None, BodyFormat | None]:
    if not isinstance(slices, ParentSlices):
        return None, None
    request = nested(PARENT_REQUEST, slices.request, what="'request' of slices 'parent'")
    return paging_of(request), BodyFormat("json", steps_of(request["records"]), ",", header=True)


def hosts_of(options: Mapping[str, Any], urls: Sequence[str], auth: AuthRules | None) -> AllowedHosts:
    """The hosts that answers may lead to: those of the urls in the options, and those that are named besides."""
    logins = [auth.login.url] if auth is not None and auth.login is not None else []
    return allowed_hosts([*urls, *logins], options["allowed_hosts"], private=options["allow_private"])


def incremental_of(value: Any) -> IncrementalRule | None:
    """Read the option `incremental`.

    Raises:
        ValueError: says what was expected.
    """
    return None if value is None else IncrementalRule(**nested(INCREMENTAL, value, what="incremental"))


def _check(settings: SourceSettings) -> None:
    known = names_of(settings.slices) | ({SINCE} if settings.incremental is not None else set())
    _check_names(slice_names(settings.paging.request), known)
    if settings.parent is not None:
        _check_names(slice_names(settings.parent.request), set())
        _check_body(settings.parent)
    _check_body(settings.paging)
    if needs_window(settings.rules) and settings.paging.window is None:
        msg = "the action 'split' needs window=, which says where a slice starts again"
        raise ValueError(msg)
    if settings.incremental is not None and SINCE not in slice_names(settings.paging.request):
        msg = "incremental= gives ${slice:since}, and nothing asks for it"
        raise ValueError(msg)
    if settings.body.kind != "json":
        _check_lines(settings)


def _check_names(used: set[str], known: set[str]) -> None:
    unknown = sorted(used - known)
    if unknown:
        there = ", ".join(sorted(known)) or "none"
        msg = f"${{slice:{unknown[0]}}} is the value of no slice; known: {there}"
        raise ValueError(msg)


def _check_body(paging: PagingPlan) -> None:
    request, paginator = paging.request, paging.paginator
    refuse_written(request.url)
    if request.json is not None and request.form:
        msg = "a request has json= or form=, not both"
        raise ValueError(msg)
    places = {
        paginator.place if paginator.param else "query",
        paginator.size_place if paginator.size_param else "query",
    }
    has_body = request.json is not None or bool(request.form) or bool(places & {"json", "form"})
    if request.method == "GET" and has_body:
        msg = "a body goes with method='POST'"
        raise ValueError(msg)


def _check_lines(settings: SourceSettings) -> None:
    """An answer of lines has no paths but those of its records."""
    paginator, stop = settings.paging.paginator, settings.paging.stop
    total = stop.total is not None and stop.total.path is not None
    when = stop.when is not None and stop.when.path is not None
    is_asked = paginator.kind in ("cursor", "link") and paginator.path is not None
    if is_asked or total or when or stop.has_more is not None or settings.body.records:
        msg = f"format={settings.body.kind!r} has no paths: page by header, number or key, and leave records= out"
        raise ValueError(msg)
    if settings.body.kind == "csv" and settings.paging.window is not None:
        msg = "window= leaves records out by their key, which format='csv' does not do"
        raise ValueError(msg)
