"""What may be asked of an answer: a path or header, and what must be found there. For stop rules and actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from millstream.connectors.http.nested import Fields, filled_text
from millstream.connectors.http.paging.paths import MISSING, Steps, found_at, optional_steps
from millstream.model.connector import Option

_TEXT = (str, type(None))
_ANY = (str, int, float, bool, list, type(None))
_NOT_GIVEN = object()

FIELDS: Fields = {
    "path": Option(kind=_TEXT, default=None, doc="a path in the answer", check=optional_steps),
    "header": Option(kind=_TEXT, default=None, doc="a header of the answer", check=filled_text),
    "equals": Option(kind=_ANY, default=_NOT_GIVEN, doc="the value that must stand there, or a list of such values"),
    "contains": Option(
        kind=_TEXT, default=None, doc="text that must be part of what stands there, in any case of letters"
    ),
    "exists": Option(kind=(bool, type(None)), default=None, doc="whether something must stand there"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerTest:
    """One question about an answer; without a path or header it is always true."""

    path: Steps | None = None
    header: str | None = None
    equals: Any = _NOT_GIVEN
    contains: str | None = None
    exists: bool | None = None


def test_of(fields: Mapping[str, Any], *, what: str) -> AnswerTest:
    """The question that the checked fields of a rule ask.

    Raises:
        ValueError: they ask none, or two.
    """
    asked = [name for name in ("equals", "contains", "exists") if fields[name] not in (None, _NOT_GIVEN)]
    has_place = fields["path"] is not None or fields["header"] is not None
    if len(asked) > 1 or (asked and not has_place) or (fields["path"] is not None and fields["header"] is not None):
        msg = f"{what} with a 'path' or a 'header', and one of 'equals', 'contains' and 'exists'"
        raise ValueError(msg)
    exists = True if has_place and not asked and fields["equals"] is _NOT_GIVEN else fields["exists"]
    return AnswerTest(fields["path"], fields["header"], fields["equals"], fields["contains"], exists)


def holds(test: AnswerTest, headers: Mapping[str, str], document: Any) -> bool:
    """Whether an answer is as the question has it."""
    if test.path is None and test.header is None:
        return True
    if test.path is not None:
        found = found_at(document, test.path)
    else:
        assert test.header is not None
        found = headers.get(test.header.lower(), MISSING)
    if test.exists is not None:
        return (found is not MISSING and found is not None) == test.exists
    if test.contains is not None:
        return isinstance(found, str) and test.contains.lower() in found.lower()
    wanted = test.equals if isinstance(test.equals, list) else [test.equals]
    return any(_is_same(found, each) for each in wanted)


def _is_same(found: Any, wanted: Any) -> bool:
    """JSON knows true from 1; headers hold text, whatever was meant."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted or (isinstance(found, str) and found.lower() == str(wanted).lower())
    return bool(found == wanted) or (isinstance(found, str) and found == str(wanted))
