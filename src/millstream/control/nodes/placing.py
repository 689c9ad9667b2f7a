"""From a claimed run to what its driver is told: definition, settings, places."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Row

from millstream.contract.driver_protocol import RunSpec
from millstream.contract.reach import Reach
from millstream.control.act import Act
from millstream.control.dispatcher.definitions import version_of
from millstream.control.dispatcher.starting import StartOptions
from millstream.control.dispatcher.stored import expects_state
from millstream.control.secrets.config import JobConfig, read_config
from millstream.control.settings import JobSettings
from millstream.control.tracing.spans import traceparent

SecretsOfRun = Callable[[int, Collection[str]], Mapping[str, str]]
"""The values of the secrets that a job names, by the job's id."""
_SLOT = "@slot-"


class Places(NamedTuple):
    """Where a node finds and keeps things."""

    checkpoints: Path
    """One directory per job and slot; on storage that every node sees, where there are several."""
    code: Callable[[str], Path] | None = None
    """The unpacked artifact of a digest."""
    reach: Reach = Reach()
    """What jobs that are data may reach."""


def spec_of(act: Act, run: Row[Any], token: int, places: Places) -> RunSpec:
    """What the driver of a run is told."""
    version = version_of(act, run.job_id, run.job_version)
    settings = msgspec.convert(version.settings, JobSettings)
    options = msgspec.convert(run.options, StartOptions)
    # Every attempt of a run starts alike: what people change meanwhile holds from the next run on.
    config = read_config(act.connection, run.job_id) if run.config is None else JobConfig(**run.config)
    return RunSpec(
        **_who(run, token),
        definition=version.dag_definition,
        artifact=version.artifact_sha256,
        engine=settings.engine,
        master=options.master or settings.master,
        parallelism=options.parallelism or version.parallelism,
        checkpoint=checkpoint_of(settings, places.checkpoints, run.job_name, run.slot_no),
        expects_state=expects_state(act, run, settings, options),
        manifests=settings.manifests,
        state_backend=settings.state_backend,
        start=_start(options),
        reach=places.reach,
        params={**config.params, **_params(options)},
        config=config.settings,
        confs=settings.confs,
        epochs=settings.epochs,
        on_stop=settings.on_stop,
        memory_limit=settings.memory_limit,
        secret_names=list((version.plan or {}).get("secrets", [])),
    )


def _who(run: Row[Any], token: int) -> dict[str, Any]:
    attempt = {"run": run.execution_id, "token": token, "attempt": run.attempt}
    attempt["trace"] = traceparent(run.execution_id, run.attempt)
    return {**attempt, "job": run.job_name, "version": run.job_version}


def _params(options: StartOptions) -> dict[str, Any]:
    interval = {"interval_start": options.interval_start, "interval_end": options.interval_end}
    return {**options.params, **{name: value for name, value in interval.items() if value is not None}}


def secret_names(act: Act, run: Row[Any]) -> list[str]:
    """The secrets that a run names."""
    return list((version_of(act, run.job_id, run.job_version).plan or {}).get("secrets", []))


def checkpoint_of(settings: JobSettings, root: Path, job: str, slot: int) -> str:
    """The directory of a slot's checkpoint: the first slot has the job's own. No name of a job has an `@`."""
    base = settings.checkpoint or str(root / job)
    return base if slot == 0 else f"{base}{_SLOT}{slot}"


def slots_of(base: str) -> dict[int, Path]:
    """The directories of a job's checkpoints that are there, by slot; `base` is that of the first."""
    first = Path(base)
    found = {0: first} if first.is_dir() else {}
    for path in first.parent.glob(f"{glob.escape(first.name)}{_SLOT}*"):
        number = path.name.removeprefix(f"{first.name}{_SLOT}")
        if number.isdecimal() and path.is_dir():
            found[int(number)] = path
    return dict(sorted(found.items()))


def with_code(spec: RunSpec, places: Places) -> RunSpec:
    """The same with the folder of its code, which is unpacked now: not inside a transaction, for it may take a while."""
    if spec.artifact is None:
        return spec
    assert places.code is not None, "a service that takes artifacts in has a place for their code"
    return msgspec.structs.replace(spec, code=str(places.code(spec.artifact)))


def _start(options: StartOptions) -> dict[str, Any]:
    names = ("from_savepoint", "on_newer_output", "allow_dropped_state", "ignore_state_once", "carry")
    return {name: getattr(options, name) for name in names if getattr(options, name) not in (None, False)}
