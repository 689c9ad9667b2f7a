"""Options of the `collect` sink."""

from __future__ import annotations

from millstream.model.changelog import written_as_log
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SinkDeclaration
from millstream.model.guarantee import SinkCapability


def collect(name: str) -> ConnectorSpec:
    """Keep published rows in this process, for tests and examples; `collected(name)` returns them.

    Args:
        name: under which the rows are kept; several sinks may share one.
    """
    return ConnectorSpec("collect", {"name": name})


DECLARATION = ConnectorDeclaration(
    name="collect",
    sink=SinkDeclaration(
        options={"name": Option(kind=(str,), doc="under which the rows are kept")},
        capability=SinkCapability.STAGED_ATOMIC_COMMIT,
        writer="millstream.connectors.collect.sink:CollectWriter",
        takes_changes=written_as_log,
        committer="millstream.connectors.collect.sink:CollectCommitter",
    ),
)
