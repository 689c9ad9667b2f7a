"""Secrets by name: `${secret:NAME}` is what plans hold, and its value is looked up where a connection is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from millstream.errors import InvalidStep
from millstream.redaction import REFERENCE

FOLDER = "MILLSTREAM_SECRETS"
"""The variable that names a folder with a file for each secret."""


def with_secrets(text: str, *, step: str | None = None) -> str:
    """A text with the values of the secrets it names."""
    return _replaced(text, lambda name: secret(name, step=step))


def url_with_secrets(url: str) -> str:
    """A url with the values of the secrets it names, written as urls are."""
    return _replaced(url, lambda name: quote(secret(name), safe=""))


def secret(name: str, *, step: str | None = None) -> str:
    """The value of a secret: of the environment variable of that name, else of the file of that name.

    Raises:
        InvalidStep: (RUN-022) this process knows no such secret.
    """
    value = os.environ.get(name)
    if value is not None:
        return value
    folder = os.environ.get(FOLDER)
    path = None if folder is None else Path(folder) / name
    if path is not None and path.is_file():
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    msg = f"the secret {name!r} is not known here"
    hint = f"export {name}, or put it into a file {name!r} in the folder that {FOLDER} names, on the workers too"
    raise InvalidStep(msg, code="RUN-022", step=step, hint=hint)


def _replaced(text: str, value: Callable[[str], str]) -> str:
    return REFERENCE.sub(lambda reference: value(reference[1]), text)
