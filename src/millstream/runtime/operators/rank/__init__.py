"""The best rows of each key."""
