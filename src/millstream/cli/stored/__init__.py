"""Commands that look at what is stored: checkpoints, savepoints, state, caches."""
