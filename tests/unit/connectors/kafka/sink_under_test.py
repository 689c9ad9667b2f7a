"""Lets the contract suite and the tests of faults look at a `kafka` sink from outside."""

import dataclasses
import itertools
import json
from pathlib import Path

from millstream.connectors.json_values import batches_from_json
from millstream.connectors.kafka.committer import KafkaCommitter
from millstream.connectors.kafka.sink import KafkaWriter
from millstream.connectors.kafka.spec import DECLARATION, kafka
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows


def options_of(spec):
    return checked_options(DECLARATION.sink.options, spec.options, step="out", name="kafka")


class KafkaUnderTest:
    """A sink with a topic of its own. Readers are others: they see what is committed."""

    can_truncate = False

    def __init__(self, broker, folder, *, partitions=2, servers=None, **options):
        self.broker, self.folder = broker, Path(folder)
        self.topic = broker.topic(partitions, name="out")
        # Marks of other tests on the same broker are not ours.
        named = {"prefix": f"test-{self.topic}", **options}
        self.options = options_of(kafka(self.topic, servers=servers or broker.servers, **named))
        self._opened = []

    def writer(self, task, schema):
        return KafkaWriter(self.options, schema, dataclasses.replace(task, staging=self._staging(task)))

    def committer(self, context, **changed):
        context = dataclasses.replace(context, staging=self._staging(context), **changed)
        self._opened.append(KafkaCommitter(self.options, context))
        return self._opened[-1]

    def _staging(self, whose):
        return str(self.folder / whose.job / whose.step / whose.lineage)

    def messages(self):
        return self.broker.read(self.topic)

    def visible(self, schema):
        values = [json.loads(message.value()) for message in self.messages()]
        rows = [batch_to_rows(batch) for batch in batches_from_json(values, schema)]
        return list(itertools.chain.from_iterable(rows))

    def _staged_files(self):
        return sorted(self.folder.rglob("*.arrow"))

    def staged(self):
        return len(self._staged_files())

    def lose_staged(self):
        self._staged_files()[0].unlink()
        return True

    def close(self):
        for committer in self._opened:
            committer.close()
