"""A Python function with state in PyFlink: a running count of each bidder's bids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Row, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

_OUTPUT = Types.ROW_NAMED(["bidder", "n"], [Types.LONG(), Types.LONG()])


class CountBids(KeyedProcessFunction):
    """How many bids of a bidder there were so far, with each bid."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        """Count a bid."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(value[0], count)


def counted(confs: dict[str, str], bids: str) -> tuple[StreamTableEnvironment, Any]:
    """The counts as a table, and the environment they are computed in; `bids` creates the table of bids."""
    configuration = Configuration()
    for name, value in confs.items():
        configuration.set_string(name, value)
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(configuration))
    tables.execute_sql(bids)
    rows = tables.to_data_stream(tables.sql_query("SELECT bidder FROM bid"))
    made = rows.key_by(lambda row: row[0], key_type=Types.LONG()).process(CountBids(), output_type=_OUTPUT)
    return tables, tables.from_data_stream(made)
