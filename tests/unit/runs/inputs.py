"""Input of each mode that grows and changes between runs, with what a source gives of it."""

import json
import sqlite3

from tests.unit.runs import stand_ins

import millstream as ms

SCHEMA = "id long, k string, n long"


def row(number, factor=1):
    return {"id": number, "k": "abc"[number % 3], "n": number * factor}


class Input:
    """Rows by id; `added` are new ones, `changed` have other content under their old id."""

    mode = "STREAMING"

    def __init__(self, root):
        self.root, self.rows, self.steps = root, {}, 0
        root.mkdir(parents=True)
        self.add(6)

    def add(self, count):
        first = len(self.rows) + 1
        fresh = {number: row(number) for number in range(first, first + count)}
        self.rows |= fresh
        self.steps += 1
        self.write(list(fresh.values()))
        return list(fresh.values())

    def change(self, *numbers):
        self.rows |= {number: row(number, factor=100) for number in numbers}
        self.rewrite(numbers)

    @property
    def all(self):
        return [self.rows[number] for number in sorted(self.rows)]


class FilesInput(Input):
    """A file for each time that rows were added."""

    def connector(self):
        return ms.files(self.root, format="json")

    def write(self, rows):
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (self.root / f"{self.steps:03d}.json").write_text(text)

    def rewrite(self, numbers):
        for path in sorted(self.root.iterdir()):
            ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
            if set(ids) & set(numbers):
                path.write_text("".join(json.dumps(self.rows[number]) + "\n" for number in ids))


class PagesInput(Input):
    mode = "BATCH_ROLLER"

    def connector(self):
        return stand_ins.pages(self.root / "items.jsonl")

    def write(self, rows):
        self.rewrite(())

    def rewrite(self, numbers):
        (self.root / "items.jsonl").write_text("".join(json.dumps(each) + "\n" for each in self.all))


class QueryInput(Input):
    mode = "SQL_TASK"

    def connector(self):
        return stand_ins.query(self.root / "items.db")

    def write(self, rows):
        self._run("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, k TEXT, n INTEGER)", [()])
        self._run("INSERT INTO items VALUES (?, ?, ?)", [(each["id"], each["k"], each["n"]) for each in rows])

    def rewrite(self, numbers):
        self._run("UPDATE items SET n = ? WHERE id = ?", [(self.rows[each]["n"], each) for each in numbers])

    def _run(self, statement, given):
        database = sqlite3.connect(self.root / "items.db")
        with database:
            database.executemany(statement, given)
        database.close()


INPUTS = {kind.mode: kind for kind in (FilesInput, PagesInput, QueryInput)}
