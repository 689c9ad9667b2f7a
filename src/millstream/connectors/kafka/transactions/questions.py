"""Questions about topics, asked until there is an answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from millstream.connectors.kafka.clients import PATIENCE, ClientErrors, error_of, failure, is_refusal
from millstream.connectors.kafka.library import AdminClient, Consumer, KafkaError, KafkaException, NewTopic, Producer
from millstream.database.retry import repeated

T = TypeVar("T")

ASK_SECONDS = 10.0
"""For how many seconds one question waits for its answer."""


def patiently_asked(attempt: Callable[[], T], doing: str, errors: ClientErrors, *, step: str) -> T:
    """Ask until there is an answer, a refusal, or patience ends; `doing` says what failed then."""

    def passes(problem: Exception) -> bool:
        return isinstance(problem, KafkaException) and not is_refusal(error_of(problem)) and not errors.is_refused

    try:
        return repeated(attempt, passes=passes, patience=PATIENCE)
    except KafkaException as problem:
        raise failure(doing, error_of(problem), errors, step=step) from None


@contextlib.contextmanager
def polled(client: AdminClient | Consumer | Producer) -> Iterator[None]:
    """When a call fails, let the client report what it knows of its connections."""
    try:
        yield
    except KafkaException:
        client.poll(0)
        raise


def answer(future: Future[T]) -> T:
    """What an admin client was told; its requests last `ASK_SECONDS` by themselves.

    Raises:
        KafkaException: the broker says no, or nothing.
    """
    try:
        return future.result(2 * ASK_SECONDS)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")) from None


def create_topic(admin: AdminClient, topic: NewTopic) -> None:
    """Create a topic, unless somebody else just did."""
    try:
        answer(admin.create_topics([topic], request_timeout=ASK_SECONDS)[topic.topic])
    except KafkaException as problem:
        if error_of(problem).code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
