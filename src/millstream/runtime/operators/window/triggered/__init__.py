"""Windows that fire when their trigger says so."""
