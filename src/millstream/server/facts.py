"""What is known of one request, from its first byte to its audit."""

from __future__ import annotations

import dataclasses
import uuid
from typing import cast

from starlette.types import Scope

from millstream.errors import MillstreamError
from millstream.server.access.roles import Caller

_KEY = "millstream.facts"


@dataclasses.dataclass(slots=True)
class RequestFacts:
    """Filled in by the layers a request passes."""

    id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex[:16])
    caller: Caller | None = None
    body_sha256: str = ""
    refusal: MillstreamError | None = None


def open_facts(scope: Scope) -> RequestFacts:
    """Begin a request."""
    facts = RequestFacts()
    scope[_KEY] = facts
    return facts


def facts_of(scope: Scope) -> RequestFacts:
    """What is known so far."""
    return cast("RequestFacts", scope[_KEY])
