"""Opens a `files` source and reads it as a run would."""

import json

from millstream.connectors.files.source import FilesEnumerator, FilesReader
from millstream.connectors.files.spec import DECLARATION, files
from millstream.contract.source import BadRecord, SourceContext
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows

SCHEMA = schema_of("n long, name string")


def opened(path, schema=SCHEMA, log_dir=None, token=1, **options):
    spec = files(path, **options)
    checked = checked_options(DECLARATION.source.options, spec.options, step="in", name="files")
    context = SourceContext(step="in", schema=schema, log_dir=log_dir, parallelism=2, token=token)
    return FilesEnumerator(checked, context), FilesReader(checked, schema)


def read(enumerator, reader, start, end):
    found = []
    for split in enumerator.splits(start, end):
        for part in reader.read(json.loads(json.dumps(split.body))):
            found.extend([part] if isinstance(part, BadRecord) else batch_to_rows(part))
    return found


def everything(enumerator, reader, credit=1000):
    position, found = enumerator.initial(), []
    while True:
        advance = enumerator.advance(position, credit)
        found += read(enumerator, reader, position, advance.position)
        if advance.finished:
            return found
        position = advance.position
