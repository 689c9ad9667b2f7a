"""What a server has answered and goes into the next request: it is never read as the name of a secret of this machine.

Secrets are filled in where a request is sent, whatever put their names there. So a request may name those that the options name,
and as often as they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from millstream.connectors.http.paging.page_request import PageRequest, request_texts
from millstream.errors import StepFailed
from millstream.redaction import REFERENCE


def refuse_named(value: Any) -> None:
    """Refuse a value of an answer that names a secret.

    Raises:
        StepFailed: (HTTP-032) it does.
    """
    if isinstance(value, str) and REFERENCE.search(value):
        raise _named(REFERENCE.findall(value)[0])


def refuse_more_named(written: PageRequest, values: Mapping[str, Any], sliced: PageRequest, built: PageRequest) -> None:
    """Refuse a request that names secrets which the options do not.

    Args:
        written: as the options describe it.
        values: of its slice, which may name some where the options list them.
        sliced: with these values.
        built: with everything that answers have brought.

    Raises:
        StepFailed: (HTTP-032) it does.
    """
    named = _names(built)
    if not named:
        return  # as most requests; each page has one
    of_slice = _names(sliced)
    listed = {name for value in values.values() for name in REFERENCE.findall(str(value))}
    more = named - of_slice
    joined = of_slice.keys() - _names(written).keys() - listed
    for name in (*more, *joined):
        raise _named(name)


def _names(request: PageRequest) -> Counter[str]:
    return Counter(name for text in request_texts(request) for name in REFERENCE.findall(text))


def _named(name: str) -> StepFailed:
    msg = "an answer of the server names a secret of this machine where the next request would send it"
    hint = "do not ask this server again before it is known why; secrets stand in the options alone"
    return StepFailed(msg, code="HTTP-032", found=f"${{secret:{name}}}", hint=hint)
