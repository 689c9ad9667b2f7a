"""A sink that keeps published rows in this process, for tests and examples."""
