"""What can be seen of the runs of a node: those that go on, and the logs of those that ended here."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from millstream.api.functions.user_metrics import Spread
from millstream.contract.run_folder import DriverFolder
from millstream.control.drivers.logs import log_names, read_log
from millstream.control.metrics.exposition import RunCollector, text
from millstream.control.nodes.owned import OwnedRun
from millstream.control.refusals import UnknownName
from millstream.errors import ExternalFailure

Asked = Mapping[str, str]
_DUMP_SECONDS = 10.0


class RunViews:
    """Answers questions about runs; a run is named, and its token where it is one of several attempts."""

    def __init__(self, folder: Callable[[str, int], DriverFolder]) -> None:
        self._folder = folder
        self.runs: Callable[[], Mapping[str, OwnedRun]] = dict
        """What goes on here: nothing, before the node is there."""

    def _owned(self, run: str) -> OwnedRun:
        owned = self.runs().get(run)
        if owned is None:
            msg = "the run does not go on here"
            raise UnknownName(msg, code="CTL-043", found=repr(run), hint="look at what is stored of it")
        return owned

    def sight(self, run: str, asked: Asked) -> dict[str, Any]:
        """All that those need who look at a run now: its graph, the epochs of the last seconds, its subtasks, its rows."""
        owned, now = self._owned(run), time.time()
        newest = {kind: owned.live.newest(kind) for kind in ("progress", "epoch", "alive", "dead_letters")}
        return {
            "now": now,
            "graph": owned.live.newest("graph"),
            "epochs": owned.live.window(now - float(asked["seconds"])),
            "counts": msgspec.to_builtins(owned.figures.counts()),
            "subtasks": owned.live.newest("subtasks") or {},
            "newest": newest,
        }

    def pulse(self, run: str, asked: Asked) -> dict[str, Any]:
        """What changed since one asked last: how far it is, and the epochs behind the one that was seen."""
        live = self._owned(run).live
        behind = live.epochs_behind(int(asked["after"])) if "after" in asked else live.epochs(1)
        return {"progress": live.newest("progress"), "epochs": behind}

    def epochs(self, run: str, asked: Asked) -> list[dict[str, Any]]:
        """The newest epochs, oldest first."""
        return self._owned(run).live.epochs(int(asked.get("limit", "100")))

    def dump(self, run: str, asked: Asked) -> dict[str, Any]:
        """What every thread of its driver does; one that does not answer in time is told as such."""
        owned, identifier = self._owned(run), uuid.uuid4().hex
        end = time.monotonic() + _DUMP_SECONDS
        if owned.link is not None and owned.link.dump(identifier):
            while time.monotonic() < end:
                answer = owned.live.newest("answer")
                if answer is not None and answer.get("id") == identifier:
                    return {"text": answer.get("text", "")}
                time.sleep(0.05)
        msg = "the driver did not say what it does"
        raise ExternalFailure(msg, code="CTL-054", found=f"run {run}", hint="see its log")

    def metrics(self, run: str, asked: Asked) -> list[dict[str, Any]]:
        """Its figures, those of its own functions among them; of a histogram its sum and its count."""
        told = self._owned(run).figures.figures(time.time())
        return [{"name": each.name, "labels": each.labels, **_value(each.value)} for each in told]

    def page(self) -> str:
        """The figures of all runs here, for Prometheus."""
        registry = CollectorRegistry()
        registry.register(RunCollector(lambda: [each.figures for each in self.runs().values()]))
        return text(registry).decode()

    def logs(self, run: str, asked: Asked) -> list[str]:
        """The logs that there are of a claim."""
        return log_names(self._folder(run, int(asked["token"])))

    def log(self, run: str, asked: Asked) -> dict[str, Any]:
        """A part of a log, from a byte on."""
        folder = self._folder(run, int(asked["token"]))
        part = read_log(
            folder, asked.get("name", "driver.log"), int(asked.get("offset", "0")), int(asked.get("limit", "65536"))
        )
        return {"content": base64.b64encode(part.content).decode(), "next_offset": part.next_offset, "size": part.size}


def _value(value: float | Spread) -> dict[str, float]:
    return {"sum": value.sum, "count": value.count} if isinstance(value, Spread) else {"value": value}
