"""Graphs of steps: `StreamModel` as the user wrote it, `StreamGraph` resolved, `JobGraph` chained."""
