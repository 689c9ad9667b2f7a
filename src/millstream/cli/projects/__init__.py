"""Commands that make projects and benchmarks."""
