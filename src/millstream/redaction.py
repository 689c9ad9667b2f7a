"""Passwords stay out of what people read: urls and settings as they may be shown. Needs nothing else of the package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

HIDDEN = "***"
REFERENCE = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
"""A secret by name, looked up where a connection is opened; it may be shown and stored."""
_LOGIN = re.compile(r"(?<=://)(?P<user>[^/@:\s]*):(?P<secret>.*)@(?P<rest>[^\s&'\";,]*)", re.DOTALL)
_LOGIN_IN_TEXT = re.compile(r"(?<=://)(?P<user>[^/@:\s]*):(?P<secret>\S*)@(?P<rest>[^\s&'\";,]*)")
_MISTYPED = re.compile(r"^(?P<user>[^@:\s]*):(?P<secret>.*)@(?P<rest>.*)$", re.DOTALL)
"""A url without `://`, as a slip of the hand makes it: all that may be a password is one."""
_MISTYPED_IN_TEXT = re.compile(r"(?P<user>\b[\w.+-]+):(?P<secret>/?[^\s@'\",;{}\[\]/]+)@(?P<rest>[\w.-][^\s&'\";,]*)")
_PARAMETER = re.compile(
    r"(?P<name>\b[\w.-]*(?:passw(?:or)?d|pwd|secret[._-]?access[._-]?key)=)(?P<secret>[^\s&'\";,]+)", re.IGNORECASE
)
_SECRET_SETTING = re.compile(r"secret|passw(or)?d|token|(access|account|api)[._-]?key|credential", re.IGNORECASE)

_SECRET_PAIR = re.compile(
    r"auth|bearer|cookie|credential|jwt|key|passphrase|passw(or)?d|pwd|secret|session|sig(nature)?$|token",
    re.IGNORECASE,
)
_WRITTEN = re.compile(r"(\$\{secret:\w+\})|(?:(?!\$\{secret:\w+\}).)+", re.DOTALL)
"""A secret by name, or what stands beside it."""
_NAMED = re.compile(r"((Bearer|Basic|Token) )?\$\{\w+:\w+\}")
"""All of a value is named, apart from the word that says of which kind it is."""


class SecretUrl(str):
    """A url whose `repr` hides the password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self.shown)

    @property
    def shown(self) -> str:
        """The url as people may see it."""
        return shown_url(self)

    @property
    def is_literal(self) -> bool:
        """Whether it holds a password itself."""
        return self.shown != self


class SecretText(str):
    """A value whose `repr` hides all of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(HIDDEN)


def shown_url(url: str) -> str:
    """One url without its password, whatever characters that has."""
    login = _LOGIN if "://" in url else _MISTYPED
    return _PARAMETER.sub(_hidden_parameter, login.sub(_hidden_login, str(url)))


def redacted(text: str) -> str:
    """Text without the passwords of the urls and connection strings in it."""
    lowered = text.lower()
    if not any(sign in lowered for sign in ("://", "@", "passw", "pwd", "secret")):
        return text
    shown = _MISTYPED_IN_TEXT.sub(_hidden_login, _LOGIN_IN_TEXT.sub(_hidden_login, text))
    return _PARAMETER.sub(_hidden_parameter, shown)


def shown_setting(key: str, value: str) -> str:
    """The value of a setting as people may see it: one that is named like a secret is hidden."""
    is_hidden = _SECRET_SETTING.search(key) is not None and REFERENCE.fullmatch(value) is None
    return HIDDEN if is_hidden else shown_url(value)


def shown_pairs(values: object, name: str = "") -> object:
    """What goes along with a request, such as headers, as people may see it: hidden where it may be a secret by its name."""
    if isinstance(values, Mapping):
        return {each: shown_pairs(value, str(each)) for each, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [shown_pairs(value, name) for value in values]
    if not isinstance(values, str) or _SECRET_PAIR.search(name) is None or _NAMED.fullmatch(values):
        return values
    return _WRITTEN.sub(lambda found: found[1] or HIDDEN, values)


def shown_words(words: Sequence[str]) -> Iterator[str]:
    """The words of a command as people may see them."""
    before = ""
    for word in words:
        key, equals, value = word.partition("=")
        if equals and (before == "-D" or word.startswith("-D")):
            yield f"{key}={shown_setting(key, value)}"
        else:
            yield shown_url(word)
        before = word


def _hidden_login(found: re.Match[str]) -> str:
    # The `@` may stand in a password that comes as a parameter: what follows it is the end of that password then.
    *_, last = [None, *_PARAMETER.finditer(found["secret"])]
    if last is not None and last.end() == len(found["secret"]):
        return f"{found['user']}:{HIDDEN}"
    return f"{found['user']}:{_unless_named(found['secret'])}@{found['rest']}"


def _hidden_parameter(found: re.Match[str]) -> str:
    return f"{found['name']}{_unless_named(found['secret'])}"


def _unless_named(secret: str) -> str:
    return secret if REFERENCE.fullmatch(secret) else HIDDEN
