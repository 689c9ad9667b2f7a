"""Patterns as values, and the expressions over their matches."""
