"""One step of a job file: its kind, its value and its options, read as the values that the API takes."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from millstream.api.jobfile.forms import column_names, connector, mapping, without, wrong_form
from millstream.api.values.error_policy import dead_letter
from millstream.errors import InvalidStep
from millstream.graph.operations.aggregate import AGGREGATES, Aggregate

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_LIMITS = ("max_rows", "max_ratio")
_FILTERED = re.compile(r"(.*\))\s*filter\s*\(\s*where\s(.*)\)\s*", re.DOTALL | re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStep:
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
        if isinstance(policy, dict) and {"dead_letter"} <= policy.keys() <= {"dead_letter", *_LIMITS}:
            limits = {name: policy[name] for name in _LIMITS if name in policy}
            policy = dead_letter(connector(policy["dead_letter"]), **limits)
        return {"on_error": policy}


def keys(step: WrittenStep) -> list[str]:
    """`key_by: user` or `key_by: [user, day]`."""
    return column_names(step.needed("key_by"), "key_by:")


def refuse_together(step: WrittenStep, names: tuple[str, ...], reason: str) -> None:
    """Some options only mean something with, or without, a window."""
    for name in names:
        if name in step.options:
            msg = f"{name!r} cannot be used in {step.kind} steps {reason}"
            raise InvalidStep(msg, code="DECL-004", found=repr(name), hint=f"remove {name}:")


def aggregates(step: WrittenStep) -> dict[str, Any]:
    """`{total: sum(amount), n: count() filter (where amount > 0)}`.

    The names `id`, `uid`, `emit` and `pane` are options of the step itself.
    """
    written = mapping(step.value, "aggregate:", "{name: sum(column)}")
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
