"""Options of the `loader` source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.connectors.loader.context import LoaderContext
from millstream.connectors.loader.positions import storable_json
from millstream.connectors.user_functions import check_function, function_option, given_function
from millstream.errors import InvalidStep
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, Options, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.mode import Mode
from millstream.model.schema import Schema
from millstream.model.time import duration_ms

LoadFunction = Callable[[Any, LoaderContext], Any]


def loader(
    function: LoadFunction | str,
    *,
    replayable: bool = False,
    resumable: bool = False,
    positions: LoadFunction | str | None = None,
    acknowledge: LoadFunction | str | None = None,
    start: Any = None,
    poll: str | None = None,
    check: bool = False,
    ahead_bytes: int = 64 << 20,
) -> ConnectorSpec:
    """Rows that a function of yours loads, with any library.

    Args:
        function: `def load(start, ctx)`, a generator of `rows, position`: what comes behind the position `start`, and the
            position behind it. A position is any JSON value that you can go on from. Or `module:function`.
        replayable: you promise that the same position gives the same rows, always. The workers then call the function again.
        resumable: you promise that behind a position come the rows that follow it, each once, whatever they are by then. The
            driver then calls the function once and logs what it gets; so it does without a promise, where rows may come twice.
        positions: `def look(start, ctx)`, a generator of `number, position`: about how many rows lie before each position.
            With it the driver loads no rows itself.
        acknowledge: `def acknowledge(position, ctx)`, called when everything before a position is published.
        start: the first position.
        poll: such as `10s`: where the function ends, it is called again after that time. Without it, its end is the end.
        check: with `replayable`, let the driver load each row too, and compare: a broken promise is an error.
        ahead_bytes: without `replayable`, how much is logged ahead of the epochs.
    """
    given = {"function": function, "positions": positions, "acknowledge": acknowledge}
    promises = {"replayable": replayable, "resumable": resumable}
    options = {**promises, "start": start, "poll": poll, "check": check, "ahead_bytes": ahead_bytes}
    return ConnectorSpec("loader", {**{name: given_function(value) for name, value in given.items()}, **options})


def _json(value: Any) -> Any:
    try:
        return storable_json(value)
    except ValueError as problem:
        msg = f"a JSON value ({problem})"
        raise ValueError(msg) from None


def _duration(value: str | None) -> str | None:
    if value is not None and duration_ms(value, what="poll") <= 0:
        msg = "a duration above zero, such as '10s'"
        raise ValueError(msg)
    return value


def _check(options: Options, _: Schema, step: str) -> None:
    check_function(options["function"], "load(start, ctx)", step=step, code="LOADER-001")
    if options["positions"] is not None:
        check_function(options["positions"], "look(start, ctx)", step=step, code="LOADER-001")
    if options["acknowledge"] is not None:
        check_function(options["acknowledge"], "acknowledge(position, ctx)", step=step, code="LOADER-001")
    problem = _contradiction(options)
    if problem is not None:
        raise InvalidStep(
            problem[0], code="LOADER-002", step=step, found=options["function"].describe(), hint=problem[1]
        )


def _contradiction(options: Options) -> tuple[str, str] | None:
    """What is wrong with the promises, and how to mend it."""
    if options["replayable"] and options["resumable"]:
        return (
            "replayable and resumable are one promise too many",
            "leave resumable= out: the other is the stronger one",
        )
    if options["replayable"] and not options["function"].is_deterministic:
        return (
            "a function that is marked as not deterministic cannot promise the same rows",
            "pass resumable=True instead",
        )
    for name in ("positions", "check"):
        if options[name] and not options["replayable"]:
            return f"{name}= is for functions that can be asked for the same rows again", "pass replayable=True too"
    return None


def _capability(options: Options) -> SourceCapability:
    is_once = options["replayable"] or options["resumable"]
    return SourceCapability.REPLAYABLE if is_once else SourceCapability.AT_LEAST_ONCE


def _above_zero(value: int) -> int:
    if value < 1:
        msg = "a whole number above zero"
        raise ValueError(msg)
    return value


def _is_bounded(options: Options) -> bool:
    return options["poll"] is None


DECLARATION = ConnectorDeclaration(
    name="loader",
    source=SourceDeclaration(
        options={
            "function": function_option(
                "`load(start, ctx)`, a generator of rows and the position behind", is_needed=True
            ),
            "replayable": Option(kind=(bool,), default=False, doc="the same position gives the same rows, always"),
            "resumable": Option(
                kind=(bool,), default=False, doc="behind a position come the rows that follow it, each once"
            ),
            "positions": function_option("`look(start, ctx)`, a generator of numbers of rows and positions"),
            "acknowledge": function_option("`acknowledge(position, ctx)`, called when what lies before is published"),
            "start": Option(kind=(object, bool), default=None, check=_json, doc="the first position, any JSON value"),
            "poll": Option(
                kind=(str, type(None)),
                default=None,
                check=_duration,
                doc="time after which an ended function is called again",
            ),
            "check": Option(kind=(bool,), default=False, doc="load every row twice and compare"),
            "ahead_bytes": Option(
                kind=(int,),
                default=64 << 20,
                check=_above_zero,
                doc="without replayable: how much is logged ahead of the epochs",
            ),
        },
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.loader.source:open_loader",
        reader="millstream.connectors.loader.source:LoaderReader",
        is_bounded=_is_bounded,
        mode=Mode.BATCH_ROLLER,
        capability_of=_capability,
        check=_check,
        variants=({}, {"resumable": True}, {"replayable": True}),
    ),
)
