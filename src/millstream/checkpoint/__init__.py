"""Epochs that are durable or did not happen: manifests, their stores, and the coordinator. Decisions over values."""
