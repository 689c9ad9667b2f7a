"""Running aggregates and reductions per key."""
