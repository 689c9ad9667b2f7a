"""Decides each epoch before it runs."""
