"""Jobs that run while processes of the service are killed, and what they have to put out: plain arithmetic, none of our code."""

import collections
import dataclasses
from pathlib import Path

import psycopg

import millstream as ms

PACE = 20
MODULUS = 7
BOUNDED_ROWS = 200


@dataclasses.dataclass(frozen=True)
class ChaosJob:
    """One job: numbers from 0 as they are, and how many of each kind were counted; one manifest moves both."""

    name: str
    folder: Path
    engine: str = "local"
    rows: int | None = None
    database: str | None = None

    @property
    def definition(self):
        source = {"rate": {"rows_per_second": PACE if self.rows is None else 1000, "rows": self.rows}}
        counted = {"aggregate": {"n": "count()"}, "key_by": "k", "id": "n", "input": "kinds"}
        steps = [
            {"source": "s", "from": {"rate": {k: v for k, v in source["rate"].items() if v is not None}}},
            {"with_columns": {"k": f"value % {MODULUS}"}, "id": "kinds"},
            {"select": ["value"], "id": "values", "input": "kinds"},
            {"sink": "all", "to": self._sink},
            counted,
            {"sink": "counts", "to": {"files": {"path": str(self.folder / "counts")}}},
        ]
        paced = {"rows_per_epoch": 50} if self.rows is not None else {"epoch_interval": "1s"}
        return {"kind": "declarative", "document": {"job": self.name, **paced, "steps": steps}}

    @property
    def _sink(self):
        if self.database is None:
            return {"files": {"path": str(self.folder / "all")}}
        return {"jdbc": {"url": self.database, "table": self.table}}

    @property
    def table(self):
        return self.name.replace("-", "_")

    def values(self):
        if self.database is None:
            return _column(self.folder / "all", "value")
        with psycopg.connect(self.database) as connection:
            return [row[0] for row in connection.execute(f"SELECT value FROM {self.table}").fetchall()]

    def counts(self):
        found = collections.Counter()
        path = self.folder / "counts"
        for row in ms.read_files(path).to_pylist() if path.exists() else ():
            found[row["k"]] = max(found[row["k"]], row["n"])
        return found

    def judged(self):
        """How many numbers are lost and how many are there twice; the counts are an output too."""
        values = collections.Counter(self.values())
        last = max(values, default=-1) if self.rows is None else self.rows - 1
        expected = collections.Counter(number % MODULUS for number in range(last + 1))
        counts = self.counts()
        lost = sum(number not in values for number in range(last + 1)) + (expected - counts).total()
        doubled = sum(count - 1 for count in values.values()) + (counts - expected).total()
        return {"lost": lost, "doubled": doubled, "rows": last + 1}


def _column(path, name):
    return ms.read_files(path).column(name).to_pylist() if path.exists() else []


def jobs_of(folder, database, *, endless, spark):
    """Endless jobs into files and, every third, into PostgreSQL."""
    made = [
        ChaosJob(f"endless-{number}", folder / f"endless-{number}", database=database if number % 3 == 2 else None)
        for number in range(endless)
    ]
    return made + [ChaosJob(f"spark-{number}", folder / f"spark-{number}", engine="spark") for number in range(spark)]


def prepared(server, jobs):
    """The tables that sinks write to."""
    for job in jobs:
        if job.database is not None:
            server.execute(f"CREATE TABLE {job.table} (value bigint NOT NULL)")
