"""What a driver thread received, written down before an epoch reads it: for sources that cannot be asked for the same again."""
