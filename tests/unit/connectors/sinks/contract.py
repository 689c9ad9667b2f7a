"""The sink contract, which other packages use too: see `millstream.testing.sink_contract`."""

from millstream.testing.sink_contract import SinkContract

__all__ = ["SinkContract"]
