"""Reads stored state as tables."""
