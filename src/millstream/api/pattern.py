"""What `ms.pattern` offers: `begin`, and the types of what it leads to."""

from millstream.api.streams.matched import PatternStream
from millstream.api.values.pattern import Between, ConditionLike, Pattern, begin

__all__ = ["Between", "ConditionLike", "Pattern", "PatternStream", "begin"]
