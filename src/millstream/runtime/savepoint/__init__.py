"""Savepoints on the side of the tasks: writing pages out, reading them in, changing their layout, looking at them."""
