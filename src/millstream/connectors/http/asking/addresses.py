"""Which addresses may be asked. A job's definition may come from somebody else, and a server's answer always does.

So only http and https are spoken, next addresses and redirects stay with the hosts that the options name, and the addresses
behind a name are looked at where a connection is made: a name may lead elsewhere a moment later.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urljoin, urlsplit

from millstream.errors import StepFailed

_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclasses.dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts, with their ports, that answers may lead to; and whether names may lead into private networks."""

    hosts: frozenset[tuple[str, int]]
    private: bool = False


def checked_url(url: str) -> str:
    """A url of the options.

    Raises:
        ValueError: says what was expected.
    """
    expected = "an address such as 'https://api.example.com/orders'"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(expected) from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(expected)
    if "@" in parts.netloc:
        msg = f"{expected} without a user: pass auth="
        raise ValueError(msg)
    if "$" in parts.netloc:
        msg = f"{expected} whose host is written out"
        raise ValueError(msg)
    return url


@functools.lru_cache(maxsize=256)
def host_of(url: str) -> tuple[str, int]:
    """Host and port of an address that was checked."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower().rstrip("."), _port(parts)


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


_is_private_forbidden: list[bool] = []
"""Whether this process may not reach into private networks, whatever options say."""


def forbid_private() -> None:
    """From now on no address of a private network is asked. For processes that look at what others submitted as data."""
    _is_private_forbidden[:] = [True]


def allowed_hosts(urls: Iterable[str], more: Iterable[str], *, private: bool) -> AllowedHosts:
    """The hosts of the urls in the options, and further ones, each with a port or for http and https."""
    hosts = {host_of(url) for url in urls}
    for each in more:
        parts = urlsplit(f"//{each.lower()}")
        name = (parts.hostname or "").rstrip(".")
        hosts |= {(name, parts.port)} if parts.port else {(name, port) for port in _PORTS.values()}
    return AllowedHosts(frozenset(hosts), private and not _is_private_forbidden)


def checked_hosts(values: list[str]) -> list[str]:
    """Further hosts, as the options name them."""
    for each in values:
        try:
            parts = urlsplit(f"//{each}" if isinstance(each, str) else "")
            is_host = bool(parts.hostname) and not parts.path and "@" not in parts.netloc and (parts.port or 1) > 0
        except ValueError:
            is_host = False
        if not is_host:
            msg = "hosts such as 'files.example.com' or 'files.example.com:8443'"
            raise ValueError(msg)
    return list(values)


def followed(base: str, target: str, allowed: AllowedHosts, *, what: str) -> str:
    """The address that an answer leads to.

    Args:
        base: the address that was asked.
        target: where the answer leads, perhaps relative.
        allowed: where it may.
        what: the kind of lead, for the error.

    Raises:
        StepFailed: (HTTP-031) it leads elsewhere, or from https to http.
    """
    try:
        address = urljoin(base, target)
        parts = urlsplit(address)
        place = ((parts.hostname or "").lower().rstrip("."), _port(parts)) if parts.scheme in _PORTS else ("", 0)
    except ValueError:
        address, parts, place = "", urlsplit(""), ("", 0)
    problem = None
    if not place[0] or "@" in parts.netloc:
        problem = "no address of http or https"
    elif place not in allowed.hosts:
        problem = f"{place[0]}:{place[1]}"
    elif urlsplit(base).scheme == "https" and parts.scheme == "http":
        problem = "from https to http"
    if problem is None:
        return address
    msg = f"{what} leads where this source may not go"
    known = ", ".join(f"{name}:{port}" for name, port in sorted(allowed.hosts))
    raise StepFailed(
        msg, code="HTTP-031", found=problem, known=known, hint="name the host in allowed_hosts=, if it is right"
    )


def refusal(address: str) -> str | None:
    """Why a numeric address is not asked, or `None`: what is not in the public internet is somebody's inside."""
    inner = embedded(ipaddress.ip_address(address.partition("%")[0]))
    if inner.is_loopback:
        return "loopback"
    if inner.is_link_local:
        return "link-local, where clouds keep their credentials"
    if inner.is_multicast or inner.is_unspecified or inner.is_reserved:
        return "no address of a server"
    is_site = isinstance(inner, ipaddress.IPv6Address) and inner.is_site_local
    return None if inner.is_global and not is_site else "private"


def embedded(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def check_reachable(host: str, addresses: Iterable[str], allowed: AllowedHosts) -> None:
    """Refuse a host one of whose addresses lies in a private network.

    Raises:
        StepFailed: (HTTP-030) it does.
    """
    if allowed.private:
        return
    for address in addresses:
        reason = refusal(address)
        if reason is not None:
            msg = f"the host {host!r} is not in the public internet"
            hint = (
                "pass allow_private=True if this source may reach into the network it runs in, and the service lets it"
            )
            raise StepFailed(msg, code="HTTP-030", found=f"{address}: {reason}", hint=hint)
