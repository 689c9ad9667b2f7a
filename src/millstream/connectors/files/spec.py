"""Options of the `files` source and sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.connectors.formats.debezium.options import DEBEZIUM, changelog_of, check_debezium, check_told
from millstream.connectors.formats.options import one_character
from millstream.errors import InvalidStep
from millstream.model.changelog import Changelog, written_as_log
from millstream.model.connector import (
    ConnectorDeclaration,
    ConnectorSpec,
    Option,
    Options,
    SinkDeclaration,
    SourceDeclaration,
    replaces,
    write_option,
)
from millstream.model.guarantee import SinkCapability, SourceCapability
from millstream.model.schema import Schema
from millstream.model.time import duration_ms

FORMATS = ("parquet", "json", "csv", "arrow")
COMPRESSIONS = ("none", "snappy", "gzip", "zstd", "lz4")


def files(path: object, **options: Any) -> ConnectorSpec:
    """Files of a directory: a replayable source, or a sink that shows an epoch's files all at once.

    Args:
        path: a directory; for a source also a single file.
        **options: as a source `format`, `pattern`, `recursive`, `watch`, `header`, `delimiter`,
            and for changes of a table `envelope`, `decimals`, `times`, `unchanged`, `truncates`; as a sink `format`, `write`,
            `partition_by`, `partition_commit`, `max_rows_per_file`, `max_bytes_per_file`, `compression`, `header`, `delimiter`.
    """
    return ConnectorSpec("files", {"path": str(path), **options})


def _is_bounded(options: Mapping[str, Any]) -> bool:
    return not options["watch"]


def _local(path: str) -> str:
    if not path or ("://" in path and not path.startswith("file://")):
        msg = "a local path"
        raise ValueError(msg)
    return path


def _above_zero(value: int | None) -> int | None:
    if value is not None and value <= 0:
        msg = "a number above zero"
        raise ValueError(msg)
    return value


def _columns(value: str | list[str]) -> list[str]:
    names = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        msg = "different column names"
        raise ValueError(msg)
    return names


def _duration(value: str | None) -> str | None:
    try:
        duration_ms(value or "0s")
    except InvalidStep:
        msg = "a duration such as '1m'"
        raise ValueError(msg) from None
    return value


def _marks_partitions(options: Mapping[str, Any]) -> bool:
    return options["partition_commit"] is not None


def _changelog(options: Options, schema: Schema) -> Changelog | None:
    """Files do not tell which columns identify a row."""
    del schema
    return changelog_of(options, ()) if options["format"] == "debezium" else None


def _check_source(options: Options, schema: Schema, step: str) -> None:
    if options["format"] == "debezium":
        check_debezium(options, schema, step)
        check_told(options, step)
        return
    for name, option in DEBEZIUM.items():
        if options[name] != option.default:
            msg = f"option {name!r} is for format='debezium' alone"
            raise InvalidStep(msg, code="FORMAT-001", step=step, hint=f"leave {name}= out, or pass format='debezium'")


def _check_sink(options: Options, schema: Schema, step: str) -> None:
    del schema
    if options["partition_commit"] is not None and replaces(options):
        msg = "partition_commit= marks partitions while a run goes on, and write='replace' shows nothing of it before its end"
        hint = "leave partition_commit= out: every partition of a result is complete"
        raise InvalidStep(msg, code="FILES-032", step=step, hint=hint)


_SHARED = {
    "path": Option(kind=(str,), doc="a directory, or for a source a single file", check=_local),
    "header": Option(kind=(bool,), default=True, doc="whether csv files start with a line of column names"),
    "delimiter": Option(kind=(str,), default=",", doc="what separates csv columns", check=one_character),
}
_SOURCE = {
    "format": Option(
        kind=(str, type(None)),
        default=None,
        choices=(None, *FORMATS, "debezium"),
        doc="guessed from file names when not given, but for debezium: json lines that are changes of a table",
    ),
    "pattern": Option(kind=(str,), default="*", doc="which file names to read, with * and ?"),
    "recursive": Option(kind=(bool,), default=False, doc="whether to read folders inside the directory too"),
    "watch": Option(kind=(bool,), default=False, doc="whether to wait for new files for ever"),
}
_SINK = {
    "write": write_option("append", "replace"),
    "format": Option(kind=(str,), default="parquet", choices=FORMATS, doc="how rows are written"),
    "partition_by": Option(
        kind=(str, list, tuple), default=[], doc="columns that become folders named column=value", check=_columns
    ),
    "partition_commit": Option(
        kind=(str, type(None)),
        default=None,
        doc="mark a partition of time with a file _SUCCESS when the watermark is that far beyond its end",
        check=_duration,
    ),
    "max_rows_per_file": Option(
        kind=(int, type(None)), default=None, doc="rows after which a new file starts", check=_above_zero
    ),
    "max_bytes_per_file": Option(
        kind=(int, type(None)), default=256 << 20, doc="bytes after which a new file starts", check=_above_zero
    ),
    "compression": Option(
        kind=(str, type(None)),
        default=None,
        choices=(None, *COMPRESSIONS),
        doc="snappy for parquet, none for others when not given",
    ),
}

DECLARATION = ConnectorDeclaration(
    name="files",
    source=SourceDeclaration(
        options=_SHARED | _SOURCE | DEBEZIUM,
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.files.source:FilesEnumerator",
        reader="millstream.connectors.files.source:FilesReader",
        is_bounded=_is_bounded,
        check=_check_source,
        changelog=_changelog,
        decode_again="millstream.connectors.files.source:decode_again",
    ),
    sink=SinkDeclaration(
        options=_SHARED | _SINK,
        capability=SinkCapability.STAGED_ATOMIC_COMMIT,
        writer="millstream.connectors.files.sink:FilesWriter",
        committer="millstream.connectors.files.sink:FilesCommitter",
        takes_changes=written_as_log,
        takes_watermark=_marks_partitions,
        check=_check_sink,
        probe="millstream.connectors.files.looking:look_at_folder",
        read_back="millstream.connectors.files.letters:read_back",
        remove="millstream.connectors.files.letters:remove",
    ),
)
