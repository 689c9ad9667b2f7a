"""A job whose definition has another parallelism than its stored state: the state is saved, and restored at the new one."""

from __future__ import annotations

import dataclasses
import logging

from millstream.api.run_options import RunOptions
from millstream.checkpoint.manifest import EpochManifest
from millstream.errors import CheckpointRefused
from millstream.inspect.asking import request_for
from millstream.inspect.checkpoint import CheckpointView, open_view
from millstream.inspect.savepoint import take_from_outside
from millstream.plan.deployment import DeploymentPlan

_SECONDS = 600.0
_NOTHING_STORED = ("CKPT-016", "CKPT-017")
_log = logging.getLogger(__name__)


def rescaled(options: RunOptions, plan: DeploymentPlan) -> RunOptions:
    """The options under which a run goes on at the parallelism of its plan; the same ones where its state fits.

    Raises:
        CheckpointRefused: (CKPT-018) the last run broke off: its newest epoch has to be published by one like it first.
    """
    if options.checkpoint is None or options.from_savepoint is not None or options.ignore_state_once:
        return options
    try:
        with open_view(options.checkpoint, options.manifests) as view:
            newest = view.manifest()
            if not _goes_on_elsewhere(newest, options, plan):
                return options
            path = _saved(view, newest, plan.plan.parallelism)
    except CheckpointRefused as problem:
        if problem.code in _NOTHING_STORED:
            return options
        raise
    return dataclasses.replace(options, from_savepoint=path)


def _goes_on_elsewhere(newest: EpochManifest, options: RunOptions, plan: DeploymentPlan) -> bool:
    """Whether the state is of an unfinished job, of this engine, at another parallelism."""
    is_ours = newest.engine == ("local" if options.local else "spark")
    return is_ours and newest.kind != "terminal" and newest.parallelism != plan.plan.parallelism


def _saved(view: CheckpointView, newest: EpochManifest, parallelism: int) -> str:
    """A savepoint of the newest epoch; a second attempt finds that of the first one."""
    _log.warning("the state has parallelism %d: it is restored at %d", newest.parallelism, parallelism)
    name = f"rescaled-{newest.lineage}-{newest.epoch}"
    return take_from_outside(view, request_for("savepoint", id=name), _SECONDS)
