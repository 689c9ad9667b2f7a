"""Traces of runs for OpenTelemetry: spans from what nodes know and drivers report, and the way out to a collector."""
