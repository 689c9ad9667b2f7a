"""Windows with triggers, row by row: open windows per key with their timers, panes and state."""
