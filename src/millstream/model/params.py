"""Parameters of a run: declared by the job with a type, given when it starts.

`interval_start` and `interval_end` need no declaration: any run may say for which stretch of time it works.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from millstream.errors import InvalidPlan
from millstream.model.param_values import param_type, read_value, sql_literal, stored_value, text_of
from millstream.redaction import REFERENCE as SECRET

INTERVAL = ("interval_start", "interval_end")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{param:([^}]*)\}")
"""A parameter in an option of a connector."""


def _closed(escape: str, escaped: str) -> re.Pattern[str]:
    """Texts, names in quotes and comments. A comment that holds another one counts up to the end: databases differ about it."""
    quoted = (rf"{quote}(?:[^{quote}{escape}]|{quote}{quote}|{escaped})*{quote}" for quote in "'\"`")
    comments = (r"--[^\r\n]*", r"/\*(?:(?!\*/|/\*).)*\*/", r"/\*.*")
    return re.compile("|".join((*comments, *quoted, r"(?<![\w$])\$(\w*)\$.*?\$\1\$")), re.DOTALL)


_CLOSED = (_closed("", "(?!)"), _closed(r"\\", r"\\."))
"""What a literal must not stand in, for databases without and with escapes by a backslash."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter: its type by its DDL name, and its default as a JSON value unless it must be given."""

    name: str
    type: str
    default: Any = None
    is_required: bool = True

    def read(self, given: Any) -> Any:
        """A value as Python has it; one of another type is refused."""
        return read_value(self.name, self.type, given)


_OF_EVERY_RUN = tuple(Param(name=name, type="timestamp") for name in INTERVAL)


def declared_params(written: Any) -> tuple[Param, ...]:
    """Parameters as a job declares them: `{"day": "date", "limit": {"type": "int", "default": 10}}`."""
    if written is None:
        return ()
    if not isinstance(written, Mapping):
        msg = "params are declared by name"
        raise InvalidPlan(msg, code="PARAM-004", found=repr(written), hint="pass params={'day': 'date'}")
    return tuple(_declared(name, kind) for name, kind in written.items())


def written_params(params: Iterable[Param]) -> dict[str, Any]:
    """Parameters as `declared_params` reads them."""
    return {
        param.name: {"type": param.type, **({} if param.is_required else {"default": param.default})}
        for param in params
    }


def _declared(name: Any, written: Any) -> Param:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in INTERVAL:
        msg = "a parameter cannot have this name"
        known = f"letters, digits and '_', not starting with a digit; every run has {' and '.join(INTERVAL)} already"
        raise InvalidPlan(msg, code="PARAM-004", found=repr(name), known=known, hint="choose another name")
    fields = dict(written) if isinstance(written, Mapping) else {"type": written}
    if not {"type"} <= fields.keys() <= {"type", "default"}:
        msg = f"parameter {name!r} is declared in another form"
        known = "its type, or {'type': ..., 'default': ...}"
        raise InvalidPlan(msg, code="PARAM-004", found=repr(written), known=known, hint="correct it")
    param = Param(name=name, type=param_type(name, fields["type"]), is_required="default" not in fields)
    return (
        param if param.is_required else dataclasses.replace(param, default=stored_value(param.read(fields["default"])))
    )


def read_params(declared: Iterable[Param], given: Any) -> dict[str, Any]:
    """The values of a run: those given and the defaults of others; wrong, missing and unknown ones are refused."""
    own = {param.name: param for param in declared}
    known = {**own, **{param.name: param for param in _OF_EVERY_RUN}}
    if not isinstance(given, Mapping):
        msg = "params of a run are given by name"
        raise InvalidPlan(msg, code="PARAM-003", found=repr(given), hint="pass params={'day': '2024-01-31'}")
    if unknown := [name for name in given if name not in known]:
        msg = f"the job has no parameter {unknown[0]!r}"
        raise InvalidPlan(msg, code="PARAM-001", known=list(known), hint="declare it: Job(params={...})")
    if missing := [param.name for param in own.values() if param.is_required and param.name not in given]:
        msg = f"the job needs parameter {', '.join(map(repr, missing))}"
        raise InvalidPlan(msg, code="PARAM-002", hint=f"give it: -P {missing[0]}=VALUE, or params={{...}}")
    defaults = {param.name: param.read(param.default) for param in own.values() if not param.is_required}
    return _in_order({**defaults, **{name: known[name].read(value) for name, value in given.items()}})


def _in_order(values: dict[str, Any]) -> dict[str, Any]:
    if all(name in values for name in INTERVAL) and values[INTERVAL[0]] > values[INTERVAL[1]]:
        msg = "the interval of the run ends before it starts"
        raise InvalidPlan(msg, code="PARAM-003", found=shown_params(values), hint="correct interval_end")
    return values


def param_types(declared: Iterable[Param]) -> dict[str, str]:
    """The types of all parameters that may be named, those of every run included."""
    return {param.name: param.type for param in (*declared, *_OF_EVERY_RUN)}


def stored_params(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a run as a JSON value."""
    return {name: stored_value(value) for name, value in sorted(values.items())}


def shown_params(values: Mapping[str, Any]) -> str:
    """Parameters for people."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in sorted(values.items())) or "none"


def names_in(value: Any) -> list[str]:
    """The parameters that an option of a connector names, as `${param:NAME}`, however deep they stand."""
    if isinstance(value, str):
        return _REFERENCE.findall(value)
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [name for part in inside for name in names_in(part)]


def filled_query(name: str, query: str, values: Mapping[str, Any]) -> str:
    """A query with its parameters as literals, which need no quotes around them and mean nothing in a comment."""
    closed = [span for pattern in _CLOSED for span in map(re.Match.span, pattern.finditer(query))]

    def literal(reference: re.Match[str]) -> str:
        around = query[max(0, reference.start() - 1) : reference.start()] + query[reference.end() : reference.end() + 1]
        is_inside = any(first <= reference.start() < end for first, end in closed)
        if is_inside or any(quote in around for quote in "'\"`"):
            msg = f"option {name!r} has quotes around ${{param:{reference[1]}}}, which brings its own, or has it in a comment"
            hint = "leave the quotes out; join text in the query, as in LIKE concat('%', ${param:name}, '%')"
            raise InvalidPlan(msg, code="PARAM-005", found=repr(query), hint=hint)
        return sql_literal(reference[1], values[reference[1]])

    return _REFERENCE.sub(literal, query)


def filled(value: Any, values: Mapping[str, Any], kinds: tuple[type, ...]) -> Any:
    """An option with its parameters: one that is all of the option keeps its type where the option takes it."""
    if isinstance(value, str):
        text = _REFERENCE.sub(lambda reference: text_of(values[reference[1]]), value)
        _refuse_secrets(value, text)
        whole = _REFERENCE.fullmatch(value)
        return values[whole[1]] if whole is not None and isinstance(values[whole[1]], kinds) else text
    if isinstance(value, Mapping):
        return {key: filled(part, values, (bool, int, float, str)) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [filled(part, values, (bool, int, float, str)) for part in value]
    return value


def _refuse_secrets(written: str, filled_text: str) -> None:
    """Whoever starts a run chooses values, and not which secrets of the machine leave it."""
    if len(SECRET.findall(filled_text)) > len(SECRET.findall(written)):
        msg = "a parameter names a secret, which only the job itself may"
        hint = "write ${secret:NAME} into the option, or give a value without it"
        raise InvalidPlan(msg, code="PARAM-006", found=repr(filled_text), known=repr(written), hint=hint)
