"""Sources of the two bounded modes that need no server: pages of items from a file, and a query over a table of SQLite.

Both promise what theirs do: what was fetched or frozen is written down before it counts, and a next run goes on behind the last.
"""

import json
import sqlite3
from pathlib import Path

import pyarrow as pa

from millstream import registry
from millstream.connectors.decided import decided_once
from millstream.contract.source import Advance, Split
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.mode import Mode

NAMES = ("stand_in_pages", "stand_in_query")


def register():
    """Make the stand-ins known by name, as entry points would."""
    for name, declared in zip(NAMES, ("PAGES", "QUERY"), strict=True):
        registry._OURS["connectors"][name] = f"{__name__}:{declared}"


def forget():
    for name in NAMES:
        registry._OURS["connectors"].pop(name, None)


def pages(path, size=2):
    return ConnectorSpec("stand_in_pages", {"path": str(path), "size": size})


def query(path):
    return ConnectorSpec("stand_in_query", {"path": str(path)})


class PagesEnumerator:
    """A position is the id of the last item and the number of pages fetched; a page lies in the folder once it was fetched."""

    def __init__(self, options, context):
        self._path, self._size, self._context = Path(options["path"]), options["size"], context

    def initial(self):
        return {"item": 0, "page": 0}

    def next_run(self, position):
        return {"item": position["item"], "page": 0}

    def _page(self, position):
        name = f"page-{self._context.lineage}-{position['page']}-{position['item']}"
        return decided_once(self._context.log_dir, name, lambda: self._fetched(position["item"]))

    def _fetched(self, after):
        items = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [item for item in items if item["id"] > after][: self._size]

    def advance(self, start, credit):
        if not credit:
            return Advance(position=start)
        items = self._page(start)
        if not items:
            return Advance(position=start, finished=True)
        position = {"item": items[-1]["id"], "page": start["page"] + 1}
        return Advance(position=position, finished=len(items) < self._size)

    def splits(self, start, end):
        found = []
        while start != end:
            items = self._page(start)
            found.append(Split("0", items, len(items)))
            start = {"item": items[-1]["id"], "page": start["page"] + 1}
        return found

    def acknowledge(self, position):
        pass

    def close(self):
        pass


class RowsReader:
    def __init__(self, options, schema):
        self._schema = schema.arrow

    def read(self, split):
        yield pa.RecordBatch.from_pylist(split, schema=self._schema)

    def close(self):
        pass


class QueryEnumerator:
    """A position is the last key that was read and the highest one to read, which is frozen when the run begins."""

    def __init__(self, options, context):
        self._path, self._context = options["path"], context

    def _upper(self):
        return decided_once(self._context.log_dir, f"upper-{self._context.lineage}", self._highest)

    def _highest(self):
        with sqlite3.connect(self._path) as database:
            return database.execute("SELECT coalesce(max(id), 0) FROM items").fetchone()[0]

    def initial(self):
        return {"at": 0, "upper": self._upper()}

    def next_run(self, position):
        return {"at": position["at"], "upper": self._upper()}

    def advance(self, start, credit):
        if not credit:
            return Advance(position=start)
        end = {"at": min(start["at"] + int(credit), start["upper"]), "upper": start["upper"]}
        return Advance(position=end, finished=end["at"] == end["upper"])

    def splits(self, start, end):
        return [Split("0", [self._path, start["at"], end["at"]], end["at"] - start["at"])]

    def acknowledge(self, position):
        pass

    def close(self):
        pass


class QueryReader(RowsReader):
    def read(self, split):
        path, low, high = split
        with sqlite3.connect(path) as database:
            found = database.execute("SELECT id, k, n FROM items WHERE id > ? AND id <= ? ORDER BY id", (low, high))
            rows = [dict(zip(("id", "k", "n"), row, strict=True)) for row in found]
        yield pa.RecordBatch.from_pylist(rows, schema=self._schema)


def _declared(name, mode, enumerator, reader, **options):
    return ConnectorDeclaration(
        name=name,
        source=SourceDeclaration(
            options={"path": Option(kind=(str,), doc="where"), **options},
            capability=SourceCapability.REPLAYABLE,
            enumerator=f"{__name__}:{enumerator}",
            reader=f"{__name__}:{reader}",
            is_bounded=lambda _: True,
            mode=mode,
        ),
    )


SIZE = Option(kind=(int,), default=2, doc="items of a page")
PAGES = _declared(NAMES[0], Mode.BATCH_ROLLER, "PagesEnumerator", "RowsReader", size=SIZE)
QUERY = _declared(NAMES[1], Mode.SQL_TASK, "QueryEnumerator", "QueryReader")
