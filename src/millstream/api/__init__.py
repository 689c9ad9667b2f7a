"""What a user writes: jobs, streams, keyed streams, windows, state and functions."""
