"""What becomes of a run that failed: whether and when it starts again."""
