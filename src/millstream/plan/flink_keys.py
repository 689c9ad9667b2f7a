"""A key of Flink's configuration is refused with what stands here instead of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millstream.errors import InvalidPlan
from millstream.plan.flink_options import FLINK_OPTIONS, FlinkOption


def flink_option(key: str) -> FlinkOption | None:
    """The answer to a key of Flink's configuration; nothing if it is not one."""
    fitting = [(len(known), option) for option in FLINK_OPTIONS for known in option.keys if _fits(key, known)]
    return max(fitting, key=lambda fit: fit[0])[1] if fitting else None


def _fits(key: str, known: str) -> bool:
    return key.startswith(known[:-1]) if known.endswith("*") else key == known


def refuse_flink_key(key: str) -> None:
    """Say what stands here instead of an option of Flink."""
    option = flink_option(key)
    if option is None:
        return
    msg = f"{key} is an option of Flink ({option.subject}); here {option.line}"
    hint = f"remove it; {option.reason}" if option.reason else "remove it"
    raise InvalidPlan(msg, code="PLAN-061", hint=f"{hint}; see docs/differences-from-flink.md")


def refuse_flink_keys(content: Mapping[str, Any]) -> None:
    """The same for a file that may hold Flink's keys flat or nested, as in `execution: {checkpointing: {interval: 3s}}`."""
    for key in _flat(content):
        refuse_flink_key(key)


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def options_table() -> list[str]:
    """The table as Markdown."""
    rows = ["| option in Flink | there | here | reason |", "|---|---|---|---|"]
    for option in FLINK_OPTIONS:
        names = ", ".join(f"`{name}`" for name in option.names.split())
        rows.append(f"| {option.subject} | {names} | **{option.answer}**: {option.here} | {option.reason} |")
    return rows
