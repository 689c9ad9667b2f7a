"""Passwords that are written where they ought to be named: a definition is stored and shown, so it must not hold one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from millstream.errors import InvalidStep
from millstream.redaction import REFERENCE, shown_setting, shown_url


def refuse_written(definition: Mapping[str, Any], confs: Mapping[str, str]) -> None:
    """Refuse a job that holds a password itself.

    Raises:
        InvalidStep: (CTL-316) in an address, or in a setting of Spark that is named like a secret.
    """
    places = [shown_url(text) for text in _texts(definition) if _holds_password(text)]
    places += [name for name, value in confs.items() if shown_setting(name, value) != value]
    if places:
        msg = "a password is written in the job, where everybody who may see the job would see it"
        hint = "name it: ${secret:NAME}, and set it: millstream secret set NAME"
        raise InvalidStep(msg, code="CTL-316", found=places[0][:200], known="${secret:NAME}", hint=hint)


def _holds_password(text: str) -> bool:
    scheme, mark, _ = text.partition("://")
    if not mark or any(sign.isspace() for sign in text):
        return False
    if scheme.lower() not in ("http", "https"):
        return shown_url(text) != text
    try:
        password = urlsplit(text).password
    except ValueError:
        return False
    return bool(password) and REFERENCE.fullmatch(password or "") is None


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
