"""Spark's own files in a checkpoint, read and mended without Spark."""
