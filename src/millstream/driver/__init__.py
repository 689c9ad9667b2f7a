"""The process that runs one job: planner, query, epochs."""
