"""Opens clients of librdkafka, and says in our words what they report.

What librdkafka logs is told by the errors that calls raise, or mended by trying again: it goes to the log for those who look
for it, and not to the terminal.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from typing import Any

from millstream.connectors.kafka.client_options import SECRETS
from millstream.connectors.kafka.library import AdminClient, Consumer, KafkaError, KafkaException, Producer
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError, StepFailed
from millstream.redaction import HIDDEN

PATIENCE = 60.0
"""For how many seconds a broker that does not answer is asked again."""

_log = logging.getLogger(__name__)
_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_UNFIT = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError._UNKNOWN_PARTITION,
    }
)


class ClientErrors:
    """What a client reported about its connections. A call that only timed out does not say why; this does."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the broker does not let us in."""
        return self.last is not None and is_refusal(self.last)

    def __call__(self, error: KafkaError) -> None:
        """Called by the client while it is polled."""
        if not self.is_refused:
            self.last = error


class Undelivered:
    """The first message that did not arrive, and why."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _: Any) -> None:
        """Called by the client while it is polled, for messages that did not arrive alone."""
        if error is not None and self.error is None:
            self.error = error


class _QuietLog:
    """Takes the place of a logger."""

    def log(self, _: int, *message: Any) -> None:
        _log.debug(*message)


def open_producer(config: Mapping[str, Any], *, step: str, errors: ClientErrors, undelivered: Undelivered) -> Producer:
    """An idempotent producer, which spreads keys over partitions as those of other languages do."""
    fixed = {
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "on_delivery": undelivered,
        # How many wait is counted here, where it can be waited for.
        "queue.buffering.max.messages": 0,
    }
    return _opened(Producer, {"compression.type": "lz4", **config, **fixed}, step, errors)  # type: ignore[no-any-return]


def open_consumer(
    config: Mapping[str, Any], *, step: str, errors: ClientErrors | None = None, group: str = "millstream"
) -> Consumer:
    """A consumer to which partitions are assigned: it joins no group and skips nothing silently."""
    fixed = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "error"}
    return _opened(Consumer, {**config, **fixed}, step, errors)  # type: ignore[no-any-return]


def open_admin(config: Mapping[str, Any], *, step: str, errors: ClientErrors | None = None) -> AdminClient:
    """A client for questions about topics and settings."""
    return _opened(AdminClient, config, step, errors)  # type: ignore[no-any-return]


def _opened(kind: Any, config: Mapping[str, Any], step: str, errors: ClientErrors | None) -> Any:
    noted = {"error_cb": errors} if errors is not None else {}
    try:
        return kind({**config, **noted}, logger=_QuietLog())
    except KafkaException as problem:
        msg = "the client refuses its settings"
        found = without_secrets(error_of(problem).str(), config)
        raise InvalidStep(msg, code="KAFKA-003", step=step, found=found, hint="correct client=") from None


def leave_to_parent(client: AdminClient | Consumer | Producer) -> None:
    """Keep a client of the parent process for ever: a child that lets it go waits for threads that it has not, or crashes."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


def error_of(problem: KafkaException) -> KafkaError:
    """The error inside an exception."""
    error = problem.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(problem))


def is_refusal(error: KafkaError) -> bool:
    """Whether the broker knows us and says no: asking again changes nothing."""
    return error.code() in _REFUSED


def is_unfit(error: KafkaError) -> bool:
    """Whether a message, as it is, can never be written."""
    return error.code() in _UNFIT


def failure(doing: str, error: KafkaError, errors: ClientErrors | None = None, *, step: str) -> MillstreamError:
    """The error to raise for one of the client's, which may have told more about its connections before.

    Args:
        doing: what failed, such as "the marks cannot be read".
        error: what the call reported.
        errors: what the client reported besides.
        step: the step concerned.
    """
    told = errors.last if errors is not None and errors.last is not None and not is_refusal(error) else error
    found = f"{told.name()}: {told.str()}"
    if is_refusal(told):
        hint = "correct the SASL settings of client=, or let the user of them do this on the broker"
        return ExternalFailure(f"{doing}: the broker refuses", code="KAFKA-005", step=step, found=found, hint=hint)
    if is_unfit(error):
        hint = "change the rows, or raise the limits of topic and client (max.message.bytes, message.max.bytes)"
        return StepFailed(f"{doing}: a message is refused", code="KAFKA-021", step=step, found=found, hint=hint)
    hint = "see that the brokers in servers= can be reached, and start again"
    return ExternalFailure(doing, code="KAFKA-002", step=step, found=found, hint=hint)


def without_secrets(text: str, config: Mapping[str, Any]) -> str:
    """A text of the client without the values of secrets."""
    for name in SECRETS & config.keys():
        text = text.replace(str(config[name]), HIDDEN)
    return text
