"""Secrets in options: by name only. A secret that stands there as text would stand in plans, job files and checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from millstream.connectors.http.paging.page_request import looks_secret
from millstream.model.connector import Option
from millstream.redaction import REFERENCE

Lookup = Callable[[str], str]
"""The value of a secret by its name."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def named(value: str | None) -> str | None:
    """Text that names a secret, or none."""
    if value is not None and not REFERENCE.search(value):
        msg = "the name of a secret, ${secret:NAME}, and not the secret itself"
        raise ValueError(msg)
    return value


def variable(value: str | None) -> str | None:
    """The name of an environment variable, or none."""
    if value is not None and not _VARIABLE.fullmatch(value):
        msg = "the name of an environment variable"
        raise ValueError(msg)
    return value


def secret_fields(name: str, doc: str) -> dict[str, Option]:
    """The two ways to name one secret: `name` as `${secret:NAME}`, and `name_env` as the variable that holds it."""
    text = (str, type(None))
    return {
        name: Option(kind=text, default=None, doc=f"{doc}, as `${{secret:NAME}}`", check=named),
        f"{name}_env": Option(kind=text, default=None, doc=f"the variable that holds {doc}", check=variable),
    }


def chosen(fields: Mapping[str, Any], name: str, *, what: str, is_needed: bool = True) -> str | None:
    """The reference to a secret that was named in one of the two ways.

    Raises:
        ValueError: it was named in both, or in none although it is needed.
    """
    given = [fields[name], None if fields[f"{name}_env"] is None else f"${{secret:{fields[f'{name}_env']}}}"]
    references = [each for each in given if each is not None]
    if len(references) > 1 or (is_needed and not references):
        msg = f"{what} with either {name!r}, as ${{secret:NAME}}, or '{name}_env'"
        raise ValueError(msg)
    return references[0] if references else None


def without_secrets(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Parameters or headers, none of which is named like a secret and holds one as text; or none."""
    if values is None:
        return None
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):
            msg = "names with text or numbers"
            raise ValueError(msg)  # noqa: TRY004
    return dict(json_without_secrets(values))


def refuse_written(url: str) -> None:
    """Refuse an address whose query holds a secret as text.

    Raises:
        ValueError: says which parameter.
    """
    for name, value in parse_qsl(urlsplit(url).query):
        if looks_secret(name) and "${" not in value:
            msg = f"url= with {name!r} as ${{secret:NAME}} or in auth=, and not as text"
            raise ValueError(msg)


def json_without_secrets(value: Any) -> Any:
    """A JSON value in which nothing is named like a secret and holds one as text."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, str) and each and looks_secret(str(name)) and "${" not in each:
                msg = f"{name!r} as ${{secret:NAME}} or in auth=, and not as text"
                raise ValueError(msg)
            json_without_secrets(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            json_without_secrets(each)
    return value


def resolved(text: str, lookup: Lookup) -> str:
    """Text with the values of the secrets that it names."""
    return REFERENCE.sub(lambda reference: lookup(reference[1]), text)
