"""Streams of every kind: each method adds one step."""
