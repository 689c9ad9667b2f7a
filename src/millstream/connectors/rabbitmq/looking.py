"""What `millstream connectors test` says about a queue: nothing is taken from it."""

from __future__ import annotations

from millstream.connectors.rabbitmq.library import AbstractConnection
from millstream.connectors.rabbitmq.links import RabbitLink
from millstream.connectors.rabbitmq.stream_tail import first_offset
from millstream.errors import InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema


def probe_source(options: Options, _: Schema, step: str) -> list[str]:
    """How much is in the queue."""
    link = RabbitLink(options, step=step)
    try:
        if options["kind"] == "stream":
            first = first_offset(link, options["queue"])
            return [
                f"stream queue {options['queue']!r} " + ("is empty" if first is None else f"begins at offset {first}")
            ]
        return [f"queue {options['queue']!r} has {_waiting(link, options['queue'])} messages that wait"]
    finally:
        link.close()


def probe_sink(options: Options, _: Schema, step: str) -> list[str]:
    """Whether the queue is there."""
    link = RabbitLink(options, step=step)
    try:
        if options["exchange"]:
            return [f"rows go to exchange {options['exchange']!r}"]
        return [f"queue {options['queue']!r} is there, with {_waiting(link, options['queue'])} messages that wait"]
    except InvalidStep as problem:
        if problem.code != "RABBIT-004" or not options["create"]:
            raise
        return [f"queue {options['queue']!r} is missing and would be created"]
    finally:
        link.close()


def _waiting(link: RabbitLink, queue: str) -> int:
    async def look(connection: AbstractConnection) -> int:
        async with connection.channel() as channel:
            found = await channel.declare_queue(queue, passive=True)
            return found.declaration_result.message_count or 0

    return link.ask(look, f"the queue {queue!r} cannot be found")
