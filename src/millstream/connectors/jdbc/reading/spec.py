"""Options of `jdbc` as a source."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.connectors.jdbc.checks import above_zero, column_names, duration, listed, variable_name
from millstream.connectors.jdbc.reading.relation import check_query, table_parts
from millstream.database.url import SCHEMES, Kind, address_of
from millstream.errors import InvalidStep
from millstream.model.connector import ConnectorSpec, Option, Options, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.mode import Mode
from millstream.model.params import names_in
from millstream.model.schema import Schema
from millstream.model.time import DurationLike, duration_ms
from millstream.redaction import SecretUrl
from millstream.registry import load

READABLE: frozenset[Kind] = frozenset({"postgresql", "sqlite", "mysql"})
"""Databases that can be read."""
NULLS = ("refuse", "read")
COUNTS = ("estimate", "exact", "none")
TIMEOUT = "5m"
POLL = "10s"
CHUNK_ROWS = 50_000
_SHOWN = 200
"""Characters of a query that are shown where it cannot be read."""
_DIALECTS = {"postgresql": "postgres", "sqlite": "sqlite", "mysql": "mysql"}


def jdbc_query(
    url: str,
    query: str,
    *,
    key: str | Sequence[str] = (),
    incremental: str | None = None,
    poll: DurationLike = POLL,
    settle: DurationLike = "0s",
    nulls: str = "refuse",
    chunk_rows: int = CHUNK_ROWS,
    count: str = "estimate",
    timeout: DurationLike = TIMEOUT,
    password_env: str | None = None,
) -> ConnectorSpec:
    """The rows of one SELECT of PostgreSQL, SQLite or MySQL, read in ranges of a key.

    Args:
        url: `postgresql://user@host:port/database`, `sqlite:///path` or `mysql://user@host:port/database`;
            `user:${secret:NAME}@` names the password.
        query: one SELECT.
        key: columns of the query that order its rows, best served by an index. Without one, everything is read in one go,
            which is `AT_LEAST_ONCE`.
        incremental: a column that grows with every new or changed row: the source has no end and reads on by its values.
        poll: how often an incremental source that has caught up looks for new rows.
        settle: how long a bound waits before it is read up to, for rows that become visible late.
        nulls: rows with a null in the key: `refuse` them at the start, or `read` them in a piece of their own.
        chunk_rows: rows of a range at most.
        count: how to know how many rows there are: `estimate`, `exact` or `none`.
        timeout: how long a statement may run; ranges become smaller where they take longer.
        password_env: the environment variable that holds the password, read where a connection is opened.
    """
    return ConnectorSpec(
        "jdbc",
        {
            "url": SecretUrl(url), "query": query, "key": listed(key), "incremental": incremental, "poll": _text(poll),
            "settle": _text(settle), "nulls": nulls, "chunk_rows": chunk_rows, "count": count, "timeout": _text(timeout),
            "password_env": password_env,
        },
    )  # fmt: skip


def jdbc_table(
    url: str,
    table: str,
    *,
    key: str | Sequence[str] | None = None,
    incremental: str | None = None,
    poll: DurationLike = POLL,
    settle: DurationLike = "0s",
    nulls: str = "refuse",
    chunk_rows: int = CHUNK_ROWS,
    count: str = "estimate",
    timeout: DurationLike = TIMEOUT,
    password_env: str | None = None,
) -> ConnectorSpec:
    """The rows of a table or view of PostgreSQL, SQLite or MySQL, read in ranges of a key.

    Args:
        url: as of `jdbc_query`.
        table: its name, such as `orders` or `sales.orders`; parts in double quotes may hold any character.
        key: columns that order its rows; without it, the primary key. With `()` everything is read in one go, which is
            `AT_LEAST_ONCE`.
        incremental: a column that grows with every new or changed row: the source has no end and reads on by its values.
        poll: how often an incremental source that has caught up looks for new rows.
        settle: how long a bound waits before it is read up to, for rows that become visible late.
        nulls: rows with a null in the key: `refuse` them at the start, or `read` them in a piece of their own.
        chunk_rows: rows of a range at most.
        count: how to know how many rows there are: `estimate`, `exact` or `none`.
        timeout: how long a statement may run; ranges become smaller where they take longer.
        password_env: the environment variable that holds the password, read where a connection is opened.
    """
    return ConnectorSpec(
        "jdbc",
        {
            "url": SecretUrl(url), "table": table, "key": listed(key), "incremental": incremental, "poll": _text(poll),
            "settle": _text(settle), "nulls": nulls, "chunk_rows": chunk_rows, "count": count, "timeout": _text(timeout),
            "password_env": password_env,
        },
    )  # fmt: skip


def _text(value: DurationLike) -> str:
    return value if isinstance(value, str) else f"{duration_ms(value)}ms"


def check_source(options: Options, schema: Schema | None = None, step: str | None = None) -> None:
    """Refuse options that make no sense side by side."""
    del schema
    kind = address_of(options["url"], kinds=READABLE).kind
    problem = _problem(options, kind)
    if problem is not None:
        raise InvalidStep(problem[0], code="JDBC-001", step=step, hint=problem[1])
    if options["query"] is not None:
        try:
            check_query(options["query"], _DIALECTS[kind])
        except ValueError as wrong:
            msg, found = "the query cannot be read", repr(options["query"][:_SHOWN])
            raise InvalidStep(
                msg, code="JDBC-030", step=step, found=found, known=str(wrong), hint="correct query="
            ) from None


def _problem(options: Options, kind: Kind) -> tuple[str, str] | None:
    if (options["query"] is None) == (options["table"] is None):
        return "a source reads either a query or a table", "pass one of query= and table="
    if options["incremental"] is None and options["poll"] != POLL:
        return "only an incremental source polls", "pass incremental= with the column that grows, or leave poll= out"
    if options["incremental"] is not None and options["count"] == "exact":
        return "a source without an end cannot be counted", "leave count= out"
    if kind == "sqlite" and options["timeout"] != TIMEOUT:
        return "SQLite has no statement time-outs", "leave timeout= out"
    if not is_keyed(options) and options["nulls"] != "refuse":
        return "only a source with a key has rows without one", "pass key=, or leave nulls= out"
    if not is_keyed(options) and duration_ms(options["settle"]):
        return "only a source with a key has a bound that can settle", "pass key=, or leave settle= out"
    return None


def is_keyed(options: Options) -> bool:
    """Whether rows are read in ranges of a key; for a table without `key=`, of its primary key."""
    has_key = options["table"] is not None if options["key"] is None else bool(options["key"])
    return has_key or options["incremental"] is not None


def _capability(options: Options) -> SourceCapability:
    """Without a key nobody can say where a run stopped: after a failure everything is read again."""
    return SourceCapability.REPLAYABLE if is_keyed(options) else SourceCapability.AT_LEAST_ONCE


def _is_bounded(options: Options) -> bool:
    return options["incremental"] is None


def _schema(options: Options) -> Schema | None:
    """From the database, which is asked only where the author of a job gives no schema."""
    if any(names_in(value) for value in options.values()):
        return None  # before a run has its parameters, there is nothing to ask about
    check_source(options)
    found: Schema = load("millstream.connectors.jdbc.reading.preview:found_schema")(options)
    return found


def _url(value: str) -> str:
    try:
        address_of(value, kinds=READABLE)
    except ValueError as problem:
        if value.partition("://")[0].lower() in SCHEMES:
            raise
        msg = f"{problem}, or mysql://user@host:port/database"
        raise ValueError(msg) from None
    return SecretUrl(value)


def _table(value: str | None) -> str | None:
    if value is not None:
        table_parts(value)
    return value


def _query(value: str | None) -> str | None:
    return None if value is None else value.strip().rstrip("; \n\t")


_TEXT = (str, type(None))
SOURCE = SourceDeclaration(
    options={
        "url": Option(kind=(str,), doc="postgresql://…, sqlite:///path or mysql://…", check=_url),
        "query": Option(kind=_TEXT, default=None, doc="one SELECT", check=_query, is_query=True),
        "table": Option(kind=_TEXT, default=None, doc="a table or view", check=_table),
        "key": Option(
            kind=(str, list, tuple, type(None)), default=None, doc="columns that order the rows", check=column_names
        ),
        "incremental": Option(kind=_TEXT, default=None, doc="a column that grows: read on for ever, by its values"),
        "poll": Option(kind=(str,), default=POLL, doc="how often to look for new rows", check=duration),
        "settle": Option(kind=(str,), default="0s", doc="how long to wait for rows that come late", check=duration),
        "nulls": Option(kind=(str,), default="refuse", choices=NULLS, doc="what becomes of rows without a key"),
        "chunk_rows": Option(kind=(int,), default=CHUNK_ROWS, doc="rows in a range at most", check=above_zero),
        "count": Option(kind=(str,), default="estimate", choices=COUNTS, doc="how to know how many rows there are"),
        "timeout": Option(kind=(str,), default=TIMEOUT, doc="how long a statement may run", check=duration),
        "password_env": Option(
            kind=_TEXT, default=None, doc="the variable that holds the password", check=variable_name
        ),
    },
    capability=SourceCapability.REPLAYABLE,
    capability_of=_capability,
    enumerator="millstream.connectors.jdbc.reading.enumerator:JdbcEnumerator",
    reader="millstream.connectors.jdbc.reading.reader:JdbcReader",
    is_bounded=_is_bounded,
    mode=Mode.SQL_TASK,
    batch_option=lambda _: ("chunk_rows",),
    schema=_schema,
    check=check_source,
    probe="millstream.connectors.jdbc.reading.preview:look_at_rows",
    variants=({"table": "orders"}, {"query": "SELECT …", "key": ["id"]}, {"query": "SELECT …"}),
)
