"""Figures of a run in the text format that Prometheus reads."""
