"""`jdbc` sources of MySQL against a real MariaDB: the source contract, types and their extremes, ties, a killed job."""

import datetime as dt
import decimal
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
from tests.servers.proxy import Proxy
from tests.unit.connectors.jdbc.databases import Source, everything
from tests.unit.connectors.sources.source_contract import SourceContract

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE
from millstream.connectors.jdbc.reading import opening

pytest.importorskip("pymysql")
pytest.importorskip("connectorx")
pytestmark = pytest.mark.brokers
ROWS = [(number % 3, f"n-{number:02}", number * 7) for number in range(23)]


@pytest.fixture
def filled(mariadb_server):
    mariadb_server.execute("DROP TABLE IF EXISTS t")
    mariadb_server.execute("CREATE TABLE t (tenant bigint NOT NULL, name varchar(40) NOT NULL, n bigint NOT NULL)")
    mariadb_server.execute("CREATE UNIQUE INDEX t_key ON t (tenant, name)")
    mariadb_server.many("INSERT INTO t VALUES (%s, %s, %s)", ROWS)
    return mariadb_server


class MariadbUnderTest(Source):
    def __init__(self, server, spec, folder, proxy=None):
        super().__init__(spec, folder)
        self._server, self._proxy, self._added = server, proxy, 0

    def rows(self):
        names = self.schema.names
        return [dict(zip(names, row)) for row in self._server.execute(f"SELECT {', '.join(names)} FROM t")]

    def add(self, count):
        more = [(9, f"z-{self._added + number}", 1000 + self._added + number) for number in range(count)]
        self._server.many("INSERT INTO t VALUES (%s, %s, %s)", more)
        self._added += count

    def away(self):
        return None if self._proxy is None else self._proxy.away()

    def dispose(self):
        if self._proxy is not None:
            self._proxy.close()


class TestMariadbQuery(SourceContract):
    @pytest.fixture
    def source(self, filled, tmp_path, monkeypatch):
        monkeypatch.setattr(opening, "PATIENCE", 1.0)
        proxy = Proxy(filled.port)
        url = filled.url.replace(f":{filled.port}/", f":{proxy.port}/")
        spec = ms.jdbc_query(url, "SELECT n, name, tenant FROM t", key=["tenant", "name"], chunk_rows=2)
        return MariadbUnderTest(filled, spec, tmp_path / "log", proxy)


class TestMariadbTable(SourceContract):
    @pytest.fixture
    def source(self, filled, tmp_path):
        return MariadbUnderTest(filled, ms.jdbc_table(filled.url, "t", key="n"), tmp_path / "log")


class TestMariadbIncremental(SourceContract):
    @pytest.fixture
    def source(self, filled, tmp_path):
        return MariadbUnderTest(filled, ms.jdbc_table(filled.url, "t", incremental="n", poll="50ms"), tmp_path / "log")


@pytest.fixture
def open_source(tmp_path):
    opened, folders = [], iter(range(100))

    def open_one(spec, schema=None):
        opened.append(Source(spec, tmp_path / f"log-{next(folders)}", schema).opened())
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_types_and_their_extremes(mariadb_server, open_source):
    mariadb_server.execute("DROP TABLE IF EXISTS kinds")
    mariadb_server.execute(
        "CREATE TABLE kinds (id bigint PRIMARY KEY, tiny tinyint, big bigint, free bigint unsigned, real8 double, "
        "price decimal(38,10), words text CHARACTER SET utf8mb4, raw varbinary(10), day date, at datetime(6), seen timestamp(6))"
    )
    at = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)
    price = decimal.Decimal("-9999999999999999999999999999.9999999999")
    whole = (1, -128, -(2**63), 2**63 - 1, 0.1 + 0.2, price, "ünï 🦆 '\"\\", b"\x00\xff", dt.date(9999, 12, 31), at, at)
    mariadb_server.many(
        "INSERT INTO kinds VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", [whole, (2, *[None] * 10)]
    )
    schema = (
        "id long, tiny byte, big long, free long, real8 double, price decimal(38,10), words string, raw binary, day date, "
        "at timestamp_ntz, seen timestamp"
    )
    rows, _ = everything(open_source(ms.jdbc_table(mariadb_server.url, "kinds", key="id"), schema))
    first, second = sorted(rows, key=lambda row: row["id"])
    assert tuple(first.values())[:10] == whole[:10]
    assert first["seen"] == at.replace(tzinfo=dt.UTC)
    assert set(second.values()) == {2, None}


def test_text_keys_are_walked_in_the_order_of_the_server(mariadb_server, open_source):
    """Its collation takes small and capital letters for the same: chunks must neither lose nor repeat them."""
    mariadb_server.execute("DROP TABLE IF EXISTS words")
    mariadb_server.execute("CREATE TABLE words (word varchar(20) NOT NULL, n bigint NOT NULL, PRIMARY KEY (word, n))")
    words = [(word, number) for number in range(5) for word in ("a", "B", "c", "Zz", "ä", "O'Neil", "back\\slash")]
    mariadb_server.many("INSERT INTO words VALUES (%s, %s)", words)
    rows, path = everything(open_source(ms.jdbc_table(mariadb_server.url, "words", chunk_rows=3)), credit=4)
    assert Counter((row["word"], row["n"]) for row in rows) == Counter(words)
    assert len(path) > 5


_JOB = """
import sys
import millstream as ms
folder, url = sys.argv[1:]
job = ms.Job("from-mariadb", rows_per_epoch=100)
job.source("in", ms.jdbc_table(url, "many", key="id", chunk_rows=50)).sink("out", ms.files(folder + "/out"))
job.run(local=True, checkpoint=folder + "/checkpoint")
"""


def test_a_job_that_is_killed_goes_on_behind_its_last_key(mariadb_server, tmp_path):
    mariadb_server.execute("DROP TABLE IF EXISTS many")
    mariadb_server.execute("CREATE TABLE many (id bigint PRIMARY KEY, name varchar(20))")
    mariadb_server.execute("INSERT INTO many SELECT seq, concat('n', seq) FROM seq_1_to_700")
    for armed, code in (("durable:3:kill", -signal.SIGKILL), ("staged:2:kill", -signal.SIGKILL), ("", 0)):
        command = [sys.executable, "-c", _JOB, str(tmp_path), mariadb_server.url]
        done = subprocess.run(
            command, env={**os.environ, VARIABLE: armed}, check=False, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == code, done.stderr[-3000:]
    found = Counter((row["id"], row["name"]) for row in ms.read_files(str(tmp_path / "out")).to_pylist())
    assert found == Counter((number, f"n{number}") for number in range(1, 701))
