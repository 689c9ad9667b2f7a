"""Queues as the contract suites see them."""

import dataclasses
import json

import millstream as ms
from millstream.connectors.json_values import batches_from_json
from millstream.connectors.rabbitmq.sink import RabbitCommitter, RabbitWriter
from millstream.connectors.rabbitmq.spec import DECLARATION
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows
from millstream.testing.source_under_test import SourceUnderTest

SCHEMA = schema_of("n long, user string")


def encoded(rows):
    return [json.dumps(row).encode() for row in rows]


def numbered(first, count):
    return [{"n": number, "user": f"u{number % 3}"} for number in range(first, first + count)]


class RabbitUnderTest(SourceUnderTest):
    """A queue of its own; `options` are those of the source."""

    schema = SCHEMA

    def __init__(self, server, folder, *, count=23, url=None, arguments=None, **options):
        self.server, self.folder = server, folder
        self.queue = server.queue(stream=options.get("kind") == "stream", **(arguments or {}))
        self.is_bounded = "until" in options
        self._rows = []
        self.add(count)
        self.spec = ms.rabbitmq(self.queue, url=url or server.url, **options)

    def rows(self):
        return list(self._rows)

    def add(self, count):
        rows = numbered(len(self._rows), count)
        self.server.send(self.queue, encoded(rows))
        self._rows += rows

    def with_options(self, **options):
        self.spec = dataclasses.replace(self.spec, options={**self.spec.options, **options})
        return self


class RabbitSinkUnderTest:
    """A sink with a queue of its own, which the sink makes."""

    can_truncate = False

    def __init__(self, server, folder, *, url=None, **options):
        self.server, self.root, self._opened = server, folder / "staging", []
        self.queue = f"out-{folder.name}"
        given = ms.rabbitmq(self.queue, url=url or server.url, **options).options
        self.options = checked_options(DECLARATION.sink.options, given, step="out", name="rabbitmq")

    def _staging(self, who):
        return str(self.root / who.job / who.step / who.lineage)

    def writer(self, task, schema):
        return RabbitWriter(self.options, schema, dataclasses.replace(task, staging=self._staging(task)))

    def committer(self, context):
        context = dataclasses.replace(context, staging=self._staging(context))
        self._opened.append(RabbitCommitter(self.options, context))
        return self._opened[-1]

    def messages(self):
        return self.server.read(self.queue)

    def visible(self, schema):
        values = [json.loads(message.body) for message in self.messages()]
        return [row for part in batches_from_json(values, schema) for row in batch_to_rows(part)]

    def files(self):
        return sorted(self.root.rglob("*.arrow"))

    def staged(self):
        return len(self.files())

    def lose_staged(self):
        self.files()[0].unlink()
        return True

    def close(self):
        for each in self._opened:
            each.close()
