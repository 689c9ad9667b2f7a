"""Secrets stay out of logs and reports: wherever a value of one would be written, stars are."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from millstream.redaction import HIDDEN

_SHORTEST = 3
"""What is shorter stands in every other word: hiding it would tell what it is."""
_SHORTEST_INNER = 6
_OWN_NAME = re.compile(r"[a-z_]{1,32}")
"""Names that reports give themselves."""
_WORDS = frozenset({"id", "from", "to", "state", "status", "standing", "ended"})
"""What a node goes by."""
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}")


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

    def hidden_in(self, value: Any) -> Any:
        """A plain value without secrets in its texts; words of the protocol and numbers stay what they are."""
        match value:
            case str():
                return self.hidden(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
            case dict():
                return {self._name(name): self._part(name, each) for name, each in value.items()}
            case list() | tuple():
                return [self.hidden_in(each) for each in value]
            case _:
                return value

    def _name(self, name: Any) -> Any:
        return name if not isinstance(name, str) or _OWN_NAME.fullmatch(name) else self.hidden_in(name)

    def _part(self, name: Any, value: Any) -> Any:
        is_word = name in _WORDS and isinstance(value, str) and _WORD.fullmatch(value) is not None
        return value if is_word else self.hidden_in(value)


def _forms(value: str) -> Iterator[str]:
    """A value as text, in urls, in JSON, in Python's `repr`, in headers and as hex digits; logs have lines, so each line too."""
    for text in {value, *value.splitlines()}:
        written = json.dumps(text)[1:-1]
        yield from (text, quote(text), quote(text, safe=""), quote_plus(text), repr(text)[1:-1])
        yield from (written, json.dumps(text, ensure_ascii=False)[1:-1])
        yield base64.b64encode(text.encode()).decode()
        yield from (text.encode().hex(), text.encode().hex().upper())
        for form in {text, written}:
            yield from _inside_base64(form.encode())


def _inside_base64(content: bytes) -> Iterator[str]:
    """How it looks within something longer that is written in base64, as errors of workers are on their way here."""
    for before in range(3):
        encoded = base64.b64encode(b"-" * before + content).decode().rstrip("=")
        # The letters at both ends depend on what stands beside it.
        inner = encoded[(before * 8 + 5) // 6 : (before + len(content)) * 8 // 6]
        if len(inner) >= _SHORTEST_INNER:
            yield inner
