"""Opens what asks a server: a client, its credentials and its exchange, from the options of a source or sink."""

from __future__ import annotations

from collections.abc import Callable

from millstream.connectors.http.asking.actions import StatusRule
from millstream.connectors.http.asking.addresses import AllowedHosts
from millstream.connectors.http.asking.auth import AuthRules
from millstream.connectors.http.asking.client import HttpClient
from millstream.connectors.http.asking.credentials import CredentialKeeper
from millstream.connectors.http.asking.exchange import Exchange, ExchangeClock
from millstream.connectors.http.asking.rates import RateRules
from millstream.connectors.http.settings import ClientLimits
from millstream.errors import MillstreamError
from millstream.model.secret import secret
from millstream.model.time import now_ms


def opened_exchange(
    *,
    allowed: AllowedHosts,
    limits: ClientLimits,
    auth: AuthRules | None,
    rules: tuple[StatusRule, ...],
    rates: RateRules,
    step: str | None,
    wait: Callable[[float], bool],
) -> tuple[HttpClient, Exchange]:
    """A client and the exchange that uses it; secrets are looked up when they are needed."""

    def lookup(name: str) -> str:
        return secret(name, step=step)

    try:
        client = HttpClient(allowed, limits)
    except MillstreamError as problem:
        raise (problem if step is None else problem.of_step(step)) from None
    keeper = CredentialKeeper(auth, client, lookup, now_ms)
    return client, Exchange(client, keeper, rules, rates, lookup, ExchangeClock(now_ms, wait))
