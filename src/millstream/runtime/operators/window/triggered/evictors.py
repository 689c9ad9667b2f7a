"""How evictors are evaluated: over the kept rows of a window, which are (time, row, values of aggregates)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from millstream.errors import StepFailed
from millstream.graph.windows.evictor import EvictorSpec
from millstream.runtime.functions.calls import called

Element = tuple[int | None, Any, Any]
Evict = Callable[[list[Element], Any], list[Element]]
"""Takes the rows of a window and the window; gives those that stay, as a list of its own."""


def eviction(spec: EvictorSpec, names: tuple[str, ...], step: str) -> Evict:
    """What an evictor leaves of rows with these columns."""
    match spec.kind:
        case "count":
            return lambda elements, _: elements[-spec.rows :]
        case "time":
            return lambda elements, _: _recent(elements, spec.keep)
        case "delta" if spec.column is not None:
            return _by_column(names.index(spec.column), spec.threshold)
        case "delta":
            return _by_function(spec, names, step)
        case _:
            return _chosen(spec, names, step)


def _recent(elements: list[Element], keep: int) -> list[Element]:
    newest = max((time for time, _, _ in elements if time is not None), default=0)
    return [element for element in elements if element[0] is None or element[0] > newest - keep]


def _by_column(place: int, threshold: float) -> Evict:
    def kept(elements: list[Element], _: Any) -> list[Element]:
        last = elements[-1][1][place]
        return [e for e in elements[:-1] if _is_near(e[1][place], last, threshold)] + elements[-1:]

    return kept


def _is_near(value: Any, last: Any, threshold: float) -> bool:
    return value is not None and last is not None and abs(value - last) < threshold


def _by_function(spec: EvictorSpec, names: tuple[str, ...], step: str) -> Evict:
    assert spec.function is not None, "this delta evictor has a function"
    difference = spec.function.target

    def kept(elements: list[Element], _: Any) -> list[Element]:
        rows = _rows(elements, names)
        deltas = [called(step, row, difference, row, rows[-1]) for row in rows[:-1]]
        near = [e for e, delta in zip(elements, deltas, strict=False) if delta < spec.threshold]
        return [*near, elements[-1]]

    return kept


def _chosen(spec: EvictorSpec, names: tuple[str, ...], step: str) -> Evict:
    assert spec.function is not None, "an evictor of the user has a function"
    choose = spec.function.target

    def kept(elements: list[Element], window: Any) -> list[Element]:
        rows = _rows(elements, names)
        chosen: Iterable[Any] = called(step, rows[-1], choose, list(rows), window)
        places = {id(row): place for place, row in enumerate(rows)}
        try:
            return [elements[places[id(row)]] for row in chosen]
        except (KeyError, TypeError):
            msg = "an evictor returns some of the rows that it got"
            raise StepFailed(msg, step=step, found=repr(chosen)[:200], hint="return a list of those rows") from None

    return kept


def _rows(elements: list[Element], names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for _, row, _ in elements]
