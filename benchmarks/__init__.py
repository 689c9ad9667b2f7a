"""Benchmarks: one file per comparison, ours and the rival on the same data in the same run."""
