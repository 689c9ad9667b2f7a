"""What a connector declares about itself: options, capabilities, and where its code lives.

A job holds a `ConnectorSpec` (a name and options). The declaration of that name says which options exist and what the
connector can promise, so a wrong option is refused where the user wrote it, without importing the connector's code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from millstream import registry
from millstream.errors import InvalidStep
from millstream.model.changelog import Changelog
from millstream.model.guarantee import Guarantee, SinkCapability, SourceCapability
from millstream.model.mode import Mode
from millstream.model.params import names_in
from millstream.model.schema import Schema
from millstream.redaction import shown_pairs, shown_url

Options = Mapping[str, Any]
NewerOutput = Literal["refuse", "keep", "truncate"]
"""What becomes of output beyond the point a new lineage starts from."""
WriteKind = Literal["append", "replace", "upsert"]
"""How a run writes: beside what is there, in its place all at once, or in the place of rows with the same keys."""
WRITE = "write"
"""The option that says it. A sink declares it with the kinds it takes, see `write_option`; without it, rows are added."""
_REQUIRED = object()
_SENT_PAIRS = ("headers", "params", "form", "json")
"""Options with names that the other side has chosen."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """A connector as the user names it: `ms.files("in/", format="json")`."""

    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def shown(self) -> ConnectorSpec:
        """The same as people may see it: without what goes along with requests under a name that secrets have."""
        pairs = {name: shown_pairs(self.options[name]) for name in _SENT_PAIRS if name in self.options}
        return dataclasses.replace(self, options={**self.options, **pairs})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: its kind, its default, and a sentence for the reference."""

    kind: tuple[type, ...]
    doc: str
    default: Any = _REQUIRED
    choices: tuple[Any, ...] = ()
    check: Callable[[Any], Any] | None = None
    """Returns the value to use, or raises `ValueError` with what was expected."""
    is_query: bool = False
    """Whether it is a query to a database: parameters of the run stand in it as literals, not as text."""
    is_data: bool = False
    """Whether it holds rows: nothing in them is the name of a parameter."""
    default_from: Callable[[Options], Any] | None = None
    """For a default that follows from the options that are given."""
    is_shown: bool = True
    """Whether a wrong value may be shown: one that may hold secrets may not."""

    @property
    def is_required(self) -> bool:
        """Whether the user must give it."""
        return self.default is _REQUIRED


def write_option(*kinds: WriteKind) -> Option:
    """The option `write` of a sink that takes these kinds; where nobody says it, the sink does as its other options say.

    With `replace` the committer is told the end of the run, as one more message `{"ends_run": True}` of its last epoch. Readers
    see nothing of the run until that is published, and then all of it at once in the place of what they saw before.
    """
    return Option(kind=(str, type(None)), default=None, choices=(None, *kinds), doc="how a run writes")


def replaces(options: Options) -> bool:
    """Whether the result of a run takes the place of the one before."""
    return options.get(WRITE) == "replace"


def _never(_: Options) -> bool:
    return False


def _never_directly(_: Options, __: Guarantee) -> bool:
    return False


def _no_batches(_: Options) -> tuple[str, ...]:
    return ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeclaration:
    """The source half of a connector. `enumerator` and `reader` are `module:attribute`, loaded when a job runs."""

    options: dict[str, Option]
    capability: SourceCapability
    enumerator: str
    reader: str
    is_bounded: Callable[[Options], bool] = _never
    mode: Mode = Mode.STREAMING
    """Of a job that reads such a source to its end; an unbounded source makes any job a streaming one."""
    schema: Callable[[Options], Any] | None = None
    """For sources that know their columns: called when the user gives no `schema=`."""
    capability_of: Callable[[Options], SourceCapability] | None = None
    """For sources whose promise depends on their options; `capability` is what they can at best promise."""
    check: Callable[[Options, Schema, str], None] | None = None
    """Refuses options that do not fit each other or the schema of the step that is named, when the step is built."""
    changelog: Callable[[Options, Schema], Changelog | None] | None = None
    """For sources whose rows say what became of rows of a table: of what form they are."""
    variants: tuple[Options, ...] = ({},)
    """Options that change what it promises, a mapping for each case: for the tables of those who choose."""
    probe: str = ""
    """`module:attribute`, called with options, schema and step: looks at what is outside and says what it finds, line by line. It
    changes nothing, and raises what would refuse the source at the start of a job."""
    sample: str = ""
    """`module:attribute`, called with options, schema and a number of rows: the first batches and bad records, and lines of text
    about them. For sources that would fetch much more when they are opened, or leave something behind outside."""

    batch_option: Callable[[Options], tuple[str, ...]] = _no_batches
    """The way to the option that says how many rows a page, poll or fetch has, as `("paginator", "size")`; empty if none does."""
    decode_again: str = ""
    """`module:attribute`, called with options, schema, a record as a `BadRecord` held it, and its origin: the batch of its rows,
    or a `BadRecord`. For dead letters that are replayed; it may raise `InvalidStep` where a record alone is not enough."""

    def promises(self, options: Options) -> SourceCapability:
        """What a source with these options can do after a restart."""
        return self.capability if self.capability_of is None else self.capability_of(options)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SinkDeclaration:
    """The sink half of a connector. `writer` and `committer` are `module:attribute`, loaded when a job runs."""

    options: dict[str, Option]
    capability: SinkCapability
    """What it can at best promise."""
    writer: str
    committer: str
    direct_writer: str = ""
    """A writer whose rows are visible at once; used instead of `writer` where `writes_directly` says so."""
    writes_directly: Callable[[Options, Guarantee], bool] = _never_directly
    capability_of: Callable[[Options], SinkCapability] | None = None
    """For sinks whose promise depends on their options."""
    check: Callable[[Options, Schema, str], None] | None = None
    """Refuses options that do not fit each other or the rows of the step that is named, when the step is built."""
    takes_changes: Callable[[Options, Changelog, str], Options] | None = None
    """For sinks that apply changes of rows, or write them down as such: gives options that follow from their form, and refuses
    what it cannot apply at the step that is named. Without it changes are refused."""
    takes_watermark: Callable[[Options], bool] = _never
    """Whether every epoch tells the committer the watermark, as one more message `{"watermark": ...}`."""
    variants: tuple[Options, ...] = ({},)
    """Options that change what it promises, a mapping for each case: for the tables of those who choose."""
    probe: str = ""
    """`module:attribute`, called with options, schema and step: looks at the target and says what it finds, line by line. It
    changes nothing, and raises what would refuse the sink at the start of a job."""

    batch_option: Callable[[Options], tuple[str, ...]] = _no_batches
    """The way to the option that says how many rows a statement or request takes at most; empty if none does."""
    read_back: str = ""
    """`module:attribute`, called with options and schema, `job=` and `step=` (the sink's uid): the rows that are visible, in
    batches of the schema. For dead letters that people look at and replay."""
    remove: str = ""
    """`module:attribute`, called as `read_back` with a function from a row to whether it is to go: removes such rows, as
    `Removed` says. Nothing that an epoch in flight, or a start that publishes its epoch again, would miss."""

    def promises(self, options: Options) -> SinkCapability:
        """How a sink with these options makes rows visible."""
        return self.capability if self.capability_of is None else self.capability_of(options)

    def is_direct(self, options: Options, guarantee: Guarantee) -> bool:
        """Whether the tasks of a sink with these options write rows where readers see them at once."""
        # What takes the place of something else at the end must be kept out of sight until then.
        return bool(self.direct_writer) and not replaces(options) and self.writes_directly(options, guarantee)


@dataclasses.dataclass(frozen=True, slots=True)
class Extra:
    """An extra of this package: what `pip install 'millstream[name]'` brings."""

    name: str
    module: str
    """One of its modules, by which it is known to be there."""
    when: str = ""
    """The options that need it; always, if none are named."""

    @property
    def command(self) -> str:
        """How to get it."""
        return f"pip install 'millstream[{self.name}]'"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDeclaration:
    """Everything known about a connector without running it."""

    name: str
    source: SourceDeclaration | None = None
    sink: SinkDeclaration | None = None
    extras: tuple[Extra, ...] = ()
    """What it needs beside this package. A package of its own requires its libraries itself."""


def declaration(name: str) -> ConnectorDeclaration:
    """The declaration of a connector, ours or one that another package brings as an entry point."""
    try:
        declared = registry.find("connectors", name)
    except KeyError:
        msg = "unknown connector"
        known = registry.names("connectors")
        hint = "use one of the known connectors, or install the package that brings this one"
        raise InvalidStep(msg, code="CONN-001", found=repr(name), known=known, hint=hint) from None
    if not isinstance(declared, ConnectorDeclaration) or declared.name != name:
        msg = f"the entry point of connector {name!r} is no declaration of it"
        hint = "name a ConnectorDeclaration of that name in the entry point `millstream.connectors`"
        raise InvalidStep(msg, code="CONN-006", found=repr(declared), hint=hint)
    return declared


def source_declaration(spec: ConnectorSpec, *, step: str | None = None) -> SourceDeclaration:
    """The source half, or an error that names what the connector can be."""
    declared = declaration(spec.name).source
    if declared is None:
        msg = f"connector {spec.name!r} cannot be a source"
        raise InvalidStep(msg, code="CONN-002", step=step, known="it is a sink", hint="use it in .sink(...)")
    return declared


def sink_declaration(spec: ConnectorSpec, *, step: str | None = None) -> SinkDeclaration:
    """The sink half, or an error that names what the connector can be."""
    declared = declaration(spec.name).sink
    if declared is None:
        msg = f"connector {spec.name!r} cannot be a sink"
        raise InvalidStep(msg, code="CONN-002", step=step, known="it is a source", hint="use it in job.source(...)")
    return declared


def is_written_directly(spec: ConnectorSpec, guarantee: Guarantee) -> bool:
    """Whether the tasks of a sink write rows where readers see them at once."""
    return sink_declaration(spec).is_direct(spec.options, guarantee)


def named_params(declared: Mapping[str, Option], options: Options) -> dict[str, list[str]]:
    """Per option that names parameters of the run: which."""
    found = {key: names_in(value) for key, value in options.items() if key in declared and not declared[key].is_data}
    return {key: names for key, names in found.items() if names}


def checked_options(declared: Mapping[str, Option], options: Options, *, step: str | None, name: str) -> dict[str, Any]:
    """Options with defaults filled in; an unknown, missing or ill-typed one is refused."""
    for given in options:
        if given == WRITE and WRITE not in declared:
            msg = f"connector {name!r} knows one way to write, and takes no {WRITE}="
            hint = f"leave {WRITE}= out, or write to a connector that takes {options[given]!r}, such as files or jdbc"
            raise InvalidStep(msg, code="CONN-007", step=step, found=repr(options[given]), hint=hint)
        if given not in declared:
            msg = f"connector {name!r} has no option {given!r}"
            raise InvalidStep(msg, code="CONN-003", step=step, known=declared, hint="remove it or use a known option")
    return {key: _value(key, option, options, step=step, name=name) for key, option in declared.items()}


def _value(key: str, option: Option, options: Options, *, step: str | None, name: str) -> Any:
    if key not in options:
        if option.is_required:
            msg = f"connector {name!r} needs option {key!r}"
            raise InvalidStep(msg, code="CONN-004", step=step, hint=f"pass {key}=...; {option.doc}")
        return option.default if option.default_from is None else option.default_from(options)
    value = options[key]
    if not option.is_data and names_in(value):
        # It is checked once the parameters in it have their values.
        return value
    expected = " or ".join(kind.__name__ for kind in option.kind)
    if not isinstance(value, option.kind) or (isinstance(value, bool) and bool not in option.kind):
        raise _wrong(key, option, value, expected, step, name)
    if option.choices and value not in option.choices:
        raise _wrong(key, option, value, ", ".join(map(str, option.choices)), step, name)
    if option.check is None:
        return value
    try:
        return option.check(value)
    except ValueError as problem:
        raise _wrong(key, option, value, str(problem), step, name) from None


def _wrong(key: str, option: Option, value: object, expected: str, step: str | None, name: str) -> InvalidStep:
    msg = f"option {key!r} of connector {name!r} has a wrong value"
    # A url given as plain text may hold a password, with any characters.
    shown = shown_url(repr(value)) if option.is_shown else None
    return InvalidStep(msg, code="CONN-005", step=step, found=shown, known=expected, hint=f"correct {key}=")
