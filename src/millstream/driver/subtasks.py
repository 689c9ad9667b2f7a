"""The subtasks of an epoch while Spark runs them, as its own records tell: they are kept whether its pages are served or not."""

from __future__ import annotations

import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from millstream.api.running.subtasks import SubtaskState
from millstream.jobmaster.run import Run
from millstream.spark.query.errors import told_by_worker

_LOOK_SECONDS = 0.5
"""Epochs that are shorter are known by the reports of their tasks alone."""
_MOST_TASKS = 500
_STATES = {
    "RUNNING": SubtaskState.RUNNING,
    "GET RESULT": SubtaskState.RUNNING,
    "SUCCESS": SubtaskState.FINISHED,
    "FAILED": SubtaskState.FAILED,
    "KILLED": SubtaskState.CANCELED,
}


class SparkSubtasks:
    """Looks now and then at the tasks of the job that runs: a process runs one query, and that one job at a time."""

    def __init__(self, session: SparkSession, run_state: Run) -> None:
        self._context: Any = session.sparkContext
        self._run, self._book, self._depth = run_state, run_state.subtasks, run_state.deployment.plan.depth
        self._looked = time.monotonic()

    def look(self) -> None:
        """Note what is new; cheap while epochs are short."""
        now = time.monotonic()
        if self._run.in_flight_seconds < _LOOK_SECONDS or now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            self._note()
        except Py4JError:  # the job ended meanwhile, and its records with it
            return

    def _note(self) -> None:
        tracker = self._context.statusTracker()
        jobs = tracker.getActiveJobsIds()
        about = tracker.getJobInfo(max(jobs)) if jobs else None
        # A stage is a level: what has other stages is no epoch of ours.
        if about is None or len(about.stageIds) != self._depth + 1:
            return
        store = self._context._jsc.sc().statusStore()
        for level, stage in enumerate(sorted(about.stageIds)):
            tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), _MOST_TASKS)
            for place in range(tasks.size()):
                self._note_task(level, tasks.apply(place))

    def _note_task(self, level: int, task: Any) -> None:
        state = _STATES.get(task.status())
        if state is None:
            return
        error = task.errorMessage()
        text = told_by_worker(error.get()) if error.isDefined() else ""
        self._book.note(level, task.index(), task.attempt(), state, error=text)
