"""A real NATS server with JetStream as a child process of the tests, from its wheel; and streams as tests make and read them."""

import asyncio
import atexit
import contextlib
import functools
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from pathlib import Path

import nats
from nats.js.errors import NotFoundError
from tests.servers.ports import free_ports
from tests.servers.proxy import Proxy

_CHILD = Path(__file__).with_name("child.py")
_PROGRAM = Path(sysconfig.get_path("scripts")) / "nats-server"
_START_SECONDS = 30


class NatsServer:
    """One server in a folder of its own, on a port that stays the same over restarts. Tests use streams of their own."""

    def __init__(self, *, arguments=(), proxied=False):
        self.folder = Path(tempfile.mkdtemp(prefix="ms-nats-"))
        (self._port,) = free_ports(1)
        self.servers = f"127.0.0.1:{self._port}"
        self.proxy = Proxy(self._port) if proxied else None
        self.proxied_servers = f"127.0.0.1:{self.proxy.port}" if proxied else None
        self._arguments, self._process = arguments, None
        self.credentials = {}
        """Arguments with which the tests' own client connects."""

    def start(self):
        serve = [str(_PROGRAM), "-js", "-sd", str(self.folder), "-p", str(self._port), "-a", "127.0.0.1"]
        command = [sys.executable, str(_CHILD), str(os.getpid()), *serve, *self._arguments]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + _START_SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > until:
                msg = f"the NATS server does not start: {(self.folder / 'log').read_text()[-2000:]}"
                raise RuntimeError(msg)
            time.sleep(0.01)
        return self

    def _listens(self):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            return True
        return False

    def kill(self):
        """`kill -9`; what was confirmed is there after the next start."""
        self._process.kill()
        self._process.wait()

    def restart(self):
        self.kill()
        return self.start()

    def stop(self):
        if self._process is not None:
            self.kill()
        if self.proxy is not None:
            self.proxy.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Streams, through a client of the tests' own.

    def with_client(self, work):
        """What `await work(client, jetstream)` gives."""

        async def connected():
            client = await nats.connect(f"nats://{self.servers}", **self.credentials)
            try:
                return await work(client, client.jetstream())
            finally:
                await client.close()
                await asyncio.sleep(0.001)  # its socket is closed in a later turn of the loop

        return asyncio.run(connected())

    def stream(self, *, subjects=None, **settings):
        """A new stream; its name."""
        name = f"s{uuid.uuid4().hex[:12]}"
        self.make(name, subjects=subjects or [name, f"{name}.>"], **settings)
        return name

    def make(self, name, **settings):
        self.with_client(lambda _, js: js.add_stream(name=name, **settings))

    def send(self, subject, bodies, headers=None):
        async def work(_, js):
            futures = [await js.publish_async(subject, body, headers=headers) for body in bodies]
            await asyncio.gather(*futures)

        self.with_client(work)

    def delete(self, name):
        self.with_client(lambda _, js: js.delete_stream(name))

    def purge(self, name, **options):
        self.with_client(lambda _, js: js.purge_stream(name, **options))

    def info(self, name):
        return self.with_client(lambda _, js: js.stream_info(name))

    def read(self, name, subject=">"):
        """All messages of a stream that fit a subject, as its readers see them."""

        async def work(_, js):
            found = []
            sub = await js.subscribe(subject, stream=name, ordered_consumer=True)
            told = await sub.consumer_info()
            pending = told.num_pending + told.delivered.consumer_seq  # some may be on their way already
            while pending:
                message = await sub.next_msg(5)
                found.append(message)
                pending = message.metadata.num_pending
            return found

        try:
            return self.with_client(work) if self.info(name).state.messages else []
        except NotFoundError:
            return []


@functools.cache
def shared_nats():
    """One server for all tests of this process."""
    server = NatsServer().start()
    atexit.register(server.stop)
    return server
