"""A real RabbitMQ server as a child process of the tests; `scripts/brokers.py install` fetches it."""

import asyncio
import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import aio_pika
import pytest
from scripts import brokers
from tests.servers.ports import free_ports
from tests.servers.proxy import Proxy

_CHILD = Path(__file__).with_name("child.py")
_START_SECONDS = 120
MISSING = "no RabbitMQ server; run `python scripts/brokers.py install`"
SECRET = "RABBITMQ_TEST_PASSWORD"


class RabbitServer:
    """One server in a folder of its own. Tests use queues of their own, and reach it through a proxy if they like."""

    def __init__(self):
        if brokers.rabbitmq_program() is None:
            pytest.skip(MISSING)
        self.folder = Path(tempfile.mkdtemp(prefix="ms-rabbitmq-"))
        (self.folder / "plugins").write_text("[].")
        self._port, distribution, names = free_ports(3)
        self.proxy = Proxy(self._port)
        self._environment = {
            **os.environ,
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"ms{self._port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
        }
        self.url = self._url(self._port)
        self.proxied_url = self._url(self.proxy.port)
        os.environ[SECRET] = "guest"

    def _url(self, port):
        return f"amqp://guest:${{secret:{SECRET}}}@127.0.0.1:{port}/"

    def start(self):
        command = [sys.executable, str(_CHILD), str(os.getpid()), str(brokers.rabbitmq_program())]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment, cwd=self.folder)
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if time.monotonic() > until:
                msg = f"RabbitMQ does not start: {(self.folder / 'log').read_text()[-2000:]}"
                raise RuntimeError(msg)
            time.sleep(0.1)
        return self

    def _answers(self):
        with contextlib.suppress(OSError, aio_pika.exceptions.AMQPError, asyncio.TimeoutError):
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            self.with_channel(lambda channel: asyncio.sleep(0))
            return True
        return False

    def kill(self):
        """`kill -9` of all its processes, which bear its folder in their environment."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"HOME={self.folder}\0".encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
        self._process.wait()

    def restart(self):
        self.kill()
        return self.start()

    def stop(self):
        self.kill()
        self.proxy.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Queues, through a client of the tests' own.

    def with_channel(self, work):
        """What `await work(channel)` gives."""

        async def connected():
            url = f"amqp://guest:guest@127.0.0.1:{self._port}/"
            async with await aio_pika.connect(url, timeout=5) as connection, connection.channel() as channel:
                return await work(channel)

        return asyncio.run(connected())

    def queue(self, *, stream=False, **arguments):
        """A new durable queue; its name."""
        name = f"q{uuid.uuid4().hex[:12]}"
        self.make(name, stream=stream, **arguments)
        return name

    def make(self, name, *, stream=False, **arguments):
        kind = {"x-queue-type": "stream"} if stream else {}
        self.with_channel(lambda channel: channel.declare_queue(name, durable=True, arguments={**kind, **arguments}))

    def delete(self, name):
        self.with_channel(lambda channel: channel.queue_delete(name))

    def send(self, name, bodies, **properties):
        async def work(channel):
            messages = [aio_pika.Message(body, delivery_mode=2, **properties) for body in bodies]
            await asyncio.gather(*(channel.default_exchange.publish(each, name) for each in messages))

        self.with_channel(work)

    def waiting(self, name):
        """How many messages of a plain queue nobody has been given."""

        async def work(channel):
            return (await channel.declare_queue(name, passive=True)).declaration_result.message_count

        return self.with_channel(work)

    def read(self, name):
        """All messages of a plain queue; they stay in it."""

        async def work(channel):
            queue = await channel.declare_queue(name, passive=True)
            found = [await queue.get() for _ in range(queue.declaration_result.message_count)]
            if found:
                await found[-1].nack(multiple=True, requeue=True)
            return found

        return self.with_channel(work)


@functools.cache
def shared_rabbitmq():
    """One server for all tests of this process."""
    server = RabbitServer()
    atexit.register(server.stop)
    return server.start()
