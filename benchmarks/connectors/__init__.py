"""Comparisons that need servers: `python -m benchmarks connectors`."""
