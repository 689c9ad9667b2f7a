"""Facts about connectors: what they can be, need and promise, from their declarations alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from millstream import registry
from millstream.graph.function import FunctionRef
from millstream.model.connector import (
    ConnectorDeclaration,
    Extra,
    Option,
    Options,
    SinkDeclaration,
    SourceDeclaration,
    declaration,
)
from millstream.model.guarantee import SINKS_FOR, SOURCES_FOR, Guarantee

Role = Literal["source", "sink"]
_TYPES: dict[type, str] = {FunctionRef: "function", object: "any JSON value", type(None): "None"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExtraFacts:
    """Libraries that a connector needs beside this package."""

    name: str
    when: str
    is_installed: bool
    command: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PromiseFacts:
    """What one side of a connector promises with some options, and how it keeps each guarantee."""

    role: Role
    options: Mapping[str, Any]
    capability: str
    guarantees: Mapping[str, str]

    @property
    def when(self) -> str:
        """The options as they are written."""
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OptionFacts:
    """One option of one side."""

    name: str
    type: str
    default: Any
    is_required: bool
    doc: str
    choices: tuple[Any, ...] = ()
    """The only values it takes, if there are some."""
    may_hold_secrets: bool = False
    """Whether a form hides what is written into it; better it names a secret, `${secret:NAME}`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFacts:
    """One connector."""

    name: str
    package: str | None
    """The package that brings it, if it is not ours."""
    extras: tuple[ExtraFacts, ...] = ()
    promises: tuple[PromiseFacts, ...] = ()
    options: Mapping[Role, tuple[OptionFacts, ...]] = dataclasses.field(default_factory=dict)
    mode: str | None = None
    """The mode of a job that reads such a source to its end."""
    problem: str | None = None
    """Why nothing more is known: its package cannot be loaded."""

    def capabilities(self, role: Role) -> list[str]:
        """What a side of it can promise, the best first."""
        return list(dict.fromkeys(each.capability for each in self.promises if each.role == role))


def known_connectors() -> list[ConnectorFacts]:
    """All connectors that a job may name here, ours first. One that cannot be loaded is listed with the reason."""
    return [_known(name) for name in registry.names("connectors")]


def _known(name: str) -> ConnectorFacts:
    try:
        return connector_facts(name)
    except Exception as problem:  # whatever the package of somebody else does
        return ConnectorFacts(name=name, package=registry.brings("connectors", name), problem=str(problem))


def connector_facts(name: str) -> ConnectorFacts:
    """One connector by its name."""
    declared = declaration(name)
    sides: dict[Role, SourceDeclaration | SinkDeclaration | None] = {"source": declared.source, "sink": declared.sink}
    return ConnectorFacts(
        name=name,
        package=registry.brings("connectors", name),
        extras=tuple(map(_extra, declared.extras)),
        promises=tuple(promises_of(declared)),
        mode=None if declared.source is None else declared.source.mode.value,
        options={
            role: tuple(_option(key, option) for key, option in side.options.items())
            for role, side in sides.items()
            if side is not None
        },
    )


def _extra(extra: Extra) -> ExtraFacts:
    is_installed = registry.is_installed(extra.module)
    return ExtraFacts(name=extra.name, when=extra.when, is_installed=is_installed, command=extra.command)


def _option(name: str, option: Option) -> OptionFacts:
    type_text = " or ".join(
        _TYPES.get(kind, kind.__name__) for kind in option.kind if kind is not bool or len(option.kind) == 1
    )
    if option.choices:
        type_text = ", ".join(map(repr, option.choices))
    default = None if option.is_required else option.default
    return OptionFacts(
        name=name,
        type=type_text,
        default=default,
        is_required=option.is_required,
        doc=option.doc,
        choices=option.choices,
        may_hold_secrets=not option.is_shown,
    )


def promises_of(declared: ConnectorDeclaration) -> list[PromiseFacts]:
    """What each side promises, for each case that its declaration names."""
    found: list[PromiseFacts] = []
    if (source := declared.source) is not None:
        for variant in source.variants:
            capability = source.promises(_with_defaults(source.options, variant))
            kept = {each.value: "yes" if capability in SOURCES_FOR[each] else "refused" for each in Guarantee}
            found.append(PromiseFacts(role="source", options=variant, capability=capability.value, guarantees=kept))
    if (sink := declared.sink) is not None:
        for variant in sink.variants:
            options = _with_defaults(sink.options, variant)
            kept = {each.value: _kept(sink, options, each) for each in Guarantee}
            capability_of_sink = sink.promises(options).value
            found.append(PromiseFacts(role="sink", options=variant, capability=capability_of_sink, guarantees=kept))
    return found


def _kept(sink: SinkDeclaration, options: Options, guarantee: Guarantee) -> str:
    if sink.promises(options) not in SINKS_FOR[guarantee]:
        return "refused"
    return "direct" if sink.is_direct(options, guarantee) else "staged"


def _with_defaults(declared: Mapping[str, Option], options: Options) -> dict[str, Any]:
    """All options, those that the user must give as `None`: no promise depends on them."""
    defaults = {name: None if option.is_required else option.default for name, option in declared.items()}
    return {**defaults, **options}


def guarantee_table(connectors: list[ConnectorFacts]) -> list[str]:
    """Connectors and guarantees as the lines of a table in Markdown."""
    head = ["connector", "capability", *(f"`{guarantee.value}`" for guarantee in Guarantee)]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for role in ("source", "sink"):
        for facts in connectors:
            for each in (promise for promise in facts.promises if promise.role == role):
                name = f"{role} `{facts.name}`" + (f", `{each.when}`" if each.when else "")
                lines.append(f"| {name} | {each.capability} | {' | '.join(each.guarantees.values())} |")
    return lines
