"""Process functions with state and timers, over one stream or two."""
