"""Which service a command speaks to: named contexts in a file of the user's, or two variables of the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.api.jobfile.target import BadTarget

if TYPE_CHECKING:
    from millstream.client import Client

URL, TOKEN, CONTEXT = "MILLSTREAM_URL", "MILLSTREAM_TOKEN", "MILLSTREAM_CONTEXT"
_DEFAULT = "local"


class ServiceContext(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How one service is reached."""

    url: str
    token: str = ""
    token_file: str = ""
    ca_file: str | None = None
    plain_http: bool = False

    def __repr__(self) -> str:
        return f"ServiceContext({self.url})"


class ContextFile(msgspec.Struct, kw_only=True):
    """The file as a whole."""

    current: str = _DEFAULT
    contexts: dict[str, ServiceContext] = {}


def contexts_path() -> Path:
    """Where contexts are kept."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "millstream" / "contexts.json"


def read_contexts() -> ContextFile:
    """The contexts that there are; none, where there is no file."""
    path = contexts_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=ContextFile)
    except FileNotFoundError:
        return ContextFile()
    except msgspec.DecodeError as problem:
        msg = "the file of contexts cannot be read"
        raise BadTarget(msg, code="CLI-010", found=f"{path}: {problem}", hint="mend it, or remove it") from None


def write_contexts(contexts: ContextFile) -> None:
    """Put the file in the place of the one before; it may hold tokens, so it is the user's alone."""
    path = contexts_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    content = json.dumps(msgspec.to_builtins(contexts), indent=1) + "\n"
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content)
    made.replace(path)


def connect(name: str | None, *, patience: float | None = None) -> Client:
    """A client of the service that is meant: by `--context`, the environment, or the current context.

    With `patience` it is asked once, and for so many seconds.
    """
    service = _client_class()
    url = os.environ.get(URL)
    if name is None and url:
        return service(url, os.environ.get(TOKEN, ""), **_patient(patience))
    known = read_contexts()
    wanted = name or os.environ.get(CONTEXT) or known.current
    context = known.contexts.get(wanted)
    if context is None:
        msg = "it is not known which service is meant"
        hint = (
            f"start one: millstream server start; or name one: millstream context add NAME --url URL; or export {URL}"
        )
        raise BadTarget(msg, code="CLI-011", found=f"context {wanted!r}", known=known.contexts or "none", hint=hint)
    options = {"ca_file": context.ca_file, "plain_http": context.plain_http, **_patient(patience)}
    return service(context.url, _token(context, wanted), **options)


def _patient(seconds: float | None) -> dict[str, Any]:
    return {} if seconds is None else {"timeout": seconds, "tries": 1}


def _client_class() -> type[Client]:
    """Commands that need no service start without it."""
    try:
        from millstream.client import Client
    except ImportError as problem:
        msg = "what speaks to a service is not installed"
        hint = "pip install 'millstream[server]'"
        raise BadTarget(msg, code="CLI-018", found=str(problem), hint=hint) from None
    return Client


def _token(context: ServiceContext, name: str) -> str:
    if context.token:
        return context.token
    try:
        return Path(context.token_file).read_text(encoding="utf-8").strip()
    except OSError as problem:
        msg = f"the token of context {name!r} cannot be read"
        raise BadTarget(
            msg, code="CLI-012", found=str(problem), hint="add the context again with --token-file"
        ) from None
