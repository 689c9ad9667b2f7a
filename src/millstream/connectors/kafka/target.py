"""What has to be there before a job writes: its topic, and the same marks as when its checkpoint was last used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from millstream.connectors.decided import decided_once
from millstream.connectors.kafka.clients import ClientErrors, open_admin
from millstream.connectors.kafka.library import AdminClient, KafkaError, KafkaException, NewTopic
from millstream.connectors.kafka.transactions.questions import ASK_SECONDS, create_topic, patiently_asked, polled
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused, InvalidStep
from millstream.model.connector import Options

_REMEMBERED = "marks"


def prepare_target(config: Mapping[str, Any], options: Options, *, step: str) -> None:
    """See that the topic is there; create it where that is wanted.

    Raises:
        InvalidStep: (KAFKA-004) it is not there.
    """
    errors = ClientErrors()
    admin = open_admin(config, step=step, errors=errors)
    for topic in options["topics"]:
        prepare = partial(_prepare, admin, topic, options, step)
        patiently_asked(prepare, f"topic {topic!r} cannot be looked up", errors, step=step)


def _prepare(admin: AdminClient, topic: str, options: Options, step: str) -> None:
    with polled(admin):
        error = admin.list_topics(topic, timeout=ASK_SECONDS).topics[topic].error
    if error is None:
        return
    if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(error)
    if not options["create"]:
        msg = f"the topic {topic!r} does not exist"
        raise InvalidStep(msg, code="KAFKA-004", step=step, hint="create it, or leave create=False out")
    settings = {"cleanup.policy": "compact"} if options["mode"] == "upsert" else {}
    create_topic(admin, NewTopic(topic, num_partitions=-1, replication_factor=-1, config=settings))


def remember_marks(context: SinkContext, topic: str, topic_id: str) -> None:
    """Note in the checkpoint which marks belong to it; refuse others.

    Without its marks a sink does not know what it has published: it would send the last epoch again.

    Raises:
        CheckpointRefused: (SINK-005) the marks are not those of the last run.
    """
    now = {"topic": topic, "id": topic_id}
    known = decided_once(Path(context.staging) if context.staging else None, _REMEMBERED, lambda: now)
    if known != now:
        msg = "the marks of this sink are not those of its last run; nothing shows what is published"
        path = Path(context.staging) / f"{_REMEMBERED}.json"
        hint = f"restore the topic; or see that all of the last epoch is in the target, and remove {str(path)!r}"
        found = f"topic {topic!r} with id {topic_id}"
        raise CheckpointRefused(msg, code="SINK-005", step=context.step, found=found, known=str(known), hint=hint)
