"""Scripted rows as a bounded source, for tests and examples."""
