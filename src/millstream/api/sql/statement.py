"""The door of statements: text over named streams becomes steps of their job."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.api.sql.building import Building, Names
from millstream.api.sql.parse import read_statement
from millstream.api.sql.query import query
from millstream.api.sql.refusal import TABLE
from millstream.api.sql.result import SqlStream
from millstream.api.streams.output import StreamJob
from millstream.api.streams.stream import DataStream
from millstream.errors import InvalidStep
from millstream.graph.operations.aggregate import Emit
from millstream.model.time import DurationLike, duration_ms


def sql_stream(
    job: StreamJob,
    text: str,
    streams: Mapping[str, DataStream],
    *,
    emit: Emit | None,
    allowed_lateness: DurationLike | None,
    id: str | None,
    uid: str | None,
) -> SqlStream:
    """The steps of one statement over named streams."""
    _check_streams(job, streams, id)
    names = _names(job, next(iter(streams.values())), id, uid)
    tree, place = read_statement(job._steps.typed(text, names.id) if isinstance(text, str) else text, names.id)
    building = Building(
        job=job,
        place=place,
        streams=streams,
        emit=emit,
        lateness=None if allowed_lateness is None else duration_ms(allowed_lateness, what="allowed_lateness"),
        is_derived=id is None,
    )
    with job._steps.all_or_nothing():
        for named in tree.args["with_"].expressions if tree.args.get("with_") else ():
            building.name_table(named.alias, query(building, named.this, names.child(named.alias)), named)
        made = query(building, tree, names)
        building.check_used(uid)
    return SqlStream(made.stream, made.stateful)


def _check_streams(job: StreamJob, streams: Mapping[str, DataStream], step: str | None) -> None:
    for name, stream in streams.items():
        if not isinstance(stream, DataStream) or stream._job is not job:
            msg = f"{name!r} is not a stream of this job"
            hint = "pass streams without keys, as in orders=orders"
            raise InvalidStep(msg, code=TABLE, step=step, found=repr(stream), hint=hint)
    if not streams:
        msg = "sql needs the streams that it reads"
        raise InvalidStep(msg, code=TABLE, step=step, hint="job.sql('SELECT ... FROM orders', orders=orders)")


def _names(job: StreamJob, stream: DataStream, given_id: str | None, uid: str | None) -> Names:
    """The id of the statement: as given, or `<input>.sql`, which like other derived ids follows the uid of the input."""
    if given_id is not None:
        return Names(id=given_id, uid=uid)
    derived, from_uid = job._steps.free_id(f"{stream.step}.sql"), f"{stream._node.uid}.sql"
    follows = stream._node.uid != stream.step
    return Names(id=derived, uid=uid or (job._steps.free_id(from_uid) if follows else None))
