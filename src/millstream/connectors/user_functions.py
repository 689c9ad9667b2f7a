"""Functions of users that connectors call: how an option names one, and which are refused when the step is built."""

from __future__ import annotations

import inspect
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.model.connector import Option


def function_option(doc: str, *, is_needed: bool = False) -> Option:
    """An option that is a function, or in a job file `module:function`."""
    if is_needed:
        return Option(kind=(FunctionRef, str), doc=doc, check=_referred)
    return Option(kind=(FunctionRef, str, type(None)), doc=doc, default=None, check=_referred)


def _referred(value: FunctionRef | str | None) -> FunctionRef | None:
    if not isinstance(value, str):
        return value
    try:
        return function_ref(value)
    except InvalidStep as problem:
        msg = f"a function that can be imported here as 'module:function'; {problem.found}"
        raise ValueError(msg) from None


def given_function(value: Any) -> FunctionRef | str | None:
    """What a user gave as a function; a text is looked up when the step is built."""
    return value if value is None or isinstance(value, (str, FunctionRef)) else function_ref(value)


def check_function(function: FunctionRef, form: str, *, step: str, code: str) -> None:
    """Refuse what cannot be called with the arguments that `form` names, such as `load(start, ctx)`.

    Raises:
        InvalidStep: also for a class with `open` or `close`, which nobody would call here.
    """
    name, _, arguments = form.rstrip(")").partition("(")
    wrong = "" if callable(function.target) else f"a {type(function.target).__name__}, which cannot be called"
    if not wrong and function.is_living:
        wrong = "a function with open or close, which are not called here"
    if not wrong:
        wrong = _misfit(function.target, len(arguments.split(",")))
    if wrong:
        msg = f"the function for {name} does not fit"
        hint = f"pass def {form}: ...; what it needs it opens in its first call"
        raise InvalidStep(
            msg, code=code, step=step, found=f"{function.describe()}: {wrong}", known=f"def {form}", hint=hint
        )


def _misfit(target: Any, arguments: int) -> str:
    try:
        inspect.signature(target).bind(*range(arguments))
    except TypeError as problem:
        return str(problem)
    except ValueError:  # a function of C that does not tell its arguments
        return ""
    return ""
