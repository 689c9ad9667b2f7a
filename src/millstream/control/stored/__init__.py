"""State and dead letters of jobs: where they lie, which node can see them, and reading them there."""
