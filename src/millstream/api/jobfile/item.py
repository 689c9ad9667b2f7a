"""One step of a job file: its kind, its value and its options, read as the values that the API takes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from millstream.api.values.named import dead_letter
from millstream.errors import InvalidStep
from millstream.graph.operations.aggregate import AGGREGATES, Aggregate
from millstream.model.connector import ConnectorSpec

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_FILTERED = re.compile(r"(.*\))\s*filter\s*\(\s*where\s(.*)\)\s*", re.DOTALL | re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One step of the file: its kind, the value beside the kind, and the other keys."""

    kind: str
    value: Any
    options: dict[str, Any]

    def given(self, *names: str) -> dict[str, Any]:
        """The named options that the file holds; the API knows the defaults of the others."""
        return {name: self.options[name] for name in names if name in self.options}

    def text(self) -> str:
        """The value beside the kind, which must be text."""
        if not isinstance(self.value, str):
            raise wrong_form(self.value, f"{self.kind}:", "text")
        return self.value

    def needed(self, name: str) -> Any:
        """An option that must be there."""
        if name not in self.options:
            msg = f"a {self.kind} step needs {name!r}"
            raise InvalidStep(msg, code="DECL-006", known=self.options, hint=f"add {name}:")
        return self.options[name]

    def on_error(self) -> dict[str, Any]:
        """The error policy, if there is one; `dead_letter` holds a connector."""
        if "on_error" not in self.options:
            return {}
        policy = self.options["on_error"]
        if isinstance(policy, dict) and policy.keys() == {"dead_letter"}:
            policy = dead_letter(connector(policy["dead_letter"]))
        return {"on_error": policy}


def aggregates(item: Item) -> dict[str, Any]:
    """`{total: sum(amount), n: count() filter (where amount > 0)}`.

    The names `id`, `uid`, `emit` and `pane` are options of the step itself.
    """
    written = mapping(item.value, "aggregate:", "{name: sum(column)}")
    return {
        name: _aggregate(name, text)
        for name, text in without(written, ("id", "uid", "emit", "pane"), "aggregate:").items()
    }


def _aggregate(name: str, text: Any) -> Aggregate:
    filtered = _FILTERED.fullmatch(text) if isinstance(text, str) else None
    written, where = (text, None) if filtered is None else (filtered.group(1), filtered.group(2).strip())
    call = _CALL.fullmatch(written) if isinstance(written, str) else None
    if call is None or call.group(1) not in AGGREGATES:
        raise wrong_form(text, f"aggregate {name!r}", ", ".join(f"{kind}(...)" for kind in AGGREGATES))
    return Aggregate(kind=call.group(1), of=call.group(2).strip() or None, where=where)


def connector(value: Any) -> ConnectorSpec:
    """`{files: {path: in/}}`, or only the name of a connector that needs no options."""
    if isinstance(value, str):
        return ConnectorSpec(value)
    if not isinstance(value, dict) or len(value) != 1:
        raise wrong_form(value, "a connector", "{name: {option: value}}")
    name, options = next(iter(value.items()))
    return ConnectorSpec(name, {} if options is None else mapping(options, f"connector {name!r}", "{option: value}"))


def keys(item: Item) -> list[str]:
    """`key_by: user` or `key_by: [user, day]`."""
    return column_names(item.needed("key_by"), "key_by:")


def column_names(written: Any, what: str) -> list[str]:
    """One column, or several."""
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong_form(written, what, "a column or a list of columns")
    return names


def mapping(value: Any, what: str, known: str) -> dict[str, Any]:
    """A value that must be a mapping."""
    if not isinstance(value, dict):
        raise wrong_form(value, what, known)
    return value


def without(named: dict[str, Any], reserved: tuple[str, ...], what: str) -> dict[str, Any]:
    """Named columns, none of which has the name of an option that the method takes beside them."""
    for name in reserved:
        if name in named:
            msg = f"{what} cannot make a column named {name!r}"
            raise InvalidStep(
                msg, code="DECL-009", known="any other name", hint="choose another name; id: names the step"
            )
    return named


def refuse_unknown(content: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Nothing may be written that would be ignored."""
    for key in content:
        if key not in known:
            msg = f"{what} has no key {key!r}"
            raise InvalidStep(msg, code="DECL-004", found=repr(key), known=known, hint="remove it or use a known key")


def refuse_together(item: Item, names: tuple[str, ...], reason: str) -> None:
    """Some options only mean something with, or without, a window."""
    for name in names:
        if name in item.options:
            msg = f"{name!r} cannot be used in {item.kind} steps {reason}"
            raise InvalidStep(msg, code="DECL-004", found=repr(name), hint=f"remove {name}:")


def wrong_form(found: object, what: str, known: str) -> InvalidStep:
    """The error for a value that is not written as the format says."""
    msg = f"{what} is written in another form"
    return InvalidStep(msg, code="DECL-006", found=repr(found), known=known, hint="see the reference of job files")
