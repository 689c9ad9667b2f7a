"""Generated rows that are a pure function of a seed."""
