"""Runs the tasks of a job epoch by epoch, with watermarks and clock given by the test."""

import dataclasses

import msgspec
from tests.unit.state.test_pages import CountingStore

import millstream as ms
from millstream.connectors.json_values import batches_from_json
from millstream.connectors.memory.spec import to_json
from millstream.model.counts import total
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.deployment import Deployment, MemoryBudget
from millstream.plan.epoch import EpochPlan
from millstream.records.codecs import batch_to_rows, batch_to_text, table_from_text
from millstream.runtime.exchange.cells import DRIVER
from millstream.runtime.messages import RunIdentity, TaskInput, TaskReport
from millstream.runtime.program import LevelProgram
from millstream.runtime.task import run_source_task, run_subtask


@dataclasses.dataclass
class Made:
    sinks: dict
    event_due: dict
    processing_due: int
    counts: dict
    reports: list

    def __getitem__(self, sink):
        return self.sinks.get(sink, [])


class Epochs:
    def __init__(self, job, *, parallelism=1, backend="rocksdb", **memory):
        model = dataclasses.replace(
            job.model, requirements=dataclasses.replace(job.model.requirements, parallelism=parallelism)
        )
        chosen = Deployment(memory=MemoryBudget(**memory), state_backend=backend)
        self.deployment = ms.Job._from_model(model).compile(chosen).deployment
        self._programs = [LevelProgram(self.deployment, level) for level in range(self.deployment.plan.depth + 1)]
        self._schemas = {v.vertex.id: v.vertex.head.outputs.get("main") for v in self.deployment.plan.vertices}
        self.stores = {
            (level, task): CountingStore()
            for level in range(1, self.deployment.plan.depth + 1)
            for task in range(parallelism)
        }
        self.number, self.marks = -1, {}

    def run(self, rows=(), watermark=None, *, now=0, terminal=False, source="in", step="in.event_time"):
        """One epoch in one level-0 task; the watermark stays where it is unless another is given."""
        self.number += 1
        before = dict(self.marks)
        self.marks[step] = MAX_TIME if terminal else self.marks.get(step, MIN_TIME) if watermark is None else watermark
        plan = EpochPlan(
            epoch=self.number, now=now, sources={}, watermarks=dict(self.marks), previous=before, terminal=terminal
        )
        body = [{"rows": batch_to_text(part)} for part in batches_from_json(to_json(list(rows)), self._schemas[source])]
        splits = [(source, "0", body)] if rows else []
        cells = list(
            run_source_task(
                self._programs[0], TaskInput(task=0, tasks=1, plan=plan, splits=splits, run=RunIdentity(lineage="l"))
            )
        )
        made = [cell for cell in cells if cell.level == DRIVER]
        for program in self._programs[1:]:
            waiting = [cell for cell in cells if cell.level != DRIVER]
            cells = []
            for task in range(self.deployment.plan.parallelism):
                mine = [cell for cell in waiting if cell.slot == task]
                cells += run_subtask(program, task, mine, self.stores[program.level, task])
            made += [cell for cell in cells if cell.level == DRIVER]
        return _made([msgspec.msgpack.decode(cell.body, type=TaskReport) for cell in made])

    @property
    def is_empty(self):
        return not any(self.stores.values())


def _made(reports):
    sinks, due = {}, {}
    for report in reports:
        for sink, message in report.sinks.items():
            sinks.setdefault(sink, []).extend(batch_to_rows(table_from_text(message["data"])))
        for step, at in report.event_due.items():
            due[step] = min(at, due.get(step, at))
    processing = min(report.processing_due for report in reports)
    return Made(sinks, due, processing, total(report.counts for report in reports), reports)
