"""Log lines of a command on stderr: as text or as JSON, from a level on. Without a wish only warnings are shown."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from millstream.redaction import redacted

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]
LogLevel = Annotated[
    Level | None, typer.Option("--log-level", help="Show log lines from this level on, on stderr; else warnings only.")
]
LogFormat = Annotated[Format, typer.Option("--log-format", help="How log lines are written.")]
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Instant, level, logger, and the line itself."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback behind it if there is one."""
        line = f"{_instant(record)} {record.levelname} {record.name} {record.getMessage()}"
        return redacted(line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}")


class JsonLines(logging.Formatter):
    """An object per line: `at`, `level`, `logger`, `event`, and the fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        """One object."""
        content: dict[str, Any] = {"at": _instant(record), "level": record.levelname.lower(), "logger": record.name}
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        content |= {"event": redacted(record.getMessage()), **fields}
        if record.exc_info is not None:
            content["traceback"] = redacted(self.formatException(record.exc_info))
        return json.dumps(content, default=str, ensure_ascii=False)


@contextlib.contextmanager
def log_lines(level: Level | None, form: Format) -> Iterator[None]:
    """While the body runs, lines of millstream's loggers go to stderr."""
    logger, handler = logging.getLogger("millstream"), logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    if level is None:
        # The command tells of a failure itself.
        handler.addFilter(lambda record: getattr(record, "event", "") != "run failed")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel((level or "warning").upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _instant(record: logging.LogRecord) -> str:
    at = dt.datetime.fromtimestamp(record.created, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
