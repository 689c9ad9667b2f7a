"""Functions of the user while a job runs: their life, their context, their calls."""
