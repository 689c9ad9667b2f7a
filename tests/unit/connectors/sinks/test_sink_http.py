"""The http sink passes the sink contract, against a server that takes a request of one name once."""

import dataclasses
import json
import threading
from collections import Counter

import pytest
from tests.servers.http import Reply, serving
from tests.unit.connectors.sinks.contract import SinkContract
from tests.unit.connectors.sinks.under_test import ids

import millstream as ms
from millstream.connectors.http.sink import HttpCommitter, HttpWriter
from millstream.connectors.http.spec import DECLARATION
from millstream.connectors.json_values import batches_from_json
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows
from millstream.testing.sink_race import race


class Receiver:
    """Keeps the body of each request by its name; another body of the same name is refused."""

    def __init__(self):
        self.kept, self._lock = {}, threading.Lock()

    def __call__(self, asked):
        key = asked.headers["idempotency-key"]
        with self._lock:
            if self.kept.setdefault(key, asked.body) != asked.body:
                return Reply({"error": "another body"}, status=422)
        return Reply({}, status=201)

    def rows(self):
        with self._lock:
            return [row for body in self.kept.values() for row in json.loads(body)]


class HttpUnderTest:
    can_truncate = False

    def __init__(self, folder, url, receiver):
        self.root, self.receiver, self._opened = folder / "staging", receiver, []
        given = ms.http(f"{url}/rows", allow_private=True, batch_rows=1000).options
        self.options = checked_options(DECLARATION.sink.options, given, step="out", name="http")

    def _staging(self, who):
        return str(self.root / who.job / who.step / who.lineage)

    def writer(self, task, schema):
        return HttpWriter(self.options, schema, dataclasses.replace(task, staging=self._staging(task)))

    def committer(self, context):
        self._opened.append(HttpCommitter(self.options, dataclasses.replace(context, staging=self._staging(context))))
        return self._opened[-1]

    def visible(self, schema):
        parts = batches_from_json(self.receiver.rows(), schema)
        return [row for part in parts for row in batch_to_rows(part)]

    def _files(self):
        return sorted(self.root.rglob("*.arrow"))

    def staged(self):
        return len(self._files())

    def lose_staged(self):
        self._files()[0].unlink()
        return True

    def close(self):
        for each in self._opened:
            each.close()


@pytest.fixture(scope="module")
def server():
    with serving(lambda asked: {}) as running:
        yield running


class TestHttp(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path, server):
        server.answer = receiver = Receiver()
        sink = HttpUnderTest(tmp_path, server.url, receiver)
        yield sink
        sink.close()

    def test_concurrent_committers_leave_each_epoch_once(self, sink):
        """A receiver knows no tokens: an owner that is replaced while it sends has sent what its successor sends again."""
        outcome = race(sink, seed=7)
        assert outcome.unexpected == []
        assert outcome.published
        found = Counter(ids(sink))
        assert set(found.values()) == {1}
        for epoch, content in outcome.content.items():
            there = [row["id"] in found for row in content]
            assert all(there) or epoch not in outcome.published
