"""How a submitted job is run: what its definition does not say, checked when it is submitted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from millstream.control.restart.rules import RestartRule
from millstream.errors import InvalidStep

KeepCheckpoint = Literal["always", "on_failure", "never"]
Positive = Annotated[int, msgspec.Meta(gt=0)]


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stored with every version of a job."""

    engine: Literal["spark", "local"] = "spark"
    master: str = "local[*]"
    state_backend: Literal["rocksdb", "memory"] = "rocksdb"
    restart: RestartRule = RestartRule()
    keep_checkpoint: KeepCheckpoint = "always"
    checkpoint: str | None = None
    """A directory of the operator's; by default one under the service's own."""
    manifests: str | None = None
    labels: dict[str, str] = {}
    """A node must have these to run the job."""
    retained: Positive = 10
    tolerated_failures: Annotated[int, msgspec.Meta(ge=0)] = 0
    min_pause: str | int = 0
    epoch_timeout: str | int = "10m"
    on_stop: Literal["cancel", "suspend", "drain"] | None = None
    memory_limit: Positive | None = None
    """Bytes of all processes of a run."""
    confs: dict[str, str] = {}


def settings_of(given: dict[str, Any]) -> JobSettings:
    """What was submitted, checked.

    Raises:
        InvalidStep: (CTL-020) an unknown name or a value that does not fit.
    """
    try:
        return msgspec.convert(given, JobSettings)
    except msgspec.ValidationError as problem:
        msg = "the settings of the job do not fit"
        known = ", ".join(JobSettings.__struct_fields__)
        raise InvalidStep(msg, code="CTL-020", found=str(problem), known=known, hint="correct that setting") from None
