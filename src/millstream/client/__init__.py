"""The service from afar: `Client`."""

from millstream.client.service import Client

__all__ = ["Client"]
