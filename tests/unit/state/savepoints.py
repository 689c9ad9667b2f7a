"""State of several subtasks in dicts, savepoints of it, and what is in them."""

import msgspec
import numpy as np
import pyarrow as pa

from millstream.checkpoint.savepoint import Savepoint
from millstream.local.run import LocalPages
from millstream.model.schema import schema_of
from millstream.records.key_groups import key_group, owner, stable_hash
from millstream.state.columns import ColumnPages
from millstream.state.entries import Entries, pages_of
from millstream.state.layout import SlotLayout, StateLayout, columns_text
from millstream.state.pages import StepPages
from millstream.state.transfer.export import export_pages
from millstream.state.transfer.load import load_level, owned_groups

COLUMNS = pa.schema([("k", pa.int64()), ("bin", pa.int64()), ("n", pa.int64())])


def slot(name, kind="integer", **more):
    return SlotLayout(name=name, kind="value", type={"type": kind} if isinstance(kind, str) else kind, **more)


def entry_layout(*slots, uid="s", keys="k long", key_groups=16, level=1):
    return StateLayout(
        uid=uid, operation="process", form="entries", keys=keys, key_groups=key_groups, level=level, slots=list(slots)
    )


def column_layout(schema=COLUMNS, *, uid="c", key_groups=16, level=1):
    return StateLayout(
        uid=uid,
        operation="window",
        form="columns",
        keys="k long",
        key_groups=key_groups,
        level=level,
        columns=columns_text(schema),
    )


class Subtasks:
    """The page stores of the subtasks of one level."""

    def __init__(self, parallelism):
        self.parallelism = parallelism
        self.stores = [LocalPages({}) for _ in range(parallelism)]

    def __iter__(self):
        return iter(self.stores)

    def _owners(self, values, kind, key_groups):
        groups = key_group(stable_hash([pa.array(values, kind)]), key_groups)
        return owner(groups, key_groups, self.parallelism)

    def entries(self, layout, types, subtask, limit=2000):
        pages = StepPages(self.stores[subtask], layout.uid)
        keys = schema_of(layout.keys)
        return Entries(pages, keys, list(types), key_groups=layout.key_groups, page_bytes=limit)

    def fill(self, layout, types, content, limit=2000):
        """Store `{key: (slots, event timers, processing timers, expiry)}`."""
        kind = next(iter(schema_of(layout.keys))).type
        keys = list(content)
        owners = self._owners(keys, kind, layout.key_groups)
        for subtask in range(self.parallelism):
            entries = self.entries(layout, types, subtask, limit)
            mine = [keys[place] for place in np.flatnonzero(owners == subtask)]
            for key, place in zip(
                mine, pages_of(entries.page_numbers([pa.array(mine, kind)])) if mine else [], strict=True
            ):
                entry = entries.entry((key,), place)
                slots, event, processing, expiry = content[key]
                entry.slots, entry.event_timers, entry.processing_timers = list(slots), set(event), set(processing)
                entry.expiry, entry.is_dirty = expiry, True
            entries.flush()

    def read(self, layout, types):
        """What `fill` stored, found the way an operator finds it: by key."""
        found = {}
        for subtask, store in enumerate(self.stores):
            entries = self.entries(layout, types, subtask)
            for place, _ in StepPages(store, layout.uid):
                for encoded in list(entries._load(place).entries):
                    key = entries._key_decoder.decode(encoded)
                    kind = next(iter(schema_of(layout.keys))).type
                    assert pages_of(entries.page_numbers([pa.array([key[0]], kind)])) == [place]
                    assert self._owners([key[0]], kind, layout.key_groups)[0] == subtask
                    entry = entries.entry(key, place)
                    assert key[0] not in found
                    found[key[0]] = (
                        tuple(entry.slots),
                        sorted(entry.event_timers),
                        sorted(entry.processing_timers),
                        entry.expiry,
                    )
        return found

    def columns(self, layout, subtask, schema=COLUMNS, limit=600):
        pages = StepPages(self.stores[subtask], layout.uid)
        return ColumnPages(pages, schema, ("k",), key_groups=layout.key_groups, page_bytes=limit)

    def fill_columns(self, layout, rows, schema=COLUMNS):
        table = pa.Table.from_pylist(rows, schema)
        owners = self._owners(table.column("k").to_pylist(), pa.int64(), layout.key_groups)
        for subtask in range(self.parallelism):
            mine = table.take(pa.array(np.flatnonzero(owners == subtask)))
            self.columns(layout, subtask, schema).store(mine, lambda t: np.asarray(t.column("bin").combine_chunks()))

    def read_columns(self, layout, schema=COLUMNS):
        found = []
        for subtask in range(self.parallelism):
            pages = self.columns(layout, subtask, schema)
            table = pages.load(pages.everything())
            assert pages.touched(table) <= pages.everything()
            assert set(self._owners(table.column("k").to_pylist(), pa.int64(), layout.key_groups)) <= {subtask}
            found += table.to_pylist()
        return sorted(found, key=lambda row: (row["k"], row["bin"]))


def savepoint_of(root, subtasks, layouts, *, attempt="a"):
    """Export every subtask of every level and collect the files, as the driver does."""
    state = {}
    for level in sorted({layout.level for layout in layouts.values()}):
        for subtask, store in enumerate(subtasks):
            made = export_pages(store, layouts, root, level=level, subtask=subtask, attempt=attempt)
            for uid, file in made.items():
                state.setdefault(uid, []).append(file)
    return Savepoint(
        id="t",
        kind="canonical",
        job="j",
        lineage="l",
        history=[("l", 4)],
        epoch=4,
        token=1,
        guarantee="exactly_once",
        fingerprint="f",
        fingerprint_steps={},
        parallelism=subtasks.parallelism,
        key_groups=16,
        engine="local",
        plan={},
        planner={},
        layouts={uid: msgspec.to_builtins(layout) for uid, layout in layouts.items()},
        state=state,
        created_at="2026",
        version="0",
    )


def restored(root, savepoint, layouts, parallelism, *, now=1000, slots=None, subtasks=None):
    """Load every subtask at a parallelism; returns the subtasks and what was loaded per uid."""
    subtasks = subtasks or Subtasks(parallelism)
    loaded = {}
    for level in sorted({layout.level for layout in layouts.values()}):
        for subtask, store in enumerate(subtasks):
            groups = owned_groups(subtask, parallelism, next(iter(layouts.values())).key_groups)
            code = (lambda uid: slots) if slots is not None else (lambda uid: {})
            made = load_level(root, savepoint, store, layouts, level=level, groups=groups, now=now, slots=code)
            for uid, counts in made.items():
                loaded[uid] = tuple(map(sum, zip(loaded.get(uid, (0, 0)), counts, strict=True)))
    return subtasks, loaded
