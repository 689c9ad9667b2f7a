"""All functions an expression may call, by group; the reference page is checked against this table."""

from __future__ import annotations

from millstream.graph.expressions import choices, dates, numbers, strings
from millstream.graph.expressions.function import Function

GROUPS: dict[str, dict[str, Function]] = {
    "Strings": strings.FUNCTIONS,
    "Numbers": numbers.FUNCTIONS,
    "Dates and timestamps": dates.FUNCTIONS,
    "Choices, arrays and maps": choices.FUNCTIONS,
}
FUNCTIONS: dict[str, Function] = {name: function for group in GROUPS.values() for name, function in group.items()}

NOT_DETERMINISTIC = frozenset(
    {
        "current_catalog", "current_database", "current_date", "current_time", "current_timestamp", "current_timezone",
        "current_user", "input_file_name", "localtimestamp", "monotonically_increasing_id", "now", "rand", "randn",
        "random", "randstr", "session_user", "shuffle", "spark_partition_id", "unix_timestamp", "uniform", "user",
        "uuid",
    }
)  # fmt: skip
"""Functions that would give other answers when an epoch is replayed; refused by name."""
