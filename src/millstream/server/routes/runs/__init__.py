"""Runs: what they are, what they do now, their epochs, and operations on them."""
