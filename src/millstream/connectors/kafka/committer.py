"""The half of the sink that runs on the driver: an epoch is one transaction, sent when it is durable."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.outgoing.latest import latest_per_key
from millstream.connectors.kafka.outgoing.sending import MessageSender
from millstream.connectors.kafka.outgoing.staging import check_staged, read_staged
from millstream.connectors.kafka.places import KnownPlaces
from millstream.connectors.kafka.target import prepare_target
from millstream.connectors.kafka.transactions.mark_topic import MarkTopic
from millstream.connectors.kafka.transactions.marks import Mark, mark_topic
from millstream.connectors.kafka.transactions.owner import MarkedChange, SinkOwner
from millstream.connectors.kafka.transactions.succession import refuse_newer, take_over
from millstream.connectors.staged_rows import remove_staged, staged_leftovers
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused, Fenced
from millstream.model.connector import NewerOutput, Options
from millstream.model.ids import Epoch
from millstream.model.time import duration_ms


class KafkaCommitter:
    """Publishes what the writers staged. With direct writers there is nothing to publish, and nobody to fence."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options, self._context = options, context
        self._config = client_config(options, step=context.step)
        name = mark_topic(options["prefix"], context.job, context.step)
        self._topic = MarkTopic(self._config, name, step=context.step)
        self._places = KnownPlaces(self._config, next(iter(options["topics"]), None), step=context.step)
        self._owner = SinkOwner(
            self._config,
            self._topic,
            context,
            prefix=options["prefix"],
            timeout_ms=duration_ms(options["transaction_timeout"]),
        )

    def fence(self) -> None:
        """Open the id of this lineage, compare tokens and leave this one's."""
        prepare_target(self._config, self._options, step=self._context.step)
        if not self._context.is_direct:
            self._owner.touch()

    def check_newer(self, history: Sequence[tuple[str, int]]) -> None:
        """Raise when another lineage published beyond the history."""
        if not self._context.is_direct and self._topic.is_there():
            refuse_newer(self._owner.marks(may_abort=False), self._context, dict(history))

    def succeed(self, history: Sequence[tuple[str, int]], newer: NewerOutput) -> None:
        """Close all other lineages of this job and step; what they published beyond the history is refused or kept."""
        if not self._context.is_direct:
            take_over(self._owner, self._context, dict(history), newer)

    def prepare(self, epoch: Epoch, messages: Sequence[Any]) -> Any:
        """List the files in the order of tasks. The digest leaves attempts out: a replay gives the same rows under others.

        What their rows name must be there: behind this the epoch is durable, and would be tried for ever.
        """
        rows = sum(message["rows"] for message in messages)
        if self._context.is_direct:
            return {"rows": rows}
        self._places.check([place for message in messages for place in message.get("places", ())])
        described = [{name: value for name, value in file.items() if name != "places"} for file in messages]
        files = sorted(described, key=lambda file: [int(part) for part in file["task"].split("-")])
        content = [[file["task"], file["rows"], file["digest"]] for file in files]
        digest = hashlib.blake2b(json.dumps(content).encode(), digest_size=12).hexdigest()
        return {"digest": digest, "rows": rows, "files": files}

    def publish(self, epoch: Epoch, transaction: Any) -> None:
        """Send an epoch.

        1. The mark says whether it is published already, and with which content.  2. Check the staged messages.
        3. Send them with the new mark, in one transaction.  4. Remove them.
        When a reply is lost or the producer is, step 1 decides again, from the mark that is there then.
        """
        if self._context.is_direct:
            return
        try:
            self._owner.change(lambda mark: self._decided(mark, epoch, transaction))
        except CheckpointRefused:
            # What a late owner finds changed, its successor has changed.
            self._owner.touch()
            raise
        # Step 4. Remove them
        remove_staged(self._context.staging, [file["file"] for file in transaction["files"]])

    def _decided(self, mark: Mark, epoch: Epoch, transaction: Any) -> MarkedChange | None:
        # Step 1. The mark says whether it is published already
        match mark.standing(epoch, transaction["digest"]):
            case "published":
                return None
            case "other rows":
                raise self._changed(mark, epoch, transaction)
            case "new":
                # Step 2. Check the staged messages
                folder, step = self._context.staging, self._context.step
                check_staged(folder, transaction["files"], epoch=epoch, step=step)
                # Step 3. Send them with the new mark
                owned = mark.owned(self._context.token)
                published = owned.with_epoch(epoch, transaction["digest"], transaction["rows"])
                return MarkedChange(mark=published, fill=lambda sender: self._send(sender, transaction["files"]))

    def _send(self, sender: MessageSender, files: Sequence[Any]) -> None:
        topics: list[str] = self._options["topics"]
        staged = (batch for file in files for batch in read_staged(self._context.staging, file))
        for batch in latest_per_key(list(staged)) if self._options["mode"] == "upsert" else staged:
            sender.send(batch, topics[0] if topics else None)

    def _changed(self, mark: Mark, epoch: Epoch, transaction: Any) -> CheckpointRefused:
        msg = f"epoch {epoch} is already published with other rows"
        return CheckpointRefused(
            msg,
            code="SINK-001",
            step=self._context.step,
            found=f"{transaction['rows']} rows",
            known=f"{mark.epochs[epoch][1]} published rows",
            hint="the job is not deterministic, or two jobs share a lineage; start a new lineage",
        )

    def discard(self, messages: Sequence[Any]) -> None:
        """Remove files of messages that will never be sent.

        Once a later owner has fenced this one, it decides: the files may belong to an epoch that it publishes.
        """
        if messages and not self._context.is_direct:
            with contextlib.suppress(Fenced):
                self._owner.touch()
                remove_staged(self._context.staging, [message["file"] for message in messages])

    def recover(self, durable: Epoch | None) -> None:
        """Remove files of this owner and earlier ones: whatever is durable has been sent before."""
        if not self._context.is_direct:
            # A late owner would take the files of the one that replaced it for leftovers.
            self._owner.touch()
            remove_staged(self._context.staging, staged_leftovers(self._context.staging, token=self._context.token))

    def close(self) -> None:
        """Close the producer."""
        self._owner.close()
