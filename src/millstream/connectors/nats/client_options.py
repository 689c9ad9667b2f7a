"""Servers, credentials and TLS of the NATS client: what may be said, and the arguments that come of it.

Passwords, tokens and seeds are named (`${secret:NAME}`), never written.
"""

from __future__ import annotations

import itertools
import re
import ssl
from collections.abc import Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.model.connector import Option, Options
from millstream.model.secret import with_secrets
from millstream.redaction import HIDDEN, REFERENCE

SECRETS = frozenset({"nkey_seed", "password", "token"})
"""Settings whose value may only be named."""
_PLAIN: dict[str, tuple[type, ...]] = {
    "ca_file": (str,),
    "cert_file": (str,),
    "connect_timeout": (int, float),
    "credentials_file": (str,),
    "domain": (str,),
    "inbox_prefix": (str,),
    "key_file": (str,),
    "name": (str,),
    "tls": (bool,),
    "tls_first": (bool,),
    "tls_hostname": (str,),
    "user": (str,),
}
_SERVER = re.compile(r"(?:(?P<scheme>nats|tls)://)?(?P<place>.*)")
_STREAM = re.compile(r"[^\s.*>/\\]{1,255}")
_SUBJECT = re.compile(r"[^\s]{1,1024}")
_CODE = "NATS-003"


def _servers(value: str | list[str]) -> list[str]:
    """Each as `nats://host:port`, or `tls://host:port` where that is asked for."""
    listed = value.split(",") if isinstance(value, str) else list(value)
    found = [_SERVER.fullmatch(text.strip()) if isinstance(text, str) else None for text in listed]
    addresses = [(each["scheme"] or "nats", each["place"]) for each in found if each is not None]
    if not found or len(addresses) < len(found) or not all(_is_address(place) for _, place in addresses):
        msg = "'host:port', or a list of several; credentials belong into client="
        raise ValueError(msg)
    return [f"{scheme}://{place}" for scheme, place in addresses]


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and not re.search(r"[/@\s]", host) and port.isdigit()


def _stream(value: str) -> str:
    if not _STREAM.fullmatch(value):
        msg = "the name of a stream, without spaces, '.', '*', '>' and '/'"
        raise ValueError(msg)
    return value


def checked_subject(value: str) -> str:
    """A subject without wildcards."""
    if not _SUBJECT.fullmatch(value) or not set(value.split(".")).isdisjoint({"", "*", ">"}):
        msg = "a subject such as 'orders.eu', without spaces and wildcards"
        raise ValueError(msg)
    return value


def checked_filter(value: str | list[str]) -> list[str]:
    """Subjects that may have wildcards."""
    listed = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(text, str) and _SUBJECT.fullmatch(text) and "" not in text.split(".") for text in listed):
        msg = "subjects such as 'orders.*' or 'orders.>'"
        raise ValueError(msg)
    if any(_overlap(*each) for each in itertools.combinations(listed, 2)):
        msg = "subjects of which none fits a message that another one fits"
        raise ValueError(msg)
    return listed


def _overlap(one: str, other: str) -> bool:
    """Whether a subject may fit both; the server takes no such filters."""
    first, second = one.split("."), other.split(".")
    for mine, its in zip(first, second, strict=False):
        if ">" in {mine, its}:
            return True
        if mine != its and "*" not in {mine, its}:
            return False
    return len(first) == len(second)


CLIENT_OPTIONS: dict[str, Option] = {
    "stream": Option(kind=(str,), doc="the name of the JetStream stream", check=_stream),
    "servers": Option(kind=(str, list, tuple), doc="host:port of one or more servers", check=_servers),
    "client": Option(kind=(dict,), default={}, doc="credentials, TLS and settings of the client", is_shown=False),
}
"""For the source and the sink."""


def check_client(options: Options, step: str) -> None:
    """Refuse settings that are not known, and passwords that are written where they ought to be named."""
    for name, value in options["client"].items():
        if name in SECRETS:
            if not (isinstance(value, str) and REFERENCE.fullmatch(value)):
                msg = f"the client setting {name!r} is a secret, which is named and not written"
                hint = f"pass {name!r}: '${{secret:NAME}}' and export NAME where the job runs"
                raise InvalidStep(msg, code=_CODE, step=step, found=HIDDEN, known="${secret:NAME}", hint=hint)
        elif name not in _PLAIN:
            msg = f"the client setting {name!r} cannot be set"
            raise InvalidStep(msg, code=_CODE, step=step, known=[*_PLAIN, *SECRETS], hint="remove it from client=")
        elif not isinstance(value, _PLAIN[name]) or (isinstance(value, bool) and bool not in _PLAIN[name]):
            msg = f"the client setting {name!r} has a value of another type"
            known = " or ".join(kind.__name__ for kind in _PLAIN[name])
            found = type(value).__name__
            raise InvalidStep(msg, code=_CODE, step=step, found=found, known=known, hint="correct it")


def connect_arguments(options: Options, *, step: str) -> dict[str, Any]:
    """Arguments of the client, with the values of secrets: for it alone, never to be shown or kept."""
    given = {
        name: with_secrets(value, step=step) if isinstance(value, str) else value
        for name, value in options["client"].items()
    }
    renamed = {
        "credentials_file": "user_credentials",
        "nkey_seed": "nkeys_seed_str",
        "tls_first": "tls_handshake_first",
    }
    passed = {"connect_timeout", "inbox_prefix", "name", "password", "tls_hostname", "token", "user", *renamed}
    arguments = {renamed.get(name, name): value for name, value in given.items() if name in passed}
    return {"servers": options["servers"], **arguments, **_tls(options["servers"], given, step)}


def _tls(servers: Sequence[str], given: dict[str, Any], step: str) -> dict[str, Any]:
    is_asked_for = given.get("tls", any(name in given for name in ("ca_file", "cert_file", "tls_first")))
    if not is_asked_for and not any(server.startswith("tls://") for server in servers):
        return {}
    try:
        context = ssl.create_default_context(cafile=given.get("ca_file"))
        if "cert_file" in given:
            context.load_cert_chain(given["cert_file"], given.get("key_file"))
    except (OSError, ssl.SSLError) as problem:
        msg = "a certificate cannot be loaded"
        hint = "correct ca_file, cert_file and key_file of client="
        raise InvalidStep(msg, code=_CODE, step=step, found=str(problem), hint=hint) from None
    return {"tls": context}
