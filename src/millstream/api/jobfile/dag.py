"""The original shape of a definition, `source`, `operators`, `sink`, `checkpoint_interval`: it becomes a job file with steps.

Functions are named without their module, which stands once beside them. A step is then read as any other.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.api.jobfile.dag_connectors import connector_of
from millstream.api.jobfile.document import Document
from millstream.api.jobfile.forms import mapping, refuse_unknown, wrong_form
from millstream.errors import InvalidPlan, InvalidStep
from millstream.registry import load_module

SHAPE = ("source", "operators", "sink", "checkpoint_interval")
_SETTINGS = (
    "guarantee",
    "mode",
    "parallelism",
    "max_parallelism",
    "rows_per_epoch",
    "on_stop",
    "chaining",
    "params",
    "carry",
)
_BESIDE = ("module", "connectors")
_KEYS = ("job", "name", *SHAPE, *_SETTINGS, *_BESIDE)
_FUNCTIONS = dict.fromkeys(("map", "flat_map", "map_batches", "async_map", "reduce", "process"), "function")
_VALUES = {
    **_FUNCTIONS,
    "filter": "condition",
    "select": "columns",
    "with_columns": "columns",
    "event_time": "column",
    "aggregate": "aggregates",
    "deduplicate": "keep",
    "top_n": "n",
    "sample": "fraction",
    "sql": "query",
}
"""Per type of operator, what holds the value that a job file writes beside the kind."""
_FOLDED = {"key_by": "keys", "window": "window"}
"""Operators that a job file writes as options of the keyed step behind them."""
_BARE = re.compile(r"[A-Za-z_]\w*")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is said beside a definition: it holds bare names, and where things are differs from place to place."""

    name: str | None = None
    module: str | None = None
    connectors: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """Per connector: options that hold wherever the definition does not say otherwise, such as servers and urls."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return self.name is None and self.module is None and not self.connectors


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Normalised:
    """A definition as a job file, and what to say when a step of it is refused."""

    document: Document
    hints: dict[int, str] = dataclasses.field(default_factory=dict)


def is_dag(content: Mapping[str, Any]) -> bool:
    """Whether a document has the original shape."""
    return "steps" not in content and any(key in content for key in SHAPE[:3])


def normalised(document: Document, beside: Beside) -> Normalised:
    """The same job as a list of steps."""
    content = document.content
    with document.located(None, None):
        refuse_unknown(content, _KEYS, "a definition with source, operators and sink")
        _check_parts(content)
        known = _joined(content, beside)
        settings = {key: content[key] for key in _SETTINGS if key in content}
        if "checkpoint_interval" in content:
            settings["epoch_interval"] = _milliseconds(content["checkpoint_interval"])
        job = {"job": _name(document, beside), **settings}
    reading = _Reading(document, known)
    steps = [reading.source(content["source"]), *reading.operators(content.get("operators", []))]
    steps.append(reading.sink(content["sink"], len(steps)))
    return Normalised(document=dataclasses.replace(document, content={**job, "steps": steps}), hints=reading.hints)


def _check_parts(content: Mapping[str, Any]) -> None:
    for part in ("source", "sink"):
        if part not in content:
            msg = f"a definition needs {part!r}"
            raise InvalidPlan(msg, code="DECL-003", found=", ".join(content), known=SHAPE, hint=f"add {part}")
    if not isinstance(content.get("operators", []), list):
        raise wrong_form(content["operators"], "operators", "a list of operators")


def _joined(content: Mapping[str, Any], beside: Beside) -> Beside:
    """What the caller says counts before what the definition says itself."""
    written = mapping(content.get("connectors", {}), "connectors", "{connector: {option: value}}")
    shared = {
        name: {
            **mapping(written.get(name, {}), f"connector {name!r}", "{option: value}"),
            **beside.connectors.get(name, {}),
        }
        for name in {**written, **beside.connectors}
    }
    return dataclasses.replace(beside, module=beside.module or content.get("module"), connectors=shared)


def _name(document: Document, beside: Beside) -> Any:
    named = beside.name or document.content.get("job") or document.content.get("name")
    if named is None and document.is_file:
        return Path(document.name).stem
    if named is None:
        msg = "a definition that is no file does not say how its job is called"
        raise InvalidPlan(msg, code="DECL-003", hint="add job, or pass name=")
    return named


def _milliseconds(written: Any) -> str:
    if not isinstance(written, int) or isinstance(written, bool) or written < 0:
        raise wrong_form(written, "checkpoint_interval", "a number of milliseconds")
    return f"{written}ms"


class _Reading:
    """Turns the parts of one definition into steps; errors name their place in it."""

    def __init__(self, document: Document, beside: Beside) -> None:
        self._document, self._beside = document, beside
        self.hints: dict[int, str] = {}

    def source(self, written: Any) -> dict[str, Any]:
        """`{"type": "kafka", "config": {"topic": "events"}}`."""
        with self._document.located(0, "source"):
            part = _part(written, "source", ("schema", "on_error", "credit", "uid"))
            connector, beside = connector_of(part, "source", self._beside.connectors)
            return {"source": part.get("name", "source"), "from": connector, **beside, **_others(part)}

    def sink(self, written: Any, index: int) -> dict[str, Any]:
        """`{"type": "jdbc", "config": {"table": "results"}}`."""
        with self._document.located(index, "sink"):
            part = _part(written, "sink", ("uid",))
            connector, _ = connector_of(part, "sink", self._beside.connectors)
            return {"sink": part.get("name", "sink"), "to": connector, **_others(part)}

    def operators(self, written: list[Any]) -> list[dict[str, Any]]:
        """Operators in a row; keys and windows go to the keyed step behind them."""
        steps: list[dict[str, Any]] = []
        waiting: dict[str, Any] = {}
        for number, each in enumerate(written, 1):
            with self._document.located(number, str(each.get("type")) if isinstance(each, dict) else None):
                kind, options = _operator(each)
                if kind in _FOLDED:
                    waiting[kind] = _needed(options, kind, _FOLDED[kind])
                    waiting |= options
                    continue
                value = _needed(options, kind, _VALUES[kind])
                step = {kind: self._value(kind, value, len(steps) + 1), **waiting, **options}
                waiting = {}
                steps.append(step)
        if waiting:
            with self._document.located(len(written), next(iter(waiting))):
                msg = f"no operator behind {' and '.join(map(repr, waiting))} takes them"
                raise InvalidStep(msg, code="DECL-011", hint="add an operator such as aggregate, reduce or process")
        return steps

    def _value(self, kind: str, value: Any, index: int) -> Any:
        if kind in _FUNCTIONS:
            return self._function(value)
        if kind == "filter" and isinstance(value, dict):
            return {**value, "function": self._function(value.get("function"))}
        if kind == "filter" and isinstance(value, str) and self._names_function(value, index):
            return {"function": self._function(value)}
        return value

    def _names_function(self, condition: str, index: int) -> bool:
        """A condition is a function if it is the name of one in the module, and an expression otherwise."""
        if ":" in condition and all(_BARE.fullmatch(part) for part in re.split(r"[.:]", condition)):
            return True
        if not _BARE.fullmatch(condition):
            return False
        module = self._beside.module
        if module is None:
            self.hints[index] = f"name a column; for a function {condition!r} say in which module it is: module="
            return False
        self.hints[index] = f"name a column, or define {condition!r} in module {module!r}"
        return callable(getattr(_module(module), condition, None))

    def _function(self, name: Any) -> str:
        """`module:function`; a bare name is one of the module beside the definition."""
        if not isinstance(name, str):
            raise wrong_form(name, "a function", "its name")
        if ":" in name:
            return name
        if self._beside.module is None:
            msg = f"function {name!r} is named without a module"
            raise InvalidStep(
                msg, code="DECL-010", hint="add module to the definition, pass module=, or write module:function"
            )
        _module(self._beside.module)
        return f"{self._beside.module}:{name}"


def _module(name: str) -> Any:
    try:
        return load_module(name)
    except ImportError as problem:
        msg = f"module {name!r}, which is to hold the functions, cannot be imported"
        raise InvalidStep(msg, code="DECL-010", found=str(problem), hint="correct module, or PYTHONPATH") from problem


def _part(written: Any, what: str, known: tuple[str, ...]) -> dict[str, Any]:
    part = mapping(written, what, "{type: connector, config: {option: value}}")
    refuse_unknown(part, ("type", "name", "config", *known), what)
    if not isinstance(part.get("type"), str):
        raise wrong_form(part.get("type"), f"the type of the {what}", "the name of a connector")
    return part


def _others(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in {"type", "name", "config"}}


def _operator(written: Any) -> tuple[str, dict[str, Any]]:
    """The kind of an operator, and its options: those of its config stand beside the others."""
    part = mapping(written, "an operator", "{type: map, function: name}")
    kind = _CAMEL.sub("_", str(part.get("type"))).lower()
    known = [*_VALUES, *_FOLDED]
    if kind not in known:
        msg = "unknown type of operator"
        raise InvalidStep(
            msg, code="DECL-005", found=repr(part.get("type")), known=known, hint="use one of them, or write steps"
        )
    config = mapping(part.get("config", {}), "the config of an operator", "{option: value}")
    options = {**config, **{key: value for key, value in part.items() if key not in {"type", "config", "name"}}}
    return kind, {**options, **({"id": part["name"]} if "name" in part else {})}


def _needed(options: dict[str, Any], kind: str, key: str) -> Any:
    if kind == "filter" and key not in options and "function" in options:
        # The author says that it is a function, whatever it is called.
        return {"function": options.pop("function")}
    if key not in options:
        msg = f"operator {kind!r} needs {key!r}"
        raise InvalidStep(msg, code="DECL-006", known=options, hint=f"add {key}")
    return options.pop(key)
