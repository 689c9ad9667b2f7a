import socket
import ssl

import pytest

from millstream.connectors.http.asking import addresses
from millstream.connectors.http.asking.addresses import (
    allowed_hosts,
    check_reachable,
    checked_hosts,
    checked_url,
    followed,
    refusal,
)
from millstream.connectors.http.asking.library import httpcore2
from millstream.connectors.http.asking.transport import CheckedPool, OpenSockets
from millstream.connectors.http.asking.wire import WireOrigin, WireRequest
from millstream.errors import StepFailed

ALLOWED = allowed_hosts(
    ["https://api.example.com/v1/items"], ["files.example.com", "old.example.com:8443"], private=False
)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("127.8.8.8", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00:ec2::254", "private"),
        ("fc00::1", "private"),
        ("fec0::1", "private"),
        ("0.0.0.0", "no address of a server"),
        ("::", "no address of a server"),
        ("224.0.0.1", "no address of a server"),
        ("255.255.255.255", "no address of a server"),
    ],
)
def test_addresses_that_are_not_asked(address, reason):
    assert refusal(address).startswith(reason)
    with pytest.raises(StepFailed) as refused:
        check_reachable("inside.example.com", ["93.184.216.34", address], ALLOWED)
    assert refused.value.code == "HTTP-030"
    assert "allow_private=True" in refused.value.hint


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "1.1.1.1"])
def test_addresses_that_are_asked(address):
    assert refusal(address) is None
    check_reachable("api.example.com", [address], ALLOWED)


def test_private_networks_may_be_allowed():
    inside = allowed_hosts(["http://localhost:8000/"], [], private=True)
    check_reachable("localhost", ["127.0.0.1", "::1"], inside)


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("/v1/items?page=2", "https://api.example.com/v1/items?page=2"),
        ("?page=2", "https://api.example.com/v1/items?page=2"),
        ("https://api.example.com:443/x", "https://api.example.com:443/x"),
        ("https://API.EXAMPLE.COM./x", "https://API.EXAMPLE.COM./x"),
        ("https://files.example.com/x", "https://files.example.com/x"),
        ("https://old.example.com:8443/x", "https://old.example.com:8443/x"),
        ("//files.example.com/x", "https://files.example.com/x"),
    ],
)
def test_answers_may_lead_to_hosts_that_the_options_name(target, address):
    assert followed("https://api.example.com/v1/items", target, ALLOWED, what="it") == address


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example.com/x",
        "https://api.example.com.evil.com/x",
        "https://api.example.com:8080/x",
        "https://api.example.com@evil.com/x",
        "https://user@api.example.com/x",
        "https://old.example.com/x",
        "http://files.example.com/x",
        "http://169.254.169.254/latest/meta-data",
        "http://2852039166/",
        "file:///etc/passwd",
        "ftp://api.example.com/x",
        "javascript:alert(1)",
        "gopher://api.example.com/",
        "https://[::1]/x",
        "https://[broken/x",
        "https://api.example.com:99999/x",
    ],
)
def test_answers_lead_nowhere_else(target):
    with pytest.raises(StepFailed) as refused:
        followed("https://api.example.com/v1/items", target, ALLOWED, what="the next page")
    assert refused.value.code == "HTTP-031"
    assert "api.example.com:443" in refused.value.known


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://a.example/x",
        "file:///etc/passwd",
        "https://",
        "https://u:p@a.example/",
        "https://a:b/",
        "https://${slice:host}.example.com/x",
        "https://[::1/x",
        "//a.example/x",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match="an address such as"):
        checked_url(url)


@pytest.mark.parametrize("host", ["", "https://a.example", "a.example/x", "u@a.example", "a.example:0x", 7])
def test_what_is_no_host_is_refused(host):
    with pytest.raises(ValueError, match="hosts such as"):
        checked_hosts([host])


def test_a_name_is_looked_up_once_and_that_address_is_asked(monkeypatch):
    """A name that leads elsewhere a moment later leads nowhere."""
    answers = [[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 9))]]
    asked, connected = [], []

    def looked_up(*given, **more):
        asked.append(given)
        return answers[len(asked) - 1]

    def connect(_self, address, port, timeout):
        connected.append(address)
        raise httpcore2.ConnectError

    monkeypatch.setattr("millstream.connectors.http.asking.transport.socket.getaddrinfo", looked_up)
    monkeypatch.setattr("millstream.connectors.http.asking.addresses.refusal", lambda address: None)
    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
    pool = CheckedPool(ALLOWED, OpenSockets(), ssl.create_default_context(), step_seconds=1)
    request = WireRequest(WireOrigin("http", "turning.example.com", 9), "GET", b"/", [], b"")
    with pytest.raises(httpcore2.ConnectError), pool.asked(request):
        pass
    assert connected == ["192.0.2.7"]


def test_a_process_that_is_confined_allows_nothing_private(monkeypatch):
    monkeypatch.setattr(addresses, "_is_private_forbidden", [])
    assert allowed_hosts(["http://localhost/"], [], private=True).private
    addresses.forbid_private()
    assert not allowed_hosts(["http://localhost/"], [], private=True).private
