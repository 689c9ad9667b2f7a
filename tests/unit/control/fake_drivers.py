"""Drivers that are no processes: a test says what they report, whether they live, and what they were asked."""

import dataclasses

from millstream.contract.driver_protocol import DriverReport
from millstream.driver.service.journal import JOURNALED


@dataclasses.dataclass
class FakeDriver:
    spec: object
    is_alive: bool = True
    is_connected: bool = True
    last_heard: float = 0.0
    on_report: object = None
    asked: list = dataclasses.field(default_factory=list)
    words: list = dataclasses.field(default_factory=list)
    seq: int = 0

    def secrets(self, values):
        self.asked.append(("secrets", dict(values)))

    def renewed(self, left_ms, sent=None):
        self.asked.append(("renewed", left_ms))
        return True

    def request(self, id, action, *, to="", form="canonical"):
        self.asked.append((action, id))

    def dump(self, id):
        self.asked.append(("dump", id))
        return True

    def close(self):
        self.asked.append(("close", None))

    def requests(self):
        return [each for each in self.asked if each[0] not in ("renewed", "close")]

    def report(self, type, **body):
        self.seq += 1
        made = DriverReport(
            type=type, run=self.spec.run, token=self.spec.token, seq=self.seq, at=1_772_000_000.0, body=body
        )
        self.words.append(made)
        if self.is_connected and self.on_report is not None:
            self.on_report(made)
        return made

    def runs(self):
        self.report("state", **{"from": None, "to": "INITIALIZING", "cause": "started", "error": None})
        self.report("state", **{"from": "INITIALIZING", "to": "RUNNING", "cause": "started", "error": None})

    def epoch(self, number, rows=10):
        self.report(
            "epoch",
            epoch=number,
            rows_in=rows,
            rows_out=rows,
            seconds=0.5,
            size=7,
            lag=0,
            counts={"m": {"failed": 1, "skipped": 2, "refused": 1}},
            watermark="-",
            terminal=False,
        )

    def ends(self, status, *, error=None, savepoint=None, oom=False):
        result = None if error else {"savepoint": savepoint}
        self.report(
            "result", status=status, ended=status.lower(), cause=status.lower(), error=error, oom=oom, result=result
        )
        self.is_alive = False


class FakeDrivers:
    """One machine: what was started there survives the node."""

    def __init__(self):
        self.drivers = {}
        self.killed = []
        self.stopped = []
        self.dumped = []
        self.refuses = None

    def __getitem__(self, run):
        return self.drivers[max(key for key in self.drivers if key[0] == run)]

    def launch(self, spec):
        if self.refuses is not None:
            raise self.refuses
        self.drivers[spec.run, spec.token] = FakeDriver(spec)

    def link(self, run, token, *, from_seq, on_report):
        driver = self.drivers[run, token]
        driver.on_report = on_report
        for report in driver.words:
            if report.seq > from_seq:
                on_report(report)
        return driver

    def is_alive(self, run, token):
        driver = self.drivers.get((run, token))
        return None if driver is None else driver.is_alive

    def last_words(self, run, token, *, after):
        driver = self.drivers.get((run, token))
        if driver is None or (driver.is_alive and not any(each.type == "result" for each in driver.words)):
            return []
        return [each for each in driver.words if each.seq > after and each.type in JOURNALED]

    def stop(self, run, token):
        self.stopped.append(run)

    def dump(self, run, token):
        self.dumped.append(run)

    def kill(self, run, token):
        self.killed.append((run, token))
        if (run, token) in self.drivers:
            self.drivers[run, token].is_alive = False
