"""A node that has one run: it starts its driver, renews it, asks, and keeps what it is told."""

import contextlib
import threading
import time

from millstream.contract.driver_protocol import RunSpec
from millstream.contract.run_folder import DriverFolder
from millstream.control.drivers.launch import launch
from millstream.control.drivers.link import DriverLink
from millstream.control.drivers.processes import is_alive, kill

LEFT_MS = 15_000
PATIENCE = 30.0


def document(tmp_path, *, rows=None, rate=200, name="counted", **more):
    """A job that numbers rows into files; without `rows` it never ends."""
    numbers = {"rows_per_second": rate, **({} if rows is None else {"rows": rows})}
    return {
        "job": name,
        "epoch_interval": "50ms",
        "steps": [
            {"source": "numbers", "from": {"rate": numbers}},
            {"select": [{"n": "value"}, {"twice": "value * 2"}]},
            {"sink": "out", "to": {"files": {"path": str(tmp_path / "out"), "format": "json"}}},
        ],
        **more,
    }


def spec_of(tmp_path, written=None, **changes):
    given = {
        "run": "4f1c",
        "token": 1,
        "job": "counted",
        "definition": {"kind": "declarative", "document": written or document(tmp_path)},
        "engine": "local",
        "checkpoint": str(tmp_path / "checkpoint"),
        "alive_every": 0.5,
    }
    return RunSpec(**{**given, **changes})


class NodeSide:
    """Started drivers are killed when the test ends, whatever became of them."""

    def __init__(self, tmp_path):
        self.folder = DriverFolder(tmp_path / "runs" / "4f1c")
        self.reports, self.link, self.identity = [], None, None
        self._renews = threading.Event()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def start(self, spec, **options):
        self.spec = spec
        self.identity = launch(self.folder, spec)
        return self.connect(**options)

    def connect(self, spec=None, *, renews=True, **options):
        self.link = DriverLink(self.folder, spec or self.spec, self.identity, self.reports.append, **options)
        if renews:
            self._renews.set()
        return self

    def be_silent(self):
        self._renews.clear()

    def _renew(self):
        while not self._ends.wait(0.05):
            if self._renews.is_set() and self.link is not None:
                self.link.renewed(LEFT_MS, time.clock_gettime(time.CLOCK_BOOTTIME))

    def of(self, kind):
        return [report for report in list(self.reports) if report.type == kind]

    def states(self):
        return [report.body["to"] for report in self.of("state")]

    def until(self, condition, what="what was waited for", patience=PATIENCE):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            if self.link is not None and self.link.is_over and end > time.monotonic() + 1:
                end = time.monotonic() + 1  # nothing more will come
            time.sleep(0.01)
        raise AssertionError(
            f"{what} did not come; told: {[report.type for report in self.reports]}; log: {self.log()}"
        )

    def await_epochs(self, count):
        return self.until(lambda: self.of("epoch")[count - 1 :], f"epoch {count}")

    def await_result(self):
        self.until(lambda: self.link.is_over, "the end")
        self.until(lambda: not is_alive(self.identity), "the end of the process")
        return self.of("result")[0].body if self.of("result") else None

    def ask(self, id, action, **wish):
        self.link.request(id, action, **wish)
        answers = self.until(lambda: [r for r in self.of("answer") if r.body["id"] == id], f"the answer to {id}")
        return answers[0].body

    def log(self):
        with contextlib.suppress(FileNotFoundError):
            return self.folder.log.read_text()[-3000:]
        return ""

    def close(self):
        self._ends.set()
        self._thread.join()
        if self.link is not None:
            self.link.close()
        if self.identity is not None:
            kill(self.identity)
            self.until(lambda: not is_alive(self.identity), "the end of the process")
