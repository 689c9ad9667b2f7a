"""What happens to records, without an engine: chains, exchange, keyed operators, state, timers, windows."""
