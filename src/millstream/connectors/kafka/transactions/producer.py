"""A transactional producer: it sends and commits, or is lost and another one has to look what became of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from millstream.checkpoint.failpoint import failpoint
from millstream.connectors.kafka.clients import (
    PATIENCE,
    ClientErrors,
    Undelivered,
    error_of,
    failure,
    is_refusal,
    is_unfit,
    open_admin,
    open_producer,
)
from millstream.connectors.kafka.library import ConfigResource, KafkaError, KafkaException
from millstream.connectors.kafka.outgoing.sending import MessageSender
from millstream.connectors.kafka.transactions.questions import ASK_SECONDS, answer, polled
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError

_RETRY_MS = 250
_ONE_TRY_SECONDS = 0.15
"""Within this time the client, which waits longer before it sends a request again, has sent it once."""
_INIT_SECONDS = 15.0
_COMMIT_SECONDS = 5.0
_ABORT_SECONDS = 5.0


class ProducerLost(Exception):
    """Fenced, expired, or nobody knows: a new producer and the mark decide what happened."""

    def __init__(self, error: KafkaError, errors: ClientErrors) -> None:
        super().__init__(error.str())
        self._error, self._errors = error, errors

    def failure(self, *, step: str) -> MillstreamError:
        """The error to raise when patience has ended."""
        if self._error.code() != KafkaError._FENCED:
            return failure("messages cannot be written", self._error, self._errors, step=step)
        msg = "transactions of this sink are ended by the broker before they are committed"
        hint = "pass a longer transaction_timeout= if epochs are large, or end the other run that bears this job's name"
        return ExternalFailure(msg, code="KAFKA-025", step=step, found=self._error.str(), hint=hint)


class TransactionalProducer:
    """One transaction after the other, under an id that fences whoever opened it before."""

    def __init__(self, config: Mapping[str, Any], id: str, *, timeout_ms: int, step: str) -> None:
        self._config, self._step, self._timeout_ms = config, step, timeout_ms
        self._errors, self._undelivered = ClientErrors(), Undelivered()
        own = {
            "transactional.id": id,
            "transaction.timeout.ms": timeout_ms,
            # Of messages that wait longer than their transaction lives, none can arrive.
            "message.timeout.ms": timeout_ms,
            "retry.backoff.ms": _RETRY_MS,
        }
        self.is_spent = False
        """Whether a commit may be under way a second time. Arriving late, it would commit half of the next transaction."""
        self._client = open_producer({**config, **own}, step=step, errors=self._errors, undelivered=self._undelivered)

    def init(self) -> None:
        """Fence earlier owners of the id. What they had begun to commit is committed then, all else is aborted.

        Raises:
            ProducerLost: the broker did not answer.
        """
        try:
            with polled(self._client):
                # Before it is connected, the client would look for the coordinator in vain, and then every half second.
                self._client.cluster_id(ASK_SECONDS)
                self._client.init_transactions(_INIT_SECONDS)
        except KafkaException as problem:
            error = error_of(problem)
            if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise self._too_long() from None
            raise self._lost(error) from None

    def run(self, fill: Callable[[MessageSender], None], *, heartbeat: Callable[[], None]) -> None:
        """Send what `fill` sends, in one transaction.

        Raises:
            ProducerLost: it is not known, or not certain, that all of it is committed.
        """
        try:
            self._client.begin_transaction()
            sender = MessageSender(self._client, heartbeat, step=self._step)
            fill(sender)
            sender.drain()
            failpoint("sink_transaction")
            self._commit(heartbeat, time.monotonic() + PATIENCE)
        except KafkaException as problem:
            lost = self._lost(error_of(problem))
            if not isinstance(lost, ProducerLost):
                self._abort()
            raise lost from None
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> None:
        """Readers need not wait for a transaction of which nothing will come."""
        with contextlib.suppress(KafkaException):
            self._client.abort_transaction(_ABORT_SECONDS)

    def _commit(self, heartbeat: Callable[[], None], until: float) -> None:
        """Until the broker says so: when its reply was lost, the same call again gets it."""
        began = time.monotonic()
        while True:
            try:
                self._client.commit_transaction(_COMMIT_SECONDS)
            except KafkaException as problem:
                if not error_of(problem).retriable() or time.monotonic() > until:
                    raise
                heartbeat()
            else:
                self.is_spent = time.monotonic() - began > _ONE_TRY_SECONDS
                return

    def close(self) -> None:
        """Drop what waits. The client's own `close` would wait for a transaction that is lost, and warn of it."""
        self._client.purge()

    def _lost(self, error: KafkaError) -> Exception:
        if self._undelivered.error is not None and not error.fatal():
            error = self._undelivered.error
        if is_refusal(error) or is_unfit(error) or self._errors.is_refused:
            return failure("messages cannot be written", error, self._errors, step=self._step)
        return ProducerLost(error, self._errors)

    def _too_long(self) -> InvalidStep:
        msg = "transactions may not last as long as transaction_timeout= says"
        hint = "pass a shorter transaction_timeout=, or raise transaction.max.timeout.ms on the brokers"
        found = f"{self._timeout_ms} ms"
        return InvalidStep(msg, code="KAFKA-023", step=self._step, found=found, known=self._longest(), hint=hint)

    def _longest(self) -> str:
        """What the brokers allow, where they tell."""
        admin = open_admin(self._config, step=self._step)
        try:
            broker = next(iter(admin.list_topics(timeout=ASK_SECONDS).brokers))
            resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
            settings = answer(admin.describe_configs([resource], request_timeout=ASK_SECONDS)[resource])
        except KafkaException:
            return "transaction.max.timeout.ms of the brokers"
        return f"{settings['transaction.max.timeout.ms'].value} ms"
