"""The `millstream` command: one file per sub-command; parse, call, print."""
