"""Windows, triggers and evictors as values."""
