"""What an answer means: a table of rules, the first that fits decides, and behind them what is usual.

| answer | action |
|---|---|
| 2xx | `success` |
| 401 | `refresh_token`, once; then `fail` |
| 429 | `rate_limited` |
| 408, 425, 5xx, no answer | `retry` |
| any other | `fail` |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from millstream.connectors.http.asking.rates import RateRules, asked_wait, backoff
from millstream.connectors.http.nested import Fields, nested
from millstream.connectors.http.paging import predicates
from millstream.connectors.http.paging.pages import HttpAnswer, json_of
from millstream.connectors.http.paging.predicates import AnswerTest, holds
from millstream.model.connector import Option

ACTIONS = ("success", "fail", "retry", "ignore", "reset", "split", "rate_limited", "refresh_token")
ActionName = Literal["success", "fail", "retry", "ignore", "reset", "split", "rate_limited", "refresh_token"]
_TRANSIENT = frozenset({408, 425})
_SHORTEST = 100
"""Milliseconds before a server that has no room is asked again, should it say less."""
_CLASSES = ("2xx", "3xx", "4xx", "5xx")

FIELDS: Fields = {
    "status": Option(
        kind=(int, str, list),
        default=[],
        doc="a status, a class such as `5xx`, `connection` for no answer, or a list of these",
    ),
    **predicates.FIELDS,
    "action": Option(kind=(str,), choices=ACTIONS, doc="what to do"),
    "kind": Option(
        kind=(str,),
        default="user",
        choices=("user", "external"),
        doc="for `fail`: who has to mend it, the job or the other side",
    ),
    "message": Option(kind=(str, type(None)), default=None, doc="for `fail`: what to tell people"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class StatusRule:
    """One line of the table."""

    status: tuple[int | str, ...]
    """Nothing stands for every answer."""
    test: AnswerTest
    action: ActionName
    kind: Literal["user", "external"] = "user"
    message: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerDecision:
    """What to do with an answer. `wait` is in milliseconds, for those after which the same is asked again."""

    action: ActionName
    wait: int = 0
    kind: Literal["user", "external"] = "user"
    why: str = ""


def actions_of(value: Any) -> tuple[StatusRule, ...]:
    """Read the option `on_status`.

    Raises:
        ValueError: says what was expected.
    """
    if not isinstance(value, (list, tuple)):
        msg = "a list of rules"
        raise ValueError(msg)  # noqa: TRY004
    return tuple(_rule_of(each, number) for number, each in enumerate(value, 1))


def _rule_of(value: Any, number: int) -> StatusRule:
    what = f"rule {number}"
    fields = nested(FIELDS, value, what=what)
    given = fields["status"]
    status = tuple(given) if isinstance(given, list) else (given,)
    for each in status:
        if not (isinstance(each, int) and 100 <= each <= 599) and each not in (*_CLASSES, "connection"):
            msg = f"{what} whose 'status' is a number from 100 to 599, {', '.join(_CLASSES)} or connection"
            raise ValueError(msg)
    test = predicates.test_of(fields, what=what)
    if not status and test == AnswerTest():
        msg = f"{what} with a 'status' or a predicate"
        raise ValueError(msg)
    if "connection" in status and fields["action"] == "success":
        msg = f"{what} whose 'action' is another than 'success' where no answer came"
        raise ValueError(msg)
    return StatusRule(status, test, fields["action"], fields["kind"], fields["message"])


def decided(
    rules: Sequence[StatusRule],
    rates: RateRules,
    answer: HttpAnswer | None,
    *,
    attempt: int,
    refreshed: bool,
    now: int,
    limited: int = 0,
) -> AnswerDecision:
    """What to do.

    Args:
        rules: those of the option, tried before what is usual.
        rates: how long to wait, and how often to ask.
        answer: what came; `None` when nothing did.
        attempt: how often this was asked, counted from 1; waits that the server asked for do not count.
        refreshed: whether this answer is one to new credentials.
        now: milliseconds since 1970.
        limited: how often the server has said before that it was asked too fast: it is asked ever more seldom.
    """
    rule = _fitting(rules, answer)
    action = _usual(answer) if rule is None else rule.action
    why = _reason(answer, rule)
    match action:
        case "refresh_token" if not refreshed:
            return AnswerDecision("refresh_token", why=why)
        case "refresh_token":
            return AnswerDecision("fail", why=f"{why}, with new credentials too")
        case "rate_limited":
            wait = asked_wait(rates, {} if answer is None else answer.headers, now)
            return AnswerDecision(
                "rate_limited", backoff(rates, attempt + limited) if wait is None else max(wait, _SHORTEST), why=why
            )
        case "retry" if attempt < rates.attempts:
            wait = asked_wait(rates, {} if answer is None else answer.headers, now)
            return AnswerDecision("retry", backoff(rates, attempt) if wait is None else wait, why=why)
        case "retry":
            return AnswerDecision("fail", kind="external", why=f"{why}, {attempt} times")
        case _:
            return AnswerDecision(action, kind="user" if rule is None else rule.kind, why=why)


def _fitting(rules: Sequence[StatusRule], answer: HttpAnswer | None) -> StatusRule | None:
    document: Any = None
    is_read = False
    for rule in rules:
        if rule.status and not any(_is_status(each, answer) for each in rule.status):
            continue
        if answer is None:
            if "connection" in rule.status:
                return rule
            continue
        if rule.test.path is not None and not is_read:
            document, is_read = json_of(answer), True
        if holds(rule.test, answer.headers, document):
            return rule
    return None


def _is_status(wanted: int | str, answer: HttpAnswer | None) -> bool:
    if answer is None:
        return wanted == "connection"
    return wanted in (answer.status, f"{answer.status // 100}xx")


def _usual(answer: HttpAnswer | None) -> ActionName:
    if answer is None or answer.status in _TRANSIENT or answer.status >= 500:
        return "retry"
    if 200 <= answer.status < 300:
        return "success"
    return {401: "refresh_token", 429: "rate_limited"}.get(answer.status, "fail")  # type: ignore[return-value]


def _reason(answer: HttpAnswer | None, rule: StatusRule | None) -> str:
    said = "no answer came" if answer is None else f"the server answered {answer.status}"
    return said if rule is None or rule.message is None else f"{rule.message} ({said})"


def needs_window(rules: Sequence[StatusRule]) -> bool:
    """Whether a rule starts a slice again behind the last value."""
    return any(rule.action == "split" for rule in rules)
