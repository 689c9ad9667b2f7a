"""A TCP proxy between a client and a server that loses what a test tells it to lose."""

import contextlib
import socket
import threading

_ANSWER_SECONDS = 10


class Proxy:
    """Forwards a port of this machine to another, message by message as they come in.

    `lose_reply_to(text)`: the next message with this text reaches the server, its answer is lost and the client cut off.
    `hold(text)`: the next message with this text is kept, the client cut off; `release()` lets it arrive late.
    Instead of a text, both take a function that tells the message by its bytes.
    """

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.lost = threading.Event()
        self._answered = threading.Event()
        self._lock = threading.Lock()
        self._rule = None
        self._held = None
        self._open = set()
        self._swallowed = set()
        self._swallows_all = False
        self.delay = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_reply_to(self, text):
        self.lost.clear()
        self._rule = ("lose", text)

    def hold(self, text):
        self.lost.clear()
        self._rule = ("hold", text)

    def release(self):
        """Deliver the held message, long after its sender was cut off, and wait until the server has answered."""
        server, data = self._held
        self._held = None
        self._answered.clear()
        with contextlib.suppress(OSError):
            server.sendall(data)
        self._answered.wait(_ANSWER_SECONDS)
        _close(server)

    def cut(self):
        """Cut all connections."""
        with self._lock:
            for connection in list(self._open):
                _close(connection)
            self._open.clear()

    def swallow(self, *, newcomers=False):
        """Whoever is connected stays so and hears nothing any more; who connects from now on too, if told."""
        with self._lock:
            self._swallowed |= self._open
            self._swallows_all = newcomers

    def _is_swallowed(self, connection):
        return self._swallows_all or connection in self._swallowed

    def open_up(self):
        """Newcomers get through again; what was swallowed stays so."""
        self.swallow()

    @contextlib.contextmanager
    def away(self):
        """Nobody gets through, neither who is there nor who comes."""
        there, self._target = self._target, None
        self.cut()
        try:
            yield
        finally:
            self._target = there

    def close(self):
        self.cut()
        _close(self._listener)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        target = self._target
        if target is None:
            _close(client)
            return
        try:
            server = socket.create_connection(target)
        except OSError:
            _close(client)
            return
        with self._lock:
            self._open |= {client, server}
        silent = threading.Event()
        threading.Thread(target=self._answers, args=(server, client, silent), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._is_swallowed(client):
                    continue
                if not self._forward(data, server, silent):
                    _close(client)
                    return
        _close(server)

    def _forward(self, data, server, silent):
        """Whether the client may go on."""
        with self._lock:
            action, text = self._rule or (None, b"")
            if action is None or not (text(data) if callable(text) else text in data):
                action = None
            else:
                self._rule = None
        if action is None:
            if self.delay:
                threading.Event().wait(self.delay)
            server.sendall(data)
            return True
        silent.set()
        if action == "lose":
            # The rest of the message may come in another piece: the client is cut off when the server answers.
            server.sendall(data)
            return True
        self._held = (server, data)
        self.lost.set()
        return False

    def _answers(self, server, client, silent):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if silent.is_set():
                    break
                if self._is_swallowed(client):
                    continue
                client.sendall(data)
        if silent.is_set():
            self.lost.set()
            self._answered.set()
        _close(client)


def _close(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
