"""Sends requests: fills secrets in, follows redirects within bounds, and reads no more than it may."""

from __future__ import annotations

import dataclasses
import functools
import re
import ssl
import time
from collections.abc import Callable, Iterable
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from millstream.connectors.http.asking.addresses import AllowedHosts, followed, host_of
from millstream.connectors.http.asking.auth import Credential
from millstream.connectors.http.asking.library import httpcore2, httpx2
from millstream.connectors.http.asking.packing import unpacked_parts
from millstream.connectors.http.asking.secrets import Lookup, resolved
from millstream.connectors.http.asking.transport import CONNECTION_PROBLEMS, CheckedPool, OpenSockets
from millstream.connectors.http.asking.wire import WireOrigin, WireRequest
from millstream.connectors.http.paging.page_request import PageRequest, full_url, secret_names, with_texts
from millstream.connectors.http.paging.pages import HttpAnswer, too_large, unpacked
from millstream.connectors.http.settings import ClientLimits
from millstream.errors import StepFailed

_MOST_REDIRECTS = 5
_QUESTIONS = ("GET", "HEAD")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_USUAL = (("Accept", "*/*"), ("Accept-Encoding", "gzip, deflate"), ("User-Agent", "millstream"))
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "idempotency-key", "user-agent"})
"""Headers that may go to another host: they say how to answer, what is sent, and what it is called."""


class NoAnswer(Exception):
    """The server could not be reached, broke off, or took too long. Its text holds no secret."""


class HttpClient:
    """Connections to the hosts of one source or sink; several threads may use it."""

    def __init__(
        self, allowed: AllowedHosts, limits: ClientLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._allowed, self._limits, self._clock = allowed, limits, clock
        self._sockets = OpenSockets()
        context = _tls(limits.ca_file)
        self._pool = CheckedPool(allowed, self._sockets, context, step_seconds=limits.step_seconds)

    def send(
        self, request: PageRequest, lookup: Lookup, credential: Credential | None = None, *, may_turn: bool = True
    ) -> HttpAnswer:
        """The answer to a request, with its body whole.

        Args:
            request: what is asked, with secrets by name.
            lookup: gives secrets.
            credential: what goes to the host of the request alone.
            may_turn: whether a redirect of 301 or 302 turns a POST into a GET, as those behind a login mean it. Else that
                redirect is the answer: what was to be sent would not reach where it is told to go. 303 says that it has arrived.

        Raises:
            NoAnswer: none came.
            StepFailed: it, or where it leads, may not be asked.
            ExternalFailure: (HTTP-013) the answer is too large.
        """
        filled = request
        if secret_names(request):
            filled = with_texts(request, lambda text: resolved(text, lookup))
            filled = dataclasses.replace(filled, url=resolved(filled.url, lambda name: quote(lookup(name), safe="")))
        try:
            return self._followed(filled, credential, self._clock() + self._limits.answer_seconds, may_turn=may_turn)
        except (*CONNECTION_PROBLEMS, httpx2.HTTPError) as problem:
            raise NoAnswer(_told(problem, request)) from None
        except httpx2.InvalidURL:
            msg = "an address cannot be asked"
            found = urlsplit(request.url).hostname
            raise StepFailed(
                msg, code="HTTP-031", found=found, hint="correct url=, or what gives the next page"
            ) from None
        except UnicodeEncodeError:
            msg_0 = "text that is no Unicode: half of a pair of surrogates"
            raise _not_sendable(msg_0) from None

    def _followed(
        self, request: PageRequest, credential: Credential | None, until: float, *, may_turn: bool
    ) -> HttpAnswer:
        """The answer that leads nowhere else. Credentials go to the host they are for alone."""
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._sent(request, credential, until)
            target = answer.headers.get("location")
            is_turned = answer.status in (301, 302) and request.method not in _QUESTIONS
            if answer.status not in _REDIRECTS or target is None or (is_turned and not may_turn):
                return answer
            address = followed(full_url(request), target, self._allowed, what="a redirect")
            if host_of(address) != host_of(request.url):
                credential = None
                headers = tuple(pair for pair in request.headers if pair[0].lower() in _HARMLESS)
                request = dataclasses.replace(request, headers=headers)
            request = _moved(request, address, answer.status)
        msg = f"more than {_MOST_REDIRECTS} redirects"
        raise httpx2.TooManyRedirects(msg)

    def _sent(self, request: PageRequest, credential: Credential | None, until: float) -> HttpAnswer:
        with self._pool.asked(_wire_request(request, credential)) as answer:
            headers = _headers(answer.headers)
            parts = unpacked_parts(answer.parts, headers.get("content-encoding", ""))
            return HttpAnswer(answer.status, headers, self._body(parts, until))

    def _body(self, parts: Iterable[bytes], until: float) -> bytes:
        taken, size = [], 0
        for part in parts:
            taken.append(part)
            size += len(part)
            if size > self._limits.answer_bytes:
                raise too_large(self._limits.answer_bytes)
            if self._clock() > until:
                msg = f"the answer was not complete after {self._limits.answer_seconds:g} s"
                raise httpcore2.ReadTimeout(msg)
        return unpacked(b"".join(taken), limit=self._limits.answer_bytes)

    def cut(self) -> None:
        """End what is under way, from another thread."""
        self._sockets.cut()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else httpx2.create_ssl_context(trust_env=False)
    except OSError as problem:
        msg = "the certificates that are to be trusted cannot be read"
        found = f"{ca_file}: {problem.strerror or problem}"
        raise StepFailed(msg, code="HTTP-018", found=found, hint="correct ca_file=: a file in PEM form") from None


def _encoded(name: str, value: str) -> tuple[bytes, bytes]:
    """A header as it is sent; one that HTTP cannot carry is refused, without showing what it holds.

    Raises:
        StepFailed: (HTTP-018) its name is none, or a line ends in its value.
    """
    if not _HEADER_NAME.fullmatch(name):
        msg = f"a header called {name!r}"
        raise _not_sendable(msg)
    if _NOT_IN_HEADERS.search(value) or value != value.strip(" \t"):
        msg = f"a line end, a control character or blanks around the value of the header {name!r}"
        raise _not_sendable(msg)
    return name.encode(), value.encode()


def _not_sendable(found: str) -> StepFailed:
    msg = "a request cannot be sent as it is"
    hint = "correct params=, headers=, json=, form= or auth=, or the secret that they name: it may end in a line end"
    return StepFailed(msg, code="HTTP-018", found=found, hint=hint)


def _wire_request(request: PageRequest, credential: Credential | None) -> WireRequest:
    mine = credential or Credential()
    headers = {name.lower(): (name, value) for name, value in (*_USUAL, *request.headers, *mine.headers)}
    content = _content(request, headers)
    if content or request.method not in _QUESTIONS:
        headers["content-length"] = ("Content-Length", str(len(content)))
    if mine.cookies:
        headers["cookie"] = ("Cookie", "; ".join(f"{name}={value}" for name, value in mine.cookies))
    base = _parsed(request.url)
    target = base.raw_path
    if query := urlencode((*request.query, *mine.query)).encode("ascii"):
        target += (b"&" if b"?" in target else b"?") + query
    return WireRequest(
        _origin(request.url),
        request.method,
        target,
        [(b"Host", base.netloc), *(_encoded(name, value) for name, value in headers.values())],
        content,
    )


def _content(request: PageRequest, headers: dict[str, tuple[str, str]]) -> bytes:
    """The body; its kind is added to the headers, unless they tell another."""
    if request.json is not None:
        headers.setdefault("content-type", ("Content-Type", "application/json"))
        return msgspec.json.encode(request.json)
    if request.form:
        headers.setdefault("content-type", ("Content-Type", "application/x-www-form-urlencoded"))
        return urlencode(request.form).encode("ascii")
    return request.content


@functools.lru_cache(maxsize=256)
def _parsed(url: str) -> httpx2.URL:
    """An address, whose query may be followed by more. Most pages are asked for at one address."""
    return httpx2.URL(url)


@functools.lru_cache(maxsize=256)
def _origin(url: str) -> WireOrigin:
    base = _parsed(url)
    return WireOrigin(base.scheme, base.raw_host.decode("ascii"), base.port or (443 if base.scheme == "https" else 80))


def _moved(request: PageRequest, address: str, status: int) -> PageRequest:
    """The request at its new address: 307 and 308 keep it, others turn it into a plain question."""
    moved = dataclasses.replace(request, url=address, query=())
    is_kept = status in (307, 308) or request.method in _QUESTIONS
    return moved if is_kept else dataclasses.replace(moved, method="GET", json=None, form=(), content=b"")


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by their name in lower case; several cookies stand in lines."""
    headers: dict[str, str] = {}
    for name, content in pairs:
        lower, value = name.decode("ascii", "replace").lower(), content.decode("latin-1")
        joint = "\n" if lower == "set-cookie" else ", "
        headers[lower] = f"{headers[lower]}{joint}{value}" if lower in headers else value
    return headers


def _told(problem: Exception, request: PageRequest) -> str:
    """What went wrong, without what the request holds: the text of an error may repeat it."""
    text = str(problem)
    is_plain = "://" not in text and "=" not in text and not isinstance(problem, httpcore2.LocalProtocolError)
    host = urlsplit(request.url).hostname
    return f"{type(problem).__name__} from {host}" + (f": {text}" if text and is_plain else "")
