"""A schema registry: which schema bears which number. Asked once for each, and remembered as long as the process lives.

Both never change: a number stands for one schema for ever, so what is remembered stays true.
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from millstream.database.retry import repeated
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError
from millstream.model.secret import url_with_secrets
from millstream.redaction import shown_url

_SECONDS = 10.0
"""How long one answer may take."""
_PATIENCE = 3.0
"""Seconds in which a registry that is away is asked again."""
_LARGEST = 16 << 20
_CONTENT = "application/vnd.schemaregistry.v1+json"
_UNKNOWN = {40401, 40402, 40403}
"""What a registry says where a path that it does not have is answered 404 too."""


class UnknownSchema(LookupError):
    """The registry has no schema of that number, or not that schema under that name."""


class UnreadableSchema(Exception):
    """The registry has a schema of that number that messages of Avro alone cannot be read by."""


@functools.cache
def registry_at(url: str) -> SchemaRegistry:
    """The registry of a url, one in each process."""
    return SchemaRegistry(url)


class SchemaRegistry:
    """Asks one registry. Its url may name secrets, which are looked up for each request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._schemas: dict[int, str] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def schema(self, number: int) -> str:
        """The Avro schema of a number.

        Raises:
            UnknownSchema: there is none.
            UnreadableSchema: it is no Avro schema, or none that stands alone.
        """
        if number not in self._schemas:
            found = self._asked(f"/schemas/ids/{number}", "schema")
            if (kind := found.get("schemaType", "AVRO")) != "AVRO" or found.get("references"):
                what = "one that refers to others" if kind == "AVRO" else f"of type {kind}"
                msg = f"schema {number} of the registry is {what}, which is not read"
                raise UnreadableSchema(msg)
            self._schemas[number] = found["schema"]
        return self._schemas[number]

    def number(self, subject: str, schema: str, *, registers: bool) -> int:
        """The number of a schema under a subject; registered when it is not there, or else unknown."""
        if (subject, schema) not in self._numbers:
            path = f"/subjects/{quote(subject, safe='')}{'/versions' if registers else ''}"
            self._numbers[subject, schema] = int(self._asked(path, "id", {"schema": schema})["id"])
        return self._numbers[subject, schema]

    def _asked(self, path: str, wanted: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        try:
            answer = repeated(lambda: _answer(self._url, path, body), passes=_may_pass, patience=_PATIENCE)
        except MillstreamError:
            raise
        except urllib.error.HTTPError as problem:
            raise self._refusal(problem, path) from None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise self._away(path, str(problem)) from None
        if not isinstance(answer, dict) or wanted not in answer:
            raise self._away(path, f"an answer without {wanted!r}")
        return answer

    def _refusal(self, problem: urllib.error.HTTPError, path: str) -> Exception:
        with problem:
            said = _json_or_nothing(problem.read(_LARGEST))
        if problem.code == 404 and said.get("error_code") in _UNKNOWN:
            return UnknownSchema(f"the schema registry does not know {path}: {said.get('message', '')}")
        if problem.code in {409, 422}:
            msg = "the schema registry refuses the schema"
            hint = "change the columns so that they fit the schemas before, or the rule of the subject in the registry"
            return InvalidStep(msg, code="FORMAT-011", found=said.get("message", problem.reason), hint=hint)
        return self._away(path, f"{problem.code} {said.get('message', problem.reason)}")

    def _away(self, path: str, why: str) -> ExternalFailure:
        msg = f"the schema registry at {shown_url(self._url)} did not answer {path}"
        hint = "check registry=, its user and password, and that it can be reached from the workers"
        return ExternalFailure(msg, code="FORMAT-010", found=why, hint=hint)


def _may_pass(problem: Exception) -> bool:
    if isinstance(problem, urllib.error.HTTPError):
        return problem.code >= 500 or problem.code == 429
    return isinstance(problem, (OSError, http.client.HTTPException))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it would take the password elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _answer(url: str, path: str, body: dict[str, str] | None) -> Any:
    opener = urllib.request.build_opener(_NoRedirect)
    with opener.open(_request(url_with_secrets(url), path, body), timeout=_SECONDS) as response:
        return json.loads(response.read(_LARGEST))


def _request(url: str, path: str, body: dict[str, str] | None) -> urllib.request.Request:
    parts = urlsplit(url)
    place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + path, "", ""))
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(place, data, {"Accept": _CONTENT, "Content-Type": _CONTENT})
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode("ascii"))
    return request


def _json_or_nothing(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
