"""Sinks whose epochs wait in the checkpoint and are handed on when they are durable, with a mark that says which were."""
