"""Options of the `print` sink."""

from __future__ import annotations

from typing import Any

from millstream.model.changelog import written_as_log
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SinkDeclaration
from millstream.model.guarantee import SinkCapability


def print_rows(**options: Any) -> ConnectorSpec:
    """Print the rows of each published epoch to standard output.

    Args:
        **options: `format` (`table` or `json`) and `limit`, rows to print of each epoch (`None` for all).
    """
    return ConnectorSpec("print", dict(options))


def _not_negative(value: int | None) -> int | None:
    if value is not None and value < 0:
        msg = "a number not below zero"
        raise ValueError(msg)
    return value


DECLARATION = ConnectorDeclaration(
    name="print",
    sink=SinkDeclaration(
        options={
            "format": Option(kind=(str,), default="table", choices=("table", "json"), doc="how rows look"),
            "limit": Option(
                kind=(int, type(None)), default=20, doc="rows to print of each epoch; None for all", check=_not_negative
            ),
        },
        capability=SinkCapability.AT_LEAST_ONCE,
        writer="millstream.connectors.print.sink:PrintWriter",
        takes_changes=written_as_log,
        committer="millstream.connectors.print.sink:PrintCommitter",
    ),
)
