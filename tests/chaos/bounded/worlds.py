"""What jobs with an end read, and what their servers saw of it: pages of an API, ranges of a query, a topic."""

import contextlib
import json
import random
import re
from pathlib import Path

from tests.chaos.bounded.job import ROWS_PER_PAGE
from tests.servers.http import serving
from tests.servers.kafka import KafkaServer
from tests.servers.postgres import PostgresServer

LATER = 1_000_000
"""Ids from here on come after the first start."""
_LOWER, _UPPER = re.compile(r"\"id\" > '(-?\d+)'"), re.compile(r"\"id\" <= '(-?\d+)'")


def rows_of(seed, count):
    """The rows of a run."""
    chance = random.Random(f"{seed}/rows")
    return [{"id": n, "key": f"k{chance.randrange(7)}", "amount": chance.randrange(100)} for n in range(count)]


class HttpWorld:
    """An API of numbered pages, which counts the requests for each."""

    mode = "http"

    def __init__(self, opened):
        self._rows = []
        self._asked = []
        self._server = opened.enter_context(serving(self._answer))

    def fill(self, rows):
        self._rows, self._asked = rows, []
        return {"server": self._server.url}

    def _answer(self, asked):
        page = int(asked.query["page"])
        self._asked.append(page)
        return {"items": self._rows[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]}

    def add_later(self):
        """Nothing: new pages would belong to the run."""

    def fetched(self):
        """The ids on the pages that were asked for since the last call, page by page."""
        asked, self._asked = self._asked, []
        return [{row["id"] for row in self._rows[(n - 1) * ROWS_PER_PAGE : n * ROWS_PER_PAGE]} for n in asked]


class JdbcWorld:
    """A table whose server writes down every statement."""

    mode = "jdbc"

    def __init__(self, opened):
        self._server = PostgresServer(settings={"log_statement": "all"}).start()
        opened.callback(self._server.stop)
        self._table = self._read = 0

    def fill(self, rows):
        self._table += 1
        self._server.execute(f"CREATE TABLE t{self._table} (id bigint PRIMARY KEY, key text, amount bigint)")
        self._insert(rows)
        self._read = self._log.stat().st_size
        return {"server": self._server.url, "table": f"t{self._table}"}

    def _insert(self, rows):
        values = ", ".join(f"({row['id']}, '{row['key']}', {row['amount']})" for row in rows)
        self._server.execute(f"INSERT INTO t{self._table} VALUES {values}")

    def add_later(self):
        """Rows behind the bound that the first start froze."""
        self._insert([{"id": LATER, "key": "k0", "amount": 1}])

    @property
    def _log(self):
        return Path(self._server.folder) / "log"

    def fetched(self):
        """The ids of the ranges that were copied since the last call, range by range."""
        with self._log.open() as file:
            file.seek(self._read)
            text = file.read()
            self._read = file.tell()
        statements = text.split("LOG:  ")
        copies = [each for each in statements if "COPY (" in each and f"FROM t{self._table}" in each]
        return list(map(_between, copies))


def _between(statement):
    lower, upper = _LOWER.search(statement), _UPPER.search(statement)
    assert upper is not None, f"no range: {statement}"
    return set(range(int(lower[1]) + 1 if lower else 0, int(upper[1]) + 1))


class KafkaWorld:
    """A topic that goes on after the job has decided where it ends. Brokers do not tell who reads what: the job notes it."""

    mode = "kafka"

    def __init__(self, opened, broker=None):
        self._server = broker or KafkaServer()
        if broker is None:
            opened.callback(self._server.stop)
            self._server.start()

    def fill(self, rows):
        self._topic = self._server.topic(3)
        for number in range(3):
            texts = [json.dumps(row).encode() for row in rows[number::3]]
            self._server.send(self._topic, texts, partition=number)
        return {"server": self._server.servers, "topic": self._topic}

    def add_later(self):
        """Records behind the end that the first start froze."""
        later = {"id": LATER, "key": "k0", "amount": 1}
        self._server.send(self._topic, [json.dumps(later).encode()], partition=0)

    def fetched(self):
        return []


WORLDS = {"http": HttpWorld, "jdbc": JdbcWorld, "kafka": KafkaWorld}


@contextlib.contextmanager
def opened_world(mode, **servers):
    """The world of a mode; `broker` is one that is there already."""
    with contextlib.ExitStack() as opened:
        yield WORLDS[mode](opened, **servers)
