"""Runs: all work that one input causes, action by action, until nothing is left."""
