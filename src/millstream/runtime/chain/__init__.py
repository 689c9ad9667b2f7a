"""Fused chains of steps without state."""
