"""Aggregates, windows, triggers, evictors, watermarks and patterns as the user names them."""
