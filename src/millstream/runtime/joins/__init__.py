"""Joins of two keyed streams: over time, for ever, by window, and by version."""
