"""Asks a server until there is an answer that means something: waits its turn, waits when told, renews credentials, gives up."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, quote_plus, urlsplit

from millstream.connectors.http.asking.actions import AnswerDecision, StatusRule, decided
from millstream.connectors.http.asking.addresses import host_of
from millstream.connectors.http.asking.auth import Credential
from millstream.connectors.http.asking.client import HttpClient, NoAnswer
from millstream.connectors.http.asking.credentials import CredentialKeeper
from millstream.connectors.http.asking.rates import RateRules, TokenBucket, backoff, quota_wait, taken
from millstream.connectors.http.asking.secrets import Lookup
from millstream.connectors.http.paging.page_request import PageRequest, secret_names, shown_address
from millstream.connectors.http.paging.pages import HttpAnswer
from millstream.errors import ExternalFailure, MillstreamError, StepFailed
from millstream.redaction import HIDDEN, REFERENCE

_SHOWN = 300
_NO_ANSWER = HttpAnswer(0)
"""Where a rule for `connection` says that no answer is needed."""


class ExchangeClosed(Exception):
    """Whoever asks is closing: no answer is waited for."""


class ExchangeClock(NamedTuple):
    """Time, as an exchange sees it."""

    now: Callable[[], int]
    """Milliseconds since 1970."""
    wait: Callable[[float], bool]
    """Lets seconds pass; `False` when closing."""


class AskedAnswer(NamedTuple):
    """An answer, and what to do with it."""

    answer: HttpAnswer
    decision: AnswerDecision


Resting = Callable[[int, str], None]
"""Is told until when an exchange waits, and why; an instant of 0 when it goes on."""


class Exchange:
    """Asks the hosts of one source or sink, within their rates; several threads may use it."""

    def __init__(
        self,
        client: HttpClient,
        keeper: CredentialKeeper,
        rules: tuple[StatusRule, ...],
        rates: RateRules,
        lookup: Lookup,
        clock: ExchangeClock,
    ) -> None:
        self._client, self._keeper, self._rules, self._rates = client, keeper, rules, rates
        self._lookup, self._clock = lookup, clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, int], TokenBucket | None] = {}
        self._paused: dict[tuple[str, int], int] = {}

    def ask(self, request: PageRequest, resting: Resting) -> AskedAnswer:
        """The answer that a page, or its absence, is made of.

        Raises:
            StepFailed: the answer says that the job has to be corrected.
            ExternalFailure: there is no usable answer, for as often and as long as it was asked for.
            ExchangeClosed: whoever asks is closing.
        """
        attempt, limited, is_renewed = 1, 0, not self._keeper.can_renew
        while True:
            self._take_turn(request, resting)
            credential = self._credential(request, resting)
            answer, said = self._sent(request, credential)
            now = self._clock.now()
            decision = decided(
                self._rules, self._rates, answer, attempt=attempt, refreshed=is_renewed, now=now, limited=limited
            )
            self._heed_quota(request, answer, now)
            match decision.action:
                case "refresh_token":
                    self._keeper.renew(credential)
                    is_renewed = True
                case "rate_limited" if self._keeper.rotate(credential):
                    pass
                case "rate_limited" | "retry":
                    attempt, limited = attempt + (decision.action == "retry"), limited + (decision.action != "retry")
                    self._check_wait(decision.wait, decision.why, request)
                    self._rest(decision.wait, decision.why, resting)
                case "fail":
                    raise _failure(request, answer, decision, self._hidden(said, request))
                case _:
                    return AskedAnswer(answer or _NO_ANSWER, decision)

    def _credential(self, request: PageRequest, resting: Resting) -> Credential | None:
        """What goes with a request; a login that is out of order is asked as often as a page is."""
        for attempt in range(1, self._rates.attempts):
            try:
                return self._keeper.current()
            except ExternalFailure as problem:
                if problem.code != "HTTP-011":
                    raise
                self._rest(backoff(self._rates, attempt), problem.message, resting)
        return self._keeper.current()

    def _sent(self, request: PageRequest, credential: Credential | None) -> tuple[HttpAnswer | None, str]:
        try:
            answer = self._client.send(request, self._lookup, credential, may_turn=False)
            return answer, "" if answer.status < 300 else _excerpt(answer)
        except NoAnswer as problem:
            if not self._clock.wait(0):
                raise ExchangeClosed from None
            return None, str(problem)

    def _take_turn(self, request: PageRequest, resting: Resting) -> None:
        """Wait until the host may be asked once more."""
        host = host_of(request.url)
        with self._lock:
            now = self._clock.now()
            self._buckets[host], wait = taken(self._rates, self._buckets.get(host), now)
            paused = self._paused.get(host, 0) - now
        if paused > 0:
            self._check_wait(paused, "the quota is used up", request)
        if max(wait, paused) > 0:
            self._rest(max(wait, paused), "the rate limit of the host", resting)

    def _heed_quota(self, request: PageRequest, answer: HttpAnswer | None, now: int) -> None:
        wait = None if answer is None else quota_wait(self._rates, answer.headers, now)
        if wait is not None:
            with self._lock:
                self._paused[host_of(request.url)] = now + wait

    def _check_wait(self, wait: int, why: str, request: PageRequest) -> None:
        longest = self._rates.max_wait
        if longest is not None and wait > longest:
            msg = f"{why}: the wait would be longer than allowed"
            found = f"{wait / 1000:g} s for {shown_address(request)}"
            hint = "start again later, or raise 'max_wait' in rate="
            raise ExternalFailure(msg, code="HTTP-014", found=found, known=f"{longest / 1000:g} s", hint=hint)

    def _rest(self, wait: int, why: str, resting: Resting) -> None:
        resting(self._clock.now() + wait, why)
        try:
            if not self._clock.wait(wait / 1000):
                raise ExchangeClosed
        finally:
            resting(0, "")

    def secrets_of(self, request: PageRequest) -> set[str]:
        """The secrets that go with a request now: an answer may repeat them, and nothing may store or show them."""
        return ({self._lookup(name) for name in secret_names(request)} | self._keeper.secrets()) - {""}

    def secrets_of_path(self, request: PageRequest) -> dict[str, str]:
        """The secrets by name that the path of a request holds."""
        return {name: self._lookup(name) for name in REFERENCE.findall(urlsplit(request.url).path)}

    def _hidden(self, text: str, request: PageRequest) -> str:
        """What a server says, without secrets that it repeats, also as they stand in addresses and in JSON."""
        forms = {form for value in self.secrets_of(request) for form in _forms(value)}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text


def _forms(secret: str) -> set[str]:
    """How a secret may stand in text. What an excerpt made of blanks and line ends in it is among them."""
    written = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}
    written |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    return {form for each in written for form in (each, " ".join(each.split())) if form}


def _failure(request: PageRequest, answer: HttpAnswer | None, decision: AnswerDecision, said: str) -> MillstreamError:
    found = f"{request.method} {shown_address(request)}: {said}"
    if answer is None:
        hint = "start again when it is back, or correct url="
        return ExternalFailure(decision.why, code="HTTP-011", found=found, hint=hint)
    if decision.kind == "external":
        hint = "start again when it is mended, or say in on_status= what it means"
        return ExternalFailure(decision.why, code="HTTP-010", found=found, hint=hint)
    if answer.status in (301, 302) and request.method != "GET":
        hint = "correct url=: such a redirect would turn the request into a GET without its body; 307 and 308 keep it"
        return StepFailed(decision.why, code="HTTP-010", found=found, hint=hint)
    is_refused = answer.status in (401, 403)
    what = "auth=, or the secret that it names" if is_refused else "the request, or say in on_status= what it means"
    return StepFailed(decision.why, code="HTTP-010", found=found, hint=f"correct {what}")


def _excerpt(answer: HttpAnswer) -> str:
    """The beginning of a body in one line, for people; of a redirect, where it leads."""
    if answer.status < 400 and (target := answer.headers.get("location")):
        return f"leads to {target}"[:_SHOWN]
    return " ".join(answer.body[: 4 * _SHOWN].decode("utf-8", "replace").split())[:_SHOWN] or "an empty answer"
