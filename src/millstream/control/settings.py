"""How a submitted job is run: what its definition does not say, checked when it is submitted."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec

from millstream.control.restart.rules import RestartRule
from millstream.errors import InvalidPlan, InvalidStep
from millstream.plan.deployment import EpochPolicy

KeepCheckpoint = Literal["always", "on_failure", "never"]
_MOST = 2**31 - 1
Positive = Annotated[int, msgspec.Meta(gt=0, le=_MOST)]
Duration = str | Annotated[int, msgspec.Meta(le=_MOST)]
"""Such as `10s`, or milliseconds."""
LEAST_MEMORY = 16 << 20
"""No process of Python gets by with less."""


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stored with every version of a job."""

    engine: Literal["spark", "local"] = "spark"
    master: Annotated[str, msgspec.Meta(min_length=1)] = "local[*]"
    state_backend: Literal["rocksdb", "memory"] = "rocksdb"
    restart: RestartRule = RestartRule()
    keep_checkpoint: KeepCheckpoint = "always"
    checkpoint: str | None = None
    """A directory of the operator's; by default one under the service's own."""
    manifests: str | None = None
    labels: dict[str, str] = {}
    """A node must have these to run the job."""
    retained: Positive = 10
    tolerated_failures: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] = 0
    min_pause: Duration = 0
    epoch_timeout: Duration = "10m"
    on_stop: Literal["cancel", "suspend", "drain"] | None = None
    memory_limit: Annotated[int, msgspec.Meta(ge=LEAST_MEMORY, le=2**53)] | None = None
    """Bytes of all processes of a run."""
    confs: dict[str, str] = {}

    @property
    def epochs(self) -> dict[str, Any]:
        """How epochs are cut, kept and given up."""
        return {
            "min_pause": self.min_pause,
            "timeout": self.epoch_timeout,
            "retained": self.retained,
            "tolerated_failures": self.tolerated_failures,
        }


def settings_of(given: dict[str, Any]) -> JobSettings:
    """What was submitted, checked.

    Raises:
        InvalidStep: (CTL-020) an unknown name or a value that does not fit.
    """
    try:
        settings = msgspec.convert(given, JobSettings)
        EpochPolicy(**settings.epochs)
    except (msgspec.ValidationError, InvalidStep, InvalidPlan) as problem:
        msg = "the settings of the job do not fit"
        known = ", ".join(JobSettings.__struct_fields__)
        raise InvalidStep(msg, code="CTL-020", found=str(problem), known=known, hint="correct that setting") from None
    _check_places(settings)
    return settings


def _check_places(settings: JobSettings) -> None:
    for name, place in {"checkpoint": settings.checkpoint, "manifests": settings.manifests}.items():
        if place is not None and "://" not in place and not PurePath(place).is_absolute():
            msg = f"settings.{name} is relative, and each attempt of a run works in a folder of its own"
            raise InvalidStep(msg, code="CTL-020", found=repr(place), known="an absolute path", hint=f"correct {name}")
