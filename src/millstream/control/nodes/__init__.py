"""Nodes: they have slots, claim runs under a lease, start a driver for each, and answer for it until it ends."""
