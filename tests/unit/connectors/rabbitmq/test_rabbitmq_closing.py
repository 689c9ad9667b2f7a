"""The end of a connection to a server that says nothing any more, without a broker."""

import asyncio

import pytest
from aiormq.exceptions import AMQPConnectionError

from millstream.connectors.messaging.loop import close_loop
from millstream.connectors.rabbitmq import links
from millstream.connectors.rabbitmq.links import RabbitLink


class Deaf:
    """A connection whose close fails, or never ends."""

    is_closed = False

    def __init__(self, problem):
        self.problem, self.closes = problem, 0

    async def close(self):
        self.closes += 1
        if self.problem is None:
            await asyncio.sleep(60)
        raise self.problem


@pytest.mark.parametrize("problem", [None, TimeoutError(), AMQPConnectionError(), RuntimeError()])
def test_a_server_that_says_nothing_does_not_fail_the_end_of_a_job(monkeypatch, problem):
    monkeypatch.setattr(links, "_ASK_SECONDS", 0.1)
    link = RabbitLink({"url": "amqp://127.0.0.1:1/"}, step="in")
    link._connection = deaf = Deaf(problem)
    link.close()
    link.close()
    assert deaf.closes == (1 if problem is None else 2)
    close_loop()
