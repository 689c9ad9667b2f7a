"""What the checked options of a sink mean, read once where it runs; and what does not go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.connectors.http.asking.actions import StatusRule, actions_of
from millstream.connectors.http.asking.addresses import AllowedHosts
from millstream.connectors.http.asking.auth import AuthRules, auth_of
from millstream.connectors.http.asking.rates import RateRules, rates_of
from millstream.connectors.http.asking.secrets import refuse_written
from millstream.connectors.http.paging.page_request import PageRequest, pairs_of
from millstream.connectors.http.paging.paths import Steps, steps_of
from millstream.connectors.http.settings import ClientLimits, hosts_of, limits_of

BODIES = ("array", "lines", "object")
METHODS = ("POST", "PUT", "PATCH")
_OF_SOURCES = frozenset({"reset", "split"})


@dataclasses.dataclass(frozen=True, slots=True)
class SinkSettings:
    """What the checked options of a sink mean."""

    request: PageRequest
    body: str
    records: Steps
    template: Any
    batch_rows: int
    key_header: str | None
    """The header that names a batch; `None` for receivers that know none."""
    concurrency: int
    rules: tuple[StatusRule, ...]
    rates: RateRules
    auth: AuthRules | None
    allowed: AllowedHosts
    limits: ClientLimits


def sink_settings(options: Mapping[str, Any]) -> SinkSettings:
    """Read checked options.

    Raises:
        ValueError: they do not go together.
    """
    rules, auth = actions_of(options["on_status"]), auth_of(options["auth"])
    _check(options, rules)
    query, headers = pairs_of(options["params"]), pairs_of(options["headers"])
    return SinkSettings(
        request=PageRequest(options["method"], options["url"], query=query, headers=headers),
        body=options["body"],
        records=steps_of(options["records"]),
        template=options["json"],
        batch_rows=1 if options["body"] == "object" else options["batch_rows"],
        key_header=options["idempotency_header"] if options["idempotent"] else None,
        concurrency=options["rate"].get("concurrency", 1),
        rules=rules,
        rates=rates_of(options["rate"]),
        auth=auth,
        allowed=hosts_of(options, [options["url"]], auth),
        limits=limits_of(options),
    )


def _check(options: Mapping[str, Any], rules: Sequence[StatusRule]) -> None:
    refuse_written(options["url"])
    if any(rule.action in _OF_SOURCES for rule in rules):
        msg = "the actions 'reset' and 'split' are of sources: a sink has no pages"
        raise ValueError(msg)
    if options["body"] != "array" and (options["records"] or options["json"] is not None):
        msg = "records= and json= go around body='array'"
        raise ValueError(msg)
    if options["json"] is not None and not options["records"]:
        msg = "json= needs records=, which says where in it the rows go"
        raise ValueError(msg)
