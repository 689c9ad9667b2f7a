"""Windows per key."""
