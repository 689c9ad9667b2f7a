"""Reads state without running a job: a step's keys as an Arrow table, one key, or what differs between two states.

State comes from a savepoint or from the page stores of a step's subtasks; nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from millstream.checkpoint.page_file import PageReader
from millstream.checkpoint.savepoint import Savepoint
from millstream.contract.pages import PageStore
from millstream.errors import InvalidSchema
from millstream.inspect.state.schemas import key_schema
from millstream.inspect.state.tables import EntryTables, joined
from millstream.records.key_groups import key_group, stable_hash
from millstream.records.value_types import python_type
from millstream.state.compat.float_keys import canonical_key
from millstream.state.layout import StateLayout
from millstream.state.pages import EntryPage, StepPages
from millstream.state.segment import INDEX
from millstream.state.transfer.load import stored_layout

SIDE = "in"
_PAGE = msgspec.msgpack.Decoder(EntryPage)


class StepState(Protocol):
    """The stored pages of one step."""

    layout: StateLayout

    def contents(self, groups: range | None = None) -> Iterator[bytes]:
        """The pages of these key groups, all by default."""
        ...


class SavepointState:
    """A step in a savepoint."""

    def __init__(self, root: Path | str, savepoint: Savepoint, uid: str) -> None:
        self.layout = stored_layout(savepoint, uid)
        self._root, self._files = Path(root), savepoint.state.get(uid, [])

    def contents(self, groups: range | None = None) -> Iterator[bytes]:
        """The pages of these key groups, all by default."""
        for file in self._files:
            with PageReader(self._root, file) as reader:
                for page in reader.pages(groups):
                    yield page.content


class StoreState:
    """A step in the page stores of its subtasks."""

    def __init__(self, stores: Sequence[PageStore], layout: StateLayout) -> None:
        self.layout, self._stores = layout, stores

    def contents(self, groups: range | None = None) -> Iterator[bytes]:
        """The pages of these key groups, all by default."""
        for store in self._stores:
            pages = StepPages(store, self.layout.uid)
            for place, _ in pages:
                content = pages.read(place) if groups is None or place.group in groups else None
                if content is not None:
                    yield content


class LiveRows:
    """A ranking: the index of its rows marks those that were replaced and have not been merged away yet."""

    def __init__(self, rows: StepState, index: StepState) -> None:
        self.layout, self._rows, self._index = rows.layout, rows, index

    def contents(self, groups: range | None = None) -> Iterator[bytes]:
        """The pages of these key groups, all by default, without the rows that are marked."""
        schema = self.layout.column_schema
        for content, index in zip(self._rows.contents(groups), self._index.contents(groups), strict=True):
            marked = pa.ipc.read_record_batch(pa.py_buffer(index), INDEX).column("matched")
            rows = pa.ipc.read_record_batch(pa.py_buffer(content), schema)
            yield rows.filter(pc.invert(marked)).serialize().to_pybytes()


def state_table(state: StepState, *, groups: range | None = None) -> pa.Table:
    """All stored keys as a table, in the order of key groups and pages.

    A step of form `entries` gives its key columns, one column per slot, and `timers` with times in milliseconds since 1970.
    A slot that no Arrow type fits is JSON text; one named like a key is called `state.<name>`. A step of form `columns` gives
    its partial results as they are stored.
    """
    if state.layout.form == "columns":
        schema = state.layout.column_schema
        batches = [pa.ipc.read_record_batch(pa.py_buffer(content), schema) for content in state.contents(groups)]
        return pa.Table.from_batches(batches, schema)
    tables = EntryTables(state.layout)
    return joined([tables.of({}), *(tables.of(_PAGE.decode(content).entries) for content in state.contents(groups))])


def state_get(state: StepState, key: Sequence[Any]) -> pa.Table:
    """What is stored for one key, as rows of `state_table`; only the pages of its key group are read.

    Values of the key may be text, as a command line gives them.
    """
    fields, values = list(key_schema(state.layout)), _key_values(state.layout, key)
    columns = [pa.array([value], field.type) for value, field in zip(values, fields, strict=True)]
    group = int(key_group(stable_hash(columns), state.layout.key_groups)[0])
    groups = range(group, group + 1)
    if state.layout.form == "columns":
        return _rows_with(state_table(state, groups=groups), [field.name for field in fields], values)
    wanted, tables = canonical_key(msgspec.msgpack.encode(values)), EntryTables(state.layout)
    # An earlier version may have stored a floating-point key in another form, or in several.
    is_float = any(pa.types.is_floating(field.type) for field in fields)
    stored: dict[bytes, msgspec.Raw] = {}
    for content in state.contents(groups):
        entries = _PAGE.decode(content).entries
        names = [name for name in entries if canonical_key(name) == wanted] if is_float else {wanted} & entries.keys()
        stored |= {name: entries[name] for name in names}
    return tables.of(stored)


def state_diff(a: StepState, b: StepState) -> pa.Table:
    """What is stored in one state and not, or not the same, in the other; one key group is held at a time.

    The rows are those of `state_table`, with a column `in` before them: `a` or `b`. A key that changed has a row of each.
    """
    parts = [_sided(state_table(state, groups=range(0)), side) for state, side in ((a, "a"), (b, "b"))]
    for number in range(max(a.layout.key_groups, b.layout.key_groups)):
        group = range(number, number + 1)
        if a.layout.form == "columns":
            parts += _row_difference(state_table(a, groups=group), state_table(b, groups=group))
        else:
            parts += _entry_difference(a, b, group)
    return joined(parts)


def _entry_difference(a: StepState, b: StepState, group: range) -> Iterator[pa.Table]:
    in_a, in_b = ({k: bytes(v) for p in s.contents(group) for k, v in _PAGE.decode(p).entries.items()} for s in (a, b))
    for state, side, mine, other in ((a, "a", in_a, in_b), (b, "b", in_b, in_a)):
        kept = {key: msgspec.Raw(raw) for key, raw in mine.items() if other.get(key) != raw}
        if kept:
            yield _sided(EntryTables(state.layout).of(kept), side)


def _row_difference(a: pa.Table, b: pa.Table) -> Iterator[pa.Table]:
    rows = [[msgspec.msgpack.encode(row) for row in table.to_pylist()] for table in (a, b)]
    for table, side, mine, other in ((a, "a", rows[0], rows[1]), (b, "b", rows[1], rows[0])):
        matched = Counter(other)
        kept = []
        for place, row in enumerate(mine):
            matched[row] -= 1
            if matched[row] < 0:
                kept.append(place)
        if kept:
            yield _sided(table.take(pa.array(kept)), side)


def _sided(table: pa.Table, side: str) -> pa.Table:
    return table.add_column(0, SIDE, pa.array([side] * table.num_rows, pa.string()))


def _rows_with(table: pa.Table, names: list[str], key: tuple[Any, ...]) -> pa.Table:
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return table.take(pa.array([place for place, row in enumerate(rows) if _are_equal(row, key)], pa.int64()))


def _are_equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether keys are equal; NaN is one value."""
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))  # noqa: PLR0124


def _key_values(layout: StateLayout, key: Sequence[Any]) -> tuple[Any, ...]:
    schema = key_schema(layout)
    try:
        return tuple(
            msgspec.convert(value, python_type(field.type), strict=False)
            for value, field in zip(key, schema, strict=True)
        )
    except (msgspec.ValidationError, ValueError) as problem:
        msg = f"this is no key of the step: {problem}"
        raise InvalidSchema(
            msg,
            code="SAVE-011",
            step=layout.uid,
            found=list(key),
            known=schema.ddl,
            hint="give one value per key column",
        ) from problem
