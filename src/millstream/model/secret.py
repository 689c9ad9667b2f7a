"""Secrets by name: `${secret:NAME}` is what plans hold, and its value is looked up where a connection is opened.

A process that was handed secrets keeps them in its memory alone, and hands them on inside what it ships to its workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from millstream.errors import InvalidStep
from millstream.redaction import REFERENCE

FOLDER = "MILLSTREAM_SECRETS"
"""The variable that names a folder with a file for each secret."""

VARIABLE_OPTION = "password_env"
"""The option of connectors that names a password by its variable alone."""

_held: dict[str, str] = {}
"""What this process was handed; it comes before the environment and the folder."""


def hold_secrets(values: Mapping[str, str]) -> None:
    """Keep secrets in the memory of this process, once: the same ones again change nothing.

    Raises:
        InvalidStep: (RUN-029) others are held already: a run never sees those of another.
    """
    if _held and _held != dict(values):
        msg = "this process holds other secrets already"
        found = ", ".join(sorted({*values} ^ {*_held})) or "other values of the same names"
        raise InvalidStep(msg, code="RUN-029", found=found, hint="start another process for another run")
    _held.update(values)


def held_secrets() -> dict[str, str]:
    """What this process was handed."""
    return dict(_held)


def with_secrets(text: str, *, step: str | None = None) -> str:
    """A text with the values of the secrets it names."""
    return _replaced(text, lambda name: secret(name, step=step))


def url_with_secrets(url: str) -> str:
    """A url with the values of the secrets it names, written as urls are."""
    return _replaced(url, lambda name: quote(secret(name), safe=""))


def secret(name: str, *, step: str | None = None) -> str:
    """The value of a secret: what this process was handed under that name, the environment variable, or the file.

    Raises:
        InvalidStep: (RUN-022) this process knows no such secret.
    """
    value = variable(name)
    if value is not None:
        return value
    folder = os.environ.get(FOLDER)
    path = None if folder is None else Path(folder) / name
    if path is not None and path.is_file():
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    msg = f"the secret {name!r} is not known here"
    hint = f"export {name}, or put it into a file {name!r} in the folder that {FOLDER} names, on the workers too"
    raise InvalidStep(msg, code="RUN-022", step=step, hint=hint)


def variable(name: str) -> str | None:
    """What stands for an environment variable: a secret of that name that this process was handed, else the variable."""
    return _held.get(name, os.environ.get(name))


def mentioned(document: Any) -> set[str]:
    """The names of the secrets in a job: in its document, or in the JSON form of its compiled plan if it is a program."""
    return {name for key, text in _texts(document) for name in _names(key, text)}


def _names(key: str, text: str) -> list[str]:
    # The option names a variable, and what a process was handed under its name comes before the environment's.
    return [text] if key == VARIABLE_OPTION else REFERENCE.findall(text)


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a JSON value with its name, without recursion: documents come from outside and may be deep."""
    waiting = [("", value)]
    while waiting:
        key, each = waiting.pop()
        if isinstance(each, str):
            yield key, each
        elif isinstance(each, dict):
            waiting += [("", name) for name in each]
            waiting += each.items()
        elif isinstance(each, (list, tuple)):
            waiting += [("", inner) for inner in each]


def _replaced(text: str, value: Callable[[str], str]) -> str:
    return REFERENCE.sub(lambda reference: value(reference[1]), text)
