"""Patterns: rows of one key that follow each other in a given way."""
