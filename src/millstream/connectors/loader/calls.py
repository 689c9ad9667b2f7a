"""Calls of load functions: what they yield is checked before anything is made of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from millstream.connectors.loader.context import LoaderContext
from millstream.connectors.loader.positions import storable_json
from millstream.connectors.loader.rows import FORMS, UnknownRows, counted, parts_of
from millstream.connectors.user_calls import raise_failed
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema, StepFailed
from millstream.graph.function import FunctionRef
from millstream.model.schema import Schema
from millstream.runtime.bad_records import USER_PROBLEMS

_PROBLEMS = (*USER_PROBLEMS, asyncio.CancelledError, GeneratorExit)
"""What a load function may raise. A task of its own that was cancelled says nothing about ours."""
_FORM = "yield rows, position"
_SHOWN = 200


class LoadedRows(NamedTuple):
    """What a load function yielded: rows in any form it may give them, and the positions before and behind them."""

    start: Any
    rows: Any
    position: Any


def loaded_behind(function: FunctionRef, start: Any, context: LoaderContext) -> Iterator[LoadedRows]:
    """What a function yields behind a position. It is closed when this iterator is, so that its `finally` runs here."""
    pages = _iterator(function, start, context)
    before = start
    try:
        while (made := _next(function, pages, context)) is not _END:
            page = _checked(function, made, before, context)
            before = page.position
            yield page
    finally:
        _close(function, pages, context)


_END = object()


def _iterator(function: FunctionRef, start: Any, context: LoaderContext) -> Iterator[Any]:
    try:
        made = function.target(start, context)
    except _PROBLEMS as problem:
        _fail(function, problem, context)
    if not isinstance(made, Iterable) or isinstance(made, (str, bytes, dict)):
        raise _refused(function, made, context, "returned something else than an iterator")
    return iter(made)


def _next(function: FunctionRef, pages: Iterator[Any], context: LoaderContext) -> Any:
    try:
        return next(pages, _END)
    except _PROBLEMS as problem:
        _fail(function, problem, context)


def _close(function: FunctionRef, pages: Iterator[Any], context: LoaderContext) -> None:
    try:
        getattr(pages, "close", _nothing)()
    except _PROBLEMS as problem:
        _fail(function, problem, context)


def _nothing() -> None:
    """A list needs no closing."""


def _checked(function: FunctionRef, made: Any, before: Any, context: LoaderContext) -> LoadedRows:
    if not isinstance(made, tuple) or len(made) != 2:
        raise _refused(function, made, context, "yielded something else than rows and a position")
    rows, position = made
    # As it will come back from a log: a function that gets a list there gets one here too.
    as_logged = _as_logged(position)
    if as_logged is None:
        raise _refused(
            function, position, context, "yielded a position that is no JSON value, or null, or of more than 64 bits"
        )
    if as_logged == before:
        raise _refused(function, position, context, "yielded the position behind which it began: it does not go on")
    return LoadedRows(before, rows, as_logged)


def _as_logged(position: Any) -> Any:
    try:
        return storable_json(position)
    except ValueError:
        return None


def batches_of(
    function: FunctionRef, page: LoadedRows, schema: Schema, context: LoaderContext
) -> Iterator[pa.RecordBatch | BadRecord]:
    """The rows of a page as the source gives them."""
    origin = f"{function.name.split('@', maxsplit=1)[0]} behind {json.dumps(page.start)}"
    try:
        yield from parts_of(page.rows, schema, origin=origin)
    except UnknownRows as problem:
        raise _unreadable(function, context, f"gave {problem}", FORMS) from None
    except InvalidSchema as problem:
        text = problem.message.replace("of the file", "of the rows").replace("in the file", "in the rows")
        raise _unreadable(function, context, f"{text}: {problem.found}", problem.known) from problem


def number_told(function: FunctionRef, page: LoadedRows, context: LoaderContext) -> int:
    """How many rows a function that only looks positions up says there are."""
    if isinstance(page.rows, int) and not isinstance(page.rows, bool) and page.rows >= 0:
        return page.rows
    raise _unreadable(function, context, repr(page.rows)[:_SHOWN], "a number of rows, about: yield 100, position")


def number_of(function: FunctionRef, page: LoadedRows, context: LoaderContext) -> int:
    """How many rows a page holds."""
    try:
        return counted(page.rows)
    except UnknownRows as problem:
        raise _unreadable(function, context, f"gave {problem}", FORMS) from None


def acknowledged(function: FunctionRef, position: Any, context: LoaderContext) -> None:
    """Tell the user's function up to where everything is published."""
    try:
        function.target(position, context)
    except USER_PROBLEMS as problem:
        hint = "mend the acknowledge function; it is called again with a later position"
        raise_failed(function, problem, step=context.step, code="LOADER-003", hint=hint)


def _unreadable(function: FunctionRef, context: LoaderContext, found: str, known: str | None) -> StepFailed:
    msg = f"the rows of the load function {function.describe()} cannot be read"
    hint = "yield rows in one of these forms, with the columns of the source's schema"
    return StepFailed(msg, code="LOADER-005", step=context.step, found=found, known=known, hint=hint)


def _fail(function: FunctionRef, problem: BaseException, context: LoaderContext) -> NoReturn:
    hint = "mend the function; what comes from outside is asked for again when it raises an OSError or ExternalFailure"
    raise_failed(function, problem, step=context.step, code="LOADER-003", hint=hint)


def _refused(function: FunctionRef, made: Any, context: LoaderContext, what: str) -> StepFailed:
    found = f"{made!r} ({type(made).__name__})"[:_SHOWN]
    msg = f"the load function {function.describe()} {what}"
    return StepFailed(msg, code="LOADER-004", step=context.step, found=found, known=_FORM, hint=f"write {_FORM}")
