"""What an agent remembers of a key, and of a run."""
