"""Patterns: rows of a key that follow each other in a given way."""
