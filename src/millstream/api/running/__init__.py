"""A job that runs: what may be asked of it, what it tells, and its result."""
