"""Ports that nobody listens on."""

import contextlib
import socket


def free_ports(count):
    """Distinct free ports; all are held until all are found."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
