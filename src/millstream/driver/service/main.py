"""`python -m millstream.driver.service.main RUN_FOLDER`: the process that runs one job for a node."""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import faulthandler
import logging
import os
import signal
import sys

import msgspec

from millstream.contract.run_folder import DriverFolder, write_durably
from millstream.driver.service.life import RunLife
from millstream.driver.service.log_file import OwnOutput, RotatingFile
from millstream.driver.service.mask import Mask
from millstream.driver.service.process import DriverProcess
from millstream.redaction import redacted


def main() -> int:
    """Run what the folder says."""
    folder = DriverFolder(sys.argv[1])
    _own_session()
    folder.logs.mkdir(mode=0o700, exist_ok=True)
    folder.work.mkdir(mode=0o700, exist_ok=True)
    mask = Mask()
    # Registered first, so that it is closed last: what others print at the end is logged too.
    atexit.register(OwnOutput(RotatingFile(folder.log, mask)).close)
    _log_lines()
    # What a crash of the interpreter says cannot go through a pipe that the interpreter reads.
    with (folder.logs / "crash.log").open("ab") as crash:
        faulthandler.enable(crash)
        faulthandler.register(signal.SIGUSR1, crash)
        spec = folder.read_spec()
        os.chdir(folder.work)
        driver = DriverProcess(folder, spec, mask)
        driver.states.enter("INITIALIZING", "the driver process has started")
        write_durably(folder.identity, msgspec.json.encode(driver.identity))
        code = RunLife(driver).live()
        faulthandler.unregister(signal.SIGUSR1)
        faulthandler.disable()
    return code


def _own_session() -> None:
    """Signals to the group of whoever started this process are not meant for it."""
    with contextlib.suppress(PermissionError):  # it leads one already
        os.setsid()


class LogLines(logging.Formatter):
    """Instant, level, logger, and the line itself."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback behind it if there is one."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        line = f"{at.replace('+00:00', 'Z')} {record.levelname} {record.name} {record.getMessage()}"
        return redacted(line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}")


def _log_lines() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    logging.getLogger().addHandler(handler)
    logging.getLogger("millstream").setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
