"""Lets the contract suite and the tests of faults look at a `nats` sink from outside."""

import dataclasses
import json
import uuid

import millstream as ms
from millstream.connectors.json_values import batches_from_json
from millstream.connectors.nats.sink import NatsCommitter, NatsWriter
from millstream.connectors.nats.spec import DECLARATION
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows


class NatsSinkUnderTest:
    """A sink with a stream of its own, which the sink makes."""

    can_truncate = False

    def __init__(self, server, folder, *, servers=None, **options):
        self.server, self.root, self._opened = server, folder / "staging", []
        self.stream = f"out{uuid.uuid4().hex[:12]}"
        self.subject = f"{self.stream}.rows"
        given = ms.nats(self.stream, servers=servers or server.servers, publish_to=self.subject, **options).options
        self.options = checked_options(DECLARATION.sink.options, given, step="out", name="nats")

    def _staging(self, who):
        return str(self.root / who.job / who.step / who.lineage)

    def writer(self, task, schema):
        return NatsWriter(self.options, schema, dataclasses.replace(task, staging=self._staging(task)))

    def committer(self, context, **changed):
        context = dataclasses.replace(context, staging=self._staging(context), **changed)
        self._opened.append(NatsCommitter(self.options, context))
        return self._opened[-1]

    def messages(self):
        return self.server.read(self.stream, self.subject)

    def visible(self, schema):
        values = [json.loads(message.data) for message in self.messages()]
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
