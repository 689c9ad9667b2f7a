"""What a source reads: one SELECT, or a table by its name, as it stands behind FROM."""

from __future__ import annotations

import re
from collections.abc import Sequence

from millstream.connectors.jdbc.reading.statements import ALIAS, Dialect
from millstream.model.connector import Options

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".\x00]+)')


def table_parts(text: str) -> list[str]:
    """The parts of `table` or `schema.table`, each as it is written or, with dots and quotes inside, in double quotes.

    Raises:
        ValueError: it is no such name.
    """
    parts, place = [], 0
    while place <= len(text):
        part = _PART.match(text, place)
        if part is None or text[part.end() : part.end() + 1] not in {"", "."}:
            break
        parts.append(part[1].replace('""', '"') if part[1] else part[2])
        place = part.end() + 1
    if place != len(text) + 1 or not 1 <= len(parts) <= 2:
        msg = 'the name of a table, such as orders, sales.orders or sales."odd.name"'
        raise ValueError(msg)
    return parts


def check_query(text: str, dialect: str) -> None:
    """Refuse what is not one SELECT.

    Raises:
        ValueError: with what was expected.
    """
    # It stays out of jobs that read no database.
    import sqlglot
    from sqlglot import exp

    wanted = "one SELECT"
    try:
        statements = [each for each in sqlglot.parse(text, dialect=dialect) if each]
    except (sqlglot.errors.ParseError, sqlglot.errors.TokenError) as problem:
        reason = str(problem).splitlines()[0].removesuffix(".")
        msg = f"{wanted}; this was not understood ({reason}); a view in the database may hold it"
        raise ValueError(msg) from None
    if len(statements) != 1 or any(
        each.token_type.name == "SEMICOLON" for each in sqlglot.tokenize(text, dialect=dialect)
    ):
        msg = f"{wanted}, with nothing behind it"
        raise ValueError(msg)
    query = statements[0]
    if not isinstance(query, exp.Query) or query.find(exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock) is not None:
        msg = f"{wanted} that changes and locks nothing"
        raise ValueError(msg)


def source_of(options: Options, dialect: Dialect) -> str:
    """The query or table as it stands behind FROM."""
    if options["table"] is not None:
        return f"{table_name(table_parts(options['table']), dialect)} AS {ALIAS}"
    # On a line of its own: the text may end in a comment.
    return f"(\n{options['query']}\n) AS {ALIAS}"


def table_name(parts: Sequence[str], dialect: Dialect) -> str:
    """The quoted name of a table."""
    return ".".join(map(dialect.quoted, parts))


def label_of(options: Options) -> str:
    """What is read, in a word for people."""
    return options["table"] or "the query"
