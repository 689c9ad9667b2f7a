"""When a slice has no further page. Rules only end: none revives what another has ended, or what has no next token."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from millstream.connectors.http.nested import Fields, above_zero, filled_text, nested
from millstream.connectors.http.paging import predicates
from millstream.connectors.http.paging.pages import FetchedPage
from millstream.connectors.http.paging.paginators import Paginator
from millstream.connectors.http.paging.paths import MISSING, Steps, found_at, optional_steps
from millstream.connectors.http.paging.predicates import AnswerTest, holds
from millstream.errors import StepFailed
from millstream.model.connector import Option

_TEXT = (str, type(None))
_NUMBER = (int, type(None))
_MAPPING = (dict, type(None))
_COUNTED = ("page", "offset")
_WORDS = {"true": True, "false": False}
MAX_PAGES = 100_000

FIELDS: Fields = {
    "total": Option(
        kind=_MAPPING, default=None, doc="where the answer says how many there are: `path` or `header`, `of`"
    ),
    "max_page": Option(kind=_NUMBER, default=None, doc="the last page number to ask for"),
    "max_offset": Option(kind=_NUMBER, default=None, doc="offsets from here on are not asked for"),
    "empty": Option(
        kind=(bool, type(None)),
        default=None,
        doc="a page without records is the last; so by default for page, offset, keyset",
    ),
    "short": Option(
        kind=(bool,), default=False, doc="a page with fewer records than the paginator's `size` is the last"
    ),
    "has_more": Option(kind=_MAPPING, default=None, doc="where the answer says whether more follow: `path`, `missing`"),
    "when": Option(kind=_MAPPING, default=None, doc="what an answer says when it is the last: a predicate"),
    "max_records": Option(
        kind=_NUMBER, default=None, doc="the page that reaches so many records is the last", check=above_zero
    ),
    "max_pages": Option(kind=(int,), default=MAX_PAGES, doc="no slice has more pages", check=above_zero),
    "on_max_pages": Option(kind=(str,), default="error", choices=("error", "end"), doc="what more pages are"),
    "on_repeat": Option(
        kind=(str,), default="error", choices=("error", "end"), doc="what a token or a page that came before is"
    ),
}
TOTAL: Fields = {
    "path": Option(kind=_TEXT, default=None, doc="where the number stands in the answer", check=optional_steps),
    "header": Option(kind=_TEXT, default=None, doc="the header that holds the number", check=filled_text),
    "of": Option(kind=(str,), default="records", choices=("records", "pages"), doc="what is counted"),
}
HAS_MORE: Fields = {
    "path": Option(kind=(str,), doc="where true or false stands in the answer", check=optional_steps),
    "missing": Option(kind=(str,), default="error", choices=("error", "end"), doc="what an answer without it is"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class StatedTotal:
    """Where an API says how many there are."""

    path: Steps | None
    header: str | None
    of: Literal["records", "pages"]


@dataclasses.dataclass(frozen=True, slots=True)
class StopRules:
    """All rules; those that are not given never end anything."""

    total: StatedTotal | None = None
    max_page: int | None = None
    max_offset: int | None = None
    empty: bool = False
    short: bool = False
    has_more: Steps | None = None
    missing_ends: bool = False
    when: AnswerTest | None = None
    max_records: int | None = None
    max_pages: int = MAX_PAGES
    max_pages_ends: bool = False
    repeat_ends: bool = False


def stops_of(value: Any, paginator: Paginator) -> StopRules:
    """Read the option `stop`.

    Raises:
        ValueError: says what was expected.
    """
    fields = nested(FIELDS, value, what="stop")
    more = None if fields["has_more"] is None else nested(HAS_MORE, fields["has_more"], what="'has_more' of stop")
    empty = fields["empty"]
    rules = StopRules(
        total=_total_of(fields["total"]),
        max_page=fields["max_page"],
        max_offset=fields["max_offset"],
        empty=paginator.kind in (*_COUNTED, "keyset") if empty is None else empty,
        short=fields["short"],
        has_more=None if more is None else more["path"],
        missing_ends=more is not None and more["missing"] == "end",
        when=_test_of(fields["when"]),
        max_records=fields["max_records"],
        max_pages=fields["max_pages"],
        max_pages_ends=fields["on_max_pages"] == "end",
        repeat_ends=fields["on_repeat"] == "end",
    )
    _check(rules, paginator)
    return rules


def _total_of(value: Any) -> StatedTotal | None:
    if value is None:
        return None
    fields = nested(TOTAL, value, what="'total' of stop")
    if (fields["path"] is None) == (fields["header"] is None):
        msg = "'total' of stop with either 'path' or 'header'"
        raise ValueError(msg)
    return StatedTotal(**fields)


def _test_of(value: Any) -> AnswerTest | None:
    if value is None:
        return None
    test = predicates.test_of(nested(predicates.FIELDS, value, what="'when' of stop"), what="'when' of stop")
    if test == AnswerTest():
        msg = "'when' of stop with a 'path' or a 'header'"
        raise ValueError(msg)
    return test


def _check(rules: StopRules, paginator: Paginator) -> None:
    if rules.short and paginator.size is None:
        msg = "stop whose 'short' comes with a paginator that has a 'size'"
        raise ValueError(msg)
    if rules.max_page is not None and paginator.kind != "page":
        msg = "stop whose 'max_page' comes with paginator 'page'"
        raise ValueError(msg)
    if rules.max_offset is not None and paginator.kind != "offset":
        msg = "stop whose 'max_offset' comes with paginator 'offset'"
        raise ValueError(msg)
    ends = (rules.total, rules.max_page, rules.max_offset, rules.has_more, rules.when, rules.max_records)
    if paginator.kind in _COUNTED and not (rules.empty or rules.short or any(rule is not None for rule in ends)):
        msg = f"stop with a rule that ends: paginator {paginator.kind!r} always has a next page"
        raise ValueError(msg)


def ending(
    rules: StopRules, paginator: Paginator, page: FetchedPage, token: Any, *, since: tuple[int, int], records: int
) -> str | None:
    """Why this page is the last, or `None`.

    Args:
        rules: those of the source.
        paginator: how its pages are numbered.
        page: the page that came.
        token: what the next one would be called.
        since: pages and records, with this page, since the slice started or started again in its window: a total is of these.
        records: all records of the slice, with those of this page.
    """
    if token is None:
        return "no next token"
    count = len(page.records)
    if rules.empty and not count:
        return "an empty page"
    if rules.short and paginator.size is not None and count < paginator.size:
        return "a short page"
    if (rules.max_page is not None and token > rules.max_page) or (
        rules.max_offset is not None and token >= rules.max_offset
    ):
        return "the last number to ask for"
    if rules.max_records is not None and records >= rules.max_records:
        return "enough records"
    if rules.when is not None and holds(rules.when, page.headers, page.document):
        return "what the answer says"
    if rules.total is not None and _is_reached(rules.total, paginator, page, token, since):
        return "the total"
    return "no more" if rules.has_more is not None and not _has_more(rules, page) else None


def _is_reached(
    total: StatedTotal, paginator: Paginator, page: FetchedPage, token: Any, since: tuple[int, int]
) -> bool:
    stated, (pages, records) = _stated(total, page), since
    if total.of == "pages":
        return pages >= stated
    if paginator.kind == "offset":
        return bool(token - paginator.start >= stated)
    # An API may give fewer records than a page is asked for, so only what came is counted. Some of a total may never come,
    # such as what was deleted: an empty page behind all that was asked for is the end as well.
    is_behind = paginator.kind == "page" and not page.records and pages * (paginator.size or 0) >= stated
    return records >= stated or is_behind


def _stated(total: StatedTotal, page: FetchedPage) -> int:
    if total.path is not None:
        found = found_at(page.document, total.path)
    else:
        assert total.header is not None
        found = page.headers.get(total.header.lower(), MISSING)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    if isinstance(found, str) and found.strip().isdecimal():
        return int(found)
    raise _lacks(found, rule="'total' of stop=", known="a whole number, not below zero")


def _has_more(rules: StopRules, page: FetchedPage) -> bool:
    assert rules.has_more is not None
    found = found_at(page.document, rules.has_more)
    if found is MISSING and rules.missing_ends:
        return False
    word = _WORDS.get(found.strip().lower(), found) if isinstance(found, str) else found
    if isinstance(word, bool):
        return word
    raise _lacks(found, rule="'has_more' of stop=", known="true or false")


def _lacks(found: Any, *, rule: str, known: str) -> StepFailed:
    msg = f"the answer has no such value as {rule} looks for"
    hint = "correct the path, or leave the rule out"
    return StepFailed(msg, code="HTTP-022", found=repr(found)[:200], known=known, hint=hint)
