"""The source contract, which other packages use too: see `millstream.testing.source_contract`."""

from millstream.testing.source_contract import PATIENCE, SourceContract, read_all, rest_of, walked

__all__ = ["PATIENCE", "SourceContract", "read_all", "rest_of", "walked"]
