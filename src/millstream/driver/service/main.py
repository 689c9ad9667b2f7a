"""`python -m millstream.driver.service.main RUN_FOLDER`: the process that runs one job for a node.

With `--warm FOLDER DESCRIPTOR` it gets everything ready first and is told later, over the socket of that descriptor, which run
folder is its own; from then on it is as any other.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import faulthandler
import logging
import os
import signal
import sys
from pathlib import Path

import msgspec

from millstream.contract.run_folder import DriverFolder, write_durably
from millstream.contract.warm_start import WarmFolder
from millstream.driver.service.life import RunLife
from millstream.driver.service.log_file import JVM_LOG, LogPump, OwnOutput, RotatingFile, jvm_output
from millstream.driver.service.mask import Mask
from millstream.driver.service.process import DriverProcess
from millstream.redaction import redacted

_START_LOGGERS = ("millstream.spark.start", "millstream.driver.run", "millstream.spark.query.epoch")
"""They say, once in a run, how far its start has come."""


def main() -> int:
    """Run what the folder says."""
    _own_session()
    if sys.argv[1] == "--warm":
        from millstream.driver.service.warm import awaited

        warm = WarmFolder(Path(sys.argv[2]))
        mask, output = _logged(warm.log)
        jvm_log = jvm_output(warm.root / JVM_LOG, mask)
        folder = awaited(warm, int(sys.argv[3]), jvm_log)
        output.turn_to(RotatingFile(folder.log, mask))
        jvm_log.turn_to(RotatingFile(folder.logs / JVM_LOG, mask))
        return _driven(folder, mask, jvm_log)
    folder = DriverFolder(sys.argv[1])
    folder.logs.mkdir(mode=0o700, exist_ok=True)
    mask, _ = _logged(folder.log)
    return _driven(folder, mask)


def _logged(path: Path) -> tuple[Mask, OwnOutput]:
    """All that this process and its children print goes there."""
    mask = Mask()
    pump = OwnOutput(RotatingFile(path, mask))
    # Registered first, so that it is closed last: what others print at the end is logged too.
    atexit.register(pump.close)
    _log_lines()
    return mask, pump


def _driven(folder: DriverFolder, mask: Mask, jvm_log: LogPump | None = None) -> int:
    folder.work.mkdir(mode=0o700, exist_ok=True)
    # What a crash of the interpreter says cannot go through a pipe that the interpreter reads.
    with (folder.logs / "crash.log").open("ab") as crash:
        faulthandler.enable(crash)
        faulthandler.register(signal.SIGUSR1, crash)
        spec = folder.read_spec()
        os.chdir(folder.work)
        driver = DriverProcess(folder, spec, mask, jvm_log)
        begins = "a warm driver has taken the run" if spec.beginning.is_warm else "the driver process has started"
        driver.states.enter("INITIALIZING", f"{begins}: {spec.beginning.why}" if spec.beginning.why else begins)
        logging.getLogger("millstream").info(
            "attempt %d of run %s, trace %s", spec.attempt, spec.run, spec.trace or "-"
        )
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
    for name in _START_LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG)


if __name__ == "__main__":
    sys.exit(main())
