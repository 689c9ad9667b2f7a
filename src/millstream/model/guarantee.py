"""Processing guarantees, the capabilities of connectors, and which capability serves which guarantee."""

from __future__ import annotations

from enum import StrEnum

from millstream.errors import InvalidStep


class Guarantee(StrEnum):
    """What a job promises about its output."""

    EXACTLY_ONCE = "exactly_once"
    EFFECTIVELY_ONCE = "effectively_once"
    AT_LEAST_ONCE = "at_least_once"
    BEST_EFFORT = "best_effort"


class SourceCapability(StrEnum):
    """What a source can do after a restart."""

    REPLAYABLE = "REPLAYABLE"
    TRANSACTIONAL_READ = "TRANSACTIONAL_READ"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    BEST_EFFORT = "BEST_EFFORT"


class SinkCapability(StrEnum):
    """How a sink makes rows visible."""

    TWO_PHASE_COMMIT = "TWO_PHASE_COMMIT"
    STAGED_ATOMIC_COMMIT = "STAGED_ATOMIC_COMMIT"
    OUTBOX_EPOCH_LOG = "OUTBOX_EPOCH_LOG"
    UPSERT_BY_KEY = "UPSERT_BY_KEY"
    IDEMPOTENT = "IDEMPOTENT"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    BEST_EFFORT = "BEST_EFFORT"


_REPLAYS = frozenset({SourceCapability.REPLAYABLE, SourceCapability.TRANSACTIONAL_READ})
_ATOMIC = frozenset(
    {SinkCapability.TWO_PHASE_COMMIT, SinkCapability.STAGED_ATOMIC_COMMIT, SinkCapability.OUTBOX_EPOCH_LOG}
)
_CONVERGES = _ATOMIC | {SinkCapability.UPSERT_BY_KEY, SinkCapability.IDEMPOTENT}

SOURCES_FOR: dict[Guarantee, frozenset[SourceCapability]] = {
    Guarantee.EXACTLY_ONCE: _REPLAYS,
    Guarantee.EFFECTIVELY_ONCE: _REPLAYS,
    Guarantee.AT_LEAST_ONCE: _REPLAYS | {SourceCapability.AT_LEAST_ONCE},
    Guarantee.BEST_EFFORT: frozenset(SourceCapability),
}
SINKS_FOR: dict[Guarantee, frozenset[SinkCapability]] = {
    Guarantee.EXACTLY_ONCE: _ATOMIC,
    Guarantee.EFFECTIVELY_ONCE: _CONVERGES,
    Guarantee.AT_LEAST_ONCE: _CONVERGES | {SinkCapability.AT_LEAST_ONCE},
    Guarantee.BEST_EFFORT: frozenset(SinkCapability),
}


def guarantee_of(value: str) -> Guarantee:
    """Read a guarantee by name."""
    try:
        return Guarantee(value)
    except ValueError:
        msg = "unknown guarantee"
        raise InvalidStep(
            msg,
            code="STEP-005",
            found=repr(value),
            known=[g.value for g in Guarantee],
            hint="pass guarantee='exactly_once'",
        ) from None
