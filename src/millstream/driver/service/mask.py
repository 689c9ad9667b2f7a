"""Secrets stay out of logs and reports: wherever a value of one would be written, stars are."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from millstream.redaction import HIDDEN

_SHORTEST = 3
"""What is shorter stands in every other word: hiding it would tell what it is."""


class Mask:
    """Replaces values in bytes. Values are learned once, before anything that knows them runs."""

    def __init__(self) -> None:
        self._forms: list[bytes] = []

    def learn(self, values: Iterable[str]) -> None:
        """Hide these values from now on, in every form in which they are likely to be written."""
        forms = {form for value in values for form in _forms(value) if len(form) >= _SHORTEST}
        # The longest first: one may contain another.
        self._forms = sorted((form.encode("utf-8", "surrogatepass") for form in forms), key=len, reverse=True)

    def hidden(self, content: bytes) -> bytes:
        """The content without secrets."""
        for form in self._forms:
            if form in content:
                content = content.replace(form, HIDDEN.encode())
        return content


def _forms(value: str) -> Iterator[str]:
    """A value as text, in urls, in JSON, in Python's `repr` and in headers; logs have lines, so each line of it too."""
    for text in {value, *value.splitlines()}:
        yield text
        yield quote(text, safe="")
        yield quote_plus(text)
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield base64.b64encode(text.encode()).decode()
