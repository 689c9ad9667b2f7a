"""Who asks, where a proxy stands in between: a proxy that the operator named is believed, and nobody else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from starlette.datastructures import Headers
from starlette.types import Scope

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_MOST_HOPS = 20
_UNKNOWN = "?"


def networks_of(given: Iterable[str]) -> tuple[IpNetwork, ...]:
    """Addresses and networks as the operator writes them.

    Raises:
        ValueError: one is neither.
    """
    return tuple(ipaddress.ip_network(each) for each in given)


def asker_of(scope: Scope, proxies: tuple[IpNetwork, ...]) -> str:
    """The address of whoever asks: of the connection, or what our proxies say of theirs.

    Each proxy adds the address it was asked from at the end of `X-Forwarded-For`. So the list is read from its end, for as
    long as it was one of our proxies that wrote the entry; what stands before that anybody may have written.
    """
    peer = (scope.get("client") or (_UNKNOWN,))[0]
    for told in _told(scope):
        asker = _address(peer)
        if asker is None or not any(asker in each for each in proxies):
            return peer
        before = _address(told)
        if before is None:
            return peer
        peer = str(before)
    return peer


def _told(scope: Scope) -> Iterator[str]:
    """What `X-Forwarded-For` says, the last entry first."""
    whole = ",".join(Headers(scope=scope).getlist("x-forwarded-for"))
    return (each.strip() for each in reversed(whole.rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]) if each.strip())


def _address(text: str) -> IpAddress | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
