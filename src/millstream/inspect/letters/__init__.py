"""Dead letters of a job: looked at, replayed and removed, without the process that runs it."""
