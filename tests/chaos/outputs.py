"""What the sinks hold: rows, markers, leftovers, and the audit of accepted tokens."""

import contextlib
import datetime as dt
import json
import sqlite3
from collections import Counter, namedtuple
from pathlib import Path

import psycopg

import millstream as ms
from millstream.connectors.files.published import PublishedLists
from millstream.connectors.files.store import LISTS

COLUMNS = {
    "plain": ("source", "seq", "key", "amount", "at"),
    "running": ("source", "key", "seq", "n", "total"),
    "bells": ("source", "key", "rang"),
    "latest": ("source", "key", "n", "total"),
    "windows": ("source", "key", "window_start", "n", "total"),
}
DEAD = ("a.dead", "b.dead", "checked.dead")
Marker = namedtuple("Marker", "sink lineage epoch token rows digest")
_AUDITED = {"millstream_marker": ("INSERT",), "millstream_fence": ("INSERT", "UPDATE")}


class Outputs:
    """The sinks of one round, read past the job."""

    def __init__(self, config, server):
        self._folder, self._streams, self._schema = Path(config["folder"]), config["streams"], config["schema"]
        self._server = server

    # Rows.

    def rows(self, stream):
        """The visible rows of a stream as a multiset."""
        columns, kind = COLUMNS[stream], self._streams[stream]
        if kind == "files":
            found = self._listed_rows(stream)
            return Counter(tuple(plain(row[name]) for name in columns) for row in found)
        table = f"{stream}_published" if kind == "outbox" else stream
        with self._database(kind) as execute:
            names = ", ".join(f'"{name}"' for name in columns)
            return Counter(tuple(map(plain, row)) for row in execute(f"SELECT {names} FROM {table}"))

    def dead(self):
        """The dead letters: the source and text of broken lines, the place of refused rows."""
        found = Counter()
        for sink in DEAD:
            for row in self._listed_rows(sink):
                if sink == "checked.dead":
                    record = json.loads(row["record"])
                    found[("checked", record["source"], record["seq"])] += 1
                else:
                    found[(row["step"], row["record"])] += 1
        return found

    def _listed_rows(self, sink):
        path = self._folder / "out" / sink
        return ms.read_files(path).to_pylist() if (path / LISTS).exists() else []

    def differences(self, stream, wanted):
        """Rows that the database itself finds on one side only (`EXCEPT ALL`, both ways); PostgreSQL only."""
        columns, table = COLUMNS[stream], self._shown(stream)
        names = ", ".join(f'"{name}"' for name in columns)
        with psycopg.connect(self._server.url) as connection:
            connection.execute(f"SET search_path = {self._schema}")
            connection.execute(f"CREATE TEMP TABLE wanted ON COMMIT DROP AS SELECT {names} FROM {table} LIMIT 0")
            with connection.cursor().copy(f"COPY wanted ({names}) FROM STDIN") as copy:
                for row in wanted.elements():
                    copy.write_row(row)
            one_way = f"SELECT {names} FROM {table} EXCEPT ALL SELECT {names} FROM wanted"
            other_way = f"SELECT {names} FROM wanted EXCEPT ALL SELECT {names} FROM {table}"
            return len(connection.execute(one_way).fetchall()), len(connection.execute(other_way).fetchall())

    def _shown(self, stream):
        return f"{stream}_published" if self._streams[stream] == "outbox" else stream

    # Bookkeeping.

    def markers(self):
        """Every marker of every sink."""
        found = []
        for root in sorted((self._folder / "out").glob("*")):
            found += [
                Marker(each.step, each.lineage, each.epoch, each.token, each.rows, content_of(each.files))
                for each in PublishedLists(root).new()
            ]
        for kind in self._kinds():
            with self._database(kind) as execute:
                found += [
                    Marker(*row)
                    for row in execute("SELECT step, lineage, epoch, token, rows, digest FROM millstream_marker")
                ]
        return found

    def leftovers(self):
        """Rows and files that were staged and are neither published nor removed."""
        found = {}
        for root in (self._folder / "out").glob("*"):
            listed = {root / file.path for each in PublishedLists(root).new() for file in each.published()}
            if count := sum(path not in listed for path in root.rglob("part-*")):
                found[root.name] = count
        for kind in self._kinds():
            with self._database(kind) as execute:
                unpublished = execute("SELECT count(*) FROM millstream_part WHERE NOT is_published")[0][0]
                rows = sum(execute(f'SELECT count(*) FROM "{table}"')[0][0] for table in self._staging(kind, execute))
                if unpublished or rows:
                    found[kind] = unpublished + rows
        return found

    def prepared_transactions(self):
        """Of the PostgreSQL server, whoever's they are."""
        if "postgres" not in self._kinds():
            return 0
        with self._database("postgres") as execute:
            return execute("SELECT count(*) FROM pg_prepared_xacts")[0][0]

    def _staging(self, kind, execute):
        if kind == "sqlite":
            found = execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'millstream_staging%'")
        else:
            found = execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema "
                "AND tablename LIKE 'millstream_staging%'"
            )
        return [name for (name,) in found]

    # The audit.

    def install_audit(self):
        """From now on each database records, in order of acceptance, every token its fences and markers take."""
        for kind in self._kinds():
            with self._database(kind) as execute:
                for statement in _sqlite_audit() if kind == "sqlite" else _postgres_audit():
                    execute(statement)

    def audit(self):
        """Accepted tokens per (database, lineage, step), in order."""
        found = {}
        for kind in self._kinds():
            with self._database(kind) as execute:
                for lineage, step, token in execute("SELECT lineage, step, token FROM audit ORDER BY id"):
                    found.setdefault((kind, lineage, step), []).append(token)
        return found

    def _kinds(self):
        kinds = set(self._streams.values())
        return [*(["sqlite"] if "sqlite" in kinds else []), *(["postgres"] if kinds - {"sqlite", "files"} else [])]

    @contextlib.contextmanager
    def _database(self, kind):
        if kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self._folder / "sink.db", timeout=30)) as connection, connection:
                yield lambda text: connection.execute(text).fetchall()
            return
        with psycopg.connect(self._server.url) as connection:
            connection.execute(f"SET search_path = {self._schema}")

            def execute(text):
                cursor = connection.execute(text)
                return cursor.fetchall() if cursor.description else []

            yield execute


def content_of(files):
    """A list's files without their attempts: what a replay would write again."""
    return json.dumps([[file["partition"], file["rows"], file["bytes"], file["crc32"]] for file in files])


def plain(value):
    if isinstance(value, dt.datetime):
        return round(value.replace(tzinfo=value.tzinfo or dt.UTC).timestamp() * 1000)
    if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
        moment = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        return round(moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp() * 1000)
    return value


def _sqlite_audit():
    yield "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, lineage TEXT, step TEXT, token BIGINT)"
    for table, events in _AUDITED.items():
        for event in events:
            insert = "INSERT INTO audit (lineage, step, token) VALUES (NEW.lineage, NEW.step, NEW.token)"
            yield f"CREATE TRIGGER audit_{table}_{event} AFTER {event} ON {table} BEGIN {insert}; END"


def _postgres_audit():
    yield "CREATE TABLE audit (id BIGSERIAL, lineage TEXT, step TEXT, token BIGINT)"
    insert = "INSERT INTO %I.audit (lineage, step, token) VALUES ($1, $2, $3)"
    yield (
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN "
        f"EXECUTE format('{insert}', TG_TABLE_SCHEMA) USING NEW.lineage, NEW.step, NEW.token; RETURN NEW; END $body$"
    )
    for table, events in _AUDITED.items():
        yield f"CREATE TRIGGER audited AFTER {' OR '.join(events)} ON {table} FOR EACH ROW EXECUTE FUNCTION noted()"
